"""Estimators that are linear in the means of bags: Bayesian, ridge regression, logistic, and on shrunken means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from crosslevel.data import checks
from crosslevel.data.bags import Bags
from crosslevel.distribution.base import BagClassifier, BagEstimator, BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.landmarks import second_levels
from crosslevel.distribution.linear.kernel_mean_shrinkage import ShrunkFit, fit_shrunk
from crosslevel.distribution.linear.logistic import LogisticFit, fit_logistic
from crosslevel.distribution.linear.model import LinearFit
from crosslevel.distribution.linear.penalty import fit_evidence, fit_ridge
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray, Progress, RandomState

NORMS = {"weights": "iid", "rkhs": "rkhs"}


class SecondLevelEstimator(BagEstimator):
    """Puts the kernel between bags that ``second_level`` names on the embeddings, before the model sees them."""

    second_level: str

    def _candidates(self, bags: Bags, progress: Progress | None) -> list[BagFeatures]:
        return second_levels(super()._candidates(bags, progress), self.second_level, self._seed)


class BayesianLinear(SecondLevelEstimator, BagRegressor):
    """Bayesian linear regression on mean embeddings: uncertain weights, embeddings taken as they are.

    ``y_i = b + alpha' mu_i + noise`` with ``mu_il`` the mean of ``k(x, u_l)`` over bag i. Noise, prior variance, bandwidth and
    number of landmarks maximize the marginal likelihood, which has a closed form.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    prior : {"rkhs", "iid"}, default "rkhs"
        alpha ~ N(0, rho^2 K^-1), which is a white prior on the function, or N(0, rho^2 I).
    fit_intercept : bool, default True
        With a flat prior. The published variant is ``prior="iid", fit_intercept=False``.
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "kmeans"
        "paper" takes the people ``RandomState(1).choice`` picks; an array is used as it is, in units of the data.
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
        Multiples of ``bandwidth`` to choose from; "auto" is .5, .75, 1, 1.25 and 1.5.
    second_level : {"linear", "rbf"}, default "linear"
        "rbf" puts a Gaussian kernel between embeddings, so that labels may depend on them nonlinearly.
    standardize : bool, default True
        Divide each column by its standard deviation.
    random_state : int, None, Generator or RandomState, default 0

    Attributes
    ----------
    map_ : LandmarkMap
        The chosen landmarks ``U`` and ``bandwidth``.
    coef_ : (d,)
        alpha, weights of the means less those of the training bags.
    intercept_ : float
    noise_variance_, prior_variance_ : float
        sigma^2 and rho^2.
    log_evidence_ : float
    convergence_ : dict

    See Also
    --------
    RBFNetwork : the same without a prior, by leave-one-out.

    References
    ----------
    Law, H. C. L., Sutherland, D. J., Sejdinovic, D. and Flaxman, S. (2018). Bayesian approaches to distribution regression.
    AISTATS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, 100)
    >>> bags = [rng.normal(0, s, size=(50, 1)) for s in y]
    >>> model = BayesianLinear(n_landmarks=20).fit(bags[:80], y[:80])
    >>> mean, std = model.predict(bags[80:], return_std=True)
    >>> bool(np.mean((mean - y[80:]) ** 2) < 0.1), bool((std > 0).all())
    (True, True)
    """

    def __init__(
        self,
        n_landmarks: Any = "auto",
        prior: str = "rkhs",
        fit_intercept: bool = True,
        *,
        landmarks: Any = "kmeans",
        bandwidth: str | float = "median",
        bandwidth_scale: Any = "auto",
        second_level: str = "linear",
        standardize: bool = True,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.second_level = second_level

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray, progress: Progress | None) -> LinearFit:
        return fit_evidence(candidates, y, self.prior, bool(self.fit_intercept))

    def _set_attributes(self) -> None:
        super()._set_attributes()
        found: LinearFit = self._fits[0]
        self.coef_, self.intercept_ = found.coef, found.intercept
        self.noise_variance_ = found.noise
        self.prior_variance_ = found.noise / found.penalty
        self.log_evidence_ = found.criterion


class BayesianLinearClassifier(SecondLevelEstimator, BagClassifier):
    """Bayesian logistic regression on mean embeddings; more than two classes by one against the rest.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    prior : {"rkhs", "iid"}, default "rkhs"
        alpha ~ N(0, rho^2 K^-1), which is a white prior on the function, or N(0, rho^2 I).
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "kmeans"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear", "rbf"}, default "linear"
    standardize : bool, default True
    random_state : int, None, Generator or RandomState, default 0
        See `BayesianLinear`.

    Attributes
    ----------
    classes_ : (n_classes,)
    map_ : LandmarkMap
    log_evidence_ : (n_problems,)
        Laplace's approximation: of the second class against the first, or of each class against the rest.
    convergence_ : dict

    Notes
    -----
    Prior variance, bandwidth and number of landmarks maximize Laplace's evidence; probabilities average over the weights'
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
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.prior = prior
        self.second_level = second_level

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray, progress: Progress | None) -> LogisticFit:
        return fit_logistic(candidates, t, self.prior)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        self.log_evidence_ = np.array([f.log_evidence for f in self._fits])


