"""Hidden values of people: expectations, and draws that keep every published mean.

How far may people and groups differ for reasons that the clusters do not know? Given the clusters nothing is left to x, and groups
differ in their mix alone, so that the posterior is narrow as 1/sqrt(people) and misses on real data. Intervals allow for both as those
of ``CrossLevelImputer`` do, with its constants and at the clusters' estimates. Slopes in the scores z of x are added to the logit, which
the published means determine as far as

    Sigma = ( J'AJ + prior )^{-1},   J_p = sum_{i in p} q_i z_i / (N_p m_p (1 - m_p)),   A_p = 1 / (t_b^2 + v_p),   q = p (1 - p)

leaves open: t_b = t sqrt(P / c) is the deviation, in logits, by which groups differ for other reasons, and a slope has sd t a priori. t_b
grows with the number of groups P, for neither more people nor more groups make confounding smaller. Numbers have the identity for the
logit, in units of a person's deviation over 1.81. Estimates do not move; every draw is shifted to the published means afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from crosslevel.data.cells import sums, warn_outside
from crosslevel.data.columns import Category, Number
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.cudia.families import recode
from crosslevel.imputation.cudia.mixture import LOGIT_SD, Design, designs_of, identifiability, responsibilities
from crosslevel.imputation.cudia.model import (
    Fit,
    Parameters,
    Problem,
    atoms_of,
    hidden_variance,
    log_density,
    statistics,
)
from crosslevel.imputation.design import Design as Scores
from crosslevel.imputation.design import learn_design
from crosslevel.imputation.inputs import Rows
from crosslevel.imputation.match_means import draw_bernoulli, draw_means, inside, inverse_link, match
from crosslevel.imputation.persons.model import INTERCEPT_SD, LATENT_SD, Settings, mean_slopes
from crosslevel.numerics.logit_shift import logit
from crosslevel.typing import FloatArray, Int64Array, IntArray


@dataclass(frozen=True, eq=False)
class Crowd:
    """People to impute, gathered into pairs.

    Attributes
    ----------
    X : (C, d)
        Distinct rows.
    statistics : (C, M) sparse
        Their statistics for the families.
    cell, atom : (R,) int
        Row and atom of each pair; atom A is a combination of groups that the fit did not have.
    pair : (n,) int
        Pair of each person.
    group : (n, L) int
    weight : (n,)
    """

    X: FloatArray
    statistics: sparse.csr_array
    cell: IntArray
    atom: Int64Array
    pair: IntArray
    group: IntArray
    weight: FloatArray

    @classmethod
    def gather(cls, problem: Problem, names: Sequence[str], people: Rows, cells: Cells) -> Crowd:
        """Give people who were passed, and counted by distinct row and group."""
        X = recode(cells.X, problem.families, names)
        if len(problem.X):  # a saved model has nobody
            warn_outside(X[cells.row], problem.X, names, stacklevel=6, argument="people")
        rows, atom = statistics(problem.families, X), atoms_of(cells.pair_group, problem.places)
        return cls(X, rows, cells.pair_cell, atom, cells.pair, people.group, people.each)

    @classmethod
    def of_fit(cls, problem: Problem) -> Crowd:
        """Give the people of the fit, a pair for each."""
        pair, group = np.arange(len(problem.cell)), problem.places[problem.atom].astype(np.intp)
        return cls(problem.X, problem.statistics, problem.cell, problem.atom, pair, group, problem.weight)


def probabilities(problem: Problem, at: Parameters, crowd: Crowd) -> FloatArray:
    """Probability of each cluster for each pair, (R, K)."""
    log_f = log_density(crowd.statistics, problem.families, at.theta)
    return responsibilities(log_f, np.vstack([at.pi, at.pi.mean(axis=0)]), crowd.cell, crowd.atom)


def expected_values(
    problem: Problem, at: Parameters, crowd: Crowd, constants: Sequence[FloatArray] | None = None
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Expected hidden values of people, (n, d_u), and the constants by group that were added to their logits, or to numbers.

    Without ``constants`` every published mean is met; other people than those of the means get the constants of these.
    """
    plain = (probabilities(problem, at, crowd) @ at.H)[crowd.pair]
    values, added = np.empty(plain.shape), []
    for j, (block, c) in enumerate(problem.published):
        binary, group = bool(problem.binary[j]), crowd.group[:, block.partition]
        f = logit(inside(plain[:, j])) if binary else plain[:, j]
        if constants is None:
            values[:, j], shift = match(f, group, crowd.weight, block.S[:, c], binary=binary)
            added.append(shift)
        else:
            values[:, j] = inverse_link(f + constants[j][group], binary=binary)
    return values, tuple(added)


