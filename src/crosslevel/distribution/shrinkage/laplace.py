"""How probable are the labels when the weights are integrated out? Laplace's answer, its gradient and its maximum.

Symbols are those of :mod:`~crosslevel.distribution.shrinkage.likelihood`; further, with x = (1, S delta) and B = (0, a C) per bag,

- F = sum x x'/nu + 2 sum B B'/nu^2 + prior : (q + 1, q + 1), the Fisher information of (b, a), positive definite always;
- H : (q + 1, q + 1), the exact Hessian of minus the log posterior;
- M = F^-1, the covariance of (b, a).

The weights enter the variance nu, so they cannot be integrated out exactly; given nu they could.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.likelihood import (
    LOG_ETA,
    LOG_RHO2,
    LOG_SIGMA2,
    NEWTON_STEPS,
    Problem,
    WeightPosterior,
    design,
    log_det,
    maximize_evidence,
    newton_step,
    solve_positive,
)
from crosslevel.numerics.newton import newton
from crosslevel.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """Minus the log evidence at some hyperparameters.

    Attributes
    ----------
    value : float
    gradient : (3,)
        Along log sigma2, log eta, log rho2.
    w : (q + 1,)
        The most probable (b, a).
    F : (q + 1, q + 1)
        Fisher information there.
    """

    value: float
    gradient: FloatArray
    w: FloatArray
    F: FloatArray


@dataclass(frozen=True, eq=False)
class _State:
    """Everything at one (w, hyperparameters)."""

    value: float
    e: FloatArray
    nu: FloatArray
    X: FloatArray
    B: FloatArray
    gradient: FloatArray


class _Bags:
    """The bags at one eta; what the Newton steps share."""

    def __init__(self, problem: Problem, log_hyper: FloatArray) -> None:
        self.problem = problem
        self.sigma2, self.eta, self.rho2 = (float(v) for v in np.exp(log_hyper))
        self.X, self.C, self.prior = design(problem, self.eta, self.rho2)
        S, _ = shrink_factors(problem.s, problem.sizes, self.eta)
        self.left = np.column_stack([np.zeros(len(S)), 1.0 - S])

    def at(self, w: FloatArray) -> _State:
        nu = self.sigma2 + self.C @ (w * w)
        e = self.problem.y - self.X @ w
        B = self.C * w
        shrinkage = self.prior @ w
        value = 0.5 * float(np.sum(np.log(nu) + e * e / nu)) + 0.5 * float(w @ shrinkage)
        gradient = B.T @ (1.0 / nu - e * e / nu**2) - self.X.T @ (e / nu) + shrinkage
        return _State(value, e, nu, self.X, B, gradient)

    def fisher(self, at: _State) -> FloatArray:
        Xs, Bs = self.X / np.sqrt(at.nu)[:, None], at.B / at.nu[:, None]
        return np.asarray(Xs.T @ Xs + 2.0 * (Bs.T @ Bs) + self.prior)

    def hessian(self, at: _State) -> FloatArray:
        e, nu = at.e, at.nu
        cross = self.X.T @ (at.B * (2.0 * e / nu**2)[:, None])
        Xs = self.X / np.sqrt(nu)[:, None]
        curve = at.B.T @ (at.B * (4.0 * e * e / nu**3 - 2.0 / nu**2)[:, None])
        H = Xs.T @ Xs + cross + cross.T + curve + self.prior
        H[np.diag_indices_from(H)] += self.C.T @ (1.0 / nu - e * e / nu**2)
        return np.asarray(H)


def mode(bags: _Bags, start: FloatArray) -> tuple[_State, FloatArray]:
    """Find the most probable (b, a) by Newton's method."""

    def direction(w: FloatArray) -> FloatArray | None:
        now = bags.at(w)
        return newton_step(now.value, now.gradient, lambda: bags.hessian(now), lambda: bags.fisher(now))

    found = newton(start, lambda w: -bags.at(w).value, direction, max_steps=NEWTON_STEPS)
    return bags.at(found.x), found.x


def evidence(log_hyper: FloatArray, problem: Problem, start: FloatArray) -> Evidence:
    """Give minus the log evidence and its gradient along (log sigma2, log eta, log rho2).

    Laplace's approximation around the most probable (b, a) with the Fisher information as curvature; b has a flat prior of
    density one. The gradient includes how the mode moves with the hyperparameters.

    Parameters
    ----------
    log_hyper : (3,)
    problem : Problem
    start : (q + 1,)
        Where to begin looking for (b, a).
    """
    bags = _Bags(problem, log_hyper)
    at, w = mode(bags, start)
    F = bags.fisher(at)
    q = len(problem.s)
    factor = linalg.cho_factor(F, lower=True)
    log_det_F = 2.0 * float(np.log(np.diag(factor[0])).sum())
    constant = 0.5 * (len(problem.y) - 1) * np.log(2.0 * np.pi) - 0.5 * log_det(problem.Q)
    value = at.value + 0.5 * q * np.log(bags.rho2) + 0.5 * log_det_F + constant
    M = linalg.cho_solve(factor, np.eye(q + 1))
    return Evidence(float(value), _gradient(bags, at, w, M), w, F)


