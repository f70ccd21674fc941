"""Which group does each row belong to? One answer for bags, subgroups and tables of places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.frames import check_columns
from crosslevel.errors import InputError, listed

__all__ = ["Groups", "as_names", "check_unique", "group_rows", "keys_of"]


@dataclass(frozen=True)
class Groups:
    """The groups of a table, in sorted order of their keys.

    Attributes
    ----------
    codes : (n_rows,) int64
        Group number of each row.
    keys : pyarrow.Table
        One row per group, one column per name in ``by``.
    """

    codes: npt.NDArray[np.int64]
    keys: pa.Table

    def __len__(self) -> int:
        return int(self.keys.num_rows)


def as_names(names: str | Sequence[str], argument: str) -> tuple[str, ...]:
    """Read one name or several, refusing none and repeats.

    Examples
    --------
    >>> as_names("region", "by")
    ('region',)
    """
    if names is None or isinstance(names, int | float):
        raise InputError(
            f"{argument}={names!r} is not a column name; names are text here, for example {argument}='{names}'."
        )
    out = (names,) if isinstance(names, str) else tuple(names)
    strange = next((n for n in out if not isinstance(n, str)), None)
    if strange is not None:
        raise InputError(
            f"{argument} names {strange!r}, which is not text; column names are text here, for example '{strange}'."
        )
    if not out:
        raise InputError(f"{argument} is empty; name at least one column.")
    if len(set(out)) < len(out):
        raise InputError(f"{argument}={list(out)!r} names a column twice; name each once.")
    return out


def group_rows(table: pa.Table, by: str | Sequence[str], argument: str = "by") -> Groups:
    """Number the groups of rows with equal keys, in sorted key order whatever the order of the rows.

    Examples
    --------
    >>> groups = group_rows(pa.table({"region": ["b", "a", "b"]}), "region")
    >>> groups.codes.tolist(), groups.keys["region"].to_pylist()
    ([1, 0, 1], ['a', 'b'])
    """
    names = as_names(by, argument)
    check_columns(table, names, argument)
    codes = np.zeros(table.num_rows, dtype=np.int64)
    levels: list[pa.Array] = []
    for name in names:
        own, values = _column_codes(table[name], name, argument)
        if levels and codes.max(initial=0) > np.iinfo(np.int64).max // (len(values) + 1):
            codes = np.unique(codes, return_inverse=True)[1]
        codes = codes * len(values) + own
        levels.append(values)
    present, codes = np.unique(codes, return_inverse=True)
    first = np.empty(len(present), dtype=np.int64)
    first[codes[::-1]] = np.arange(table.num_rows - 1, -1, -1)
    keys = pa.table({n: _plain(table[n]).take(pa.array(first)).combine_chunks() for n in names})
    return Groups(codes.astype(np.int64).reshape(-1), keys)


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Undo dictionary encoding, so that keys compare by value."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _column_codes(values: pa.ChunkedArray, name: str, argument: str) -> tuple[npt.NDArray[np.int64], pa.Array]:
    values = _plain(values)
    if pa.types.is_nested(values.type) or isinstance(values.type, pa.BaseExtensionType):
        raise InputError(
            f"{argument}={name!r} is a column of {values.type}, which cannot name a group; turn it into text first."
        )
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy()))
        raise InputError(
            f"{argument}={name!r} has {values.null_count:,} missing value(s), the first in row {row:,}; a group key "
            "must be known. Drop these rows or give them a key of their own."
        )
    if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values)).as_py():
        row = int(np.argmin(pc.is_finite(values).to_numpy()))
        raise InputError(f"{argument}={name!r} is {values[row].as_py()} in row {row:,}; a group key must be known.")
    encoded = values.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    return rank[encoded.indices.to_numpy()], encoded.dictionary.take(order)


def keys_of(keys: pa.Table) -> npt.NDArray[np.object_] | npt.NDArray[np.generic]:
    """Turn a table of keys into one array: the values for one column, tuples for several."""
    if keys.num_columns == 1:
        return np.asarray(keys.column(0).to_numpy())
    out = np.empty(keys.num_rows, dtype=object)
    out[:] = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
    return out


def check_unique(table: pa.Table, by: str | Sequence[str], argument: str) -> Groups:
    """Refuse a table in which two rows have the same key."""
    groups = group_rows(table, by, argument)
    counts = np.bincount(groups.codes, minlength=len(groups))
    if (counts > 1).any():
        twice = keys_of(groups.keys)[counts > 1]
        raise InputError(
            f"{argument}={by!r} is not unique: {len(twice):,} key(s) stand in several rows ({listed(twice)}); "
            "sum or drop the repeated rows first."
        )
    return groups
