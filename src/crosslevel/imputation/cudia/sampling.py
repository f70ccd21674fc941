"""Draw what is not known: the moves of Algorithms 1 and 2, corrected, of collapsed Gibbs, and a chain through the whole posterior.

Full conditional of a place's mix given counts n_p: ``N(s_p; mu(pi), Sigma(pi)) prod_k pi_k^(alpha_k - 1 + n_pk)``. With the
proposal Dir(alpha + n) the ratio is that of the normal densities (the paper proposes from Dir(alpha) and squares the prior).

Under the likelihood ``cudia`` clusters are drawn given the mixes and mixes by Metropolis-Hastings; under ``count`` the mixes are
integrated out and every person's cluster is drawn given all others and the published means (collapsed Gibbs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.imputation.cudia.kernels import draw_counts
from crosslevel.imputation.cudia.model import (
    Block,
    Moments,
    Parameters,
    Problem,
    hidden_variance,
    log_density,
    log_normal,
    marginal_moments,
    moments_of,
)
from crosslevel.imputation.cudia.posterior import MixPrior, expected_log, learn_alpha
from crosslevel.imputation.cudia.regression import EtaPrior, design_of, from_free, to_free, variances
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array, IntArray, Step

SMALLEST = 1e-12
"""Shares are kept above this, so that logarithms stay finite."""
THIN, BURN = 2, 100
"""Sweeps between two draws that are kept, and before the first."""
REFRESH = 10
"""Sweeps after which the directions in which eta moves are found anew, while burning in."""


def draw_mix(
    problem: Problem,
    pi: FloatArray,
    counts: FloatArray,
    prior: MixPrior,
    H: FloatArray,
    tau2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Move the mix of every atom once (Metropolis-Hastings), (A, K), and the share of moves accepted.

    Parameters
    ----------
    counts : (A, K)
        People of each atom in each cluster; mixes are proposed from Dir(alpha + counts).
    """
    alpha = prior.alpha if prior.kind == "dirichlet" else np.ones(len(prior.alpha))
    new = propose_mix(alpha + counts, rng)
    ratio = np.zeros(len(pi))
    if prior.kind == "logistic_normal":
        ratio += _logistic_normal(new, prior) - _logistic_normal(pi, prior)
    return accept_mix(problem, pi, new, ratio, H, tau2, rng)


