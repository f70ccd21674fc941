"""The deterministic algorithm (Algorithm 4, corrected): every person in one cluster, moved one at a time at the exact cost.

    J = -sum_i log f(x_i | theta_{z_i}) + sum_p beta N_p |s_p - nbar_p'H|^2 / (2 tau^2) + ridge

Real columns have one variance for all clusters, which is estimated along. Moving people from cluster a to b changes J by a
quadratic in their number, so all people of a pair move at once, at the best number. Every step lowers J. The paper's cost has a
factor 1/K too much and lacks the term of the moved person itself; moving everybody at once with one residual overshoots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.model import Parameters, Problem, log_density
from crosslevel.imputation.cudia.posterior import random_start
from crosslevel.imputation.cudia.regression import EtaPrior, design_of, solve_eta
from crosslevel.imputation.cudia.sampling import Sites, make_sites
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array

CONVERGED = 1e-10
"""The algorithm has ended when J falls by less than this share of itself."""


@dataclass(frozen=True)
class HardFit:
    """Result of the deterministic algorithm.

    Attributes
    ----------
    parameters : Parameters
        ``pi`` are the shares of the clusters, kept above zero.
    Z : (R, K) int
        People of each pair in each cluster.
    path : (n_steps,)
        J after every half step; it never rises.
    converged : bool
    """

    parameters: Parameters
    Z: Int64Array
    path: FloatArray
    converged: bool


def _people(problem: Problem, Z: Int64Array) -> FloatArray:
    """People of each atom in each cluster, (A, K)."""
    n = np.zeros((problem.n_atoms, Z.shape[1]))
    np.add.at(n, problem.atom, Z * (problem.weight / problem.count)[:, None])
    return n


def shares_of(problem: Problem, Z: Int64Array) -> FloatArray:
    """Shares of the clusters among the people of each atom, nbar (A, K)."""
    return _people(problem, Z) / problem.atom_weight[:, None]


def objective(problem: Problem, at: Parameters, Z: Int64Array, prior: EtaPrior, beta: float) -> float:
    """J, from scratch."""
    each = (problem.weight / problem.count)[:, None]
    fit = -float((Z * each * log_density(problem, at.theta)[problem.cell]).sum())
    nbar = shares_of(problem, Z)
    for block in problem.blocks:
        away = np.where(np.isfinite(block.S), block.S - block.gather(nbar @ at.H[:, block.features]), 0.0)
        fit += float((beta * block.size[:, None] / (2 * at.tau2[block.features]) * away**2).sum())
    for family, t in zip(problem.families, at.theta, strict=True):
        if not isinstance(family, Gaussian):
            fit -= family.log_prior(t)[0]
    return fit - prior.log_density(at.H, at.tau2, given_tau2(problem.hidden))[0]


def given_tau2(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Families of the hidden features where tau^2 is given, so that its prior is not part of the objective."""
    return tuple("poisson" if kind == "gaussian" else kind for kind in hidden)


def fit_hard(
    problem: Problem,
    n_clusters: int,
    prior: EtaPrior,
    rng: np.random.Generator,
    *,
    beta: float = 1.0,
    n_restarts: int = 4,
    max_sweeps: int = 100,
) -> HardFit:
    """Run the algorithm from several starts and keep the lowest J.

    Parameters
    ----------
    beta : float
        Weight of the published means; one is that of the count law.
    """
    fits = [
        _descend(problem, random_start(problem, n_clusters, rng), prior, beta, max_sweeps) for _ in range(n_restarts)
    ]
    return min(fits, key=lambda f: float(f.path[-1]))


def _descend(problem: Problem, at: Parameters, prior: EtaPrior, beta: float, max_sweeps: int) -> HardFit:
    log_f = log_density(problem, at.theta)
    Z = np.zeros((len(problem.cell), at.n_clusters), dtype=np.int64)
    Z[np.arange(len(Z)), log_f.argmax(axis=1)[problem.cell]] = problem.count
    sites = make_sites(problem)
    at = _update(problem, at, Z, prior, beta)
    path = [objective(problem, at, Z, prior, beta)]
    converged = False
    for _ in range(max_sweeps):
        _sweep(problem, sites, at, Z, beta)
        path.append(objective(problem, at, Z, prior, beta))
        at = _update(problem, at, Z, prior, beta)
        path.append(objective(problem, at, Z, prior, beta))
        at, Z, path = _revive(problem, at, Z, prior, beta, path)
        if path[-3] - path[-1] <= CONVERGED * abs(path[-1]):  # a cluster that would raise J stays empty
            converged = True
            break
    n = _people(problem, Z)
    pi = (n + 0.5) / (n + 0.5).sum(axis=1, keepdims=True)
    return HardFit(replace(at, pi=pi), Z, np.array(path), converged)


