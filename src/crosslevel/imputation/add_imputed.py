"""``AddImputed``: a step of a scikit-learn Pipeline that appends imputed columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.persons.estimator import CrossLevelImputer


class AddImputed(TransformerMixin, BaseEstimator):
    """Append hidden features, imputed from published group means, to the columns of X.

    Parameters
    ----------
    partition : str or int
        The column of X that holds the group of each person (its number, when X is an array).
    aggregates : dataframe or array
        The published means, as in ``fit`` of the imputer.
    imputer : estimator, optional
        ``CrossLevelImputer`` when not given; anything with ``fit(X, partition, aggregates)`` and ``transform(X, partition,
        match_means=)``.
    columns : sequence of str or int, optional
        Columns of X the imputer uses; all but the partition when not given. The others pass through.
    keep_partition : bool, default False
        Whether the column of groups stays in the output.
    match_means : bool, default False
        Whether the means of the people at hand are matched, or the constants of the fit used. The people of a test fold are not
        those whose mean was published.

    Notes
    -----
    What is imputed is a function of X and the group. A model that is flexible in both learns nothing new from it: saturated columns
    and group dummies always do at least as well. It can help a stiff model. Compare with both; see ``evaluate_downstream``.

    Examples
    --------
    >>> X = {"state": ["a", "a", "b", "b"] * 5, "age": [1, 2, 2, 3] * 5}
    >>> step = AddImputed(partition="state", aggregates={"state": ["a", "b"], "ill": [0.1, 0.4]})
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     out = step.fit_transform(X)
    >>> out.column_names
    ['age', 'ill']
    """

    def __init__(
        self,
        partition: str | int,
        aggregates: Any = None,
        imputer: Any = None,
        *,
        columns: Sequence[str | int] | None = None,
        keep_partition: bool = False,
        match_means: bool = False,
    ) -> None:
        self.partition = partition
        self.aggregates = aggregates
        self.imputer = imputer
        self.columns = columns
        self.keep_partition = keep_partition
        self.match_means = match_means

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the imputer to the people of X and the published means; y is not used."""
        checks.check_flags(self)
        if self.aggregates is None:
            raise InputError("aggregates is None; pass the published mean of every group.")
        table = _table(X)
        self._known = tuple(table.column_names)
        self._partition = self._name(self.partition, table, "partition")
        chosen = [n for n in table.column_names if n != self._partition]
        if self.columns is not None:
            chosen = [self._name(c, table, "columns") for c in checks.read_list(self.columns, "columns")]
        if self._partition in chosen:
            raise InputError(
                f"columns names the partition {self._partition!r}; leave it out, the imputer gets it as the group."
            )
        if not chosen:
            raise InputError("X has no column beside the partition; the imputer needs something known of each person.")
        self._chosen = chosen
        self.n_features_in_ = table.num_columns
        if frames.is_frame(X):
            self.feature_names_in_ = np.array(table.column_names, dtype=object)
        self.imputer_ = (CrossLevelImputer() if self.imputer is None else clone(self.imputer)).fit(
            table.select(chosen), table.select([self._partition]), self.aggregates
        )
        self.warnings_ = self.imputer_.warnings_
        for name in self._names_of_hidden():
            if name in table.column_names:
                raise InputError(
                    f"aggregates has a column {name!r} that X has too; rename it, so that both can stand side by side."
                )
        return self

    def transform(self, X: Any) -> Any:
        """Give X with the imputed columns behind, as the same kind of frame (an array for an array)."""
        check_is_fitted(self, "imputer_")
        table = _table(X)
        if not frames.is_frame(X) and table.num_columns != self.n_features_in_:
            raise InputError(f"X has {table.num_columns} columns; the fit had {self.n_features_in_}. Pass the same.")
        frames.check_columns(table, list(self._known), "X")
        imputed = self.imputer_.transform(
            table.select(self._chosen), table.select([self._partition]), match_means=self.match_means
        )
        kept = [n for n in self._known if self.keep_partition or n != self._partition]
        if not frames.is_frame(X):
            return np.hstack([checks.as_numbers(X, "X", 2)[:, [self._known.index(n) for n in kept]], imputed])
        out = table.select(kept)
        for j, name in enumerate(self._names_of_hidden()):
            out = out.append_column(name, pa.array(imputed[:, j]))
        found = frames.from_arrow(out, frames.frame_kind(X))
        if checks.row_keys(X) is not None:  # what comes behind matches y by it
            found.index = X.index
        return found

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Give the names of the columns that come out."""
        check_is_fitted(self, "imputer_")
        kept = [n for n in self._known if self.keep_partition or n != self._partition]
        return np.array([*kept, *self._names_of_hidden()], dtype=object)

    def _names_of_hidden(self) -> list[str]:
        return [str(n) for n in self.imputer_.get_feature_names_out()]

    def _name(self, column: str | int, table: pa.Table, argument: str) -> str:
        if isinstance(column, int) and not isinstance(column, bool):
            if not 0 <= column < table.num_columns:
                raise InputError(f"{argument}={column} is not a column; X has {table.num_columns}, counted from 0.")
            return str(table.column_names[column])
        if column not in table.column_names:
            raise unknown_name(argument, column, table.column_names)
        return str(column)


def _table(X: Any) -> pa.Table:
    if frames.is_frame(X):
        return frames.to_arrow(X, "X")
    array = checks.as_numbers(X, "X", 2)
    return pa.table({f"x{j}": array[:, j] for j in range(array.shape[1])})
