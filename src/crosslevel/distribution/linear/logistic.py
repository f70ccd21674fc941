"""Two classes, logistic in the bags' means: Laplace's approximation around the best weights, prior variance by its evidence.

``P(t_i = 1) = 1 / (1 + exp(-b - z_i' w))``, w ~ N(0, rho^2 I), b ~ N(0, 25), and a wide half-normal prior on the scale of the
logits: the companion of probit distribution regression in appendix B of Law et al. (2018). In weights the Hessian is
(r + 1) x (r + 1), so a step costs O(n r^2); the numbers are those of the Gaussian process form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, special
from scipy.optimize import brentq

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear.model import PRIORS
from crosslevel.errors import unknown_name
from crosslevel.numerics.newton import newton
from crosslevel.numerics.quadrature import logistic_mean
from crosslevel.typing import FloatArray

INTERCEPT_VARIANCE = 25.0
LOGIT_SCALE = 5.0
"""Scale of the half-normal prior on the standard deviation of a typical bag's logit. Where classes part completely the evidence
alone asks for logits of hundreds, at which Laplace's normal is no approximation; elsewhere it moves nothing."""
VARIANCES = np.geomspace(1e-3, 1e5, 9)
"""Prior variances tried first, divided by the mean squared length of a bag's vector."""
STEPS, HALVINGS = 100, 40
CLOSE = 1e-12
"""Promised gain, relative to the height, below which rounding hides it."""
TOLERANCE = 1e-8
"""Largest gradient at the mode, relative to the number of bags."""


@dataclass(frozen=True)
class Laplace:
    """The mode of the weights and what the approximation needs of it.

    Attributes
    ----------
    theta : (r + 1,)
        Intercept and weights.
    L : (r + 1, r + 1)
        Lower Cholesky factor of the Hessian H.
    log_evidence : float
    slope : float
        Its derivative by log prior variance.
    gradient : float
        Largest gradient at the mode, per bag.
    """

    theta: FloatArray
    L: FloatArray
    log_evidence: float
    slope: float
    gradient: float


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Weights of one class against the rest.

    Attributes
    ----------
    center, coef : (d,), offset : float
        Logit = offset + (mu - center) @ coef.
    root : (d, r + 1), base : (r + 1,)
        Variance of the logit = |base + (mu - center) @ root|^2.
    prior_variance, slope, gradient : float
    log_evidence : float
        With the log prior of the logits' scale, up to a constant.
    bound : str
    chosen : int
    converged : bool
    """

    center: FloatArray
    coef: FloatArray
    offset: float
    root: FloatArray
    base: FloatArray
    prior_variance: float
    log_evidence: float
    slope: float
    gradient: float
    bound: str
    chosen: int
    converged: bool

    def logit(self, features: BagFeatures) -> tuple[FloatArray, FloatArray]:
        """Give mean and variance of the logit, (n,) each."""
        away = features.mu - self.center
        return self.offset + away @ self.coef, np.square(self.base + away @ self.root).sum(axis=1)

    def probability(self, features: BagFeatures) -> FloatArray:
        """Give the probability of the class, (n,), the logit's uncertainty averaged over."""
        return logistic_mean(*self.logit(features))

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader should know."""
        return {
            "log_evidence": self.log_evidence,
            "prior_variance": self.prior_variance,
            "gradient": self.gradient,
            "slope": self.slope,
            "variance_at_limit": self.bound or "no",
        }


def find_weights(Z: FloatArray, t: FloatArray, variance: float, start: FloatArray | None = None) -> Laplace:
    """Find the mode of intercept and weights by damped Newton steps, and the evidence with its slope.

    Parameters
    ----------
    Z : (n, r)
    t : (n,)
        0 or 1.
    variance : float
        rho^2.
    start : (r + 1,), optional

    Examples
    --------
    >>> found = find_weights(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]), 1.0)
    >>> bool(abs(found.theta[0]) < 1e-12), bool(found.theta[1] > 0)
    (True, True)
    """
    n, r = Z.shape
    X = np.column_stack([np.ones(n), Z])
    P = np.append(1.0 / INTERCEPT_VARIANCE, np.full(r, 1.0 / variance))
    theta = np.zeros(r + 1) if start is None else start

    def height(at: FloatArray) -> float:
        f = X @ at
        return float((t * f - np.logaddexp(0.0, f)).sum() - 0.5 * P @ at**2)

    def parts(at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Give probabilities, p (1 - p), the gradient and the factor of the Hessian."""
        f = X @ at
        p, q = special.expit(f), special.expit(-f)
        gradient = X.T @ (t * q - (1.0 - t) * p) - P * at
        return (
            p,
            p * q,
            gradient,
            linalg.cholesky((X * (p * q)[:, None]).T @ X + np.diag(P), lower=True, check_finite=False),
        )

    def direction(at: FloatArray) -> FloatArray | None:
        _, _, gradient, L = parts(at)
        step = linalg.cho_solve((L, True), gradient, check_finite=False)
        return None if float(gradient @ step) <= CLOSE * (1.0 + abs(height(at))) else step

    theta = newton(theta, height, direction, max_steps=STEPS, halvings=HALVINGS).x
    # the height no longer tells; a last whole step squares the distance to the mode
    _, _, gradient, L = parts(theta)
    theta = theta + linalg.cho_solve((L, True), gradient, check_finite=False)
    p, W, gradient, L = parts(theta)
    now = height(theta)
    C = linalg.solve_triangular(L, X.T, lower=True, check_finite=False)
    v = np.einsum("ij,ij->j", C, C)
    inverse = linalg.solve_triangular(L, np.eye(r + 1), lower=True, check_finite=False)
    evidence = now - float(np.log(np.diag(L)).sum()) + 0.5 * float(np.log(P).sum())
    weights = P * theta
    weights[0] = 0.0  # the intercept's prior does not change
    moved = X @ linalg.cho_solve((L, True), weights, check_finite=False)
    third = W * (1.0 - 2.0 * p)
    slope = 0.5 * (
        theta[1:] @ theta[1:] / variance + np.square(inverse[:, 1:]).sum() / variance - r - (v * third) @ moved
    )
    return Laplace(theta, L, evidence, float(slope), float(np.abs(gradient).max()) / n)


