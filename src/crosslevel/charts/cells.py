"""The table of Estimates under names of ours, which charts can use safely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.charts.chart import Chart, Choice, Map, Panel, Rows
from crosslevel.charts.words import named
from crosslevel.results import Estimates
from crosslevel.results.table import bounded, midpoints, on_unit_scale, to_array

FIXED = (
    "estimate", "std_error", "conf_low", "conf_high", "bound_low", "bound_high", "model_low", "model_high", "observed", "truth",
    "neighborhood", "goodman", "rxc", "homogeneous", "naive", "plug_in", "baseline", "area_weighted", "people_weighted",
    "published", "people", "size", "p_value",
)  # fmt: skip
"""Columns that keep their name."""
ALIASES = {"lower": "bound_low", "upper": "bound_high"}
"""What the methods of bounds call them."""


def unit_limits(estimates: Estimates) -> tuple[float, float] | None:
    """Give the limits of an axis of shares that have bounds: 0 to 1, whatever a regression says."""
    return (0.0, 1.0) if bounded(estimates) and on_unit_scale(estimates) else None


@dataclass(frozen=True)
class Cells:
    """The table of Estimates with names of ours.

    Attributes
    ----------
    table : pyarrow.Table
        Keys as text in ``k0, k1, ...``; ``estimate``, ``conf_low``, ...; further numbers in ``x0, x1, ...``; ``position`` (minus
        the row's number).
    labels : mapping of column to words
        The user's names.
    keys : mapping of key to column
    """

    table: pa.Table
    labels: dict[str, str]
    keys: dict[str, str]

    def has(self, *names: str) -> bool:
        """Tell whether the table has all of these columns."""
        return set(names) <= set(self.table.column_names)

    def label(self, row: int, keys: Sequence[str] | None = None) -> str:
        """Give some keys of a row in words, or all."""
        names = [self.keys[key] for key in (self.keys if keys is None else keys)]
        return " · ".join(str(self.table[name][row].as_py() or "–") for name in names) or "everything"

    def options(self, key: str) -> list[tuple[str, str]]:
        """Give the values of a key to choose from; rows without one are found under a dash."""
        missing = self.table[self.keys[key]].null_count > 0
        return [(v, v) for v in [*self.levels(key), *(["–"] if missing else [])]]

    def levels(self, key: str) -> list[str]:
        """Give the values of a key in the order they come."""
        return [str(v) for v in pc.unique(self.table[self.keys[key]]).to_pylist() if v is not None]

    def choice(self, key: str, label: str = "", *, all_rows: bool = False) -> Choice:
        """Make the list of a key's values, called by the key or ``label``; ``all_rows`` puts "all" first."""
        return Choice(self.keys[key], label or key, [*([("", "all")] if all_rows else []), *self.options(key)])

    def most_rows(self, chosen: Sequence[str]) -> int:
        """Count the rows of the largest table that lists of these keys leave."""
        if not chosen:
            return int(self.table.num_rows)
        names = [self.keys[key] for key in chosen]
        counted = self.table.select(names).append_column("n", pa.array(np.ones(self.table.num_rows, dtype=np.int64)))
        return int(pc.max(counted.group_by(names).aggregate([("n", "sum")])["n_sum"]).as_py() or 0)

    def tips(self, first: dict[str, str] | None = None, prefix: str = "") -> dict[str, str]:
        """Name every column of numbers in words, for hovering."""
        numbers = [n for n in self.table.column_names if n in FIXED or n.startswith("x")]
        return {**(first or {}), **{prefix + n: named(self.labels[n]) for n in numbers}}

    def take(self, rows: Any) -> Cells:
        """Keep some rows, in this order."""
        return replace(self, table=self.table.take(pa.array(rows, pa.int64())))

    def with_columns(self, **columns: Any) -> Cells:
        """Add columns under names of ours."""
        table = self.table
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, from_pandas=True))
        return replace(self, table=table, labels={**{name: name for name in columns}, **self.labels})

    def within_unit(self, estimates: Estimates) -> Cells:
        """Add what an axis from 0 to 1 shows where a regression leaves it: dots inside, cut intervals, arrows at the ends.

        Nothing is added where every number is inside, or where the axis is not cut. Columns: ``shown``, ``shown_low``, ``shown_high``,
        and ``below`` and ``above`` where an estimate is.
        """
        names = [n for n in ("estimate", "conf_low", "conf_high") if self.has(n)]
        values = {n: np.asarray(to_array(self.table[n]), dtype=np.float64) for n in names}
        with np.errstate(invalid="ignore"):
            if unit_limits(estimates) is None or not any(((v < 0) | (v > 1)).any() for v in values.values()):
                return self
            x = values["estimate"]
            low, high = (values.get(n, np.full(len(x), np.nan)) for n in ("conf_low", "conf_high"))
            gone = (high < 0) | (low > 1)
            arrows = {"below": np.where(x < 0, 0.0, np.nan), "above": np.where(x > 1, 1.0, np.nan)}
            return self.with_columns(
                shown=np.where((x >= 0) & (x <= 1), x, np.nan),
                shown_low=np.where(gone, np.nan, np.clip(low, 0, 1)),
                shown_high=np.where(gone, np.nan, np.clip(high, 0, 1)),
                **{name: ends for name, ends in arrows.items() if np.isfinite(ends).any()},
            )

    def with_key(self, key: str, words: Sequence[str | None], instead: Sequence[str] = ()) -> Cells:
        """Give a key other words, or put a new one in the place of others."""
        own = self.keys.get(key) or self.keys[instead[0]]
        table = self.table.set_column(self.table.column_names.index(own), own, pa.array(words, pa.string()))
        keys = {k: name for k, name in self.keys.items() if k not in instead} | {key: own}
        return Cells(table, self.labels | {own: key}, keys)

    def chart(
        self,
        name: str,
        title: str,
        caption: str,
        panels: Sequence[Panel | Map],
        *,
        choices: Sequence[Choice] = (),
        where: Mapping[str, str] | None = None,
        lines: Sequence[str] | None = None,
        columns: Mapping[str, str] | None = None,
        rank: str = "",
        words: Mapping[str, str] | None = None,
        **look: Any,
    ) -> Chart:
        """Make a chart of the rows, each called by its keys; hovering tells every number.

        Parameters
        ----------
        name, title, caption, panels, choices, **look
            Of the chart.
        where : mapping of column to choice, optional
            By default the choices that are called as a column keep the rows with their value.
        lines : sequence of str, optional
            Keys that name a row; by default those without a drop-down list.
        columns, rank
            Of its rows.
        words : mapping of column to words, optional
            What hovering calls columns that it would call otherwise, or not tell.
        """
        if where is None:
            where = {c.name: c.name for c in choices if c.name in self.table.column_names}
        if lines is None:
            lines = [key for key, column in self.keys.items() if column not in where]
        rows = Rows("cells", where, columns or {}, {"label": [self.keys[key] for key in lines]}, rank)
        tips = self.tips({"label": " · ".join(lines)}) | dict(words or {})
        tables = {"cells": self.table}
        return Chart(name, title, caption, panels, tables, {"rows": rows}, choices, self.labels, tips, **look)