def _sweep(problem: Problem, sites: Sites, at: Parameters, Z: Int64Array, beta: float) -> None:
    """Offer every pair the best move, one after the other; Z is changed in place."""
    nbar = shares_of(problem, Z)
    residual = sites.s.copy()
    for b, j in enumerate(sites.feature):
        np.subtract.at(residual, sites.equation[:, b], sites.step[:, b] * problem.atom_weight * (nbar @ at.H[:, j]))
    lam = np.zeros(len(sites.s))
    for b, j in enumerate(sites.feature):
        e = np.unique(sites.equation[:, b])
        lam[e] = beta * sites.size[e] / (2 * at.tau2[j])
    lam[np.isnan(sites.s)] = 0.0
    residual[np.isnan(residual)] = 0.0
    D = -log_density(problem, at.theta)
    each = problem.weight / problem.count
    _moves(Z, D, problem.cell, problem.atom, each, at.H, sites.equation, sites.feature, sites.step, residual, lam)


@njit()
def _moves(Z, D, cell, atom, each, H, equation, feature, step, residual, lam):  # type: ignore[no-untyped-def]
    R, K = Z.shape
    B = len(feature)
    for i in range(R):
        c, p, w = cell[i], atom[i], each[i]
        for a in range(K):
            have = Z[i, a]
            if have == 0:
                continue
            best, to, number = -1e-12, -1, 0
            for b in range(K):
                if b == a:
                    continue
                slope, bend = w * (D[c, b] - D[c, a]), 0.0
                for q in range(B):
                    e, j = equation[p, q], feature[q]
                    delta = w * step[p, q] * (H[b, j] - H[a, j])
                    slope -= 2.0 * lam[e] * residual[e] * delta
                    bend += lam[e] * delta * delta
                if bend > 0.0:
                    ideal = -slope / (2.0 * bend)
                    m = 1 if ideal <= 0.0 else int(min(float(have), max(1.0, np.floor(ideal + 0.5))))
                else:
                    m = have
                change = m * slope + m * m * bend
                if change < best:
                    best, to, number = change, b, m
            if to >= 0:
                Z[i, a] -= number
                Z[i, to] += number
                for q in range(B):
                    e, j = equation[p, q], feature[q]
                    residual[e] -= number * w * step[p, q] * (H[to, j] - H[a, j])


def _update(problem: Problem, at: Parameters, Z: Int64Array, prior: EtaPrior, beta: float) -> Parameters:
    """Best theta and eta for given clusters."""
    W = np.zeros((len(problem.X), at.n_clusters))
    np.add.at(W, problem.cell, Z * (problem.weight / problem.count)[:, None])
    theta = []
    for family, t in zip(problem.families, at.theta, strict=True):
        if isinstance(family, Gaussian):
            x = problem.X[:, family.column]
            seen = np.isfinite(x)
            n = W[seen].sum(axis=0)
            mean = np.where(n > 0, (x[seen] @ W[seen]) / np.maximum(n, 1e-300), t[:, 0])
            squares = float((W[seen] * (x[seen, None] - mean) ** 2).sum())
            var = max(squares / max(n.sum(), 1e-300), 1e-6 * family.variance)
            theta.append(np.column_stack([mean, np.full(len(mean), np.log(var))]))
        else:
            theta.append(family.maximize(W, problem.X, t))
    return replace(at, theta=tuple(theta), H=cluster_means(problem, at, shares_of(problem, Z), prior, beta))


def cluster_means(problem: Problem, at: Parameters, nbar: FloatArray, prior: EtaPrior, beta: float) -> FloatArray:
    """Best eta for given shares of the clusters, (K, d_u)."""
    H = at.H.copy()
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, nbar)
        H[:, j] = solve_eta(design.D, None, design.s, beta * design.size / at.tau2[j], prior, j, kind)
    return H


def _revive(
    problem: Problem, at: Parameters, Z: Int64Array, prior: EtaPrior, beta: float, path: list[float]
) -> tuple[Parameters, Int64Array, list[float]]:
    """Give an empty cluster the worst-fitted pair, where that lowers J."""
    for k in np.flatnonzero(Z.sum(axis=0) == 0):
        cost = -(Z * log_density(problem, at.theta)[problem.cell]).sum(axis=1)
        worst = int(np.argmax(cost))
        tried = Z.copy()
        tried[worst] = 0
        tried[worst, k] = problem.count[worst]
        there = _update(problem, at, tried, prior, beta)
        value = objective(problem, there, tried, prior, beta)
        if value < path[-1]:
            at, Z = there, tried
            path = [*path, value]
    return at, Z, path
