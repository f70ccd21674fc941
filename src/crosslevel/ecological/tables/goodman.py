"""Goodman's ecological regression: outcome shares on group shares, no intercept.

Goodman (1953). With x_i the shares of the groups in unit i (they add up to one), t_i the shares of the outcomes and B
the share of each group with each outcome, assumed the same in every unit: t_i = x_i B + e_i. Least squares with weight
N_i (or equal weights), and a covariance that allows the errors' spread to differ between units (HC1: White's sandwich
times n / (n - R)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

__all__ = ["GoodmanFit", "bounded_fit", "goodman_fit"]


MAX_CONDITION = 1e10
"""Beyond this condition number of the group shares the coefficients have fewer than six correct digits."""

SUMS_WEIGHT = 1e4
"""Weight of the rows' sums in the bounded regression: they then hold to about eight digits before rows are rescaled."""


@dataclass(frozen=True)
class GoodmanFit:
    """The regression's answer.

    Attributes
    ----------
    B : (n_groups, n_outcomes)
        Share of each group with each outcome; can lie outside [0, 1].
    std_error : (n_groups, n_outcomes)
        Heteroskedasticity-robust (HC1).
    condition : float
        Condition number of the weighted group shares.
    """

    B: FloatArray
    std_error: FloatArray
    condition: float


def goodman_fit(x: FloatArray, t: FloatArray, weights: FloatArray, groups: tuple[str, ...]) -> GoodmanFit:
    """Fit Goodman's regression by weighted least squares.

    Parameters
    ----------
    x : (n_units, n_groups)
        Group shares, rows adding up to one.
    t : (n_units, n_outcomes)
        Outcome shares.
    weights : (n_units,)
        Weight of each unit's squared error.
    groups : tuple of str
        Names of the groups, for messages.
    """
    n, R = x.shape
    if n <= R:
        raise InputError(
            f"groups has {n} unit(s) for {R} groups; Goodman's regression needs more units than groups. Add units or merge "
            "groups; the bounds need neither."
        )
    root = np.sqrt(weights)[:, None]
    singular = scipy.linalg.svdvals(root * x)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    if condition > MAX_CONDITION:
        raise InputError(
            f"the shares of the groups {listed(groups)} move together or are zero in every unit (condition number "
            f"{condition:.0e}), so their outcomes cannot be told apart; merge or drop groups."
        )
    Q, upper = scipy.linalg.qr(root * x, mode="economic")
    B = scipy.linalg.solve_triangular(upper, Q.T @ (root * t))
    bread = scipy.linalg.solve_triangular(upper, Q.T)  # (X'WX)^-1 X' W^(1/2)
    residual = root * (t - x @ B)
    variance = np.square(bread) @ np.square(residual) * (n / (n - R))
    return GoodmanFit(B=B, std_error=np.sqrt(variance), condition=condition)


def bounded_fit(x: FloatArray, t: FloatArray, weights: FloatArray) -> FloatArray:
    """Fit the same regression with every coefficient at least zero and every row adding up to one, (n_groups, n_outcomes).

    Non-negative least squares on the triangular factor, with the sums as equations that weigh far more than the data.
    """
    R, C = x.shape[1], t.shape[1]
    root = np.sqrt(weights / weights.sum())[:, None]
    Q, upper = scipy.linalg.qr(root * x, mode="economic")
    design = np.kron(upper, np.eye(C))
    sums = SUMS_WEIGHT * np.kron(np.eye(R), np.ones((1, C)))
    wanted = np.concatenate([(Q.T @ (root * t)).ravel(), np.full(R, SUMS_WEIGHT)])
    B = scipy.optimize.nnls(np.vstack([design, sums]), wanted, maxiter=100 * R * C)[0].reshape(R, C)
    return B / B.sum(axis=1, keepdims=True)
