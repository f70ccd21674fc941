"""Which class does a bag belong to, when its embedding is only a sample? Appendix B of the paper, with its signs corrected.

Given the weights, the latent score of a bag is normal with mean xi = b + sum_k a_k S_k delta_k and variance V = sum_k a_k^2 C_k, so
the probability of class +1 is Phi(xi / sqrt(1 + V)) in closed form. The objective is
sum log Phi(y xi / sqrt(1 + V)) *minus* a'Qa / (2 rho2); the paper prints a plus. The intercept has the prior N(0, 2^2), without which
bags that can be separated would send it to infinity. The weights are integrated out by Laplace's method with the Fisher
information, and eta and rho2 maximize the evidence.

Symbols are those of :mod:`~crosslevel.distribution.shrinkage.likelihood`; y is -1 or 1.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, special

from crosslevel.distribution.shrinkage.likelihood import (
    INTERCEPT_SD,
    LOG_ETA,
    LOG_RHO2,
    NEWTON_STEPS,
    Problem,
    WeightPosterior,
    design,
    log_det,
    maximize_evidence,
    newton_step,
)
from crosslevel.numerics.newton import newton
from crosslevel.typing import FloatArray

DIFFERENCE = 1e-4
"""Step of the central differences of the evidence in its two hyperparameters: its error is about 1e-8."""


def probit_probability(xi: FloatArray, variance: FloatArray) -> FloatArray:
    """Give Phi(xi / sqrt(1 + variance)), the mean of Phi(l) over l ~ N(xi, variance).

    Examples
    --------
    >>> probit_probability(np.array([0.0, 1.0]), np.array([5.0, 0.0])).round(4).tolist()
    [0.5, 0.8413]
    """
    return np.asarray(special.ndtr(xi / np.sqrt(1.0 + variance)))


def probit_evidence(log_hyper: FloatArray, problem: Problem, start: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Give minus the log evidence at (log eta, log rho2), the most probable (b, a) and the Fisher information there.

    Parameters
    ----------
    log_hyper : (2,)
    problem : Problem
    start : (q + 1,)
    """
    eta, rho2 = (float(v) for v in np.exp(log_hyper))
    X, C, prior = design(problem, eta, rho2)
    prior[0, 0] = 1.0 / INTERCEPT_SD**2

    def at(w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        nu, xi = 1.0 + C @ (w * w), X @ w
        m = xi / np.sqrt(nu)
        value = -float(special.log_ndtr(problem.y * m).sum()) + 0.5 * float(w @ prior @ w)
        slope = X / np.sqrt(nu)[:, None] - (C * w) * (xi / nu**1.5)[:, None]
        return value, m, slope

    def fisher(m: FloatArray, slope: FloatArray) -> FloatArray:
        # phi^2 / (Phi(m) Phi(-m)) is the product of the two Mills ratios
        scaled = slope * np.sqrt(_mills(m) * _mills(-m))[:, None]
        return np.asarray(scaled.T @ scaled + prior)

    def hessian(w: FloatArray, m: FloatArray, slope: FloatArray) -> FloatArray:
        nu, B, t = 1.0 + C @ (w * w), C * w, problem.y * m
        first = -problem.y * _mills(t)
        second = _mills(t) * (t + _mills(t))
        cross = X.T @ (B * (first / nu**1.5)[:, None])
        H = (slope * second[:, None]).T @ slope - cross - cross.T + prior
        H += B.T @ (B * (3.0 * first * m / nu**2)[:, None])
        H[np.diag_indices_from(H)] -= C.T @ (first * m / nu)
        return np.asarray(H)

    def direction(w: FloatArray) -> FloatArray | None:
        value, m, slope = at(w)
        gradient = -slope.T @ (problem.y * _mills(problem.y * m)) + prior @ w
        return newton_step(value, gradient, lambda: hessian(w, m, slope), lambda: fisher(m, slope))

    w = newton(start, lambda w: -at(w)[0], direction, max_steps=NEWTON_STEPS).x
    value, m, slope = at(w)
    F = fisher(m, slope)
    log_det_F = 2.0 * float(np.log(np.diag(linalg.cholesky(F, lower=True))).sum())
    minus = (
        value + 0.5 * len(problem.s) * np.log(rho2) - 0.5 * log_det(problem.Q) + 0.5 * log_det_F + np.log(INTERCEPT_SD)
    )
    return float(minus), w, F


def fit_probit(problem: Problem, n_searches: int = 2, seed: int = 0) -> WeightPosterior:
    """Choose eta and rho2 by their evidence, and integrate the weights out.

    Parameters
    ----------
    problem : Problem
        Labels -1 and 1, both present.
    n_searches : int
    seed : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> delta = rng.normal(size=(300, 1))
    >>> y = np.where(2.0 * delta[:, 0] + rng.normal(size=300) > 0, 1.0, -1.0)
    >>> found = fit_probit(Problem(delta, np.full(300, np.inf), np.ones(1), y))
    >>> bool(abs(found.a[0] - 2.0) < 0.4), found.convergence.converged
    (True, True)
    """
    rng = np.random.default_rng(seed)
    unit = problem.unit
    middle = np.log([unit, 1.0 / (unit * len(problem.s))])
    bounds = np.array([LOG_ETA, LOG_RHO2]) + np.log([unit, 1 / unit])[:, None]
    starts = [middle + (k > 0) * rng.normal(0.0, [2.0, 1.0]) for k in range(n_searches)]

    def evaluate(log_hyper: FloatArray, w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Give the evidence with its central differences."""
        value, w, _ = probit_evidence(log_hyper, problem, w)
        gradient = np.empty(2)
        for k in range(2):
            step = DIFFERENCE * np.eye(2)[k]
            ahead, behind = (probit_evidence(log_hyper + side * step, problem, w)[0] for side in (1, -1))
            gradient[k] = (ahead - behind) / (2.0 * DIFFERENCE)
        return value, gradient, w

    options = {"maxiter": 100, "ftol": 1e-9, "gtol": 1e-4 * len(problem.y) ** 0.5}
    best, w = maximize_evidence(problem, evaluate, starts, bounds, ["eta", "rho2"], options)
    value, w, F = probit_evidence(best.theta, problem, w)
    eta, rho2 = (float(v) for v in np.exp(best.theta))
    covariance = linalg.cho_solve(linalg.cho_factor(F, lower=True), np.eye(len(w)))
    return WeightPosterior(w[1:], float(w[0]), eta, rho2, covariance, -value, best.convergence)


def _mills(t: FloatArray) -> FloatArray:
    """Give phi(t) / Phi(t), also far in the tail."""
    return np.asarray(np.exp(-0.5 * t * t - 0.5 * np.log(2.0 * np.pi) - special.log_ndtr(t)))
