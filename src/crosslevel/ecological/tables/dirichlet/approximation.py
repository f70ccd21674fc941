"""The Multinomial-Dirichlet model by its first two moments: a mode and normal draws instead of chains.

With mu_r = alpha_r / A_r, A_r the sum of alpha_r and V_r = (diag mu_r - mu_r mu_r') / (A_r + 1), the outcome shares of a unit
have mean theta = sum_r x_r mu_r and variance S = (1 - 1/N) sum_r x_r^2 V_r + (diag theta - theta theta') / N. They are taken
for normal, which the betas of rare outcomes are not; the posterior of log alpha is taken for normal around its mode. With a
contextual effect alpha_r is the unit's own, alpha_rc exp(b H_ic), and b is drawn anew for every draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from crosslevel.ecological.tables.contextual_effect import ContextualEffect
from crosslevel.ecological.tables.dirichlet.moments import likelihood, move_betas
from crosslevel.ecological.tables.dirichlet.moves import draw_tables
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

__all__ = ["Approximation", "approximate_posterior", "log_posterior"]

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
