"""What needs no imputation method: regressions on the truth, means of distinct rows, and the ecological regression on group means."""

from __future__ import annotations

import numpy as np
from scipy import special

from crosslevel.errors import ConvergenceError
from crosslevel.imputation.cells import Cells, sums
from crosslevel.imputation.persons.design import Design
from crosslevel.imputation.persons.model import Groups, Settings, fit_link, probabilities
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.typing import FloatArray, IntArray

__all__ = ["ecological_logistic", "logistic", "newton", "saturated", "two_way", "with_groups"]


RIDGE = 1e-6
"""A millionth of a person's information: dummies of all levels have no unique solution."""
STEPS = 100
SLOPE_SD, MEAN_SD = 0.25, 0.015
"""Of the ecological regression: prior sd of a slope, and sd of group means around what their people explain."""


def newton(Z: FloatArray, yes: FloatArray, n: FloatArray) -> FloatArray:
    """Fit a logistic regression by Newton's method; give intercept and slopes, (1 + K,).

    Parameters
    ----------
    Z : (M, K)
    yes, n : (M,)
        Weighted counts.

    Examples
    --------
    >>> theta = newton(np.array([[-1.0], [1.0]]), np.array([2.0, 6.0]), np.full(2, 10.0))
    >>> special.expit(theta[0] + theta[1] * np.array([-1.0, 1.0])).round(6)
    array([0.2, 0.6])
    """
    A = np.column_stack([np.ones(len(Z)), Z])
    theta = np.zeros(A.shape[1])
    theta[0] = special.logit(np.clip(yes.sum() / n.sum(), 1e-12, 1.0 - 1e-12))

    def value(t: FloatArray) -> float:
        f = A @ t
        return float(n @ np.logaddexp(0.0, f) - yes @ f + 0.5 * RIDGE * t @ t)

    now = value(theta)
    for _ in range(STEPS):
        p = special.expit(A @ theta)
        gradient = A.T @ (n * p - yes) + RIDGE * theta
        step = np.linalg.solve((A.T * (n * p * (1.0 - p))) @ A + RIDGE * np.eye(len(theta)), gradient)
        size = 1.0
        while value(theta - size * step) > now + 1e-12 * abs(now) and size > 1e-8:
            size *= 0.5
        theta = theta - size * step
        now = value(theta)
        if gradient @ step <= 1e-12 * max(1.0, abs(now)):
            return theta
    raise ConvergenceError(
        f"a logistic regression did not settle in {STEPS} steps; a column may tell yes from no without error."
    )


def logistic(cells: Cells, design: Design, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Regress the truth on the scores of all columns: the probability of each cell, (C,)."""
    Z = design.matrix(cells.X)
    C = len(Z)
    theta = newton(Z, sums(cells.row, weight * y, C), sums(cells.row, weight, C))
    return np.asarray(special.expit(theta[0] + Z @ theta[1:]))


def with_groups(
    cells: Cells, design: Design, n_groups: int, y: FloatArray, weight: FloatArray, *, linear: bool = False
) -> FloatArray:
    """Regress the truth on the scores and a constant per group: the probability of each pair, (M,).

    Constants are profiled out: at their optimum every group's probabilities add up to its truths, which is one shift.
    """
    Z = design.matrix(cells.X)
    Z = (Z[:, design.first] if linear else Z)[cells.pair_cell]
    M, group = len(Z), cells.pair_group[:, 0]
    yes = sums(cells.pair, weight * y, M)
    mean = sums(group, yes, n_groups) / np.maximum(sums(group, cells.weight, n_groups), 1e-300)
    beta = newton(Z, yes, cells.weight)[1:]

    def rates(b: FloatArray) -> FloatArray:
        return probabilities((Z @ b)[None], group, cells.weight, mean)[0][0]

    def value(p: FloatArray) -> float:
        return -float((special.xlogy(yes, p) + special.xlog1py(cells.weight - yes, -p)).sum())

    p = rates(beta)
    now = value(p)
    for _ in range(STEPS):
        A = cells.weight * p * (1.0 - p)
        total = np.maximum(sums(group, A, n_groups), 1e-300)
        centre = np.column_stack([sums(group, A * z, n_groups) / total for z in Z.T])
        R = Z - centre[group]
        gradient = Z.T @ (yes - cells.weight * p) - RIDGE * beta
        step = np.linalg.solve((R.T * A) @ R + RIDGE * np.eye(len(beta)), gradient)
        size = 1.0
        while value(rates(beta + size * step)) > now + 1e-12 * abs(now) and size > 1e-8:
            size *= 0.5
        beta = beta + size * step
        p = rates(beta)
        now = value(p)
        if gradient @ step <= 1e-12 * max(1.0, abs(now)):
            return p
    raise ConvergenceError(f"a regression with a constant per group did not settle in {STEPS} steps.")


def saturated(row: IntArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Give everybody the mean truth of people with the same row, (n,).

    Examples
    --------
    >>> saturated(np.array([0, 0, 1]), np.array([0.0, 1.0, 1.0]), np.ones(3))
    array([0.5, 0.5, 1. ])
    """
    n = int(row.max()) + 1
    return np.asarray((sums(row, weight * y, n) / np.maximum(sums(row, weight, n), 1e-300))[row])


def two_way(cells: Cells, n_groups: int, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Fit a constant per distinct row and one per group: the probability of each pair, (M,), by matching both sums in turn."""
    C, M, group = len(cells.X), len(cells.count), cells.pair_group[:, 0]
    yes = sums(cells.pair, weight * y, M)

    def rate(index: IntArray, n: int) -> FloatArray:
        return sums(index, yes, n) / np.maximum(sums(index, cells.weight, n), 1e-300)

    cell_rate, group_rate = rate(cells.pair_cell, C), rate(group, n_groups)
    # rows and groups of none or all are sure, whatever the other says
    sure = np.isin(cell_rate, (0.0, 1.0))[cells.pair_cell] | np.isin(group_rate, (0.0, 1.0))[group]
    p = np.where(np.isin(cell_rate, (0.0, 1.0))[cells.pair_cell], cell_rate[cells.pair_cell], group_rate[group])
    left = ~sure
    if not left.any():
        return p
    f = np.zeros(int(left.sum()))
    a = [
        (i[left], sums(i[left], yes[left], n) / np.maximum(sums(i[left], cells.weight[left], n), 1e-300))
        for i, n in ((cells.pair_cell, C), (group, n_groups))
    ]
    for _ in range(STEPS):
        before = f
        for index, target in a:
            found = shift_to_total(f[None], cells.weight[left], index, target)
            f = f + np.nan_to_num(found.shift[0])[index]
        if np.abs(f - before).max() < 1e-8:
            break
    p[left] = special.expit(f)
    return p


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
    # c so large that nothing is added to the scatter of the means
    settings = Settings(t=SLOPE_SD, c=1e12 * int(known.sum()), n_restarts=0)
    fit = fit_link(Z, np.ones(Z.shape[1]), Groups(cells.shares(0, P), mean, scatter), n, settings)
    f = (Z @ fit.beta + fit.intercept)[cells.pair_cell]
    return probabilities(f[None], cells.pair_group[:, 0], cells.weight, mean)[0][0]
