"""The collapsed log posterior (eq 7 corrected): z summed out, every parameter free, with its gradient; and the mixture of x alone.

    sum_i log sum_k pi_{p(i)k} f(x_i | theta_k)  +  log p(s | .)  +  log priors of theta, pi, eta and tau^2

Without the published means it is the mixture of the two-stage method: EM to get near, L-BFGS to arrive, several starts because there
are several modes. With them it is what ``map`` maximizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, expit, logit, polygamma, softmax

from crosslevel.imputation.cudia.model import Fit, Parameters, Prior, Problem, slopes_of_means
from crosslevel.numerics.compiled import njit
from crosslevel.typing import BoolArray, FloatArray, Int64Array, Step

EDGE = 1e-6
"""Cluster means of shares are kept this far from 0 and 1, so that no variance vanishes and no person is certain."""
LEAST = 1e-300
"""A mix is never less: a step too far can bring the only cluster that a row fits to nothing, and then nothing could be divided."""
SMALLEST_ALPHA, LARGEST_ALPHA = 1e-2, 1e4
EM_STEPS = 60
"""Steps of EM from each start before the better starts are taken to the end by L-BFGS."""
FIRST_CLIMB, LAST_CLIMB = 150, 2000
"""Steps of L-BFGS from every start; the FINISHED best go on to the end."""
FINISHED = 2
SAME_MODE = 0.1
"""Two starts have found the same mode when their log posteriors are this near."""
ALPHA_ROUNDS = 5
TOLERANCE = 1e-6
"""A climb has converged when no entry of the gradient per person, in scaled coordinates, is larger."""


def to_free(H: FloatArray, binary: BoolArray, scale: FloatArray) -> FloatArray:
    """Unbounded coordinates of the cluster means: logits, or units of the feature's spread."""
    return np.where(binary, logit(np.clip(np.where(binary, H, 0.5), EDGE, 1.0 - EDGE)), H / np.sqrt(scale))


