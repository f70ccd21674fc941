"""Charts of effects, as specifications: data and words come from elsewhere."""

from __future__ import annotations

from typing import Any

from crosslevel.reports.pages.parts import BLUE, GREY, ORANGE, axis_name, interval_chart, maps, tips, zero_line
from crosslevel.reports.views import Features, Rows, View
from crosslevel.results.display import level_words

__all__ = [
    "averages_view",
    "bands_view",
    "contrasts_view",
    "distribution_view",
    "effects_view",
    "groups_view",
    "map_view",
]

Spec = dict[str, Any]
WIDTH, HEIGHT = 400, 300
_AVERAGE = tips(
    ("words", "term", "nominal"),
    ("group", "group", "nominal"),
    ("estimate", "average effect"),
    ("conf_low", "from"),
    ("conf_high", "to"),
    ("std_error", "standard error"),
    ("p_value", "p"),
    ("stars", "stars", "nominal"),
    ("contrast", "compares", "nominal"),
)


def _scatter(x: str, effect: str, curve: str, x_name: str, y_name: str, brush: bool) -> Spec:
    """Specify effects at rows with their curve; the rows that the brush holds keep their colour in both charts."""
    position: Spec = {
        "x": {"field": x, "type": "quantitative", "title": None, "scale": {"zero": False}},
        "y": {"field": effect, "type": "quantitative", "title": None, "scale": {"zero": False}},
    }
    colour: Spec = {
        "condition": {
            "param": "brush",
            "field": "shade",
            "type": "nominal",
            "title": None,
            "scale": {"scheme": {"name": "viridis", "extent": [0.2, 0.95]}},
            "legend": {"orient": "bottom", "columns": 3, "labelLimit": 220, "symbolOpacity": 1},
        },
        "value": "#C8C8C8",
    }
    points: Spec = {
        "data": {"name": "rows"},
        "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.65},
        "encoding": position
        | {
            "color": colour,
            "tooltip": tips(
                (x, "covariate"), (effect, "effect"), ("fitted", "fitted outcome"), ("shade", "class", "nominal")
            ),
        },
    }
    if brush:
        points["params"] = [{"name": "brush", "select": {"type": "interval"}}]
    along: Spec = {"field": "x", "type": "quantitative"}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {
                "data": {"name": curve},
                "mark": {"type": "area", "color": BLUE, "opacity": 0.2},
                "encoding": {
                    "x": along,
                    "y": {"field": "low", "type": "quantitative"},
                    "y2": {"field": "high"},
                },
            },
            zero_line(),
            points,
            {
                "data": {"name": curve},
                "mark": {
                    "type": "line",
                    "fill": None,
                    "color": BLUE,
                    "strokeWidth": 2,
                    "point": {"color": BLUE, "size": 8},
                },
                "encoding": {
                    "x": along,
                    "y": {"field": "effect", "type": "quantitative"},
                    "tooltip": tips(
                        ("x", "covariate"), ("effect", "average effect there"), ("low", "from"), ("high", "to")
                    ),
                },
            },
            axis_name(x_name, "bottom", WIDTH, HEIGHT),
            axis_name(y_name, "left", WIDTH, HEIGHT),
        ],
    }


def effects_view(level: float, posterior: bool, shown: int, n: int, behind: int) -> View:
    """Show the effect of any term along any covariate, two such charts with a brush across both."""
    rows = f"{behind:,} of them" if behind < shown else "them"
    line = (
        f"The line is the posterior mean of the effect, averaged over {rows} along the covariate; it shrinks less than the fit. The "
        f"band is its {level_words(level)}, averaged likewise: it holds point by point and on average over the rows, not for the "
        "whole line at once"
        if posterior
        else "The line is their average along the covariate. This model has no posterior of effects at rows, so the band holds the "
        "middle 95 % of the rows around there and says nothing about confidence"
    )
    part = f"{shown:,} rows" if shown == n else f"a random {shown:,} of {n:,} rows (seed 0)"
    return View(
        name="effects",
        title="Effects at rows, along a covariate",
        caption=f"Each dot is the effect of the fit at a row, {part}, whose covariates this page holds. {line}. "
        "Drag over the left chart to keep the colours of some rows in both charts; click beside to let go.",
        spec={
            "hconcat": [
                _scatter("x", "effect", "curve", "x_name", "y_name", brush=True),
                _scatter("x2", "effect2", "curve2", "x2_name", "y2_name", brush=False),
            ],
            "spacing": 70,
        },
        data={
            "rows": Rows(
                "people", columns={"x": "along", "effect": "term", "x2": "along2", "effect2": "term2", "shade": "color"}
            ),
            "curve": Rows("curves", where={"term": "term", "along": "along"}),
            "curve2": Rows("curves", where={"term": "term2", "along": "along2"}),
            "x_name": Rows("names", where={"column": "along"}),
            "y_name": Rows("names", where={"column": "term"}),
            "x2_name": Rows("names", where={"column": "along2"}),
            "y2_name": Rows("names", where={"column": "term2"}),
        },
        choices=("term", "along", "term2", "along2", "color"),
    )


