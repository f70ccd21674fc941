"""``RBFNetwork``: mean-pooled kernel features and ridge regression, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from crosslevel.distribution import reading
from crosslevel.distribution.base import BagRegressor
from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear import LinearFit
from crosslevel.distribution.ridge import fit_ridge
from crosslevel.distribution.tuning import tune
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["RBFNetwork"]


NORMS = {"weights": "iid", "rkhs": "rkhs"}


class RBFNetwork(BagRegressor):
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
        Exact leave-one-out or generalised cross-validation.
    norm : {"weights", "rkhs"}, default "weights"
        Whose length is penalised: the weights', or the function's in the RKHS.
    fine_tune : bool, default False
        Also move landmarks and bandwidth by L-BFGS on the penalised error; they are kept only if leave-one-out improves.
    tuning_steps : int, default 50
        Steps of fine tuning.
    landmarks : {"kmeans", "random", "leverage", "paper"} or array (d, n_columns), default "kmeans"
    bandwidth : "median" or float, default "median"
    bandwidth_scale : "auto", float or sequence of float, default "auto"
    second_level : {"linear", "rbf"}, default "linear"
    standardize : bool, default True
    random_state : int, default 0
        See `BayesianLinear`.

    Attributes
    ----------
    map_ : LandmarkMap
    coef_ : (d,)
    intercept_ : float
    penalty_ : float
    loo_ : float
        Left-out mean squared error by ``rule``. It is the least of those tried, so a little optimistic.
    converged_ : bool
        The weights are exact; fine tuning reports ``tuning`` in ``diagnostics_``.

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

    _fit_class: ClassVar[type] = LinearFit

    def __init__(
        self,
        n_landmarks: Any = "auto",
        penalty: float | None = None,
        rule: str = "loo",
        *,
        norm: str = "weights",
        fine_tune: bool = False,
        tuning_steps: int = 50,
        landmarks: Any = "kmeans",
        bandwidth: str | float = "median",
        bandwidth_scale: Any = "auto",
        second_level: str = "linear",
        standardize: bool = True,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_landmarks, landmarks, bandwidth, bandwidth_scale, standardize, random_state)
        self.penalty = penalty
        self.rule = rule
        self.norm = norm
        self.fine_tune = fine_tune
        self.tuning_steps = tuning_steps
        self.second_level = second_level

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the features and the weights.

        Parameters
        ----------
        X : Bags, StoredBags, list of (n_people, n_columns) arrays, or array (n_bags, n_columns)
        y : (n_bags,)
        """
        super().fit(X, y)
        if self.fine_tune:
            bags = reading.read_bags(self, X, reset=False)
            if self._second is not None:
                raise InputError("fine_tune=True moves the landmarks of a linear model; pass second_level='linear'.")
            labels = reading.read_numbers(y, len(bags))
            tuned = tune(bags, labels, self.map_, self._fits[0], NORMS[self.norm], self.rule, self.tuning_steps)
            self.map_, self._fits, self._notes = tuned.map, (tuned.fit,), {"tuning": tuned.report}
            self._set_attributes()
        return self

    def _second_kind(self) -> str:
        return self.second_level

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray) -> LinearFit:
        if self.norm not in NORMS:
            raise unknown_name("norm", self.norm, list(NORMS), "choice")
        if self.penalty is not None and not 0 < self.penalty < np.inf:
            raise InputError(f"penalty={self.penalty!r} is not a positive number; pass None to have it chosen.")
        return fit_ridge(candidates, y, NORMS[self.norm], self.rule, self.penalty)

    def _set_attributes(self) -> None:
        super()._set_attributes()
        found: LinearFit = self._fits[0]
        self.coef_, self.intercept_ = found.coef, found.offset - float(found.centre @ found.coef)
        self.penalty_, self.loo_ = found.penalty, found.criterion
