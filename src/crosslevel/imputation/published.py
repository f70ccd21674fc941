"""Read the published means: tables matched to the groups by name, or arrays in sorted order of the groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

__all__ = ["UNNAMED", "Partition", "Published", "check_range", "read_published"]


UNNAMED = "partition"
"""What a partition whose labels have no name is called."""


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
    notes: list[str] = []
    for j, p in enumerate(partitions):
        if p.name not in means:
            continue
        found, note = _read_means(means[p.name], p, "aggregates")
        notes += note
        known = _read_means(errors[p.name], p, "aggregate_se")[0] if p.name in errors else {}
        for name in known:
            if name not in found:
                raise InputError(
                    f"aggregate_se has a column {name!r} that aggregates has not; name the columns alike ({listed(found)})."
                )
        for name, mean in found.items():
            if np.isinf(mean).any():
                first = int(np.argmax(np.isinf(mean)))
                raise InputError(
                    f"aggregates: the mean of {name!r} is infinite in {p.labels[first]!r}; correct it or leave it out."
                )
            se = known.get(name, np.full(len(p), np.nan))
            if (se < 0).any() or np.isinf(se).any():
                first = int(np.argmax((se < 0) | np.isinf(se)))
                raise InputError(
                    f"aggregate_se of {name!r} is {se[first]:g} in {p.labels[first]!r}; it must be finite and >= 0."
                )
            if (~np.isnan(mean)).sum() < 2:
                raise InputError(
                    f"aggregates: {name!r} has a mean in {int((~np.isnan(mean)).sum())} of {len(p)} groups; at least two are needed."
                )
            out.append(Published(name, j, mean, se))
    if not out:
        raise InputError("aggregates holds no means; pass one column per hidden feature.")
    return tuple(out), tuple(notes)


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


def _read_means(values: Any, partition: Partition, argument: str) -> tuple[dict[str, FloatArray], list[str]]:
    if hasattr(values, "name") and np.ndim(values) == 1:
        raise InputError(
            f"{argument} is a Series; pass {argument}.reset_index(), a frame in which a column names the group, so that "
            "groups are matched by name."
        )
    if not frames.is_frame(values):
        return _means_of_array(values, partition, argument), []
    table = frames.to_arrow(values, argument)
    key = _key(table, partition, argument)
    own = frames.check_unique(table.select([key]), key, argument)
    labels = own.keys.column(0).to_pylist()
    row_of = {labels[code]: row for row, code in enumerate(own.codes)}
    missing = [v for v in partition.labels if v not in row_of]
    if missing:
        kinds = ""
        if len(missing) == len(partition):
            kinds = f" ({key!r} holds {labels[0]!r} where partition holds {partition.labels[0]!r})"
        raise InputError(
            f"{argument} has no row for {len(missing):,} group(s) that people are in: {listed(missing)}{kinds}; add them "
            "(with an empty mean where none was published) or leave these people out."
        )
    spare = [v for v in labels if v not in set(partition.labels)]
    notes = []
    if spare:
        notes.append(
            f"{argument} has {len(spare):,} group(s) without people, {listed(spare)}; nothing can be learnt from them and "
            "they were left out."
        )
    rows = np.array([row_of[v] for v in partition.labels])
    names = [n for n in table.column_names if n != key]
    if not names:
        raise InputError(f"{argument} has no column beside the key {key!r}; add one column per hidden feature.")
    return {n: frames.column(table, n, argument)[rows] for n in names}, notes


def _key(table: pa.Table, partition: Partition, argument: str) -> str:
    for name in (partition.name, UNNAMED):
        if name in table.column_names:
            return name
    if partition.name == UNNAMED and table.num_columns:
        return str(table.column_names[0])
    frames.check_columns(table, [partition.name], argument)
    return partition.name


def _means_of_array(values: Any, partition: Partition, argument: str) -> dict[str, FloatArray]:
    array = checks.as_numbers(values, argument)
    if array.ndim > 2 or len(array) != len(partition):
        raise InputError(
            f"{argument} has shape {array.shape}; as an array it needs one row for each of the {len(partition):,} groups, in "
            f"sorted order of the labels ({listed(partition.labels)}). A frame with a key column is matched by name."
        )
    if array.ndim == 1:
        return {"hidden": array}
    return {f"hidden{j}": np.ascontiguousarray(array[:, j]) for j in range(array.shape[1])}
