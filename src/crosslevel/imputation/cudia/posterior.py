"""The collapsed log posterior (eq 7 corrected): z summed out, every parameter free, with its gradient.

    sum_i log sum_k pi_{p(i)k} f(x_i | theta_k)  +  log p(s | .)  +  log priors of theta, pi, eta and tau^2

Without the published means it is the mixture of the two-stage method; with them it is what ``map`` maximises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import softmax

from crosslevel.imputation.cudia import laws
from crosslevel.imputation.cudia.hidden import EtaPrior, from_free, to_free
from crosslevel.imputation.cudia.kernels import mean_field, tilt, weigh
from crosslevel.imputation.cudia.problem import Problem
from crosslevel.imputation.cudia.proportions import MixPrior
from crosslevel.typing import FloatArray

__all__ = ["Ascent", "Parameters", "ascend", "log_density", "log_posterior"]


@dataclass(frozen=True)
class Parameters:
    """Everything that is estimated.

    Attributes
    ----------
    theta : tuple of (K, q)
        Free parameters of each family of x.
    pi : (A, K)
    H : (K, d_u)
    tau2 : (d_u,)
    """

    theta: tuple[FloatArray, ...]
    pi: FloatArray
    H: FloatArray
    tau2: FloatArray

    @property
    def n_clusters(self) -> int:
        """Clusters, K."""
        return self.pi.shape[1]

    def reordered(self, order: npt.NDArray[np.intp]) -> Parameters:
        """The same with the clusters in another order."""
        # contiguous, so that sums come out the same to the last bit after loading
        pi = np.ascontiguousarray(self.pi[:, order])
        return Parameters(tuple(np.ascontiguousarray(t[order]) for t in self.theta), pi, self.H[order], self.tau2)


@dataclass(frozen=True)
class Ascent:
    """Where an optimisation ended.

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


def log_density(problem: Problem, theta: Sequence[FloatArray]) -> FloatArray:
    """Log density of every distinct row in every cluster, (C, K)."""
    first, *rest = [f.log_density(t, problem.X) for f, t in zip(problem.families, theta, strict=True)]
    for other in rest:
        first = first + other
    return first


def log_posterior(
    problem: Problem,
    at: Parameters,
    mix_prior: MixPrior,
    prior: EtaPrior | None,
    law: str = "cudia",
) -> tuple[float, tuple[FloatArray, ...], FloatArray, FloatArray, FloatArray]:
    """Value, and gradient in theta (free), the logits of pi, eta and tau^2.

    Parameters
    ----------
    prior : EtaPrior or None
        None leaves the published means out.
    law : {"cudia", "count"}
        Under "count" the means' law given x is used, in which each person's z is summed out.
    """
    log_f = log_density(problem, at.theta)
    value, by_cell, by_atom = weigh(log_f, at.pi, problem.cell, problem.atom, problem.weight)
    by_log_pi = by_atom.copy()
    by_H, by_tau2 = np.zeros_like(at.H), np.zeros_like(at.tau2)
    if prior is not None:
        if law == "cudia":
            slopes = laws.marginal_slopes(problem, at.pi, at.H, at.tau2)
            by_log_pi += slopes.pi * at.pi
            by_H += slopes.H
        else:
            f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
            size = problem.atom_weight
            mean_r, cross = mean_field(f, at.pi, problem.cell, problem.atom, problem.weight, at.H)
            slopes, by_cross = laws.given_x_slopes(
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
    law: str = "cudia",
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
        value, by_theta, by_logits, by_H, by_tau2 = log_posterior(problem, at, mix_prior, prior, law)
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
