"""The maps of a page: two subgroups side by side, their difference, any other column, and means beside their precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.cells import FIXED, Cells, cells_of
from crosslevel.charts.chart import Atlas, Chart, Choice, Map, Places, joined_words
from crosslevel.charts.intervals import ordered_chart
from crosslevel.charts.words import count, named
from crosslevel.results import Estimates
from crosslevel.results.table import on_unit_scale

APART = ("outcome", "method", "term", "feature")
"""Keys that have a drop-down list of their own and hold for both maps."""
UNSEEN = 0.05
"""Part of a color scale that an eye cannot distinguish."""


def place_key(cells: Cells, shapes: Atlas | None) -> str | None:
    """Find the key that names places of the map: one that a property is called by, and else the one with most values.

    Codes of few values (1 and 2 for men and women) may be codes of places too, so the first that fits will not do.
    """
    if shapes is None:
        return None
    values = {key: cells.levels(key) for key in cells.keys}
    fitting = [key for key, v in values.items() if len(v) > 1 and shapes.names_for(v, key) is not None]
    return max(fitting, key=lambda key: (key in shapes.properties, len(values[key])), default=None)


def map_charts(result: Estimates, cells: Cells, shapes: Atlas, place: str) -> list[Chart]:
    """Describe the maps of a result whose places the shapes show.

    With one subgroup there is one map; with several two maps stand side by side, each with its drop-down list, and the
    difference of the two. Then the places in order, and a map of any other column.
    """
    apart = [key for key in cells.keys if key in APART and key != place and len(cells.levels(key)) > 1]
    cells = _with_subgroup(cells, [key for key in cells.keys if key not in (*apart, place)])
    subgroups = [str(v) for v in cells.table["subgroup"].unique().to_pylist()]
    several = len(subgroups) > 1
    lists = [cells.choice(key) for key in apart]
    shared = {c.name: c.name for c in lists}
    options = [(v, v) for v in subgroups]
    picks = {"a": Choice("a", "subgroup", options), "b": Choice("b", "subgroup", options, start=1)} if several else {}
    sides = {side: {**shared, **({"subgroup": side} if several else {})} for side in (picks or ("a",))}
    share, ends = on_unit_scale(result), _ends(result["estimate"])
    base: dict[str, Any] = {"tables": {"cells": cells.table}, "labels": cells.labels, "share": share}
    said = "Hover for what is known of a place; there is no interval."
    if result.level is not None:
        said = f"Hover for the {100 * result.level:g} % interval and what else is known of a place."
    said += _beyond(result["estimate"], ends) + _missing(cells.levels(place), shapes, place)

    def tips(side: str) -> dict[str, str]:
        return {"place": place, f"{side}.subgroup": "subgroup", **cells.tips(prefix=f"{side}.")}

    charts = [
        Chart(
            f"map-{side}",
            {"a": "First subgroup", "b": "Second subgroup"}[side] if several else "The estimate in each place",
            ("Colors are the same on both maps. " if several else "") + said,
            [Map(f"{side}.estimate", "estimate", ends, share=share)],
            data={"places": Places("cells", cells.keys[place], {side: where})},
            choices=[*lists, *([picks[side]] if several else [])],
            tips=tips(side),
            size="third" if several else "full",
            **base,
        )
        for side, where in sides.items()
    ]
    if several:
        charts.append(_difference(result, cells, place, sides, share, base))
    first = [*lists, *([picks["a"]] if several else [])]
    charts.append(ordered_chart(result, cells, lines=[place], choices=first, where=sides["a"], size="half"))
    others = [n for n in cells.table.column_names if (n in FIXED or n.startswith("x")) and n != "estimate"]
    if others:
        column = Choice("column", "show", [(n, named(cells.labels[n])) for n in others])
        caption = "Any other column of the table: how wide intervals are, what other methods say, how many people are behind a number."
        charts.append(
            Chart(
                "map-column",
                "What else is known of each place",
                caption,
                [Map("a.value", "value")],
                data={"places": Places("cells", cells.keys[place], {"a": sides["a"]}, {"value": column.name})},
                choices=[column, *first],
                tips=tips("a"),
                size="half",
                **base,
            )
        )
    return charts


def _difference(
    result: Estimates,
    cells: Cells,
    place: str,
    sides: Mapping[str, Mapping[str, str]],
    share: bool,
    base: dict[str, Any],
) -> Chart:
    """Describe the map of the first subgroup less the second."""
    end = _farthest(result, cells, place)
    tips = {"place": place}
    for side, words in (("a", "first"), ("b", "second")):
        tips |= {f"{side}.subgroup": f"{words} subgroup", f"{side}.estimate": f"{words}, estimate"}
    return Chart(
        "map-difference",
        "Difference: the first less the second",
        "Orange: the first subgroup is higher; blue: the second. The difference of two estimates is less certain than either.",
        [
            Map(
                "difference",
                "first less second" + (", points" if share else ""),
                [-end, end],
                diverging=True,
                share=share,
            )
        ],
        data={"places": Places("cells", cells.keys[place], sides)},
        tips=tips | {"difference": "difference"},
        size="third",
        **base,
    )


def sure_charts(result: Estimates, shapes: Atlas | None) -> list[Chart]:
    """Describe two maps side by side: what is estimated of each place, and how sure it is."""
    cells = cells_of(result)
    place = place_key(cells, shapes)
    if place is None or len(cells.keys) > 1 or not cells.has("std_error"):
        return []
    maps = [
        Map("a.estimate", "", title="mean"),
        Map("a.std_error", "", title="standard deviation", scheme="oranges"),
    ]
    caption = "Left the mean, right its standard deviation: the darker, the less is known. Hover for the numbers."
    return [
        Chart(
            "maps",
            "What is estimated of each place, and how sure it is",
            caption,
            maps,
            {"cells": cells.table},
            {"places": Places("cells", cells.keys[place], {"a": {}})},
            labels=cells.labels,
            tips={"place": place, **cells.tips(prefix="a.")},
        )
    ]


def _with_subgroup(cells: Cells, inner: Sequence[str]) -> Cells:
    """Add the column that names the subgroup: a bare number says which key it is of."""

    def said(key: str, value: Any) -> str:
        text = "–" if value is None else str(value)
        return f"{key} {text}" if text.replace(".", "", 1).isdigit() else text

    columns = [[said(key, v) for v in cells.table[cells.keys[key]].to_pylist()] for key in inner]
    n = cells.table.num_rows
    words = joined_words(columns, n) if inner else ["everybody"] * n
    table = cells.table.append_column("subgroup", pa.array(words, pa.string()))
    return replace(cells, table=table, labels={**cells.labels, "subgroup": "subgroup"})


def _missing(levels: Sequence[str], shapes: Atlas, place: str) -> str:
    lost = len(set(levels) - set(shapes.names_for(levels, place) or ()))
    return f" {count(lost, 'place')} of the results {'is' if lost == 1 else 'are'} not on the map." if lost else ""


def _ends(values: Any) -> list[float]:
    """Give ends of a color scale that a few odd places do not stretch."""
    good = np.asarray(values, dtype=float)
    good = good[np.isfinite(good)]
    if not good.size:
        return [0.0, 1.0]
    low, high = np.quantile(good, [0.01, 0.99])
    return [_round(low), _round(high)] if _round(high) > _round(low) else [_round(low) - 0.5, _round(low) + 0.5]


def _beyond(values: Any, ends: Sequence[float]) -> str:
    """Say how many estimates lie beyond the ends of the colors by more than an eye could tell, if any do."""
    off, visible = np.asarray(values, dtype=float), UNSEEN * (ends[1] - ends[0])
    n = int(np.sum((off < ends[0] - visible) | (off > ends[1] + visible)))
    said = f" {count(n, 'estimate')} beyond the ends of the scale {'has' if n == 1 else 'have'} the last color."
    return said if n else ""


def _farthest(result: Estimates, cells: Cells, place: str) -> float:
    """Give the end of the scale of differences: how far apart the subgroups of a place are, in all but the oddest places."""
    values = np.asarray(result["estimate"], dtype=float)
    codes = np.unique(cells.table[cells.keys[place]].fill_null("").to_numpy().astype(str), return_inverse=True)[1]
    good = np.isfinite(values)
    low, high = np.full(codes.max() + 1, np.inf), np.full(codes.max() + 1, -np.inf)
    np.minimum.at(low, codes[good], values[good])
    np.maximum.at(high, codes[good], values[good])
    apart = (high - low)[np.isfinite(low)]
    return _round(float(np.quantile(apart, 0.98))) or 1.0 if apart.size else 1.0


def _round(value: float) -> float:
    return float(f"{value:.2g}")
