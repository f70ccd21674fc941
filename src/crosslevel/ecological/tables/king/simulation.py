"""Draws from the posterior of King's model: parameters by importance sampling, then every unit along its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.ecological.tables.king.likelihood import (
    Lines,
    Problem,
    coordinate,
    log_posterior,
    untruncated,
)
from crosslevel.ecological.tables.king.mode import Mode, limits
from crosslevel.numerics.truncated_normal import truncated_quantile
from crosslevel.typing import FloatArray

DEGREES = 6.0
"""Of freedom of the proposal: tails heavier than the posterior's keep the weights bounded."""
ROUNDS = 5
SMALLEST_ROOT = 1e-20  # of a covariance
AT_ONCE = 1 << 18
NODES = 128


class Part(NamedTuple):
    """One Student t of the proposal's mixture, and how many draws came from it."""

    center: FloatArray
    covariance: FloatArray
    number: int


@dataclass(frozen=True)
class ParameterDraws:
    """Draws of equal weight from the posterior of the parameters.

    Attributes
    ----------
    phi : (n_draws, n_parameters)
    effective : effective number of the proposals behind them.
    proposals : how many were made.
    rounds : of proposals; after the first the proposal is a mixture that follows the weights so far.
    largest : share of the largest weight.
    """

    phi: FloatArray
    effective: float
    proposals: int
    rounds: int
    largest: float


def draw_parameters(problem: Problem, mode: Mode, n_draws: int, rng: np.random.Generator) -> ParameterDraws:
    """Sample the parameters by importance, from Student t around the modes.

    Unless the effective number reaches half the draws asked for, more proposals come from a t with the mean and
    covariance that the weights point to. All are then weighted against the mixture of every proposal used (Owen and
    Zhou 2000; Cornuet et al. 2012), of which the first remains a part, so that no weight explodes.

    Parameters
    ----------
    problem : Problem
    mode : Mode
    n_draws : int
    rng : numpy.random.Generator
    """
    parts = [Part(mode.phi, mode.covariance, 2 * n_draws)]
    parts += [Part(phi, covariance, max(n_draws // 2, 1)) for phi, covariance in mode.lower]
    rounds = 1
    phi, target = _propose(parts, problem, rng)
    while True:
        weight = _weights(phi, target, parts)
        effective = 1.0 / float(weight @ weight)
        if effective >= n_draws / 2 or rounds == ROUNDS:
            break
        new = Part(*_moments(phi, weight, parts[-1].covariance, effective), 2 * n_draws)
        more, value = _propose([new], problem, rng)
        phi, target, parts, rounds = (
            np.concatenate([phi, more]),
            np.concatenate([target, value]),
            [*parts, new],
            rounds + 1,
        )
    return ParameterDraws(
        phi=phi[_resample(weight, n_draws, rng)],
        effective=effective,
        proposals=len(phi),
        rounds=rounds,
        largest=float(weight.max()),
    )


def draw_units(problem: Problem, phi: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw both groups' shares in every unit, on its tomography line and inside its bounds.

    Parameters
    ----------
    problem : Problem
    phi : (n_draws, n_parameters)
    rng : numpy.random.Generator

    Returns
    -------
    first, second : (n_draws, n_units)
        Shares with the outcome of the first and the second group. In a unit without people of a group, that group's is
        what the model expects of it.
    """
    lines = problem.lines
    n = len(lines.X)
    first, second = np.empty((len(phi), n)), np.empty((len(phi), n))
    rows = max(1, AT_ONCE // n)
    for start in range(0, len(phi), rows):
        here = slice(start, start + rows)
        mean, sd = coordinate(lines, untruncated(phi[here], problem))
        u = rng.random(np.broadcast_shapes(mean.shape, (len(phi[here]), n)))
        c = truncated_quantile(u, mean, sd, lines.low, lines.high)
        other = _other(lines, c)
        first[here], second[here] = np.where(lines.first, c, other), np.where(lines.first, other, c)
    return first, second


def expected_units(problem: Problem, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the mean of both groups' shares in every unit at one value of the parameters, (n_units,) each.

    Parameters
    ----------
    phi : (n_parameters,)
    """
    lines = problem.lines
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    mean, sd = coordinate(lines, untruncated(phi[None, :], problem))
    # the mean is the integral of the quantile function
    c = 0.5 * weights @ truncated_quantile(0.5 * (nodes[:, None] + 1.0), mean, sd, lines.low, lines.high)
    other = _other(lines, c)
    return np.where(lines.first, c, other), np.where(lines.first, other, c)


def _other(lines: Lines, c: FloatArray) -> FloatArray:
    """Give the larger group's share, by accounting."""
    return np.clip((lines.T - lines.p * c) / (1.0 - lines.p), 0.0, 1.0)


def _propose(parts: list[Part], problem: Problem, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw from every part; give the draws and their log posterior, -inf outside the limits of the search."""
    box = limits(problem.n_parameters)
    phi = np.concatenate([_student(part, rng) for part in parts])
    inside = ((phi >= box[:, 0]) & (phi <= box[:, 1])).all(axis=1)
    value = np.full(len(phi), -np.inf)
    value[inside] = log_posterior(phi[inside], problem)
    return phi, value


def _student(part: Part, rng: np.random.Generator) -> FloatArray:
    normal = rng.standard_normal((part.number, len(part.center)))
    scale = np.sqrt(rng.chisquare(DEGREES, part.number) / DEGREES)[:, None]
    return part.center + (normal @ _root(part.covariance).T) / scale


def _root(spread: FloatArray) -> FloatArray:
    roots, vectors = np.linalg.eigh(spread)
    return vectors * np.sqrt(np.maximum(roots, SMALLEST_ROOT))


def _log_student(phi: FloatArray, part: Part) -> FloatArray:
    roots, vectors = np.linalg.eigh(part.covariance)
    roots = np.maximum(roots, SMALLEST_ROOT)
    distance = (((phi - part.center) @ vectors) ** 2 / roots).sum(axis=1)
    k = len(part.center)
    constant = special.gammaln((DEGREES + k) / 2) - special.gammaln(DEGREES / 2) - 0.5 * k * np.log(DEGREES * np.pi)
    return constant - 0.5 * np.log(roots).sum() - 0.5 * (DEGREES + k) * np.log1p(distance / DEGREES)


def _weights(phi: FloatArray, target: FloatArray, parts: list[Part]) -> FloatArray:
    """Weigh every proposal against the mixture of all; they add up to one."""
    mixture = np.logaddexp.reduce([_log_student(phi, part) + np.log(part.number) for part in parts], axis=0)
    raw = target - mixture
    top = raw.max()
    if not np.isfinite(top):  # no proposal has any density: the first stands for all, and the effective number is one
        return np.eye(1, len(raw))[0]
    weight = np.exp(raw - top)
    return weight / weight.sum()


def _moments(
    phi: FloatArray, weight: FloatArray, before: FloatArray, effective: float
) -> tuple[FloatArray, FloatArray]:
    """Give weighted mean and covariance; from few effective draws, mixed with the covariance before."""
    center = weight @ phi
    away = phi - center
    found = (away * weight[:, None]).T @ away
    share = effective / (effective + 5.0 * len(center))
    return center, share * found + (1.0 - share) * before


def _resample(weight: FloatArray, n: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Choose rows systematically, each about n times its weight, in random order."""
    places = (np.arange(n) + rng.random()) / n
    total = np.cumsum(weight)
    return rng.permutation(np.searchsorted(total / total[-1], places))
