"""Labels of bags for known weights: in the eigenbasis, and by the paper's dense formula, the check of everything else."""

from __future__ import annotations

import numpy as np
from scipy import special

from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.likelihood import INTERCEPT_SD, Problem
from crosslevel.distribution.shrinkage.probit import _mills
from crosslevel.typing import FloatArray


def label_posterior(
    problem: Problem, a: FloatArray, b: float, sigma2: float, eta: float
) -> tuple[FloatArray, FloatArray]:
    """Give mean xi and variance nu of every bag's label, for known weights."""
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    return b + (S * problem.delta) @ a, sigma2 + C @ (a * a)


def regression_objective(theta: FloatArray, problem: Problem, sigma2: float, eta: float, penalty: float) -> float:
    """Give minus the log posterior of labels at theta = (b, a); penalty is 1/rho2."""
    a = theta[1:]
    xi, nu = label_posterior(problem, a, theta[0], sigma2, eta)
    Qa = a if problem.Q is None else problem.Q @ a
    return float(0.5 * np.sum(np.log(nu) + (problem.y - xi) ** 2 / nu) + 0.5 * penalty * a @ Qa)


def dense_posterior(
    alpha: FloatArray,
    mu: FloatArray,
    sizes: FloatArray,
    R: FloatArray,
    Sigma: FloatArray,
    m0: FloatArray,
    sigma2: float,
) -> tuple[FloatArray, FloatArray]:
    """Give xi and nu by the paper's formula, one d x d factorization per bag: slow, and the check of everything else."""
    xi, nu = np.empty(len(mu)), np.empty(len(mu))
    for i, N in enumerate(sizes):
        solved = np.linalg.solve(R + Sigma / N, np.column_stack([mu[i] - m0, R @ alpha]))
        xi[i] = alpha @ m0 + alpha @ R @ solved[:, 0]
        nu[i] = alpha @ R @ alpha - alpha @ R @ solved[:, 1] + sigma2
    return xi, nu


def probit_objective(theta: FloatArray, problem: Problem, penalty: float) -> tuple[float, FloatArray]:
    """Give minus the log posterior of the labels and its gradient at theta = (b, a, log eta).

    Parameters
    ----------
    theta : (q + 2,)
    problem : Problem
        Labels -1 and 1.
    penalty : float
        1/rho2.
    """
    w, eta = theta[:-1], float(np.exp(theta[-1]))
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    Z, a = S * problem.delta, w[1:]
    V, xi = C @ (a * a), w[0] + Z @ a
    root = np.sqrt(1.0 + V)
    m = xi / root
    t = problem.y * m
    Qa = a if problem.Q is None else problem.Q @ a
    value = -float(special.log_ndtr(t).sum()) + 0.5 * penalty * float(a @ Qa) + 0.5 * float(w[0] / INTERCEPT_SD) ** 2
    by_m = -problem.y * _mills(t)
    by_xi, by_V = by_m / root, -0.5 * by_m * xi / root**3
    gradient = np.empty(len(theta))
    gradient[0] = by_xi.sum() + w[0] / INTERCEPT_SD**2
    gradient[1:-1] = Z.T @ by_xi + 2.0 * a * (C.T @ by_V) + penalty * Qa
    left = 1.0 - S
    gradient[-1] = by_xi @ ((Z * left) @ a) + by_V @ ((C * left) @ (a * a))
    return value, gradient
