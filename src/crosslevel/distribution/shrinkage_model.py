"""From features of bags to a fitted mean-shrinkage model: the basis, the choice among features, the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from scipy import optimize

from crosslevel.distribution.eigenbasis import Basis, eigenbasis, integral_kernel
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.predictive import GaussianPredictive
from crosslevel.distribution.probit import ProbitFit, fit_probit, latent_posterior, probit_probability
from crosslevel.distribution.shrinkage import Certificate, Problem, fit_map
from crosslevel.distribution.shrinkage_evidence import LaplaceFit, evidence, fit_evidence, predictive
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = [
    "KERNELS",
    "ProbitModel",
    "ShrinkageModel",
    "basis_of",
    "fit_probit_model",
    "fit_shrinkage_model",
    "problem_of",
    "standardise",
]


KERNELS = ("k", "integral")
INTEGRAL_DROPPED = 1e-11
"""The integral kernel's eigenvalues fall about twice as fast as the kernel's, so more of them are needed."""
MEASURE = (0.1, 10.0)
"""Limits of the Gaussian measure's standard deviation, in bandwidths."""


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What both models keep of their basis and of the search.

    Attributes
    ----------
    chosen : int
    converged : bool
    P, s, m0 : (d, q), (q,), (d,)
        The basis, and the embedding everything is shrunk to.
    a, b : (q,) and float
        Weights in the basis, intercept.
    covariance : (q + 1, q + 1)
        Of (b, a).
    eta, rho2 : float
    measure_sd : float or None
    log_evidence : float
    tried : (n_candidates,)
        Log evidence of every candidate.
    gradient, iterations, agreeing, starts, at_bound
        The certificate; see `Certificate`.
    """

    chosen: int
    converged: bool
    P: FloatArray
    s: FloatArray
    m0: FloatArray
    a: FloatArray
    b: float
    covariance: FloatArray
    eta: float
    rho2: float
    measure_sd: float | None
    log_evidence: float
    tried: FloatArray
    gradient: float
    iterations: int
    agreeing: int
    starts: int
    at_bound: Sequence[str]

    def problem(self, features: BagFeatures, y: FloatArray | None = None) -> Problem:
        """Give bags in the basis of the fit."""
        delta = (features.mu - self.m0) @ self.P
        return Problem(delta, features.sizes, self.s, np.zeros(len(delta)) if y is None else y)

    def certificate(self) -> Certificate:
        """Say how the search ended."""
        return Certificate(
            self.converged,
            -self.log_evidence,
            self.gradient,
            self.iterations,
            self.starts,
            self.agreeing,
            tuple(self.at_bound),
            "",
        )

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader of the numbers should know."""
        return {
            "log_evidence": self.log_evidence,
            "gradient": self.gradient,
            "iterations": self.iterations,
            "starts": self.starts,
            "starts_agreeing": self.agreeing,
            "at_bound": list(self.at_bound),
            "coordinates": len(self.s),
            "eta": self.eta,
            "measure_sd": self.measure_sd,
        }

    @classmethod
    def of(cls, shared: dict[str, Any], **more: Any) -> Self:
        """Make one from parts."""
        names = {f.name for f in fields(cls)}
        return cls(**{n: v for n, v in (shared | more).items() if n in names})


@dataclass(frozen=True, eq=False)
class ShrinkageModel(_Fitted):
    """A fitted regression; ``sigma2``, ``a`` and ``b`` are for labels (y - y_mean) / y_sd."""

    sigma2: float
    y_mean: float
    y_sd: float

    def laplace(self) -> LaplaceFit:
        """Give the array-level fit."""
        return LaplaceFit(
            self.a, self.b, self.sigma2, self.eta, self.rho2, self.covariance, self.log_evidence, self.certificate()
        )

    def predict(self, features: BagFeatures) -> GaussianPredictive:
        """Give the distribution of each bag's label."""
        mean, variance = predictive(self.problem(features), self.laplace())
        return GaussianPredictive(self.y_mean + self.y_sd * mean, self.y_sd**2 * variance)


@dataclass(frozen=True, eq=False)
class ProbitModel(_Fitted):
    """A fitted classification of +1 against -1."""

    def laplace(self) -> ProbitFit:
        """Give the array-level fit."""
        return ProbitFit(self.a, self.b, self.eta, self.rho2, self.covariance, self.log_evidence, self.certificate())

    def probability(self, features: BagFeatures) -> FloatArray:
        """Give the probability of +1 for each bag."""
        return probit_probability(*latent_posterior(self.problem(features), self.laplace()))


def basis_of(features: BagFeatures, kernel: str, measure_sd: float | None) -> Basis:
    """Diagonalise the shrinkage kernel and the covariance within bags.

    The Gaussian measure of the integral kernel is centred at the mean landmark.
    """
    if features.within is None:
        raise InputError("the features have no covariance within bags; mean shrinkage needs it.")
    if kernel == "k":
        return eigenbasis(features.K, features.within)
    if features.map is None or measure_sd is None:
        raise InputError("shrinkage_kernel='integral' needs the landmarks; these features do not name them.")
    U = features.map.U
    R0 = integral_kernel(U - U.mean(axis=0), features.map.bandwidth, measure_sd)
    return eigenbasis(R0, features.within, features.K, INTEGRAL_DROPPED)


