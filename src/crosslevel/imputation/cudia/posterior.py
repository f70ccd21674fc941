"""The collapsed log posterior (eq 7 corrected): z summed out, every parameter free, with its gradient; and the mixture of x alone.

    sum_i log sum_k pi_{p(i)k} f(x_i | theta_k)  +  log p(s | .)  +  log priors of theta, pi, eta and tau^2

Without the published means it is the mixture of the two-stage method: EM to get near, L-BFGS to arrive, several starts because there
are several modes. With them it is what ``map`` maximizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, polygamma, softmax

from crosslevel.imputation.cudia.kernels import LEAST, mean_field, tilt
from crosslevel.imputation.cudia.model import Parameters, Problem, given_x_slopes, log_density, marginal_slopes
from crosslevel.imputation.cudia.regression import EtaPrior, from_free, to_free
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array, IntArray, Step

SMALLEST_ALPHA, LARGEST_ALPHA = 1e-2, 1e4
EM_STEPS = 60
"""Steps of EM from each start before the better starts are taken to the end by L-BFGS."""
FIRST_CLIMB = 150
"""Steps of L-BFGS from every start; the FINISHED best go on to the end."""
FINISHED = 2
SAME_MODE = 0.1
"""Two starts have found the same mode when their log posteriors are this near."""


@dataclass(frozen=True)
class MixPrior:
    """Prior of pi_p.

    Attributes
    ----------
    kind : {"dirichlet", "logistic_normal"}
    alpha : (K,)
        Of the Dirichlet.
    mean, variance : (K,)
        Of the centered logits of the logistic normal.
    """

    kind: str
    alpha: FloatArray
    mean: FloatArray
    variance: FloatArray

    @classmethod
    def dirichlet(cls, alpha: FloatArray) -> MixPrior:
        """Make a Dirichlet prior."""
        return cls("dirichlet", np.asarray(alpha, dtype=np.float64), np.zeros(len(alpha)), np.ones(len(alpha)))

    def reordered(self, order: IntArray) -> MixPrior:
        """The same with the clusters in another order."""
        return MixPrior(self.kind, self.alpha[order], self.mean[order], self.variance[order])

    def log_density(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Log prior of mixes given by logits (A, K), with its gradient.

        The Dirichlet density is that of pi itself, not of its logits; learned exponents below one are taken as one, since a mode
        at the edge would say that a cluster is absent for certain.
        """
        pi = softmax(logits, axis=1)
        if self.kind == "dirichlet":
            extra = np.maximum(self.alpha - 1.0, 0.0)
            log_pi = np.log(np.maximum(pi, 1e-300))
            return float((log_pi @ extra).sum()), extra - extra.sum() * pi
        centered = logits - logits.mean(axis=1, keepdims=True)
        weighted = (centered - self.mean) / self.variance
        slope = -weighted
        return float(-0.5 * ((centered - self.mean) * weighted).sum()), slope - slope.mean(axis=1, keepdims=True)


def update_mix(counts: FloatArray, prior: MixPrior, pi: FloatArray) -> FloatArray:
    """Most probable mixes given expected people by place and cluster, (A, K)."""
    if prior.kind == "dirichlet":
        n = counts + np.maximum(prior.alpha - 1.0, 0.0)
        n = np.maximum(n, 1e-12)
        return n / n.sum(axis=1, keepdims=True)
    logits = np.log(np.maximum(pi, 1e-12))
    total = counts.sum(axis=1, keepdims=True)
    for _ in range(5):
        logits = logits - logits.mean(axis=1, keepdims=True)
        now = softmax(logits, axis=1)
        slope = counts - total * now - (logits - prior.mean) / prior.variance
        logits = logits + np.clip(slope / (total * now + 1.0 / prior.variance), -1.0, 1.0)
    return softmax(logits, axis=1)


