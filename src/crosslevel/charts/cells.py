"""The table of Estimates under names of ours, which charts can use safely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.charts.chart import Choice
from crosslevel.charts.words import named
from crosslevel.results import Estimates

__all__ = ["FIXED", "Cells", "cells_of"]

FIXED = (
    "estimate", "std_error", "conf_low", "conf_high", "bound_low", "bound_high", "model_low", "model_high", "observed", "truth",
    "neighborhood", "goodman", "rxc", "homogeneous", "naive", "plug_in", "baseline", "area_weighted", "nested_rate",
    "published", "people", "size", "p_value",
)  # fmt: skip
"""Columns that keep their name."""
ALIASES = {"lower": "bound_low", "upper": "bound_high"}
"""What the methods of bounds call them."""


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

    def choice(self, key: str, *, all_rows: bool = False) -> Choice:
        """Make the list of a key's values; ``all_rows`` puts "all" first."""
        return Choice(self.keys[key], key, [*([("", "all")] if all_rows else []), *self.options(key)])

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
    columns["position"] = pa.array(-np.arange(table.num_rows))
    columns.setdefault("estimate", pa.nulls(table.num_rows, pa.float64()))
    labels.setdefault("estimate", "estimate")
    return Cells(pa.table(columns), labels, keys)


def _word(value: object) -> str | None:
    """Write a key; an empty word would be taken for the choice of everything."""
    if isinstance(value, float) and float(f"{value:.6g}") == value:
        return f"{value:.6g}"
    return None if value is None else str(value) or "(empty)"
