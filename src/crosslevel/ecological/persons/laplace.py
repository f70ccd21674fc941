"""Laplace's approximation of the model of persons at given scales: where effects lie, how far they spread, and the evidence.

Totals are nearly exact, so in (beta, f) the posterior is a thin, bent shell, and its thickness d f / d logit P changes along the
shell. The highest point of (beta, f) ignores that, and its error does not fall with the number of places. Therefore the mode is that
of the posterior of beta, place effects summed out: to first order it is that of the density divided by
prod_i (d logit P_i / df_i)^c_i, c_i the part of the place's effect that the count tells (1 where thousands were counted). The
curvature is exact at given rates. What skewness is left moves the mean off the mode; slopes averaged over the spread, opposite
pairs at a time, say how far.

Thickness and bending tell about effects only through the shape of the likelihood and the assumption that place effects have one
variance everywhere. Of few places that is little; of a thousand it outweighs what composition says, and real places do not keep to the
assumption. The model's own intervals know nothing of that; those that allow for confounding (``ecological.confounding``) measure it on
hidden columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from crosslevel.ecological.covariance import Hyperparameters, Terms
from crosslevel.ecological.persons.model import Design
from crosslevel.ecological.persons.posterior_mode import Linear, find_map
from crosslevel.ecological.persons.sweeps import jacobian, level_rates, place_effects
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray

__all__ = ["Laplace", "Point", "factor_places", "laplace", "start_mode"]


PAIRS = 4
"""Opposite pairs of draws over which slopes are averaged, at each of several points."""
FURTHEST = 0.5
"""Largest move of the mean off the mode, per effect, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Point:
    """Scales that stand for a part of their posterior, and the normal approximation under them.

    Attributes
    ----------
    hyperparameters : Hyperparameters
    weight : float
        Adds up to one over all points.
    beta : (p,)
        Mean of the effects.
    root : (p, p)
        A square root of their covariance.
    J : (q, p)
        Slopes of the places' logits by the effects, relative to those by the place effects.
    W : (q,)
        Precision with which the counts tell f_i + J_i . beta.
    alpha : (q,)
        Inverse prior covariance of the place effects, times their mean.
    level, slope : (q,)
        Logit of each place's rate, and its slope by the place effect.
    """

    hyperparameters: Hyperparameters
    weight: float
    beta: FloatArray
    root: FloatArray
    J: FloatArray
    W: FloatArray
    alpha: FloatArray
    level: FloatArray
    slope: FloatArray


@dataclass(frozen=True, eq=False)
class Laplace:
    """The approximation at given scales, and its evidence.

    Attributes
    ----------
    linear : Linear
        The mode.
    point : Point
        Of weight one.
    log_evidence : float
    """

    linear: Linear
    point: Point
    log_evidence: float


def laplace(
    design: Design,
    terms: Terms,
    h: Hyperparameters,
    likelihood: Binomial,
    start: Linear | None = None,
    n_jobs: int = 1,
    n_pairs: int = PAIRS,
    seed: int = 0,
) -> Laplace:
    """Approximate the posterior of effects and place effects at given scales.

    Parameters
    ----------
    design, terms, h, likelihood
    start : Linear, optional
        Mode of a nearby problem.
    n_pairs : int
        Opposite pairs of draws that move the mode to the mean.
    seed : int
        Of these.
    """
    linear = start_mode(design, terms, h, likelihood, start, n_jobs)
    K = design.place_prior(terms, h)
    L = factor_places(K, linear.W)
    seen = linalg.solve_triangular(L, np.sqrt(linear.W)[:, None] * linear.J, lower=True, check_finite=False)
    root, logs = _inverse_root(linear.inner + seen.T @ seen)
    evidence = linear.height - 0.5 * len(root) * np.log(h.effect_variance) - logs - float(np.log(np.diag(L)).sum())
    point = Point(h, 1.0, linear.beta, root, linear.J, linear.W, linear.alpha, linear.level, linear.slope)
    rng = np.random.default_rng(seed)
    return Laplace(linear, _centred(point, design, likelihood, K, L, n_pairs, rng, n_jobs), float(evidence))


def start_mode(
    design: Design,
    terms: Terms,
    h: Hyperparameters,
    likelihood: Binomial,
    start: Linear | None = None,
    n_jobs: int = 1,
) -> Linear:
    """Find the mode of beta with the place effects summed out."""
    W = likelihood.slopes(likelihood.start()).curvature if start is None else start.W
    L = factor_places(design.place_prior(terms, h), W)
    inverse = linalg.solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
    told = np.clip(1.0 - np.einsum("ij,ij->j", inverse, inverse), 0.0, 1.0)
    return find_map(design, terms, h, likelihood, start, n_jobs, tilt=told)


