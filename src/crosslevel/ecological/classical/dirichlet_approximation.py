"""The Multinomial-Dirichlet model by its first two moments: a mode and normal draws instead of chains.

With mu_r = alpha_r / A_r, A_r the sum of alpha_r and V_r = (diag mu_r - mu_r mu_r') / (A_r + 1), the outcome shares of a unit
have mean theta = sum_r x_r mu_r and variance S = (1 - 1/N) sum_r x_r^2 V_r + (diag theta - theta theta') / N. They are taken
for normal, which the betas of rare outcomes are not; the posterior of log alpha is taken for normal around its mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from crosslevel.ecological.classical.dirichlet_kernels import draw_tables
from crosslevel.errors import ConvergenceError

__all__ = ["Approximation", "approximate_posterior", "log_posterior"]

FloatArray = npt.NDArray[np.float64]

FLOOR = 1e-6  # of a beta moved below zero by the normal approximation
GRADIENT = 1e-3  # largest slope of the log posterior, per unit of log alpha, that counts as the mode


@dataclass(frozen=True)
class Approximation:
    """Draws around the mode.

    Attributes
    ----------
    alpha : (R, C)
        The mode.
    cells : (n_draws, R, C)
        The district's inner table, in counts.
    mean, sd : (n_units, R, C)
        Of the units' inner tables, in counts.
    gradient : float
        Largest slope left at the mode.
    iterations : int
    """

    alpha: FloatArray
    cells: FloatArray
    mean: FloatArray
    sd: FloatArray
    gradient: float
    iterations: int


def approximate_posterior(
    X: FloatArray, T: FloatArray, prior: tuple[float, float], draws: int, rng: np.random.Generator
) -> Approximation:
    """Find the mode of alpha and draw inner tables around it.

    Parameters
    ----------
    X : (n_units, R), T : (n_units, C)
        Counts; every group and every outcome has people somewhere, and R and C are at least 2.
    prior : (shape, rate)
        Of every alpha_rc.
    draws : int
    rng : numpy.random.Generator
    """
    N, shape = X.sum(axis=1), (X.shape[1], T.shape[1])
    x, t = X / N[:, None], T / T.sum(axis=1, keepdims=True)

    def loss(phi: FloatArray) -> tuple[float, FloatArray]:
        value, slope = log_posterior(phi.reshape(shape), x, t, N, prior)
        return -value, -slope.ravel()

    start = np.log(4.0 * np.tile(0.9 * t.mean(axis=0) + 0.1 / shape[1], (shape[0], 1))).ravel()
    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-5}
    )
    left = float(np.abs(loss(found.x)[1]).max())
    if not left < GRADIENT * max(1.0, abs(float(found.fun))):
        raise ConvergenceError(
            f"the mode was not reached (slope {left:.1e} after {found.nit} iterations); pass method='sample', which needs no mode."
        )
    spread = _spread(loss, found.x)
    mean, square, cells = np.zeros((*X.shape, shape[1])), np.zeros((*X.shape, shape[1])), np.empty((draws, *shape))
    tables = np.empty_like(mean)
    for k in range(draws):
        alpha = np.exp((found.x + spread @ rng.standard_normal(found.x.size)).reshape(shape))
        m = x[:, :, None] * _betas(alpha, x, t, N, rng)
        draw_tables(m, X, t * N[:, None], rng, tables)
        mean += tables / draws
        square += tables**2 / draws
        cells[k] = tables.sum(axis=0)
    return Approximation(
        alpha=np.exp(found.x).reshape(shape),
        cells=cells,
        mean=mean,
        sd=np.sqrt(np.maximum(square - mean**2, 0.0)),
        gradient=left,
        iterations=int(found.nit),
    )


def log_posterior(
    phi: FloatArray, x: FloatArray, t: FloatArray, N: FloatArray, prior: tuple[float, float]
) -> tuple[float, FloatArray]:
    """Give the log posterior of phi = log alpha (R, C), up to a constant, and its gradient."""
    alpha = np.exp(phi)
    A = alpha.sum(axis=1)
    mu = alpha / A[:, None]
    theta, S, q = _moments(mu, A, x, N)
    C = mu.shape[1]
    inverse, w = np.zeros((len(x), C, C)), np.zeros((len(x), C))
    inverse[:, :-1, :-1] = np.linalg.inv(S)
    e = t - theta
    w = np.einsum("nij,nj->ni", inverse, e)
    value = -0.5 * float(np.linalg.slogdet(S)[1].sum() + (w * e).sum())
    G = 0.5 * (w[:, :, None] * w[:, None, :] - inverse)
    by_theta = w + (np.einsum("nii->ni", G) - 2.0 * np.einsum("nij,nj->ni", G, theta)) / N[:, None]
    by_row = np.einsum("nr,nij->rij", q, G)
    curve = np.einsum("rii->ri", by_row) - 2.0 * np.einsum("rij,rj->ri", by_row, mu)
    by_mu = x.T @ by_theta + curve / (A + 1.0)[:, None]
    spread = np.einsum("rii,ri->r", by_row, mu) - np.einsum("rij,ri,rj->r", by_row, mu, mu)
    by_A = -spread / (A + 1.0) ** 2
    slope = mu * (by_mu - (mu * by_mu).sum(axis=1, keepdims=True)) + alpha * by_A[:, None]
    shape, rate = prior
    return value + float((shape * phi - rate * alpha).sum()), slope + shape - rate * alpha


def _moments(mu: FloatArray, A: FloatArray, x: FloatArray, N: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give theta (n, C), S without its last row and column (n, C - 1, C - 1), and the weights of V_r in it (n, R)."""
    theta, q = x @ mu, x**2 * (1.0 - 1.0 / np.maximum(N, 1.0))[:, None]
    V = _dirichlet_variance(mu, A)
    S = np.einsum("nr,rij->nij", q, V) + _multinomial_variance(theta) / np.maximum(N, 1.0)[:, None, None]
    k = mu.shape[1] - 1
    return theta, S[:, :k, :k] + 1e-12 * np.eye(k), q


