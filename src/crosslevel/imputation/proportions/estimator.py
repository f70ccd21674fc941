"""``LabelProportions``: classify persons of unseen bags, learned from the proportions of labels in other bags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.cells import gather, sums, warn_outside
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.design import MOST_SCORES
from crosslevel.imputation.estimate import subgroups
from crosslevel.imputation.inputs import Inputs, Schema, keep_inputs, keep_warnings, read_fit, read_range, read_rows
from crosslevel.imputation.proportions.model import (
    Basis,
    Classified,
    Proportions,
    fit_proportions,
    learn_basis,
    place_share,
)
from crosslevel.numerics.logit_shift import logit
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import AnyArray, FloatArray, Progress, RandomState

ASSIGNMENTS = ("auto", "random", "places")
FEWEST_BAGS = 20
ROUNDING = 0.01
"""Proportions of all classes may miss one by this much, as rounded percentages do."""


class LabelProportions(ClassifierMixin, BaseEstimator):
    """Learn to classify persons from the proportions of labels in bags of persons.

    Persons have a logistic model of their columns: lines, bends, levels, and random features of a Gaussian kernel for interactions. It is
    fitted to the proportions of bags alone, and predicts persons of any bag. How strongly slopes are held follows from whether bags are
    drawn at random or are places.

    Parameters
    ----------
    n_features : int, default 128
        Random features of the kernel; 0 for a model that is additive in the columns.
    assignment : {"auto", "random", "places"}, default "auto"
        How people came into bags. Of random bags the prior variances are those of the largest evidence; places differ for reasons that are
        not in X, and the prior of slopes is fixed at that of :class:`CrossLevelImputer`, with contextual slopes for reasons that follow the
        composition of a place. "auto" takes bags for places where their composition differs by more than chance.
    categorical : sequence of str, optional
        Columns of numbers that are codes without order. Text always is.
    missing : {"error", "mean"}, default "error"
        "mean" takes a person of whom a column is missing as average in it.
    random_state : int, None, Generator or RandomState, default 0
        Of the random features.

    Attributes
    ----------
    classes_ : array
        Names of the columns of ``proportions``; 0 and 1 where it is one column.
    assignment_ : {"random", "places"}
    place_share_ : float
        Share of the differences in composition between bags that is not chance.
    fits_ : tuple of Classified
        Slopes, covariance and variances of each class; where there are two, of class 1 or of the first named.
    basis_ : Basis
    warnings_ : tuple of str
    convergence_ : dict
        For each class ``steps``, ``gradient``, ``variances`` of the three blocks of slopes, and ``bag_sd``.
    n_features_in_, feature_names_in_

    Notes
    -----
    What one random bag says of a slope is as much as one labeled person says, whatever its size: with bags of 512 a training set of 16,384
    people is worth 32 labels. Several classes are fitted one against the rest. No row of a person is kept.

    References
    ----------
    Quadrianto, N., Smola, A., Caetano, T. and Le, Q. (2009). Estimating labels from label proportions. JMLR 10.
    MacKay, D. (1992). The evidence framework applied to classification networks. Neural Computation 4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-2 * x[:, 0]))
    >>> bags = np.repeat(np.arange(250), 16)
    >>> model = LabelProportions(n_features=0).fit(x, bags, np.bincount(bags, y) / 16)
    >>> model.assignment_, model.predict(np.array([[-2.0, 0.0], [2.0, 0.0]])).tolist()
    ('random', [0, 1])
    """

    schema_: Schema
    _seed: int
    _data: dict[str, str]
    _unsaved = ("_range",)

    def __init__(
        self,
        n_features: int = 128,
        *,
        assignment: str = "auto",
        categorical: Sequence[str] | None = None,
        missing: str = "error",
        random_state: RandomState = 0,
    ) -> None:
        self.n_features = n_features
        self.assignment = assignment
        self.categorical = categorical
        self.missing = missing
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        bags: Any = None,
        proportions: Any = None,
        sample_weight: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the classes to the proportions.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
            What is known of each person.
        bags : array of shape (n,), or str
            The bag of each person, or the column of X that names it.
        proportions : dataframe, or array of shape (n_bags,) or (n_bags, n_classes)
            The share of each class in each bag. A frame has a column of bags and one column per class, and is matched by name; an array is
            in sorted order of the bags. One column is the share of class 1.
        sample_weight : array of shape (n,), optional
            Weights with which people count in the proportions.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the rounds done and of all, which is None until the end.
        """
        seed = checks.read_seed(self.random_state)
        n_features = checks.check_whole(self.n_features, "n_features", 0)
        for name, value, choices in (
            ("assignment", self.assignment, ASSIGNMENTS),
            ("missing", self.missing, ("error", "mean")),
        ):
            if value not in choices:
                raise unknown_name(name, value, choices, "choice")
        if proportions is None:
            raise InputError("proportions is None; pass the share of each class in each bag.")
        try:
            given = read_fit(
                X, bags, proportions, sample_weight, categorical=self.categorical, allow_missing=self.missing == "mean"
            )
            shares = _shares(given)
        except InputError as error:  # the words of the imputers, whose reading this is
            words = {"partition": "bags", "aggregates": "proportions", "group": "bag", "groups": "bags"}
            raise InputError(re.sub(rf"\b({'|'.join(words)})\b", lambda m: words[m[0]], str(error))) from None
        if len(given.schema.partitions) > 1:
            raise InputError(
                f"bags has {len(given.schema.partitions)} columns of labels; pass one, the bag of each person."
            )
        keep_inputs(self, given, seed)
        self.classes_ = np.array([0, 1]) if shares.shape[1] == 1 else np.array(given.hidden)
        people = given.people
        cells = gather(people.X, people.group, people.weight)
        self._range = np.array([np.fmin.reduce(cells.X), np.fmax.reduce(cells.X)])
        weight = sums(cells.pair_cell, cells.weight, len(cells.X))
        self.basis_: Basis = learn_basis(cells.X, weight, given.schema.columns, n_features, seed)
        if len(cells.X) * (1 + len(self.basis_.block)) > MOST_SCORES:
            raise InputError(
                f"X: {len(cells.X):,} distinct rows of people with {len(self.basis_.block):,} scores each are more than memory holds; pass "
                f"a sample of the bags, or fewer features than n_features={n_features}."
            )
        A = self.basis_.matrix(cells.X)
        n_bags = len(given.schema.partitions[0])
        group, n = cells.pair_group[:, 0], cells.sizes(0, n_bags)[1]
        total = np.bincount(group, cells.weight, n_bags)
        squares = sparse.csr_array(
            (cells.weight_squared / total[group] ** 2, (group, cells.pair_cell)), shape=(n_bags, len(cells.X))
        )
        known = Proportions(cells.shares(0, n_bags), squares, n)
        naive = np.average(shares, axis=0, weights=total)
        self._naive = np.array([1.0 - naive[0], naive[0]]) if len(naive) == 1 else naive
        self.place_share_ = place_share(A, self.basis_.block, weight, known, len(given.schema.columns))
        self.assignment_ = self.assignment
        if self.assignment == "auto":
            self.assignment_ = "places" if self.place_share_ > 0 else "random"
        with count_steps(progress, "Fitting classes", None, "rounds") as step:
            self.fits_: tuple[Classified, ...] = tuple(
                fit_proportions(A, self.basis_.block, known, s, places=self.assignment_ == "places", step=step)
                for s in (shares.T[:1] if shares.shape[1] == 1 else shares.T[: -1 if shares.shape[1] == 2 else None])
            )
        fitted = self.classes_ if len(self.fits_) > 1 else self.classes_[[-1 if shares.shape[1] == 1 else 0]]
        names = [str(c) for c in fitted]
        own = dict(zip(names, self.fits_, strict=True))
        self.convergence_ = {
            "converged": True,
            "steps": {name: f.steps for name, f in own.items()},
            "gradient": {name: f.gradient for name, f in own.items()},
            "variances": {name: f.variance.tolist() for name, f in own.items()},
            "bag_sd": {name: f.bag_sd for name, f in own.items()},
        }
        said = list(given.warnings)
        if n_bags < FEWEST_BAGS:
            said.append(
                f"there are {n_bags} bags, worth about as many labels: expect a rough ranking of persons and no more."
            )
        keep_warnings(self, said)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Give the probability of each class, (n, n_classes), of persons of any bag.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
        """
        rows = self._rows(X)
        return self._probabilities(self.basis_.matrix(rows))

    def predict(self, X: Any) -> AnyArray:
        """Give the most probable class of each person.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
        """
        likely = np.argmax(self.predict_proba(X), axis=1)
        found: AnyArray = self.classes_[likely]
        return found

    @checked
    def estimate(self, X: Any, by: str | Sequence[str], sample_weight: Any = None, level: float = 0.95) -> Estimates:
        """Give the mean probability of each class in groups of persons, with intervals from the posterior of the slopes.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
            People of any bag.
        by : str or sequence of str
            Columns of X that define the groups.
        sample_weight : array of shape (n,), optional
        level : float

        Returns
        -------
        Estimates
            Beside each estimate ``naive``, the mean proportion of the bags of the fit, and ``people``.
        """
        level, rows = checks.check_level(level), self._rows(X)
        sample_weight = checks.align_rows(sample_weight, checks.row_keys(X), "sample_weight")
        weight = None if sample_weight is None else checks.check_weights(sample_weight, "sample_weight", len(rows))
        cells = gather(rows, np.zeros(len(rows), dtype=np.intp), weight)
        cut, keys = subgroups(by, cells, replace(self.schema_, partitions=()))
        n_cuts = int(cut.max()) + 1
        total = np.bincount(cut, cells.weight, n_cuts)
        if not (total > 0).all():
            empty = {name: values[int(np.argmin(total))] for name, values in keys.items()}
            raise InputError(f"sample_weight is zero for everybody of {empty}; leave these people out.")
        share = sparse.csr_array((cells.weight / total[cut], (cut, cells.pair_cell)), shape=(n_cuts, len(cells.X)))
        A = self.basis_.matrix(cells.X)
        p = self._probabilities(A)
        columns: dict[str, list[Any]] = {}
        for k, name in enumerate(self.classes_.tolist()):
            fit = self.fits_[min(k, len(self.fits_) - 1)]
            mean = np.clip(share @ p[:, k], 1e-12, 1.0 - 1e-12)
            slope = share @ ((p[:, k] * (1.0 - p[:, k]))[:, None] * A)
            se = np.sqrt(np.einsum("ij,ij->i", slope @ fit.Sigma, slope))
            half = stats.norm.ppf(0.5 + 0.5 * level) * se / (mean * (1.0 - mean))
            low, high = (1.0 / (1.0 + np.exp(-(logit(mean) + sign * half))) for sign in (-1.0, 1.0))
            part = {
                "class": [name] * n_cuts,
                **keys,
                "estimate": mean,
                "std_error": se,
                "conf_low": low,
                "conf_high": high,
            }
            part |= {"naive": np.full(n_cuts, self._naive[k]), "people": np.bincount(cut, cells.count, n_cuts)}
            for column, values in part.items():
                columns.setdefault(column, []).extend(values)
        said = ", ".join(f"{k}={v!r}" for k, v in self.get_params(deep=False).items() if v is not None)
        return Estimates.build(
            columns,
            keys=["class", *keys],
            method="label proportions, a logistic model of persons",
            level=level,
            interval="posterior of the probability",
            provenance=Provenance.of(
                call=f"LabelProportions({said}).fit(...).estimate(by={by!r})", seed=self._seed, data=self._data
            ),
            diagnostics=self.convergence_ | {"assignment": self.assignment_},
            warnings=self.warnings_,
            kind="imputed",
        )

    def _rows(self, X: Any) -> FloatArray:
        check_is_fitted(self, "fits_")
        rows = read_rows(X, self.schema_, allow_missing=self.missing == "mean")
        if hasattr(self, "_range"):
            warn_outside(rows, self._range, self.schema_.names, stacklevel=4)
        return rows

    def _probabilities(self, A: FloatArray) -> FloatArray:
        p = np.column_stack([fit.probabilities(A) for fit in self.fits_])
        if p.shape[1] > 1:
            return np.asarray(p / p.sum(axis=1, keepdims=True))
        # of two named classes the first was fitted, of one column class 1
        return np.column_stack([1.0 - p, p] if self.classes_.dtype.kind == "i" else [p, 1.0 - p])


def _shares(given: Inputs) -> FloatArray:
    """Give the proportions, (B, n_classes), that are none missing, between 0 and 1, and sum to one where there are several."""
    labels = given.schema.partitions[0].labels
    for name in given.hidden:
        read_range(given, name, 0.0, 1.0)
    shares = np.column_stack([given.finest(name).mean for name in given.hidden])
    gaps = np.isnan(shares).any(axis=1)
    if gaps.any():
        raise InputError(
            f"proportions: missing for bag {labels[int(np.argmax(gaps))]!r} and {int(gaps.sum()) - 1:,} other(s); leave these people out."
        )
    for name, share in zip(given.hidden, shares.T, strict=True):
        if (share <= 0).all() or (share >= 1).all():
            which = 1 if shares.shape[1] == 1 else name
            raise InputError(
                f"proportions of class {which!r} are {share[0]:g} in every bag, so that nothing can be learned; leave it out."
            )
    if shares.shape[1] == 1:
        return shares
    total = shares.sum(axis=1)
    off = np.abs(total - 1.0) > ROUNDING
    if off.any():
        b = int(np.argmax(off))
        raise InputError(
            f"proportions of bag {labels[b]!r} sum to {total[b]:.4g}; pass the shares of all classes, which sum to one (one column is the "
            "share of class 1)."
        )
    return np.asarray(shares / total[:, None])
