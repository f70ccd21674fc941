"""``BayesianLinear``: labels linear in the bags' means, weights integrated out, everything else by the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from crosslevel.distribution.base import BagRegressor
from crosslevel.distribution.evidence import fit_evidence
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear import LinearFit
from crosslevel.typing import FloatArray

__all__ = ["BayesianLinear"]


class BayesianLinear(BagRegressor):
    """Bayesian linear regression on mean embeddings: uncertain weights, embeddings taken as they are.

    ``y_i = b + alpha' mu_i + noise`` with ``mu_il`` the mean of ``k(x, u_l)`` over bag i. Noise, prior variance, bandwidth and
    number of landmarks maximise the marginal likelihood, which has a closed form.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    prior : {"rkhs", "iid"}, default "rkhs"
        alpha ~ N(0, rho^2 K^-1), which is a white prior on the function, or N(0, rho^2 I).
    fit_intercept : bool, default True
        With a flat prior. The published variant is ``prior="iid", fit_intercept=False``.
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "kmeans"
        "paper" takes the people ``RandomState(1).choice`` picks; an array is used as it is, in units of the data.
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
        Multiples of ``bandwidth`` to choose from; "auto" is .5, .75, 1, 1.25 and 1.5.
    second_level : {"linear", "rbf"}, default "linear"
        "rbf" puts a Gaussian kernel between embeddings, so that labels may depend on them nonlinearly.
    standardize : bool, default True
        Divide each column by its standard deviation.
    random_state : int, default 0

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
    converged_ : bool

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

    _fit_class: ClassVar[type] = LinearFit

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
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.second_level = second_level

    def _second_kind(self) -> str:
        return self.second_level

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray) -> LinearFit:
        return fit_evidence(candidates, y, self.prior, bool(self.fit_intercept))

    def _set_attributes(self) -> None:
        super()._set_attributes()
        found: LinearFit = self._fits[0]
        self.coef_, self.intercept_ = found.coef, found.offset - float(found.centre @ found.coef)
        self.noise_variance_ = found.noise
        self.prior_variance_ = found.noise / found.penalty
        self.log_evidence_ = found.criterion
