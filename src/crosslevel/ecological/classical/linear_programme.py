"""Constant rates by linear programming: the least total absolute error of the units' outcomes.

The basic programme of the lphom family (Romero, Pavia, Martin and Romero 2020): minimise sum_ic |T_ic - sum_r X_ir p_rc|
over tables of rates whose rows add up to one and which reproduce the district's outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.sparse

from crosslevel.ecological.classical.duncan_davis import cell_bounds
from crosslevel.ecological.classical.layout import cell_estimates
from crosslevel.ecological.classical.tables import unit_tables
from crosslevel.errors import ConvergenceError
from crosslevel.results import Estimates

__all__ = ["lp"]

FloatArray = npt.NDArray[np.float64]


def lp(groups: object, outcomes: object, *, units: Sequence[object] | None = None) -> Estimates:
    """Find the constant rates with the least total absolute error, by linear programming.

    The basic method of the lphom family, for comparison. There is no interval.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes.
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
    tables = unit_tables(groups, outcomes, units)
    scaled = tables.T * (tables.N / tables.T.sum(axis=1))[:, None]
    rates, error = least_absolute(tables.X, scaled)
    return cell_estimates(
        tables,
        rates * tables.X[:, :, None],
        cell_bounds(tables.X, tables.T),
        method="linear programme of least absolute error",
        call="lp(groups, outcomes)",
        diagnostics={"converged": True, "heterogeneity": error / (2 * tables.N.sum())},
    )


def least_absolute(X: FloatArray, T: FloatArray) -> tuple[FloatArray, float]:
    """Give the rates (R, C) and their total absolute error in people."""
    n, R = X.shape
    C = T.shape[1]
    # unknowns: p (R C), then the error of each unit and outcome in parts above and below
    shares = scipy.sparse.kron(scipy.sparse.csr_matrix(X), scipy.sparse.eye(C))
    one = scipy.sparse.eye(n * C)
    rows_add_up = scipy.sparse.kron(scipy.sparse.eye(R), np.ones((1, C)))
    district = scipy.sparse.kron(X.sum(axis=0)[None, :], scipy.sparse.eye(C))
    # the last outcome of the district follows from the others
    constraints = scipy.sparse.block_array(
        [[shares, one, -one], [rows_add_up, None, None], [district.tocsr()[:-1], None, None]], format="csr"
    )
    found = scipy.optimize.linprog(
        np.concatenate([np.zeros(R * C), np.ones(2 * n * C)]),
        A_eq=constraints,
        b_eq=np.concatenate([T.ravel(), np.ones(R), T.sum(axis=0)[:-1]]),
        bounds=(0, None),
        method="highs",
    )
    if not found.success:
        raise ConvergenceError(f"the linear programme was not solved ({found.message}); merge tiny options.")
    rates = np.maximum(found.x[: R * C].reshape(R, C), 0)
    return rates / rates.sum(axis=1, keepdims=True), float(found.fun)