def propose_mix(shape: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw mixes from Dirichlet distributions, (A, K), none of their shares zero."""
    new = np.maximum(rng.standard_gamma(shape), 1e-300)
    new = np.maximum(new / new.sum(axis=1, keepdims=True), SMALLEST)
    return np.asarray(new / new.sum(axis=1, keepdims=True))


def accept_mix(
    problem: Problem,
    pi: FloatArray,
    new: FloatArray,
    ratio: FloatArray,
    H: FloatArray,
    tau2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Take each proposed mix with its probability; ``ratio`` (A,) is the log ratio of all but the published means."""
    T = hidden_variance(H, problem.hidden, tau2)
    height = np.log(rng.random(len(pi)))
    if all(b.simple for b in problem.blocks):
        ratio = ratio + (_by_atom(problem, new, H, T) - _by_atom(problem, pi, H, T))
        taken = height < ratio
        return np.where(taken[:, None], new, pi), float(taken.mean())
    pi, hits = pi.copy(), 0
    now = _fit_of_means(problem, pi, H, T, marginal_moments)
    for a in range(len(pi)):  # atoms share groups, so they move one after the other
        old = pi[a].copy()
        pi[a] = new[a]
        there = _fit_of_means(problem, pi, H, T, marginal_moments)
        if height[a] < ratio[a] + there - now:
            now, hits = there, hits + 1
        else:
            pi[a] = old
    return pi, hits / len(pi)


def _logistic_normal(pi: FloatArray, prior: MixPrior) -> FloatArray:
    """Log density of mixes themselves, (A,): that of the logits, and the Jacobian."""
    logits = np.log(pi)
    centered = logits - logits.mean(axis=1, keepdims=True)
    return -0.5 * ((centered - prior.mean) ** 2 / prior.variance).sum(axis=1) - logits.sum(axis=1)


def _by_atom(problem: Problem, pi: FloatArray, H: FloatArray, T: FloatArray) -> FloatArray:
    out = np.zeros(len(pi))
    for block in problem.blocks:
        out += log_normal(block.S, marginal_moments(block, pi, H, T))[block.group]
    return out


def _fit_of_means(
    problem: Problem,
    mix: FloatArray,
    H: FloatArray,
    T: FloatArray,
    moments: Callable[[Block, FloatArray, FloatArray, FloatArray], Moments],
) -> float:
    """Log likelihood of all published means."""
    return sum(float(log_normal(b.S, moments(b, mix, H, T)).sum()) for b in problem.blocks)


@dataclass(frozen=True)
class Sites:
    """The published means as one list of equations, for the sweeps over people.

    Attributes
    ----------
    equation : (A, B) int
        Equations that the people of an atom take part in.
    feature : (B,) int
        Hidden feature of each.
    step : (A, B)
        What one unit of weight in the atom adds to the equation's mean, per unit of eta.
    s, noise, size : (E,)
        Published mean (NaN: none), variance of publication, people.
    """

    equation: Int64Array
    feature: Int64Array
    step: FloatArray
    s: FloatArray
    noise: FloatArray
    size: FloatArray


def make_sites(problem: Problem) -> Sites:
    """Lay the blocks out as equations."""
    people = problem.atom_weight
    equation, feature, step, s, noise, size = [], [], [], [], [], []
    first = 0
    for block in problem.blocks:
        for c, j in enumerate(block.features):
            equation.append(first + block.group)
            feature.append(j)
            step.append(block.share / people)
            s.append(block.S[:, c])
            noise.append(np.where(np.isfinite(block.se[:, c]), block.se[:, c], 0.0) ** 2)
            size.append(block.size)
            first += block.n_groups
    return Sites(
        np.column_stack(equation).astype(np.int64),
        np.array(feature, dtype=np.int64),
        np.column_stack(step),
        np.concatenate(s),
        np.concatenate(noise),
        np.concatenate(size),
    )


def site_sweep(
    problem: Problem,
    sites: Sites,
    Z: Int64Array,
    log_f: FloatArray,
    alpha: FloatArray,
    H: FloatArray,
    tau2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draw the cluster of every person once, given all others (collapsed Gibbs, likelihood ``count``); Z (R, K) is changed in place.

    ``P(z_i = k | .) ~ (n_pk^-i + alpha_k) f(x_i | theta_k) N(s; m(n^-i + e_k), V(n^-i + e_k))``

    Returns
    -------
    by_cell : (C, K), by_atom : (A, K)
        People by row and by place after the sweep.
    """
    T = hidden_variance(H, problem.hidden, tau2)
    each = problem.weight / problem.count
    weighted = Z * each[:, None]
    n = np.zeros((problem.n_atoms, Z.shape[1]))
    np.add.at(n, problem.atom, weighted)
    E = len(sites.s)
    mean, var = np.zeros(E), np.zeros(E)
    for b, j in enumerate(sites.feature):
        np.add.at(mean, sites.equation[:, b], sites.step[:, b] * (n @ H[:, j]))
        np.add.at(var, sites.equation[:, b], sites.step[:, b] * (n @ T[:, j]))
    _sweep(
        Z, n, mean, var, log_f, problem.cell, problem.atom, each, alpha, H, T,
        sites.equation, sites.feature, sites.step, sites.s, sites.noise, sites.size, rng,
    )  # fmt: skip
    by_cell = np.zeros(log_f.shape)
    np.add.at(by_cell, problem.cell, Z * each[:, None])
    return by_cell, n


@njit()
def _sweep(Z, n, mean, var, log_f, cell, atom, each, alpha, H, T, equation, feature, step, s, noise, size, rng):  # type: ignore[no-untyped-def]
    R, K = Z.shape
    B = len(feature)
    logs, was = np.empty(K), np.empty(K, dtype=np.int64)
    for i in range(R):
        c, a, w = cell[i], atom[i], each[i]
        for k in range(K):
            was[k] = Z[i, k]
        for old in range(K):
            for _ in range(was[old]):
                Z[i, old] -= 1
                n[a, old] -= w
                for b in range(B):
                    e, j = equation[a, b], feature[b]
                    mean[e] -= w * step[a, b] * H[old, j]
                    var[e] -= w * step[a, b] * T[old, j]
                top = -np.inf
                for k in range(K):
                    logs[k] = np.log(max(n[a, k], 0.0) + alpha[k]) + log_f[c, k]
                    for b in range(B):
                        e, j = equation[a, b], feature[b]
                        if np.isnan(s[e]):
                            continue
                        v = (var[e] + w * step[a, b] * T[k, j]) / size[e] + noise[e]
                        v = max(v, 1e-14)
                        away = s[e] - mean[e] - w * step[a, b] * H[k, j]
                        logs[k] -= 0.5 * (away * away / v + np.log(v))
                    top = max(top, logs[k])
                total = 0.0
                for k in range(K):
                    logs[k] = np.exp(logs[k] - top)
                    total += logs[k]
                u = rng.random() * total
                new = K - 1
                for k in range(K):
                    u -= logs[k]
                    if u < 0.0:
                        new = k
                        break
                Z[i, new] += 1
                n[a, new] += w
                for b in range(B):
                    e, j = equation[a, b], feature[b]
                    mean[e] += w * step[a, b] * H[new, j]
                    var[e] += w * step[a, b] * T[new, j]


def eta_directions(
    problem: Problem, shares: FloatArray, H: FloatArray, tau2: FloatArray, prior: EtaPrior, likelihood: str
) -> FloatArray:
    """Directions in which eta (free coordinates) and log tau^2 are about independent, with their length as rows."""
    K, d = H.shape
    real = [j for j, kind in enumerate(problem.hidden) if kind == "gaussian"]
    out = np.zeros((K * d + len(real), K * d + len(real)))
    _, slope = from_free(to_free(H, problem.hidden, prior.scale), problem.hidden, prior.scale)
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, shares)
        seen = np.isfinite(design.s)
        w = 1.0 / variances(problem, Parameters((), shares, H, tau2), shares, likelihood, design)
        A = (design.D[seen] * w[seen, None]).T @ design.D[seen]
        floor = 0.3 if kind != "gaussian" else 1e-3
        ridge = 0.0 if prior.logit(kind) else prior.precision[j]
        A = slope[:, j, None] * (A + ridge * np.eye(K)) * slope[:, j]
        values, vectors = np.linalg.eigh(A + floor * np.eye(K))
        rows = np.arange(K) * d + j
        out[np.ix_(rows, rows)] = (vectors / np.sqrt(values)).T
    for i, _ in enumerate(real):
        out[K * d + i, K * d + i] = 1.0
    return out


def slice_along(
    log_target: Callable[[FloatArray], float], x: FloatArray, directions: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Move once along each direction by slice sampling (Neal 2003, stepping out)."""
    height = log_target(x)
    for direction in directions:
        level = height - rng.standard_exponential()
        low = -rng.random() * 2.0
        high = low + 2.0
        for _ in range(20):
            if log_target(x + low * direction) <= level:
                break
            low -= 2.0
        for _ in range(20):
            if log_target(x + high * direction) <= level:
                break
            high += 2.0
        while high - low > 1e-10:
            at = low + rng.random() * (high - low)
            there = log_target(x + at * direction)
            if there > level:
                x, height = x + at * direction, there
                break
            low, high = (at, high) if at < 0 else (low, at)
    return x


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

    def reordered(self, order: IntArray) -> Draws:
        """The same with the clusters in another order."""
        return replace(
            self,
            theta=tuple(t[:, order] for t in self.theta),
            pi=self.pi[:, :, order],
            H=self.H[:, order],
            people=self.people[:, :, order],
        )

    def at(self, i: int) -> Parameters:
        """The i-th draw."""
        return Parameters(tuple(t[i] for t in self.theta), self.pi[i], self.H[i], self.tau2[i])


def draw_eta(
    problem: Problem,
    mix: FloatArray,
    at: Parameters,
    prior: EtaPrior,
    likelihood: str,
    directions: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Move eta and tau^2 given the mixes (cudia) or the shares of the drawn clusters (count)."""
    K, d = at.H.shape
    real = np.array([kind == "gaussian" for kind in problem.hidden], dtype=bool)
    moments = moments_of(likelihood)

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
        return value + _fit_of_means(problem, mix, H, T, moments)

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
    likelihood: str,
    rng: np.random.Generator,
    *,
    n_draws: int = 200,
    thin: int = THIN,
    burn: int = BURN,
    learn_mix: bool = False,
    step: Step | None = None,
) -> Draws:
    """Run the chain from a fit.

    Parameters
    ----------
    n_draws, thin, burn : int
        Draws kept, sweeps between them, sweeps before the first.
    learn_mix : bool
        Learn the Dirichlet's exponents while burning in.
    step : callable, optional
        Called after every sweep.
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
    directions = eta_directions(problem, by_atom / size, at.H, at.tau2, prior, likelihood)
    alpha = mix_prior.alpha
    accepted: list[float] = []
    for sweep in range(burn + n_draws * thin):
        if likelihood == "count":
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
        H, tau2 = draw_eta(problem, mix, at, prior, likelihood, directions, rng)
        at = Parameters(theta, pi, H, tau2)
        if sweep < burn and sweep % REFRESH == 0:
            directions = eta_directions(problem, by_atom / size, H, tau2, prior, likelihood)
            if learn_mix and mix_prior.kind == "dirichlet":
                alpha = learn_alpha(expected_log(by_atom, alpha).mean(axis=0), alpha)
                mix_prior = MixPrior.dirichlet(alpha)
        if sweep >= burn and (sweep - burn + 1) % thin == 0:
            T = hidden_variance(at.H, problem.hidden, at.tau2)
            fit = _fit_of_means(problem, mix, at.H, T, moments_of(likelihood))
            kept.append((at, fit, by_atom.copy()))
        if step is not None:
            step()
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
