"""The Multinomial-Dirichlet model by its first two moments: a mode and normal draws instead of chains.

With mu_r = alpha_r / A_r, A_r the sum of alpha_r and V_r = (diag mu_r - mu_r mu_r') / (A_r + 1), the outcome shares of a unit
have mean theta = sum_r x_r mu_r and variance S = (1 - 1/N) sum_r x_r^2 V_r + (diag theta - theta theta') / N. They are taken
for normal, which the betas of rare outcomes are not; the posterior of log alpha is taken for normal around its mode. With a
contextual effect alpha_r is the unit's own, alpha_rc exp(b H_ic), and b is drawn anew for every draw.

Fused loops of the approximation by moments: its likelihood with gradient, and betas moved to the outcomes seen.

Arguments: ``alpha`` (R, C), ``factor`` (n, C), ``x`` (n, R), ``t`` (n, C), ``N`` (n,). Sums run over
units in order, so equal inputs give equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from crosslevel.data.progress import count_steps
from crosslevel.ecological.tables.contextual_effect import ContextualEffect
from crosslevel.ecological.tables.dirichlet.moves import draw_tables
from crosslevel.ecological.tables.raking import JIT
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.compiled import njit
from crosslevel.numerics.small_matrices import invert
from crosslevel.typing import FloatArray, Progress

A = FloatArray


@njit(**JIT)
def _moments(alpha: A, factor: A, x: A, N: float, mu: A, size: A, scale: A, theta: A, S: A) -> None:
    """Fill mu (R, C), A (R,), the weights of V_r in S over A_r + 1 (R,), theta (C,) and S (C, C) of one unit."""
    R, C = alpha.shape
    many = max(N, 1.0)
    theta[:] = 0.0
    for r in range(R):
        total = 0.0
        for c in range(C):
            mu[r, c] = alpha[r, c] * factor[c]
            total += mu[r, c]
        size[r] = total
        scale[r] = x[r] * x[r] * (1.0 - 1.0 / many) / (total + 1.0)
        for c in range(C):
            mu[r, c] /= total
            theta[c] += x[r] * mu[r, c]
    for c in range(C):
        for h in range(c + 1):
            s = -theta[c] * theta[h] / many
            for r in range(R):
                s -= scale[r] * mu[r, c] * mu[r, h]
            if h == c:
                s += theta[c] / many + 1e-12
                for r in range(R):
                    s += scale[r] * mu[r, c]
            S[c, h] = s
            S[h, c] = s


@njit(**JIT)
def likelihood(alpha: A, factor: A, x: A, t: A, N: A) -> tuple[float, A]:
    """Give the log likelihood and its gradient by log alpha, (R, C)."""
    n = len(x)
    R, C = alpha.shape
    mu, by_mu = np.empty((R, C)), np.empty(C)
    size, scale, theta, w = np.empty(R), np.empty(R), np.empty(C), np.zeros(C)
    S, L, inverse, G = np.empty((C, C)), np.zeros((C, C)), np.zeros((C, C)), np.zeros((C, C))
    by_theta, along = np.empty(C), np.empty(C)
    slope, value = np.zeros((R, C)), 0.0
    for i in range(n):
        _moments(alpha, factor[i], x[i], N[i], mu, size, scale, theta, S)
        logdet = invert(S, L, inverse, C - 1)
        if not math.isfinite(logdet):
            return -np.inf, np.zeros((R, C))
        fit = 0.0
        for c in range(C - 1):
            w[c] = 0.0
            for h in range(C - 1):
                w[c] += inverse[c, h] * (t[i, h] - theta[h])
            fit += w[c] * (t[i, c] - theta[c])
        value -= 0.5 * (logdet + fit)
        for c in range(C - 1):
            for h in range(C - 1):
                G[c, h] = 0.5 * (w[c] * w[h] - inverse[c, h])
        for c in range(C):
            s = 0.0
            for h in range(C):
                s += G[c, h] * theta[h]
            by_theta[c] = w[c] + (G[c, c] - 2.0 * s) / max(N[i], 1.0)
        for r in range(R):
            mean, spread = 0.0, 0.0
            for c in range(C):
                along[c] = 0.0
                for h in range(C):
                    along[c] += mu[r, h] * G[h, c]
                by_mu[c] = x[i, r] * by_theta[c] + scale[r] * (G[c, c] - 2.0 * along[c])
                mean += mu[r, c] * by_mu[c]
                spread += mu[r, c] * (G[c, c] - along[c])
            by_size = -scale[r] / (size[r] + 1.0) * spread
            for c in range(C):
                slope[r, c] += mu[r, c] * (by_mu[c] - mean) + mu[r, c] * size[r] * by_size
    return value, slope


@njit(**JIT)
def move_betas(alpha: A, factor: A, x: A, t: A, N: A, beta: A, z: A, least: float) -> None:
    """Move betas (n, R, C), given as gamma numbers, to the outcomes seen; z (n, C) are normal numbers."""
    n, R, C = beta.shape
    mu, size, scale, theta = np.empty((R, C)), np.empty(R), np.empty(R), np.empty(C)
    S, L, inverse = np.empty((C, C)), np.zeros((C, C)), np.zeros((C, C))
    drawn, seen, gap = np.empty(C), np.empty(C), np.zeros(C)
    for i in range(n):
        _moments(alpha, factor[i], x[i], N[i], mu, size, scale, theta, S)
        invert(S, L, inverse, C - 1)
        drawn[:] = 0.0
        for r in range(R):
            total = 0.0
            for c in range(C):
                beta[i, r, c] = max(beta[i, r, c], 1e-300)
                total += beta[i, r, c]
            for c in range(C):
                beta[i, r, c] /= total
                drawn[c] += x[i, r] * beta[i, r, c]
        total = 0.0
        for c in range(C):
            seen[c] = drawn[c] + math.sqrt(drawn[c] / max(N[i], 1.0)) * z[i, c]
            total += seen[c]
        for c in range(C):
            seen[c] += drawn[c] * (1.0 - total)
        for c in range(C - 1):
            gap[c] = 0.0
            for h in range(C - 1):
                gap[c] += inverse[c, h] * (t[i, h] - seen[h])
        for r in range(R):
            mean, total = 0.0, 0.0
            for c in range(C):
                mean += mu[r, c] * gap[c]
            for c in range(C):
                # V_r gap without forming V_r = (diag mu_r - mu_r mu_r') / (A_r + 1)
                beta[i, r, c] += x[i, r] / (size[r] + 1.0) * mu[r, c] * (gap[c] - mean)
                beta[i, r, c] = max(beta[i, r, c], least)
                total += beta[i, r, c]
            for c in range(C):
                beta[i, r, c] /= total


Loss = Callable[[FloatArray], tuple[float, FloatArray]]

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
    X: FloatArray,
    T: FloatArray,
    prior: tuple[float, float],
    draws: int,
    rng: np.random.Generator,
    effect: ContextualEffect,
    progress: Progress | None = None,
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
    effect : ContextualEffect
        The mode moves with its slope, which the data do not choose.
    progress : bool or callable, optional
        Tells how many tables are drawn.
    """
    N, shape = X.sum(axis=1), (X.shape[1], T.shape[1])
    x, t = X / N[:, None], T / T.sum(axis=1, keepdims=True)

    def loss_at(off: float) -> Loss:
        factor = effect.factor(off)

        def loss(phi: FloatArray) -> tuple[float, FloatArray]:
            value, slope = log_posterior(phi.reshape(shape), x, t, N, prior, factor)
            return -value, -slope.ravel()

        return loss

    start = np.log(4.0 * np.tile(0.9 * t.mean(axis=0) + 0.1 / shape[1], (shape[0], 1))).ravel()
    loss = loss_at(0.0)
    mode, left, iterations = _mode(loss, start)
    moved = np.zeros_like(mode)
    if effect.sd > 0:
        moved = (_mode(loss_at(effect.sd), mode)[0] - _mode(loss_at(-effect.sd), mode)[0]) / 2
    spread = _spread(loss, mode)
    mean, square, cells = np.zeros((*X.shape, shape[1])), np.zeros((*X.shape, shape[1])), np.empty((draws, *shape))
    tables = np.empty_like(mean)
    with count_steps(progress, "Drawing tables", draws, "draws") as step:
        for k in range(draws):
            z = rng.standard_normal() if effect.sd > 0 else 0.0
            alpha = np.exp((mode + z * moved + spread @ rng.standard_normal(mode.size)).reshape(shape))
            factor = effect.factor(z * effect.sd)
            beta = rng.standard_gamma(alpha * factor[:, None, :])
            move_betas(alpha, factor, x, t, N, beta, rng.standard_normal(t.shape), FLOOR)
            draw_tables(x[:, :, None] * beta, X, t * N[:, None], rng, tables)
            mean += tables / draws
            square += tables**2 / draws
            cells[k] = tables.sum(axis=0)
            if step is not None:
                step()
    return Approximation(
        alpha=np.exp(mode).reshape(shape),
        cells=cells,
        mean=mean,
        sd=np.sqrt(np.maximum(square - mean**2, 0.0)),
        gradient=left,
        iterations=iterations,
    )


