"""Draws of effects and place effects from the posterior of a fitted question, by Laplace's approximation or as they were sampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from crosslevel.ecological.group.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.ecological.group.posterior import _root
from crosslevel.ecological.group.scales import divide
from crosslevel.ecological.individual.fit import IndividualFit
from crosslevel.ecological.individual.laplace import Point, factor_places
from crosslevel.ecological.individual.sampled import Sampled
from crosslevel.typing import FloatArray, IntArray

__all__ = ["EffectDraws", "draw_effects"]


@dataclass(frozen=True, eq=False)
class EffectDraws:
    """Joint draws from the posterior.

    Attributes
    ----------
    beta : (n_draws, p)
        Coefficients.
    context : (n_draws, p')
        What the composition of a place does to everybody there, per coefficient; p' is 0 where that is not modelled.
    u : (n_draws, q')
        Effects of places alone, of all places of the terms.
    rate : (n_draws, q)
        Rates of the places of the fit.
    """

    beta: FloatArray
    context: FloatArray
    u: FloatArray
    rate: FloatArray


def draw_effects(
    fit: IndividualFit, terms: Terms, n_draws: int, rng: np.random.Generator, seen: IntArray | None = None
) -> EffectDraws:
    """Draw effects and place effects jointly, scales included.

    Parameters
    ----------
    fit : IndividualFit
    terms : Terms
        Over the places of the fit, and others where ``seen`` is given.
    n_draws : int
    rng : numpy.random.Generator
    seen : (q,) int, optional
        The places of the fit among those of the terms; all of them, in their order, when not given.
    """
    at = np.arange(terms.n_places) if seen is None else seen
    context = fit.rows.M[:, fit.linear.J.shape[1] :]
    if fit.sampled is not None:
        return _sampled(fit.sampled, terms, context, n_draws, rng, at)
    shares = divide(np.array([point.weight for point in fit.points]), n_draws)
    parts = [_drawn(p, terms, context, int(n), rng, at) for p, n in zip(fit.points, shares, strict=True) if n]
    # mixed, so that draws of two questions are not paired by their scales
    order = rng.permutation(n_draws)
    beta, gamma, u, rate = (np.concatenate(columns)[order] for columns in zip(*parts, strict=True))
    return EffectDraws(beta, gamma, u, rate)


def _drawn(
    point: Point, terms: Terms, context: FloatArray, n: int, rng: np.random.Generator, at: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Draw under the scales of one point: effects first, then place effects by Matheron's rule."""
    h = point.hyperparameters
    Ku = place_covariance(terms, h)
    K = Ku[np.ix_(at, at)] + h.embedding * (context @ context.T)
    L, root_W = factor_places(K, point.W), np.sqrt(point.W)
    away = rng.standard_normal((n, len(point.beta))) @ point.root.T
    u = rng.standard_normal((n, terms.n_places)) @ _root(Ku).T
    gamma = np.sqrt(h.embedding) * rng.standard_normal((n, context.shape[1]))
    toward = away @ point.J.T
    missed = root_W * (toward + u[:, at] + gamma @ context.T) + rng.standard_normal((n, len(at)))
    moved = root_W * linalg.cho_solve((L, True), missed.T, check_finite=False).T
    alpha = point.alpha - moved
    u += alpha @ Ku[at]
    gamma += h.embedding * (alpha @ context)
    off = toward + u[:, at] + gamma @ context.T - K @ point.alpha
    return point.beta + away, gamma, u, special.expit(point.level + point.slope * off)


def _sampled(
    found: Sampled, terms: Terms, context: FloatArray, n: int, rng: np.random.Generator, at: IntArray
) -> EffectDraws:
    """Take draws of the sampler; places it has not seen, and context apart from places, follow from them."""
    which = rng.permutation(np.arange(n) % len(found.beta))
    if n < len(found.beta):
        which = rng.choice(len(found.beta), n, replace=False)
    beta, f, rate = found.beta[which], found.f[which], found.rate[which]
    if not context.shape[1] and terms.n_places == f.shape[1]:
        return EffectDraws(beta, np.zeros((n, 0)), f, rate)
    u, gamma = np.empty((n, terms.n_places)), np.empty((n, context.shape[1]))
    for k, logs in enumerate(found.logs[which]):
        h = Hyperparameters(**dict(zip(terms.names, np.exp(logs).tolist(), strict=True)))
        Ku = place_covariance(terms, h)
        K = Ku[np.ix_(at, at)] + h.embedding * (context @ context.T)
        u[k] = _root(Ku) @ rng.standard_normal(terms.n_places)
        gamma[k] = np.sqrt(h.embedding) * rng.standard_normal(context.shape[1])
        jitter = 1e-9 * np.eye(len(K))
        alpha = linalg.solve(K + jitter, f[k] - u[k, at] - context @ gamma[k], assume_a="pos", check_finite=False)
        u[k] += Ku[:, at] @ alpha
        gamma[k] += h.embedding * (context.T @ alpha)
    return EffectDraws(beta, gamma, u, rate)
