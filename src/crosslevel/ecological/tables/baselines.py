"""Inference from two margins by unit: bounds, neighborhood, Goodman.

Each function takes counts (units x groups, units x outcomes) and answers with one table: a row per group and outcome,
`estimate` being the share of the group with that outcome, the deterministic bounds beside it, and ``.units`` the same
for every unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from crosslevel.data import checks
from crosslevel.ecological.tables.bounds import cell_bounds
from crosslevel.ecological.tables.goodman import bounded_fit, goodman_fit
from crosslevel.ecological.tables.layout import cell_estimates
from crosslevel.ecological.tables.unit_tables import UnitTables, unit_tables
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = ["bounds", "goodman", "neighborhood"]


def bounds(groups: object, outcomes: object = None, *, units: Sequence[object] | None = None) -> Estimates:
    """Say what the margins imply with certainty (Duncan and Davis 1953).

    The columns ``lower`` and ``upper`` hold the share of each group with each outcome for sure; ``estimate`` is their
    midpoint and carries no interval, since nothing inside the bounds is more probable than anything else.
    They are sharp for each cell by itself, of a unit and of the district, whatever the numbers of groups and outcomes;
    two cells need not reach theirs together.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    units : sequence, optional
        Names of the units.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; ``.units`` with keys ``unit``, ``group``, ``outcome``.

    See Also
    --------
    goodman : a regression, which assumes groups behave alike everywhere.
    neighborhood : assumes everybody behaves like their unit.

    References
    ----------
    Duncan, O. D. and Davis, B. (1953). An alternative to ecological correlation. American Sociological Review 18.

    Examples
    --------
    >>> found = bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> found["lower"].round(3).tolist(), found["upper"].round(3).tolist()
    ([0.167, 0.583, 0.625, 0.0], [0.417, 0.833, 1.0, 0.375])
    """
    tables = unit_tables(groups, outcomes, units)
    limits = cell_bounds(tables.X, tables.T)
    midpoint = (limits.low + limits.high) / 2
    return cell_estimates(
        tables, midpoint, limits, method="bounds (Duncan-Davis), midpoint", call="bounds(groups, outcomes)"
    )


def neighborhood(groups: object, outcomes: object = None, *, units: Sequence[object] | None = None) -> Estimates:
    """Assume that everybody behaves like their unit, whatever their group.

    The naive baseline: in each unit every group has the unit's own outcome shares. It respects all totals and bounds and
    says nothing about differences within units.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    units : sequence, optional
        Names of the units.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; no interval. ``.units`` with keys ``unit``, ``group``, ``outcome``.

    References
    ----------
    Freedman, D. A., Klein, S. P., Sacks, J., Smyth, C. A. and Everett, C. G. (1991). Ecological regression and voting
    rights. Evaluation Review 15.

    Examples
    --------
    >>> found = neighborhood({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> found["estimate"].tolist()
    [0.35, 0.65, 0.725, 0.275]
    """
    tables = unit_tables(groups, outcomes, units)
    cells = tables.X[:, :, None] * tables.T[:, None, :] / tables.N[:, None, None]
    return cell_estimates(
        tables,
        cells,
        cell_bounds(tables.X, tables.T),
        method="neighborhood (everybody behaves like their unit)",
        call="neighborhood(groups, outcomes)",
    )


def goodman(
    groups: object,
    outcomes: object = None,
    *,
    units: Sequence[object] | None = None,
    weights: str | npt.ArrayLike = "population",
    level: float = 0.95,
    bounded: bool = False,
) -> Estimates:
    """Regress outcome shares on group shares (Goodman 1953), with robust standard errors.

    The share of each group with each outcome is assumed to be unrelated to the composition of its unit. Where that
    fails (aggregation bias) the estimate is biased and its interval does not cover; cells outside [0, 1] or outside the
    deterministic bounds show that it has failed. They are flagged, not hidden.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    units : sequence, optional
        Names of the units.
    weights : {"population", "equal"} or array, default "population"
        Weight of each unit in the regression, an array having one per row of ``groups`` (per unit of checked tables). The
        choice can matter more than the interval is wide: it stands in ``method`` and ``diagnostics``.
    level : float, default 0.95
        Level of the intervals (Student t with n_units - n_groups degrees of freedom).
    bounded : bool, default False
        Constrain every share to [0, 1] and every group's shares to add up to one (constrained least squares). There is
        then no interval: at an edge its errors are not normal.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; ``outside`` is true where the estimate violates the bounds. ``.units`` repeats the
        regression's constant share in every unit.

    References
    ----------
    Goodman, L. A. (1953). Ecological regressions and behavior of individuals. American Sociological Review 18.

    Examples
    --------
    >>> young = [10, 40, 70, 90]
    >>> people = {"young": young, "old": [100 - y for y in young]}
    >>> votes = {"yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> goodman(people, votes)["estimate"].round(6).tolist()
    [0.6, 0.4, 0.2, 0.8]
    """
    tables = unit_tables(groups, outcomes, units)
    level = checks.check_level(level)
    w, said = _unit_weights(tables, weights, checked=isinstance(groups, UnitTables))
    used, N = w > 0, tables.N[:, None]
    x, t = (tables.X / N)[used], (tables.T / N)[used]
    fit = goodman_fit(x, t, w[used], tables.groups)
    B = bounded_fit(x, t, w[used]) if bounded else fit.B
    dof = int(used.sum()) - len(tables.groups)
    half = stats.t.ppf((1 + level) / 2, dof) * fit.std_error
    errors = {"std_error": fit.std_error, "conf_low": B - half, "conf_high": B + half}
    limits = cell_bounds(tables.X, tables.T)
    total = tables.X.sum(axis=0)[:, None]
    outside = (B * total < limits.low.sum(axis=0) - 1e-9 * total) | (B * total > limits.high.sum(axis=0) + 1e-9 * total)
    return cell_estimates(
        tables,
        B * tables.X[:, :, None],
        limits,
        method=f"Goodman regression, {said} weights{', constrained to [0, 1]' if bounded else ''}",
        call=f"goodman(groups, outcomes, weights={said!r}, level={level!r}, bounded={bounded!r})",
        level=None if bounded else level,
        interval="none" if bounded else f"t({dof}), HC1 robust errors",
        columns={**({} if bounded else errors), "outside": outside},
        diagnostics={"weights": said, "condition": fit.condition, "cells_outside_bounds": int(outside.sum())},
        warnings=(
            *_outside_warning(tables, outside),
            *(
                (f"{int((~used).sum())} unit(s) of weight zero were left out of the regression.",)
                if not used.all()
                else ()
            ),
        ),
    )


def _unit_weights(tables: UnitTables, weights: str | npt.ArrayLike, checked: bool) -> tuple[FloatArray, str]:
    if isinstance(weights, str):
        if weights == "population":
            return tables.N, weights
        if weights == "equal":
            return np.ones(len(tables.N)), weights
        raise unknown_name("weights", weights, ["population", "equal"], "choice")
    given = checks.check_weights(weights, "weights", len(tables.units) + (0 if checked else len(tables.dropped)))
    if tables.dropped and not checked:
        raise InputError(
            f"weights cannot be matched: {len(tables.dropped)} unit(s) without people were left out ({listed(tables.dropped)}); "
            "drop them from groups, outcomes and weights first, or pass unit_tables(...) and weights for its units."
        )
    return given, "own"


def _outside_warning(tables: UnitTables, outside: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    if not outside.any():
        return ()
    cells = [f"{tables.groups[r]} × {tables.outcomes[c]}" for r, c in np.argwhere(outside)]
    return (
        f"{len(cells)} cell(s) lie outside the deterministic bounds ({listed(cells)}): the assumption of constant shares "
        "fails on these data, and the intervals do not cover.",
    )