def _mode(loss: Loss, start: FloatArray) -> tuple[FloatArray, float, int]:
    """Give where the loss is lowest, the largest slope left there, and the iterations it took."""
    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-5}
    )
    left = float(np.abs(loss(found.x)[1]).max())
    if not left < GRADIENT * max(1.0, abs(float(found.fun))):
        raise ConvergenceError(
            f"the mode was not reached (slope {left:.1e} after {found.nit} iterations); pass method='sample', which needs no mode."
        )
    return found.x, left, int(found.nit)


def log_posterior(
    phi: FloatArray, x: FloatArray, t: FloatArray, N: FloatArray, prior: tuple[float, float], factor: FloatArray
) -> tuple[float, FloatArray]:
    """Give the log posterior of phi = log alpha (R, C), up to a constant, and its gradient; factor is (n, C)."""
    alpha = np.exp(phi)
    value, slope = likelihood(alpha, factor, x, t, N)
    shape, rate = prior
    return value + float((shape * phi - rate * alpha).sum()), slope + shape - rate * alpha


def _spread(loss: Loss, mode: FloatArray, h: float = 1e-4) -> FloatArray:
    """Give a square root of the inverse Hessian of the loss, flat directions being cut at a standard deviation of 1."""
    H = np.array([loss(mode + e)[1] - loss(mode - e)[1] for e in h * np.eye(mode.size)]) / (2 * h)
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1.0)))
