"""The page of any Estimates: every row with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.reports.pages import charts
from crosslevel.reports.pages.words import (
    count,
    is_share,
    level_words,
    named,
    number,
    percent,
    plain,
    points,
    provenance_words,
)
from crosslevel.reports.shapes import Shapes
from crosslevel.reports.views import Choice, Rows, Section, View
from crosslevel.results import Estimates

__all__ = ["Cells", "accepts", "cells_of", "found_words", "interval_views", "section", "sure_words"]

MOST_LINES = 60
"""Rows drawn as lines with their names; more are drawn by rank."""
FIXED = (
    "estimate",
    "std_error",
    "conf_low",
    "conf_high",
    "bound_low",
    "bound_high",
    "model_low",
    "model_high",
    "observed",
    *charts.MARKS,
)
ALIASES = {"lower": "bound_low", "upper": "bound_high"}
"""What the methods of bounds call them."""


def accepts(result: Any) -> bool:
    """Tell whether this page can show the result: any Estimates."""
    return isinstance(result, Estimates)


@dataclass(frozen=True)
class Cells:
    """The table of Estimates with names of ours.

    Attributes
    ----------
    table : pyarrow.Table
        Keys as text in ``k0, k1, ...``; ``estimate``, ``conf_low``, ...; further numbers in
        ``x0, x1, ...``; ``position`` (minus the row's number).
    labels : mapping of column to words
        The user's names.
    keys : mapping of key to column
    """

    table: pa.Table
    labels: dict[str, str]
    keys: dict[str, str]

    def label(self, row: int) -> str:
        """Give the keys of a row in words."""
        return " · ".join(str(self.table[name][row].as_py() or "–") for name in self.keys.values()) or "everything"

    def options(self, key: str) -> list[tuple[str, str]]:
        """Give the values of a key to choose from; rows without one are found under a dash."""
        missing = self.table[self.keys[key]].null_count > 0
        return [(v, v) for v in [*self.levels(key), *(["–"] if missing else [])]]

    def levels(self, key: str) -> list[str]:
        """Give the values of a key in the order they come."""
        return [str(v) for v in pc.unique(self.table[self.keys[key]]).to_pylist() if v is not None]


def cells_of(estimates: Estimates) -> Cells:
    """Rename the columns of Estimates; columns without any number are left out."""
    table = estimates.table
    columns: dict[str, Any] = {}
    labels: dict[str, str] = {}
    keys = {key: f"k{i}" for i, key in enumerate(estimates.keys)}
    for key, name in keys.items():
        # an empty word would be taken for the choice of everything
        words = [None if v is None else str(v) or "(empty)" for v in table[key].to_pylist()]
        columns[name] = pa.array(words, pa.string())
        labels[name] = key
    rest = [n for n in table.column_names if n not in keys and table[n].null_count < table.num_rows]
    spare = 0
    for name in rest:
        kind = table[name].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            continue
        ours = ALIASES.get(name, name)
        if ours not in FIXED or ours in columns:
            ours, spare = f"x{spare}", spare + 1
        columns[ours], labels[ours] = table[name], name
    columns["position"] = pa.array(-np.arange(table.num_rows))
    columns.setdefault("estimate", pa.nulls(table.num_rows, pa.float64()))
    labels.setdefault("estimate", "estimate")
    return Cells(pa.table(columns), labels, keys)


def section(heading: str, result: Estimates, *, shapes: Shapes | None = None) -> Section:
    """Make the section of any Estimates; places that the shapes show are mapped."""
    from crosslevel.reports.pages.places import map_views, place_key

    cells = cells_of(result)
    place = place_key(cells, shapes)
    choices, views = interval_views(result, cells, "Every row", fixed=[place] if place else [])
    if shapes is not None and place is not None:
        mapped = map_views(result, cells, shapes, place)
        cells = mapped.cells
        known = {c.name for c in mapped.choices}
        choices = [*mapped.choices, *(c for c in choices if c.name not in known)]
        views = [*mapped.views, *(views if len(result.keys) > 1 else [])]
    return base(heading, result, cells, kind="table", choices=choices, views=views)


def base(
    heading: str,
    result: Estimates,
    cells: Cells,
    *,
    kind: str,
    asked: str = "",
    choices: Sequence[Choice] = (),
    views: Sequence[View] = (),
    citation: str = "",
    tables: Mapping[str, pa.Table] | None = None,
) -> Section:
    """Fill what every section of Estimates has in common."""
    return Section(
        heading=heading,
        kind=kind,
        sentences=[asked or asked_words(result), found_words(result, cells), sure_words(result)],
        answer=result.table,
        keys=result.keys,
        method=result.method,
        level=result.level,
        interval=result.interval,
        warnings=result.warnings,
        diagnostics=[(name, plain(value)) for name, value in result.diagnostics.items()],
        provenance=provenance_words(result),
        citation=citation,
        tables={"cells": cells.table, **(tables or {})},
        labels=cells.labels,
        choices=choices,
        views=views,
    )


def asked_words(result: Estimates) -> str:
    """Say what was asked."""
    title = result.title or f"an estimate for {'each ' + ' and '.join(result.keys) if result.keys else 'everything'}"
    return f"Asked: {title}{'' if title.endswith(('.', '?', '!')) else '.'}"


def found_words(result: Estimates, cells: Cells) -> str:
    """Say what was found: how many answers, the lowest and the highest."""
    values = np.asarray(result["estimate"], dtype=float)
    good = np.flatnonzero(np.isfinite(values))
    if not good.size:
        return f"Found: {count(len(result), 'row')}, none with an estimate."
    say = percent if is_share(result) else number
    if good.size == 1:
        return f"Found: {say(values[good[0]])} for {cells.label(int(good[0]))}."
    low, high = (int(good[f(values[good])]) for f in (np.argmin, np.argmax))
    names = [cells.label(i) for i in (low, high)]
    return f"Found: {count(good.size, 'estimate')}, from {say(values[low])} ({names[0]}) to {say(values[high])} ({names[1]})."


def sure_words(result: Estimates) -> str:
    """Say how sure: the width of the intervals, and how many contain the truth where it is known."""
    if result.level is None:
        return _bound_words(result)
    low, high = (np.asarray(result[n], dtype=float) for n in ("conf_low", "conf_high"))
    good = np.isfinite(low) & np.isfinite(high)
    if not good.any():
        return "How sure: no row has an interval."
    width = float(np.median((high - low)[good]))
    size = points(width) if is_share(result) else number(width)
    said = f"How sure: {level_words(result.level, result.interval)}; the middle one is {size} wide."
    if "truth" in result.table.column_names:
        truth = np.asarray(result["truth"], dtype=float)
        known = good & np.isfinite(truth)
        if known.any():
            inside = int(((low <= truth) & (truth <= high))[known].sum())
            said += f" {inside:,} of {int(known.sum()):,} contain the truth, which is known here."
    return said


def _bound_words(result: Estimates) -> str:
    """Say how sure without an interval: by the bounds, where there are any."""
    said = "How sure: this method gives no interval"
    for low, high in (("bound_low", "bound_high"), ("lower", "upper")):
        if {low, high} <= set(result.table.column_names) - set(result.keys):
            width = np.asarray(result[high], dtype=float) - np.asarray(result[low], dtype=float)
            width = width[np.isfinite(width)]
            if width.size:
                middle = float(np.median(width))
                size = points(middle) if is_share(result) else number(middle)
                return f"{said}, but bounds that hold whatever people did; the middle one is {size} wide."
    return f"{said}, so these numbers say nothing of their own error."


def interval_views(
    result: Estimates, cells: Cells, title: str, *, name: str = "intervals", fixed: Sequence[str] = ()
) -> tuple[list[Choice], list[View]]:
    """Draw every row with its interval; keys that would make it too long become drop-down lists.

    Parameters
    ----------
    title : str
        What is drawn; that it has intervals or bounds is added.
    fixed : sequence of str
        Keys that are drop-down lists in any case.
    """
    lines = _lines(cells, fixed)
    chosen = [key for key in cells.keys if key not in lines]
    choices = [Choice(cells.keys[key], key, cells.options(key)) for key in chosen]
    most = _most_rows(cells, chosen)
    if len(lines) > 1 and most <= MOST_LINES:
        # one more list, that narrows nothing at first
        key = min(lines, key=lambda k: len(cells.levels(k)))
        if 1 < len(cells.levels(key)) < most:
            options = [("", "all"), *cells.options(key)]
            choices.append(Choice(cells.keys[key], key, options))
            chosen.append(key)
    have = cells.table.column_names
    interval = result.level is not None and "conf_low" in have and "conf_high" in have
    share = is_share(result)
    words = "estimate"
    shown = {"label": " · ".join(lines), **{n: named(cells.labels[n]) for n in have if n in FIXED or n.startswith("x")}}
    beside = [n for n in charts.MARKS if n in have]
    data: dict[str, Any] = {}
    bounds = most <= MOST_LINES and {"bound_low", "bound_high"} <= set(have)
    if most <= MOST_LINES:
        spec = charts.ranking(words, share=share, interval=interval, bounds=bounds, beside=beside, tips=shown)
        options = [("estimate", "estimate, highest first"), ("position", "as in the table")]
        options[1:1] = [(n, f"{charts.MARKS[n][0]}, highest first") for n in beside]
        order = Choice(f"{name}_order", "sorted by", options)
        choices.append(order)
        data = {"columns": {"sort_by": order.name}}
    else:
        spec = charts.caterpillar(words, share=share, interval=interval, tips=shown)
    where = {cells.keys[key]: cells.keys[key] for key in chosen}
    source = Rows("cells", where, joined={"label": [cells.keys[key] for key in lines]}, **data)
    caption = _caption(result, bounds, interval)
    title += " with its interval" if interval and not fixed else " with its bounds" if bounds and not fixed else ""
    view = View(name, title, caption, spec, {"rows": source}, [c.name for c in choices])
    return choices, [view]


def _caption(result: Estimates, bounds: bool, interval: bool) -> str:
    said = "Dots are estimates"
    said += f"; lines are {level_words(result.level, result.interval)}" if interval else ""
    said += "; grey bars are bounds that hold whatever people did" if bounds else ""
    return f"{said}. Hover for the numbers."


def _lines(cells: Cells, fixed: Sequence[str]) -> list[str]:
    """Choose the keys whose values are drawn side by side: all, or as many as make no more than the most lines."""
    keys = [key for key in cells.keys if key not in fixed]
    if _most_rows(cells, list(fixed)) <= MOST_LINES or len(keys) <= 1:
        return keys
    kept: list[str] = []
    for key in sorted(keys, key=lambda k: len(cells.levels(k))):
        rest = [k for k in cells.keys if k not in (*kept, key)]
        if not kept or _most_rows(cells, rest) <= MOST_LINES:
            kept.append(key)
    return kept


def _most_rows(cells: Cells, chosen: Sequence[str]) -> int:
    """Count the rows of the largest table that the choices leave."""
    if not chosen:
        return int(cells.table.num_rows)
    names = [cells.keys[key] for key in chosen]
    counted = cells.table.select(names).append_column("n", pa.array(np.ones(cells.table.num_rows, dtype=np.int64)))
    return int(pc.max(counted.group_by(names).aggregate([("n", "sum")])["n_sum"]).as_py() or 0)
