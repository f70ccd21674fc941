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

Totals are nearly exact, so steps in (beta, f) leave the valley of the likelihood at once; steps are taken in (beta, logit P)
instead, and f follows by a root for each place. At the mode the model is a linear one, J_i . beta + f_i seen with precision W_i,
whose evidence chooses the scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from crosslevel.ecological.covariance import Hyperparameters, Terms, factor_places
from crosslevel.ecological.persons.model import Design, Linear, Point
from crosslevel.ecological.persons.sweeps import Rates, hessian, jacobian, level_rates, place_effects
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray

STEPS = 200
HALVINGS = 30
DECREMENT = 1e-9
"""Gain in log posterior that a further Newton step may still promise at the mode."""
FAR = 30.0
"""Largest logit of a place that steps may reach."""
PAIRS = 4
"""Opposite pairs of draws over which slopes are averaged, at each of several points."""
FURTHEST = 0.5
"""Largest move of the mean off the mode, per effect, in standard deviations."""


def find_map(
    design: Design,
    terms: Terms,
    h: Hyperparameters,
    likelihood: Binomial,
    start: Linear | None = None,
    n_jobs: int = 1,
    tilt: FloatArray | None = None,
) -> Linear:
    """Find the mode of coefficients and place effects.

    Parameters
    ----------
    design : Design
    terms, h
        Prior of the place effects; ``h.effect_variance`` is t2.
    likelihood : Binomial
        Counts of the places.
    start : Linear, optional
        Mode of a nearby problem.
    tilt : (q,), optional
        Find the mode of the density less tilt_i log(d logit P_i / df_i). With ones that is the density of (beta, logit P).

    Raises
    ------
    ConvergenceError
        When a further step still promises something.
    """
    k, n = likelihood.successes, likelihood.trials
    pairs, n_levels = design.pairs, len(design.B)
    K = design.place_prior(terms, h)
    jitter = 1e-10 * float(np.mean(np.diag(K)))
    factor = linalg.cho_factor(K + jitter * np.eye(len(K)), lower=True, check_finite=False)
    beta = np.zeros(design.B.shape[1]) if start is None else start.beta
    level = np.clip(likelihood.start(), -FAR, FAR)
    f = place_effects(pairs, design.eta(beta), special.expit(level), level if start is None else start.f, n_jobs)

    def look(beta: FloatArray, f: FloatArray, level: FloatArray) -> tuple[float, Rates]:
        prior = -0.5 * beta @ beta / h.effect_variance - 0.5 * f @ linalg.cho_solve(factor, f, check_finite=False)
        found = level_rates(pairs, design.eta(beta), f, design.codes, n_levels, n_jobs)
        value = likelihood.slopes(level).value + prior
        if tilt is not None:
            value -= tilt @ np.log(found.slope / (found.rate * (1.0 - found.rate)))
        return float(value), found

    now, found = look(beta, f, level)
    step = 0
    while step < STEPS:
        step += 1
        spread = found.rate * (1.0 - found.rate)
        s = found.slope / spread  # d logit P / d f
        J = (found.by_level @ design.B) / found.slope[:, None]
        W = n * spread * s**2
        score = (k - n * found.rate) * s
        z = f + J @ beta + np.divide(score, W, out=np.zeros_like(W), where=W > 0)
        prior_f = linalg.cho_solve(factor, f, check_finite=False)
        bend, own, there = _bends(design, beta, f, found, prior_f, tilt, n_jobs)
        score = score + there
        inner = np.eye(len(beta)) / h.effect_variance - bend
        T = _positive_inverse(inner)
        drawn_in = own - beta / h.effect_variance
        slope_beta, slope_f = J.T @ score + drawn_in, score - prior_f
        wanted = T @ drawn_in
        force = _force(K + J @ T @ J.T, W, score, J @ wanted - f)
        d_beta, d_f = wanted + T @ (J.T @ force), K @ force - f
        promised = float(slope_beta @ d_beta + slope_f @ d_f)
        scale = max(1.0, abs(now))
        if abs(promised) <= DECREMENT * max(1.0, 1e-3 * scale):
            break
        d_level = s * (d_f + J @ d_beta)
        length = 1.0
        for _ in range(HALVINGS):
            new_beta = beta + length * d_beta
            new_level = np.clip(level + length * d_level, -FAR, FAR)
            new_f = place_effects(pairs, design.eta(new_beta), special.expit(new_level), f + length * d_f, n_jobs)
            new, seen = look(new_beta, new_f, new_level)
            if new >= now + 1e-4 * length * promised - 1e-13 * scale:
                break
            length *= 0.5
        else:
            break
        beta, f, level, now, found = new_beta, new_f, new_level, new, seen
    if not abs(promised) <= 1e-4:
        raise ConvergenceError(
            f"the model of persons did not reach its mode in {step} steps (a further one promises {promised:.1e}, allowed 1e-4); fewer "
            "or coarser columns may help."
        )
    gradient = max(float(np.max(np.abs(slope_f) / (1.0 + n))), float(np.max(np.abs(slope_beta)) / (1.0 + n.sum())))
    height = now if tilt is None else now + float(tilt @ np.log(s))
    return Linear(beta, f, J, z, W, special.logit(found.rate), s, step, promised, gradient, inner, prior_f, height)


