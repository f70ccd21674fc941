"""The mixture of x alone, with a mix per place: EM to get near, L-BFGS to arrive, several starts because there are several modes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslevel.imputation.cudia.kernels import weigh
from crosslevel.imputation.cudia.posterior import Ascent, Parameters, ascend, log_density
from crosslevel.imputation.cudia.problem import Problem
from crosslevel.imputation.cudia.proportions import (
    MixPrior,
    expected_log,
    learn_alpha,
    learn_logistic_normal,
    update_mix,
)
from crosslevel.typing import FloatArray

__all__ = ["Mixture", "expected_people", "fit_mixture", "random_start"]


EM_STEPS = 60
"""Steps of EM from each start before the better starts are taken to the end by L-BFGS."""
FIRST_CLIMB = 150
"""Steps of L-BFGS from every start; the FINISHED best go on to the end."""
FINISHED = 2
SAME_MODE = 0.1
"""Two starts have found the same mode when their log posteriors are this near."""


@dataclass(frozen=True)
class Mixture:
    """The mixture at its best mode.

    Attributes
    ----------
    ascent : Ascent
    mix_prior : MixPrior
    people : (A, K)
        Expected people by place and cluster.
    modes : (n_restarts,)
        Log posteriors the starts ended at, best first.
    """

    ascent: Ascent
    mix_prior: MixPrior
    people: FloatArray
    modes: FloatArray

    @property
    def parameters(self) -> Parameters:
        """Parameters at the best mode."""
        return self.ascent.parameters

    @property
    def n_modes(self) -> int:
        """Different modes among the starts."""
        return 1 + int((np.diff(self.modes) < -SAME_MODE).sum())


def expected_people(problem: Problem, at: Parameters) -> tuple[float, FloatArray, FloatArray]:
    """Log likelihood of x, expected people by row and cluster (C, K), and by place and cluster (A, K)."""
    return weigh(log_density(problem, at.theta), at.pi, problem.cell, problem.atom, problem.weight)


def random_start(problem: Problem, n_clusters: int, rng: np.random.Generator) -> Parameters:
    """Make parameters from responsibilities that lean to a randomly chosen row per cluster."""
    C = len(problem.X)
    by_row = np.bincount(problem.cell, problem.weight, C)
    scale = np.nanstd(problem.X, axis=0)
    Z = np.where(np.isfinite(problem.X), problem.X, np.nanmean(problem.X, axis=0)) / np.maximum(scale, 1e-12)
    centres = np.empty((n_clusters, Z.shape[1]))
    away = np.full(C, np.inf)
    chance = by_row / by_row.sum()
    for k in range(n_clusters):  # as in k-means++: far rows are likelier
        centres[k] = Z[rng.choice(C, p=chance)]
        away = np.minimum(away, ((Z - centres[k]) ** 2).sum(axis=1))
        weight = by_row * away
        chance = weight / weight.sum() if weight.sum() > 0 else by_row / by_row.sum()
    distance = (
        ((Z[:, None] - centres) ** 2).sum(axis=2) if C * n_clusters * Z.shape[1] < 5e7 else _distances(Z, centres)
    )
    r = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True)))
    r /= r.sum(axis=1, keepdims=True)
    W = by_row[:, None] * r
    theta = tuple(f.maximise(W, problem.X, None) for f in problem.families)
    pi = np.tile(W.sum(axis=0) / W.sum(), (problem.n_atoms, 1))
    centre = problem.centres()
    return Parameters(theta, pi, np.tile(centre, (n_clusters, 1)), problem.spreads())


def _distances(Z: FloatArray, centres: FloatArray) -> FloatArray:
    return (Z**2).sum(axis=1)[:, None] - 2 * Z @ centres.T + (centres**2).sum(axis=1)


def em(
    problem: Problem, at: Parameters, mix_prior: MixPrior, steps: int, tolerance: float = 1e-9
) -> tuple[Parameters, float]:
    """Climb by EM; the log likelihood of x is that before the last step."""
    value = -np.inf
    for _ in range(steps):
        now, by_cell, by_atom = expected_people(problem, at)
        theta = tuple(f.maximise(by_cell, problem.X, t) for f, t in zip(problem.families, at.theta, strict=True))
        at = replace(at, theta=theta, pi=update_mix(by_atom, mix_prior, at.pi))
        if abs(now - value) < tolerance * abs(now):
            return at, now
        value = now
    return at, value


def fit_mixture(
    problem: Problem,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 6,
    mix_prior: MixPrior | None = None,
    learn: str | None = None,
    max_steps: int = 2000,
) -> Mixture:
    """Fit the mixture of x from several starts.

    Parameters
    ----------
    mix_prior : MixPrior, optional
        Uniform when not given.
    learn : {"dirichlet", "logistic_normal"}, optional
        Learn the prior of the mixes too, in a few rounds.
    """
    prior = MixPrior.dirichlet(np.ones(n_clusters)) if mix_prior is None else mix_prior
    near = []
    for _ in range(n_restarts):
        at, value = em(problem, random_start(problem, n_clusters, rng), prior, EM_STEPS)
        near.append((value, at))
    ascents = [ascend(problem, at, prior, None, max_steps=FIRST_CLIMB) for _, at in near]
    ascents.sort(key=lambda a: -a.value)
    ascents[:FINISHED] = [ascend(problem, a.parameters, prior, None, max_steps=max_steps) for a in ascents[:FINISHED]]
    ascents.sort(key=lambda a: -a.value)
    best = ascents[0]
    people = expected_people(problem, best.parameters)[2]
    for _ in range(5 if learn else 0):
        if learn == "dirichlet":
            alpha = learn_alpha(expected_log(people, prior.alpha).mean(axis=0), prior.alpha)
            change = float(np.abs(np.log(alpha / prior.alpha)).max())
            prior = MixPrior.dirichlet(alpha)
        else:
            new = learn_logistic_normal(best.parameters.pi)
            change = float(np.abs(new.mean - prior.mean).max())
            prior = new
        best = ascend(problem, best.parameters, prior, None, max_steps=max_steps)
        people = expected_people(problem, best.parameters)[2]
        if change < 1e-3:
            break
    return Mixture(best, prior, people, np.array([a.value for a in ascents]))
