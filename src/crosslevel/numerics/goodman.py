"""Goodman's regression on arrays: shares of outcomes on shares of groups, with robust errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

__all__ = ["GoodmanFit", "goodman_fit"]

MAX_CONDITION = 1e10
"""Beyond this condition number of the group shares the coefficients have fewer than six correct digits."""


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
