"""Labels of bags for known weights: in the eigenbasis, and by the paper's dense formula, the check of everything else."""

from __future__ import annotations

import numpy as np
from scipy import special

from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.likelihood import INTERCEPT_SD, Problem
from crosslevel.distribution.shrinkage.probit import _mills
from crosslevel.typing import FloatArray

__all__ = ["dense_posterior", "label_posterior", "probit_objective"]


def label_posterior(
    problem: Problem, a: FloatArray, b: float, sigma2: float, eta: float
) -> tuple[FloatArray, FloatArray]:
    """Give mean xi and variance nu of every bag's label, for known weights.

    Examples
    --------
    >>> one = Problem(np.ones((2, 1)), np.array([1.0, np.inf]), np.array([1.0]), np.zeros(2))
    >>> xi, nu = label_posterior(one, np.array([2.0]), 1.0, 0.5, 1.0)
    >>> xi.tolist(), nu.tolist()
    ([2.0, 3.0], [2.5, 0.5])
    """
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    return b + (S * problem.delta) @ a, sigma2 + C @ (a * a)


def dense_posterior(
    alpha: FloatArray,
    mu: FloatArray,
    sizes: FloatArray,
    R: FloatArray,
    Sigma: FloatArray,
    m0: FloatArray,
    sigma2: float,
) -> tuple[FloatArray, FloatArray]:
    """Give xi and nu by the paper's formula, one d x d factorization per bag: slow, and the check of everything else.

    Examples
    --------
    >>> eye = np.eye(1)
    >>> xi, nu = dense_posterior(np.ones(1), np.array([[2.0]]), np.array([1.0]), eye, eye, np.zeros(1), 0.5)
    >>> xi.tolist(), nu.tolist()
    ([1.0], [1.0])
    """
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
    Qa = problem.precision(a)
    value = -float(special.log_ndtr(t).sum()) + 0.5 * penalty * float(a @ Qa) + 0.5 * float(w[0] / INTERCEPT_SD) ** 2
    by_m = -problem.y * _mills(t)
    by_xi, by_V = by_m / root, -0.5 * by_m * xi / root**3
    gradient = np.empty(len(theta))
    gradient[0] = by_xi.sum() + w[0] / INTERCEPT_SD**2
    gradient[1:-1] = Z.T @ by_xi + 2.0 * a * (C.T @ by_V) + penalty * Qa
    left = 1.0 - S
    gradient[-1] = by_xi @ ((Z * left) @ a) + by_V @ ((C * left) @ (a * a))
    return value, gradient
