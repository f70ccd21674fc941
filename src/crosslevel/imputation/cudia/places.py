"""How far may people and groups differ for reasons that the clusters do not know?

Given the clusters nothing is left to x, and groups differ in their mix alone, so that the posterior is narrow as 1/sqrt(people) and misses
on real data. Intervals allow for both as those of ``CrossLevelImputer`` do, with its constants and at the clusters' estimates. Slopes in
the scores z of x are added to the logit, which the published means determine as far as

    Sigma = ( J'AJ + prior )^{-1},   J_p = sum_{i in p} q_i z_i / (N_p m_p (1 - m_p)),   A_p = 1 / (t_b^2 + v_p),   q = p (1 - p)

leaves open: t_b = t sqrt(P / c) is the deviation, in logits, by which groups differ for other reasons, and a slope has sd t a priori. t_b
grows with the number of groups P, for neither more people nor more groups make confounding smaller. Numbers have the identity for the
logit, in units of a person's deviation over 1.81. Estimates do not move; every draw is shifted to the published means afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.data.columns import Category, Number
from crosslevel.imputation.cudia.model import Parameters, Problem, hidden_variance, log_density
from crosslevel.imputation.cudia.posterior import responsibilities
from crosslevel.imputation.cudia.regression import design_of, variances
from crosslevel.imputation.design import Design, learn_design
from crosslevel.imputation.persons.model import INTERCEPT_SD, LATENT_SD, Settings
from crosslevel.typing import FloatArray


@dataclass(frozen=True, eq=False)
class OpenSlopes:
    """What x may still say of the hidden features.

    Attributes
    ----------
    design : Design
        Scores of x, on rows as the families read them.
    Sigma : tuple of (J, J)
        Covariance of the slopes, for each hidden feature, in logits or in its own units.
    place_sd : float or str
        What it was made with.
    """

    design: Design
    Sigma: tuple[FloatArray, ...]
    place_sd: float | str

    def draws(self, X: FloatArray, m: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Draw m times what is added to the logits or values of rows, (C, d_u)."""
        Z = self.design.matrix(X)
        roots = [np.linalg.cholesky(Sigma) for Sigma in self.Sigma]
        for _ in range(m):
            yield np.column_stack([Z @ (root @ rng.standard_normal(len(root))) for root in roots])


def place_deviation(place_sd: float | str, n_groups: int) -> float:
    """Give t_b, in logits: as given, or t sqrt(P / c) with the constants of ``CrossLevelImputer``."""
    fixed = Settings()
    return (
        float(fixed.slope_sd * np.sqrt(n_groups / fixed.shrinkage_groups))
        if isinstance(place_sd, str)
        else float(place_sd)
    )


def learn_slopes(
    problem: Problem,
    columns: Sequence[Category | Number],
    at: Parameters,
    shares: FloatArray,
    likelihood: str,
    place_sd: float | str,
) -> OpenSlopes:
    """Find how far slopes are left open by the published means.

    Parameters
    ----------
    problem : Problem
    columns : sequence of Category or Number
        Columns of X.
    at : Parameters
    shares : (A, K)
        Shares of the clusters in each atom.
    likelihood : str
    place_sd : float or "auto"
        Deviation t_b of a group's mean for other reasons; "auto" is that of ``CrossLevelImputer``.
    """
    by_row: FloatArray = np.bincount(problem.cell, problem.weight, len(problem.X)).astype(np.float64)
    design = learn_design(problem.X, by_row, columns)
    Z = np.column_stack([np.ones(len(problem.X)), design.matrix(problem.X)])[problem.cell]
    values = responsibilities(log_density(problem, at.theta), at.pi, problem.cell, problem.atom) @ at.H
    fixed, out = Settings(), []
    for j, kind in enumerate(problem.hidden):
        binary = kind == "bernoulli"
        published = design_of(problem, j, shares)
        unit = 1.0 if binary else _person_sd(problem, at, published.D, published.size, j) / LATENT_SD
        q = values[:, j] * (1.0 - values[:, j]) if binary else np.ones(len(values))
        rows, scale = [], []
        for b, _ in published.place:
            group, Q = problem.blocks[b].group[problem.atom], problem.blocks[b].n_groups
            people = np.bincount(group, problem.weight, Q)
            mean = np.bincount(group, problem.weight * values[:, j], Q) / people
            own = mean * (1.0 - mean) if binary else np.ones(Q)
            rows.append(
                np.column_stack([np.bincount(group, problem.weight * q * z, Q) for z in Z.T]) / (people * own)[:, None]
            )
            scale.append(own)
        J, own = np.vstack(rows), np.concatenate(scale)
        seen = np.isfinite(published.s)
        t_b = place_deviation(place_sd, int(seen.sum())) * unit
        v = variances(problem, at, shares, likelihood, published) / own**2
        prior = (
            1.0 / (unit * np.concatenate([[INTERCEPT_SD if binary else np.inf], fixed.slope_sd * design.reach])) ** 2
        )
        A = (J[seen].T / (t_b**2 + v[seen])) @ J[seen] + np.diag(prior)
        Sigma = np.linalg.inv(A)[1:, 1:]
        out.append(0.5 * (Sigma + Sigma.T))
    return OpenSlopes(design, tuple(out), place_sd)


