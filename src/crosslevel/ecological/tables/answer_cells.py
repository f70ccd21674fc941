"""Read the answer of a method as cells, by place, group and outcome.

The units behind an answer: their margins, bounds and rates, read from the answer's own unit table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

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
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological.tables.baselines import neighborhood
    >>> data = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
    >>> found = neighborhood(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))
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


COLUMNS = ("people", "outcome_total", "estimate", "lower", "upper")
SAME_TOTAL = 1e-5
"""Largest relative difference between the two totals of a unit: more means that groups or outcomes were taken out."""


@dataclass(frozen=True)
class AnsweredUnits:
    """One district of an answer.

    Attributes
    ----------
    rows : (n_groups, n_outcomes)
        Rows of the answer's table that hold the district's cells.
    X : (n_units, n_groups)
        People of each group in each unit.
    T : (n_units, n_outcomes)
        People with each outcome.
    rates : (n_units, n_groups, n_outcomes)
        The method's share of each group with each outcome in each unit; zero where nobody is of the group.
    low, high : (n_units, n_groups, n_outcomes)
        Bounds of those shares.
    groups, outcomes : tuple of str
        Names.
    """

    rows: IntArray
    X: FloatArray
    T: FloatArray
    rates: FloatArray
    low: FloatArray
    high: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]

    @property
    def x(self) -> FloatArray:
        """(n_units, n_groups) share of each group in each unit."""
        return self.X / self.X.sum(axis=1, keepdims=True)


def answered_units(result: Estimates) -> list[AnsweredUnits]:
    """Read the units of every district of an answer.

    Parameters
    ----------
    result : Estimates
        Answer of a method of ``crosslevel.ecological``, with ``.units``.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import goodman
    >>> data = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10], "yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> found = answered_units(goodman(Counts(data, groups=["young", "old"], outcomes=["yes", "no"])))[0]
    >>> found.X[:, 0].tolist(), found.T[:, 0].tolist()
    ([10.0, 40.0, 70.0, 90.0], [24.0, 36.0, 48.0, 56.0])
    """
    if not isinstance(result, Estimates):
        raise InputError(
            f"result is a {type(result).__name__}; pass the answer of a method of crosslevel.ecological, such as rxc(...)."
        )
    units = result.units
    if units is None or not {"unit", *COLUMNS} <= set(units.table.column_names) or "method" in result.keys:
        raise InputError(
            "result has no table of units; pass the answer of one method of crosslevel.ecological itself, not a comparison."
        )
    whole, inner = cells_of(result), cells_of(units)
    keys = dict.fromkeys(place[:-1] for place in inner.places)  # the districts, or one empty key
    found = []
    for key in keys:
        there = inner.row[[place[:-1] == key for place in inner.places]]
        # a pooled district has no rows for options that it lacks
        g, o = np.flatnonzero((there >= 0).any(axis=(0, 2))), np.flatnonzero((there >= 0).any(axis=(0, 1)))
        at = there[:, g][:, :, o]
        groups, outcomes = tuple(inner.groups[k] for k in g), tuple(inner.outcomes[k] for k in o)
        known = key in whole.places and set(groups) <= set(whole.groups) and set(outcomes) <= set(whole.outcomes)
        if not known or (at < 0).any():
            raise _incomplete()
        own = np.ix_([whole.groups.index(name) for name in groups], [whole.outcomes.index(name) for name in outcomes])
        people, totals, rates, low, high = (units[name].astype(np.float64)[at] for name in COLUMNS)
        X, T = people[:, :, 0], totals[:, 0]
        if not np.allclose(X.sum(axis=1), T.sum(axis=1), rtol=SAME_TOTAL):
            raise _incomplete()
        rates = np.where(X[:, :, None] > 0, rates, 0.0)
        if np.isnan(rates).any():
            without = [name for r, name in enumerate(groups) if np.isnan(rates[:, r]).any()]
            raise InputError(f"result has no estimate for {listed(without)}; pass the answer of another method.")
        low, high = np.nan_to_num(low), np.nan_to_num(high)
        found.append(AnsweredUnits(whole.row[whole.places.index(key)][own], X, T, rates, low, high, groups, outcomes))
    return found


def _incomplete() -> InputError:
    return InputError(
        "result lacks groups or outcomes that its units have (was it made by select?); pass the whole answer of one method."
    )
