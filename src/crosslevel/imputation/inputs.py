"""Read and check what an imputation is given: people, their groups, the published means, weights and standard errors.

Several partitions come as a frame of labels, and then the published tables as a mapping from a partition's name to its table: a
hidden feature may be published for one partition and another for a second.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.audit import describe_codes
from crosslevel.data.cells import learn_table, read_matrix
from crosslevel.data.checks import align_rows, row_keys
from crosslevel.data.columns import Category, Number, check_squares
from crosslevel.data.frames import fingerprint
from crosslevel.data.published import UNNAMED, Partition, Published, check_range, read_published
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.imputation.design import MOST_LEVELS
from crosslevel.typing import FloatArray, IntArray

FEWEST_GROUPS = 20
"""Groups under which a fit says what to expect of it."""
FEWEST_REPEATS = 20
"""People beside the first of every group from which on a column that never differs among them is taken for a function of the group."""


@dataclass(frozen=True)
class Schema:
    """What new people must look like: the columns, the partitions and which of X's columns holds labels."""

    columns: tuple[Category | Number, ...]
    partitions: tuple[Partition, ...]
    partition_column: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of X that are used."""
        return tuple(c.name for c in self.columns)


@dataclass(frozen=True, eq=False)
class People:
    """People as arrays.

    Attributes
    ----------
    X : (n, d)
        Numbers, and codes of the levels of factors; NaN where missing.
    group : (n, L) int
        Group of each person in each partition.
    weight : (n,) or None
    frame : str
        The caller's kind of dataframe.
    count : (n,) or None
        People behind each row, where rows are not single people.
    """

    X: FloatArray
    group: IntArray
    weight: FloatArray | None
    frame: frames.FrameKind
    count: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything a fit is given, checked.

    Attributes
    ----------
    people : People
    schema : Schema
    published : tuple of Published
        One entry per hidden feature.
    data : dict
        Fingerprints.
    warnings : tuple of str
        What was left out or looks odd, in sentences.
    """

    people: People
    schema: Schema
    published: tuple[Published, ...]
    data: dict[str, str]
    warnings: tuple[str, ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the hidden features."""
        return tuple(p.name for p in self.published)


def read_fit(
    X: Any,
    partition: Any,
    aggregates: Any,
    sample_weight: Any = None,
    aggregate_se: Any = None,
    *,
    categorical: Sequence[str] | None = None,
    allow_missing: bool = False,
    count: FloatArray | None = None,
) -> Inputs:
    """Check everything that a fit is given.

    Parameters
    ----------
    X : dataframe or array of shape (n, d)
    partition : array of labels, name of a column of X, or frame of labels
    aggregates, aggregate_se : dataframe, array, or mapping of partition to either
    sample_weight : array of shape (n,), optional
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    allow_missing : bool
        Whether X may have missing values.
    count : array of shape (n,), optional
        People behind each row of X, where equal ones were counted before.

    Examples
    --------
    >>> given = read_fit({"age": [30, 41, 50, 62]}, ["a", "a", "b", "b"], {"partition": ["b", "a"], "ill": [0.5, 0.1]})
    >>> given.hidden, given.published[0].mean.tolist(), given.schema.partitions[0].labels
    (('ill',), [0.1, 0.5], ('a', 'b'))
    """
    given = read_grouped(X, partition, sample_weight, categorical=categorical, allow_missing=allow_missing, count=count)
    published, left_out = read_published(aggregates, aggregate_se, given.schema.partitions)
    names = [q.name for q in published]
    for name in names:
        if name in given.schema.names:
            raise InputError(
                f"aggregates has the mean of {name!r}, which is also a column of X; leave it out of X, or it would be used "
                "to impute itself."
            )
        if names.count(name) > 1:
            raise InputError(f"aggregates has the means of {name!r} for several partitions; pass those of the finest.")
    return Inputs(given.people, given.schema, published, given.data, (*given.warnings, *left_out))


def read_grouped(
    X: Any,
    partition: Any,
    sample_weight: Any = None,
    *,
    categorical: Sequence[str] | None = None,
    allow_missing: bool = False,
    count: FloatArray | None = None,
) -> Inputs:
    """Check people and their groups, without any published mean.

    Examples
    --------
    >>> read_grouped({"age": [30, 41]}, ["b", "a"]).people.group.tolist()
    [[1], [0]]
    """
    given = _read(X, partition, sample_weight, categorical, allow_missing)
    people, partitions = replace(given.people, count=count), given.schema.partitions
    for p in partitions:
        if len(p) < 2:
            raise InputError(
                f"partition {p.name!r} has one group, {p.labels[0]!r}; what differs between groups is all there is to learn "
                "from, so at least two are needed."
            )
    _check_varies(people.X, given.schema.columns)
    for name, other in _dependent(people, given.schema).items():
        raise InputError(
            f"X: {name!r} is a function of {other!r}: everybody with one value of {other!r} has the same {name!r}, which so tells nobody "
            f"apart that {other!r} does not. Leave {name!r} out of X; its means are averages of those by {other!r}."
        )
    if people.weight is not None:
        _check_weighed(people, partitions)
    said = tuple(describe_codes(dict(zip(given.schema.names, people.X.T, strict=True)), "X"))
    return replace(given, people=people, warnings=said)


def read_tables(X: Any, partition: Any) -> tuple[pa.Table, pa.Table, str | None, frames.FrameKind]:
    """Give the columns of X, the labels in the same order, the column of X that held them, and the caller's kind of frame."""
    table, kind = _as_table(X)
    labels, table, inside = _labels(_in_order_of(X, partition, None)[0], table)
    return table, labels, inside, kind


def _read(X: Any, partition: Any, sample_weight: Any, categorical: Sequence[str] | None, allow_missing: bool) -> Inputs:
    """Read people, and learn columns and partitions from them."""
    table, labels, inside, kind = read_tables(X, partition)
    groups = [frames.group_rows(labels, name, "partition") for name in labels.column_names]
    partitions = tuple(
        Partition(name, tuple(g.keys.column(0).to_pylist()))
        for name, g in zip(labels.column_names, groups, strict=True)
    )
    columns = learn_table(table, categorical)
    weight = _in_order_of(X, partition, sample_weight)[1]
    people = _people(table, columns, [g.codes for g in groups], weight, kind, "allow" if allow_missing else "error")
    data = {"X": fingerprint(table), "partition": fingerprint(labels)}
    return Inputs(people, Schema(columns, partitions, inside), (), data, ())


def dependent_columns(X: Any, partition: Any, categorical: Sequence[str] | None = None) -> dict[str, str]:
    """Find columns of X that are a function of the partition or of another category, which a fit refuses: name -> of what.

    Examples
    --------
    >>> state = np.repeat(["a", "b", "c"], 10)
    >>> X = {"age": np.arange(30) % 4, "region": np.where(state == "a", "west", "east")}
    >>> dependent_columns(X, state)
    {'region': 'partition'}
    """
    given = _read(X, partition, None, categorical, allow_missing=True)
    return _dependent(given.people, given.schema)


def read_people(
    X: Any, partition: Any, schema: Schema, sample_weight: Any = None, *, allow_missing: bool = False
) -> People:
    """Read people to impute: the columns and groups must be those of the fit.

    Examples
    --------
    >>> given = read_fit({"age": [30, 41, 50, 62]}, ["a", "a", "b", "b"], np.array([0.1, 0.5]))
    >>> read_people({"age": [20]}, ["b"], given.schema).group.tolist()
    [[1]]
    """
    table, kind = _as_table(X, schema.names)
    partition, sample_weight = _in_order_of(X, partition, sample_weight)
    labels, table, _ = _labels(schema.partition_column if partition is None else partition, table)
    if labels.num_columns != len(schema.partitions):
        raise InputError(
            f"partition has {labels.num_columns} column(s) of labels; the fit had {len(schema.partitions)} "
            f"({listed(p.name for p in schema.partitions)}). Pass the same."
        )
    codes = [
        _match(labels[p.name if p.name in labels.column_names else labels.column_names[j]], p)
        for j, p in enumerate(schema.partitions)
    ]
    return _people(table, schema.columns, codes, sample_weight, kind, "new" if allow_missing else "error")


def read_rows(X: Any, schema: Schema, *, allow_missing: bool = False) -> FloatArray:
    """Read new people of any group as a matrix, (n, d): the columns must be those of the fit.

    Examples
    --------
    >>> given = read_fit({"age": [30, 41, 50, 62]}, ["a", "a", "b", "b"], np.array([0.1, 0.5]))
    >>> read_rows({"age": [20]}, given.schema).tolist()
    [[20.0]]
    """
    table, kind = _as_table(X, schema.names)
    missing = "new" if allow_missing else "error"
    return _people(table, schema.columns, [np.zeros(table.num_rows)], None, kind, missing).X


def keep_inputs(model: Any, given: Inputs, seed: int) -> None:
    """Store on a fitted model what new people must look like, and where its data came from."""
    model.schema_, model.hidden_names_ = given.schema, given.hidden
    model.feature_names_in_ = np.array(given.schema.names, dtype=object)
    model.n_features_in_ = len(given.schema.columns)
    model._seed, model._data, model._frame = seed, given.data, given.people.frame


def keep_warnings(model: Any, sentences: Sequence[str], stacklevel: int = 3) -> None:
    """Store warnings on a fitted model and emit them, from the line that called its method."""
    model.warnings_ = tuple(sentences)
    for sentence in model.warnings_:
        warnings.warn(sentence, CrosslevelWarning, stacklevel=stacklevel)


def read_range(given: Inputs, published: Published, repair: str = "") -> None:
    """Refuse published means that are no shares; ``repair`` ends the message."""
    try:
        check_range(published, given.schema.partitions[published.partition], 0.0, 1.0)
    except InputError as error:
        raise InputError(f"{error}{repair}") from None


def _people(
    table: pa.Table,
    columns: Sequence[Category | Number],
    codes: Sequence[Any],
    sample_weight: Any,
    kind: frames.FrameKind,
    missing: str,
) -> People:
    repair = ", or use a method that allows them (missing='mean')"
    matrix = read_matrix(table, columns, missing=missing, repair=repair)
    weight = (
        None
        if sample_weight is None
        else checks.check_weights(_flat(sample_weight, "sample_weight"), "sample_weight", len(matrix))
    )
    if weight is not None:
        check_squares(weight, "sample_weight")
    return People(matrix, np.column_stack(codes).astype(np.intp), weight, kind)


def _as_table(X: Any, names: Sequence[str] | None = None) -> tuple[pa.Table, frames.FrameKind]:
    if frames.is_frame(X):
        table = frames.to_arrow(X, "X")
        if table.num_rows == 0:
            raise InputError("X has no rows; pass at least one person.")
        return table, frames.frame_kind(X)
    if hasattr(X, "toarray"):
        raise InputError("X is sparse, which is not supported; pass X.toarray().")
    array = checks.as_numbers(X, "X", 2)
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InputError(f"X has shape {array.shape}; pass at least one person and one column.")
    if names is None:
        names = [f"x{j}" for j in range(array.shape[1])]
    elif array.shape[1] != len(names):
        raise InputError(
            f"X has {array.shape[1]} columns; the fit had {len(names)} ({listed(names, 8)}). Pass the same."
        )
    return pa.table({n: array[:, j] for j, n in enumerate(names)}), "pyarrow"


def _in_order_of(X: Any, partition: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Put groups and weights that carry an index in the order of the rows of X."""
    keys = row_keys(X)
    checks.check_one_order({"X": X, "partition": partition, "sample_weight": sample_weight})
    return align_rows(partition, keys, "partition"), align_rows(sample_weight, keys, "sample_weight")


def _labels(partition: Any, table: pa.Table) -> tuple[pa.Table, pa.Table, str | None]:
    """Read labels as a table; take them out of X where they are one of its columns."""
    if partition is None:
        raise InputError("partition is None; pass the group of every person, or the name of the column that holds it.")
    if isinstance(partition, str):
        frames.check_columns(table, [partition], "partition")
        rest = table.drop_columns([partition])
        if rest.num_columns == 0:
            raise InputError(f"X has no column beside partition={partition!r}; pass what is known of each person.")
        return table.select([partition]), rest, partition
    if frames.is_frame(partition) and not (hasattr(partition, "name") and np.ndim(partition) == 1):
        labels = frames.to_arrow(partition, "partition")
        if labels.num_columns == 0:
            raise InputError("partition has no columns; pass at least one column of labels.")
    else:
        name = getattr(partition, "name", None)
        labels = frames.to_arrow({UNNAMED if name is None else str(name): _flat(partition, "partition")}, "partition")
    if labels.num_rows != table.num_rows:
        raise InputError(
            f"partition has {labels.num_rows:,} labels for {table.num_rows:,} rows of X; pass one per person."
        )
    return labels, table, None


def _flat(values: Any, argument: str) -> Any:
    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(checks.unmasked(values))
    if array.ndim != 1:
        what = f"={values!r} is one value" if array.ndim == 0 else f" has shape {array.shape}"
        raise InputError(f"{argument}{what}; pass one value per person, such as the column X['w'].")
    return array.tolist() if array.dtype == object else array


def _match(values: pa.ChunkedArray, partition: Partition) -> Any:
    """Find the number of each label among those of the fit."""
    codes = Category(partition.name, pa.array(list(partition.labels)), has_null=False).codes(values.combine_chunks())
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise InputError(
            f"partition {partition.name!r}: {int((codes < 0).sum()):,} person(s) are in a group without a published mean, the "
            f"first in row {row:,} ({values[row].as_py()!r}); leave these people out or fit with means of their group."
        )
    return codes


def _check_varies(matrix: FloatArray, columns: Sequence[Category | Number]) -> None:
    constant = [
        c.name for c, values in zip(columns, matrix.T, strict=True) if np.fmin.reduce(values) == np.fmax.reduce(values)
    ]
    if constant:
        raise InputError(
            f"X: {len(constant)} column(s) have one value for everybody ({listed(constant)}), so they tell nobody apart; leave "
            "them out."
        )


def _dependent(people: People, schema: Schema) -> dict[str, str]:
    """Find columns of few values that are a function of a partition, and categories that are one of another category."""
    X, columns = people.X, schema.columns
    factors = [j for j, c in enumerate(columns) if isinstance(c, Category)]
    codes = {columns[j].name: np.nan_to_num(X[:, j], nan=-1.0).astype(np.intp) + 1 for j in factors}
    groups = {p.name: people.group[:, i] for i, p in enumerate(schema.partitions)}
    found: dict[str, str] = {}
    for j, column in enumerate(columns):
        for other, of in (groups | (codes if j in factors else {})).items():
            # of two categories that say the same one is left out
            if other == column.name or other in found or column.name in found:
                continue
            # a continuous column of places tells how they differ
            if _is_function(X[:, j], of, people.count) and (j in factors or len(np.unique(X[:, j])) <= MOST_LEVELS):
                found[column.name] = other
    return found


def _is_function(values: FloatArray, of: IntArray, count: FloatArray | None) -> bool:
    """Tell whether equal ``of`` means equal values, among enough people for it to be no accident."""
    first = np.zeros(int(of.max()) + 1, dtype=np.intp)
    first[of[::-1]] = np.arange(len(of) - 1, -1, -1)
    if not np.array_equal(values[first[of]], values, equal_nan=True):
        return False
    again = np.ones(len(of)) if count is None else count.copy()
    again[np.unique(first[of])] -= 1.0  # the others are people who could have shown otherwise
    return float(again.sum()) >= FEWEST_REPEATS and len(np.unique(values[again > 0])) > 1


def _check_weighed(people: People, partitions: tuple[Partition, ...]) -> None:
    for j, p in enumerate(partitions):
        empty = np.bincount(people.group[:, j], people.weight, len(p)) <= 0
        if empty.any():
            raise InputError(
                f"sample_weight is zero for everybody in {listed([p.labels[i] for i in np.flatnonzero(empty)])} of partition "
                f"{p.name!r}; leave these groups out or give their people a weight."
            )
