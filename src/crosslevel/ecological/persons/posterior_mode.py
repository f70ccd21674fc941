"""The mode of effects and place effects, and the linear model that resembles the exact one there.

Totals are nearly exact, so steps in (beta, f) leave the valley of the likelihood at once; steps are taken in (beta, logit P)
instead, and f follows by a root for each place. At the mode the model is a linear one, J_i . beta + f_i seen with precision W_i,
whose evidence chooses the scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from crosslevel.ecological.covariance import Hyperparameters, Terms
from crosslevel.ecological.persons.model import Design
from crosslevel.ecological.persons.sweeps import Rates, hessian, jacobian, level_rates, place_effects
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray

__all__ = ["Linear", "find_map"]


STEPS = 200
HALVINGS = 30
DECREMENT = 1e-9
"""Gain in log posterior that a further Newton step may still promise at the mode."""
FAR = 30.0
"""Largest logit of a place that steps may reach."""


@dataclass(frozen=True, eq=False)
class Linear:
    """The model at its mode: z_i = J_i . beta + f_i + noise of variance 1 / W_i.

    Attributes
    ----------
    beta : (p,)
    f : (q,)
        Place effects.
    J : (q, p)
    z : (q,)
    W : (q,)
    level : (q,)
        Logit of each place's rate.
    slope : (q,)
        d logit P / d f.
    iterations : int
    decrement : float
        Gain that a further step promises.
    gradient : float
        Largest gradient left, relative to the counts.
    inner : (p, p)
        Curvature in beta at given rates, but for that of the linear J.
    alpha : (q,)
        Inverse prior covariance of the place effects, times them.
    height : float
        Log likelihood and exponents of the priors.
    """

    beta: FloatArray
    f: FloatArray
    J: FloatArray
    z: FloatArray
    W: FloatArray
    level: FloatArray
    slope: FloatArray
    iterations: int
    decrement: float
    gradient: float
    inner: FloatArray
    alpha: FloatArray
    height: float


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
        pull = (k - n * found.rate) * s
        z = f + J @ beta + np.divide(pull, W, out=np.zeros_like(W), where=W > 0)
        prior_f = linalg.cho_solve(factor, f, check_finite=False)
        bend, own, there = _bends(design, beta, f, found, prior_f, tilt, n_jobs)
        pull = pull + there
        inner = np.eye(len(beta)) / h.effect_variance - bend
        T = _positive_inverse(inner)
        drawn_in = own - beta / h.effect_variance
        slope_beta, slope_f = J.T @ pull + drawn_in, pull - prior_f
        wanted = T @ drawn_in
        force = _force(K + J @ T @ J.T, W, pull, J @ wanted - f)
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
    pulled = prior_f / found.slope
    if tilt is None:
        bend = hessian(pairs, eta, f, design.codes, levels, pulled, n_jobs)
        return design.B.T @ bend @ design.B, np.zeros(len(beta)), np.zeros(len(f))
    turn, by_level = jacobian(pairs, eta, f, design.codes, n_levels, n_jobs)
    turn = turn / found.slope
    away = by_level / found.slope[:, None] - levels * turn[:, None]  # d log s / d effects, at given rates
    share = tilt / found.slope
    bend = hessian(pairs, eta, f, design.codes, levels, pulled + share * turn, n_jobs, -share)
    bend += (away.T * tilt) @ away
    bent = (1.0 - 2.0 * found.rate) * found.slope / (found.rate * (1.0 - found.rate))
    return design.B.T @ bend @ design.B, -design.B.T @ (away.T @ tilt), -tilt * (turn - bent)


def _force(C: FloatArray, W: FloatArray, pull: FloatArray, away: FloatArray) -> FloatArray:
    """Give (I + W C)^-1 (pull - W away): what the data do to the places, once they have moved."""
    root = np.sqrt(np.maximum(W, 1e-300))
    B = root[:, None] * C * root
    B[np.diag_indices_from(B)] += 1.0
    L = linalg.cholesky(B, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(root * linalg.cho_solve((L, True), pull / root - root * away, check_finite=False))


def _positive_inverse(A: FloatArray) -> FloatArray:
    """Invert a symmetric matrix; directions in which it is not positive count with the size of their curvature."""
    values, vectors = linalg.eigh(A, check_finite=False)
    return np.asarray((vectors / np.maximum(np.abs(values), 1e-8 * np.abs(values).max())) @ vectors.T)
