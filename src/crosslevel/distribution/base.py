"""What all estimators over bags share: reading bags, learning features, answering with a distribution, saving.

A model adds ``__init__`` (its parameters beside those of the features), ``_fit_features`` and the class of its fit: a frozen
dataclass of arrays and plain values with ``predict``, made by functions on arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.bags import Bags
from crosslevel.distribution import answers, reading, saved
from crosslevel.distribution.features import BagFeatures, LandmarkMap, pool
from crosslevel.distribution.landmarks import FeatureSettings, candidate_maps
from crosslevel.distribution.predictive import Predictive
from crosslevel.distribution.second_level import SecondLevel, second_levels
from crosslevel.distribution.stored import StoredBags
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["BagClassifier", "BagEstimator", "BagRegressor", "Fit"]


class Fit(Protocol):
    """What ``_fit_features`` returns: a frozen dataclass whose fields are arrays, numbers, text or None.

    Attributes
    ----------
    chosen : int
        Which of the candidates it is a model of.
    converged : bool
        The certificate; a fit without it is refused.
    """

    @property
    def chosen(self) -> int: ...  # noqa: D102
    @property
    def converged(self) -> bool: ...  # noqa: D102

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader of the numbers should know, as plain values."""
        ...


class BagEstimator(BaseEstimator):
    """Base of the estimators over bags; `BagRegressor` and `BagClassifier` are its two kinds.

    Attributes
    ----------
    map_ : LandmarkMap
        The chosen landmarks and bandwidth.
    converged_ : bool
    n_features_in_ : int
        Number of columns of the people.
    diagnostics_ : dict
    """

    _within: ClassVar[bool] = False
    """Whether the model needs the covariance within bags."""
    _fit_class: ClassVar[type]
    """The dataclass ``_fit_features`` returns, for saving; classifiers: of one binary problem."""

    def __init__(
        self,
        n_landmarks: Any = "auto",
        landmarks: Any = "kmeans",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        random_state: int | None = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the features and the model.

        Parameters
        ----------
        X : Bags, StoredBags, list of (n_people, n_columns) arrays, or array (n_bags, n_columns)
            The bags; rows of a 2-D array are bags of one.
        y : (n_bags,)
            One label per bag.
        """
        bags = reading.read_bags(self, X, reset=True)
        target = self._read_target(y, len(bags))
        second = self._second_kind()
        settings = self._settings()
        maps = candidate_maps(bags, settings)
        candidates = pool(bags, maps, within=self._within, norms=self._needs_norms())
        seconds: Sequence[SecondLevel | None] = [None] * len(candidates)
        if second != "linear":
            candidates, seconds, maps = second_levels(candidates, second, settings.random_state)
        self._solve(candidates, target)
        self.map_: LandmarkMap = maps[self._chosen()]
        self._second = seconds[self._chosen()]
        self._data = reading.fingerprints(bags, y)
        self._notes = {}
        self._set_attributes()
        return self

    def features(self, X: Any) -> BagFeatures:
        """Compute the features the model sees of bags.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        """
        check_is_fitted(self, "map_")
        bags = reading.read_bags(self, X, reset=False)
        return self._features(bags)

    def to_payload(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Give the saved form; see `crosslevel.save`."""
        check_is_fitted(self, "map_")
        return saved.to_payload(self)

    @classmethod
    def from_payload(cls, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the model from its saved form."""
        return saved.from_payload(cls, meta, arrays)

    def _features(self, bags: Bags | StoredBags) -> BagFeatures:
        found = pool(bags, [self.map_], norms=self._needs_norms())[0]
        return found if self._second is None else self._second.apply(found)

    def _needs_norms(self) -> bool:
        """Tell whether the model needs the mean squared length of each bag's people."""
        return False

    def _second_kind(self) -> str:
        """Name the kernel that is put on the embeddings before the model sees them; models that have one say which."""
        return "linear"

    def _settings(self) -> FeatureSettings:
        return FeatureSettings(**{f.name: getattr(self, f.name) for f in fields(FeatureSettings)})

    def _set_attributes(self) -> None:
        """Set what follows from the fit alone; also after loading. Subclasses add theirs."""
        self.converged_ = all(f.converged for f in self._fits)
        self.n_landmarks_ = len(self.map_.U)
        self.bandwidth_ = self.map_.bandwidth
        self.diagnostics_ = self._diagnostics()

    def _diagnostics(self) -> dict[str, Any]:
        shared = {"converged": self.converged_, "landmarks": self.n_landmarks_, "bandwidth": self.bandwidth_}
        return shared | self._fits[0].diagnostics() | self._notes

    def _chosen(self) -> int:
        return self._fits[0].chosen

    def _solve(self, candidates: Sequence[BagFeatures], target: npt.NDArray[Any]) -> None:
        """Set ``_fits``, a tuple of one fit, or one for each class."""
        raise NotImplementedError

    def _read_target(self, y: Any, n: int) -> npt.NDArray[Any]:
        raise NotImplementedError

    def _provenance(self, call: str) -> Provenance:
        said = reading.say_parameters(self.get_params())
        return Provenance.of(
            call=f"{type(self).__name__}({said}).fit(X, y).{call}", seed=self._settings().random_state, data=self._data
        )

    _fits: tuple[Any, ...]
    _data: dict[str, str]
    _notes: dict[str, Any]
    """Further diagnostics, plain values; they are saved."""
    _second: SecondLevel | None


class BagRegressor(RegressorMixin, BagEstimator):
    """Base of regressors over bags.

    A subclass gives ``_fit_features(candidates, y) -> Fit`` whose ``predict(features)`` is a `Predictive`.
    """

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the labels of bags.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        return_std : bool
            Also give the standard deviation of a new label, noise included.

        Returns
        -------
        (n_bags,) or two of these
        """
        found = self.predictive(X)
        return (found.mean, found.std) if return_std else found.mean

    def predict_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Give the central interval of each bag's label, (n_bags, 2).

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        level : float
        """
        return np.column_stack(self.predictive(X).interval(checks.check_level(level)))

    def log_density(self, X: Any, y: Any) -> FloatArray:
        """Give the log predictive density of each bag's label, (n_bags,).

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        y : (n_bags,)
        """
        found = self.predictive(X)
        return found.log_density(reading.read_numbers(y, len(found.mean)))

    def predictive(self, X: Any) -> Predictive:
        """Give the distribution of each bag's label.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        """
        found = self.features(X)
        return self._fits[0].predict(found)

    def estimates(self, X: Any, level: float = 0.95, y: Any = None) -> Estimates:
        """Give the predictions as a table, a row per bag.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        level : float
        y : (n_bags,), optional
            The labels, where known: the column ``truth``.

        Returns
        -------
        Estimates
            Key ``bag``; ``estimate``, ``std_error`` (of a new label), ``conf_low``, ``conf_high``, ``size`` (effective).
        """
        check_is_fitted(self, "map_")
        bags = reading.read_bags(self, X, reset=False)
        found = self._fits[0].predict(self._features(bags))
        truth = None if y is None else reading.read_numbers(y, len(bags))
        return answers.label_table(
            bags,
            found,
            truth,
            checks.check_level(level),
            type(self).__name__,
            self._provenance("estimates(X)"),
            self.diagnostics_,
        )

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray) -> Any:
        """Fit the model on each of the candidates and keep the best."""
        raise NotImplementedError

    def _solve(self, candidates: Sequence[BagFeatures], target: npt.NDArray[Any]) -> None:
        found = self._fit_features(candidates, target)
        if not found.converged:
            raise ConvergenceError(
                f"{type(self).__name__} did not converge ({found.diagnostics()}); no numbers are returned."
            )
        self._fits = (found,)

    def _read_target(self, y: Any, n: int) -> FloatArray:
        target = reading.read_numbers(y, n)
        if n < 2:
            raise InputError("X has 1 bag (n_samples=1); a fit needs at least 2 bags.")
        return target


class BagClassifier(ClassifierMixin, BagEstimator):
    """Base of classifiers over bags; more than two classes by one against the rest.

    A subclass gives ``_fit_binary(candidates, t) -> Fit`` (t is 0 or 1) whose ``probability(features)`` is P(t = 1), (n,).
    """

    classes_: npt.NDArray[Any]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of each bag, (n_bags,)."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> FloatArray:
        """Give the probability of each class, (n_bags, n_classes)."""
        found = self.features(X)
        return self._probabilities(found)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Give the log probability of each class, (n_bags, n_classes)."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def log_density(self, X: Any, y: Any) -> FloatArray:
        """Give the log probability of each bag's own class, (n_bags,)."""
        logs = self.predict_log_proba(X)
        return np.asarray(logs[self._one_hot(y, len(logs))])

    def estimates(self, X: Any, y: Any = None) -> Estimates:
        """Give the probabilities as a table, a row per bag and class.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        y : (n_bags,), optional
            The classes, where known: the column ``truth`` is 1 for them.
        """
        check_is_fitted(self, "map_")
        bags = reading.read_bags(self, X, reset=False)
        found = self._probabilities(self._features(bags))
        truth = None if y is None else self._one_hot(y, len(bags))
        return answers.class_table(
            bags, found, self.classes_, truth, type(self).__name__, self._provenance("estimates(X)"), self.diagnostics_
        )

    def _one_hot(self, y: Any, n: int) -> npt.NDArray[np.bool_]:
        """Mark each bag's own class, (n, n_classes)."""
        labels = reading.read_labels(y, n)
        own = np.asarray(labels[:, None] == self.classes_, dtype=bool).reshape(n, -1)
        known = own.any(axis=1) if own.shape[1] == len(self.classes_) else np.zeros(n, dtype=bool)
        if not known.all():
            odd = labels[~known].tolist()[0]
            raise InputError(f"y holds {odd!r}, which is no class of fit; the classes are {self.classes_.tolist()}.")
        return own

    def _probabilities(self, features: BagFeatures) -> FloatArray:
        if len(self.classes_) == 2:
            p = self._fits[0].probability(features)
            return np.column_stack([1.0 - p, p])
        each = np.column_stack([f.probability(features) for f in self._fits])
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray) -> Any:
        """Fit the model of one class against the rest."""
        raise NotImplementedError

    def _solve(self, candidates: Sequence[BagFeatures], target: npt.NDArray[Any]) -> None:
        if len(self.classes_) == 1:
            raise InputError(f"y holds one class only, {self.classes_.tolist()[0]!r}; a classifier needs at least two.")
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        fits = [self._fit_binary(candidates, (target == c).astype(np.float64)) for c in positives]
        if len(fits) > 1 and len({f.chosen for f in fits}) > 1:
            # one set of features serves all classes: the one that most of them chose
            most = int(np.bincount([f.chosen for f in fits]).argmax())
            fits = [self._fit_binary([candidates[most]], (target == c).astype(np.float64)) for c in positives]
            self._shared_choice: int | None = most
        else:
            self._shared_choice = None
        bad = [c for c, f in zip(positives, fits, strict=True) if not f.converged]
        if bad:
            raise ConvergenceError(
                f"{type(self).__name__} did not converge for class {bad[0]!r}; no numbers are returned."
            )
        self._fits = tuple(fits)

    def _chosen(self) -> int:
        return self._fits[0].chosen if self._shared_choice is None else self._shared_choice

    def _read_target(self, y: Any, n: int) -> npt.NDArray[Any]:
        labels = reading.read_labels(y, n)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        return labels
