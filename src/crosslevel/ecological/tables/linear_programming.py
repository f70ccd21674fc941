"""Constant rates by linear programming: the least total absolute error of the units' outcomes.

The basic program of the lphom family (Romero, Pavia, Martin and Romero 2020): minimize sum_ic |T_ic - sum_r X_ir p_rc|
over tables of rates whose rows add up to one and which reproduce the district's outcomes. Its dual is what is solved: R C
rows whatever the number of units, where the program itself has one row per unit and outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.optimize
import scipy.sparse

from crosslevel.ecological.tables.layout import cell_estimates
from crosslevel.ecological.tables.unit_tables import unit_tables
from crosslevel.errors import ConvergenceError
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = ["lp"]


def lp(groups: object, outcomes: object = None, *, units: Sequence[object] | None = None) -> Estimates:
    """Estimate constant rates with the least total absolute error, by linear programming.

    The basic method of the lphom family, for comparison. There is no interval.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    units : sequence, optional
        Names of the units.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; no interval. The district's cells add up to both margins; ``.units`` repeats the
        constant rates in every unit, which can lie outside its bounds.

    References
    ----------
    Romero, R., Pavia, J. M., Martin, J. and Romero, G. (2020). Assessing uncertainty of voter transitions estimated from
    aggregated data. Journal of Applied Statistics 47.

    Examples
    --------
    >>> people = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10]}
    >>> votes = {"yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> lp(people, votes)["estimate"].round(6).tolist()
    [0.6, 0.4, 0.2, 0.8]
    """
    call = ("lp", locals())
    tables = unit_tables(groups, outcomes, units)
    scaled = tables.T * (tables.N / tables.T.sum(axis=1))[:, None]
    rates, error = least_absolute(tables.X, scaled)
    return cell_estimates(
        tables,
        rates * tables.X[:, :, None],
        method="linear program of least absolute error",
        call=call,
        diagnostics={"converged": True, "heterogeneity": error / (2 * tables.N.sum())},
    )


def least_absolute(X: FloatArray, T: FloatArray) -> tuple[FloatArray, float]:
    """Give the rates (R, C) and their total absolute error in people."""
    n, R = X.shape
    C = T.shape[1]
    size = X.sum() / n  # counts near one, whatever the size of the units: the solver's tolerances are absolute
    x, t = X / size, T / size
    # unknowns of the dual: u (n C) of the units' outcomes, v (R) of the rows' sums, w (C - 1) of the district's outcomes,
    # whose last follows from the others
    units = scipy.sparse.kron(scipy.sparse.csr_array(x.T), scipy.sparse.eye_array(C))
    rows_add_up = scipy.sparse.kron(scipy.sparse.eye_array(R), np.ones((C, 1)))
    district = scipy.sparse.kron(x.sum(axis=0)[:, None], scipy.sparse.eye_array(C)).tocsc()[:, :-1]
    gain = np.concatenate([t.ravel(), np.ones(R), t.sum(axis=0)[:-1]])
    limit = np.concatenate([np.ones(n * C), np.full(R + C - 1, np.inf)])
    found = scipy.optimize.linprog(
        -gain,
        A_ub=scipy.sparse.hstack([units, rows_add_up, district], format="csc"),
        b_ub=np.zeros(R * C),
        bounds=np.column_stack([-limit, limit]),
        method="highs",
    )
    if not found.success:
        raise ConvergenceError(f"the linear program was not solved ({found.message}); merge tiny options.")
    rates = np.maximum(-found.ineqlin.marginals.reshape(R, C), 0)
    return rates / rates.sum(axis=1, keepdims=True), float(-found.fun * size)
