"""The units behind an answer: their margins, bounds and rates, rebuilt from the answer's own unit table.

``count`` adds up over outcomes to the people of a group, X_ir, whatever the method. Not every method's counts add up over
groups to the outcomes of a unit (Goodman's do not), but the bounds hold them: upper X_ir = min(X_ir, T_ic), and lower X_ir
= max(0, X_ir + T_ic - N_i). With two groups that is always enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.tables.bounds import cell_bounds
from crosslevel.ecological.tables.unit_tables import UnitTables, unit_tables
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

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
    groups, outcomes, units : tuple
        Names.
    district : object
        Name of the district, None when there is only one.
    """

    rows: npt.NDArray[np.intp]
    X: FloatArray
    T: FloatArray
    rates: FloatArray
    low: FloatArray
    high: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: tuple[object, ...]
    district: object = None

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
    >>> from crosslevel.ecological.tables.baselines import goodman
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
    units = result.units
    columns = {name: units[name] for name in units.table.column_names}
    if "district" not in result.keys:
        return [_district(result, columns, None, np.arange(len(units)), _given(result, groups, outcomes))]
    if groups is not None:
        raise InputError("groups and outcomes cannot be matched to a pooled answer; leave them out.")
    names = list(dict.fromkeys(columns["district"].tolist()))
    return [_district(result, columns, d, np.flatnonzero(columns["district"] == d), None) for d in names]


def _given(result: Estimates, groups: object, outcomes: object) -> tuple[FloatArray, FloatArray] | None:
    if groups is None:
        return None
    tables = unit_tables(groups, outcomes)
    for argument, found in tables.fingerprints.items():
        if result.provenance.data.get(argument, found) != found:
            raise InputError(f"{argument} differs from the counts that result was made of; pass those, in that order.")
    return tables.X, tables.T


def _district(
    result: Estimates,
    columns: dict[str, npt.NDArray[Any]],
    district: object,
    at: npt.NDArray[np.intp],
    given: tuple[FloatArray, FloatArray] | None,
) -> AnsweredUnits:
    names = [tuple(dict.fromkeys(columns[k][at].tolist())) for k in ("unit", "group", "outcome")]
    units, groups, outcomes = names
    shape = (len(units), len(groups), len(outcomes))
    if len(groups) < 2 or len(outcomes) < 2 or len(at) != np.prod(shape):
        raise _incomplete()
    count, rates, low, high = (
        columns[name][at].astype(np.float64).reshape(shape) for name in ("count", "estimate", "lower", "upper")
    )
    X = count.sum(axis=2) if given is None else given[0]
    if not np.isfinite(X).all():
        without = [g for r, g in enumerate(groups) if not np.isfinite(X[:, r]).all()]
        raise InputError(
            f"result has no estimate for {listed(without)}, so its units cannot be rebuilt; pass groups and outcomes too."
        )
    if X.shape != shape[:2]:
        raise _incomplete()
    low, high = np.nan_to_num(low), np.nan_to_num(high)
    T = _outcomes(X, count, low, high) if given is None else given[1]
    _check_bounds(X, T, low, high)
    where = {key: i for i, key in enumerate(zip(*(result[name].tolist() for name in result.keys), strict=True))}
    try:
        rows = np.array([[where[(*(() if district is None else (district,)), g, o)] for o in outcomes] for g in groups])
    except KeyError:
        raise _incomplete() from None
    return AnsweredUnits(
        rows=rows,
        X=X,
        T=T,
        rates=np.where(X[:, :, None] > 0, rates, 0.0),
        low=low,
        high=high,
        groups=groups,
        outcomes=outcomes,
        units=units,
        district=district,
    )


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
