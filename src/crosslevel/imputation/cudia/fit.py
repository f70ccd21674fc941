"""The ways of fitting: clusters from x alone and a regression, the highest posterior, Monte Carlo EM, and hard clusters.

Monte Carlo EM is Algorithms 1 to 3, corrected: draw clusters and mixes, then re-estimate all parameters, until nothing drifts.
Algorithm 2 puts expected counts in the place of drawn ones. That is no valid Gibbs kernel: its stationary variance is too small by
1/(1 + gamma), gamma the share of missing information. Here clusters are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslevel.data.progress import count_steps
from crosslevel.imputation.cudia.chain import draw_clusters, start_mix, sweep
from crosslevel.imputation.cudia.hard import fit_hard
from crosslevel.imputation.cudia.means import person_variance, regress
from crosslevel.imputation.cudia.mixture import ascend, fit_mixture, learn_alpha, weigh
from crosslevel.imputation.cudia.model import Fit, Parameters, Prior, Problem
from crosslevel.typing import FloatArray, Int64Array, Progress, Step

ITERATIONS, SWEEPS = 40, 10
"""Steps of Monte Carlo EM, and sweeps of each E-step."""
LARGEST_DRIFT = 4.0
"""Monte Carlo EM has converged when eta moved by fewer standard errors between the last two quarters."""


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


METHODS: dict[str, Callable[[Problem, Fit, np.random.Generator, Step | None], Fit]] = {
    "two_stage": _two_stage,
    "map": _map,
    "mcem": run_mcem,
    "hard": _hard,
}
"""What each method makes of the mixture of x alone, on whose shares the published means were regressed."""
