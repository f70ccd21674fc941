"""Homogeneous units: look only where nearly everybody is of one group."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from crosslevel.ecological.tables.bounds import cell_bounds
from crosslevel.ecological.tables.layout import cell_estimates
from crosslevel.ecological.tables.unit_tables import unit_tables
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates

__all__ = ["homogeneous"]


def homogeneous(
    groups: object, outcomes: object = None, *, threshold: float = 0.8, units: Sequence[object] | None = None
) -> Estimates:
    """Take the outcomes of units in which a group is at least ``threshold`` of the people as that group's own.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    threshold : float, default 0.8
        Least share of a group in a unit that stands for it; above one half.
    units : sequence, optional
        Names of the units.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; no interval. ``units_used`` counts the units of each group; a group without any is
        null. ``.units`` repeats the rates in every unit.

    Examples
    --------
    >>> people = {"young": [95, 50, 5], "old": [5, 50, 95]}
    >>> votes = {"yes": [60, 50, 20], "no": [40, 50, 80]}
    >>> homogeneous(people, votes, threshold=0.9)["estimate"].tolist()
    [0.6, 0.4, 0.2, 0.8]
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0.5 < float(threshold) <= 1:
        raise InputError(f"threshold={threshold!r} is not a share above 0.5; pass for example 0.8 or 0.9.")
    tables = unit_tables(groups, outcomes, units)
    pure = (tables.X / tables.N[:, None] >= threshold).astype(float)
    people = pure.T @ tables.N
    rates = np.divide(
        pure.T @ tables.T,
        people[:, None],
        out=np.full((len(tables.groups), len(tables.outcomes)), np.nan),
        where=people[:, None] > 0,
    )
    used = pure.sum(axis=0).astype(np.int64)
    without = [g for g, n in zip(tables.groups, used, strict=True) if n == 0]
    return cell_estimates(
        tables,
        rates * tables.X[:, :, None],
        cell_bounds(tables.X, tables.T),
        method=f"homogeneous units, {threshold:g} or more of one group",
        call=f"homogeneous(groups, outcomes, threshold={threshold!r})",
        columns={"units_used": np.repeat(used[:, None], len(tables.outcomes), axis=1)},
        diagnostics={"threshold": float(threshold), "units_used": int(used.sum())},
        warnings=(f"No unit is homogeneous for {listed(without)}: null.",) if without else (),
    )
