"""``MeanShrinkage``: a bag's label, with the uncertainty of its embedding carried through in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from crosslevel.distribution.base import BagClassifier, BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.second_level import LEVELS
from crosslevel.distribution.shrinkage_model import (
    KERNELS,
    ProbitModel,
    ShrinkageModel,
    fit_probit_model,
    fit_shrinkage_model,
)
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["MeanShrinkage", "MeanShrinkageClassifier"]


class MeanShrinkage(BagRegressor):
    """Bayesian regression on bags that knows small bags to be small (sections 3.2 and 3.3 of the paper).

    A bag's mean embedding is a sample; the true one has a Gaussian process prior whose scale eta is learnt with the regression.
    Small bags are shrunk towards the average bag, and what remains unknown of their embedding widens their interval. The
    weights are integrated out by Laplace's method.

    Parameters
    ----------
    shrinkage_kernel : {"k", "integral"}, default "k"
        Prior covariance of embeddings: the kernel itself, or its integral against a Gaussian measure (the paper's shrinkageC)
        whose width is learnt.
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks tried; "auto" is 30, 60 and 90. The evidence chooses, without a validation set.
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "random"
        Random people are the default here: fewer are the first of more, so that all candidates share one pass over the people.
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
        Multiples of the bandwidth tried; "auto" is .5, .75, 1, 1.25 and 1.5.
    second_level : {"linear"}, default "linear"
        A kernel between embeddings, which other models have, is refused: see the notes.
    standardize : bool, default True
        Divide each column by its standard deviation.
    penalty : "evidence" or float, default "evidence"
        How the weights are held: by a prior alpha ~ N(0, rho^2 K^-1) whose rho maximises the evidence, or by the paper's
        penalty on the mean over bags, rho^2 = 1 / (2 n penalty); then the weights are the most probable ones and count as known.
    restarts : int, default 2
        Further starts of the search on the chosen features.
    random_state : int, default 0

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
        Of the standardised labels.
    converged_ : bool
    map_ : LandmarkMap

    See Also
    --------
    FullBayes : the same model with everything sampled.
    BayesianLinear : takes every bag's embedding as exact.

    Notes
    -----
    In the generalised eigenbasis of the shrinkage kernel and of the covariance within bags every bag's posterior is diagonal, so
    a step costs O(n d); no factorisation per bag and no jitter are needed. That a normal embedding makes a normal label holds only
    while the label is linear in it, so there is no second kernel here.

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

    _within: ClassVar[bool] = True
    _fit_class: ClassVar[type] = ShrinkageModel

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
        penalty: str | float = "evidence",
        restarts: int = 2,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.shrinkage_kernel = shrinkage_kernel
        self.second_level = second_level
        self.penalty = penalty
        self.restarts = restarts

    def _second_kind(self) -> str:
        return refuse_second(self.second_level, "MeanShrinkage", "FrequentistShrinkage")

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray) -> ShrinkageModel:
        if self.shrinkage_kernel not in KERNELS:
            raise unknown_name("shrinkage_kernel", self.shrinkage_kernel, KERNELS, "kernel")
        return fit_shrinkage_model(
            candidates,
            y,
            kernel=self.shrinkage_kernel,
            penalty=check_penalty(self.penalty, len(candidates)),
            restarts=check_count(self.restarts, "restarts"),
            seed=self.random_state,
        )

    def _set_attributes(self) -> None:
        super()._set_attributes()
        fit: ShrinkageModel = self._fits[0]
        self.alpha_ = fit.y_sd * (fit.P @ fit.a)
        self.intercept_ = fit.y_mean + fit.y_sd * fit.b
        self.sigma_, self.eta_ = float(fit.y_sd * np.sqrt(fit.sigma2)), fit.eta
        self.rho_ = float(fit.y_sd * np.sqrt(fit.rho2))
        self.measure_sd_ = fit.measure_sd
        self.log_evidence_ = fit.log_evidence


class MeanShrinkageClassifier(BagClassifier):
    """Classify bags with a probit link, small bags less surely (Appendix B of the paper, with its signs corrected).

    The probability of a class given a bag is Phi(xi / sqrt(1 + V)), where V holds what remains unknown of the bag's embedding and
    of the weights. More than two classes are each set against the rest.

    Parameters
    ----------
    shrinkage_kernel : {"k", "integral"}, default "k"
    n_landmarks : "auto", int or sequence of int, default "auto"
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "random"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear"}, default "linear"
    standardize : bool, default True
    restarts : int, default 1
    random_state : int, default 0

    Attributes
    ----------
    classes_ : (n_classes,)
    eta_ : (n_problems,)
        Scale of the shrinkage kernel, for each class against the rest (one entry for two classes).
    converged_ : bool
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

    _within: ClassVar[bool] = True
    _fit_class: ClassVar[type] = ProbitModel

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
        restarts: int = 1,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.shrinkage_kernel = shrinkage_kernel
        self.second_level = second_level
        self.restarts = restarts

    def _second_kind(self) -> str:
        return refuse_second(self.second_level, "MeanShrinkageClassifier", "BayesianLinearClassifier")

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray) -> ProbitModel:
        if self.shrinkage_kernel not in KERNELS:
            raise unknown_name("shrinkage_kernel", self.shrinkage_kernel, KERNELS, "kernel")
        return fit_probit_model(
            candidates,
            2.0 * t - 1.0,
            kernel=self.shrinkage_kernel,
            restarts=check_count(self.restarts, "restarts"),
            seed=self.random_state,
        )

    def _set_attributes(self) -> None:
        super()._set_attributes()
        self.eta_ = np.array([f.eta for f in self._fits])


def refuse_second(second_level: object, name: str, other: str) -> str:
    """Refuse a kernel on embeddings that are themselves uncertain; it would make them inputs known exactly."""
    if second_level not in LEVELS:
        raise unknown_name("second_level", second_level, LEVELS, "choice")
    if second_level != "linear":
        raise InputError(
            f"second_level={second_level!r} is not offered by {name}: the spread of a small bag's label has a closed form only "
            f"while the label is linear in the bag's embedding. Use {other}(second_level={second_level!r}), whose intervals know "
            "nothing of size, or more landmarks."
        )
    return "linear"


def check_penalty(penalty: object, n_candidates: int) -> float | None:
    """Read the penalty; None stands for the evidence's choice."""
    if isinstance(penalty, str):
        if penalty != "evidence":
            raise unknown_name("penalty", penalty, ["evidence"], "choice")
        return None
    if (
        isinstance(penalty, bool)
        or not isinstance(penalty, int | float | np.number)
        or not 0 <= float(penalty) < np.inf
    ):
        raise InputError(f"penalty={penalty!r} is not 'evidence' or a number of at least 0.")
    if penalty == 0 and n_candidates > 1:
        raise InputError(
            "penalty=0 gives the features nothing to be compared by; name one n_landmarks and one bandwidth_scale, or pass "
            "penalty='evidence'."
        )
    return float(penalty)


def check_count(value: object, argument: str, least: int = 0) -> int:
    """Read a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{argument}={value!r} is not a whole number of at least {least}.")
    return int(value)