def from_free(free: FloatArray, binary: BoolArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cluster means, and their derivative in the free coordinates."""
    p, root = expit(free), np.sqrt(scale)
    H = np.where(binary, EDGE + (1 - 2 * EDGE) * p, free * root)
    return H, np.where(binary, (1 - 2 * EDGE) * p * (1 - p), root * np.ones(p.shape))


def update_mix(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """Most probable mixes given expected people by place and cluster, (A, K)."""
    n = np.maximum(counts + np.maximum(alpha - 1.0, 0.0), 1e-12)
    return np.asarray(n / n.sum(axis=1, keepdims=True))


def expected_log(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """E[log pi] under Dirichlet(alpha + counts), (A, K)."""
    shape = counts + alpha
    return np.asarray(digamma(shape) - digamma(shape.sum(axis=1, keepdims=True)))


def learn_alpha(mean_log: FloatArray, alpha: FloatArray, steps: int = 100) -> FloatArray:
    """Exponents of the Dirichlet that maximize P[lnG(sum a) - sum lnG(a)] + sum (a - 1) E[log pi] (Minka's Newton).

    Parameters
    ----------
    mean_log : (K,)
        Mean over places of E[log pi].
    alpha : (K,)
        Start.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = np.log(rng.dirichlet([2.0, 5.0], 20000)).mean(axis=0)
    >>> learn_alpha(draws, np.ones(2)).round(1).tolist()
    [2.0, 5.0]
    """
    a = np.clip(np.asarray(alpha, dtype=np.float64), SMALLEST_ALPHA, LARGEST_ALPHA)
    for _ in range(steps):
        slope = digamma(a.sum()) - digamma(a) + mean_log
        q, z = -polygamma(1, a), polygamma(1, a.sum())
        step = (slope - (slope / q).sum() / (1.0 / z + (1.0 / q).sum())) / q
        new = np.clip(np.where(a - step > 0, a - step, a / 2), SMALLEST_ALPHA, LARGEST_ALPHA)
        if np.max(np.abs(new - a) / a) < 1e-8:
            return new
        a = new
    return a


@njit(fastmath={"contract", "reassoc"})
def add_responsibilities(f, pi, cell, atom, weight):  # type: ignore[no-untyped-def]
    """Log likelihood of x, and weighted responsibilities added up by row (C, K) and by place (A, K)."""
    C, K = f.shape
    by_cell, by_atom = np.zeros((C, K)), np.zeros(pi.shape)
    r = np.empty(K)
    value = 0.0
    for i in range(len(cell)):
        c, a, w = cell[i], atom[i], weight[i]
        total = 0.0
        for k in range(K):
            r[k] = max(pi[a, k], LEAST) * f[c, k]
            total += r[k]
        value += w * np.log(total)
        scale = w / total
        for k in range(K):
            by_cell[c, k] += scale * r[k]
            by_atom[a, k] += scale * r[k]
    return value, by_cell, by_atom


def weigh(problem: Problem, at: Parameters) -> tuple[float, FloatArray, FloatArray]:
    """Log likelihood of x (eq 7 corrected), and expected people by row and by place.

    Returns
    -------
    log_likelihood : float
        ``sum weight log sum_k pi_k f_k``.
    by_cell : (C, K)
        Sums of weight times responsibility; the gradient in the log densities.
    by_atom : (A, K)
        The same by place; the gradient in ``log pi``.
    """
    log_f = problem.log_density(at.theta)
    top = log_f.max(axis=1)
    cell, weight = problem.cell, problem.weight
    value, by_cell, by_atom = add_responsibilities(np.exp(log_f - top[:, None]), at.pi, cell, problem.atom, weight)
    return value + float((weight * top[cell]).sum()), by_cell, by_atom


def responsibilities(log_f: FloatArray, pi: FloatArray, cell: Int64Array, atom: Int64Array) -> FloatArray:
    """Probability of each cluster for each pair (eq 26 corrected: weigh first, then normalize), (R, K)."""
    f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
    r = np.maximum(pi, LEAST)[atom] * f[cell]
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def log_posterior(
    problem: Problem, prior: Prior, at: Parameters, *, means: bool
) -> tuple[float, tuple[FloatArray, ...], FloatArray, FloatArray, FloatArray]:
    """Value, and gradient in theta (free), the logits of pi, eta and tau^2; without ``means`` the published means are left out."""
    value, by_cell, by_log_pi = weigh(problem, at)
    by_H, by_tau2 = np.zeros_like(at.H), np.zeros_like(at.tau2)
    if means:
        found, by_pi, by_H, by_tau2 = slopes_of_means(problem, at)
        more, more_H, more_tau2 = prior.of_means(at.H, at.tau2, ~problem.binary)
        value += found + more
        by_log_pi = by_log_pi + by_pi * at.pi
        by_H, by_tau2 = by_H + more_H, by_tau2 + more_tau2
    by_theta = []
    for family, t, sums in zip(problem.families, at.theta, problem.sums(by_cell), strict=True):
        value += float((family.natural(t) @ family.prior).sum())
        by_theta.append(family.slopes(sums, t))
    # log pi_k = logit_k - log sum exp: every gradient in log pi becomes one in the logits
    by_logits = by_log_pi - by_log_pi.sum(axis=1, keepdims=True) * at.pi
    more, slope = prior.of_mix(np.log(np.maximum(at.pi, 1e-300)))
    return value + more, tuple(by_theta), by_logits + slope, by_H, by_tau2


def ascend(
    problem: Problem, prior: Prior, start: Parameters, *, means: bool = False, max_steps: int = LAST_CLIMB
) -> tuple[Parameters, dict[str, Any]]:
    """Climb the log posterior by L-BFGS, with the published means or without; also gives what the search says of itself.

    The gradient is its largest entry, per person; the log posterior is up to a constant.
    """
    n, A = float(problem.weight.sum()), len(problem.size)
    K, real, scale = start.pi.shape[1], ~problem.binary, problem.spreads
    root = np.sqrt(problem.size / n * A)[:, None]
    shapes = [t.shape for t in start.theta]
    sizes = [*(q * k for k, q in shapes), A * K, start.H.size if means else 0]
    cuts = np.cumsum(sizes)

    def unpack(x: FloatArray) -> tuple[Parameters, FloatArray]:
        *theta, logits, free, log_tau2 = np.split(x, cuts)
        at = replace(
            start,
            theta=tuple(p.reshape(s) for p, s in zip(theta, shapes, strict=True)),
            pi=softmax(logits.reshape(A, K) / root, axis=1),
        )
        if not means:
            return at, np.zeros(0)
        H, slope = from_free(free.reshape(K, -1), problem.binary, scale)
        tau2 = start.tau2.copy()
        tau2[real] = scale[real] * np.exp(log_tau2)
        return replace(at, H=H, tau2=tau2), slope

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        at, slope = unpack(x)
        value, by_theta, by_logits, by_H, by_tau2 = log_posterior(problem, prior, at, means=means)
        parts = [*(t.ravel() for t in by_theta), (by_logits / root).ravel()]
        if means:
            parts += [(by_H * slope).ravel(), (by_tau2 * at.tau2)[real]]
        return -value / n, -np.concatenate(parts) / n

    logits = np.log(np.maximum(start.pi, 1e-8))
    logits -= logits.mean(axis=1, keepdims=True)
    x0 = [*(t.ravel() for t in start.theta), (logits * root).ravel()]
    if means:
        x0 += [to_free(start.H, problem.binary, scale).ravel(), np.log(start.tau2[real] / scale[real])]
    options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "maxcor": 30, "ftol": 1e-13, "gtol": TOLERANCE}
    found = minimize(loss, np.concatenate(x0), jac=True, method="L-BFGS-B", options=options)
    gradient = float(np.abs(found.jac).max())
    return unpack(found.x)[0], {
        "converged": bool(found.status == 0 or gradient < 10 * TOLERANCE),
        "gradient": gradient,
        "steps": int(found.nit),
        "log_posterior": -float(found.fun) * n,
    }


def random_start(problem: Problem, n_clusters: int, rng: np.random.Generator) -> Parameters:
    """Make parameters from responsibilities centered on a randomly chosen row per cluster."""
    C = len(problem.X)
    by_row = np.bincount(problem.cell, problem.weight, C)
    scale = np.nanstd(problem.X, axis=0)
    Z = np.where(np.isfinite(problem.X), problem.X, np.nanmean(problem.X, axis=0)) / np.maximum(scale, 1e-12)
    distance = np.empty((C, n_clusters))
    chance = by_row / by_row.sum()
    for k in range(n_clusters):  # as in k-means++: far rows are likelier
        distance[:, k] = ((Z - Z[rng.choice(C, p=chance)]) ** 2).sum(axis=1)
        weight = by_row * distance[:, : k + 1].min(axis=1)
        chance = weight / weight.sum() if weight.sum() > 0 else by_row / by_row.sum()
    r = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True)))
    r /= r.sum(axis=1, keepdims=True)
    W = by_row[:, None] * r
    pi = np.tile(W.sum(axis=0) / W.sum(), (len(problem.size), 1))
    return Parameters(problem.peak(W), pi, np.tile(problem.centers, (n_clusters, 1)), problem.spreads)


def em(problem: Problem, prior: Prior, at: Parameters, tolerance: float = 1e-9) -> Parameters:
    """Climb by EM."""
    value = -np.inf
    for _ in range(EM_STEPS):
        now, by_cell, by_atom = weigh(problem, at)
        at = replace(at, theta=problem.peak(by_cell), pi=update_mix(by_atom, prior.alpha))
        if abs(now - value) < tolerance * abs(now):
            break
        value = now
    return at


def fit_mixture(problem: Problem, prior: Prior, seed: int, n_restarts: int = 6, step: Step | None = None) -> Fit:
    """Fit the mixture of x from several starts, and learn the exponents of the mixes where the prior says so.

    ``step`` is called after every start.
    """
    n_clusters = len(prior.alpha)
    rng = np.random.default_rng([seed, n_clusters])
    near = []
    for _ in range(n_restarts):
        near.append(em(problem, prior, random_start(problem, n_clusters, rng)))
        if step is not None:
            step()
    climbs = sorted((ascend(problem, prior, at, max_steps=FIRST_CLIMB) for at in near), key=_depth)
    climbs[:FINISHED] = [ascend(problem, prior, at) for at, _ in climbs[:FINISHED]]
    climbs.sort(key=_depth)
    modes = [-_depth(climb) for climb in climbs]
    best, convergence = climbs[0]
    people = weigh(problem, best)[2]
    for _ in range(ALPHA_ROUNDS if prior.learn else 0):
        alpha = learn_alpha(expected_log(people, prior.alpha).mean(axis=0), prior.alpha)
        change = float(np.abs(np.log(alpha / prior.alpha)).max())
        prior = replace(prior, alpha=alpha)
        best, convergence = ascend(problem, prior, best)
        people = weigh(problem, best)[2]
        if change < 1e-3:
            break
    number = 1 + int((np.diff(modes) < -SAME_MODE).sum())
    convergence |= {"restarts": n_restarts, "modes": number, "mode_values": modes}
    return Fit(best, prior, people / problem.size[:, None], convergence)


def _depth(climb: tuple[Parameters, dict[str, Any]]) -> float:
    return -float(climb[1]["log_posterior"])
