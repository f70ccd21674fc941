"""The units behind an answer: their margins, bounds and rates, rebuilt from the answer's own unit table.

``count`` adds up over outcomes to the people of a group, X_ir, whatever the method. Not every method's counts add up over
groups to the outcomes of a unit (Goodman's do not), but the bounds hold them: upper X_ir = min(X_ir, T_ic), and lower X_ir
= max(0, X_ir + T_ic - N_i). With two groups that is always enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.ecological.tables.answer_cells import Cells, cells_of
from crosslevel.ecological.tables.bounds import cell_bounds
from crosslevel.ecological.tables.unit_tables import UnitTables, unit_tables
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

__all__ = ["AnsweredUnits", "answered_units"]


TOLERANCE = 1e-6
"""Share of a unit's people below which two counts are taken for equal: margins themselves may differ by as much."""


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
        People with each outcome; NaN where the answer does not tell.
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


def answered_units(result: Estimates, groups: object = None, outcomes: object = None) -> list[AnsweredUnits]:
    """Rebuild the units of every district of an answer.

    Parameters
    ----------
    result : Estimates
        Answer of a method of ``crosslevel.ecological``, with ``.units``.
    groups, outcomes : dataframe or array, optional
        The counts the answer was made of, or ``groups`` alone, the result of :func:`unit_tables`; needed only when the
        answer does not tell them itself.

    Examples
    --------
    >>> from crosslevel.ecological import goodman
    >>> people = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10]}
    >>> votes = {"yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> found = answered_units(goodman(people, votes))[0]
    >>> found.X[:, 0].round(6).tolist(), found.T[:, 0].round(6).tolist()
    ([10.0, 40.0, 70.0, 90.0], [24.0, 36.0, 48.0, 56.0])
    """
    if not isinstance(result, Estimates):
        raise InputError(
            f"result is a {type(result).__name__}; pass the answer of a method of crosslevel.ecological, such as rxc(...)."
        )
    wanted = {"unit", "group", "outcome", "count", "lower", "upper"}
    if result.units is None or not wanted <= set(result.units.table.column_names) or "method" in result.keys:
        raise InputError(
            "result has no table of units; pass the answer of one method of crosslevel.ecological itself, not a comparison."
        )
    if (groups is None) != (outcomes is None) and not isinstance(groups, UnitTables):
        raise InputError("groups and outcomes belong together; pass both or neither.")
    whole, inner = cells_of(result), cells_of(result.units)
    if "district" not in result.keys:
        return [_district(result, whole, inner, None, _given(result, groups, outcomes))]
    if groups is not None:
        raise InputError("groups and outcomes cannot be matched to a pooled answer; leave them out.")
    return [_district(result, whole, inner, d, None) for d in dict.fromkeys(place[0] for place in inner.places)]


def _given(result: Estimates, groups: object, outcomes: object) -> tuple[FloatArray, FloatArray] | None:
    if groups is None:
        return None
    tables = unit_tables(groups, outcomes)
    for argument, found in tables.fingerprints.items():
        if result.provenance.data.get(argument, found) != found:
            raise InputError(f"{argument} differs from the counts that result was made of; pass those, in that order.")
    return tables.X, tables.T


def _district(
    result: Estimates, whole: Cells, inner: Cells, district: object, given: tuple[FloatArray, FloatArray] | None
) -> AnsweredUnits:
    key = () if district is None else (district,)
    here = [k for k, place in enumerate(inner.places) if place[: len(key)] == key]
    there = inner.row[here] >= 0  # a pooled district has no rows for options that it lacks
    g, o = np.flatnonzero(there.any(axis=(0, 2))), np.flatnonzero(there.any(axis=(0, 1)))
    groups, outcomes = tuple(inner.groups[k] for k in g), tuple(inner.outcomes[k] for k in o)
    at = inner.row[np.ix_(here, g, o)]
    if min(at.shape[1:]) < 2 or (at < 0).any() or key not in whole.places:
        raise _incomplete()
    if not set(groups) <= set(whole.groups) or not set(outcomes) <= set(whole.outcomes):
        raise _incomplete()
    own = np.ix_([whole.groups.index(name) for name in groups], [whole.outcomes.index(name) for name in outcomes])
    rows = whole.row[whole.places.index(key)][own]
    if (rows < 0).any():
        raise _incomplete()
    units = result.units
    count, rates, low, high = (units[name].astype(np.float64)[at] for name in ("count", "estimate", "lower", "upper"))
    X = count.sum(axis=2) if given is None else given[0]
    if not np.isfinite(X).all():
        without = [name for r, name in enumerate(groups) if not np.isfinite(X[:, r]).all()]
        raise InputError(
            f"result has no estimate for {listed(without)}, so its units cannot be rebuilt; pass groups and outcomes too."
        )
    if X.shape != at.shape[:2]:
        raise _incomplete()
    low, high = np.nan_to_num(low), np.nan_to_num(high)
    T = _outcomes(X, count, low, high) if given is None else given[1]
    _check_bounds(X, T, low, high)
    rates = np.where(X[:, :, None] > 0, rates, 0.0)
    return AnsweredUnits(rows, X, T, rates, low, high, groups, outcomes)


def _outcomes(X: FloatArray, count: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Give the outcomes of every unit, NaN where neither bounds nor counts tell them."""
    N = X.sum(axis=1)
    small = TOLERANCE * N[:, None]
    most = (high * X[:, :, None]).max(axis=1)  # min(T, largest group)
    above = (low * X[:, :, None] > small[:, :, None]).any(axis=1)
    least = np.where(low > 0, low * X[:, :, None] + (N[:, None] - X)[:, :, None], 0.0).max(axis=1)
    below = most < X.max(axis=1)[:, None] - small
    T = np.where(below, most, np.where(above, least, np.nan))
    one = np.isnan(T).sum(axis=1) == 1
    rest = N - np.nansum(T, axis=1)
    T = np.where(np.isnan(T) & one[:, None], rest[:, None], T)
    summed = count.sum(axis=1)
    known = np.isfinite(T)
    adds_up = bool((np.abs(summed - T) <= 10 * small)[known].all()) and np.allclose(summed.sum(axis=1), N)
    return np.where(known, T, summed) if adds_up else T


def _check_bounds(X: FloatArray, T: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Refuse an answer some of whose groups or outcomes were taken out: its units no longer add up."""
    again = cell_bounds(X, np.nan_to_num(T))
    N = X.sum(axis=1)[:, None, None]
    known = np.broadcast_to(np.isfinite(T)[:, None, :], again.low.shape)
    off = np.maximum(np.abs(again.low - low * X[:, :, None]), np.abs(again.high - high * X[:, :, None]))
    if (off > 1e-4 * N)[known].any():
        raise _incomplete()


def _incomplete() -> InputError:
    return InputError(
        "result lacks groups or outcomes that its units have (was it made by select?); pass the whole answer of one method."
    )
