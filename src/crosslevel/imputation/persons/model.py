"""Fit one model of persons to the means of groups.

    m_p(beta, a) = sum_c W_pc g(z_c'beta + a)                          W_pc: share of cell c in group p
    minimize  sum_p (link s_p - link m_p)^2 / (t_b^2 + v_p) + sum_j beta_j^2 / (t d_j)^2 + a^2 / 3^2,     t_b = t sqrt(P / c)

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
from crosslevel.numerics.logit_shift import logit, shift_to_total
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Fit", "Groups", "Settings", "fit_slopes", "probabilities", "sampling_variance"]


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
    Z: FloatArray, reach: FloatArray, groups: Groups, n: FloatArray, settings: Settings | None = None
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
    known = ~np.isnan(groups.mean)
    P = int(known.sum())
    t_b = settings.slope_sd * groups.unit * float(np.sqrt(P / settings.shrinkage_groups))
    sd = np.concatenate([[INTERCEPT_SD if groups.binary else np.inf], settings.slope_sd * reach]) * groups.unit
    W = groups.W[np.flatnonzero(known)]
    problem = _Problem(
        W=W.toarray() if W.shape[0] * W.shape[1] < DENSE else W,
        Z=np.column_stack([np.ones(len(Z)), Z]),
        y=logit(inner(groups.mean[known], n[known])) if groups.binary else groups.mean[known],
        precision=1.0 / (t_b**2 + groups.variance[known]),
        prior=1.0 / sd**2,
        binary=groups.binary,
    )
    start = np.zeros(len(sd))
    start[0] = float(np.average(problem.y, weights=problem.precision))
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
    gradient, hessian = problem.derivatives(theta)
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


@dataclass(frozen=True, eq=False)
class _Problem:
    """The objective: half of what the module's heading minimizes."""

    W: Any
    Z: FloatArray
    y: FloatArray
    precision: FloatArray
    prior: FloatArray
    binary: bool

    def means(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give the link of m_p and g of the cells."""
        p = self.Z @ theta
        if not self.binary:
            return np.asarray(self.W @ p), p
        p = special.expit(p)
        return logit(np.clip(self.W @ p, 1e-300, 1.0 - 1e-16)), p

    def objective(self, theta: FloatArray) -> float:
        r = self.y - self.means(theta)[0]
        return 0.5 * float(self.precision @ r**2 + self.prior @ theta**2)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give the gradient and the Gauss-Newton Hessian."""
        f, p = self.means(theta)
        if self.binary:
            m = special.expit(f)
            J = (self.W @ ((p * (1.0 - p))[:, None] * self.Z)) / (m * (1.0 - m))[:, None]
        else:
            J = self.W @ self.Z
        gradient = -J.T @ (self.precision * (self.y - f)) + self.prior * theta
        return gradient, (J.T * self.precision) @ J + np.diag(self.prior)


def _descend(problem: _Problem, theta: FloatArray) -> tuple[FloatArray, int]:
    """Go down by Levenberg and Marquardt's steps until the gradient vanishes."""
    damping, value = 1e-3, problem.objective(theta)
    gradient, hessian = problem.derivatives(theta)
    for step in range(1, MOST_STEPS + 1):
        diagonal = np.diag(hessian)
        if np.abs(gradient / np.sqrt(diagonal)).max() < CLOSE:
            return theta, step
        new = theta - linalg.solve(hessian + damping * np.diag(diagonal), gradient, assume_a="pos")
        after = problem.objective(new)
        # at the optimum rounding decides which of two equal values is the smaller
        if after <= value + 1e-13 * max(value, 1.0):
            moved = np.abs(new - theta).max()
            theta, value, damping = new, after, max(damping * 0.2, 1e-14)
            gradient, hessian = problem.derivatives(theta)
            if moved < 1e-14 * (1.0 + np.abs(theta).max()):
                return theta, step
        else:
            damping *= 8.0
            if damping > 1e12:
                return theta, step
    raise ConvergenceError(
        f"the slopes did not converge in {MOST_STEPS} steps (gradient {np.abs(gradient).max():.2g}); check the published means, or "
        "hold the slopes more strongly with a smaller shrinkage_groups."
    )


def probabilities(
    f: FloatArray, group: IntArray, weight: FloatArray, mean: FloatArray, *, binary: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Shift the predictions of each group by one constant, so that their mean is the published one.

    Parameters
    ----------
    f : (n_draws, M)
        z'beta + a of each member.
    group : (M,) int
    weight : (M,)
    mean : (P,)
        NaN where there is none and nothing is shifted.
    binary : bool

    Returns
    -------
    value : (n_draws, M)
    shift : (n_draws, P)

    Examples
    --------
    >>> value, shift = probabilities(np.array([[0.0, 1.0]]), np.array([0, 0]), np.ones(2), np.array([0.3]))
    >>> round(float(value.mean()), 12)
    0.3
    """
    if binary:
        found = shift_to_total(f, weight, group, mean)
        return found.rate, found.shift
    total = np.bincount(group, weight, len(mean))
    now = np.array([np.bincount(group, weight * row, len(mean)) for row in f])
    shift = mean - now / np.maximum(total, 1e-300)
    return f + np.where(np.isnan(shift), 0.0, shift)[:, group], shift
