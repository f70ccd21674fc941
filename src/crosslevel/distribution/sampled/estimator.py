"""``FullBayes``: weights and hyperparameters of the mean-shrinkage model sampled together by NUTS."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.distribution.base import BagClassifier, BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.sampled.model import SampledModel, SampledProbit, sample_model, sample_probit
from crosslevel.distribution.sampled.sampler import Settings
from crosslevel.distribution.shrinkage.estimator import ShrinkageEstimator
from crosslevel.errors import ConvergenceError, CrosslevelWarning
from crosslevel.typing import FloatArray, Progress, RandomState

if TYPE_CHECKING:
    import xarray as xr

Sampled = TypeVar("Sampled", SampledModel, SampledProbit)


class SampledEstimator(ShrinkageEstimator):
    """The parameters and the convergence of the estimators that sample."""

    def __init__(
        self,
        shrinkage_kernel: str = "base",
        n_landmarks: Any = "auto",
        *,
        landmarks: Any = "random",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        n_chains: int = 4,
        n_warmup: int = 500,
        n_draws: int = 1000,
        prior_scale: float = 0.3,
        allow_unconverged: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        features = {"bandwidth": bandwidth, "bandwidth_scale": bandwidth_scale, "standardize": standardize}
        super().__init__(shrinkage_kernel, n_landmarks, landmarks=landmarks, **features, random_state=random_state)
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.prior_scale = prior_scale
        self.allow_unconverged = allow_unconverged

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.check_positive(self.prior_scale, "prior_scale")

    def _sampler(self, progress: Progress | None) -> Settings:
        return Settings(
            n_chains=checks.check_whole(self.n_chains, "n_chains", 2),
            n_warmup=checks.check_whole(self.n_warmup, "n_warmup", 1),
            n_draws=checks.check_whole(self.n_draws, "n_draws", 4),
            seed=self._seed,
            progress=progress,
        )

    def _converged(self) -> bool:
        return all(f.sampled_well for f in self._fits)

    def _judged(self, found: Sampled) -> Sampled:
        """Refuse draws that have not converged, or warn of them."""
        if found.sampled_well:
            return found
        seen = found.draws.diagnostics
        said = (
            f"{type(self).__name__}'s chains have not converged: r-hat {seen.max_rhat:.3f} (below 1.01 is needed), smallest "
            f"effective size {min(seen.min_ess_bulk, seen.min_ess_tail):.0f} (200), {int(found.draws.diverging.sum())} divergence(s)"
        )
        if not self.allow_unconverged:
            raise ConvergenceError(
                f"{said}. Raise n_warmup and n_draws, name fewer landmarks, or pass allow_unconverged=True to look at the draws."
            )
        warnings.warn(f"{said}; do not rely on the numbers.", CrosslevelWarning, stacklevel=5)
        return replace(found, allowed=True)


class FullBayes(SampledEstimator, BagRegressor):
    """Bayesian distribution regression with everything sampled (section 3.4 of the paper), converged or refused.

    The model of `MeanShrinkage`; weights, residual variance, prior variance and shrinkage are drawn by NUTS, started and
    whitened from Laplace's approximation. Predictions average over the draws, densities too (the log of the mean).

    Parameters
    ----------
    shrinkage_kernel : {"base", "integral"}, default "base"
    n_landmarks : "auto", int or sequence of int, default "auto"
        The features are chosen by the evidence of `MeanShrinkage`.
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "random"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
        See `MeanShrinkage`.
    standardize : bool, default True
    n_chains, n_warmup, n_draws : int, default 4, 500 and 1000
        Chains, and iterations of each: discarded, and kept.
    prior_scale : float, default 0.3
        Standard deviation of the normal priors of the log variances log sigma^2, log eta and log rho^2; they are centered at the
        evidence's choice. Wider ones let sigma^2 fall far below it, where the labels tell little, and predict a little worse.
    allow_unconverged : bool, default False
        Return draws that have not converged, with a warning, instead of raising `ConvergenceError`.
    random_state : int, None, Generator or RandomState, default 0

    Attributes
    ----------
    posterior_ : xarray.DataTree
        Groups ``posterior`` (alpha, intercept, sigma, eta, rho; chain x draw first) and ``sample_stats``.
    convergence_ : dict
        Converged means r-hat below 1.01, effective sizes of at least 200, no divergence.
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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(-1, 1, 40)
    >>> bags = [rng.normal(t, 1.0, size=(n, 1)) for t, n in zip(y, rng.choice([2, 200], 40))]
    >>> model = FullBayes(n_landmarks=5, bandwidth_scale=1.0, n_chains=2, n_warmup=300, n_draws=900).fit(bags, y)
    >>> model.posterior_["posterior/alpha"].sizes["draw"], model.predict(bags).shape
    (900, (40,))
    """

    @property
    def posterior_(self) -> xr.DataTree:
        """The draws, as a tree."""
        check_is_fitted(self, "map_")
        return self._fits[0].tree()

    def _fit_features(
        self, candidates: Sequence[BagFeatures], y: FloatArray, progress: Progress | None
    ) -> SampledModel:
        found = sample_model(candidates, y, self.shrinkage_kernel, self._sampler(progress), float(self.prior_scale))
        return self._judged(found)


class FullBayesClassifier(SampledEstimator, BagClassifier):
    """Classify bags with a probit link, weights and shrinkage sampled by NUTS (Appendix B of the paper, signs corrected).

    Parameters
    ----------
    shrinkage_kernel : {"base", "integral"}, default "base"
    n_landmarks : "auto", int or sequence of int, default "auto"
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "random"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
        See `MeanShrinkage`.
    standardize : bool, default True
    n_chains, n_warmup, n_draws : int, default 4, 500 and 1000
    prior_scale : float, default 0.3
    allow_unconverged : bool, default False
    random_state : int, None, Generator or RandomState, default 0

    Attributes
    ----------
    classes_ : (n_classes,)
    posteriors_ : list of xarray.DataTree
        For each class against the rest; one for two classes.
    convergence_ : dict
    map_ : LandmarkMap

    See Also
    --------
    MeanShrinkageClassifier : the same model, in seconds.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 80)
    >>> bags = [rng.normal(t, 1.0, size=(n, 1)) for t, n in zip(y, rng.choice([2, 20], 80))]
    >>> model = FullBayesClassifier(n_landmarks=5, bandwidth_scale=1.0, n_chains=2, n_warmup=300, n_draws=900).fit(bags, y)
    >>> model.predict_proba(bags[:2]).shape
    (2, 2)
    """

    @property
    def posteriors_(self) -> list[xr.DataTree]:
        """The draws, as a tree for each binary problem."""
        check_is_fitted(self, "map_")
        return [f.tree() for f in self._fits]

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray, progress: Progress | None) -> SampledProbit:
        signs, scale = 2.0 * t - 1.0, float(self.prior_scale)
        return self._judged(sample_probit(candidates, signs, self.shrinkage_kernel, self._sampler(progress), scale))
