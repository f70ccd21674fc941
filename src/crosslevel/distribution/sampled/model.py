"""From features of bags to posterior draws, and from draws to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.predictive import Predictive
from crosslevel.distribution.sampled.sampler import Draws, Settings, prior_around, sample_posterior
from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.model import (
    ShrinkageModel,
    fit_probit_model,
    fit_shrinkage_model,
    problem_of,
    standardize,
)
from crosslevel.distribution.shrinkage.probit import probit_probability
from crosslevel.results.table import plain
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

RHAT_LIMIT, ESS_LIMIT = 1.01, 200.0
MOST_DRAWS = 1000
"""Draws a prediction averages over, evenly spread: more would cost memory and gain less than a hundredth of a sd."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Sampled:
    """Draws in the basis of a chosen set of features.

    Attributes
    ----------
    chosen : int
    P, s, m0 : (d, q), (q,), (d,)
    draws : Draws
    measure_sd : float or None
    log_evidence : float
        Laplace's, by which the features were chosen.
    allowed : bool
        Whether the caller wants the draws even if they have not converged.
    """

    chosen: int
    P: FloatArray
    s: FloatArray
    m0: FloatArray
    draws: Draws
    measure_sd: float | None
    log_evidence: float
    allowed: bool = False

    @property
    def sampled_well(self) -> bool:
        """Whether r-hat is below 1.01, both effective sizes are at least 200 and nothing diverged."""
        found = self.draws.diagnostics
        enough = min(found.min_ess_bulk, found.min_ess_tail) >= ESS_LIMIT
        return bool(found.max_rhat < RHAT_LIMIT and enough and not self.draws.diverging.any())

    @property
    def converged(self) -> bool:
        """Whether the fit is to be kept."""
        return self.sampled_well or self.allowed

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader of the numbers should know."""
        draws, found = self.draws, self.draws.diagnostics
        return {
            "max_rhat": found.max_rhat,
            "min_ess_bulk": found.min_ess_bulk,
            "min_ess_tail": found.min_ess_tail,
            "divergences": int(draws.diverging.sum()),
            "chains": draws.w.shape[0],
            "draws": draws.w.shape[1],
            "mean_steps": float(draws.n_steps.mean()),
            "log_evidence": self.log_evidence,
            "coordinates": len(self.s),
        }

    def scores(self, features: BagFeatures) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give mean and variance of every bag's score for every draw, (n_draws, n), and the log hyperparameters used."""
        delta = (features.mu - self.m0) @ self.P
        w, logs = (x.reshape(-1, x.shape[2]) for x in (self.draws.w, self.draws.log_hyper))
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

    def _tree(self, values: dict[str, FloatArray]) -> xr.DataTree:
        """Give draws with what the sampler says of them, in the groups of the ArviZ schema: chain and draw come first."""
        import xarray as xr

        draws = self.draws
        stats = {
            "diverging": draws.diverging,
            "n_steps": draws.n_steps,
            "energy": draws.energy,
            "acceptance_rate": draws.acceptance,
        }
        chains, length = draws.diverging.shape
        axes = {"chain": np.arange(chains), "draw": np.arange(length)}
        groups = {
            group: xr.Dataset({n: (("chain", "draw", *["landmark"] * (v.ndim - 2)), v) for n, v in found.items()}, axes)
            for group, found in (("posterior", values), ("sample_stats", stats))
        }
        tree = xr.DataTree.from_dict(groups)
        tree.attrs.update(plain(self.diagnostics(), "attrs"))
        return tree


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledModel(_Sampled):
    """A sampled regression; draws are for labels (y - y_mean) / y_sd."""

    y_mean: float
    y_sd: float

    def predict(self, features: BagFeatures) -> Predictive:
        """Give the distribution of each bag's label."""
        xi, V, logs = self.scores(features)
        variance = np.exp(logs[:, :1]) + V
        return Predictive(self.y_mean + self.y_sd * xi, self.y_sd**2 * variance)

    def tree(self) -> xr.DataTree:
        """Give the draws in the units of y."""
        sigma2, eta, rho2 = np.moveaxis(np.exp(self.draws.log_hyper), -1, 0)
        w = self.draws.w
        values = {
            "alpha": self.y_sd * (w[..., 1:] @ self.P.T),
            "intercept": self.y_mean + self.y_sd * w[..., 0],
            "sigma": self.y_sd * np.sqrt(sigma2),
            "eta": eta,
            "rho": self.y_sd * np.sqrt(rho2),
        }
        return self._tree(values)


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledProbit(_Sampled):
    """A sampled classification of +1 against -1."""

    def probability(self, features: BagFeatures) -> FloatArray:
        """Give the mean probability of +1 for each bag."""
        xi, V, _ = self.scores(features)
        return np.asarray(probit_probability(xi, V).mean(axis=0))

    def tree(self) -> xr.DataTree:
        """Give the draws on the probit scale."""
        eta, rho2 = np.moveaxis(np.exp(self.draws.log_hyper), -1, 0)
        w = self.draws.w
        return self._tree({"alpha": w[..., 1:] @ self.P.T, "intercept": w[..., 0], "eta": eta, "rho": np.sqrt(rho2)})


def sample_model(
    candidates: Sequence[BagFeatures], y: FloatArray, kernel: str, settings: Settings, prior_scale: float
) -> SampledModel:
    """Choose features by evidence, then sample the regression on them."""
    first = fit_shrinkage_model(candidates, y, kernel=kernel, seed=settings.seed, progress=settings.progress)
    shared = _sample(first, candidates[first.chosen], standardize(y)[0], settings, prior_scale)
    return SampledModel(**shared, y_mean=first.y_mean, y_sd=first.y_sd)


def sample_probit(
    candidates: Sequence[BagFeatures], y: FloatArray, kernel: str, settings: Settings, prior_scale: float
) -> SampledProbit:
    """Choose features by evidence, then sample the classification on them."""
    first = fit_probit_model(candidates, y, kernel=kernel, seed=settings.seed, progress=settings.progress)
    return SampledProbit(**_sample(first, candidates[first.chosen], y, settings, prior_scale))


def _sample(
    first: ShrinkageModel, features: BagFeatures, y: FloatArray, settings: Settings, prior_scale: float
) -> dict[str, Any]:
    """Sample around the fit of largest evidence, and give what both models keep."""
    fit = first.posterior
    problem = problem_of(features, first.basis, y)
    return {
        "chosen": first.chosen,
        "P": first.basis.P,
        "s": first.basis.s,
        "m0": first.m0,
        "draws": sample_posterior(problem, fit, prior_around(fit, prior_scale), settings),
        "measure_sd": first.measure_sd,
        "log_evidence": fit.log_evidence,
    }
