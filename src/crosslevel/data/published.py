"""Numbers published by group, matched with the groups by name.

``read_by_key(values, keys, argument, key=...)`` reads one number (or several columns of them) for each of the groups in ``keys``: a
frame with a key column, or a Series with an index, is matched by name and refused where a group has no row; only what has no names is
taken by position, in the order of ``keys``.

How the imputers use it: ``read_published(aggregates, aggregate_se, partitions)`` gives one :class:`Published` for every hidden feature
and partition, and the sentences about what was left out; ``check_range`` refuses means that no feature of a range can have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.patterns import missing_codes
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

UNNAMED = "partition"
"""What a partition whose labels have no name is called."""
LARGEST_SHARE_ERROR = 0.5
"""No estimate of a share has a larger standard error: sqrt(s (1 - s) / n)."""
FEWEST_OTHERS = 5
"""Means beside which one that is further away than their range, and a code of missing values, is taken for one."""


@dataclass(frozen=True, eq=False)
class Matched:
    """Numbers in the order of the keys they were asked for.

    Attributes
    ----------
    columns : dict of name to (n_keys,)
        NaN where a value is missing.
    spare : tuple
        Groups that have a row and were not asked for.
    notes : tuple of str
        What the reader should know of the order in which they were taken.
    """

    columns: dict[str, FloatArray]
    spare: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()


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
    labels = checks.names_of(values) if np.ndim(values) == 1 else None
    if labels is not None:
        own = str(getattr(values, "name", None) or name)
        values = pa.table({key: labels, own: checks.as_numbers(values, argument, 1)})
    if len(getattr(values, "shape", ())) == 1 or not frames.is_frame(values):
        return Matched(_by_position(values, keys, argument, name), notes=_describe_order(keys, argument))
    table, index = frames.to_arrow(values, argument), set(checks.row_keys(values) or ())
    if index >= set(keys) and not any(set(keys) & set(held.to_pylist()) for held in table.columns):
        raise InputError(
            f"{argument} has the groups in its index, and no column of them; pass {argument}.rename_axis({key!r}).reset_index()."
        )
    column = _key_column(table, key, argument)
    groups = checks.check_unique(table.select([column]), column, argument)
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


def _describe_order(keys: Sequence[Any], argument: str) -> tuple[str, ...]:
    """Say so where keys are numbers as text, whose order is not that of the numbers."""
    if not all(isinstance(k, str) and frames.NUMBER.fullmatch(k) for k in keys) or list(keys) == sorted(
        keys, key=float
    ):
        return ()
    return (
        f"{argument} has no names, and the groups are numbers as text, so its values were taken in the order of text, {listed(keys)}; if "
        f"they are in the order of the numbers, pass a Series of {argument} by group, or make the groups numbers.",
    )


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
        found = _match_means(errors[p.name], p, "aggregate_se") if p.name in errors else Matched({})
        known = found.columns
        warnings += [*matched.notes, *found.notes]
        for name in known:
            if name not in matched.columns:
                raise InputError(
                    f"aggregate_se has a column {name!r} that aggregates has not; name the columns alike "
                    f"({listed(matched.columns)})."
                )
        for name, mean in matched.columns.items():
            se = known.get(name, np.full(len(p), np.nan))
            _check_means(name, p, mean, se)
            if np.nanmin(mean) >= 0 and np.nanmax(mean) <= 1 and (se > LARGEST_SHARE_ERROR).any():
                first = int(np.argmax(se > LARGEST_SHARE_ERROR))
                warnings.append(
                    f"aggregate_se of {name!r} is {se[first]:g} in {p.labels[first]!r}, beside means between 0 and 1; a share has no "
                    f"standard error above {LARGEST_SHARE_ERROR:g}. If these are percentage points, divide them by 100."
                )
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
    codes = missing_codes(mean, 1)
    others = mean[~np.isnan(mean) & ~np.isin(mean, codes)]
    odd = [v for v in codes if len(others) >= FEWEST_OTHERS and (abs(v) > 9 or v < 0 <= others.min())]
    if odd:
        raise InputError(
            f"aggregates: the mean of {name!r} is {odd[0]:g} in {partition.labels[int(np.argmax(mean == odd[0]))]!r}, and all others are "
            f"between {others.min():g} and {others.max():g}; {odd[0]:g} is a code of missing values. Leave this mean empty (NaN)."
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
        hint = " These look like percent: divide by 100." if percent else ""
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