def fit_logistic(candidates: Sequence[BagFeatures], t: FloatArray, prior: str = "rkhs") -> LogisticFit:
    """Fit every candidate by its evidence and keep the most probable.

    Parameters
    ----------
    candidates : sequence of BagFeatures
    t : (n,)
        0 or 1.
    prior : {"rkhs", "iid"}
    """
    if prior not in PRIORS:
        raise unknown_name("prior", prior, PRIORS, "choice")
    fits = [_fit_one(c, t, prior) for c in candidates]
    best = int(np.argmax([f.log_evidence for f in fits]))
    return replace(fits[best], chosen=best)


def _fit_one(features: BagFeatures, t: FloatArray, prior: str) -> LogisticFit:
    A = features.whiten if prior == "rkhs" else np.eye(features.d)
    center = features.mu.mean(axis=0)
    Z = (features.mu - center) @ A
    scale = 1.0 / max(float(np.square(Z).sum(axis=1).mean()), 1e-300)
    grid = VARIANCES * scale

    def solve(variance: float, start: FloatArray | None) -> Laplace:
        found = find_weights(Z, t, variance, start)
        prior = -0.5 * variance / scale / LOGIT_SCALE**2
        return replace(found, log_evidence=found.log_evidence + prior, slope=found.slope + prior)

    found: list[Laplace] = []
    for variance in grid:
        found.append(solve(float(variance), found[-1].theta if found else None))
    best = int(np.argmax([f.log_evidence for f in found]))
    bound, chosen, final = "", float(grid[best]), found[best]
    if best == 0 and final.slope <= 0:
        bound = "lower"
    elif best < len(grid) - 1 or final.slope < 0:
        low, high = (best, best + 1) if final.slope > 0 else (best - 1, best)
        start = final.theta

        def slope(log_variance: float) -> float:
            return solve(float(np.exp(log_variance)), start).slope

        if found[low].slope > 0 > found[high].slope:
            chosen = float(np.exp(brentq(slope, np.log(grid[low]), np.log(grid[high]), xtol=1e-8, rtol=1e-10)))
            final = solve(chosen, start)
    back = linalg.solve_triangular(final.L, np.eye(len(final.L)), lower=True, check_finite=False).T
    return LogisticFit(
        center=center,
        coef=A @ final.theta[1:],
        offset=float(final.theta[0]),
        root=A @ back[1:],
        base=np.ascontiguousarray(back[0]),
        prior_variance=chosen,
        log_evidence=final.log_evidence,
        slope=final.slope / len(t),
        gradient=final.gradient,
        bound=bound,
        chosen=0,
        converged=final.gradient < TOLERANCE,
    )
