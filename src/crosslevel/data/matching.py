"""Values that carry names, matched by name: labels and weights of rows, numbers of groups, published means.

A pandas index (unless it only counts the rows, 0, 1, ...) and a key column are names. Names win: they are matched with the rows or
groups they belong to, and refused where they do not match; only what has no names is taken by position.

- ``align_rows(y, row_keys(X), "y")`` puts what belongs to the rows of X (an outcome, weights, clusters) in their order;
- ``align_groups(y, bags.keys, "y")`` does the same for one value per group, which may also come as a frame with a key column;
- ``read_by_key(values, keys, argument, key=...)`` reads numbers of the groups in ``keys``, and tells which others were there;
- ``read_published(aggregates, aggregate_se, partitions)`` gives one :class:`Published` for every hidden feature and partition, and the
  sentences about what was left out; ``check_range`` refuses means that no feature of a range can have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import narwhals as nw
import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.errors import InputError, listed
from crosslevel.typing import AnyArray, FloatArray, IntArray

__all__ = [
    "UNNAMED",
    "Matched",
    "Partition",
    "Published",
    "align_groups",
    "align_rows",
    "check_range",
    "read_by_key",
    "read_published",
    "row_keys",
]

UNNAMED = "partition"
"""What a partition whose labels have no name is called."""


def row_keys(values: object) -> list[Any] | None:
    """Give the index of a pandas frame or Series; None for what has none.

    Examples
    --------
    >>> import pandas as pd
    >>> row_keys(pd.Series([0.5, 0.1], index=["b", "a"])), row_keys([0.5, 0.1])
    (['b', 'a'], None)
    """
    wrapped: Any = nw.from_native(cast("Any", values), pass_through=True, allow_series=True)
    index = nw.maybe_get_index(wrapped) if isinstance(wrapped, nw.Series | nw.DataFrame) else None
    return None if index is None else list(index.tolist())


def _names(values: object) -> list[Any] | None:
    """Give the names that a Series or frame carries, or None: an index without a name that only counts the rows is none."""
    keys = row_keys(values)
    if keys is None or (keys == list(range(len(keys))) and cast("Any", values).index.name is None):
        return None
    return keys


def align_rows(values: Any, keys: Sequence[Any] | AnyArray | None, argument: str) -> Any:
    """Put values that carry names in the order of the keys; leave those without names, or without keys to match, as they are.

    Parameters
    ----------
    values : Series, frame, array or None
    keys : sequence or None
        The names of the rows the values belong to, for example ``row_keys(X)``.
    argument : str
        What the caller calls the values.

    Examples
    --------
    >>> import pandas as pd
    >>> align_rows(pd.Series(["left", "right"], index=["b", "a"]), ["a", "b"], "y").tolist()
    ['right', 'left']
    >>> align_rows(["left", "right"], ["a", "b"], "y")
    ['left', 'right']
    """
    labels = _names(values) if keys is not None else None
    if labels is None:
        return values
    return cast("Any", values).iloc[_match(labels, _listed(keys), argument)]


def align_groups(values: Any, keys: Sequence[Any] | AnyArray | None, argument: str, key: str | None = None) -> Any:
    """Put one value per group in the order of the keys: a Series by its index, a frame of two columns by that of the keys.

    Parameters
    ----------
    values : Series, frame, array or None
    keys : sequence or None
        The names of the groups.
    argument : str
        What the caller calls the values.
    key : str, optional
        Name of the key column; that which holds the keys when not given.

    Examples
    --------
    >>> align_groups({"town": ["b", "a"], "share": [0.5, 0.1]}, ["a", "b"], "y").tolist()
    [0.1, 0.5]
    """
    if keys is None or len(getattr(values, "shape", (0, 0))) != 2 or not frames.is_frame(values):
        return align_rows(values, keys, argument)
    table = frames.to_arrow(values, argument)
    if table.num_columns != 2:
        return align_rows(values, keys, argument)
    known = _listed(keys)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    holds = [name for name, found in columns.items() if name == key or set(found) == set(known)]
    if not holds:
        raise InputError(
            f"{argument} has the columns {listed(columns)}, and neither holds the names of the groups ({listed(known)}); pass a value for "
            "each group, or an array in their order."
        )
    (other,) = (name for name in columns if name != holds[0])
    return table[other].to_numpy()[_match(columns[holds[0]], known, argument)]


def _listed(keys: Sequence[Any] | AnyArray | None) -> list[Any]:
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys or ())


def _match(labels: list[Any], keys: list[Any], argument: str) -> IntArray:
    """Find the place of every key among the labels; both must be the same names, each once (or the same row by row)."""
    if labels == keys:
        return np.arange(len(keys))
    for side, names in ((f"{argument} has", labels), (f"what {argument} belongs to has", keys)):
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            raise InputError(
                f"{side} the name {twice!r} more than once in its index, so names cannot be matched; give every row its own, or pass "
                "an array in the right order."
            )
    row_of = {name: i for i, name in enumerate(labels)}
    odd = [k for k in keys if k not in row_of] + [v for v in labels if v not in set(keys)]
    if odd:
        raise InputError(
            f"{argument} is named by its index ({listed(labels, 3)}), which does not match what it belongs to ({listed(keys, 3)}): "
            f"{listed(odd)} on one side only. Give both the same names, or pass an array ({argument}.to_numpy()) in the right order."
        )
    return np.array([row_of[k] for k in keys], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Matched:
    """Numbers in the order of the keys they were asked for.

    Attributes
    ----------
    columns : dict of name to (n_keys,)
        NaN where a value is missing.
    spare : tuple
        Groups that have a row and were not asked for.
    """

    columns: dict[str, FloatArray]
    spare: tuple[Any, ...] = ()


def read_by_key(
    values: Any, keys: Sequence[Any], argument: str, *, key: str = UNNAMED, name: str = "value", repair: str = ""
) -> Matched:
    """Read one row of numbers for each key.

    Parameters
    ----------
    values : dataframe, Series or array
        A frame with the column ``key`` (or, where that is the unnamed partition, its first column), a Series with an index, or an
        array of one row per key in the order of ``keys``.
    keys : sequence
    argument : str
        What the caller calls the values.
    key : str
        Name of the key column.
    name : str
        What the one column of a one-dimensional array or of an unnamed Series is called.
    repair : str
        What to do about keys without a row; the tail of the message.

    Examples
    --------
    >>> found = read_by_key({"town": ["b", "a", "c"], "ill": [0.5, 0.1, 0.9]}, ["a", "b"], "means", key="town")
    >>> found.columns["ill"].tolist(), found.spare
    ([0.1, 0.5], ('c',))
    >>> read_by_key([0.1, 0.5], ["a", "b"], "means").columns["value"].tolist()
    [0.1, 0.5]
    """
    labels = _names(values) if np.ndim(values) == 1 else None
    if labels is not None:
        own = str(getattr(values, "name", None) or name)
        values = pa.table({key: labels, own: checks.as_numbers(values, argument, 1)})
    if len(getattr(values, "shape", ())) == 1 or not frames.is_frame(values):
        return Matched(_by_position(values, keys, argument, name))
    table = frames.to_arrow(values, argument)
    column = _key_column(table, key, argument)
    groups = frames.check_unique(table.select([column]), column, argument)
    there = groups.keys.column(0).to_pylist()
    row_of = {there[code]: row for row, code in enumerate(groups.codes)}
    missing = [k for k in keys if k not in row_of]
    if missing:
        kinds = f" ({column!r} holds {there[0]!r} where {keys[0]!r} is asked for)" if len(missing) == len(keys) else ""
        raise InputError(
            f"{argument} has no row for {len(missing):,} group(s): {listed(missing)}{kinds}; add them"
            f"{repair or ', or leave these groups out'}."
        )
    rows = np.array([row_of[k] for k in keys], dtype=np.intp)
    names = [n for n in table.column_names if n != column]
    if not names:
        raise InputError(f"{argument} has no column beside the key {column!r}; add a column of numbers.")
    known = set(keys)
    spare = tuple(k for k in there if k not in known)
    return Matched({n: frames.column(table, n, argument)[rows] for n in names}, spare)


def _key_column(table: pa.Table, key: str, argument: str) -> str:
    for name in (key, UNNAMED):
        if name in table.column_names:
            return name
    if key == UNNAMED and table.num_columns:
        return str(table.column_names[0])
    frames.check_columns(table, [key], argument)
    return key


def _by_position(values: Any, keys: Sequence[Any], argument: str, name: str) -> dict[str, FloatArray]:
    array = checks.as_numbers(values, argument)
    if array.ndim > 2 or len(array) != len(keys):
        raise InputError(
            f"{argument} has shape {array.shape}; as an array it needs one row for each of the {len(keys):,} groups, in the "
            f"order {listed(keys)}. A frame with a key column is matched by name."
        )
    if array.ndim == 1:
        return {name: array}
    return {f"{name}{j}": np.ascontiguousarray(array[:, j]) for j in range(array.shape[1])}


@dataclass(frozen=True)
class Partition:
    """One way in which people are divided.

    Attributes
    ----------
    name : str
        Name of the column of labels; "partition" when it has none.
    labels : tuple
        The groups, in sorted order.
    """

    name: str
    labels: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Published:
    """The published means of one hidden feature for one partition.

    Attributes
    ----------
    name : str
        The hidden feature.
    partition : int
        Number of the partition.
    mean : (P,)
        NaN where none was published.
    se : (P,)
        Published standard errors; NaN where there are none.
    """

    name: str
    partition: int
    mean: FloatArray
    se: FloatArray


def read_published(
    aggregates: Any, aggregate_se: Any, partitions: tuple[Partition, ...]
) -> tuple[tuple[Published, ...], tuple[str, ...]]:
    """Read the published means and their errors: one entry per hidden feature and partition, and what was left out.

    Examples
    --------
    >>> found, _ = read_published({"partition": ["b", "a"], "ill": [0.5, 0.1]}, None, (Partition("partition", ("a", "b")),))
    >>> found[0].name, found[0].mean.tolist()
    ('ill', [0.1, 0.5])
    """
    if aggregates is None:
        raise InputError("aggregates is None; pass the published mean of every group.")
    means, errors = (
        _by_partition(v, partitions, n) for v, n in ((aggregates, "aggregates"), (aggregate_se, "aggregate_se"))
    )
    out: list[Published] = []
    warnings: list[str] = []
    for j, p in enumerate(partitions):
        if p.name not in means:
            continue
        matched = _match_means(means[p.name], p, "aggregates")
        if matched.spare:
            warnings.append(
                f"aggregates has {len(matched.spare):,} group(s) without people, {listed(matched.spare)}; nothing can be learned "
                "from them and they were left out."
            )
        known = _match_means(errors[p.name], p, "aggregate_se").columns if p.name in errors else {}
        for name in known:
            if name not in matched.columns:
                raise InputError(
                    f"aggregate_se has a column {name!r} that aggregates has not; name the columns alike "
                    f"({listed(matched.columns)})."
                )
        for name, mean in matched.columns.items():
            se = known.get(name, np.full(len(p), np.nan))
            _check_means(name, p, mean, se)
            out.append(Published(name, j, mean, se))
    if not out:
        raise InputError("aggregates holds no means; pass one column per hidden feature.")
    return tuple(out), tuple(warnings)


def _match_means(values: Any, partition: Partition, argument: str) -> Matched:
    repair = " (with an empty mean where none was published) or leave these people out"
    return read_by_key(values, partition.labels, argument, key=partition.name, name="hidden", repair=repair)


def _check_means(name: str, partition: Partition, mean: FloatArray, se: FloatArray) -> None:
    if np.isinf(mean).any():
        first = int(np.argmax(np.isinf(mean)))
        raise InputError(
            f"aggregates: the mean of {name!r} is infinite in {partition.labels[first]!r}; correct it or leave it out."
        )
    if (se < 0).any() or np.isinf(se).any():
        first = int(np.argmax((se < 0) | np.isinf(se)))
        raise InputError(
            f"aggregate_se of {name!r} is {se[first]:g} in {partition.labels[first]!r}; it must be finite and >= 0."
        )
    given = int((~np.isnan(mean)).sum())
    if given < 2:
        raise InputError(
            f"aggregates: {name!r} has a mean in {given} of {len(partition)} groups; at least two are needed."
        )


def check_range(published: Published, partition: Partition, low: float, high: float) -> None:
    """Refuse means that no feature of this range can have.

    Examples
    --------
    >>> p = Published("ill", 0, np.array([0.1, 1.5]), np.full(2, np.nan))
    >>> check_range(p, Partition("state", ("AK", "AL")), 0, 1)
    Traceback (most recent call last):
    crosslevel.errors.InputError: aggregates: the mean of 'ill' is 1.5 in 'AL' ...
    """
    bad = (published.mean < low) | (published.mean > high)
    if bad.any():
        first = int(np.argmax(bad))
        value = published.mean[first]
        known = published.mean[~np.isnan(published.mean)]
        percent = high == 1.0 and value > 1.0 and known.max() <= 100.0 and known.min() >= 0.0
        hint = " These look like per cent: divide by 100." if percent else ""
        limits = f"between {low:g} and {high:g}" if np.isfinite(high) else f"at least {low:g}"
        raise InputError(
            f"aggregates: the mean of {published.name!r} is {value:g} in {partition.labels[first]!r} and "
            f"{int(bad.sum()):,} of {len(bad):,} means lie outside the possible range; a mean must be {limits}.{hint}"
        )


def _by_partition(values: Any, partitions: tuple[Partition, ...], argument: str) -> dict[str, Any]:
    """Give each partition its table."""
    if values is None:
        return {}
    if len(partitions) == 1:
        return {partitions[0].name: values}
    names = [p.name for p in partitions]
    if not isinstance(values, Mapping) or not all(k in names for k in values):
        raise InputError(
            f"partition has {len(partitions)} columns of labels ({listed(names)}), so {argument} must be a mapping from these "
            f"names to one table each, such as {{{names[0]!r}: table}}."
        )
    return dict(values)
