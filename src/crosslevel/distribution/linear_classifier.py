"""``BayesianLinearClassifier``: classes of bags, logistic in the bags' means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from crosslevel.distribution.base import BagClassifier
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.logistic import LogisticFit, fit_logistic
from crosslevel.typing import FloatArray

__all__ = ["BayesianLinearClassifier"]


class BayesianLinearClassifier(BagClassifier):
    """Bayesian logistic regression on mean embeddings; more than two classes by one against the rest.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    prior : {"rkhs", "iid"}, default "rkhs"
        alpha ~ N(0, rho^2 K^-1), which is a white prior on the function, or N(0, rho^2 I).
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "kmeans"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear", "rbf"}, default "linear"
    standardize : bool, default True
    random_state : int, default 0
        See `BayesianLinear`.

    Attributes
    ----------
    classes_ : (n_classes,)
    map_ : LandmarkMap
    log_evidence_ : (n_problems,)
        Laplace's approximation: of the second class against the first, or of each class against the rest.
    converged_ : bool

    Notes
    -----
    Prior variance, bandwidth and number of landmarks maximise Laplace's evidence; probabilities average over the weights'
    uncertainty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sd = rng.choice([1.0, 2.0], 60)
    >>> bags = [rng.normal(0, s, size=(30, 1)) for s in sd]
    >>> model = BayesianLinearClassifier(n_landmarks=10).fit(bags, np.where(sd > 1, "wide", "narrow"))
    >>> model.predict([rng.normal(0, 2, size=(40, 1))]).tolist()
    ['wide']
    """

    _fit_class: ClassVar[type] = LogisticFit

    def __init__(
        self,
        n_landmarks: Any = "auto",
        prior: str = "rkhs",
        *,
        landmarks: Any = "kmeans",
        bandwidth: str | float = "median",
        bandwidth_scale: Any = "auto",
        second_level: str = "linear",
        standardize: bool = True,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.prior = prior
        self.second_level = second_level

    def _second_kind(self) -> str:
        return self.second_level

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray) -> LogisticFit:
        return fit_logistic(candidates, t, self.prior)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        self.log_evidence_ = np.array([f.log_evidence for f in self._fits])