def factor_places(K: FloatArray, W: FloatArray) -> FloatArray:
    """Factor I + W^1/2 K W^1/2, (q, q)."""
    root = np.sqrt(W)
    B = root[:, None] * K * root
    B[np.diag_indices_from(B)] += 1.0
    return np.asarray(linalg.cholesky(B, lower=True, overwrite_a=True, check_finite=False))


def _inverse_root(S: FloatArray) -> tuple[FloatArray, float]:
    """Give R with R R' = S^-1, and half the log determinant of S; directions without curvature count with a little."""
    try:
        lower = linalg.cholesky(S, lower=True, check_finite=False)
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(S, check_finite=False)
        values = np.maximum(values, 1e-6 * values[-1])
        return np.asarray(vectors / np.sqrt(values)), 0.5 * float(np.log(values).sum())
    # triangular, not of eigenvectors, whose signs are rounding's
    root = linalg.solve_triangular(lower, np.eye(len(S)), lower=True, check_finite=False).T
    return np.asarray(root), float(np.log(np.diag(lower)).sum())


def _centred(
    point: Point,
    design: Design,
    likelihood: Binomial,
    K: FloatArray,
    L: FloatArray,
    n_pairs: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> Point:
    """Move the mode to the mean: by a Newton step from slopes averaged over the spread."""
    p, q, root_W = len(point.beta), len(K), np.sqrt(point.W)
    prior = linalg.cho_factor(K + 1e-10 * float(np.mean(np.diag(K))) * np.eye(q), lower=True, check_finite=False)

    def solved(x: FloatArray) -> FloatArray:  # (I + W K)^-1 x
        return np.asarray(x - root_W * linalg.cho_solve((L, True), root_W * (K @ x), check_finite=False))

    f = K @ point.alpha
    slope_beta, slope_level = np.zeros(p), np.zeros(q)
    for _ in range(n_pairs):
        d_beta = point.root @ rng.standard_normal(p)
        drawn = np.tril(prior[0]) @ rng.standard_normal(q)
        toward = point.J @ d_beta
        noise = root_W * linalg.cho_solve((L, True), rng.standard_normal(q), check_finite=False)
        d_f = drawn - K @ (solved(point.W * (toward + drawn)) + noise)
        for sign in (1.0, -1.0):
            beta, level = point.beta + sign * d_beta, point.level + sign * point.slope * (toward + d_f)
            by_beta, by_level = _slopes(point, design, likelihood, prior, beta, level, f + sign * d_f, n_jobs)
            slope_beta += by_beta / (2 * n_pairs)
            slope_level += point.slope * by_level / (2 * n_pairs)
    scaled = point.root.T @ (slope_beta + point.J.T @ solved(slope_level))
    scaled *= min(1.0, FURTHEST * np.sqrt(p) / max(float(np.linalg.norm(scaled)), 1e-300))
    move = point.root @ scaled
    alpha = solved(slope_level - point.W * (point.J @ move))
    level = point.level + point.slope * (point.J @ move + K @ alpha)
    return Point(
        point.hyperparameters,
        point.weight,
        point.beta + move,
        np.ascontiguousarray(point.root),  # as they come back from a file, so that BLAS takes the same path
        np.ascontiguousarray(point.J),
        point.W,
        point.alpha + alpha,
        level,
        point.slope,
    )


def _slopes(
    point: Point,
    design: Design,
    likelihood: Binomial,
    prior: tuple[FloatArray, bool],
    beta: FloatArray,
    level: FloatArray,
    guess: FloatArray,
    n_jobs: int,
) -> tuple[FloatArray, FloatArray]:
    """Give the slopes of the log density of (beta, logits of rates)."""
    pairs, eta, n_levels = design.pairs, design.eta(beta), len(design.B)
    rate = special.expit(level)
    f = place_effects(pairs, eta, rate, guess, n_jobs)
    found = level_rates(pairs, eta, f, design.codes, n_levels, n_jobs)
    turn, by_level = jacobian(pairs, eta, f, design.codes, n_levels, n_jobs)
    pulled = linalg.cho_solve(prior, f, check_finite=False)
    turn = turn / found.slope
    levels = found.by_level / found.slope[:, None]
    away = by_level / found.slope[:, None] - levels * turn[:, None]
    s = found.slope / (rate * (1.0 - rate))
    by_beta = -beta / point.hyperparameters.effect_variance + design.B.T @ (levels.T @ pulled - away.sum(axis=0))
    told = likelihood.successes - likelihood.trials * rate
    return by_beta, told - (pulled + turn) / s + (1.0 - 2.0 * rate)
