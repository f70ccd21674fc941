"""Pictures for a page, chosen by what a result holds: intervals always, a map where its places are on one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosslevel.charts import intervals, methods, style
from crosslevel.charts.kinds import KINDS, charts_of
from crosslevel.charts.maps import by_names_of, estimate_map
from crosslevel.charts.matplotlib import draw
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates

__all__ = ["pictures"]

LONGEST = 60
"""Rows of an interval plot; further ones stand in the table."""
MOST_CELLS = 20
"""Cells of a picture of several methods."""


def pictures(named: Mapping[str, Estimates], polygons: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Draw each result: a row per estimate, and a map of its first subgroup where the polygons show its places.

    A result of many rows that is mapped is not drawn row by row too.

    Parameters
    ----------
    named : mapping of heading to Estimates
    polygons : mapping, optional
        A GeoJSON FeatureCollection; a property of its features is a key of the results that are to be mapped.

    Returns
    -------
    dict of caption to matplotlib Axes
    """
    drawn: dict[str, Any] = {}
    mapped = False
    for heading, estimates in named.items():
        by = _place(estimates, polygons)
        select = None if by is None else _first_subgroup(estimates, by)
        if polygons is not None and by is not None and select is not None:
            mapped = True
            words = ", ".join(f"{n} {v}" for n, v in select.items())
            caption = f"{heading}: the estimate by {by}{f' for {words}' if words else ''}"
            drawn[caption] = estimate_map(estimates, polygons, by=by, select=select, ax=_axes(10, 6))
            if len(estimates) > LONGEST:
                continue
        drawn[heading] = _picture(estimates)
    if polygons is not None and named and not mapped:
        keys = list(dict.fromkeys(key for estimates in named.values() for key in estimates.keys))
        raise InputError(
            f"polygons shows the places of no result: no property of its features is one of their keys ({listed(keys)}) and has "
            "all their values; pass the map of these places."
        )
    return drawn


def _picture(estimates: Estimates) -> Any:
    """Draw the first chart of a result's kind; a row per estimate where it has none of its own."""
    if "method" in estimates.keys and estimates.kind != "imputation_scores":
        return methods(estimates, _axes(8, _height(estimates)), max_cells=MOST_CELLS)
    if estimates.kind not in KINDS or estimates.kind == "cells":
        return intervals(estimates, _axes(8, _height(estimates)), max_rows=LONGEST)
    chart = charts_of(estimates)[0]
    return draw(chart, _axes(*chart.inches))


def _axes(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    with style():
        return Figure(figsize=(width, height)).add_subplot()


def _first_subgroup(estimates: Estimates, by: str) -> dict[str, Any] | None:
    """Give the values of the other keys in the first row that has them all."""
    others = {n: estimates.table[n].to_pylist() for n in estimates.keys if n != by}
    rows = (dict(zip(others, values, strict=True)) for values in zip(*others.values(), strict=True))
    return next((row for row in rows if None not in row.values()), None) if others else {}


def _height(estimates: Estimates) -> float:
    """Give inches for the rows that are drawn, with room for the heads of groups; a comparison draws its rows closer."""
    if "method" in estimates.keys:
        n_methods = len(set(estimates["method"].tolist()))
        return max(3.0, 1.2 + 0.2 * min(len(estimates) // n_methods, MOST_CELLS) * (n_methods + 1.2))
    rows = min(len(estimates), LONGEST)
    heads = len(set(estimates[estimates.keys[0]].tolist()[:rows])) if len(estimates.keys) > 1 else 0
    return max(3.0, 1.2 + 0.27 * (rows + 1.7 * min(heads, rows)))


def _place(estimates: Estimates, polygons: Mapping[str, Any] | None) -> str | None:
    """Find the key that names places of the map: all of its values are there."""
    if polygons is None:
        return None
    known = polygons["features"][0]["properties"] if polygons.get("features") else {}
    for name in estimates.keys:
        if name in known:
            on_map = {f["properties"].get(name) for f in polygons["features"]}
            values = by_names_of(polygons, dict.fromkeys(estimates[name].tolist(), 0.0), name)
            if set(values) <= on_map and len(set(values)) > 1:
                return name
    return None