def expected_log(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """E[log pi] under Dirichlet(alpha + counts), (A, K)."""
    shape = counts + alpha
    return digamma(shape) - digamma(shape.sum(axis=1, keepdims=True))


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


def learn_logistic_normal(pi: FloatArray) -> MixPrior:
    """Mean and variance of the centered logits of mixes (A, K), with the weight of one place at variance 1."""
    logits = np.log(np.maximum(pi, 1e-9))
    logits = logits - logits.mean(axis=1, keepdims=True)
    mean = logits.mean(axis=0)
    variance = (((logits - mean) ** 2).sum(axis=0) + 1.0) / (len(pi) + 1.0)
    return MixPrior("logistic_normal", np.ones(pi.shape[1]), mean, np.maximum(variance, 1e-3))


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


def weigh(
    log_f: FloatArray, pi: FloatArray, cell: Int64Array, atom: Int64Array, weight: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Log likelihood of x (eq 7 corrected), and expected people by row and by place.

    Parameters
    ----------
    log_f : (C, K)
        Log density of each distinct row in each cluster.
    pi : (A, K)
    cell, atom, weight : (R,)

    Returns
    -------
    log_likelihood : float
        ``sum weight log sum_k pi_k f_k``.
    by_cell : (C, K)
        Sums of weight times responsibility; the gradient in ``log_f``.
    by_atom : (A, K)
        The same by place; the gradient in ``log pi``.
    """
    top = log_f.max(axis=1)
    value, by_cell, by_atom = add_responsibilities(np.exp(log_f - top[:, None]), pi, cell, atom, weight)
    return value + float((weight * top[cell]).sum()), by_cell, by_atom


def responsibilities(log_f: FloatArray, pi: FloatArray, cell: Int64Array, atom: Int64Array) -> FloatArray:
    """Probability of each cluster for each pair (eq 26 corrected: weigh first, then normalize), (R, K)."""
    f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
    r = np.maximum(pi, LEAST)[atom] * f[cell]
    return r / r.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Ascent:
    """Where an optimization ended.

    Attributes
    ----------
    parameters : Parameters
    value : float
        Log posterior, up to a constant.
    steps : int
    gradient : float
        Largest entry of the gradient, per person.
    converged : bool
    """

    parameters: Parameters
    value: float
    steps: int
    gradient: float
    converged: bool

    @property
    def convergence(self) -> dict[str, Any]:
        """What the search says of itself."""
        return {
            "converged": self.converged,
            "gradient": self.gradient,
            "steps": self.steps,
            "log_posterior": self.value,
        }


def log_posterior(
    problem: Problem, at: Parameters, mix_prior: MixPrior, prior: EtaPrior | None, likelihood: str = "cudia"
) -> tuple[float, tuple[FloatArray, ...], FloatArray, FloatArray, FloatArray]:
    """Value, and gradient in theta (free), the logits of pi, eta and tau^2.

    Parameters
    ----------
    prior : EtaPrior or None
        None leaves the published means out.
    likelihood : {"cudia", "count"}
        Under "count" the distribution of the means given x is used, in which each person's z is summed out.
    """
    log_f = log_density(problem, at.theta)
    value, by_cell, by_atom = weigh(log_f, at.pi, problem.cell, problem.atom, problem.weight)
    by_log_pi = by_atom.copy()
    by_H, by_tau2 = np.zeros_like(at.H), np.zeros_like(at.tau2)
    if prior is not None:
        if likelihood == "cudia":
            slopes = marginal_slopes(problem, at.pi, at.H, at.tau2)
            by_log_pi += slopes.pi * at.pi
            by_H += slopes.H
        else:
            f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
            size = problem.atom_weight
            mean_r, cross = mean_field(f, at.pi, problem.cell, problem.atom, problem.weight, at.H)
            slopes, by_cross = given_x_slopes(
                problem, mean_r / size[:, None], cross / size[:, None, None], at.H, at.tau2
            )
            through_cell, through_atom, through_H = tilt(
                f,
                at.pi,
                problem.cell,
                problem.atom,
                problem.weight,
                at.H,
                slopes.pi / size[:, None],
                by_cross / size[:, None, None],
            )
            by_cell += through_cell
            by_log_pi += through_atom
            by_H += slopes.H + through_H
        by_tau2 += slopes.tau2
        more, more_H, more_tau2 = prior.log_density(at.H, at.tau2, problem.hidden)
        value += slopes.value + more
        by_H += more_H
        by_tau2 += more_tau2
    by_theta = []
    for family, t in zip(problem.families, at.theta, strict=True):
        more, slope = family.log_prior(t)
        value += more
        by_theta.append(family.gradient(t, problem.X, by_cell) + slope)
    # log pi_k = logit_k - log sum exp: every gradient in log pi becomes one in the logits
    by_logits = by_log_pi - by_log_pi.sum(axis=1, keepdims=True) * at.pi
    more, slope = mix_prior.log_density(np.log(np.maximum(at.pi, 1e-300)))
    return value + more, tuple(by_theta), by_logits + slope, by_H, by_tau2


def ascend(
    problem: Problem,
    start: Parameters,
    mix_prior: MixPrior,
    prior: EtaPrior | None,
    likelihood: str = "cudia",
    *,
    max_steps: int = 2000,
    tolerance: float = 1e-6,
) -> Ascent:
    """Climb the log posterior by L-BFGS.

    Parameters
    ----------
    tolerance : float
        The climb has converged when no entry of the gradient per person, in scaled coordinates, is larger, or when the value no
        longer rises by 1e-12 of itself.
    """
    n = float(problem.weight.sum())
    scale = problem.spreads() if problem.n_hidden else np.ones(0)
    root = np.sqrt(problem.atom_weight / n * problem.n_atoms)[:, None]
    real = np.array([kind == "gaussian" for kind in problem.hidden], dtype=bool)
    shapes = [t.shape for t in start.theta]
    cuts = np.cumsum([int(np.prod(s)) for s in shapes])
    K = start.n_clusters

    def unpack(x: FloatArray) -> tuple[Parameters, FloatArray]:
        parts = np.split(x[: cuts[-1]], cuts[:-1])
        theta = tuple(p.reshape(s) for p, s in zip(parts, shapes, strict=True))
        rest = x[cuts[-1] :]
        logits = rest[: problem.n_atoms * K].reshape(problem.n_atoms, K) / root
        if prior is None:
            return replace(start, theta=theta, pi=softmax(logits, axis=1)), np.zeros(0)
        rest = rest[problem.n_atoms * K :]
        H, slope = from_free(rest[: K * problem.n_hidden].reshape(K, -1), problem.hidden, scale)
        tau2 = start.tau2.copy()
        tau2[real] = scale[real] * np.exp(rest[K * problem.n_hidden :])
        return Parameters(theta, softmax(logits, axis=1), H, tau2), slope

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        at, slope = unpack(x)
        value, by_theta, by_logits, by_H, by_tau2 = log_posterior(problem, at, mix_prior, prior, likelihood)
        parts = [*(t.ravel() for t in by_theta), (by_logits / root).ravel()]
        if prior is not None:
            parts += [(by_H * slope).ravel(), (by_tau2 * at.tau2)[real]]
        return -value / n, -np.concatenate(parts) / n

    logits = np.log(np.maximum(start.pi, 1e-8))
    logits -= logits.mean(axis=1, keepdims=True)
    x0 = [*(t.ravel() for t in start.theta), (logits * root).ravel()]
    if prior is not None:
        x0 += [to_free(start.H, problem.hidden, scale).ravel(), np.log(start.tau2[real] / scale[real])]
    found = minimize(
        loss,
        np.concatenate(x0),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_steps, "maxfun": 4 * max_steps, "maxcor": 30, "ftol": 1e-13, "gtol": tolerance},
    )
    at, _ = unpack(found.x)
    gradient = float(np.abs(found.jac).max())
    return Ascent(
        at, -float(found.fun) * n, int(found.nit), gradient, bool(found.status == 0 or gradient < 10 * tolerance)
    )


@dataclass(frozen=True)
class Mixture:
    """The mixture at its best mode.

    Attributes
    ----------
    ascent : Ascent
    mix_prior : MixPrior
    people : (A, K)
        Expected people by place and cluster.
    modes : (n_restarts,)
        Log posteriors the starts ended at, best first.
    """

    ascent: Ascent
    mix_prior: MixPrior
    people: FloatArray
    modes: FloatArray

    @property
    def parameters(self) -> Parameters:
        """Parameters at the best mode."""
        return self.ascent.parameters

    @property
    def convergence(self) -> dict[str, Any]:
        """What the search says of itself."""
        own = {"restarts": len(self.modes), "modes": self.n_modes, "mode_values": [float(v) for v in self.modes]}
        return self.ascent.convergence | own

    @property
    def n_modes(self) -> int:
        """Different modes among the starts."""
        return 1 + int((np.diff(self.modes) < -SAME_MODE).sum())


def expected_people(problem: Problem, at: Parameters) -> tuple[float, FloatArray, FloatArray]:
    """Log likelihood of x, expected people by row and cluster (C, K), and by place and cluster (A, K)."""
    return weigh(log_density(problem, at.theta), at.pi, problem.cell, problem.atom, problem.weight)


def random_start(problem: Problem, n_clusters: int, rng: np.random.Generator) -> Parameters:
    """Make parameters from responsibilities centered on a randomly chosen row per cluster."""
    C = len(problem.X)
    by_row = np.bincount(problem.cell, problem.weight, C)
    scale = np.nanstd(problem.X, axis=0)
    Z = np.where(np.isfinite(problem.X), problem.X, np.nanmean(problem.X, axis=0)) / np.maximum(scale, 1e-12)
    centers = np.empty((n_clusters, Z.shape[1]))
    away = np.full(C, np.inf)
    chance = by_row / by_row.sum()
    for k in range(n_clusters):  # as in k-means++: far rows are likelier
        centers[k] = Z[rng.choice(C, p=chance)]
        away = np.minimum(away, ((Z - centers[k]) ** 2).sum(axis=1))
        weight = by_row * away
        chance = weight / weight.sum() if weight.sum() > 0 else by_row / by_row.sum()
    distance = (
        ((Z[:, None] - centers) ** 2).sum(axis=2) if C * n_clusters * Z.shape[1] < 5e7 else _distances(Z, centers)
    )
    r = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True)))
    r /= r.sum(axis=1, keepdims=True)
    W = by_row[:, None] * r
    theta = tuple(f.maximize(W, problem.X, None) for f in problem.families)
    pi = np.tile(W.sum(axis=0) / W.sum(), (problem.n_atoms, 1))
    center = problem.centers()
    return Parameters(theta, pi, np.tile(center, (n_clusters, 1)), problem.spreads())


def _distances(Z: FloatArray, centers: FloatArray) -> FloatArray:
    return (Z**2).sum(axis=1)[:, None] - 2 * Z @ centers.T + (centers**2).sum(axis=1)


def em(
    problem: Problem, at: Parameters, mix_prior: MixPrior, steps: int, tolerance: float = 1e-9
) -> tuple[Parameters, float]:
    """Climb by EM; the log likelihood of x is that before the last step."""
    value = -np.inf
    for _ in range(steps):
        now, by_cell, by_atom = expected_people(problem, at)
        theta = tuple(f.maximize(by_cell, problem.X, t) for f, t in zip(problem.families, at.theta, strict=True))
        at = replace(at, theta=theta, pi=update_mix(by_atom, mix_prior, at.pi))
        if abs(now - value) < tolerance * abs(now):
            return at, now
        value = now
    return at, value


def fit_mixture(
    problem: Problem,
    n_clusters: int,
    seed: int,
    *,
    n_restarts: int = 6,
    mix_prior: MixPrior | None = None,
    learn: str | None = None,
    max_steps: int = 2000,
    step: Step | None = None,
) -> Mixture:
    """Fit the mixture of x from several starts.

    Parameters
    ----------
    seed : int
    mix_prior : MixPrior, optional
        Uniform when not given.
    learn : {"dirichlet", "logistic_normal"}, optional
        Learn the prior of the mixes too, in a few rounds. ``step`` is called after every start.
    """
    prior = MixPrior.dirichlet(np.ones(n_clusters)) if mix_prior is None else mix_prior
    rng = np.random.default_rng([seed, n_clusters])  # the same whether the number of clusters was chosen or given
    near = []
    for _ in range(n_restarts):
        at, value = em(problem, random_start(problem, n_clusters, rng), prior, EM_STEPS)
        near.append((value, at))
        if step is not None:
            step()
    ascents = [ascend(problem, at, prior, None, max_steps=FIRST_CLIMB) for _, at in near]
    ascents.sort(key=lambda a: -a.value)
    ascents[:FINISHED] = [ascend(problem, a.parameters, prior, None, max_steps=max_steps) for a in ascents[:FINISHED]]
    ascents.sort(key=lambda a: -a.value)
    best = ascents[0]
    people = expected_people(problem, best.parameters)[2]
    for _ in range(5 if learn else 0):
        if learn == "dirichlet":
            alpha = learn_alpha(expected_log(people, prior.alpha).mean(axis=0), prior.alpha)
            change = float(np.abs(np.log(alpha / prior.alpha)).max())
            prior = MixPrior.dirichlet(alpha)
        else:
            new = learn_logistic_normal(best.parameters.pi)
            change = float(np.abs(new.mean - prior.mean).max())
            prior = new
        best = ascend(problem, best.parameters, prior, None, max_steps=max_steps)
        people = expected_people(problem, best.parameters)[2]
        if change < 1e-3:
            break
    return Mixture(best, prior, people, np.array([a.value for a in ascents]))
