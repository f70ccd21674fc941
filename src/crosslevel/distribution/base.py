"""What all estimators over bags share: reading bags, learning features, answering with a distribution.

A model adds ``__init__`` (its parameters beside those of the features), ``_fit_features`` and the class of its fit: a frozen
dataclass made by functions on arrays, with ``chosen`` (which of the candidates it is a model of), ``converged`` (a fit that did not is
refused), ``diagnostics()`` (plain values for the reader) and ``predict``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.bags import Bags
from crosslevel.data.checks import align_groups
from crosslevel.data.progress import follow
from crosslevel.data.signatures import checked
from crosslevel.distribution import reading
from crosslevel.distribution.features import BagFeatures, LandmarkMap, pool
from crosslevel.distribution.landmarks import FeatureSettings, SecondLevel, candidate_maps
from crosslevel.distribution.predictive import Predictive, class_table, label_table
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import AnyArray, BoolArray, FloatArray, Progress, RandomState

LARGEST, SMALLEST = 1e140, 1e-140
"""Labels, and differences of labels, whose squares can be held."""


class BagEstimator(BaseEstimator):
    """Base of the estimators over bags; `BagRegressor` and `BagClassifier` are its two kinds.

    Attributes
    ----------
    map_ : LandmarkMap
        The chosen landmarks and bandwidth.
    n_features_in_ : int
        Number of columns of the people.
    convergence_, diagnostics_ : dict
        How the search for the hyperparameters ended, and all that the tables carry.
    warnings_ : tuple of str
    """

    _within: ClassVar[bool] = False
    """Whether the model needs the covariance within bags."""

    def __init__(
        self,
        n_landmarks: Any = "auto",
        landmarks: Any = "kmeans",
        bandwidth: Any = "median",
        bandwidth_scale: Any = "auto",
        standardize: bool = True,
        random_state: RandomState = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any, progress: Progress | None = None) -> Self:
        """Learn the features and the model.

        Parameters
        ----------
        X : Bags, list of (n_people, n_columns) arrays, or array (n_bags, n_columns)
            The bags; rows of a 2-D array are bags of one.
        y : (n_bags,)
            One label per bag.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of what is done and of all there is to do: people averaged; where shrinkage is
            learned, the fits that choose features; where it is sampled, draws of each chain, (0, None) while the sampler is compiled.
        """
        checks.check_flags(self)
        self._check_parameters()
        self._seed = checks.read_seed(self.random_state)
        bags = reading.read_bags(self, X, reset=True)
        target = self._read_target(y, reading.bag_names(X), len(bags))
        candidates = self._candidates(bags, progress)
        self._solve(candidates, target, progress)
        chosen = candidates[self._chosen()]
        assert chosen.map is not None  # for the type
        self.map_: LandmarkMap = chosen.map
        self._second: SecondLevel | None = chosen.second
        self._data = reading.fingerprints(bags, y)
        self._set_attributes()
        return self

    def features(self, X: Any) -> BagFeatures:
        """Compute the features the model sees of bags.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        """
        check_is_fitted(self, "map_")
        return self._features(reading.read_bags(self, X, reset=False))

    def _features(self, bags: Bags) -> BagFeatures:
        found = pool(bags, [self.map_], norms=self._needs_norms())[0]
        return found if self._second is None else self._second.apply(found)

    def _candidates(self, bags: Bags, progress: Progress | None) -> list[BagFeatures]:
        """Make the features that the model chooses from."""
        given = {f.name: getattr(self, f.name) for f in fields(FeatureSettings)}
        maps = candidate_maps(bags, FeatureSettings(**(given | {"random_state": self._seed})))
        with follow(progress, "Averaging people") as tell:
            return pool(bags, maps, within=self._within, norms=self._needs_norms(), tell=tell)

    def _needs_norms(self) -> bool:
        """Tell whether the model needs the mean squared length of each bag's people."""
        return False

    def _check_parameters(self) -> None:
        """Refuse parameters that are wrong or cannot act; models add theirs."""

    def _set_attributes(self) -> None:
        """Set what follows from the fit; models add theirs."""
        self.n_landmarks_ = len(self.map_.U)
        self.bandwidth_ = self.map_.bandwidth
        self.convergence_ = {"converged": self._converged()} | self._fits[0].diagnostics()
        self.diagnostics_ = self.convergence_ | {"landmarks": self.n_landmarks_, "bandwidth": self.bandwidth_}
        self.warnings_: tuple[str, ...] = ()

    def _converged(self) -> bool:
        return all(f.converged for f in self._fits)

    def _chosen(self) -> int:
        return int(self._fits[0].chosen)

    def _solve(self, candidates: Sequence[BagFeatures], target: AnyArray, progress: Progress | None) -> None:
        """Set ``_fits``, a tuple of one fit, or one for each class."""
        raise NotImplementedError

    def _read_target(self, y: Any, names: Any, n: int) -> AnyArray:
        raise NotImplementedError

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the table of a report: what the fit says of itself. A model keeps no bags, so it predicts none there."""
        check_is_fitted(self, "diagnostics_")
        said = {k: float(v) for k, v in self.diagnostics_.items() if isinstance(v, int | float) and np.isfinite(v)}
        found = Estimates.build(
            {"what": list(said), "estimate": list(said.values())},
            keys=["what"],
            method=f"distribution regression, {type(self).__name__}",
            level=None,
            interval="none",
            provenance=self._provenance("diagnostics_"),
            diagnostics=self.diagnostics_,
            warnings=["A model keeps no bags; report its estimate(bags) to see predictions."],
            title="What the fit says of itself",
        )
        return {"fit": found}

    def _provenance(self, call: str) -> Provenance:
        given = reading.describe_parameters(self.get_params())
        call = f"{type(self).__name__}({given}).fit(X, y).{call}"
        return Provenance.of(call=call, seed=self._seed, data=self._data)

    def _about(self) -> dict[str, Any]:
        """Say what a table of predictions carries beside them."""
        provenance = self._provenance("estimate(X)")
        return {"method": type(self).__name__, "provenance": provenance, "diagnostics": self.diagnostics_}

    _fits: tuple[Any, ...]
    _data: dict[str, str]
    _seed: int


class BagRegressor(RegressorMixin, BagEstimator):
    """Base of regressors over bags.

    A subclass gives ``_fit_features(candidates, y, progress)``, whose fit's ``predict(features)`` is a `Predictive`.
    """

    @checked
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
        return found.log_density(reading.read_numbers(y, reading.bag_names(X), len(found.mean)))

    def predictive(self, X: Any) -> Predictive:
        """Give the distribution of each bag's label.

        Parameters
        ----------
        X : Bags, list of arrays or 2-D array
        """
        found = self.features(X)
        return self._fits[0].predict(found)

    def estimate(self, X: Any, level: float = 0.95, y: Any = None) -> Estimates:
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
        truth = None if y is None else reading.read_numbers(y, reading.bag_names(X), len(bags))
        level = checks.check_level(level)
        ends = np.column_stack(found.interval(level))
        return label_table(bags, found.mean, found.std, ends, truth, level, **self._about())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give R² of the predictions; labels are matched with the bags as in ``fit``."""
        names = reading.bag_names(X)
        labels, weight = align_groups(y, names, "y"), align_groups(sample_weight, names, "sample_weight")
        weight = None if weight is None else checks.check_weights(weight, "sample_weight", len(labels))
        return float(super().score(X, labels, weight))

    def _fit_features(self, candidates: Sequence[BagFeatures], y: FloatArray, progress: Progress | None) -> Any:
        """Fit the model on each of the candidates and keep the best."""
        raise NotImplementedError

    def _solve(self, candidates: Sequence[BagFeatures], target: AnyArray, progress: Progress | None) -> None:
        found = self._fit_features(candidates, target, progress)
        if not found.converged:
            raise ConvergenceError(
                f"{type(self).__name__} did not converge ({found.diagnostics()}); no numbers are returned."
            )
        self._fits = (found,)

    def _read_target(self, y: Any, names: Any, n: int) -> FloatArray:
        target = reading.read_numbers(y, names, n)
        if n < 2:
            raise InputError("X has 1 bag (n_samples=1); a fit needs at least 2 bags.")
        largest, spread = float(np.abs(target).max()), float(np.ptp(target / 2.0))
        if largest > LARGEST or 0 < spread < SMALLEST:
            what = "large" if largest > LARGEST else "small"
            raise InputError(
                f"y is too {what} for its squares to be held (largest value {largest:.3g}); change its unit."
            )
        return target


