"""From features of bags to posterior draws, and from draws to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.distribution.eigenbasis import shrink_factors
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.full_bayes_model import Draws, Settings, prior_around, sample_posterior
from crosslevel.distribution.probit import probit_probability
from crosslevel.distribution.shrinkage_model import (
    basis_of,
    fit_probit_model,
    fit_shrinkage_model,
    problem_of,
    standardise,
)
from crosslevel.results.posterior import posterior_tree
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MixturePredictive", "SampledModel", "SampledProbit", "sample_model", "sample_probit"]


RHAT_LIMIT, ESS_LIMIT = 1.01, 200.0
MOST_DRAWS = 1000
"""Draws a prediction averages over, evenly spread: more would cost memory and gain less than a hundredth of a sd."""
BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class MixturePredictive:
    """An equal mixture of normal labels, one for each draw.

    Attributes
    ----------
    means, variances : (n_draws, n)

    Examples
    --------
    >>> two = MixturePredictive(np.array([[-1.0], [1.0]]), np.ones((2, 1)))
    >>> two.mean.tolist(), (two.std**2).round(6).tolist(), np.round(np.ravel(two.interval(0.95)), 2).tolist()
    ([0.0], [2.0], [-2.65, 2.65])
    """

    means: FloatArray
    variances: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Give the means, (n,)."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def std(self) -> FloatArray:
        """Give the standard deviations: of labels within draws and of means between them."""
        return np.sqrt(self.variances.mean(axis=0) + self.means.var(axis=0))

    def log_density(self, y: FloatArray) -> FloatArray:
        """Give the log of the mean density, (n,): never the mean of the logs, which no forecast has."""
        each = -0.5 * (np.log(2.0 * np.pi * self.variances) + (y - self.means) ** 2 / self.variances)
        return np.asarray(special.logsumexp(each, axis=0) - np.log(len(each)))

    def cdf(self, y: FloatArray) -> FloatArray:
        """Give the probability of a label of at most y, (n,): the mean over draws."""
        return np.asarray(special.ndtr((y - self.means) / np.sqrt(self.variances)).mean(axis=0))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Give the central interval, from quantiles of the mixture."""
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def quantile(self, share: float) -> FloatArray:
        """Find where the mixture's distribution function is ``share``, by bisection."""
        sd = np.sqrt(self.variances)
        at = self.means + special.ndtri(share) * sd
        low, high = at.min(axis=0), at.max(axis=0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2.0
            below = self.cdf(middle) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Sampled:
    """Draws in the basis of a chosen set of features.

    Attributes
    ----------
    chosen : int
    P, s, m0 : (d, q), (q,), (d,)
    w : (n_chains, n_draws, q + 1)
        (b, a).
    log_hyper : (n_chains, n_draws, 3 or 2)
        log sigma2 (regression), log eta, log rho2.
    diverging, n_steps, energy, acceptance : (n_chains, n_draws)
    measure_sd : float or None
    max_rhat, min_ess_bulk, min_ess_tail : float
    log_evidence : float
        Laplace's, by which the features were chosen.
    allowed : bool
        Whether the caller wants the draws even if they have not converged.
    """

    chosen: int
    P: FloatArray
    s: FloatArray
    m0: FloatArray
    w: FloatArray
    log_hyper: FloatArray
    diverging: npt.NDArray[np.bool_]
    n_steps: npt.NDArray[np.int64]
    energy: FloatArray
    acceptance: FloatArray
    measure_sd: float | None
    max_rhat: float
    min_ess_bulk: float
    min_ess_tail: float
    log_evidence: float
    allowed: bool = False

    @property
    def sampled_well(self) -> bool:
        """Whether r-hat is below 1.01, both effective sizes are at least 200 and nothing diverged."""
        enough = min(self.min_ess_bulk, self.min_ess_tail) >= ESS_LIMIT
        return bool(self.max_rhat < RHAT_LIMIT and enough and not self.diverging.any())

    @property
    def converged(self) -> bool:
        """Whether the fit is to be kept."""
        return self.sampled_well or self.allowed

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader of the numbers should know."""
        return {
            "max_rhat": self.max_rhat,
            "min_ess_bulk": self.min_ess_bulk,
            "min_ess_tail": self.min_ess_tail,
            "divergences": int(self.diverging.sum()),
            "chains": self.w.shape[0],
            "draws": self.w.shape[1],
            "mean_steps": float(self.n_steps.mean()),
            "log_evidence": self.log_evidence,
            "coordinates": len(self.s),
        }

    def scores(self, features: BagFeatures) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give mean and variance of every bag's score for every draw, (n_draws, n), and the log hyperparameters used."""
        delta = (features.mu - self.m0) @ self.P
        w, logs = self.w.reshape(-1, self.w.shape[2]), self.log_hyper.reshape(-1, self.log_hyper.shape[2])
        some = np.unique(np.linspace(0, len(w) - 1, min(len(w), MOST_DRAWS)).round().astype(np.intp))
        w, logs = w[some], logs[some]
        sizes, which = np.unique(features.sizes, return_inverse=True)
        xi, V = np.empty((len(w), len(delta))), np.empty((len(w), len(delta)))
        for k, (one, log) in enumerate(zip(w, logs, strict=True)):
            S, C = shrink_factors(self.s, sizes, float(np.exp(log[-2])))
            V[k] = (C @ one[1:] ** 2)[which]
            # bags of one size share their factors: gathered only where there are many sizes
            if len(sizes) == 1:
                xi[k] = one[0] + delta @ (S[0] * one[1:])
            else:
                xi[k] = one[0] + np.einsum("ij,ij->i", delta, (S * one[1:])[which])
        return xi, V, logs

    def _stats(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "diverging": self.diverging,
            "n_steps": self.n_steps,
            "energy": self.energy,
            "acceptance_rate": self.acceptance,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledModel(_Sampled):
    """A sampled regression; draws are for labels (y - y_mean) / y_sd."""

    y_mean: float
    y_sd: float

    def predict(self, features: BagFeatures) -> MixturePredictive:
        """Give the distribution of each bag's label."""
        xi, V, logs = self.scores(features)
        variance = np.exp(logs[:, :1]) + V
        return MixturePredictive(self.y_mean + self.y_sd * xi, self.y_sd**2 * variance)

    def tree(self) -> xr.DataTree:
        """Give the draws in the units of y."""
        sigma2, eta, rho2 = (np.exp(self.log_hyper[..., k]) for k in range(3))
        draws = {
            "alpha": self.y_sd * (self.w[..., 1:] @ self.P.T),
            "intercept": self.y_mean + self.y_sd * self.w[..., 0],
            "sigma": self.y_sd * np.sqrt(sigma2),
            "eta": eta,
            "rho": self.y_sd * np.sqrt(rho2),
        }
        return posterior_tree(draws, self._stats(), dims={"alpha": ("landmark",)}, attrs=self.diagnostics())


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledProbit(_Sampled):
    """A sampled classification of +1 against -1."""

    def probability(self, features: BagFeatures) -> FloatArray:
        """Give the mean probability of +1 for each bag."""
        xi, V, _ = self.scores(features)
        return np.asarray(probit_probability(xi, V).mean(axis=0))

    def tree(self) -> xr.DataTree:
        """Give the draws on the probit scale."""
        eta, rho2 = (np.exp(self.log_hyper[..., k]) for k in range(2))
        draws = {"alpha": self.w[..., 1:] @ self.P.T, "intercept": self.w[..., 0], "eta": eta, "rho": np.sqrt(rho2)}
        return posterior_tree(draws, self._stats(), dims={"alpha": ("landmark",)}, attrs=self.diagnostics())


def sample_model(
    candidates: Sequence[BagFeatures], y: FloatArray, kernel: str, settings: Settings, prior_scale: float
) -> SampledModel:
    """Choose features by evidence, then sample the regression on them."""
    first = fit_shrinkage_model(candidates, y, kernel=kernel, seed=settings.seed)
    labels, mean, sd = standardise(y)
    features, fit = candidates[first.chosen], first.laplace()
    problem = problem_of(features, basis_of(features, kernel, first.measure_sd), labels)
    draws = sample_posterior(problem, fit, prior_around(fit, prior_scale), settings)
    return SampledModel(**_shared(first, draws), y_mean=mean, y_sd=sd)


def sample_probit(
    candidates: Sequence[BagFeatures], y: FloatArray, kernel: str, settings: Settings, prior_scale: float
) -> SampledProbit:
    """Choose features by evidence, then sample the classification on them."""
    first = fit_probit_model(candidates, y, kernel=kernel, seed=settings.seed)
    features, fit = candidates[first.chosen], first.laplace()
    problem = problem_of(features, basis_of(features, kernel, first.measure_sd), y)
    draws = sample_posterior(problem, fit, prior_around(fit, prior_scale), settings)
    return SampledProbit(**_shared(first, draws))


def _shared(first: Any, draws: Draws) -> dict[str, Any]:
    found = draws.diagnostics
    return {
        **{n: getattr(first, n) for n in ("chosen", "P", "s", "m0", "measure_sd", "log_evidence")},
        **{n: getattr(draws, n) for n in ("w", "log_hyper", "diverging", "n_steps", "energy", "acceptance")},
        **{n: getattr(found, n) for n in ("max_rhat", "min_ess_bulk", "min_ess_tail")},
    }
