"""Charts of labels of bags, as specifications."""

from __future__ import annotations

from typing import Any

from crosslevel.reports.pages.parts import BLUE, GREY, diagonal, interval_chart, tips
from crosslevel.reports.views import Rows, View
from crosslevel.results.display import level_words

__all__ = ["calibration_view", "predicted_view", "ranked_classes_view", "ranked_view", "reliability_view"]

Spec = dict[str, Any]

_BAG = tips(
    ("bag", "bag", "nominal"),
    ("estimate", "prediction"),
    ("conf_low", "from"),
    ("conf_high", "to"),
    ("std_error", "standard deviation"),
    ("size", "size of the bag"),
)
_SHADE: Spec = {
    "field": "shade",
    "type": "quantitative",
    "title": None,
    "scale": {"scheme": "viridis"},
    "legend": {"orient": "bottom", "gradientLength": 240},
}


def predicted_view(level: float | None, shown: int, n: int, strata: int) -> View:
    """Show predictions against labels with intervals, a chart for each class of sizes."""
    x: Spec = {"field": "truth", "type": "quantitative", "title": "label", "scale": {"zero": False}}
    y: Spec = {"type": "quantitative", "title": "prediction", "scale": {"zero": False}}
    part = f"{shown:,} bags" if shown == n else f"a random {shown:,} of {n:,} bags (seed 0)"
    tooltip = [*_BAG, *tips(("truth", "label"))]
    return View(
        name="predicted",
        title="Predictions against labels, by size of bag",
        caption=f"Each dot is a bag, {part}, with its {level_words(level)} of a new label; on the broken line a prediction equals the "
        "label. One chart for each class of effective sizes; colours as chosen.",
        spec={
            "data": {"name": "rows"},
            "facet": {
                "field": "stratum",
                "type": "nominal",
                "title": "size of bag",
                "sort": {"field": "place", "op": "min", "order": "ascending"},
            },
            "columns": min(3, max(strata, 1)),
            "spec": {
                "width": 310 if strata > 2 else 440,
                "height": 230,
                "layer": [
                    {
                        "mark": {"type": "rule", "color": GREY, "opacity": 0.4},
                        "encoding": {"x": x, "y": y | {"field": "conf_low"}, "y2": {"field": "conf_high"}},
                    },
                    diagonal("ends"),
                    {
                        "mark": {"type": "point", "filled": True, "size": 34},
                        "encoding": {"x": x, "y": y | {"field": "estimate"}, "color": _SHADE, "tooltip": tooltip},
                    },
                ],
            },
        },
        data={"rows": Rows("bags", columns={"shade": "color"}), "ends": Rows("ends")},
        choices=("color",),
    )


def ranked_view(level: float | None, shown: int, n: int) -> View:
    """Show predictions of bags whose labels are not known, the largest first."""
    part = f"all {n:,} bags" if shown == n else f"the {shown:,} largest of {n:,} predictions"
    return View(
        name="ranked",
        title="Predicted labels",
        caption=f"The predictions of {part}, with their {level_words(level)} of a new label.",
        spec=interval_chart("rows", label="bag", x_title="predicted label", tooltip=_BAG, color=_SHADE),
        data={"rows": Rows("bags", columns={"shade": "color"})},
        choices=("color",),
    )


def ranked_classes_view() -> View:
    """Show the bags for which a class is likeliest."""
    return View(
        name="ranked",
        title="Bags by the probability of a class",
        caption="The bags for which the chosen class is most probable, at most 60. Probabilities have no interval.",
        spec={
            "data": {"name": "rows"},
            "width": "container",
            "height": {"step": 18},
            "mark": {"type": "bar", "color": BLUE},
            "encoding": {
                "y": {"field": "bag", "type": "nominal", "title": None, "sort": {"field": "place", "op": "min"}},
                "x": {"field": "estimate", "type": "quantitative", "title": "probability", "scale": {"domain": [0, 1]}},
                "tooltip": tips(("bag", "bag", "nominal"), ("estimate", "probability"), ("size", "size of the bag")),
            },
        },
        data={"rows": Rows("bags", where={"class": "class"})},
        choices=("class",),
    )


def reliability_view() -> View:
    """Show how often a class came true, by its probability."""
    x: Spec = {"field": "predicted", "type": "quantitative", "title": "mean probability", "scale": {"domain": [0, 1]}}
    y: Spec = {"type": "quantitative", "title": "share that was of the class", "scale": {"domain": [0, 1]}}
    tooltip = tips(
        ("predicted", "mean probability"), ("share", "share"), ("low", "from"), ("high", "to"), ("n", "bags")
    )
    return View(
        name="reliability",
        title="Do probabilities keep their word?",
        caption="Bags by the probability of the chosen class, in tenths: how often it was the class, with the 95 % Wilson interval. On "
        "the broken line probabilities are calibrated.",
        spec={
            "data": {"name": "rows"},
            "width": 380,
            "height": 340,
            "layer": [
                diagonal("ends"),
                {
                    "mark": {"type": "rule", "color": BLUE, "strokeWidth": 2},
                    "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "tooltip": tooltip},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 70, "color": BLUE},
                    "encoding": {"x": x, "y": y | {"field": "share"}, "tooltip": tooltip},
                },
            ],
        },
        data={"rows": Rows("shares", where={"class": "class"}), "ends": Rows("ends")},
        choices=("class",),
    )


def calibration_view(nominal: float | None, baseline: bool) -> View:
    """Show coverage (or accuracy) by class of sizes, before the level that intervals claim."""
    what = "accuracy" if nominal is None else f"share of labels inside {100 * nominal:.10g} % intervals"
    claims = "" if nominal is None else f" The broken line is the level they claim, {100 * nominal:.10g} %."
    beside = " Open marks: a forecast that knows no members." if baseline else ""
    tooltip = tips(("label", "bags of size", "nominal"), ("estimate", what), ("conf_low", "from"), ("conf_high", "to"))
    return View(
        name="calibration",
        title="Accuracy by size of bag" if nominal is None else "How often intervals held the label, by size of bag",
        caption=f"The {what} with its 95 % Wilson interval, which tells how far the number of bags settles it.{claims}{beside}",
        spec=interval_chart(
            "rows",
            label="label",
            x_title=what,
            tooltip=tooltip,
            at=nominal,
            other=("baseline", GREY) if baseline else None,
        ),
        data={"rows": Rows("strata")},
    )
