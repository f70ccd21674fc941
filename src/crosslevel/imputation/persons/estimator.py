"""``CrossLevelImputer``: each person's hidden value from group means, by one model of persons."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.imputation.cells import Cells, gather, sums
from crosslevel.imputation.inputs import People, read_fit, read_people
from crosslevel.imputation.persons import saved
from crosslevel.imputation.persons.answers import (
    Hidden,
    cut_by,
    few_groups,
    learning_columns,
    mean_columns,
)
from crosslevel.imputation.persons.design import learn_design
from crosslevel.imputation.persons.fitting import draw, finest, fit_hidden, members_of, person_values, scale_of
from crosslevel.imputation.persons.learning import Learnt, learn_from
from crosslevel.imputation.persons.model import Settings
from crosslevel.imputation.persons.totals import totals_columns
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["CrossLevelImputer"]


FAMILIES = ("bernoulli", "gaussian")
AGREE = 1e-5
"""Distance of slopes, in prior sds, up to which restarts found the same optimum."""


class CrossLevelImputer(TransformerMixin, BaseEstimator):
    """Person-level estimates of features that were published as group means only; the recommended default.

    Persons have a logistic model of what is known of them. It is fitted to the group means alone, held by a ridge that grows with
    the number of groups (groups differ for reasons that are not in X, and more groups do not change that), and then shifted by one
    constant per group, so that every published mean is met exactly. Intervals come from the same ridge.

    Parameters
    ----------
    slope_sd : float, default 0.45
        Prior sd of a slope, in logits per sd of a column. It sets the width of intervals and hardly moves the estimates.
    shrinkage_groups : float, default 32
        How much is learnt: for one column alone the slope keeps sd_b² / (sd_b² + 1/shrinkage_groups) of its ecological value, sd_b being
        the between-group sd of the column in sds of persons. 16 is cautious.
    curvature : float, default 0.3
        Prior sd of what bends in an ordered column, relative to a slope; 0 leaves it out.
    family : {"bernoulli", "gaussian"} or mapping of hidden feature to either, default "bernoulli"
        Whether the hidden feature is yes or no, or a number. For a number the link is the identity.
    scale : float or mapping of hidden feature to float, optional
        sd of a hidden number among persons. Estimates do not depend on it; intervals and draws need it, or the published
        standard errors.
    categorical : sequence of str, optional
        Columns of numbers that are codes without order. Text always is. Other numbers with up to 12 values are ordered levels;
        with more they are continuous, and linear.
    missing : {"error", "mean"}, default "error"
        "mean" takes a person of whom a column is missing as average in it.
    n_restarts : int, default 3
        Further fits from random slopes, which must agree.
    random_state : int, default 0
        Seed of restarts and of ``sample``.

    Attributes
    ----------
    hidden_ : tuple of Hidden
        The fitted features: slopes, covariance, shifts, what was learnt from similar columns.
    hidden_names_ : tuple of str
    schema_ : Schema
        Columns and groups of the fit.
    design_ : Design
        Scores of the columns.
    warnings_ : tuple of str
    learned_ : Learnt or None
        What :meth:`learn_from_similar` found.
    n_features_in_, feature_names_in_

    Notes
    -----
    Shrinkage is fixed, not chosen. Evidence and leaving groups out both judge how well *means* are predicted; the error here is
    confounding, which means cannot show, and both choose far too little shrinkage. A hidden feature published for several
    partitions is taken from the one with the most groups.

    References
    ----------
    Park, Y. and Ghosh, J. (2012). CUDIA: probabilistic cross-level imputation using individual auxiliary information.
    Jackson, C., Best, N. and Richardson, S. (2008). Hierarchical related regression. JRSS A 171.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = np.repeat(np.arange(30), 200)
    >>> age = rng.binomial(4, 0.3 + 0.4 * (state / 30))
    >>> ill = rng.random(6000) < 1 / (1 + np.exp(3 - 0.8 * age))
    >>> means = np.bincount(state, ill) / 200
    >>> link = CrossLevelImputer().fit({"age": age}, state, means)
    >>> p = link.transform({"age": age}, state)[:, 0]
    >>> bool(np.abs(np.bincount(state, p) / 200 - means).max() < 1e-10), bool(p[age == 4].mean() > 2 * p[age == 0].mean())
    (True, True)
    """

    def __init__(
        self,
        slope_sd: float = 0.45,
        shrinkage_groups: float = 32.0,
        *,
        curvature: float = 0.3,
        family: str | Mapping[str, str] = "bernoulli",
        scale: float | Mapping[str, float] | None = None,
        categorical: Sequence[str] | None = None,
        missing: str = "error",
        n_restarts: int = 3,
        random_state: int = 0,
    ) -> None:
        self.slope_sd = slope_sd
        self.shrinkage_groups = shrinkage_groups
        self.curvature = curvature
        self.family = family
        self.scale = scale
        self.categorical = categorical
        self.missing = missing
        self.n_restarts = n_restarts
        self.random_state = random_state

    def fit(
        self, X: Any, partition: Any = None, aggregates: Any = None, sample_weight: Any = None, aggregate_se: Any = None
    ) -> Self:
        """Fit the hidden features to the published means.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
            What is known of each person.
        partition : array of shape (n,), str, or dataframe of labels
            The group of each person; the name of the column of X that holds it; or several partitions.
        aggregates : dataframe, array, or mapping of partition to either
            The published means: a frame with a column that names the group (as the partition is named, or ``partition``) and one
            per hidden feature, or an array in sorted order of the labels. An empty mean is allowed. With several partitions, a
            mapping from their names to one table each.
        sample_weight : array of shape (n,), optional
            Survey weights.
        aggregate_se : like aggregates, optional
            Published standard errors of the means.
        """
        settings = self._settings()
        given = read_fit(
            X,
            partition,
            aggregates,
            sample_weight,
            aggregate_se,
            categorical=self.categorical,
            allow_missing=self.missing == "mean",
        )
        people = given.people
        self.schema_ = given.schema
        self.feature_names_in_ = np.array(given.schema.names, dtype=object)
        self.n_features_in_ = len(given.schema.columns)
        cells = gather(people.X, people.group, people.weight)
        weight = sums(cells.pair_cell, cells.weight, len(cells.X))
        self.design_ = learn_design(cells.X, weight, given.schema.columns, self.curvature)
        self._cells, self._weight, self._data, self._frame = cells, people.weight, given.data, people.frame
        self.hidden_ = tuple(
            fit_hidden(
                p,
                given.schema.partitions[p.partition],
                cells,
                self.design_,
                settings,
                self._family(p.name, given.hidden),
                scale_of(p.name, self.scale),
            )
            for p in finest(given.published)
        )
        self.hidden_names_ = tuple(h.name for h in self.hidden_)
        self.learned_: Learnt | None = None
        self.warnings_ = (*given.notes, *(w for h in self.hidden_ for w in self._doubts(h)))
        for words in self.warnings_:
            warnings.warn(words, CrosslevelWarning, stacklevel=2)
        return self

    def transform(
        self, X: Any, partition: Any = None, match_means: bool = True, sample_weight: Any = None
    ) -> FloatArray:
        """Give the expected hidden values of people, (n, d_u): probabilities, or expected numbers.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
        partition : array, str or dataframe
            Groups must be those of the fit.
        match_means : bool, default True
            Make the mean of *these* people equal the published one of their group, to the last digits. Without it, people get
            the constant their group got in the fit: right for few or new people of a group.
        sample_weight : array of shape (n,), optional
            Weights of the means that are matched.
        """
        check_is_fitted(self, "hidden_")
        cells = self._gather(self._read(X, partition, sample_weight))
        return np.column_stack([person_values(h, self.design_, cells, calibrate=match_means) for h in self.hidden_])

    def fit_transform(
        self, X: Any, partition: Any = None, aggregates: Any = None, sample_weight: Any = None, aggregate_se: Any = None
    ) -> FloatArray:
        """Fit, and give the expected hidden values of the same people."""
        self.fit(X, partition, aggregates, sample_weight, aggregate_se)
        return np.column_stack([person_values(h, self.design_, self._cells, calibrate=True) for h in self.hidden_])

    def sample(
        self,
        X: Any,
        partition: Any = None,
        n_draws: int = 20,
        sample_weight: Any = None,
        values: bool = True,
        random_state: int | None = None,
    ) -> FloatArray:
        """Draw complete data: slopes from their posterior, then everybody's value given them and the published means.

        Parameters
        ----------
        X, partition, sample_weight
            As in :meth:`transform`.
        n_draws : int
            Number of draws.
        values : bool, default True
            False draws the probabilities (expected numbers) and not the values.
        random_state : int, optional
            Seed; the estimator's when not given.

        Returns
        -------
        (n_draws, n, d_u)
            Every draw has the published means exactly. Draws of yes and no can where N_p s_p is whole, as it is when the means
            were computed on these people; otherwise, and with weights, they come within one person.
        """
        check_is_fitted(self, "hidden_")
        if isinstance(n_draws, bool) or not isinstance(n_draws, Integral) or n_draws < 1:
            raise InputError(f"n_draws={n_draws!r} is not a number of draws; pass a whole number of at least 1.")
        seed = self.random_state if random_state is None else checks.check_seed(random_state)
        people = self._read(X, partition, sample_weight)
        cells = self._gather(people)
        rng = np.random.default_rng(seed)
        out = [
            draw(h, self.design_, cells, people.group[:, h.partition], people.weight, int(n_draws), rng, values=values)
            for h in self.hidden_
        ]
        return np.stack(out, axis=-1)

    def estimate(
        self,
        by: str | Sequence[str],
        X: Any = None,
        partition: Any = None,
        sample_weight: Any = None,
        level: float = 0.95,
        sampling: bool = True,
    ) -> Estimates:
        """Give means of groups of persons, with intervals.

        Parameters
        ----------
        by : str or sequence of str
            Columns of X, and partitions, that define the groups of persons.
        X, partition, sample_weight : optional
            Other people than those of the fit.
        level : float
        sampling : bool, default True
            Whether the interval is for the mean among these very persons, whose values are more or less by chance. Without it, it
            is for the mean of their probabilities.

        Returns
        -------
        Estimates
            Beside each estimate ``naive``, the mean of the group means of the same persons, and ``people``.
        """
        check_is_fitted(self, "hidden_")
        level = checks.check_level(level)
        cells = self._cells if X is None else self._gather(self._read(X, partition, sample_weight))
        cut, keys = cut_by(by, cells, self.schema_.columns, self.schema_.partitions)
        n_cuts = int(cut.max()) + 1
        parts = [
            {"feature": [h.name] * n_cuts, **keys}
            | mean_columns(h, members_of(h, self.design_, cells), cut, n_cuts, level, sampling=sampling)
            for h in self.hidden_
        ]
        columns = {n: np.concatenate([np.asarray(p[n], dtype=object) for p in parts]).tolist() for n in parts[0]}
        what = "share of these persons" if sampling else "probability"
        said = f"estimate(by={by!r})"
        return self._table(columns, ["feature", *keys], level, f"posterior of the {what}", said)

    def slopes(self, level: float = 0.95) -> Estimates:
        """Say what the group means taught about persons: every slope with its interval, and how much of it was kept.

        ``between_sd`` is how much groups differ in the score, in sds of persons; ``kept`` the share of an ecological slope that
        the ridge keeps; a ``std_error`` near ``prior_sd`` says that the means taught next to nothing.
        """
        check_is_fitted(self, "hidden_")
        level = checks.check_level(level)
        cells = self._cells
        parts = []
        for h in self.hidden_:
            W = cells.shares(h.partition, len(h.mean))
            scores = W @ self.design_.matrix(cells.X)
            parts.append(learning_columns(h, self.design_, scores, self._settings(), level))
        columns = {n: np.concatenate([np.asarray(p[n], dtype=object) for p in parts]).tolist() for n in parts[0]}
        return self._table(columns, ["feature", "column", "term"], level, "posterior, normal", "slopes()")

    def check_totals(self, level: float = 0.95) -> Estimates:
        """Predict every group's mean from the other groups: a check of totals, and of nothing else.

        That group means are predicted well says little about persons, so that nothing is chosen by it.
        """
        check_is_fitted(self, "hidden_")
        level = checks.check_level(level)
        cells = self._cells
        parts = [totals_columns(h, self.schema_, cells, self.design_, self._settings(), level) for h in self.hidden_]
        columns = {n: np.concatenate([np.asarray(p[n], dtype=object) for p in parts]).tolist() for n in parts[0]}
        return self._table(columns, ["feature", "group"], level, "posterior, normal", "check_totals()")

    def learn_from_similar(self, columns: Any, borrow: bool = False) -> Self:
        """Learn from columns that are known for every person of the fit and resemble the hidden feature.

        Each is hidden in turn and compared with the truth. Learnt are how far intervals must be stretched (kappa) and, from 25
        groups on, by which factor the slopes of each column of X should be multiplied, of which half is applied.

        Parameters
        ----------
        columns : dataframe or array of shape (n, n_labels)
            At least five columns of 0 and 1, for the people of the fit in the same order.
        borrow : bool, default False
            Learn the level of slopes too, so that the hidden feature gets the others' mean slopes half-way. It gains much when the
            hidden feature is like the others and loses much when it is not, which nothing here can tell.

        Returns
        -------
        self
            ``learned_`` has the factors, kappa, and for every column its lift and coverage when all was learnt from the others.
        """
        check_is_fitted(self, "hidden_")
        cells = self._cells
        if len(cells.pair) == 0:
            raise InputError(
                "a loaded model does not keep every person, which learn_from_similar needs; call it before saving."
            )
        self.learned_ = learn_from(
            columns, cells, self._weight, self.design_, self._settings(), self.hidden_, borrow=borrow
        )
        self.hidden_ = tuple(
            replace(h, adjustment=self.learned_.adjustments[h.partition]) if h.binary else h for h in self.hidden_
        )
        for words in self.learned_.warnings:
            warnings.warn(words, CrosslevelWarning, stacklevel=2)
        self.warnings_ = (*self.warnings_, *self.learned_.warnings)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Give the names of the hidden features."""
        check_is_fitted(self, "hidden_")
        return np.array(self.hidden_names_, dtype=object)

    def to_payload(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Give the saved form; see `crosslevel.save`."""
        check_is_fitted(self, "hidden_")
        return saved.to_payload(self)

    @classmethod
    def from_payload(cls, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the estimator from its saved form."""
        return saved.from_payload(cls, meta, arrays)

    def _read(self, X: Any, partition: Any, sample_weight: Any) -> People:
        return read_people(X, partition, self.schema_, sample_weight, allow_missing=self.missing == "mean")

    def _gather(self, people: People) -> Cells:
        return gather(people.X, people.group, people.weight)

    def _doubts(self, hidden: Hidden) -> list[str]:
        out = [few_groups(hidden)]
        if hidden.fit.apart > AGREE:
            out.append(
                f"{hidden.name!r}: fits from other starts ended {hidden.fit.apart:.2g} prior sds away, so there is more than one "
                "optimum; the best was taken. A smaller shrinkage_groups holds the slopes more strongly."
            )
        if not hidden.binary and np.isnan(hidden.unit):
            out.append(
                f"{hidden.name!r} is a number whose standard deviation among persons is not known, so it has estimates without "
                "intervals; pass scale= or aggregate_se=."
            )
        return [words for words in out if words]

    def _family(self, name: str, hidden: Sequence[str]) -> str:
        family = self.family
        if isinstance(family, Mapping):
            for key in family:
                if key not in hidden:
                    raise unknown_name("family", key, list(hidden), "hidden feature")
            family = family.get(name, "bernoulli")
        if family not in FAMILIES:
            raise unknown_name("family", family, FAMILIES, "family")
        return family

    def _settings(self) -> Settings:
        for name, default in (("slope_sd", 0.45), ("shrinkage_groups", 32)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
                raise InputError(f"{name}={value!r} is not a positive number; the default is {default}.")
        if (
            isinstance(self.curvature, bool)
            or not isinstance(self.curvature, int | float)
            or not 0 <= self.curvature < np.inf
        ):
            raise InputError(f"curvature={self.curvature!r} is not a number of at least 0; the default is 0.3.")
        if self.missing not in ("error", "mean"):
            raise unknown_name("missing", self.missing, ("error", "mean"), "choice")
        if isinstance(self.n_restarts, bool) or not isinstance(self.n_restarts, Integral) or self.n_restarts < 0:
            raise InputError(f"n_restarts={self.n_restarts!r} is not a whole number of at least 0.")
        seed = checks.check_seed(self.random_state)
        return Settings(
            float(self.slope_sd), float(self.shrinkage_groups), int(self.n_restarts), 0 if seed is None else seed
        )

    def _table(self, columns: dict[str, Any], keys: list[str], level: float, interval: str, call: str) -> Estimates:
        said = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
        sure = any(v is not None and v == v for v in columns["conf_low"])
        return Estimates.build(
            columns,
            keys=keys,
            method="individual link to group means",
            level=level if sure else None,
            interval=interval if sure else "none",
            provenance=Provenance.of(
                call=f"CrossLevelImputer({said}).fit(...).{call}", seed=self.random_state, data=self._data
            ),
            diagnostics=self._diagnostics(),
            warnings=self.warnings_,
            frame=self._frame,
        )

    def _diagnostics(self) -> dict[str, Any]:
        return {
            "converged": True,
            "groups": {h.name: h.groups for h in self.hidden_},
            "gradient": {h.name: h.fit.gradient for h in self.hidden_},
            "restarts_apart": {h.name: h.fit.apart for h in self.hidden_},
            "steps": {h.name: h.fit.steps for h in self.hidden_},
            "kappa": {h.name: h.kappa for h in self.hidden_},
            "learned_from": 0 if self.learned_ is None else len(self.learned_.names),
        }
