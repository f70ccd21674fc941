"""Draw what is not known: clusters, mixes, cluster parameters. The moves of Algorithms 1 and 2, corrected, and of collapsed Gibbs.

Full conditional of a place's mix given counts n_p: ``N(s_p; mu(pi), Sigma(pi)) prod_k pi_k^(alpha_k - 1 + n_pk)``. With the
proposal Dir(alpha + n) the ratio is that of the normal densities; with the paper's Dir(alpha) it also holds
``prod (pi'_k / pi_k)^n_k`` and no prior (the paper squares it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosslevel.imputation.cudia import laws
from crosslevel.imputation.cudia.hidden import EtaPrior, from_free
from crosslevel.imputation.cudia.problem import Problem, hidden_variance
from crosslevel.imputation.cudia.proportions import MixPrior
from crosslevel.imputation.cudia.stages import design_of, variances
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array

__all__ = ["Sites", "draw_mix", "eta_directions", "make_sites", "site_sweep", "slice_along"]


SMALLEST = 1e-12
"""Shares are kept above this, so that logarithms stay finite."""


def draw_mix(
    problem: Problem,
    pi: FloatArray,
    counts: FloatArray,
    prior: MixPrior,
    H: FloatArray,
    tau2: FloatArray,
    rng: np.random.Generator,
    proposal: str = "counts",
) -> tuple[FloatArray, float]:
    """Move the mix of every atom once (Metropolis-Hastings), (A, K), and the share of moves accepted.

    Parameters
    ----------
    counts : (A, K)
        People of each atom in each cluster.
    proposal : {"counts", "prior"}
        Dir(alpha + n), or the paper's Dir(alpha).
    """
    T = hidden_variance(H, problem.hidden, tau2)
    alpha = prior.alpha if prior.kind == "dirichlet" else np.ones(len(prior.alpha))
    shape = alpha + counts if proposal == "counts" else np.broadcast_to(alpha, counts.shape)
    new = np.maximum(rng.standard_gamma(shape), 1e-300)
    new = np.maximum(new / new.sum(axis=1, keepdims=True), SMALLEST)
    new /= new.sum(axis=1, keepdims=True)
    ratio = np.zeros(len(pi))
    if proposal == "prior":
        ratio += (counts * (np.log(new) - np.log(pi))).sum(axis=1)
    if prior.kind == "logistic_normal":
        ratio += _logistic_normal(new, prior) - _logistic_normal(pi, prior)
    height = np.log(rng.random(len(pi)))
    if all(b.simple for b in problem.blocks):
        ratio += _by_atom(problem, new, H, T) - _by_atom(problem, pi, H, T)
        taken = height < ratio
        return np.where(taken[:, None], new, pi), float(taken.mean())
    pi, hits = pi.copy(), 0
    now = _total(problem, pi, H, T)
    for a in range(len(pi)):  # atoms share groups, so they move one after the other
        old = pi[a].copy()
        pi[a] = new[a]
        there = _total(problem, pi, H, T)
        if height[a] < ratio[a] + there - now:
            now, hits = there, hits + 1
        else:
            pi[a] = old
    return pi, hits / len(pi)


def _logistic_normal(pi: FloatArray, prior: MixPrior) -> FloatArray:
    """Log density of mixes themselves, (A,): that of the logits, and the Jacobian."""
    logits = np.log(pi)
    centred = logits - logits.mean(axis=1, keepdims=True)
    return -0.5 * ((centred - prior.mean) ** 2 / prior.variance).sum(axis=1) - logits.sum(axis=1)


def _by_atom(problem: Problem, pi: FloatArray, H: FloatArray, T: FloatArray) -> FloatArray:
    out = np.zeros(len(pi))
    for block in problem.blocks:
        out += laws.log_normal(block.S, laws.marginal_moments(block, pi, H, T))[block.group]
    return out


def _total(problem: Problem, pi: FloatArray, H: FloatArray, T: FloatArray) -> float:
    return sum(float(laws.log_normal(b.S, laws.marginal_moments(b, pi, H, T)).sum()) for b in problem.blocks)


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
    """Draw the cluster of every person once, given all others (collapsed Gibbs, count law); Z (R, K) is changed in place.

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
    problem: Problem, shares: FloatArray, H: FloatArray, tau2: FloatArray, prior: EtaPrior, law: str
) -> FloatArray:
    """Directions in which eta (free coordinates) and log tau^2 are about independent, with their length as rows."""
    from crosslevel.imputation.cudia.hidden import to_free  # the inverse of what is sampled in
    from crosslevel.imputation.cudia.posterior import Parameters

    K, d = H.shape
    real = [j for j, kind in enumerate(problem.hidden) if kind == "gaussian"]
    out = np.zeros((K * d + len(real), K * d + len(real)))
    _, slope = from_free(to_free(H, problem.hidden, prior.scale), problem.hidden, prior.scale)
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, shares)
        seen = np.isfinite(design.s)
        w = 1.0 / variances(problem, Parameters((), shares, H, tau2), shares, law, design)
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
