"""Labels of bags for known weights: in the eigenbasis, and by the paper's dense formula, the check of everything else."""

from __future__ import annotations

import numpy as np

from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.likelihood import Problem
from crosslevel.typing import FloatArray

__all__ = ["dense_posterior", "label_posterior"]


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