def distribution_view(n: int) -> View:
    """Show how one effect is distributed over the rows, with its average."""
    return View(
        name="distribution",
        title="Distribution of the effect over rows",
        caption=f"The effects of the fit at all {n:,} rows (shrunken, so that their spread is rather too small than too large). The "
        "line is the average of the fit; there is no interval here.",
        spec={
            "width": "container",
            "height": 200,
            "layer": [
                {
                    "data": {"name": "classes"},
                    "mark": {"type": "bar", "color": BLUE, "opacity": 0.7},
                    "encoding": {
                        "x": {"field": "from", "type": "quantitative", "title": "effect", "scale": {"zero": False}},
                        "x2": {"field": "to"},
                        "y": {
                            "field": "share",
                            "type": "quantitative",
                            "title": "share of rows",
                            "axis": {"format": "%"},
                        },
                        "y2": {"datum": 0},
                        "tooltip": tips(("from", "from"), ("to", "to"), ("share", "share of rows")),
                    },
                },
                {
                    "data": {"name": "average"},
                    "mark": {"type": "rule", "strokeWidth": 2, "color": GREY},
                    "encoding": {"x": {"field": "plug_in", "type": "quantitative"}, "tooltip": _AVERAGE},
                },
            ],
        },
        data={
            "classes": Rows("spread", where={"term": "term"}),
            "average": Rows("averages", where={"term": "term"}),
        },
        choices=("term",),
    )


def averages_view(level: float | None) -> View:
    """Rank average effects by their size in standard errors."""
    return View(
        name="averages",
        title="Average effects by size",
        caption=f"Each effect and its {level_words(level)}, divided by its standard error, since effects of covariates in different "
        "units cannot be compared by length. An interval that clears the line at zero is told from noise. Open marks are the averages "
        "of the shrunken fit (plug_in in the table).",
        spec=interval_chart(
            "rows",
            label="words",
            x_title="average effect, in standard errors",
            tooltip=_AVERAGE,
            fields=("z", "z_low", "z_high"),
            at=0.0,
            other=("z_plug_in", ORANGE),
        ),
        data={"rows": Rows("averages")},
        size="half",
    )


def contrasts_view(level: float | None) -> View:
    """Show contrasts of the levels of factors, in units of the outcome."""
    chart = interval_chart(
        "rows", label="label", x_title="average contrast, in units of the outcome", tooltip=_AVERAGE, at=0.0
    )
    return View(
        name="contrasts",
        title="Contrasts of factors",
        caption=f"What the outcome would be on average at a level, less at the level it is compared with, all else as it is; "
        f"{level_words(level)}.",
        spec=chart | {"transform": [{"filter": {"field": "kind", "equal": "contrast"}}]},
        data={"rows": Rows("averages")},
        size="half",
    )


def groups_view(table: str, by: str, level: float | None) -> View:
    """Show the average effect of one term in each group."""
    return View(
        name=f"{table}-intervals",
        title=f"Average effect {by}",
        caption=f"The average effect of the chosen term within each group, in its own units, with its {level_words(level)}.",
        spec=interval_chart("rows", label="group", x_title="average effect", tooltip=_AVERAGE, at=0.0),
        data={"rows": Rows(table, where={"term": "term"})},
        choices=("term",),
    )


def map_view(table: str, by: str, level: float | None, dots: bool) -> View:
    """Map the average effect of one term."""
    fields = (("group", "place", "nominal"), ("estimate", "average effect"), ("conf_low", "from"), ("conf_high", "to"))
    return View(
        name=f"{table}-map",
        title=f"Map of the average effect {by}",
        caption="The average effect of the chosen term in each place, relative to the largest of all places: orange above zero, blue "
        f"below. Pointing at a place shows the effect in its own units, with its {level_words(level)}.",
        spec=maps([("relative", "relative to the largest", {"scheme": "blueorange", "domain": [-1, 1]})], fields, dots),
        data={"places": Features(table, "group", {"a": {"term": "term"}})},
        choices=("term",),
    )


def bands_view(level: float | None, shown: int, n: int) -> View:
    """Show effects at rows against their own covariate, with bands."""
    x: Spec = {"field": "value", "type": "quantitative", "title": "covariate of the term", "scale": {"zero": False}}
    y: Spec = {"type": "quantitative", "title": "effect"}
    part = f"{shown:,} rows" if shown == n else f"a random {shown:,} of {n:,} rows (seed 0)"
    tooltip = tips(("value", "covariate"), ("estimate", "effect"), ("conf_low", "from"), ("conf_high", "to"))
    return View(
        name="bands",
        title="Effects at rows, along their own covariate",
        caption=f"Each dot is a row, {part}, with its {level_words(level)}.",
        spec={
            "data": {"name": "rows"},
            "width": "container",
            "height": 300,
            "layer": [
                zero_line(),
                {
                    "mark": {"type": "rule", "color": GREY, "opacity": 0.5},
                    "encoding": {"x": x, "y": y | {"field": "conf_low"}, "y2": {"field": "conf_high"}},
                },
                {
                    "mark": {"type": "point", "filled": True, "color": BLUE, "size": 24},
                    "encoding": {"x": x, "y": y | {"field": "estimate"}, "tooltip": tooltip},
                },
            ],
        },
        data={"rows": Rows("rows", where={"term": "term"})},
        choices=("term",),
    )