def draw_values(
    problem: Problem,
    draws: Iterable[tuple[Parameters, FloatArray]],
    crowd: Crowd,
    rng: np.random.Generator,
    constants: Sequence[FloatArray] | None = None,
) -> Iterator[FloatArray]:
    """Draw hidden values (n, d_u) for each of some parameters, with what is added to the logits or numbers of rows, (C, d_u).

    Binary features are drawn with z summed out, given their total (conditional Bernoulli). Real ones are drawn given z; adding
    the same constant to all people of a group is then the exact conditional law, since the clusters share a variance.

    Means of a population move in every draw by their published standard errors. With ``constants``, (P,) for each
    feature, people are others than those whose means were published: they get these and keep no mean.
    """
    n, pair, equal = len(crowd.pair), crowd.pair, bool((crowd.weight == 1.0).all())
    for at, tilt in draws:
        r = probabilities(problem, at, crowd)
        more, out = tilt[crowd.cell], np.empty((n, at.H.shape[1]))
        z = np.zeros(0, dtype=np.int64) if problem.binary.all() else _draw_clusters(r, pair, rng)
        for j, (block, c) in enumerate(problem.published):
            group, binary, mean = crowd.group[:, block.partition], bool(problem.binary[j]), block.S[:, c]
            if constants is None:
                mean = draw_means(mean, block.se[:, c] if block.elsewhere[c] else None, rng, binary=binary)
            if binary:
                f = (logit(inside(r @ at.H[:, j])) + more[:, j])[pair]
            else:
                f = at.H[z, j] + more[pair, j] + rng.standard_normal(n) * np.sqrt(at.tau2[j])
            if constants is not None:
                value = inverse_link(f + constants[j][group], binary=binary)
                out[:, j] = rng.random(n) < value if binary else value
            elif binary:
                out[:, j] = draw_bernoulli(f, group, mean, rng, None if equal else crowd.weight)
            else:
                out[:, j] = match(f, group, crowd.weight, mean, binary=False)[0]
        yield out


def _draw_clusters(r: FloatArray, pair: IntArray, rng: np.random.Generator) -> Int64Array:
    cumulated = np.cumsum(r, axis=1)
    u = rng.random(len(pair)) * cumulated[pair, -1]
    return (u[:, None] > cumulated[pair]).sum(axis=1).clip(0, r.shape[1] - 1)


def subgroup_means(cut: IntArray, weight: FloatArray, values: FloatArray) -> FloatArray:
    """Weighted means of people's values (n, d_u) in each subgroup, (d_u, G)."""
    n_cuts = int(cut.max()) + 1
    total = np.maximum(sums(cut, weight, n_cuts), 1e-300)
    return np.array([sums(cut, weight * v, n_cuts) / total for v in values.T])


