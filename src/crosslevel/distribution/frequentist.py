"""``FrequentistShrinkage``: embeddings shrunk by leaving people out, then ridge regression by leaving bags out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from crosslevel.distribution.base import BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.muandet import ShrunkFit, fit_shrunk
from crosslevel.typing import FloatArray

__all__ = ["FrequentistShrinkage"]


class FrequentistShrinkage(BagRegressor):
    """Ridge regression on shrunken mean embeddings (Muandet et al. 2014).

    Small bags have noisy means; each is pulled to zero (or to the average bag), the more the fewer people it has. The amount
    minimises the error on a person left out of the bag, in closed form.

    Parameters
    ----------
    n_landmarks : "auto", int or sequence of int, default "auto"
        Numbers of landmarks to choose from; "auto" is 30, 60 and 90.
    filter : {"tikhonov", "simple", "iterated", "landweber", "truncated"}, default "tikhonov"
        "simple" (S-KMSE) scales the whole mean; the others are spectral filters, which pull directions of small variance more.
    target : {"zero", "mean"}, default "zero"
        Where means are pulled: to zero as in the papers, or to the average training bag. Bags differ little beside what people
        differ, so that leaving people out asks for much shrinkage to the average, and labels suffer.
    rule : {"loo", "gcv"}, default "loo"
        How the ridge penalty, the bandwidth and the number of landmarks are chosen.
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "kmeans"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear", "rbf"}, default "linear"
        "rbf" puts a Gaussian kernel between the shrunken embeddings.
    standardize : bool, default True
    random_state : int, default 0
        See `BayesianLinear`.

    Attributes
    ----------
    map_ : LandmarkMap
    penalty_, loo_ : float
        Of the ridge regression.
    strength_ : float
        Of the spectral filter; 0 for "simple", where each bag has its own.
    converged_ : bool

    Notes
    -----
    The posterior of a label knows nothing of the bag's size: its standard deviation is that of the ridge regression. `MeanShrinkage`
    has both.

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

    _fit_class: ClassVar[type] = ShrunkFit
    _within: ClassVar[bool] = True

    def __init__(
        self,
        n_landmarks: Any = "auto",
        filter: str = "tikhonov",
        target: str = "zero",
        *,
        rule: str = "loo",
        landmarks: Any = "kmeans",
        bandwidth: str | float = "median",
        bandwidth_scale: Any = "auto",
        second_level: str = "linear",
        standardize: bool = True,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.filter = filter
        self.target = target
        self.rule = rule
        self.second_level = second_level

    def _needs_norms(self) -> bool:
        return self.filter == "simple"

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray) -> ShrunkFit:
        return fit_shrunk(
            candidates, y, self.filter, self.target, self.rule, second_level=self.second_level, seed=self.random_state
        )

    def _set_attributes(self) -> None:
        super()._set_attributes()
        found: ShrunkFit = self._fits[0]
        self.penalty_, self.loo_, self.strength_ = found.penalty, found.criterion, found.strength
