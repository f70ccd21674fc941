"""``FullBayes``: weights and hyperparameters of the mean-shrinkage model sampled together by NUTS."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crosslevel.distribution.base import BagClassifier, BagEstimator, BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.full_bayes_fit import SampledModel, SampledProbit, sample_model, sample_probit
from crosslevel.distribution.full_bayes_model import Settings
from crosslevel.distribution.mean_shrinkage import check_count, refuse_second
from crosslevel.distribution.shrinkage_model import KERNELS
from crosslevel.errors import ConvergenceError, CrosslevelWarning, InputError, unknown_name
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FullBayes", "FullBayesClassifier"]


class SampledEstimator(BagEstimator):
    """The parameters and the certificate of the estimators that sample."""

    _within: ClassVar[bool] = True

    def __init__(
        self,
        shrinkage_kernel: str = "k",
        n_landmarks: Any = "auto",
        *,
        landmarks: Any = "random",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        second_level: str = "linear",
        standardize: bool = True,
        chains: int = 4,
        warmup: int = 500,
        draws: int = 1000,
        prior_scale: float = 0.3,
        allow_unconverged: bool = False,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.shrinkage_kernel = shrinkage_kernel
        self.second_level = second_level
        self.chains = chains
        self.warmup = warmup
        self.draws = draws
        self.prior_scale = prior_scale
        self.allow_unconverged = allow_unconverged

    def _second_kind(self) -> str:
        other = "FrequentistShrinkage" if isinstance(self, BagRegressor) else "BayesianLinearClassifier"
        return refuse_second(self.second_level, type(self).__name__, other)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        self.converged_ = all(f.sampled_well for f in self._fits)
        self.diagnostics_["converged"] = self.converged_


class FullBayes(SampledEstimator, BagRegressor):
    """Bayesian distribution regression with everything sampled (section 3.4 of the paper), converged or refused.

    The model of `MeanShrinkage`; weights, residual variance, prior variance and shrinkage are drawn by NUTS, started and
    whitened from Laplace's approximation. Predictions average over the draws, densities too (the log of the mean).

    Parameters
    ----------
    shrinkage_kernel : {"k", "integral"}, default "k"
    n_landmarks : "auto", int or sequence of int, default "auto"
        The features are chosen by the evidence of `MeanShrinkage`.
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "random"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear"}, default "linear"
        See `MeanShrinkage`.
    standardize : bool, default True
    chains, warmup, draws : int, default 4, 500 and 1000
        Chains, and iterations of each: discarded, and kept.
    prior_scale : float, default 0.3
        Standard deviation of the normal priors of the log variances log sigma^2, log eta and log rho^2; they are centred at the
        evidence's choice. Wider ones let sigma^2 fall far below it, where the labels tell little, and predict a little worse.
    allow_unconverged : bool, default False
        Return draws that have not converged, with a warning, instead of raising `ConvergenceError`.
    random_state : int, default 0

    Attributes
    ----------
    posterior_ : xarray.DataTree
        Groups ``posterior`` (alpha, intercept, sigma, eta, rho; chain x draw first) and ``sample_stats``.
    converged_ : bool
        r-hat below 1.01, effective sizes of at least 200, no divergence.
    diagnostics_ : dict
    map_ : LandmarkMap

    See Also
    --------
    MeanShrinkage : the same model, in seconds.

    Notes
    -----
    Needs jax and numpyro: ``pip install 'crosslevel[bayes]'``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(-1, 1, 40)
    >>> bags = [rng.normal(t, 1.0, size=(n, 1)) for t, n in zip(y, rng.choice([2, 200], 40))]
    >>> model = FullBayes(n_landmarks=5, bandwidth_scale=1.0, chains=2, warmup=300, draws=900).fit(bags, y)
    >>> model.posterior_["posterior/alpha"].sizes["draw"], model.predict(bags).shape
    (900, (40,))
    """

    _fit_class: ClassVar[type] = SampledModel

    @property
    def posterior_(self) -> xr.DataTree:
        """The draws, as a tree."""
        check_is_fitted(self, "map_")
        return self._fits[0].tree()

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray) -> SampledModel:
        settings = read_settings(self)
        found = sample_model(candidates, y, self.shrinkage_kernel, settings, float(self.prior_scale))
        judge(found, "FullBayes", self.allow_unconverged)
        return replace(found, allowed=bool(self.allow_unconverged))


class FullBayesClassifier(SampledEstimator, BagClassifier):
    """Classify bags with a probit link, weights and shrinkage sampled by NUTS (Appendix B of the paper, signs corrected).

    Parameters
    ----------
    shrinkage_kernel : {"k", "integral"}, default "k"
    n_landmarks : "auto", int or sequence of int, default "auto"
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "random"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear"}, default "linear"
        See `MeanShrinkage`.
    standardize : bool, default True
    chains, warmup, draws : int, default 4, 500 and 1000
    prior_scale : float, default 0.3
    allow_unconverged : bool, default False
    random_state : int, default 0

    Attributes
    ----------
    classes_ : (n_classes,)
    posteriors_ : list of xarray.DataTree
        For each class against the rest; one for two classes.
    converged_ : bool
    map_ : LandmarkMap

    See Also
    --------
    MeanShrinkageClassifier : the same model, in seconds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 80)
    >>> bags = [rng.normal(t, 1.0, size=(n, 1)) for t, n in zip(y, rng.choice([2, 20], 80))]
    >>> model = FullBayesClassifier(n_landmarks=5, bandwidth_scale=1.0, chains=2, warmup=300, draws=900).fit(bags, y)
    >>> model.predict_proba(bags[:2]).shape
    (2, 2)
    """

    _fit_class: ClassVar[type] = SampledProbit

    @property
    def posteriors_(self) -> list[xr.DataTree]:
        """The draws, as a tree for each binary problem."""
        check_is_fitted(self, "map_")
        return [f.tree() for f in self._fits]

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray) -> SampledProbit:
        settings = read_settings(self)
        found = sample_probit(candidates, 2.0 * t - 1.0, self.shrinkage_kernel, settings, float(self.prior_scale))
        judge(found, "FullBayesClassifier", self.allow_unconverged)
        return replace(found, allowed=bool(self.allow_unconverged))


def read_settings(model: Any) -> Settings:
    """Check the sampler's parameters."""
    if model.shrinkage_kernel not in KERNELS:
        raise unknown_name("shrinkage_kernel", model.shrinkage_kernel, KERNELS, "kernel")
    if not isinstance(model.prior_scale, int | float | np.number) or not 0 < float(model.prior_scale) < np.inf:
        raise InputError(f"prior_scale={model.prior_scale!r} is not a positive number.")
    return Settings(
        chains=check_count(model.chains, "chains", 2),
        warmup=check_count(model.warmup, "warmup", 1),
        draws=check_count(model.draws, "draws", 4),
        seed=0 if model.random_state is None else int(model.random_state),
    )


def judge(found: SampledModel | SampledProbit, name: str, allow_unconverged: bool) -> None:
    """Refuse draws that have not converged, or warn of them."""
    if found.sampled_well:
        return
    said = (
        f"{name}'s chains have not converged: r-hat {found.max_rhat:.3f} (below 1.01 is needed), smallest effective size "
        f"{min(found.min_ess_bulk, found.min_ess_tail):.0f} (200), {int(found.diverging.sum())} divergence(s)"
    )
    if not allow_unconverged:
        raise ConvergenceError(
            f"{said}. Raise warmup and draws, name fewer landmarks, or pass allow_unconverged=True to look at the draws."
        )
    warnings.warn(f"{said}; the numbers are not to be relied on.", CrosslevelWarning, stacklevel=5)
