"""The units behind an answer: their margins, bounds and rates, read from the answer's own unit table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.ecological.tables.answer_cells import cells_of
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

__all__ = ["AnsweredUnits", "answered_units"]


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
    >>> from crosslevel.ecological import goodman
    >>> people = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10]}
    >>> votes = {"yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> found = answered_units(goodman(people, votes))[0]
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