def cells_of(estimates: Estimates) -> Cells:
    """Rename the columns of Estimates; columns without any number are left out."""
    table = estimates.table
    columns: dict[str, Any] = {}
    labels: dict[str, str] = {}
    keys = {key: f"k{i}" for i, key in enumerate(estimates.keys)}
    for key, name in keys.items():
        columns[name] = pa.array([_word(v) for v in table[key].to_pylist()], pa.string())
        labels[name] = key
    spare = 0
    for name in table.column_names:
        number = pa.types.is_integer(table[name].type) or pa.types.is_floating(table[name].type)
        if name in keys or not number or table[name].null_count == table.num_rows:
            continue
        ours = ALIASES.get(name, name)
        if ours not in FIXED or ours in columns:
            ours, spare = f"x{spare}", spare + 1
        columns[ours], labels[ours] = table[name], name
    only = midpoints(estimates)  # what lies in the middle of bounds is no estimate
    columns["estimate"] = pc.if_else(pa.array(~only), table["estimate"], None)
    columns["position"] = pa.array(-np.arange(table.num_rows))
    labels.setdefault("estimate", "estimate")
    return Cells(pa.table(columns), labels, keys)


def _word(value: object) -> str | None:
    """Write a key; an empty word would be taken for the choice of everything."""
    if isinstance(value, float) and float(f"{value:.6g}") == value:
        return f"{value:.6g}"
    return None if value is None else str(value) or "(empty)"