def _multinomial_variance(p: FloatArray) -> FloatArray:
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


def _dirichlet_variance(mu: FloatArray, A: FloatArray) -> FloatArray:
    return _multinomial_variance(mu) / (A + 1.0)[:, None, None]


def _betas(alpha: FloatArray, x: FloatArray, t: FloatArray, N: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw betas (n, R, C) from the prior and move them, by what the normal approximation says, to the outcomes seen."""
    A = alpha.sum(axis=1)
    mu = alpha / A[:, None]
    _, S, _ = _moments(mu, A, x, N)
    beta = np.maximum(rng.standard_gamma(alpha, size=(len(x), *alpha.shape)), 1e-300)
    beta /= beta.sum(axis=2, keepdims=True)
    theta = np.einsum("nr,nrc->nc", x, beta)
    seen = theta + np.sqrt(theta / np.maximum(N, 1.0)[:, None]) * rng.standard_normal(theta.shape)
    seen += theta * (1.0 - seen.sum(axis=1, keepdims=True))
    gap = np.linalg.solve(S, (t - seen)[:, :-1, None])[:, :, 0]
    beta += np.einsum("nr,rcj,nj->nrc", x, _dirichlet_variance(mu, A)[:, :, :-1], gap)
    beta = np.maximum(beta, FLOOR)
    return np.asarray(beta / beta.sum(axis=2, keepdims=True))


def _spread(loss: Callable[[FloatArray], tuple[float, FloatArray]], mode: FloatArray, h: float = 1e-4) -> FloatArray:
    """Give a square root of the inverse Hessian of the loss, flat directions being cut at a standard deviation of 1."""
    H = np.array([loss(mode + e)[1] - loss(mode - e)[1] for e in h * np.eye(mode.size)]) / (2 * h)
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1.0)))
