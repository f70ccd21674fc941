"""``MeanShrinkage``: a bag's label, with the uncertainty of its embedding carried through in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from crosslevel.data import checks
from crosslevel.distribution.base import BagClassifier, BagEstimator, BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.shrinkage.model import KERNELS, ShrinkageModel, fit_probit_model, fit_shrinkage_model
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray, Progress, RandomState


class ShrinkageEstimator(BagEstimator):
    """The parameters of all models whose embeddings are uncertain."""

    _within: ClassVar[bool] = True

    def __init__(
        self,
        shrinkage_kernel: str = "base",
        n_landmarks: Any = "auto",
        *,
        landmarks: Any = "random",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.shrinkage_kernel = shrinkage_kernel

    def _check_parameters(self) -> None:
        if self.shrinkage_kernel not in KERNELS:
            raise unknown_name("shrinkage_kernel", self.shrinkage_kernel, KERNELS, "kernel")


class MeanShrinkage(ShrinkageEstimator, BagRegressor):
    """Bayesian regression on bags that accounts for the size of each bag (sections 3.2 and 3.3 of the paper).

    A bag's mean embedding is a sample; the true one has a Gaussian process prior whose scale eta is learned with the regression.
    Small bags are shrunk toward the average bag, and what remains unknown of their embedding widens their interval. The
    weights are integrated out by Laplace's method.

    Parameters
    ----------
    shrinkage_kernel : {"base", "integral"}, default "base"
        Prior covariance of embeddings: the kernel itself, or its integral against a Gaussian measure (the paper's shrinkageC)
        whose width is learned.
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks tried; "auto" is 30, 60 and 90. The evidence chooses, without a validation set.
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "random"
        Random people are the default here: fewer are the first of more, so that all candidates share one pass over the people.
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
        Multiples of the bandwidth tried; "auto" is .5, .75, 1, 1.25 and 1.5.
    standardize : bool, default True
        Divide each column by its standard deviation.
    n_restarts : int, default 2
        Further starts of the search on the chosen features.
    random_state : int, None, Generator or RandomState, default 0

    Attributes
    ----------
    alpha_ : (d,)
        Weights of the landmarks.
    intercept_ : float
        Of the average bag.
    sigma_, eta_, rho_ : float
        Residual standard deviation, scale of the shrinkage kernel, prior standard deviation of the weights, the first and the
        last in the units of y.
    measure_sd_ : float or None
        Standard deviation of the Gaussian measure, for the integral kernel.
    log_evidence_ : float
        Of the standardized labels.
    convergence_ : dict
    map_ : LandmarkMap

    See Also
    --------
    FullBayes : the same model with everything sampled.
    BayesianLinear : takes every bag's embedding as exact.

    Notes
    -----
    In the generalized eigenbasis of the shrinkage kernel and of the covariance within bags every bag's posterior is diagonal, so
    a step costs O(n d); no factorization per bag and no jitter are needed. That a normal embedding makes a normal label holds only
    while the label is linear in it, so there is no second kernel between bags here; `BayesianLinear` has one.

    References
    ----------
    Law, H. C. L., Sutherland, D. J., Sejdinovic, D. and Flaxman, S. (2018). Bayesian approaches to distribution regression.
    AISTATS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(-1, 1, 80)
    >>> bags = [rng.normal(t, 1.0, size=(n, 1)) for t, n in zip(y, rng.choice([2, 200], 80))]
    >>> model = MeanShrinkage(n_landmarks=10, bandwidth_scale=1.0).fit(bags, y)
    >>> mean, sd = model.predict([np.zeros((2, 1)), np.zeros((200, 1))], return_std=True)
    >>> bool(sd[0] > 2 * sd[1])
    True
    """

    def __init__(
        self,
        shrinkage_kernel: str = "base",
        n_landmarks: Any = "auto",
        *,
        landmarks: Any = "random",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        n_restarts: int = 2,
        random_state: RandomState = 0,
    ) -> None:
        features = {"bandwidth": bandwidth, "bandwidth_scale": bandwidth_scale, "standardize": standardize}
        super().__init__(shrinkage_kernel, n_landmarks, landmarks=landmarks, **features, random_state=random_state)
        self.n_restarts = n_restarts

    def _fit_features(
        self, candidates: Sequence[BagFeatures], y: FloatArray, progress: Progress | None
    ) -> ShrinkageModel:
        return fit_shrinkage_model(
            candidates,
            y,
            kernel=self.shrinkage_kernel,
            n_restarts=checks.check_whole(self.n_restarts, "n_restarts", 0),
            seed=self._seed,
            progress=progress,
        )

    def _set_attributes(self) -> None:
        super()._set_attributes()
        fit: ShrinkageModel = self._fits[0]
        found = fit.posterior
        assert found.sigma2 is not None  # for the type
        self.alpha_ = fit.y_sd * (fit.basis.P @ found.a)
        self.intercept_ = fit.y_mean + fit.y_sd * found.b
        self.sigma_, self.eta_ = float(fit.y_sd * np.sqrt(found.sigma2)), found.eta
        self.rho_ = float(fit.y_sd * np.sqrt(found.rho2))
        self.measure_sd_ = fit.measure_sd
        self.log_evidence_ = found.log_evidence


class MeanShrinkageClassifier(ShrinkageEstimator, BagClassifier):
    """Classify bags with a probit link, small bags less surely (Appendix B of the paper, with its signs corrected).

    The probability of a class given a bag is Phi(xi / sqrt(1 + V)), where V holds what remains unknown of the bag's embedding and
    of the weights. More than two classes are each set against the rest.

    Parameters
    ----------
    shrinkage_kernel : {"base", "integral"}, default "base"
    n_landmarks : "auto", int or sequence of int, default "auto"
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "random"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    standardize : bool, default True
    n_restarts : int, default 1
    random_state : int, None, Generator or RandomState, default 0

    Attributes
    ----------
    classes_ : (n_classes,)
    eta_ : (n_problems,)
        Scale of the shrinkage kernel, for each class against the rest (one entry for two classes).
    convergence_ : dict
    map_ : LandmarkMap

    See Also
    --------
    FullBayesClassifier : the same model with everything sampled.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 80)
    >>> bags = [rng.normal(t, 1.0, size=(n, 1)) for t, n in zip(y, rng.choice([2, 50], 80))]
    >>> model = MeanShrinkageClassifier(n_landmarks=10, bandwidth_scale=1.0).fit(bags, y)
    >>> small, large = model.predict_proba([np.ones((2, 1)), np.ones((50, 1))])[:, 1]
    >>> bool(0.5 < small < large)
    True
    """

    def __init__(
        self,
        shrinkage_kernel: str = "base",
        n_landmarks: Any = "auto",
        *,
        landmarks: Any = "random",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        n_restarts: int = 1,
        random_state: RandomState = 0,
    ) -> None:
        features = {"bandwidth": bandwidth, "bandwidth_scale": bandwidth_scale, "standardize": standardize}
        super().__init__(shrinkage_kernel, n_landmarks, landmarks=landmarks, **features, random_state=random_state)
        self.n_restarts = n_restarts

    def _fit_binary(
        self, candidates: Sequence[BagFeatures], t: FloatArray, progress: Progress | None
    ) -> ShrinkageModel:
        n_restarts = checks.check_whole(self.n_restarts, "n_restarts", 0)
        given: dict[str, Any] = {"n_restarts": n_restarts, "seed": self._seed, "progress": progress}
        return fit_probit_model(candidates, 2.0 * t - 1.0, kernel=self.shrinkage_kernel, **given)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        self.eta_ = np.array([f.posterior.eta for f in self._fits])
