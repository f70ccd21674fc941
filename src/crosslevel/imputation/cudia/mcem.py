"""Monte Carlo EM (Algorithms 1 to 3, corrected): draw clusters and mixes, then re-estimate all parameters, until nothing drifts.

Algorithm 2 puts expected counts in the place of drawn ones. That is no valid Gibbs kernel: its stationary variance is too small by
1/(1 + gamma), gamma the share of missing information. Here clusters are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.imputation.cudia.kernels import draw_counts
from crosslevel.imputation.cudia.model import Parameters, Problem, log_density
from crosslevel.imputation.cudia.posterior import MixPrior, learn_alpha, learn_logistic_normal
from crosslevel.imputation.cudia.regression import EtaPrior, regress
from crosslevel.imputation.cudia.sampling import draw_mix, make_sites, site_sweep
from crosslevel.typing import FloatArray, Int64Array, Step

ITERATIONS = 40


@dataclass(frozen=True)
class MCEM:
    """Result of Monte Carlo EM.

    Attributes
    ----------
    parameters : Parameters
        Averages over the last half of the iterations.
    mix_prior : MixPrior
    shares : (A, K)
        E[nbar], averaged likewise.
    path : (n_iterations, K, d_u)
        eta after every iteration.
    drift : float
        Largest change of eta between the last two quarters, in standard errors of its Monte Carlo noise.
    accepted : float
        Share of the mixes' moves that were accepted.
    """

    parameters: Parameters
    mix_prior: MixPrior
    shares: FloatArray
    path: FloatArray
    drift: float
    accepted: float


@dataclass(frozen=True)
class Expectations:
    """What the E-step found; means over sweeps."""

    by_cell: FloatArray
    shares: FloatArray
    cov: FloatArray
    pi: FloatArray
    log_pi: FloatArray
    accepted: float


def expectations(
    problem: Problem,
    at: Parameters,
    pi: FloatArray,
    mix_prior: MixPrior,
    rng: np.random.Generator,
    *,
    sweeps: int,
    Z: Int64Array | None = None,
) -> tuple[Expectations, FloatArray]:
    """Run the E-step for some sweeps from the mixes pi; also gives the mixes it ended at.

    Parameters
    ----------
    sweeps : int
    Z : (R, K) int, optional
        Clusters of the people, changed in place, for the likelihood "count"; without it the likelihood is "cudia".
    """
    log_f = log_density(problem, at.theta)
    f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
    size = problem.atom_weight[:, None]
    sites = None if Z is None else make_sites(problem)
    K = pi.shape[1]
    sums = [np.zeros(log_f.shape), np.zeros(pi.shape), np.zeros((*pi.shape, K)), np.zeros(pi.shape), np.zeros(pi.shape)]
    accepted = []
    for _ in range(sweeps):
        if sites is not None and Z is not None:
            by_cell, n = site_sweep(problem, sites, Z, log_f, mix_prior.alpha, at.H, at.tau2, rng)
            pi = (np.maximum(n, 0.0) + mix_prior.alpha) / (size + mix_prior.alpha.sum())
        else:
            _, by_cell, n = draw_counts(f, pi, problem.cell, problem.atom, problem.count, problem.weight, rng)
            pi, share = draw_mix(problem, pi, n, mix_prior, at.H, at.tau2, rng)
            accepted.append(share)
        shares = n / size
        for total, value in zip(
            sums, (by_cell, shares, shares[:, :, None] * shares[:, None, :], pi, np.log(pi)), strict=True
        ):
            total += value / sweeps
    by_cell, shares, second, mean_pi, log_pi = sums
    cov = second - shares[:, :, None] * shares[:, None, :]
    return Expectations(by_cell, shares, cov, mean_pi, log_pi, float(np.mean(accepted)) if accepted else 1.0), pi


def run_mcem(
    problem: Problem,
    start: Parameters,
    mix_prior: MixPrior,
    prior: EtaPrior,
    rng: np.random.Generator,
    *,
    likelihood: str = "cudia",
    learn: str | None = None,
    iterations: int = ITERATIONS,
    sweeps: int = 10,
    e_step: Callable[..., tuple[Expectations, FloatArray]] = expectations,
    step: Step | None = None,
) -> MCEM:
    """Alternate E-steps and M-steps from a start, averaging the last half.

    Parameters
    ----------
    likelihood : {"cudia", "count"}
    learn : {"dirichlet", "logistic_normal"}, optional
        Learn the prior of the mixes.
    iterations, sweeps : int
        EM steps, and sweeps of each E-step.
    e_step : callable
        Does what `expectations` does.
    step : callable, optional
        Called after every iteration.
    """
    at = start
    pi = np.maximum(at.pi, 1e-12)
    pi /= pi.sum(axis=1, keepdims=True)
    Z = None
    if likelihood == "count":
        log_f = log_density(problem, at.theta)
        f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
        Z = draw_counts(f, pi, problem.cell, problem.atom, problem.count, problem.weight, rng)[0]
    path, kept, accepted = [], [], []
    for iteration in range(iterations):
        found, pi = e_step(problem, at, pi, mix_prior, rng, sweeps=sweeps, Z=Z)
        theta = tuple(f.maximize(found.by_cell, problem.X, t) for f, t in zip(problem.families, at.theta, strict=True))
        at = regress(
            problem, replace(at, theta=theta, pi=found.pi), found.shares, prior, likelihood, found.cov, rounds=2
        )
        if learn == "dirichlet":
            mix_prior = MixPrior.dirichlet(learn_alpha(found.log_pi.mean(axis=0), mix_prior.alpha))
        elif learn == "logistic_normal":
            mix_prior = learn_logistic_normal(np.exp(found.log_pi))
        path.append(at.H)
        accepted.append(found.accepted)
        if iteration >= iterations // 2:
            kept.append((at, found.shares))
        if step is not None:
            step()
    mean = Parameters(
        theta=tuple(np.mean([k[0].theta[i] for k in kept], axis=0) for i in range(len(problem.families))),
        pi=np.mean([k[0].pi for k in kept], axis=0),
        H=np.mean([k[0].H for k in kept], axis=0),
        tau2=np.mean([k[0].tau2 for k in kept], axis=0),
    )
    way = np.stack(path)
    return MCEM(mean, mix_prior, np.mean([k[1] for k in kept], axis=0), way, _drift(way), float(np.mean(accepted)))


def _drift(path: FloatArray) -> float:
    """Compare the last two quarters, in standard errors that allow for the correlation of neighbors."""
    quarter = len(path) // 4
    if quarter < 2:
        return np.inf
    a, b = path[-2 * quarter : -quarter], path[-quarter:]
    within = 0.5 * (a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1))
    floor = (1e-6 * (1.0 + np.abs(path[-1]))) ** 2
    return float((np.abs(b.mean(axis=0) - a.mean(axis=0)) / np.sqrt(within + floor)).max())
