"""Draw what is not known: the moves of Algorithms 1 and 2, corrected, of collapsed Gibbs, and a chain through the whole posterior.

Full conditional of a place's mix given counts n_p: ``N(s_p; mu(pi), Sigma(pi)) prod_k pi_k^(alpha_k - 1 + n_pk)``. With the
proposal Dir(alpha + n) the ratio is that of the normal densities (the paper proposes from Dir(alpha) and squares the prior).

Under the likelihood ``cudia`` clusters are drawn given the mixes and mixes by Metropolis-Hastings; under ``count`` the mixes are
integrated out and every person's cluster is drawn given all others and the published means (collapsed Gibbs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from crosslevel.imputation.cudia.mixture import LEAST, designs_of, from_free, to_free
from crosslevel.imputation.cudia.model import Fit, Parameters, Prior, Problem, fit_of_means, hidden_variance
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array, Step

SMALLEST = 1e-12
"""Shares are kept above this, so that logarithms stay finite."""
DRAWS, THIN, BURN = 200, 2, 100
"""Draws of a chain, sweeps between two of them, and before the first."""
REFRESH = 10
"""Sweeps after which the directions in which eta moves are found anew, while burning in."""


@njit()
def draw_counts(f, pi, cell, atom, count, weight, rng):  # type: ignore[no-untyped-def]
    """Draw how many people of each pair are in each cluster, given pi.

    Returns
    -------
    counts : (R, K) int, by_cell : (C, K), by_atom : (A, K)
        Draws, and their sums with the pair's weight a person.
    """
    C, K = f.shape
    counts = np.zeros((len(cell), K), dtype=np.int64)
    by_cell, by_atom = np.zeros((C, K)), np.zeros(pi.shape)
    r = np.empty(K)
    for i in range(len(cell)):
        c, a = cell[i], atom[i]
        total = 0.0
        for k in range(K):
            r[k] = max(pi[a, k], LEAST) * f[c, k]
            total += r[k]
        left = count[i]
        each = weight[i] / count[i]
        for k in range(K):
            if left == 0:
                break
            if k == K - 1:
                n = left
            elif left == 1:
                n = 1 if rng.random() * total < r[k] else 0
            else:
                share = r[k] / total if total > 0.0 else 1.0
                n = rng.binomial(left, min(max(share, 0.0), 1.0))
            total -= r[k]
            left -= n
            counts[i, k] = n
            by_cell[c, k] += n * each
            by_atom[a, k] += n * each
    return counts, by_cell, by_atom


def draw_clusters(
    problem: Problem, log_f: FloatArray, pi: FloatArray, rng: np.random.Generator
) -> tuple[Int64Array, FloatArray, FloatArray]:
    """Draw clusters given the mixes: people of each pair (R, K), row (C, K) and place (A, K)."""
    f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
    found: tuple[Int64Array, FloatArray, FloatArray] = draw_counts(
        f, pi, problem.cell, problem.atom, problem.count, problem.weight, rng
    )
    return found


def start_mix(pi: FloatArray) -> FloatArray:
    """Keep mixes away from the edge, (A, K)."""
    pi = np.maximum(pi, SMALLEST)
    return np.asarray(pi / pi.sum(axis=1, keepdims=True))


def propose_mix(shape: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw mixes from Dirichlet distributions, (A, K), none of their shares zero."""
    new = np.maximum(rng.standard_gamma(shape), 1e-300)
    return start_mix(new / new.sum(axis=1, keepdims=True))