def problem_of(features: BagFeatures, basis: Basis, y: FloatArray) -> Problem:
    """Give bags and labels in the basis."""
    return Problem(basis.rotate(features.mu, features.m0), features.sizes, basis.s, y, basis.Q)


def standardise(y: FloatArray) -> tuple[FloatArray, float, float]:
    """Give labels of mean zero and variance one, with what they were."""
    mean, sd = float(y.mean()), float(y.std())
    if not sd > 1e-12 * max(abs(mean), 1e-300):
        sd = 1.0
    return (y - mean) / sd, mean, sd


def fit_shrinkage_model(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    *,
    kernel: str = "k",
    penalty: float | None = None,
    restarts: int = 2,
    seed: int | None = 0,
) -> ShrinkageModel:
    """Fit every candidate, keep the one of largest evidence, and search it again from further starts.

    Parameters
    ----------
    candidates : sequence of BagFeatures
    y : (n,)
    kernel : {"k", "integral"}
    penalty : float, optional
        The paper's penalty on the mean over bags; by evidence when not given.
    restarts : int
    seed : int or None
    """
    labels, mean, sd = standardise(y)

    def solve(problem: Problem, starts: int, warm: LaplaceFit | None) -> LaplaceFit:
        if penalty is not None:
            return _known_weights(problem, 2.0 * len(y) * penalty, starts, seed)
        return fit_evidence(problem, starts, seed, None if warm is None else (warm.sigma2, warm.eta, warm.rho2))

    shared, fit = _choose(candidates, labels, kernel, restarts, solve)
    return ShrinkageModel.of(shared, sigma2=fit.sigma2, y_mean=mean, y_sd=sd)


def fit_probit_model(
    candidates: Sequence[BagFeatures], y: FloatArray, *, kernel: str = "k", restarts: int = 1, seed: int | None = 0
) -> ProbitModel:
    """Fit every candidate to labels -1 and 1, and keep the one of largest evidence."""
    shared, _ = _choose(candidates, y, kernel, restarts, lambda problem, starts, _: fit_probit(problem, starts, seed))
    return ProbitModel.of(shared)


def _choose(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    kernel: str,
    restarts: int,
    solve: Callable[[Problem, int, Any], Any],
) -> tuple[dict[str, Any], Any]:
    """Fit all candidates with one start each, then the best with more, and the width of the measure with it."""
    fits: list[Any] = []
    widths: list[float | None] = []
    for one in candidates:
        width = one.map.bandwidth if kernel == "integral" and one.map is not None else None
        problem = problem_of(one, basis_of(one, kernel, width), y)
        fits.append(solve(problem, 1, fits[-1] if fits else None))
        widths.append(width)
    tried = np.array([f.log_evidence for f in fits])
    chosen = int(np.argmax(tried))
    features, width, fit = candidates[chosen], widths[chosen], fits[chosen]
    if width is not None:
        width = _best_width(features, y, fit, solve, width)
    basis = basis_of(features, kernel, width)
    problem = problem_of(features, basis, y)
    again = solve(problem, 1 + restarts, fit)
    certificate: Certificate = again.certificate
    shared = {
        "chosen": chosen,
        "converged": certificate.converged,
        "P": basis.P,
        "s": basis.s,
        "m0": features.m0,
        "a": again.a,
        "b": again.b,
        "covariance": again.covariance,
        "eta": again.eta,
        "rho2": again.rho2,
        "measure_sd": width,
        "log_evidence": again.log_evidence,
        "tried": tried,
        "gradient": certificate.gradient,
        "iterations": certificate.iterations,
        "agreeing": certificate.agreeing,
        "starts": certificate.starts,
        "at_bound": certificate.at_bound,
    }
    return shared, again


def _best_width(
    features: BagFeatures, y: FloatArray, fit: Any, solve: Callable[[Problem, int, Any], Any], width: float
) -> float:
    """Find the standard deviation of the Gaussian measure that maximises the evidence, to a tenth of its logarithm."""

    def minus(log_width: float) -> float:
        found = solve(problem_of(features, basis_of(features, "integral", float(np.exp(log_width))), y), 1, fit)
        return -float(found.log_evidence)

    limits = tuple(float(np.log(width * m)) for m in MEASURE)
    best = optimize.minimize_scalar(minus, bounds=limits, method="bounded", options={"xatol": 0.1, "maxiter": 15})
    return float(np.exp(best.x)) if best.fun <= -fit.log_evidence else width


def _known_weights(problem: Problem, penalty: float, starts: int, seed: int | None) -> LaplaceFit:
    """Fit at the paper's penalty; the weights count as known, and the evidence, which penalty 0 has none of, is for comparison."""
    found = fit_map(problem, penalty, starts, seed)
    q = len(found.a)
    log_evidence, rho2 = np.nan, np.inf
    if penalty > 0:
        rho2 = 1.0 / penalty
        start = np.concatenate([[found.b], found.a])
        log_evidence = -evidence(np.log([found.sigma2, found.eta, rho2]), problem, start).value
    nothing = np.zeros((q + 1, q + 1))
    return LaplaceFit(found.a, found.b, found.sigma2, found.eta, rho2, nothing, float(log_evidence), found.certificate)
