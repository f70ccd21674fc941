"""Charts of bins and areas, as specifications."""

from __future__ import annotations

from typing import Any

from crosslevel.reports.pages.parts import BLUE, GREY, ORANGE, interval_chart, maps, tips
from crosslevel.reports.views import Features, Rows, View
from crosslevel.results.display import level_words

__all__ = ["bins_view", "density_view", "maps_view", "points_view", "ranked_view"]

Spec = dict[str, Any]

_NUMBERS = tips(
    ("estimate", "estimate"), ("conf_low", "from"), ("conf_high", "to"), ("std_error", "standard deviation")
)
_BESIDE = {"area_weighted": "every total spread evenly", "nested_rate": "every area's rate that of the area around it"}


def _band(data: str) -> list[Spec]:
    x: Spec = {"field": "x", "type": "quantitative"}
    return [
        {
            "data": {"name": data},
            "mark": {"type": "area", "color": BLUE, "opacity": 0.22},
            "encoding": {
                "x": x,
                "y": {"field": "conf_low", "type": "quantitative"},
                "y2": {"field": "conf_high"},
            },
        },
        {
            "data": {"name": data},
            "mark": {"type": "line", "fill": None, "color": BLUE, "strokeWidth": 2},
            "encoding": {
                "x": x,
                "y": {"field": "estimate", "type": "quantitative"},
                "tooltip": [*tips(("x", "at")), *_NUMBERS],
            },
        },
    ]


def density_view(level: float, kind: str, pooled: bool, bars: bool = True) -> View:
    """Show the bins that were observed, and the density behind them with its band."""
    high = {"total": "per unit of the axis", "mean": "mean", "rate": "rate", "share": "share"}.get(kind, kind)
    observed: Spec = {
        "data": {"name": "observed"},
        "mark": {"type": "bar", "color": GREY, "opacity": 0.35, "stroke": "white", "strokeWidth": 0.6},
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "title": None, "scale": {"zero": False}},
            "x2": {"field": "to"},
            "y": {"field": "height", "type": "quantitative", "title": high},
            "y2": {"datum": 0},
            "tooltip": tips(("from", "from"), ("to", "to"), ("observed", "observed"), ("height", high)),
        },
    }
    axis = _band("curve")
    if not bars:
        axis[0]["encoding"]["x"] = {"field": "x", "type": "quantitative", "title": None, "scale": {"zero": False}}
        axis[0]["encoding"]["y"] = {"field": "conf_low", "type": "quantitative", "title": high}
    where = {"area": "area"} if pooled else {}
    data = {"curve": Rows("curve", where=where)}
    if bars:
        data["observed"] = Rows("observed", where=where)
    said = "Grey bars are the bins as they were observed" if bars else "The curve of what was observed in bins"
    per = ", total divided by width" if bars and kind == "total" else ""
    return View(
        name="density",
        title="What was observed, and the curve behind it",
        caption=f"{said}{per}; the line is the posterior density, the band its {level_words(level)}, point by point.",
        spec={"width": "container", "height": 300, "layer": [*([observed] if bars else []), *axis]},
        data=data,
        choices=("area",) if pooled else (),
    )


def points_view(level: float | None, pooled: bool) -> View:
    """Show predictions at points as a curve with its band."""
    layers = _band("rows")
    layers[0]["encoding"]["x"] = {"field": "x", "type": "quantitative", "title": None, "scale": {"zero": False}}
    layers[0]["encoding"]["y"] = {"field": "conf_low", "type": "quantitative", "title": "per unit of the axis"}
    return View(
        name="points",
        title="The curve behind the bins",
        caption=f"The density at points with its {level_words(level)}, point by point.",
        spec={"width": "container", "height": 300, "layer": layers},
        data={"rows": Rows("points", where={"area": "area"} if pooled else {})},
        choices=("area",) if pooled else (),
    )


def bins_view(level: float | None, what: str, pooled: bool, beside: str | None) -> View:
    """Show what is predicted of each bin."""
    tooltip = [*tips(("label", "bin", "nominal")), *_NUMBERS]
    tooltip += tips(("beside", _BESIDE[beside])) if beside else []
    naive = f" Open marks: the naive answer, {_BESIDE[beside]}." if beside else ""
    return View(
        name="bins",
        title="Predictions of bins",
        caption=f"The {what} of each bin that was asked for, with its {level_words(level)}.{naive}",
        spec=interval_chart(
            "rows",
            label="label",
            x_title=what,
            tooltip=tooltip,
            other=("beside", ORANGE) if beside else None,
        ),
        data={"rows": Rows("bins", where={"area": "area"} if pooled else {})},
        choices=("area",) if pooled else (),
    )


def maps_view(level: float | None, dots: bool) -> View:
    """Map means and standard deviations side by side."""
    fields = (
        ("place", "place", "nominal"),
        ("estimate", "estimate"),
        ("conf_low", "from"),
        ("conf_high", "to"),
        ("std_error", "standard deviation"),
    )
    sides: list[tuple[str, str, Spec]] = [
        ("estimate", "mean", {"scheme": "viridis"}),
        ("std_error", "standard deviation", {"scheme": "oranges", "zero": True}),
    ]
    return View(
        name="maps",
        title="What is estimated of each place, and how sure it is",
        caption=f"Left the mean, right its standard deviation: the darker, the less is known. Pointing at a place shows its "
        f"{level_words(level)}.",
        spec=maps(sides, fields, dots),
        data={"places": Features("areas", "place", {"a": {}})},
    )


def ranked_view(level: float | None, areas: int, n: int, beside: str | None) -> View:
    """Rank areas by their estimates."""
    part = f"all {n:,} areas" if n <= 60 else f"the 60 largest of {n:,} areas"
    tooltip = [*tips(("place", "place", "nominal")), *_NUMBERS]
    tooltip += tips(("beside", _BESIDE[beside])) if beside else []
    naive = f" Open marks: the naive answer, {_BESIDE[beside]}." if beside else ""
    return View(
        name="ranked",
        title="Estimates of areas",
        caption=f"The estimates of {part}, with their {level_words(level)}.{naive}",
        spec=interval_chart(
            "rows",
            label="place",
            x_title="estimate",
            order="rank",
            tooltip=tooltip,
            other=("beside", ORANGE) if beside else None,
        ),
        data={"rows": Rows("ranked")},
    )