@dataclass(frozen=True, eq=False)
class OpenSlopes:
    """What x may still say of the hidden features.

    Attributes
    ----------
    scores : Design
        Scores of x, on rows as the families read them.
    Sigma : tuple of (J, J)
        Covariance of the slopes, for each hidden feature, in logits or in its own units.
    place_sd : float or str
        What it was made with.
    """

    scores: Scores
    Sigma: tuple[FloatArray, ...]
    place_sd: float | str

    def draws(self, X: FloatArray, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Draw again and again what is added to the logits or values of rows, (C, d_u)."""
        Z = self.scores.matrix(X)
        roots = [np.linalg.cholesky(Sigma) for Sigma in self.Sigma]
        while True:
            yield np.column_stack([Z @ (root @ rng.standard_normal(len(root))) for root in roots])


def place_deviation(place_sd: float | str, n_groups: int) -> float:
    """Give t_b, in logits: as given, or t sqrt(P / c) with the constants of ``CrossLevelImputer``."""
    fixed = Settings()
    if isinstance(place_sd, str):
        return float(fixed.slope_sd * np.sqrt(n_groups / fixed.shrinkage_groups))
    return float(place_sd)


def learn_slopes(problem: Problem, fit: Fit, columns: Sequence[Category | Number], place_sd: float | str) -> OpenSlopes:
    """Find how far slopes are left open by the published means.

    Parameters
    ----------
    columns : sequence of Category or Number
        Columns of X.
    place_sd : float or "auto"
        Deviation t_b of a group's mean for other reasons; "auto" is that of ``CrossLevelImputer``.
    """
    at, fixed, out = fit.parameters, Settings(), []
    scores = learn_design(problem.X, sums(problem.cell, problem.weight, len(problem.X)), columns)
    Z = np.column_stack([np.ones(len(problem.X)), scores.matrix(problem.X)])[problem.cell]
    values = responsibilities(problem.log_density(at.theta), at.pi, problem.cell, problem.atom) @ at.H
    designs = designs_of(problem, at, fit.shares)
    for j, (block, c) in enumerate(problem.published):
        binary, p, seen = bool(problem.binary[j]), values[:, j], np.isfinite(block.S[:, c])
        unit = 1.0 if binary else _person_sd(problem, at, designs[j], j) / LATENT_SD
        group, pair = block.group[problem.atom], np.arange(len(p))
        W = sparse.csr_array((problem.weight / sums(block.group, problem.size, len(block.S))[group], (group, pair)))[
            seen
        ]
        own, J = (W @ p * (1.0 - W @ p) if binary else 1.0), mean_slopes(W, Z, p, binary=binary)
        t_b = place_deviation(place_sd, int(seen.sum())) * unit
        reach = np.concatenate([[INTERCEPT_SD if binary else np.inf], fixed.slope_sd * scores.reach])
        noise = t_b**2 + designs[j].variance / own**2
        Sigma = np.linalg.inv((J.T / noise) @ J + np.diag(1.0 / (unit * reach) ** 2))[1:, 1:]
        out.append(0.5 * (Sigma + Sigma.T))
    return OpenSlopes(scores, tuple(out), place_sd)


def place_covariances(problem: Problem, fit: Fit, place_sd: float | str) -> tuple[FloatArray, ...]:
    """Covariance of the clusters' hidden means when groups differ for other reasons, (K, K) for each hidden feature.

    ``(D'WD + I / (LOGIT_SD u)^2)^{-1}`` with the shares D, ``W_p = 1 / ((t_b u_p)^2 + Var s_p)`` and ``u_p = s_p (1 - s_p)``.
    """
    out = []
    for j, design in enumerate(designs_of(problem, fit.parameters, fit.shares)):
        s = design.s
        if problem.binary[j]:
            center = float(np.average(s, weights=design.size))
            unit, units = max(center * (1.0 - center), 1e-6), s * (1.0 - s)
        else:
            unit = _person_sd(problem, fit.parameters, design, j) / LATENT_SD
            units = np.full(len(s), unit)
        noise = (place_deviation(place_sd, len(s)) * units) ** 2 + design.variance
        out.append(identifiability(design.D, 1.0 / noise, 1.0 / (LOGIT_SD * unit) ** 2).variance)
    return tuple(out)


def _person_sd(problem: Problem, at: Parameters, design: Design, j: int) -> float:
    """Deviation of a hidden number between people: inside clusters and between them."""
    T = hidden_variance(at.H, at.tau2, problem.binary)[:, j]
    mix, h = np.average(design.D, axis=0, weights=design.size), at.H[:, j]
    return float(np.sqrt(mix @ T + mix @ (h - mix @ h) ** 2))
