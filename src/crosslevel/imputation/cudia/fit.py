"""The ways of fitting: clusters from x alone and a regression, the highest posterior, Monte Carlo EM, and hard clusters.

Monte Carlo EM is Algorithms 1 to 3, corrected: draw clusters and mixes, then re-estimate all parameters, until nothing drifts.
Algorithm 2 puts expected counts in the place of drawn ones. That is no valid Gibbs kernel: its stationary variance is too small by
1/(1 + gamma), gamma the share of missing information. Here clusters are drawn.

Hard clusters are Algorithm 4, corrected: every person in one cluster, moved one at a time at the exact cost.

    J = -sum_i log f(x_i | theta_{z_i}) + sum_p N_p |s_p - nbar_p'H|^2 / (2 tau^2) + ridge

Real columns have one variance for all clusters, which is estimated along. Moving people from cluster a to b changes J by a
quadratic in their number, so all people of a pair move at once, at the best number. Every step lowers J. The paper's cost has a
factor 1/K too much and lacks the term of the moved person itself; moving everybody at once with one residual overshoots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslevel.data.progress import count_steps
from crosslevel.imputation.cudia.chain import draw_clusters, start_mix, sweep
from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.mixture import (
    ascend,
    designs_of,
    fit_mixture,
    learn_alpha,
    person_variance,
    random_start,
    regress,
    solve_means,
    weigh,
)
from crosslevel.imputation.cudia.model import Fit, Parameters, Prior, Problem
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array, Progress, Step

ITERATIONS, SWEEPS = 40, 10
"""Steps of Monte Carlo EM, and sweeps of each E-step."""
LARGEST_DRIFT = 4.0
"""Monte Carlo EM has converged when eta moved by fewer standard errors between the last two quarters."""

CONVERGED, MAX_SWEEPS = 1e-10, 100
"""Hard clusters are found when J falls by less than this share of itself, or after so many sweeps."""


def fit_problem(
    problem: Problem,
    method: str,
    prior: Callable[..., Prior],
    n_restarts: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit:
    """Fit by a method; clusters come in order of size, largest first.

    Parameters
    ----------
    prior : callable
        Makes the prior, for the variance of each hidden feature between people when that is known.
    progress : bool or callable, optional
        Starts of the mixture and iterations are counted.
    """
    with count_steps(progress, "Fitting clusters", n_restarts + (ITERATIONS if method == "mcem" else 1)) as step:
        first = fit_mixture(problem, prior(), int(rng.integers(2**63)), n_restarts, step)
        unit = person_variance(problem, first.parameters, first.shares)
        own = replace(prior(unit=unit), alpha=first.prior.alpha)
        start = replace(first, prior=own, parameters=regress(problem, own, first.parameters, first.shares))
        found = METHODS[method](problem, start, rng, step)
    return found.reordered(np.argsort(-(problem.size @ found.shares), kind="stable"))


def _two_stage(problem: Problem, start: Fit, rng: np.random.Generator, step: Step | None) -> Fit:
    return start


def _map(problem: Problem, start: Fit, rng: np.random.Generator, step: Step | None) -> Fit:
    at, convergence = ascend(problem, start.prior, start.parameters, means=True)
    shares = weigh(problem, at)[2] / problem.size[:, None]
    return Fit(at, start.prior, shares, start.convergence | convergence)


def _hard(problem: Problem, start: Fit, rng: np.random.Generator, step: Step | None) -> Fit:
    found = fit_hard(problem, start.prior, rng, start.convergence["restarts"])
    return replace(found, convergence=start.convergence | found.convergence)


@dataclass(frozen=True, eq=False)
class Expectations:
    """What the E-step found, as means over sweeps.

    Attributes
    ----------
    by_cell : (C, K)
        People by row and cluster.
    shares : (A, K), products : (A, K, K)
        Shares of the clusters among people, and their products.
    pi, log_pi : (A, K)
    accepted : float
        Share of the mixes' moves that were accepted.
    """

    by_cell: FloatArray
    shares: FloatArray
    products: FloatArray
    pi: FloatArray
    log_pi: FloatArray
    accepted: float

    @property
    def cov(self) -> FloatArray:
        """Covariance of the shares, (A, K, K)."""
        return self.products - self.shares[:, :, None] * self.shares[:, None, :]


def expectations(
    problem: Problem,
    at: Parameters,
    alpha: FloatArray,
    Z: Int64Array,
    rng: np.random.Generator,
) -> tuple[Expectations, FloatArray]:
    """Run the E-step for some sweeps from the mixes of ``at``; also gives the mixes it ended at.

    Parameters
    ----------
    Z : (R, K) int
        Clusters of the people, changed in place, for the likelihood "count".
    """
    log_f, size = problem.log_density(at.theta), problem.size[:, None]
    totals: list[Any] = [0.0] * 6
    for _ in range(SWEEPS):
        by_cell, n, pi, accepted = sweep(problem, at, alpha, Z, log_f, rng)
        at, shares = replace(at, pi=pi), n / size
        found: tuple[Any, ...] = (by_cell, shares, shares[:, :, None] * shares[:, None, :], pi, np.log(pi), accepted)
        totals = [total + value / SWEEPS for total, value in zip(totals, found, strict=True)]
    return Expectations(*totals), at.pi


def run_mcem(
    problem: Problem,
    start: Fit,
    rng: np.random.Generator,
    step: Step | None = None,
    e_step: Callable[..., tuple[Expectations, FloatArray]] = expectations,
) -> Fit:
    """Alternate E-steps and M-steps from a start, averaging the last half; ``step`` is called after every iteration.

    ``e_step`` does what `expectations` does.
    """
    at, prior = start.parameters, start.prior
    pi = start_mix(at.pi)
    Z = np.zeros((len(problem.cell), pi.shape[1]), dtype=np.int64)
    if problem.likelihood == "count":
        Z = draw_clusters(problem, problem.log_density(at.theta), pi, rng)[0]
    path, kept, accepted = [], [], []
    for iteration in range(ITERATIONS):
        found, pi = e_step(problem, replace(at, pi=pi), prior.alpha, Z, rng)
        at = replace(at, theta=problem.peak(found.by_cell), pi=found.pi)
        at = regress(problem, prior, at, found.shares, found.cov, rounds=2)
        if prior.learn:
            prior = replace(prior, alpha=learn_alpha(found.log_pi.mean(axis=0), prior.alpha))
        path.append(at.H)
        accepted.append(found.accepted)
        if iteration >= ITERATIONS // 2:
            kept.append((at, found.shares))
        if step is not None:
            step()
    drift = drift_of(np.stack(path))
    convergence = start.convergence | {
        "converged": bool(start.convergence["converged"]) and drift < LARGEST_DRIFT,
        "drift": drift,
        "accepted": float(np.mean(accepted)),
        "iterations": len(path),
    }
    mean = Parameters.joined([at for at, _ in kept], np.mean)
    return Fit(mean, prior, np.mean([shares for _, shares in kept], axis=0), convergence)


def drift_of(path: FloatArray) -> float:
    """Compare the last two quarters, in standard errors that allow for the correlation of neighbors."""
    quarter = len(path) // 4
    a, b = path[-2 * quarter : -quarter], path[-quarter:]
    within = 0.5 * (a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1))
    floor = (1e-6 * (1.0 + np.abs(path[-1]))) ** 2
    return float((np.abs(b.mean(axis=0) - a.mean(axis=0)) / np.sqrt(within + floor)).max())


def fit_hard(problem: Problem, prior: Prior, rng: np.random.Generator, n_restarts: int = 4) -> Fit:
    """Run the algorithm from several starts and keep the lowest J; shares of the clusters in ``pi`` are kept above zero."""
    search = Search(problem, prior)
    runs = [search.descend(random_start(problem, len(prior.alpha), rng)) for _ in range(n_restarts)]
    at, Z, path, converged = min(runs, key=lambda run: run[2][-1])
    n = problem.people(Z)[1]
    at = replace(at, pi=(n + 0.5) / (n + 0.5).sum(axis=1, keepdims=True))
    convergence = {"converged": converged, "objective": [float(v) for v in path[-5:]], "steps": len(path)}
    return Fit(at, prior, n / problem.size[:, None], convergence)


@dataclass(frozen=True, eq=False)
class Search:
    """Everything that stays the same during the search."""

    problem: Problem
    prior: Prior

    def misfit(self, at: Parameters, Z: Int64Array) -> tuple[FloatArray, FloatArray]:
        """By how much each published mean is above that of the people, and the weight of its square, (E,); 0 where there is none."""
        sites = self.problem.sites
        tau2 = np.repeat(at.tau2, [len(block.S) for block, _ in self.problem.published])
        residual = sites.s - sites.total(at.H, self.problem.people(Z)[1])
        return np.nan_to_num(residual), np.where(np.isnan(sites.s), 0.0, sites.size / (2 * tau2))

    def objective(self, at: Parameters, Z: Int64Array) -> float:
        """J, from scratch."""
        residual, weight = self.misfit(at, Z)
        fit = float(weight @ residual**2 - (self.problem.people(Z)[0] * self.problem.log_density(at.theta)).sum())
        for family, t in zip(self.problem.families, at.theta, strict=True):
            if not isinstance(family, Gaussian):
                fit -= float((family.natural(t) @ family.prior).sum())
        return fit - self.prior.of_means(at.H, at.tau2, np.zeros(len(at.tau2), dtype=bool))[0]

    def descend(self, at: Parameters) -> tuple[Parameters, Int64Array, list[float], bool]:
        """Alternate moves of people and updates of the clusters; also gives J after every half step, and whether it settled."""
        problem, K = self.problem, at.pi.shape[1]
        Z = np.zeros((len(problem.cell), K), dtype=np.int64)
        Z[np.arange(len(Z)), problem.log_density(at.theta).argmax(axis=1)[problem.cell]] = problem.count
        at = self.update(at, Z)
        path = [self.objective(at, Z)]
        for _ in range(MAX_SWEEPS):
            self.sweep(at, Z)
            path.append(self.objective(at, Z))
            at = self.update(at, Z)
            path.append(self.objective(at, Z))
            at, Z = self.revive(at, Z, path)
            if path[-3] - path[-1] <= CONVERGED * abs(path[-1]):  # a cluster that would raise J stays empty
                return at, Z, path, True
        return at, Z, path, False

    def sweep(self, at: Parameters, Z: Int64Array) -> None:
        """Offer every pair the best move, one after the other; Z is changed in place."""
        _moves(Z, -self.problem.log_density(at.theta), at.H, *self.misfit(at, Z), self.problem.sites)

    def update(self, at: Parameters, Z: Int64Array) -> Parameters:
        """Best theta and eta for given clusters."""
        problem = self.problem
        by_cell, n = problem.people(Z)
        theta = []
        for family, t, sums in zip(problem.families, at.theta, problem.sums(by_cell), strict=True):
            theta.append(_one_variance(family, t, sums) if isinstance(family, Gaussian) else family.peak(sums))
        H = at.H.copy()
        for j, design in enumerate(designs_of(problem, at, n / problem.size[:, None])):
            A, b = design.normal(design.size / at.tau2[j])
            H[:, j] = solve_means(A, b, self.prior, j, binary=bool(problem.binary[j]))
        return replace(at, theta=tuple(theta), H=H)

    def revive(self, at: Parameters, Z: Int64Array, path: list[float]) -> tuple[Parameters, Int64Array]:
        """Give an empty cluster the worst-fitted pair, where that lowers J; ``path`` is prolonged."""
        for k in np.flatnonzero(Z.sum(axis=0) == 0):
            cost = -(Z * self.problem.log_density(at.theta)[self.problem.cell]).sum(axis=1)
            worst = int(np.argmax(cost))
            tried = Z.copy()
            tried[worst] = 0
            tried[worst, k] = self.problem.count[worst]
            there = self.update(at, tried)
            value = self.objective(there, tried)
            if value < path[-1]:
                at, Z = there, tried
                path.append(value)
        return at, Z


def _one_variance(family: Gaussian, free: FloatArray, sums: FloatArray) -> FloatArray:
    """Mean of each cluster and one variance for all, without the prior, (K, 2)."""
    n, _, first, second = (sums - family.prior).T
    mean = np.where(n > 1e-9, first / np.maximum(n, 1e-300), free[:, 0] - family.center)
    squares = float((second - 2 * mean * first + n * mean**2).sum())
    var = max(squares / max(n.sum(), 1e-300), 1e-6 * family.variance)
    return np.column_stack([family.center + mean, np.full(len(mean), np.log(var))])


@njit()
def _moves(Z, D, H, residual, lam, sites):  # type: ignore[no-untyped-def]
    equation, feature, step = sites.equation, sites.feature, sites.step
    R, K = Z.shape
    B = len(feature)
    for i in range(R):
        c, p, w = sites.cell[i], sites.atom[i], sites.each[i]
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


METHODS: dict[str, Callable[[Problem, Fit, np.random.Generator, Step | None], Fit]] = {
    "two_stage": _two_stage,
    "map": _map,
    "mcem": run_mcem,
    "hard": _hard,
}
"""What each method makes of the mixture of x alone, on whose shares the published means were regressed."""