def place_covariances(
    problem: Problem, at: Parameters, shares: FloatArray, likelihood: str, place_sd: float | str, logit_sd: float
) -> tuple[FloatArray, ...]:
    """Covariance of the clusters' hidden means when groups differ for other reasons, (K, K) for each hidden feature.

    ``(D'WD + I / (logit_sd u)^2)^{-1}`` with the shares D, ``W_p = 1 / ((t_b u_p)^2 + Var s_p)`` and ``u_p = s_p (1 - s_p)``.

    Parameters
    ----------
    problem, at, shares, likelihood, place_sd
        As in `learn_slopes`.
    logit_sd : float
        Deviation of the clusters' hidden means before anything was published, in logits.

    Examples
    --------
    >>> from crosslevel.imputation.cudia.families import Gaussian
    >>> from crosslevel.imputation.cudia.model import plain_block
    >>> nobody = np.zeros(0, dtype=np.int64)
    >>> block = plain_block([[0.3], [0.5]], [1e9, 1e9])
    >>> problem = Problem(np.zeros((0, 1)), (Gaussian("x", 0, 0.0, 1.0),), nobody, nobody, np.zeros(0), nobody, 2, (block,),
    ...                   ("bernoulli",))
    >>> shares = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> at = Parameters((np.zeros((2, 2)),), shares, np.array([[0.3], [0.5]]), np.ones(1))
    >>> np.sqrt(np.diag(place_covariances(problem, at, shares, "cudia", 0.2, 1.25)[0])).round(3)  # however many people
    array([0.047, 0.055])
    """
    out = []
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, shares)
        seen = np.isfinite(design.s)
        D, s = design.D[seen], design.s[seen]
        t_b = place_deviation(place_sd, len(s))
        if kind == "bernoulli":
            center = float(np.average(s, weights=design.size[seen]))
            unit, units = max(center * (1.0 - center), 1e-6), s * (1.0 - s)
        else:
            unit = _person_sd(problem, at, D, design.size[seen], j) / LATENT_SD
            units = np.full(len(s), unit)
        w = 1.0 / ((t_b * units) ** 2 + variances(problem, at, shares, likelihood, design)[seen])
        found = np.linalg.inv((D * w[:, None]).T @ D + np.eye(D.shape[1]) / (logit_sd * unit) ** 2)
        out.append(0.5 * (found + found.T))
    return tuple(out)


def _person_sd(problem: Problem, at: Parameters, D: FloatArray, size: FloatArray, j: int) -> float:
    """Deviation of a hidden number between people: inside clusters and between them."""
    T = hidden_variance(at.H, problem.hidden, at.tau2)[:, j]
    mix, h = np.average(D, axis=0, weights=size), at.H[:, j]
    return float(np.sqrt(mix @ T + mix @ (h - mix @ h) ** 2))
