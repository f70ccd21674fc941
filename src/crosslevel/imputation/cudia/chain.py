"""A Markov chain through the whole posterior, under either law: clusters, mixes, cluster parameters, hidden means.

Under the law ``cudia`` clusters are drawn given the mixes and mixes by Metropolis-Hastings; under ``count`` the mixes are
integrated out and every person's cluster is drawn given all others and the published means (collapsed Gibbs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.imputation.cudia import laws
from crosslevel.imputation.cudia.hidden import EtaPrior, from_free, to_free
from crosslevel.imputation.cudia.kernels import draw_counts
from crosslevel.imputation.cudia.posterior import Parameters, log_density
from crosslevel.imputation.cudia.problem import Problem, hidden_variance
from crosslevel.imputation.cudia.proportions import MixPrior, expected_log, learn_alpha
from crosslevel.imputation.cudia.sampling import draw_mix, eta_directions, make_sites, site_sweep, slice_along
from crosslevel.typing import FloatArray

__all__ = ["Draws", "draw_eta", "run_chain"]


SHARPEN = 10
"""Sweeps between two looks at the directions in which eta moves, while burning in."""


@dataclass(frozen=True)
class Draws:
    """Draws of all parameters.

    Attributes
    ----------
    theta : tuple of (m, K, q)
    pi : (m, A, K)
    H : (m, K, d_u)
    tau2 : (m, d_u)
    trace : (m,)
        Log likelihood of the published means at every draw.
    people : (m, A, K)
        People of each place by cluster.
    accepted : float
        Share of the mixes' moves that were accepted.
    """

    theta: tuple[FloatArray, ...]
    pi: FloatArray
    H: FloatArray
    tau2: FloatArray
    trace: FloatArray
    people: FloatArray
    accepted: float

    def __len__(self) -> int:
        return len(self.pi)

    def at(self, i: int) -> Parameters:
        """The i-th draw."""
        return Parameters(tuple(t[i] for t in self.theta), self.pi[i], self.H[i], self.tau2[i])


def draw_eta(
    problem: Problem,
    mix: FloatArray,
    at: Parameters,
    prior: EtaPrior,
    law: str,
    directions: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Move eta and tau^2 given the mixes (cudia) or the shares of the drawn clusters (count)."""
    K, d = at.H.shape
    real = np.array([kind == "gaussian" for kind in problem.hidden], dtype=bool)
    moments_of = laws.marginal_moments if law == "cudia" else laws.count_moments

    def read(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        H, slope = from_free(x[: K * d].reshape(K, d), problem.hidden, prior.scale)
        tau2 = at.tau2.copy()
        tau2[real] = prior.scale[real] * np.exp(np.clip(x[K * d :], -30, 30))
        return H, tau2, slope

    def log_target(x: FloatArray) -> float:
        if np.abs(x).max() > 1e6:
            return -np.inf
        H, tau2, slope = read(x)
        T = hidden_variance(H, problem.hidden, tau2)
        value = prior.log_density(H, tau2, problem.hidden)[0] + float(np.log(tau2[real]).sum())
        # densities are those of eta, or of logit eta where the prior is on the logit: the Jacobian of what is moved in
        for j, kind in enumerate(problem.hidden):
            if not prior.logit(kind):
                value += float(np.log(np.maximum(slope[:, j], 1e-300)).sum())
        for block in problem.blocks:
            value += float(laws.log_normal(block.S, moments_of(block, mix, H, T)).sum())
        return value

    start = np.concatenate(
        [to_free(at.H, problem.hidden, prior.scale).ravel(), np.log(at.tau2[real] / prior.scale[real])]
    )
    H, tau2, _ = read(slice_along(log_target, start, directions, rng))
    return H, tau2


def run_chain(
    problem: Problem,
    start: Parameters,
    mix_prior: MixPrior,
    prior: EtaPrior,
    law: str,
    rng: np.random.Generator,
    *,
    n_draws: int = 200,
    thin: int = 2,
    burn: int = 100,
    learn_mix: bool = False,
) -> Draws:
    """Run the chain from a fit.

    Parameters
    ----------
    n_draws, thin, burn : int
        Draws kept, sweeps between them, sweeps before the first.
    learn_mix : bool
        Learn the Dirichlet's exponents while burning in.
    """
    at = start
    K = at.n_clusters
    log_f = log_density(problem, at.theta)
    f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
    pi = np.maximum(at.pi, 1e-12)
    pi /= pi.sum(axis=1, keepdims=True)
    Z, _, by_atom = draw_counts(f, pi, problem.cell, problem.atom, problem.count, problem.weight, rng)
    sites = make_sites(problem)
    size = problem.atom_weight[:, None]
    kept: list[tuple[Parameters, float, FloatArray]] = []
    directions = eta_directions(problem, by_atom / size, at.H, at.tau2, prior, law)
    alpha = mix_prior.alpha
    accepted: list[float] = []
    for sweep in range(burn + n_draws * thin):
        if law == "count":
            by_cell, by_atom = site_sweep(problem, sites, Z, log_f, alpha, at.H, at.tau2, rng)
            shape = np.maximum(by_atom, 0.0) + alpha
            pi = np.maximum(rng.standard_gamma(shape), 1e-300)
            pi = np.maximum(pi / pi.sum(axis=1, keepdims=True), 1e-12)
            mix = by_atom / size
        else:
            f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
            _, by_cell, by_atom = draw_counts(f, pi, problem.cell, problem.atom, problem.count, problem.weight, rng)
            pi, share = draw_mix(problem, pi, by_atom, mix_prior, at.H, at.tau2, rng)
            accepted.append(share)
            mix = pi
        theta = tuple(g.draw(by_cell, problem.X, t, rng) for g, t in zip(problem.families, at.theta, strict=True))
        log_f = log_density(problem, theta)
        H, tau2 = draw_eta(problem, mix, at, prior, law, directions, rng)
        at = Parameters(theta, pi, H, tau2)
        if sweep < burn and sweep % SHARPEN == 0:
            directions = eta_directions(problem, by_atom / size, H, tau2, prior, law)
            if learn_mix and mix_prior.kind == "dirichlet":
                alpha = learn_alpha(expected_log(by_atom, alpha).mean(axis=0), alpha)
                mix_prior = MixPrior.dirichlet(alpha)
        if sweep >= burn and (sweep - burn + 1) % thin == 0:
            kept.append((at, _fit_of_means(problem, at, mix, law), by_atom.copy()))
    n_families = len(problem.families)
    return Draws(
        theta=tuple(np.stack([k[0].theta[i] for k in kept]) for i in range(n_families)),
        pi=np.stack([k[0].pi for k in kept]),
        H=np.stack([k[0].H for k in kept]).reshape(len(kept), K, -1),
        tau2=np.stack([k[0].tau2 for k in kept]),
        trace=np.array([k[1] for k in kept]),
        people=np.stack([k[2] for k in kept]),
        accepted=float(np.mean(accepted)) if accepted else 1.0,
    )


def _fit_of_means(problem: Problem, at: Parameters, mix: FloatArray, law: str) -> float:
    T = hidden_variance(at.H, problem.hidden, at.tau2)
    moments_of = laws.marginal_moments if law == "cudia" else laws.count_moments
    return sum(float(laws.log_normal(b.S, moments_of(b, mix, at.H, T)).sum()) for b in problem.blocks)
