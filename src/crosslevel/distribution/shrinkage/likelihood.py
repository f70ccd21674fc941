"""What a bag says about its label when its embedding is only a sample (eq. 8 of the paper), and the search for its hyperparameters.

Symbols, in the basis of :mod:`~crosslevel.distribution.shrinkage.eigenbasis` (n bags, q coordinates):

- delta : (n, q) embeddings around their mean; S, C : (n, q) shrink factors and what remains unknown;
- a : (q,) weights, b : intercept; sigma2 : variance of the label given the embedding; eta : scale of the shrinkage kernel;
- xi = b + sum_k a_k S_k delta_k and nu = sigma2 + sum_k a_k^2 C_k : mean and variance of the label given the bag;
- rho2 : prior a ~ N(0, rho2 Q^-1), which is alpha ~ N(0, rho2 K^-1).

Labels are expected near zero mean and unit variance, so that the starting values suit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.numerics.evidence import Convergence, Maximum, maximize
from crosslevel.typing import FloatArray

LOG_SIGMA2 = (np.log(1e-6), np.log(1e2))
"""Bounds of the log residual variance, for labels of unit variance."""
LOG_ETA = (np.log(1e-9), np.log(1e3))
"""Bounds of the log scale of the shrinkage kernel, relative to the spread of the embeddings; see `Problem.unit`."""
LOG_RHO2 = (np.log(1e-8), np.log(1e6))
"""Bounds of the log prior variance of a, relative to one over the spread of the embeddings."""
NEWTON_STEPS = 100
DECREMENT = 1e-15
"""Half the squared Newton step, relative to the objective, at which the weights count as found."""
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


@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """The weights' posterior at the hyperparameters of largest evidence.

    Attributes
    ----------
    a : (q,)
    b : float
    eta, rho2 : float
    covariance : (q + 1, q + 1)
        Of (b, a).
    log_evidence : float
    convergence : Convergence
    sigma2 : float or None
        Of a label given the embedding; None on the probit scale, where it is one.
    """

    a: FloatArray
    b: float
    eta: float
    rho2: float
    covariance: FloatArray
    log_evidence: float
    convergence: Convergence
    sigma2: float | None = None

    @property
    def log_hyper(self) -> FloatArray:
        """The logarithms of sigma2 (where there is one), eta and rho2."""
        known = [] if self.sigma2 is None else [self.sigma2]
        return np.log([*known, self.eta, self.rho2])

    def scores(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """Give mean and variance of every bag's label (or latent score), with the uncertainty of the weights.

        Var = nu + x'Mx + sum_k M_kk C_k: the label's own, the weights' in the mean, and the weights' in the variance.
        """
        S, C = shrink_factors(problem.s, problem.sizes, self.eta)
        X = np.column_stack([np.ones(len(S)), S * problem.delta])
        spread = np.einsum("ij,ij->i", X @ self.covariance, X)
        own = C @ (self.a**2 + np.diag(self.covariance)[1:])
        return X @ np.concatenate([[self.b], self.a]), (self.sigma2 or 0.0) + own + spread


def flat_slope(problem: Problem) -> float:
    """Give the largest slope of a log likelihood that counts as none for so many bags."""
    return GRADIENT * max(len(problem.y), 100)


def ridge_start(problem: Problem, eta: float, penalty: float) -> tuple[FloatArray, float]:
    """Give weights and intercept of a ridge regression on the shrunken embeddings."""
    S, _ = shrink_factors(problem.s, problem.sizes, eta)
    Z = S * problem.delta
    center, level = Z.mean(axis=0), float(problem.y.mean())
    Zc = Z - center
    G = Zc.T @ Zc
    G += penalty * (np.eye(len(G)) if problem.Q is None else problem.Q)
    G[np.diag_indices_from(G)] += 1e-10 * max(float(np.trace(G)) / len(G), 1e-300)
    a = np.linalg.solve(G, Zc.T @ (problem.y - level))
    return a, level - float(center @ a)


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


def newton_step(
    value: float, gradient: FloatArray, hessian: Callable[[], FloatArray], fisher: Callable[[], FloatArray]
) -> FloatArray | None:
    """Give the step to the minimum of a quadratic, by the Fisher information where the Hessian is not positive definite.

    None where the step promises nothing, or where neither matrix is positive definite.
    """
    step = solve_positive(hessian(), gradient)
    if step is None:
        step = solve_positive(fisher(), gradient)
    if step is None or 0.5 * float(step @ gradient) < DECREMENT * max(1.0, abs(value)):
        return None
    return -step


def design(problem: Problem, eta: float, rho2: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give X = (1, S delta) and C = (0, C), (n, q + 1), of the weights (b, a), and the precision of their prior, flat in b."""
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    n, q = S.shape
    prior = np.zeros((q + 1, q + 1))
    prior[1:, 1:] = (np.eye(q) if problem.Q is None else problem.Q) / rho2
    return np.column_stack([np.ones(n), S * problem.delta]), np.column_stack([np.zeros(n), C]), prior


def log_det(Q: FloatArray | None) -> float:
    """Give the log determinant of the prior's precision; None is the identity."""
    return 0.0 if Q is None else float(np.linalg.slogdet(Q)[1])


Evaluate = Callable[[FloatArray, FloatArray], tuple[float, FloatArray, FloatArray]]
"""Log hyperparameters and where to begin looking for (b, a); minus the log evidence, its gradient and the (b, a) found."""


def maximize_evidence(
    problem: Problem,
    evaluate: Evaluate,
    starts: Sequence[FloatArray],
    bounds: FloatArray,
    names: Sequence[str],
    options: Mapping[str, Any],
) -> tuple[Maximum, FloatArray]:
    """Search hyperparameters whose evidence needs the most probable weights; give them, and the weights last seen from the best start.

    Every search looks for the weights where its last call found them, the first call at a ridge regression.

    Parameters
    ----------
    problem : Problem
    evaluate : callable
    starts : sequence of (h,)
    bounds : (h, 2)
    names : sequence of str
    options : mapping
        Of L-BFGS.
    """
    begun = {np.clip(s, *bounds.T).tobytes(): k for k, s in enumerate(starts)}
    weights = [_first_weights(problem, np.clip(s, *bounds.T)) for s in starts]
    now = 0

    def objective(log_hyper: FloatArray) -> tuple[float, FloatArray]:
        nonlocal now
        now = begun.get(log_hyper.tobytes(), now)
        value, gradient, weights[now] = evaluate(log_hyper, weights[now])
        return -value, -gradient

    lower, upper = bounds.T
    found = maximize(objective, starts, lower, upper, names, flat=flat_slope(problem), rounds=1, options=options)
    return found, weights[found.start]


def _first_weights(problem: Problem, log_hyper: FloatArray) -> FloatArray:
    """Give (b, a) of a ridge regression at hyperparameters."""
    penalty = np.exp(log_hyper[0] - log_hyper[2]) if len(log_hyper) == 3 else 1.0 / np.exp(log_hyper[1])
    a, b = ridge_start(problem, float(np.exp(log_hyper[-2])), float(penalty))
    return np.concatenate([[b], a])
