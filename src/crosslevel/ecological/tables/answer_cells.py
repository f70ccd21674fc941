"""Read the answer of a method as cells, by place, group and outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

__all__ = ["NOBODY", "Cells", "cells_of", "people_of"]


NOBODY = 1e-9
"""Share of a group below which it counts as empty: far below one person, far above rounding."""


@dataclass(frozen=True)
class Cells:
    """Where each row of an answer stands.

    Attributes
    ----------
    place_keys : tuple of str
        The keys other than group and outcome (``district``, ``unit``, ``method``).
    places : tuple of tuple
        Their values, in order of first appearance; one empty tuple where there are no such keys.
    groups, outcomes : tuple of str
    row : (n_places, n_groups, n_outcomes)
        Row of each cell; -1 where there is none.
    """

    place_keys: tuple[str, ...]
    places: tuple[tuple[Any, ...], ...]
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    row: IntArray

    def grid(self, values: npt.ArrayLike) -> FloatArray:
        """Give a column, or draws (n_draws, n_rows), by place, group and outcome; NaN where there is no row."""
        array = np.asarray(values, dtype=np.float64)
        return np.where(self.row >= 0, array[..., self.row], np.nan)

    def keys(self, *numbers: IntArray) -> dict[str, Any]:
        """Give the key columns of rows by number: of the place, then of the group, then of the outcome."""
        named: dict[str, Any] = {k: [self.places[p][i] for p in numbers[0]] for i, k in enumerate(self.place_keys)}
        for name, side, code in zip(("group", "outcome"), (self.groups, self.outcomes), numbers[1:], strict=False):
            named[name] = [side[j] for j in code]
        return named

    def number(self, argument: str, name: object, side: str) -> int:
        """Find a group or an outcome by its exact name."""
        names = self.groups if side == "group" else self.outcomes
        if name not in names:
            raise unknown_name(argument, name, names, "group" if side == "group" else "known outcome")
        return names.index(str(name))


def cells_of(result: object) -> Cells:
    """Read the answer of a method by place, group and outcome.

    Examples
    --------
    >>> from crosslevel.ecological.tables.baselines import neighborhood
    >>> found = neighborhood({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> cells_of(found).row.tolist(), cells_of(found).grid(found["count"])[0, 1].tolist()
    ([[[0, 1], [2, 3]]], [58.0, 22.0])
    """
    if not isinstance(result, Estimates):
        raise InputError(
            f"result is a {type(result).__name__}; pass the Estimates of a method of crosslevel.ecological."
        )
    missing = [n for n in ("group", "outcome") if n not in result.keys]
    missing += [n for n in ("count", "lower", "upper") if n not in result.table.column_names]
    if missing:
        raise InputError(
            f"result has no {missing[0]!r}; pass the Estimates of a method of crosslevel.ecological, which has a row per group "
            "and outcome with counts and bounds."
        )
    place_keys = tuple(k for k in result.keys if k not in ("group", "outcome"))
    columns = {k: result.table[k].to_pylist() for k in result.keys}
    where = list(zip(*(columns[k] for k in place_keys), strict=True)) if place_keys else [()] * len(result)
    codes, names = [], []
    for values in (where, columns["group"], columns["outcome"]):
        found = {v: i for i, v in enumerate(dict.fromkeys(values))}
        codes.append(np.array([found[v] for v in values], dtype=np.intp))
        names.append(tuple(found))
    row = np.full(tuple(len(n) for n in names), -1, dtype=np.intp)
    row[tuple(codes)] = np.arange(len(result))
    return Cells(place_keys, names[0], names[1], names[2], row)


def people_of(cells: Cells, result: Estimates) -> FloatArray:
    """Recover the people of each group in each place, (n_places, n_groups): every count over its share; NaN if not known."""
    count, share = (np.abs(cells.grid(result[name])) for name in ("count", "estimate"))
    rows = (cells.row >= 0).any(axis=2)
    counted, shared = np.nansum(count, axis=2), np.nansum(share, axis=2)
    people = np.divide(counted, shared, out=np.full(counted.shape, np.nan), where=shared > 0)
    # nobody lives where counts are zero and shares null; zero shares say only that the people are elsewhere
    empty = np.where(rows, ~np.isnan(count).all(axis=2) & np.isnan(share).all(axis=2), True)
    return np.where((counted == 0) & empty, 0.0, people)
