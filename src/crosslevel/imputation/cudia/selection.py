"""How many clusters, and how strong a ridge? Leave one published mean out, predict it, and see.

It measures how well group means are predicted, not people: with few groups the best choice can still be worse for people than
the naive group mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crosslevel.imputation.cudia.model import Problem
from crosslevel.imputation.cudia.posterior import MixPrior, Mixture, fit_mixture
from crosslevel.imputation.cudia.regression import (
    design_of,
    eta_prior,
    identifiability,
    person_variance,
    regress,
    solve_eta,
    variances,
)
from crosslevel.typing import BoolArray, FloatArray, Step

CLUSTERS = (2, 3, 5, 7, 9)
RIDGES = (2.0, 20.0, 200.0, 2000.0, 20000.0)
TARGETS = ("zero", "mean")


@dataclass(frozen=True)
class Choices:
    """Settings of a fit, checked; ``clusters``, ``ridges`` and ``targets`` are the candidates where one is "auto"."""

    n_clusters: int | str = "auto"
    method: str = "two_stage"
    likelihood: str = "cudia"
    ridge: float | str = "auto"
    target: str | float = "auto"
    kind: str = "ridge"
    logit_sd: float = 1.25
    alpha: FloatArray = field(default_factory=lambda: np.ones(1))
    learn: str | None = None
    n_restarts: int = 6
    beta: float = 1.0
    n_draws: int = 200
    clusters: tuple[int, ...] = CLUSTERS
    ridges: tuple[float, ...] = RIDGES
    targets: tuple[str | float, ...] = TARGETS


@dataclass(frozen=True)
class Candidate:
    """One choice, and how well it predicts the means left out.

    Attributes
    ----------
    error, std_error : float
        Root mean square error in standard deviations between groups, and its standard error.
    effective_df : float
        Contrasts of the clusters that the means determine, averaged over the hidden features.
    """

    n_clusters: int
    ridge: float
    target: str | float
    kind: str
    error: float
    std_error: float
    effective_df: float


@dataclass(frozen=True)
class Selection:
    """All candidates, the best, and the mixtures that were fitted on the way.

    Attributes
    ----------
    candidates : tuple of Candidate
    lowest, best : Candidate
        The one of lowest error; and the simplest (fewest effective degrees of freedom) whose error is within one standard error of
        it, which is taken.
    mixtures : mapping of n_clusters to Mixture
    naive : float
        Error of the mean of the other groups, on the same scale.
    """

    candidates: tuple[Candidate, ...]
    lowest: Candidate
    best: Candidate
    mixtures: dict[int, Mixture]
    naive: float


def leave_one_out(
    problem: Problem, mixture: Mixture, ridge: float, target: str | float, kind: str = "ridge", logit_sd: float = 1.25
) -> tuple[FloatArray, float]:
    """Squared error of every published mean predicted from the others, in variances between groups; and effective df.

    A mean left out takes with it every other mean of the same feature that shares people with it.
    """
    shares = mixture.people / problem.atom_weight[:, None]
    prior = eta_prior(problem, ridge, target, kind, logit_sd, person_variance(problem, mixture.parameters, shares))
    at = regress(problem, mixture.parameters, shares, prior)
    squares, df = [], []
    for j, family in enumerate(problem.hidden):
        design = design_of(problem, j, shares)
        w = 1.0 / variances(problem, at, shares, "cudia", design)
        touch = _overlap(problem, design.place)
        scale = np.nanstd(design.s)
        seen = np.isfinite(design.s)
        df.append(identifiability(design.D[seen], w[seen], float(prior.precision[j])).effective_df)
        for e in np.flatnonzero(np.isfinite(design.s)):
            rest = ~touch[e]
            h = solve_eta(design.D[rest], None, design.s[rest], w[rest], prior, j, family)
            squares.append(((design.s[e] - design.D[e] @ h) / max(scale, 1e-12)) ** 2)
    return np.array(squares), float(np.mean(df))


def simplest(candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate]:
    """Give the candidate of lowest error, and the simplest within one standard error of it (the rule of Breiman and others).

    With few groups the lowest error is as good as a draw among many, and too weak a ridge is the costlier mistake.
    """
    lowest = min(candidates, key=lambda c: c.error)
    near = [c for c in candidates if c.error <= lowest.error + lowest.std_error]
    return lowest, min(near, key=lambda c: (c.effective_df, c.error))


def _overlap(problem: Problem, place: Sequence[tuple[int, int]]) -> BoolArray:
    """Tell which published means share atoms, (E, E)."""
    rows = []
    for b, _ in place:
        block = problem.blocks[b]
        inside = np.zeros((block.n_groups, problem.n_atoms), dtype=bool)
        inside[block.group, np.arange(problem.n_atoms)] = True
        rows.append(inside)
    whole = np.vstack(rows).astype(np.float64)
    return whole @ whole.T > 0


def _naive(problem: Problem) -> float:
    squares = []
    for block in problem.blocks:
        for column in block.S.T:
            s, n = column[np.isfinite(column)], block.size[np.isfinite(column)]
            others = ((s * n).sum() - s * n) / (n.sum() - n)
            squares += (((s - others) / max(s.std(), 1e-12)) ** 2).tolist()
    return float(np.sqrt(np.mean(squares)))


def numbers_of_clusters(problem: Problem, choices: Choices) -> tuple[int, ...]:
    """Give the numbers of clusters of which mixtures are fitted."""
    clusters = choices.clusters if choices.n_clusters == "auto" else (int(choices.n_clusters),)
    return tuple(k for k in clusters if k <= len(problem.X)) or (2,)


def select(problem: Problem, choices: Choices, seed: int, step: Step | None = None) -> Selection:
    """Score every combination of what is "auto"; clusters are those of x alone, so each number of clusters is fitted once."""
    ridges = choices.ridges if choices.ridge == "auto" else (float(choices.ridge),)
    targets = choices.targets if choices.target == "auto" else (choices.target,)
    mixtures: dict[int, Mixture] = {}
    candidates = []
    for K in numbers_of_clusters(problem, choices):
        prior = MixPrior.dirichlet(np.resize(choices.alpha, K))
        mixtures[K] = fit_mixture(
            problem, K, seed, n_restarts=choices.n_restarts, mix_prior=prior, learn=choices.learn, step=step
        )
        for target in targets:
            for ridge in ridges:
                squares, df = leave_one_out(problem, mixtures[K], ridge, target, choices.kind, choices.logit_sd)
                error = float(np.sqrt(squares.mean()))
                std_error = float(squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * max(error, 1e-12)))
                candidates.append(Candidate(K, float(ridge), target, choices.kind, error, std_error, df))
    lowest, best = simplest(candidates)
    return Selection(tuple(candidates), lowest, best, mixtures, _naive(problem))