def _bends(
    design: Design,
    beta: FloatArray,
    f: FloatArray,
    found: Rates,
    prior_f: FloatArray,
    tilt: FloatArray | None,
    n_jobs: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give how the place effects, which follow beta at given rates, bend, (p, p), and the slopes of the tilt.

    Those are the slopes in beta at given rates, (p,), and in f, (q,).
    """
    pairs, eta, n_levels = design.pairs, design.eta(beta), len(design.B)
    levels = found.by_level / found.slope[:, None]
    prior_slope = prior_f / found.slope
    if tilt is None:
        bend = hessian(pairs, eta, f, design.codes, levels, prior_slope, n_jobs)
        return design.B.T @ bend @ design.B, np.zeros(len(beta)), np.zeros(len(f))
    turn, by_level = jacobian(pairs, eta, f, design.codes, n_levels, n_jobs)
    turn = turn / found.slope
    away = by_level / found.slope[:, None] - levels * turn[:, None]  # d log s / d effects, at given rates
    share = tilt / found.slope
    bend = hessian(pairs, eta, f, design.codes, levels, prior_slope + share * turn, n_jobs, -share)
    bend += (away.T * tilt) @ away
    bent = (1.0 - 2.0 * found.rate) * found.slope / (found.rate * (1.0 - found.rate))
    return design.B.T @ bend @ design.B, -design.B.T @ (away.T @ tilt), -tilt * (turn - bent)


def _force(C: FloatArray, W: FloatArray, score: FloatArray, away: FloatArray) -> FloatArray:
    """Give (I + W C)^-1 (score - W away): what the data do to the places, once they have moved."""
    root = np.sqrt(np.maximum(W, 1e-300))
    B = root[:, None] * C * root
    B[np.diag_indices_from(B)] += 1.0
    L = linalg.cholesky(B, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(root * linalg.cho_solve((L, True), score / root - root * away, check_finite=False))


def _positive_inverse(A: FloatArray) -> FloatArray:
    """Invert a symmetric matrix; directions in which it is not positive count with the size of their curvature."""
    values, vectors = linalg.eigh(A, check_finite=False)
    return np.asarray((vectors / np.maximum(np.abs(values), 1e-8 * np.abs(values).max())) @ vectors.T)


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
    return Laplace(linear, _centered(point, design, likelihood, K, L, n_pairs, rng, n_jobs), float(evidence))


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


def _centered(
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
    prior_slope = linalg.cho_solve(prior, f, check_finite=False)
    turn = turn / found.slope
    levels = found.by_level / found.slope[:, None]
    away = by_level / found.slope[:, None] - levels * turn[:, None]
    s = found.slope / (rate * (1.0 - rate))
    by_beta = -beta / point.hyperparameters.effect_variance + design.B.T @ (levels.T @ prior_slope - away.sum(axis=0))
    told = likelihood.successes - likelihood.trials * rate
    return by_beta, told - (prior_slope + turn) / s + (1.0 - 2.0 * rate)
