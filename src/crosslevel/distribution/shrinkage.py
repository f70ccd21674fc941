"""What a bag says about its label when its embedding is only a sample (eq. 8 of the paper), and the fit at a fixed penalty.

Symbols, in the basis of :mod:`~crosslevel.distribution.eigenbasis` (n bags, q coordinates):

- delta : (n, q) embeddings around their mean; S, C : (n, q) shrink factors and what remains unknown;
- a : (q,) weights, b : intercept; sigma2 : variance of the label given the embedding; eta : scale of the shrinkage kernel;
- xi = b + sum_k a_k S_k delta_k and nu = sigma2 + sum_k a_k^2 C_k : mean and variance of the label given the bag;
- rho2 : prior a ~ N(0, rho2 Q^-1), which is alpha ~ N(0, rho2 K^-1).

Labels are expected near zero mean and unit variance, so that the starting values suit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from crosslevel.distribution.eigenbasis import shrink_factors
from crosslevel.typing import FloatArray

__all__ = ["Certificate", "Mapped", "Problem", "dense_posterior", "fit_map", "label_posterior", "map_objective"]


LOG_SIGMA2 = (np.log(1e-6), np.log(1e2))
"""Bounds of the log residual variance, for labels of unit variance."""
LOG_ETA = (np.log(1e-9), np.log(1e3))
"""Bounds of the log scale of the shrinkage kernel, relative to the spread of the embeddings; see `Problem.unit`."""
LOG_RHO2 = (np.log(1e-8), np.log(1e6))
"""Bounds of the log prior variance of a, relative to one over the spread of the embeddings."""
GRADIENT = 1e-4
"""Largest gradient of the objective per bag (of at least 100), in log-likelihoods, at which a fit counts as converged."""
INTERCEPT_SD = 2.0
"""Prior standard deviation of the intercept where it needs one: on the probit scale, and for NUTS. The paper's code has 2 too."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Bags in the eigenbasis, and their labels.

    Attributes
    ----------
    delta : (n, q)
    sizes : (n,)
    s : (q,)
    y : (n,)
        Labels; -1 and 1 for a classifier.
    Q : (q, q) or None
        Precision of a under the prior with rho2 = 1; None is the identity.
    """

    delta: FloatArray
    sizes: FloatArray
    s: FloatArray
    y: FloatArray
    Q: FloatArray | None = None

    @property
    def unit(self) -> float:
        """Mean square of a coordinate: the natural size of eta, and of one over rho2."""
        found = float(np.mean(self.delta**2))
        return found if found > 0 else 1.0

    def precision(self, a: FloatArray) -> FloatArray:
        """Give Qa."""
        return a if self.Q is None else self.Q @ a


@dataclass(frozen=True)
class Certificate:
    """What a fit says about itself.

    Attributes
    ----------
    converged : bool
    objective : float
        The value reached: minus a log posterior or log evidence.
    gradient : float
        Largest entry of the gradient there, components held by a bound left out.
    iterations, starts : int
        Iterations of the best start, and starts tried.
    agreeing : int
        Starts that ended within 0.01 of the best objective.
    at_bound : tuple of str
        Parameters at the limit of their search.
    message : str
    """

    converged: bool
    objective: float
    gradient: float
    iterations: int
    starts: int
    agreeing: int
    at_bound: tuple[str, ...]
    message: str


@dataclass(frozen=True, eq=False)
class Mapped:
    """The most probable weights and hyperparameters at a fixed penalty."""

    a: FloatArray
    b: float
    sigma2: float
    eta: float
    certificate: Certificate


def label_posterior(
    problem: Problem, a: FloatArray, b: float, sigma2: float, eta: float
) -> tuple[FloatArray, FloatArray]:
    """Give mean xi and variance nu of every bag's label, for known weights.

    Examples
    --------
    >>> one = Problem(np.ones((2, 1)), np.array([1.0, np.inf]), np.array([1.0]), np.zeros(2))
    >>> xi, nu = label_posterior(one, np.array([2.0]), 1.0, 0.5, 1.0)
    >>> xi.tolist(), nu.tolist()
    ([2.0, 3.0], [2.5, 0.5])
    """
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    return b + (S * problem.delta) @ a, sigma2 + C @ (a * a)


def dense_posterior(
    alpha: FloatArray,
    mu: FloatArray,
    sizes: FloatArray,
    R: FloatArray,
    Sigma: FloatArray,
    m0: FloatArray,
    sigma2: float,
) -> tuple[FloatArray, FloatArray]:
    """Give xi and nu by the paper's formula, one d x d factorisation per bag: slow, and the check of everything else.

    Examples
    --------
    >>> eye = np.eye(1)
    >>> xi, nu = dense_posterior(np.ones(1), np.array([[2.0]]), np.array([1.0]), eye, eye, np.zeros(1), 0.5)
    >>> xi.tolist(), nu.tolist()
    ([1.0], [1.0])
    """
    xi, nu = np.empty(len(mu)), np.empty(len(mu))
    for i, N in enumerate(sizes):
        solved = np.linalg.solve(R + Sigma / N, np.column_stack([mu[i] - m0, R @ alpha]))
        xi[i] = alpha @ m0 + alpha @ R @ solved[:, 0]
        nu[i] = alpha @ R @ alpha - alpha @ R @ solved[:, 1] + sigma2
    return xi, nu


def map_objective(theta: FloatArray, problem: Problem, penalty: float) -> tuple[float, FloatArray]:
    """Give minus the log posterior and its gradient at theta = (a, b, log sigma2, log eta), in O(n q).

    1/2 sum(log nu + (y - xi)^2 / nu) + penalty/2 a'Qa, with penalty = 1/rho2.

    Parameters
    ----------
    theta : (q + 3,)
    problem : Problem
    penalty : float

    Returns
    -------
    value : float
    gradient : (q + 3,)
    """
    q = len(problem.s)
    a, b, sigma2, eta = theta[:q], theta[q], np.exp(theta[q + 1]), np.exp(theta[q + 2])
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    Z = S * problem.delta
    square = a * a
    nu = sigma2 + C @ square
    e = problem.y - b - Z @ a
    Qa = problem.precision(a)
    value = 0.5 * float(np.sum(np.log(nu) + e * e / nu)) + 0.5 * penalty * float(a @ Qa)
    by_xi, by_nu = -e / nu, 0.5 * (1.0 / nu - e * e / nu**2)
    gradient = np.empty(q + 3)
    gradient[:q] = Z.T @ by_xi + 2.0 * a * (C.T @ by_nu) + penalty * Qa
    gradient[q] = by_xi.sum()
    gradient[q + 1] = sigma2 * by_nu.sum()
    # S' = S(1 - S) along log eta, for both the mean's and the variance's factor
    left = 1.0 - S
    gradient[q + 2] = by_xi @ ((Z * left) @ a) + by_nu @ ((C * left) @ square)
    return value, gradient


def fit_map(problem: Problem, penalty: float, starts: int = 3, seed: int | None = 0) -> Mapped:
    """Find the most probable weights, residual variance and shrinkage by L-BFGS from several starts.

    Parameters
    ----------
    problem : Problem
    penalty : float
        1/rho2; the paper's ``reg`` on a mean over n bags is penalty / (2 n).
    starts : int
        The first from a ridge regression, the others around it.
    seed : int or None

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> delta = rng.normal(size=(200, 2))
    >>> problem = Problem(delta, np.full(200, np.inf), np.ones(2), delta @ [1.0, -1.0] + 0.1 * rng.normal(size=200))
    >>> found = fit_map(problem, 1e-3)
    >>> found.a.round(1).tolist(), found.certificate.converged
    ([1.0, -1.0], True)
    """
    rng = np.random.default_rng(seed)
    q, unit = len(problem.s), problem.unit
    eta_bounds = (LOG_ETA[0] + np.log(unit), LOG_ETA[1] + np.log(unit))
    bounds: list[tuple[float | None, float | None]] = [*((None, None) for _ in range(q + 1)), LOG_SIGMA2, eta_bounds]
    # the weights are searched in units in which their coordinates have variance one
    scale = np.ones(q + 3)
    scale[:q] = 1.0 / np.sqrt(np.mean(problem.delta**2, axis=0) + 1e-12 * unit)

    def scaled(t: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = map_objective(t * scale, problem, penalty)
        return value, gradient * scale

    results = []
    for k in range(max(1, starts)):
        start = np.zeros(q + 3)
        log_eta = np.log(unit) + (0.0 if k == 0 else rng.normal(0.0, 2.0))
        start[:q], start[q] = ridge_start(problem, np.exp(log_eta), max(penalty, 1e-8 * unit * len(problem.y)))
        start[:q] /= scale[:q]
        start[q + 1], start[q + 2] = np.log(0.3), log_eta
        options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-7}
        results.append(optimize.minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options))
    best = min(results, key=lambda r: float(r.fun))
    certificate = certify(results, bounds, [*(f"a{k}" for k in range(q)), "b", "sigma2", "eta"], len(problem.y))
    theta = best.x * scale
    return Mapped(theta[:q], float(theta[q]), float(np.exp(theta[q + 1])), float(np.exp(theta[q + 2])), certificate)


def ridge_start(problem: Problem, eta: float, penalty: float) -> tuple[FloatArray, float]:
    """Give weights and intercept of a ridge regression on the shrunken embeddings."""
    S, _ = shrink_factors(problem.s, problem.sizes, eta)
    Z = S * problem.delta
    centre, level = Z.mean(axis=0), float(problem.y.mean())
    Zc = Z - centre
    G = Zc.T @ Zc
    G += penalty * (np.eye(len(G)) if problem.Q is None else problem.Q)
    G[np.diag_indices_from(G)] += 1e-10 * max(float(np.trace(G)) / len(G), 1e-300)
    a = np.linalg.solve(G, Zc.T @ (problem.y - level))
    return a, level - float(centre @ a)


def solve_positive(A: FloatArray, b: FloatArray) -> FloatArray | None:
    """Solve Ax = b, or give None when A is not positive definite.

    Examples
    --------
    >>> solve_positive(np.array([[4.0]]), np.array([8.0]))[0], solve_positive(-np.eye(1), np.ones(1))
    (np.float64(2.0), None)
    """
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(A, lower=True), b))
    except linalg.LinAlgError:
        return None


def certify(
    results: list[optimize.OptimizeResult],
    bounds: Sequence[tuple[float | None, float | None]],
    names: list[str],
    n: int,
) -> Certificate:
    """Say how the best of several searches ended.

    Examples
    --------
    >>> ends = optimize.OptimizeResult(x=np.array([0.0]), jac=np.array([1e-9]), fun=2.0, nit=3, message="flat")
    >>> certify([ends], [(None, None)], ["a"], 10).converged
    True
    """
    best = min(results, key=lambda r: float(r.fun))
    x, g = np.asarray(best.x), np.asarray(best.jac)
    held, at = np.zeros(len(x), dtype=bool), []
    for k, (low, high) in enumerate(bounds):
        below, above = low is not None and x[k] <= low + 1e-9, high is not None and x[k] >= high - 1e-9
        if below or above:
            held[k] = (below and g[k] > 0) or (above and g[k] < 0)
            at.append(names[k])
    largest = float(np.abs(np.where(held, 0.0, g)).max())
    return Certificate(
        converged=largest <= GRADIENT * max(n, 100),
        objective=float(best.fun),
        gradient=largest,
        iterations=int(best.nit),
        starts=len(results),
        agreeing=sum(float(r.fun) - float(best.fun) < 0.01 for r in results),
        at_bound=tuple(at),
        message=str(best.message),
    )
