"""Charts of imputed values, as specifications."""

from __future__ import annotations

from typing import Any

from crosslevel.reports.pages.parts import (
    BLUE,
    GREY,
    ORANGE,
    diagonal,
    interval_chart,
    maps,
    tips,
    with_level,
    zero_line,
)
from crosslevel.reports.views import Features, Rows, View

__all__ = [
    "calibration_view",
    "clusters_view",
    "gains_view",
    "groups_view",
    "map_view",
    "means_view",
    "profiles_view",
    "slopes_view",
]

Spec = dict[str, Any]
_FEATURE = {"feature": "feature"}
_ENDS = (("conf_low", "from"), ("conf_high", "to"))
_SCORES = tips(
    ("label", "method", "nominal"),
    ("gain", "gain"),
    ("gain_low", "from"),
    ("gain_high", "to"),
    ("lift", "lift"),
    ("auc", "AUC"),
    ("brier", "Brier score"),
    ("intercept", "intercept"),
    ("slope", "slope"),
)


def _against(x: Spec, tooltip: list[Spec], size: Spec | None, color: Spec | None, y_title: str) -> list[Spec]:
    """Specify dots with intervals against another number."""
    y: Spec = {"type": "quantitative", "title": y_title, "scale": {"zero": False}}
    dots: Spec = {"x": x, "y": y | {"field": "estimate"}, "tooltip": tooltip}
    dots |= {"size": size} if size is not None else {}
    dots |= {"color": color} if color is not None else {}
    paint: Spec = {} if color is not None else {"color": BLUE}
    return [
        {
            "mark": {"type": "rule", "color": GREY, "opacity": 0.6, "strokeWidth": 1.6},
            "encoding": {"x": x, "y": y | {"field": "conf_low"}, "y2": {"field": "conf_high"}},
        },
        {"mark": {"type": "point", "filled": True, "opacity": 0.85, **paint}, "encoding": dots},
    ]


def means_view(level: float | None, several: bool, truth: bool) -> View:
    """Show imputed means of subgroups against the mean of the group means of the same people."""
    x: Spec = {
        "field": "naive",
        "type": "quantitative",
        "title": "mean of the group means of the same people (naive)",
        "scale": {"zero": False},
    }
    tooltip = tips(
        ("label", "subgroup", "nominal"), ("estimate", "imputed mean"), *_ENDS, ("naive", "naive"), ("people", "people")
    )
    tooltip += tips(("truth", "truth")) if truth else []
    size: Spec = {"field": "people", "type": "quantitative", "title": "people", "legend": {"orient": "bottom"}}
    layers = [diagonal("ends"), *_against(x, tooltip, size, None, "imputed mean")]
    if truth:
        layers.append(
            {
                "mark": {"type": "point", "shape": "cross", "color": ORANGE, "size": 70, "filled": True},
                "encoding": {"x": x, "y": {"field": "truth", "type": "quantitative"}, "tooltip": tooltip},
            }
        )
    layers.append(
        {
            "mark": {"type": "text", "align": "left", "dx": 8, "dy": -6, "fontSize": 10, "limit": 140},
            "encoding": {
                "x": x,
                "y": {"field": "estimate", "type": "quantitative"},
                "text": {"field": "short", "type": "nominal"},
            },
        }
    )
    crosses = " Crosses are the truth." if truth else ""
    return View(
        name="means",
        title="Imputed means of subgroups against the group means",
        caption=f"A dot for each subgroup{with_level(level)}, its area the number of people. On the broken line nothing was "
        f"learnt about a subgroup beyond the means of its groups.{crosses}",
        spec={"data": {"name": "rows"}, "width": "container", "height": 360, "layer": layers},
        data={
            "rows": Rows("means", where=_FEATURE | ({"by": "by"} if several else {})),
            "ends": Rows("ends", where=_FEATURE),
        },
        choices=("feature", "by") if several else ("feature",),
    )


def map_view(level: float | None, dots: bool) -> View:
    """Map imputed means."""
    fields = (("label", "place", "nominal"), ("estimate", "imputed mean"), *_ENDS, ("naive", "naive"))
    return View(
        name="map",
        title="Map of the imputed means",
        caption=f"The imputed mean of each place; pointing at a place shows it{with_level(level)}.",
        spec=maps([("estimate", "imputed mean", {"scheme": "viridis"})], fields, dots),
        data={"places": Features("means", "label", {"a": _FEATURE})},
        choices=("feature",),
    )


def profiles_view(left_out: int) -> View:
    """Show clusters as a table of colours."""
    x: Spec = {
        "field": "column",
        "type": "nominal",
        "title": None,
        "sort": {"field": "place", "op": "min", "order": "ascending"},
        "axis": {"labelAngle": -35, "labelLimit": 160, "orient": "bottom"},
    }
    y: Spec = {
        "field": "cluster",
        "type": "nominal",
        "title": "cluster · share of people",
        "sort": {"field": "row", "op": "min", "order": "ascending"},
    }
    tooltip = tips(
        ("cluster", "cluster", "nominal"), ("column", "column", "nominal"), ("value", "mean"), ("score", "sds")
    )
    color: Spec = {
        "field": "score",
        "type": "quantitative",
        "title": "sds between clusters",
        "scale": {"scheme": "blueorange", "domain": [-2.5, 2.5], "reverse": True, "clamp": True},
        "legend": {"orient": "bottom", "gradientLength": 200},
    }

    def table(which: str, labels: bool) -> Spec:
        row = y if labels else y | {"axis": None}
        return {
            "title": f"{which}s",
            "width": {"step": 54},
            "height": {"step": 28},
            "transform": [{"filter": {"field": "hidden", "equal": which}}],
            "layer": [
                {"mark": {"type": "rect"}, "encoding": {"x": x, "y": row, "color": color, "tooltip": tooltip}},
                {
                    "mark": {"type": "text", "fontSize": 10, "color": "#111111"},
                    "encoding": {"x": x, "y": row, "text": {"field": "words", "type": "nominal"}, "tooltip": tooltip},
                },
            ],
        }

    rest = f" {left_out:,} known columns in which clusters differ least are left out." if left_out else ""
    return View(
        name="profiles",
        title="Profiles of the clusters",
        caption="What is known of each cluster's people and, apart, its hidden means. Numbers are the cluster's; colours say how far "
        f"they lie above (blue) or below (orange) those of all people, in standard deviations between clusters.{rest}",
        spec={
            "data": {"name": "rows"},
            "hconcat": [table("known column", True), table("hidden mean", False)],
        },
        data={"rows": Rows("profiles")},
    )


