"""Fit one model of persons to the means of groups.

    m_p(beta, a) = sum_c W_pc g(z_c'beta + a)                          W_pc: share of cell c in group p
    minimize  sum_p (link s_p - link m_p)^2 / (t_b^2 + v_p) + sum_j beta_j^2 / (t d_j)^2 + a^2 / 3^2,     t_b = t sqrt(P / c)
              + sum_r (link s_r - link m_r)^2 / v_r                        rates s_r of subgroups of all people, where they are known

A known rate is no matter of places: its m_r is a mean over people with the shifts of their groups, and its only error is v_r.

with t = ``slope_sd`` and c = ``shrinkage_groups``. g is the logistic function and the link the logit for a binary feature, both the
identity for a number. t_b grows with the number of groups P, so that this is a ridge on the mean loss over groups: groups differ for
reasons that are not in z, and more groups do not make that smaller. The residual is on the link of the mean; a density of group effects
would reward extreme slopes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse, special

from crosslevel.errors import ConvergenceError
from crosslevel.numerics.logit_shift import logit
from crosslevel.numerics.newton import newton
from crosslevel.typing import FloatArray, IntArray

LATENT_SD = float(np.pi / np.sqrt(3.0))
"""sd of the logistic law: a slope of t logits per sd is one of t / 1.81 of a person's sd."""
INTERCEPT_SD = 3.0
MOST_STEPS = 500
DENSE = 1_000_000
"""Shares of cells up to this many numbers are multiplied as a dense matrix, which is faster."""
CLOSE = 1e-10
"""Largest gradient at the optimum, in units in which the prior precision of a linear slope is one."""


@dataclass(frozen=True)
class Settings:
    """How strongly slopes are held.

    Attributes
    ----------
    slope_sd : float
        Prior sd of a linear slope, in logits per sd of the score; it sets the width of intervals.
    shrinkage_groups : float
        Sets how much is learned: a slope keeps sd_b^2 / (sd_b^2 + 1 / shrinkage_groups) of its ecological value.
    n_restarts : int
        Further fits from random slopes.
    seed : int
    """

    slope_sd: float = 0.45
    shrinkage_groups: float = 32.0
    n_restarts: int = 3
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Groups:
    """What is known of the groups.

    Attributes
    ----------
    W : (P, C) sparse
        Share of each cell in each group.
    mean : (P,)
        s, the published means; NaN where there is none.
    variance : (P,)
        v, sampling variance of the link of s.
    binary : bool
        Whether the hidden feature is yes or no.
    unit : float
        What a slope of one logit is for a number: the sd of persons over 1.81. One for a binary feature.
    """

    W: sparse.csr_array
    mean: FloatArray
    variance: FloatArray
    binary: bool = True
    unit: float = 1.0


