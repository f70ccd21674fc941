"""What needs no imputation method: regressions on the truth, means of distinct rows, and the ecological regression on group means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from crosslevel.data.cells import Cells, sums
from crosslevel.errors import ConvergenceError
from crosslevel.imputation.design import Design
from crosslevel.imputation.match_means import match
from crosslevel.imputation.persons.model import Groups, Settings, fit_slopes
from crosslevel.numerics.newton import newton
from crosslevel.typing import FloatArray, IntArray

RIDGE = 1e-6
"""A millionth of a person's information: dummies of all levels have no unique solution."""
STEPS = 100
SLOPE_SD, MEAN_SD = 0.25, 0.015
"""Of the ecological regression: prior sd of a slope, and sd of group means around what their people explain."""


def newton_logistic(Z: FloatArray, yes: FloatArray, n: FloatArray) -> FloatArray:
    """Fit a logistic regression by Newton's method; give intercept and slopes, (1 + K,).

    Parameters
    ----------
    Z : (M, K)
    yes, n : (M,)
        Weighted counts.

    Examples
    --------
    >>> theta = newton_logistic(np.array([[-1.0], [1.0]]), np.array([2.0, 6.0]), np.full(2, 10.0))
    >>> special.expit(theta[0] + theta[1] * np.array([-1.0, 1.0])).round(6)
    array([0.2, 0.6])
    """
    A = np.column_stack([np.ones(len(Z)), Z])
    start = np.zeros(A.shape[1])
    start[0] = special.logit(np.clip(yes.sum() / n.sum(), 1e-12, 1.0 - 1e-12))

    def value(t: FloatArray) -> float:
        f = A @ t
        return float(yes @ f - n @ np.logaddexp(0.0, f) - 0.5 * RIDGE * t @ t)

    def step(t: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = special.expit(A @ t)
        gradient = A.T @ (yes - n * p) - RIDGE * t
        return gradient, np.linalg.solve((A.T * (n * p * (1.0 - p))) @ A + RIDGE * np.eye(len(t)), gradient)

    return _climb(
        start, value, step, "a logistic regression did not converge; a column may tell yes from no without error."
    )


def _climb(
    start: FloatArray,
    value: Callable[[FloatArray], float],
    step: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    otherwise: str,
) -> FloatArray:
    """Raise a value by Newton steps, of which the one that promises no more than rounding is the last."""
    last = False

    def direction(t: FloatArray) -> FloatArray | None:
        nonlocal last
        if last:
            return None
        gradient, move = step(t)
        last = bool(gradient @ move <= 1e-12 * max(1.0, abs(value(t))))
        return move

    found = newton(start, value, direction, max_steps=STEPS, slack=1e-12)
    if not found.converged and not last:
        raise ConvergenceError(otherwise)
    return found.x


def logistic(cells: Cells, design: Design, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Regress the truth on the scores of all columns: the probability of each cell, (C,)."""
    Z = design.matrix(cells.X)
    C = len(Z)
    theta = newton_logistic(Z, sums(cells.row, weight * y, C), sums(cells.row, weight, C))
    return np.asarray(special.expit(theta[0] + Z @ theta[1:]))


def with_groups(cells: Cells, design: Design, n_groups: int, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Regress the truth on the scores and a constant per group: the probability of each pair, (M,).

    Constants are profiled out: at their optimum every group's probabilities add up to its truths, which is one shift.
    """
    Z = design.matrix(cells.X)[cells.pair_cell]
    M, group = len(Z), cells.pair_group[:, 0]
    yes = sums(cells.pair, weight * y, M)
    mean = sums(group, yes, n_groups) / np.maximum(sums(group, cells.weight, n_groups), 1e-300)

    def rates(b: FloatArray) -> FloatArray:
        return match((Z @ b)[None], group, cells.weight, mean)[0][0]

    def value(b: FloatArray) -> float:
        p = rates(b)
        return float((special.xlogy(yes, p) + special.xlog1py(cells.weight - yes, -p)).sum())

    def step(b: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = rates(b)
        A = cells.weight * p * (1.0 - p)
        total = np.maximum(sums(group, A, n_groups), 1e-300)
        center = np.column_stack([sums(group, A * z, n_groups) / total for z in Z.T])
        R = Z - center[group]
        gradient = Z.T @ (yes - cells.weight * p) - RIDGE * b
        hessian = (R.T * A) @ R + RIDGE * np.eye(len(b))
        return gradient, np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)

    start = newton_logistic(Z, yes, cells.weight)[1:]
    return rates(_climb(start, value, step, "a regression with a constant per group did not converge."))


def saturated(row: IntArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Give everybody the mean truth of people with the same row, (n,).

    Examples
    --------
    >>> saturated(np.array([0, 0, 1]), np.array([0.0, 1.0, 1.0]), np.ones(3))
    array([0.5, 0.5, 1. ])
    """
    n = int(row.max()) + 1
    return np.asarray((sums(row, weight * y, n) / np.maximum(sums(row, weight, n), 1e-300))[row])


def ecological_logistic(cells: Cells, design: Design, mean: FloatArray) -> FloatArray:
    """Fit the ecological logistic regression on group means: the probability of each pair, (M,), matched to the means.

    Linear scores only, a weak prior of fixed size, and group means that scatter by ``MEAN_SD``: what one does without a reason to
    hold slopes more strongly when there are more groups.
    """
    P = len(mean)
    Z = design.matrix(cells.X)[:, design.first]
    known = ~np.isnan(mean)
    _, n = cells.sizes(0, P)
    s = np.clip(mean, 0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0))
    scatter = (MEAN_SD / (s * (1.0 - s))) ** 2
    # so many groups that nothing is added to the scatter of the means
    settings = Settings(SLOPE_SD, 1e12 * int(known.sum()), n_restarts=0)
    fit = fit_slopes(Z, np.ones(Z.shape[1]), Groups(cells.shares(0, P), mean, scatter), n, settings)
    f = (Z @ fit.beta + fit.intercept)[cells.pair_cell]
    return match(f[None], cells.pair_group[:, 0], cells.weight, mean)[0][0]
