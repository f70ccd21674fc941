"""The five ways of fitting, as one function: two_stage, map, mcem, gibbs, hard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosslevel.imputation.cudia import selection
from crosslevel.imputation.cudia.chain import Draws, run_chain
from crosslevel.imputation.cudia.hard import fit_hard
from crosslevel.imputation.cudia.hidden import EtaPrior, Identifiability, eta_prior
from crosslevel.imputation.cudia.mcem import run_mcem
from crosslevel.imputation.cudia.mixture import Mixture, expected_people, fit_mixture
from crosslevel.imputation.cudia.posterior import Parameters, ascend
from crosslevel.imputation.cudia.problem import Problem
from crosslevel.imputation.cudia.proportions import MixPrior
from crosslevel.imputation.cudia.stages import identify, person_variance, regress
from crosslevel.numerics.chains import split_chains
from crosslevel.typing import FloatArray

__all__ = ["Choices", "Fitted", "fit_problem"]


LARGEST_DRIFT = 4.0
"""Monte Carlo EM has settled when eta moved by fewer standard errors between the last two quarters."""
LARGEST_RHAT = 1.1


@dataclass(frozen=True)
class Choices:
    """Settings of a fit, checked."""

    n_clusters: int | str
    method: str
    law: str
    ridge: float | str
    target: str | float
    kind: str
    logit_sd: float
    alpha: FloatArray
    learn: str | None
    n_restarts: int
    z: str
    proposal: str
    design: str
    beta: float
    n_draws: int
    clusters: tuple[int, ...] = selection.CLUSTERS
    ridges: tuple[float, ...] = selection.RIDGES
    targets: tuple[str | float, ...] = selection.TARGETS


@dataclass(frozen=True)
class Fitted:
    """A fit.

    Attributes
    ----------
    parameters : Parameters
        Clusters in order of size, largest first.
    prior : EtaPrior
    mix_prior : MixPrior
    shares : (A, K)
        Expected shares of the clusters in each atom.
    identifiability : tuple of Identifiability
        One per hidden feature.
    convergence : dict
        ``converged``, and what it rests on.
    draws : Draws or None
        Of the method "gibbs".
    selection : Selection or None
    chosen : (n_clusters, ridge, target)
    """

    parameters: Parameters
    prior: EtaPrior
    mix_prior: MixPrior
    shares: FloatArray
    identifiability: tuple[Identifiability, ...]
    convergence: dict[str, Any]
    draws: Draws | None = None
    selection: selection.Selection | None = None
    chosen: tuple[int, float, str | float] = field(default=(0, 0.0, "mean"))


def fit_problem(problem: Problem, choices: Choices, rng: np.random.Generator) -> Fitted:
    """Fit by the method of the choices, selecting first what was left to be chosen."""
    found, mixture = None, None
    seed = int(rng.integers(2**63))
    K, ridge, target = choices.n_clusters, choices.ridge, choices.target
    if "auto" in (K, ridge, target):
        found = _select(problem, choices, seed)
        best = found.best
        K, ridge, target = best.n_clusters, best.ridge, best.target
        mixture = found.mixtures[best.n_clusters]
    K, ridge = int(K), float(ridge)
    mix_prior = MixPrior.dirichlet(np.resize(choices.alpha, K))
    if mixture is None:
        own = selection.starts(seed, K)
        mixture = fit_mixture(problem, K, own, n_restarts=choices.n_restarts, mix_prior=mix_prior, learn=choices.learn)
    shares = mixture.people / problem.atom_weight[:, None]
    spread = person_variance(problem, mixture.parameters, shares)
    prior = eta_prior(problem, ridge, target, choices.kind, choices.logit_sd, spread)
    start = regress(problem, mixture.parameters, shares, prior, choices.law)
    convergence = _mixture_convergence(mixture)
    at, mix_prior, shares, more, draws = _METHODS[choices.method](problem, start, mixture, shares, prior, choices, rng)
    convergence |= more
    size = problem.atom_weight @ shares
    order = np.argsort(-size, kind="stable")
    at, shares = at.reordered(order), np.ascontiguousarray(shares[:, order])
    mix_prior = MixPrior(mix_prior.kind, mix_prior.alpha[order], mix_prior.mean[order], mix_prior.variance[order])
    if draws is not None:
        draws = Draws(
            tuple(t[:, order] for t in draws.theta), draws.pi[:, :, order], draws.H[:, order], draws.tau2, draws.trace,
            draws.people[:, :, order], draws.accepted,
        )  # fmt: skip
    report = identify(problem, at, shares, prior, choices.law)
    return Fitted(at, prior, mix_prior, shares, report, convergence, draws, found, (K, ridge, target))


def _select(problem: Problem, choices: Choices, seed: int) -> selection.Selection:
    clusters = choices.clusters if choices.n_clusters == "auto" else (int(choices.n_clusters),)
    clusters = tuple(k for k in clusters if k <= len(problem.X)) or (2,)
    return selection.select(
        problem,
        seed,
        n_clusters=clusters,
        ridges=choices.ridges if choices.ridge == "auto" else (float(choices.ridge),),
        targets=choices.targets if choices.target == "auto" else (choices.target,),
        kind=choices.kind,
        logit_sd=choices.logit_sd,
        n_restarts=choices.n_restarts,
        mix_prior=MixPrior.dirichlet(choices.alpha),
        learn=choices.learn,
    )


def _mixture_convergence(mixture: Mixture) -> dict[str, Any]:
    return {
        "converged": mixture.ascent.converged,
        "gradient": mixture.ascent.gradient,
        "steps": mixture.ascent.steps,
        "log_posterior": mixture.ascent.value,
        "restarts": len(mixture.modes),
        "modes": mixture.n_modes,
        "mode_values": [float(v) for v in mixture.modes],
    }


Answer = tuple[Parameters, MixPrior, FloatArray, dict[str, Any], Draws | None]


def _two_stage(
    problem: Problem,
    start: Parameters,
    mixture: Mixture,
    shares: FloatArray,
    prior: EtaPrior,
    choices: Choices,
    rng: Any,
) -> Answer:
    return start, mixture.mix_prior, shares, {}, None


def _map(
    problem: Problem,
    start: Parameters,
    mixture: Mixture,
    shares: FloatArray,
    prior: EtaPrior,
    choices: Choices,
    rng: Any,
) -> Answer:
    climb = ascend(problem, start, mixture.mix_prior, prior, choices.law)
    people = expected_people(problem, climb.parameters)[2]
    more = {
        "converged": climb.converged,
        "gradient": climb.gradient,
        "steps": climb.steps,
        "log_posterior": climb.value,
    }
    return climb.parameters, mixture.mix_prior, people / problem.atom_weight[:, None], more, None


def _mcem(
    problem: Problem,
    start: Parameters,
    mixture: Mixture,
    shares: FloatArray,
    prior: EtaPrior,
    choices: Choices,
    rng: Any,
) -> Answer:
    run = run_mcem(
        problem,
        start,
        mixture.mix_prior,
        prior,
        rng,
        law=choices.law,
        z=choices.z,
        proposal=choices.proposal,
        design=choices.design,
        learn=choices.learn,
    )
    more = {
        "converged": mixture.ascent.converged and run.drift < LARGEST_DRIFT,
        "drift": run.drift,
        "accepted": run.accepted,
        "iterations": len(run.path),
    }
    return run.parameters, run.mix_prior, run.shares, more, None


def _gibbs(
    problem: Problem,
    start: Parameters,
    mixture: Mixture,
    shares: FloatArray,
    prior: EtaPrior,
    choices: Choices,
    rng: Any,
) -> Answer:
    draws = run_chain(
        problem,
        start,
        mixture.mix_prior,
        prior,
        choices.law,
        rng,
        n_draws=choices.n_draws,
        learn_mix=choices.learn == "dirichlet",
    )
    at = Parameters(
        tuple(t.mean(axis=0) for t in draws.theta), draws.pi.mean(axis=0), draws.H.mean(axis=0), draws.tau2.mean(axis=0)
    )
    rhat = _trace_rhat(draws)
    more = {"converged": mixture.ascent.converged and rhat < LARGEST_RHAT, "rhat": rhat, "draws": len(draws)}
    return at, mixture.mix_prior, draws.people.mean(axis=0) / problem.atom_weight[:, None], more, draws


def _trace_rhat(draws: Draws) -> float:
    """Split R-hat of what does not depend on the clusters' names: fit of the means, and the spread of eta."""
    spread = draws.H.reshape(len(draws), -1).std(axis=1)
    worst = 1.0
    for trace in (draws.trace, spread):
        halves = split_chains(trace[None, :, None])[..., 0]
        within = halves.var(axis=1, ddof=1).mean()
        between = halves.mean(axis=1).var(ddof=1)
        n = halves.shape[1]
        worst = max(worst, float(np.sqrt((n - 1) / n + between / max(within, 1e-300))))
    return worst


def _hard(
    problem: Problem,
    start: Parameters,
    mixture: Mixture,
    shares: FloatArray,
    prior: EtaPrior,
    choices: Choices,
    rng: Any,
) -> Answer:
    fit = fit_hard(problem, start.n_clusters, prior, rng, beta=choices.beta, n_restarts=choices.n_restarts)
    n = np.zeros(shares.shape)
    np.add.at(n, problem.atom, fit.Z * (problem.weight / problem.count)[:, None])
    more = {"converged": fit.converged, "objective": [float(v) for v in fit.path[-5:]], "steps": len(fit.path)}
    return fit.parameters, mixture.mix_prior, n / problem.atom_weight[:, None], more, None


_METHODS = {"two_stage": _two_stage, "map": _map, "mcem": _mcem, "gibbs": _gibbs, "hard": _hard}
METHODS = tuple(_METHODS)