class RBFNetwork(SecondLevelEstimator, BagRegressor):
    """A network with one layer of Gaussian units, averaged over each bag, and a linear output with intercept.

    Landmarks stay where they are, so the output weights have a closed form, and so has the error on a bag that is left out; it
    chooses the penalty, the bandwidth and the number of landmarks without a validation set.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    penalty : float, optional
        Times the squared length of the weights, beside the sum of squared errors; chosen by ``rule`` when not given.
    rule : {"loo", "gcv"}, default "loo"
        Exact leave-one-out or generalized cross-validation.
    norm : {"weights", "rkhs"}, default "weights"
        Whose length is penalized: the weights', or the function's in the RKHS.
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "kmeans"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear", "rbf"}, default "linear"
    standardize : bool, default True
    random_state : int, None, Generator or RandomState, default 0
        See `BayesianLinear`.

    Attributes
    ----------
    map_ : LandmarkMap
    coef_ : (d,)
    intercept_ : float
    penalty_ : float
    loo_ : float
        Left-out mean squared error by ``rule``. It is the least of those tried, so a little optimistic.
    convergence_ : dict
        The weights are exact.

    Notes
    -----
    ``predict(return_std=True)`` takes labels as normal with the residual variance by the degrees of freedom left, enlarged by the
    bag's leverage.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, 100)
    >>> bags = [rng.normal(0, s, size=(50, 1)) for s in y]
    >>> model = RBFNetwork(n_landmarks=20).fit(bags[:80], y[:80])
    >>> bool(model.score(bags[80:], y[80:]) > 0.7), bool(model.loo_ < 0.1)
    (True, True)
    """

    def __init__(
        self,
        n_landmarks: Any = "auto",
        penalty: float | None = None,
        rule: str = "loo",
        *,
        norm: str = "weights",
        landmarks: Any = "kmeans",
        bandwidth: str | float = "median",
        bandwidth_scale: Any = "auto",
        second_level: str = "linear",
        standardize: bool = True,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.penalty = penalty
        self.rule = rule
        self.norm = norm
        self.second_level = second_level

    def _check_parameters(self) -> None:
        if self.norm not in NORMS:
            raise unknown_name("norm", self.norm, list(NORMS), "choice")
        if self.penalty is not None:
            checks.check_positive(self.penalty, "penalty")

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray, progress: Progress | None) -> LinearFit:
        return fit_ridge(candidates, y, NORMS[self.norm], self.rule, self.penalty)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        found: LinearFit = self._fits[0]
        self.coef_, self.intercept_ = found.coef, found.intercept
        self.penalty_, self.loo_ = found.penalty, found.criterion


class FrequentistShrinkage(BagRegressor):
    """Ridge regression on shrunken mean embeddings (Muandet et al. 2014).

    Small bags have noisy means; each is shrunk to zero, the more the fewer people it has. The amount minimizes
    the error on a person left out of the bag, in closed form.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    filter : {"tikhonov", "simple"}, default "tikhonov"
        "simple" (S-KMSE) scales the whole mean; the spectral filter "tikhonov" shrinks directions of small variance more.
    rule : {"loo", "gcv"}, default "loo"
        How the ridge penalty, the bandwidth and the number of landmarks are chosen.
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns), default "kmeans"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    standardize : bool, default True
    random_state : int, None, Generator or RandomState, default 0
        See `BayesianLinear`.

    Attributes
    ----------
    map_ : LandmarkMap
    penalty_, loo_ : float
        Of the ridge regression.
    strength_ : float
        Of the spectral filter; 0 for "simple", where each bag has its own.
    convergence_ : dict

    Notes
    -----
    The distribution of a label does not depend on the bag's size: its standard deviation is that of the ridge regression. For
    `MeanShrinkage` it does.

    References
    ----------
    Muandet, K., Fukumizu, K., Sriperumbudur, B., Gretton, A. and Schoelkopf, B. (2014). Kernel mean estimation and Stein effect. ICML.
    Muandet, K., Sriperumbudur, B. and Schoelkopf, B. (2014). Kernel mean estimation via spectral filtering. NeurIPS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, 100)
    >>> bags = [rng.normal(0, s, size=(int(rng.integers(5, 100)), 1)) for s in y]
    >>> model = FrequentistShrinkage(n_landmarks=20).fit(bags[:80], y[:80])
    >>> bool(model.score(bags[80:], y[80:]) > 0.5)
    True
    """

    _within: ClassVar[bool] = True

    def __init__(
        self,
        n_landmarks: Any = "auto",
        filter: str = "tikhonov",
        *,
        rule: str = "loo",
        landmarks: Any = "kmeans",
        bandwidth: str | float = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.filter = filter
        self.rule = rule

    def _needs_norms(self) -> bool:
        return self.filter == "simple"

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray, progress: Progress | None) -> ShrunkFit:
        return fit_shrunk(candidates, y, self.filter, self.rule)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        found: ShrunkFit = self._fits[0]
        self.penalty_, self.loo_ = found.linear.penalty, found.linear.criterion
        self.strength_ = found.shrinker.strength