def _gradient(bags: _Bags, at: _State, w: FloatArray, M: FloatArray) -> FloatArray:
    """Differentiate the evidence: directly, through log det F, and through the mode."""
    X, B, C, e, nu = bags.X, at.B, bags.C, at.e, at.nu
    XM, BM = X @ M, B @ M
    spread, twist = np.einsum("ij,ij->i", XM, X), np.einsum("ij,ij->i", BM, B)
    det_by_nu = -0.5 * spread / nu**2 - 2.0 * twist / nu**3
    det_by_w = 2.0 * (det_by_nu @ B) + 2.0 * np.einsum("ij,ij,i->j", BM, C, 1.0 / nu**2)
    v = solve_positive(bags.hessian(at), det_by_w)
    if v is None:
        v = M @ det_by_w
    by_nu, by_e = 0.5 * (1.0 / nu - e * e / nu**2), e / nu
    p, u = X @ v, B @ v

    def along(d_nu: FloatArray, dX: FloatArray | None, dB: FloatArray | None) -> float:
        de = 0.0 if dX is None else -(dX @ w)
        out = np.sum((by_nu + det_by_nu) * d_nu + by_e * de)
        slope = (-1.0 / nu**2 + 2.0 * e * e / nu**3) * d_nu - 2.0 * e * de / nu**2
        moved = slope * u - p * de / nu + p * e * d_nu / nu**2
        if dX is not None and dB is not None:
            out += np.sum(np.einsum("ij,ij->i", XM, dX) / nu + 2.0 * np.einsum("ij,ij->i", BM, dB) / nu**2)
            moved = moved + 2.0 * by_nu * (dB @ v) - (dX @ v) * e / nu
        return float(out - np.sum(moved))

    by_sigma2 = along(np.full(len(nu), bags.sigma2), None, None)
    by_eta = along((C * bags.left) @ (w * w), X * bags.left, B * bags.left)
    shrinkage = bags.prior @ w
    by_rho2 = (
        -0.5 * float(w @ shrinkage) + 0.5 * (len(w) - 1) - 0.5 * float(np.sum(M * bags.prior)) + float(v @ shrinkage)
    )
    return np.array([by_sigma2, by_eta, by_rho2])


def fit_evidence(
    problem: Problem, n_searches: int = 2, seed: int = 0, warm: WeightPosterior | None = None
) -> WeightPosterior:
    """Choose sigma2, eta and rho2 by their evidence (L-BFGS from several starts), and integrate the weights out.

    Parameters
    ----------
    problem : Problem
        Labels near zero mean and unit variance.
    n_searches : int
        The first from scales of the data, the others at random around it.
    seed : int
    warm : WeightPosterior, optional
        Where the first start is instead, such as the fit of neighboring features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> delta = rng.normal(size=(200, 2))
    >>> problem = Problem(delta, np.full(200, np.inf), np.ones(2), delta @ [1.0, -1.0] + 0.1 * rng.normal(size=200))
    >>> found = fit_evidence(problem)
    >>> found.a.round(1).tolist(), round(found.sigma2, 2), found.convergence.converged
    ([1.0, -1.0], 0.01, True)
    """
    rng = np.random.default_rng(seed)
    middle = np.log([0.3, problem.unit, 1.0 / (problem.unit * len(problem.s))])
    shift = np.array([0.0, np.log(problem.unit), -np.log(problem.unit)])
    bounds = np.array([LOG_SIGMA2, LOG_ETA, LOG_RHO2]) + shift[:, None]
    known = [] if warm is None else [warm.log_hyper]
    starts = known + [middle + (k > 0) * rng.normal(0.0, [0.5, 2.0, 1.0]) for k in range(len(known), n_searches)]

    def evaluate(log_hyper: FloatArray, w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        found = evidence(log_hyper, problem, w)
        return found.value, found.gradient, found.w

    options = {"maxiter": 200, "ftol": 1e-10, "gtol": 1e-5 * len(problem.y) ** 0.5}
    best, w = maximize_evidence(problem, evaluate, starts, bounds, ["sigma2", "eta", "rho2"], options)
    found = evidence(best.theta, problem, w)
    covariance = linalg.cho_solve(linalg.cho_factor(found.F, lower=True), np.eye(len(found.w)))
    sigma2, eta, rho2 = (float(v) for v in np.exp(best.theta))
    return WeightPosterior(
        found.w[1:], float(found.w[0]), eta, rho2, covariance, -found.value, best.convergence, sigma2
    )