def clusters_view(level: float | None) -> View:
    """Show the hidden means of clusters."""
    return View(
        name="clusters",
        title="Hidden means of the clusters",
        caption=f"The mean of the hidden feature in each cluster{with_level(level)}, given the clusters.",
        spec=interval_chart(
            "rows",
            label="label",
            x_title="hidden mean",
            tooltip=tips(
                ("label", "cluster", "nominal"), ("estimate", "hidden mean"), *_ENDS, ("share", "share of people")
            ),
        ),
        data={"rows": Rows("clusters", where=_FEATURE)},
        choices=("feature",),
    )


def groups_view(level: float | None) -> View:
    """Show each published mean against what the other groups foretell."""
    x: Spec = {"field": "published", "type": "quantitative", "title": "published mean", "scale": {"zero": False}}
    color: Spec = {
        "field": "held",
        "type": "nominal",
        "title": "interval",
        "scale": {"domain": ["held", "missed", "no interval"], "range": [BLUE, ORANGE, GREY]},
        "legend": {"orient": "bottom"},
    }
    tooltip = tips(("label", "group", "nominal"), ("published", "published"), ("estimate", "foretold"), *_ENDS)
    return View(
        name="groups",
        title="Each group's mean, foretold from the others",
        caption=f"A check of totals: predictions{with_level(level, 'their')} against what was published. Means that are foretold "
        "well say little about persons.",
        spec={
            "data": {"name": "rows"},
            "width": "container",
            "height": 320,
            "layer": [diagonal("ends"), *_against(x, tooltip, None, color, "foretold from the other groups")],
        },
        data={"rows": Rows("groups", where=_FEATURE), "ends": Rows("published_ends", where=_FEATURE)},
        choices=("feature",),
    )


def slopes_view(level: float | None) -> View:
    """Show what the means taught about each slope."""
    return View(
        name="slopes",
        title="What the group means taught about persons",
        caption=f"Slopes of the hidden feature on what is known of a person{with_level(level, 'their')}; for yes and no in logits. "
        "An interval as wide as the prior's says that the means taught next to nothing.",
        spec=interval_chart(
            "rows",
            label="label",
            x_title="slope",
            at=0.0,
            tooltip=tips(
                ("label", "term", "nominal"),
                ("estimate", "slope"),
                *_ENDS,
                ("kept", "share kept"),
                ("between_sd", "sd between groups"),
                ("prior_sd", "prior sd"),
            ),
        ),
        data={"rows": Rows("slopes", where=_FEATURE)},
        choices=("feature",),
    )


def gains_view(level: float | None) -> View:
    """Show what each method gains on the naive answer."""
    color: Spec = {
        "field": "source",
        "type": "nominal",
        "title": None,
        "scale": {"domain": ["can be had without it", "uses the truth"], "range": [BLUE, GREY]},
        "legend": {"orient": "bottom"},
    }
    return View(
        name="gains",
        title="What is gained on the answer that needs no method",
        caption="Gain in the mean log-likelihood of a person, with its 95 % interval over persons. Grey rows use the truth: bounds that "
        f"nobody reaches without it. The table gives each score{with_level(level)}.",
        spec=interval_chart(
            "rows",
            label="label",
            x_title="gain in mean log-likelihood of a person",
            tooltip=_SCORES,
            fields=("gain", "gain_low", "gain_high"),
            at=0.0,
            color=color,
        ),
        data={"rows": Rows("scores")},
    )


def calibration_view() -> View:
    """Show slope and intercept of the truth on imputed logits."""
    y: Spec = {
        "field": "label",
        "type": "nominal",
        "title": None,
        "sort": {"field": "place", "op": "min", "order": "ascending"},
        "axis": {"labelLimit": 220},
    }

    def dots(field: str, title: str, at: float, labels: bool) -> Spec:
        row = y if labels else y | {"axis": None}
        return {
            "width": 300,
            "height": {"step": 22},
            "layer": [
                zero_line("x", at),
                {
                    "data": {"name": "rows"},
                    "mark": {"type": "point", "filled": True, "size": 70, "color": BLUE},
                    "encoding": {
                        "y": row,
                        "x": {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}},
                        "tooltip": _SCORES,
                    },
                },
            ],
        }

    return View(
        name="calibration",
        title="Are imputed probabilities calibrated?",
        caption="Slope and intercept of a logistic regression of the truth on the logit of each method's probabilities; broken lines are "
        "where calibrated ones lie. A slope above 1 says that they differ too little between people. No interval.",
        spec={
            "hconcat": [
                dots("slope", "slope (1 when calibrated)", 1.0, True),
                dots("intercept", "intercept (0 when calibrated)", 0.0, False),
            ]
        },
        data={"rows": Rows("scores")},
    )