def draw_mix(
    problem: Problem, at: Parameters, counts: FloatArray, alpha: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Move the mix of every atom once (Metropolis-Hastings), (A, K), and give the share of moves accepted.

    Parameters
    ----------
    at : Parameters
        Whose mixes move.
    counts : (A, K)
        People of each atom in each cluster; mixes are proposed from Dir(alpha + counts).
    """
    return accept_mix(problem, at, propose_mix(alpha + counts, rng), np.zeros(len(counts)), rng)


def accept_mix(
    problem: Problem, at: Parameters, new: FloatArray, ratio: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Take each proposed mix with its probability; ``ratio`` (A,) is the log ratio of all but the published means."""
    pi, height, everybody = at.pi.copy(), np.log(rng.random(len(new))), np.arange(len(new))
    now, hits = fit_of_means(problem, at), 0
    for part in (
        [everybody] if problem.plain else everybody[:, None]
    ):  # atoms that share groups move one after the other
        tried = pi.copy()
        tried[part] = new[part]
        there = fit_of_means(problem, replace(at, pi=tried))
        taken = height[part] < ratio[part] + (there - now)
        pi[part[taken]] = new[part[taken]]
        now, hits = np.where(taken, there, now), hits + int(taken.sum())
    return pi, hits / len(pi)


def sweep(
    problem: Problem, at: Parameters, alpha: FloatArray, Z: Int64Array, log_f: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Draw the clusters of everybody, then (likelihood "cudia") move the mixes.

    Under "count" this is collapsed Gibbs: the cluster of every person given all others and the published means,

        P(z_i = k | .) ~ (n_pk^-i + alpha_k) f(x_i | theta_k) N(s; m(n^-i + e_k), V(n^-i + e_k)),

    and Z (R, K), people of each pair in each cluster, is changed in place.

    Returns
    -------
    by_cell : (C, K), by_atom : (A, K)
        People by row and by place.
    pi : (A, K)
        Mixes; those to expect under "count".
    accepted : float
    """
    if problem.likelihood == "cudia":
        _, by_cell, n = draw_clusters(problem, log_f, at.pi, rng)
        return by_cell, n, *draw_mix(problem, at, n, alpha, rng)
    T, sites, n = hidden_variance(at.H, at.tau2, problem.binary), problem.sites, problem.people(Z)[1]
    per, law = np.stack([at.H, T]), np.stack([sites.total(at.H, n), sites.total(T, n)])
    _sweep(Z, n, log_f, alpha, per, law, sites, rng)
    pi = (np.maximum(n, 0.0) + alpha) / (problem.size[:, None] + alpha.sum())
    return problem.people(Z)[0], n, pi, 1.0


@njit()
def _join(Z, n, per, law, sites, i, k, people):  # type: ignore[no-untyped-def]
    """Let so many people of pair i join cluster k, or leave it."""
    a, w = sites.atom[i], people * sites.each[i]
    Z[i, k] += people
    n[a, k] += w
    for b in range(len(sites.feature)):
        e, j = sites.equation[a, b], sites.feature[b]
        law[0, e] += w * sites.step[a, b] * per[0, k, j]
        law[1, e] += w * sites.step[a, b] * per[1, k, j]


@njit()
def _sweep(Z, n, log_f, alpha, per, law, sites, rng):  # type: ignore[no-untyped-def]
    R, K = Z.shape
    logs = np.empty(K)
    for i in range(R):
        c, a, w = sites.cell[i], sites.atom[i], sites.each[i]
        was = Z[i].copy()
        for old in range(K):
            for _ in range(was[old]):
                _join(Z, n, per, law, sites, i, old, -1)
                for k in range(K):
                    logs[k] = np.log(max(n[a, k], 0.0) + alpha[k]) + log_f[c, k]
                    for b in range(len(sites.feature)):
                        e, j = sites.equation[a, b], sites.feature[b]
                        if np.isnan(sites.s[e]):
                            continue
                        v = (law[1, e] + w * sites.step[a, b] * per[1, k, j]) / sites.size[e] + sites.noise[e]
                        v = max(v, 1e-14)
                        away = sites.s[e] - law[0, e] - w * sites.step[a, b] * per[0, k, j]
                        logs[k] -= 0.5 * (away * away / v + np.log(v))
                chances = np.cumsum(np.exp(logs - logs.max()))
                new = min(np.searchsorted(chances, rng.random() * chances[-1], side="right"), K - 1)
                _join(Z, n, per, law, sites, i, new, 1)


def eta_directions(problem: Problem, prior: Prior, at: Parameters, shares: FloatArray) -> FloatArray:
    """Directions in which eta (free coordinates) and log tau^2 are about independent, with their length as rows."""
    K, d = at.H.shape
    n_real = int((~problem.binary).sum())
    out = np.eye(K * d + n_real)
    slope = from_free(to_free(at.H, problem.binary, prior.scale), problem.binary, prior.scale)[1]
    for j, design in enumerate(designs_of(problem, at, shares)):
        A = (design.D / design.variance[:, None]).T @ design.D
        ridge = 0.0 if prior.on_logit[j] else prior.precision[j]
        A = slope[:, j, None] * (A + ridge * np.eye(K)) * slope[:, j]
        values, vectors = np.linalg.eigh(A + (0.3 if problem.binary[j] else 1e-3) * np.eye(K))
        rows = np.arange(K) * d + j
        out[np.ix_(rows, rows)] = (vectors / np.sqrt(values)).T
    return out


def slice_along(
    log_target: Callable[[FloatArray], float], x: FloatArray, directions: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Move once along each direction by slice sampling (Neal 2003, stepping out)."""
    height = log_target(x)
    for direction in directions:
        level = height - rng.standard_exponential()
        low = -rng.random() * 2.0
        ends = [low, low + 2.0]
        for i, step in enumerate((-2.0, 2.0)):
            for _ in range(20):
                if log_target(x + ends[i] * direction) <= level:
                    break
                ends[i] += step
        low, high = ends
        while high - low > 1e-10:
            at = low + rng.random() * (high - low)
            there = log_target(x + at * direction)
            if there > level:
                x, height = x + at * direction, there
                break
            low, high = (at, high) if at < 0 else (low, at)
    return x


def draw_eta(
    problem: Problem, prior: Prior, at: Parameters, directions: FloatArray, rng: np.random.Generator
) -> Parameters:
    """Move eta and tau^2 given the mixes (cudia) or the shares of the drawn clusters (count), which are ``at.pi``."""
    K, d = at.H.shape
    real, scale = ~problem.binary, prior.scale

    def read(x: FloatArray) -> tuple[Parameters, FloatArray]:
        H, slope = from_free(x[: K * d].reshape(K, d), problem.binary, scale)
        tau2 = at.tau2.copy()
        tau2[real] = scale[real] * np.exp(np.clip(x[K * d :], -30, 30))
        return replace(at, H=H, tau2=tau2), slope

    def log_target(x: FloatArray) -> float:
        if np.abs(x).max() > 1e6:
            return -np.inf
        there, slope = read(x)
        # densities are those of eta, or of logit eta where the prior is on the logit: the Jacobian of what is moved in
        jacobian = np.log(there.tau2[real]).sum() + np.log(np.maximum(slope[:, ~prior.on_logit], 1e-300)).sum()
        own = prior.of_means(there.H, there.tau2, real)[0]
        return float(own + jacobian + fit_of_means(problem, there).sum())

    free = to_free(at.H, problem.binary, scale).ravel()
    start = np.concatenate([free, np.log(at.tau2[real] / scale[real])])
    return read(slice_along(log_target, start, directions, rng))[0]


def run_chain(problem: Problem, fit: Fit, rng: np.random.Generator, step: Step | None = None) -> Parameters:
    """Run the chain from a fit; ``step`` is called after every sweep. Gives DRAWS draws of the parameters."""
    prior, size = fit.prior, problem.size[:, None]
    at = replace(fit.parameters, pi=start_mix(fit.parameters.pi))
    log_f = problem.log_density(at.theta)
    Z, _, n = draw_clusters(problem, log_f, at.pi, rng)
    kept, directions = [], eta_directions(problem, prior, at, n / size)
    for number in range(BURN + DRAWS * THIN):
        by_cell, n, pi, _ = sweep(problem, at, prior.alpha, Z, log_f, rng)
        mix = pi
        if problem.likelihood == "count":
            mix, pi = n / size, propose_mix(np.maximum(n, 0.0) + prior.alpha, rng)
        theta = tuple(g.draw(s, rng) for g, s in zip(problem.families, problem.sums(by_cell), strict=True))
        log_f = problem.log_density(theta)
        at = replace(draw_eta(problem, prior, replace(at, pi=mix), directions, rng), theta=theta, pi=pi)
        if number < BURN and number % REFRESH == 0:
            directions = eta_directions(problem, prior, at, n / size)
        if number >= BURN and (number - BURN + 1) % THIN == 0:
            kept.append(at)
        if step is not None:
            step()
    return Parameters.joined(kept, np.stack)
