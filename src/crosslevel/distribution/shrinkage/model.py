"""From features of bags to a fitted mean-shrinkage model: the basis, the choice among features, the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize

from crosslevel.data.progress import count_steps
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.predictive import Predictive
from crosslevel.distribution.shrinkage.eigenbasis import Basis, eigenbasis, integral_kernel
from crosslevel.distribution.shrinkage.laplace import fit_evidence
from crosslevel.distribution.shrinkage.likelihood import Problem, WeightPosterior
from crosslevel.distribution.shrinkage.probit import fit_probit, probit_probability
from crosslevel.typing import FloatArray, Progress

KERNELS = ("base", "integral")
INTEGRAL_DROPPED = 1e-11
"""The integral kernel's eigenvalues fall about twice as fast as the kernel's, so more of them are needed."""
MEASURE = (0.1, 10.0)
"""Limits of the Gaussian measure's standard deviation, in bandwidths."""


@dataclass(frozen=True, eq=False)
class ShrinkageModel:
    """A fitted regression, or a classification of +1 against -1.

    Attributes
    ----------
    chosen : int
    basis : Basis
    m0 : (d,)
        The embedding everything is shrunk to.
    posterior : WeightPosterior
        Of a regression for labels (y - y_mean) / y_sd.
    measure_sd : float or None
    tried : (n_candidates,)
        Log evidence of every candidate.
    y_mean, y_sd : float
    """

    chosen: int
    basis: Basis
    m0: FloatArray
    posterior: WeightPosterior
    measure_sd: float | None
    tried: FloatArray
    y_mean: float = 0.0
    y_sd: float = 1.0

    @property
    def converged(self) -> bool:
        """Whether the search for the hyperparameters converged."""
        return self.posterior.convergence.converged

    @property
    def log_evidence(self) -> float:
        """Log evidence of the chosen features."""
        return self.posterior.log_evidence

    def scores(self, features: BagFeatures) -> tuple[FloatArray, FloatArray]:
        """Give mean and variance of each bag's label, standardized, or latent score."""
        delta = self.basis.rotate(features.mu, self.m0)
        return self.posterior.scores(Problem(delta, features.sizes, self.basis.s, np.zeros(len(delta))))

    def predict(self, features: BagFeatures) -> Predictive:
        """Give the distribution of each bag's label."""
        mean, variance = self.scores(features)
        return Predictive.normal(self.y_mean + self.y_sd * mean, self.y_sd**2 * variance)

    def probability(self, features: BagFeatures) -> FloatArray:
        """Give the probability of +1 for each bag."""
        return probit_probability(*self.scores(features))

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader of the numbers should know."""
        return {
            **asdict(self.posterior.convergence),
            "log_evidence": self.posterior.log_evidence,
            "coordinates": len(self.basis.s),
            "eta": self.posterior.eta,
            "measure_sd": self.measure_sd,
        }


def basis_of(features: BagFeatures, kernel: str, measure_sd: float | None) -> Basis:
    """Diagonalize the shrinkage kernel and the covariance within bags.

    The Gaussian measure of the integral kernel is centered at the mean landmark.
    """
    assert features.within is not None  # for the type
    if kernel == "base":
        return eigenbasis(features.K, features.within)
    assert features.map is not None and measure_sd is not None  # noqa: PT018 - for the types
    U = features.map.U
    R0 = integral_kernel(U - U.mean(axis=0), features.map.bandwidth, measure_sd)
    return eigenbasis(R0, features.within, features.K, INTEGRAL_DROPPED)


def problem_of(features: BagFeatures, basis: Basis, y: FloatArray) -> Problem:
    """Give bags and labels in the basis."""
    return Problem(basis.rotate(features.mu, features.m0), features.sizes, basis.s, y, basis.Q)


def standardize(y: FloatArray) -> tuple[FloatArray, float, float]:
    """Give labels of mean zero and variance one, with what they were."""
    mean, sd = float(y.mean()), float(y.std())
    if not sd > 1e-12 * max(abs(mean), 1e-300):
        sd = 1.0
    return (y - mean) / sd, mean, sd


def fit_shrinkage_model(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    *,
    kernel: str = "base",
    n_restarts: int = 2,
    seed: int = 0,
    progress: Progress | None = None,
) -> ShrinkageModel:
    """Fit every candidate, keep the one of largest evidence, and search it again from further starts.

    Parameters
    ----------
    candidates : sequence of BagFeatures
    y : (n,)
    kernel : {"base", "integral"}
    n_restarts : int
    seed : int
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the candidates fitted and of all, the last search counted as one more.
    """
    labels, mean, sd = standardize(y)

    def solve(problem: Problem, n_searches: int, warm: WeightPosterior | None) -> WeightPosterior:
        return fit_evidence(problem, n_searches, seed, warm)

    return replace(_choose(candidates, labels, kernel, n_restarts, solve, progress), y_mean=mean, y_sd=sd)


def fit_probit_model(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    *,
    kernel: str = "base",
    n_restarts: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> ShrinkageModel:
    """Fit every candidate to labels -1 and 1, and keep the one of largest evidence."""
    return _choose(
        candidates, y, kernel, n_restarts, lambda problem, starts, _: fit_probit(problem, starts, seed), progress
    )


Solve = Callable[[Problem, int, WeightPosterior | None], WeightPosterior]


def _choose(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    kernel: str,
    n_restarts: int,
    solve: Solve,
    progress: Progress | None,
) -> ShrinkageModel:
    """Fit all candidates with one start each, then the best with more, and the width of the measure with it."""
    fits: list[WeightPosterior] = []
    widths: list[float | None] = []
    with count_steps(progress, "Choosing features", len(candidates) + 1, "fits") as step:
        for one in candidates:
            width = one.map.bandwidth if kernel == "integral" and one.map is not None else None
            problem = problem_of(one, basis_of(one, kernel, width), y)
            fits.append(solve(problem, 1, fits[-1] if fits else None))
            widths.append(width)
            if step is not None:
                step()
        tried = np.array([f.log_evidence for f in fits])
        chosen = int(np.argmax(tried))
        features, width, fit = candidates[chosen], widths[chosen], fits[chosen]
        if width is not None:
            width = _best_width(features, y, fit, solve, width)
        basis = basis_of(features, kernel, width)
        again = solve(problem_of(features, basis, y), 1 + n_restarts, fit)
    return ShrinkageModel(chosen, basis, features.m0, again, width, tried)


def _best_width(features: BagFeatures, y: FloatArray, fit: WeightPosterior, solve: Solve, width: float) -> float:
    """Find the standard deviation of the Gaussian measure that maximizes the evidence, to a tenth of its logarithm."""

    def minus(log_width: float) -> float:
        found = solve(problem_of(features, basis_of(features, "integral", float(np.exp(log_width))), y), 1, fit)
        return -float(found.log_evidence)

    limits = tuple(float(np.log(width * m)) for m in MEASURE)
    best = optimize.minimize_scalar(minus, bounds=limits, method="bounded", options={"xatol": 0.1, "maxiter": 15})
    return float(np.exp(best.x)) if best.fun <= -fit.log_evidence else width
