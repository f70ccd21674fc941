"""What each kind of table shows: one function from Estimates to charts for each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crosslevel.charts.cells import cells_of
from crosslevel.charts.chart import Atlas, Chart
from crosslevel.charts.curves import context_chart, curve_chart
from crosslevel.charts.densities import margins_chart
from crosslevel.charts.effects import at_rows_charts, effects_charts
from crosslevel.charts.heat import clusters_chart, transfers_chart
from crosslevel.charts.intervals import methods_chart, rows_chart
from crosslevel.charts.map_charts import map_charts, place_key, sure_charts
from crosslevel.charts.scatter import (
    bag_sizes_chart,
    coverage_chart,
    imputed_chart,
    labels_chart,
    published_chart,
    reliability_chart,
    validation_chart,
)
from crosslevel.results import Estimates
from crosslevel.results.display import describe_interval


def _cells(estimates: Estimates) -> list[Chart]:
    """Show every cell of a table of groups by outcomes, and the table in colors where there is one."""
    several = any(len(set(estimates[k].tolist())) > 1 for k in estimates.keys if k not in ("group", "outcome"))
    rows = rows_chart(estimates, title="Every subgroup")
    if several or len(estimates) < 2:
        return [rows]
    return [rows, replace(transfers_chart(estimates), title="Groups by outcomes")]


def _margins(estimates: Estimates) -> list[Chart]:
    rows = rows_chart(estimates)
    if estimates.draws is None:
        return [rows]
    return [replace(margins_chart(estimates), title="Estimates and the density of their draws"), rows]


def _clusters(estimates: Estimates) -> list[Chart]:
    means = rows_chart(
        estimates, name="clusters", title="Hidden means of the clusters", x_title="hidden mean", fixed=["feature"]
    )
    return [replace(clusters_chart(estimates), title="Profiles of the clusters"), means]


def _slopes(estimates: Estimates) -> list[Chart]:
    caption = "Slopes of yes and no are in logits. An interval as wide as the prior's says that the means taught next to nothing."
    title = "What the group means taught about persons"
    return [rows_chart(estimates, name="slopes", title=title, x_title="slope", fixed=["feature"], caption=caption)]


def _binned(estimates: Estimates) -> list[Chart]:
    """Show points as a curve, intervals as bins with their ends in words, and any other regions as rows."""
    if "point" in estimates.keys:
        return [curve_chart(estimates)]
    if not {"lower", "upper"} <= set(estimates.keys):
        return [rows_chart(estimates, name="ranked", title="Estimates of areas")]
    what = estimates.method.rpartition(", ")[2] if ", " in estimates.method else "estimate"
    ends = zip(*(estimates.table[k].to_pylist() for k in ("lower", "upper")), strict=True)
    cells = cells_of(estimates).with_key(
        "bin", [describe_interval(low, high) for low, high in ends], ("lower", "upper")
    )
    fixed = [key for key in cells.keys if key != "bin"]
    title = "Predictions of bins"
    return [rows_chart(estimates, cells, name="bins", title=title, x_title=what, fixed=fixed, largest_first=False)]


KINDS: dict[str, Callable[[Estimates], list[Chart]]] = {
    "bag_sizes": lambda e: [bag_sizes_chart(e)],
    "binned": _binned,
    "cells": _cells,
    "classes": lambda e: [reliability_chart(e)],
    "clusters": _clusters,
    "comparison": lambda e: [methods_chart(e)],
    "contextual_variance": lambda e: [context_chart(e), rows_chart(e, fixed=[e.keys[0]])],
    "coverage": lambda e: [coverage_chart(e)],
    "effects": effects_charts,
    "imputed": lambda e: [imputed_chart(e)],
    "labels": lambda e: [labels_chart(e)],
    "margins": _margins,
    "pointwise_effects": at_rows_charts,
    "published": lambda e: [published_chart(e)],
    "slopes": _slopes,
    "surveyed": lambda e: [replace(methods_chart(e), title="What the survey moved")],
    "held_out": lambda e: [validation_chart(e)],
}
"""Kind of table -> its charts. Any other kind shows every row with its interval, and a map where its places are on one."""
MAPPED = ("comparison", "effects", "imputed", "cells")
"""Kinds that are mapped too, beside those that have no entry of their own."""


def charts_of(estimates: Estimates, shapes: Atlas | None = None) -> list[Chart]:
    """Describe the charts of a table, by its kind; places that the shapes show are mapped.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["women", "men"], "estimate": [0.52, 0.47]}, keys=["group"], method="example", level=None, interval="none",
    ...     provenance=Provenance.of(call="example()"),
    ... )
    >>> [chart.title for chart in charts_of(est)]
    ['Every row']
    """
    if estimates.kind == "binned":
        return [*sure_charts(estimates, shapes), *_binned(estimates)]
    known = KINDS.get(estimates.kind)
    cells = cells_of(estimates)
    place = place_key(cells, shapes) if known is None or estimates.kind in MAPPED else None
    if shapes is None or place is None:
        return [rows_chart(estimates, cells)] if known is None else known(estimates)
    maps = map_charts(estimates, cells, shapes, place)
    if known is not None:
        return [*maps, *known(estimates)]
    rows = rows_chart(estimates, cells, title="Subgroups of one place", fixed=[place])
    return [*maps, rows] if len(estimates.keys) > 1 else maps