@dataclass(frozen=True, eq=False)
class Known:
    """Rates of subgroups of all people.

    Attributes
    ----------
    W : (R, M) sparse
        Share of each pair of cell and group in each subgroup.
    cell, group : (M,) int
    rate, variance : (R,)
        s_r, and the variance of its link.
    """

    W: sparse.csr_array
    cell: IntArray
    group: IntArray
    rate: FloatArray
    variance: FloatArray


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted model.

    Attributes
    ----------
    beta : (K,)
    intercept : float
    Sigma : (1 + K, 1 + K)
        Posterior covariance of the intercept and the slopes.
    t_b : float
        sd of what groups differ by for other reasons, on the scale of the link.
    objective, gradient : float
        At the optimum; the gradient is the largest entry, in prior sds.
    steps : int
    apart : float
        Largest distance of a slope between restarts, in prior sds; 0 without restarts.
    """

    beta: FloatArray
    intercept: float
    Sigma: FloatArray
    t_b: float
    objective: float
    gradient: float
    steps: int
    apart: float


def sampling_variance(mean: FloatArray, n: FloatArray, se: FloatArray | None = None) -> FloatArray:
    """Give the variance of the logit of a proportion: 1 / (N s (1 - s)), or from its published standard error.

    Examples
    --------
    >>> sampling_variance(np.array([0.5]), np.array([100.0]))
    array([0.04])
    >>> sampling_variance(np.array([0.5]), np.array([100.0]), np.array([0.1])).round(4)
    array([0.16])
    """
    safe = inner(mean, n)
    own = 1.0 / (np.maximum(n, 1.0) * safe * (1.0 - safe))
    if se is None:
        return own
    return np.where(np.isnan(se), own, (se / (safe * (1.0 - safe))) ** 2)


def inner(mean: FloatArray, n: FloatArray) -> FloatArray:
    """Move proportions of none or all half a person inside, where they have a logit; others stay as they are."""
    edge = 0.5 / (np.maximum(n, 1.0) + 1.0)
    return np.clip(mean, edge, 1.0 - edge)


def fit_slopes(
    Z: FloatArray,
    reach: FloatArray,
    groups: Groups,
    n: FloatArray,
    settings: Settings | None = None,
    known: Known | None = None,
    shift: FloatArray | None = None,
) -> Fit:
    """Find slopes and intercept, and say how near to the optimum they are.

    Parameters
    ----------
    Z : (C, K)
        Scores of the cells.
    reach : (K,)
        d.
    groups : Groups
    n : (P,)
        Effective people of each group.
    settings : Settings, optional
    known : Known, optional
    shift : (P,), optional
        Shifts of the groups, at which known rates are met; 0 when not given.

    Examples
    --------
    >>> Z = np.array([[-1.0], [1.0]])
    >>> W = sparse.csr_array(np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> s = W @ special.expit(Z[:, 0] - 1)
    >>> fit = fit_slopes(Z, np.ones(1), Groups(W, s, np.full(3, 1e-6)), np.full(3, 1e6), Settings(shrinkage_groups=1e6))
    >>> fit.beta.round(2), bool(fit.gradient < 1e-8)
    (array([1.]), True)
    """
    settings = Settings() if settings is None else settings
    here = ~np.isnan(groups.mean)
    P = int(here.sum())
    t_b = settings.slope_sd * groups.unit * float(np.sqrt(P / settings.shrinkage_groups))
    sd = np.concatenate([[INTERCEPT_SD if groups.binary else np.inf], settings.slope_sd * reach]) * groups.unit
    W, A = groups.W[np.flatnonzero(here)], np.column_stack([np.ones(len(Z)), Z])
    W = W.toarray() if W.shape[0] * W.shape[1] < DENSE else W
    y = logit(inner(groups.mean[here], n[here])) if groups.binary else groups.mean[here]
    rows = [_Rows(W, A, np.zeros(len(A)), y, 1.0 / (t_b**2 + groups.variance[here]))]
    if known is not None:
        offset = np.zeros(len(known.cell)) if shift is None else np.clip(shift, -30.0, 30.0)[known.group]
        y_known = logit(known.rate) if groups.binary else known.rate
        rows.append(_Rows(known.W, A[known.cell], offset, y_known, 1.0 / known.variance))
    problem = _Problem(tuple(rows), 1.0 / sd**2, groups.binary)
    start = np.zeros(len(sd))
    start[0] = float(np.average(y, weights=rows[0].precision))
    theta, steps = _descend(problem, start)
    best, apart = problem.objective(theta), 0.0
    rng = np.random.default_rng(settings.seed)
    scale = np.where(np.isfinite(sd), sd, 0.0)
    for _ in range(settings.n_restarts):
        other, more = _descend(problem, start + scale * rng.standard_normal(len(sd)))
        apart = max(apart, float(np.abs((other - theta)[1:] / sd[1:]).max()))
        steps += more
        if problem.objective(other) < best:
            theta, best = other, problem.objective(other)
    gradient, hessian, _ = problem.derivatives(theta)
    return Fit(
        beta=theta[1:],
        intercept=float(theta[0]),
        Sigma=linalg.inv(hessian),
        t_b=t_b,
        objective=best,
        gradient=float(np.abs(gradient * np.where(np.isfinite(sd), sd, groups.unit)).max()),
        steps=steps,
        apart=apart,
    )


def mean_slopes(W: Any, Z: FloatArray, p: FloatArray, *, binary: bool) -> FloatArray:
    """Give the derivative of the link of every mean W p in the slopes of the scores, (P, K)."""
    if not binary:
        return np.asarray(W @ Z)
    m = np.clip(W @ p, 1e-300, 1.0 - 1e-16)
    return np.asarray((W @ ((p * (1.0 - p))[:, None] * Z)) / (m * (1.0 - m))[:, None])


@dataclass(frozen=True, eq=False)
class _Rows:
    """Observed means: shares of people, their scores and offsets, links of the means and precisions."""

    W: Any
    Z: FloatArray
    offset: FloatArray
    y: FloatArray
    precision: FloatArray

    def means(self, theta: FloatArray, binary: bool) -> tuple[FloatArray, FloatArray]:
        """Give the link of m and g of the people."""
        p = self.Z @ theta + self.offset
        if not binary:
            return np.asarray(self.W @ p), p
        p = special.expit(p)
        return logit(np.clip(self.W @ p, 1e-300, 1.0 - 1e-16)), p


@dataclass(frozen=True, eq=False)
class _Problem:
    """The objective: half of what the module's heading minimizes."""

    rows: tuple[_Rows, ...]
    prior: FloatArray
    binary: bool

    def objective(self, theta: FloatArray) -> float:
        total = self.prior @ theta**2
        for rows in self.rows:
            total += rows.precision @ (rows.y - rows.means(theta, self.binary)[0]) ** 2
        return 0.5 * float(total)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give the gradient, the Gauss-Newton Hessian, and what that of second derivatives adds to it."""
        gradient, hessian = self.prior * theta, np.diag(self.prior)
        more = np.zeros_like(hessian)
        for rows in self.rows:
            f, p = rows.means(theta, self.binary)
            J = mean_slopes(rows.W, rows.Z, p, binary=self.binary)
            pull = rows.precision * (f - rows.y)
            gradient = gradient + J.T @ pull
            hessian = hessian + (J.T * rows.precision) @ J
            if self.binary:
                m, q = special.expit(f), p * (1.0 - p)
                bend = (rows.W.T @ (pull / np.maximum(m * (1.0 - m), 1e-300))) * q * (1.0 - 2.0 * p)
                more += (rows.Z.T * bend) @ rows.Z - (J.T * (pull * (1.0 - 2.0 * m))) @ J
        return gradient, hessian, more


def _descend(problem: _Problem, theta: FloatArray) -> tuple[FloatArray, int]:
    """Go down by Newton's steps (Gauss's where it bends the other way), halved where they are too long, until only rounding is left."""

    def direction(theta: FloatArray) -> FloatArray | None:
        gradient, hessian, more = problem.derivatives(theta)
        try:
            step = linalg.solve(hessian + more, gradient, assume_a="pos")
        except linalg.LinAlgError:
            step = linalg.solve(hessian, gradient, assume_a="pos")
        small = np.abs(step).max() < 1e-14 * (1.0 + np.abs(theta).max())
        return None if small or np.abs(gradient / np.sqrt(np.diag(hessian))).max() < CLOSE else -step

    found = newton(theta, lambda t: -problem.objective(t), direction, max_steps=MOST_STEPS, slack=1e-13)
    if found.steps == MOST_STEPS:
        raise ConvergenceError(
            f"the slopes did not converge in {MOST_STEPS} steps; check the published means, or hold the slopes more strongly with a "
            "smaller shrinkage_groups."
        )
    return found.x, found.steps