class BagClassifier(ClassifierMixin, BagEstimator):
    """Base of classifiers over bags; more than two classes by one against the rest.

    A subclass gives ``_fit_binary(candidates, t, progress)`` (t is 0 or 1), whose fit's ``probability(features)`` is P(t = 1), (n,).
    """

    classes_: AnyArray

    def predict(self, X: Any) -> AnyArray:
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
        return np.asarray(logs[self._one_hot(y, reading.bag_names(X), len(logs))])

    def estimate(self, X: Any, y: Any = None) -> Estimates:
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
        truth = None if y is None else self._one_hot(y, reading.bag_names(X), len(bags))
        return class_table(bags, found, self.classes_, truth, **self._about())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the accuracy of the predictions; labels are matched with the bags as in ``fit``."""
        names = reading.bag_names(X)
        labels, weight = align_groups(y, names, "y"), align_groups(sample_weight, names, "sample_weight")
        weight = None if weight is None else checks.check_weights(weight, "sample_weight", len(labels))
        return float(super().score(X, labels, weight))

    def _one_hot(self, y: Any, names: Any, n: int) -> BoolArray:
        """Mark each bag's own class, (n, n_classes)."""
        labels = reading.read_labels(y, names, n)
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

    def _fit_binary(self, candidates: Sequence[BagFeatures], t: FloatArray, progress: Progress | None) -> Any:
        """Fit the model of one class against the rest."""
        raise NotImplementedError

    def _solve(self, candidates: Sequence[BagFeatures], target: AnyArray, progress: Progress | None) -> None:
        if len(self.classes_) == 1:
            raise InputError(f"y holds one class only, {self.classes_.tolist()[0]!r}; a classifier needs at least two.")
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        fits = [self._fit_binary(candidates, (target == c).astype(np.float64), progress) for c in positives]
        if len(fits) > 1 and len({f.chosen for f in fits}) > 1:
            # one set of features serves all classes: the one that most of them chose
            most = int(np.bincount([f.chosen for f in fits]).argmax())
            fits = [self._fit_binary([candidates[most]], (target == c).astype(np.float64), progress) for c in positives]
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

    def _read_target(self, y: Any, names: Any, n: int) -> AnyArray:
        labels = reading.read_labels(y, names, n)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        return labels
