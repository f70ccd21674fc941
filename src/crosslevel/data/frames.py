"""Any dataframe in, the caller's kind of dataframe out, and the columns and groups of a table.

This is the only module that knows a dataframe library, and it knows them through narwhals. Inside crosslevel a
table is a :class:`pyarrow.Table`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.errors import InputError, listed, unknown_name

__all__ = [
    "FrameKind",
    "Groups",
    "as_names",
    "check_columns",
    "check_unique",
    "column",
    "exact_floats",
    "frame_kind",
    "from_arrow",
    "group_rows",
    "index_labels",
    "is_frame",
    "keys_of",
    "same_rows",
    "to_arrow",
]

FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""The kinds of dataframe that answers can come back as."""

KINDS: tuple[FrameKind, ...] = ("pandas", "polars", "pyarrow")

LARGEST_KEY = 2**63 - 1
"""The largest whole number that names a group: answers hold int64."""

_INDEX = b"crosslevel.index"


def is_frame(obj: object) -> bool:
    """Tell whether ``obj`` is a table :func:`to_arrow` can read (a bare array is not)."""
    if isinstance(obj, pa.Table | pa.RecordBatch | Mapping) or hasattr(obj, "__arrow_c_stream__"):
        return True
    return isinstance(_wrapped(obj, "frame"), nw.DataFrame | nw.LazyFrame)


def _wrapped(obj: Any, argument: str) -> Any:
    try:
        return nw.from_native(obj, pass_through=True)
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"{argument} cannot be read as a table: {error}") from error


def frame_kind(frame: object) -> FrameKind:
    """Name the kind of dataframe the caller would like back; Arrow when it is none we can make."""
    wrapped = _wrapped(frame, "frame")
    if isinstance(wrapped, nw.DataFrame | nw.LazyFrame):
        name = str(wrapped.implementation)
        for kind in KINDS:
            if name == kind:
                return kind
    return "pyarrow"


def to_arrow(frame: object, argument: str = "frame") -> pa.Table:
    """Read any dataframe as an Arrow table.

    Parameters
    ----------
    frame : dataframe
        pandas, polars (eager or lazy), pyarrow, a duckdb relation, a mapping of name to values, or anything with
        the Arrow stream protocol.
    argument : str
        The caller's name for it, used in messages.

    Examples
    --------
    >>> to_arrow({"age": [30, 41]}).num_rows
    2
    """
    table = _read(frame, argument)
    names = table.column_names
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated:
        raise InputError(
            f"{argument} has more than one column named {repeated[0]!r}; rename the columns so that each is unique."
        )
    return table


def _read(frame: object, argument: str) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, Mapping):
        return _from_mapping(frame, argument)
    wrapped = _wrapped(frame, argument)
    if isinstance(wrapped, nw.Series) or isinstance(
        nw.from_native(frame, pass_through=True, series_only=True), nw.Series
    ):
        raise InputError(f"{argument} is a Series, one column; pass a frame, for example {argument}.to_frame().")
    try:
        if isinstance(wrapped, nw.LazyFrame):
            wrapped = wrapped.collect(backend="pyarrow")
        if isinstance(wrapped, nw.DataFrame):
            return _without_index(wrapped)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except InputError:
        raise
    except (
        Exception
    ) as error:  # what a dataframe library raises on export is its own affair; the reader needs a sentence
        raise InputError(
            f"{argument} has a column that no table format can hold, for example one of mixed types ({error}); give each "
            "column one type, all text or all numbers."
        ) from error
    raise InputError(
        f"{argument} is a {type(frame).__name__}, not a table; pass a pandas, polars or pyarrow frame, a duckdb "
        "relation, or a mapping of column name to values."
    )


def _without_index(wrapped: Any) -> pa.Table:
    """Give the columns and leave a pandas index behind: rows are known by position and by key columns alone.

    The names of the index are kept as a remark, so that a key that is looked for among the columns can be found there.
    """
    index = nw.maybe_get_index(wrapped)
    table = nw.maybe_reset_index(wrapped).to_arrow()
    names = [n for n in getattr(index, "names", ()) if n is not None]
    return table.replace_schema_metadata({_INDEX: json.dumps([str(n) for n in names])} if names else None)


def same_rows(a: object, b: object) -> bool:
    """Tell whether two frames can be paired row by row: pandas indexes, where both have one, must be equal."""
    frames = [w for f in (a, b) if isinstance(w := _wrapped(f, "frame"), nw.DataFrame)]
    indexes = [i for w in frames if (i := nw.maybe_get_index(w)) is not None]
    return len(indexes) < 2 or bool(indexes[0].equals(indexes[1]))


def index_labels(values: object, keys: Sequence[object] = ()) -> list[object] | None:
    """Give the labels that a Series carries, or None where its values are taken by position.

    A pandas index is labels, unless it is an unnamed numbering of rows that knows none of the keys: then it says where rows stood in
    some frame. Series of other libraries have no index.

    Examples
    --------
    >>> import pandas as pd
    >>> index_labels(pd.Series([0.5, 0.1], index=["b", "a"])), index_labels(pd.Series([0.5, 0.1]), ["a", "b"])
    (['b', 'a'], None)
    """
    wrapped: Any = nw.from_native(cast("Any", values), pass_through=True, allow_series=True)
    index = nw.maybe_get_index(wrapped) if isinstance(wrapped, nw.Series) else None
    if index is None:
        return None
    labels = list(index.tolist())
    if index.name is None and all(isinstance(v, int) for v in labels):
        rows_in_order = getattr(index, "start", None) == 0 and index.step == 1
        return None if rows_in_order or not set(labels) & set(keys) else labels
    return labels


def _from_mapping(columns: Mapping[Any, Any], argument: str) -> pa.Table:
    names = [str(name) for name in columns]
    if len(set(names)) < len(names):
        raise InputError(f"{argument} has more than one column named {next(n for n in names if names.count(n) > 1)!r}.")
    for name, values in columns.items():
        if not hasattr(values, "__len__") or isinstance(values, str):
            raise InputError(f"{argument}[{name!r}] is {values!r}, not a column; pass a list or an array of values.")
    lengths = {str(name): len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{argument} has columns of different lengths ({lengths}); make them equally long.")
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[str(name)] = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{argument}[{name!r}] holds values of mixed types or of a type no table has ({error}); give the column one type."
            ) from error
    return pa.table(arrays)


def from_arrow(table: pa.Table, kind: FrameKind = "pyarrow") -> Any:
    """Hand a table back as the kind of dataframe the caller uses.

    Examples
    --------
    >>> type(from_arrow(to_arrow({"age": [30]}), "pandas")).__name__
    'DataFrame'
    """
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "kind of frame")
    if kind == "pyarrow":
        return table
    return nw.from_arrow(table, backend=kind).to_native()


def check_columns(table: pa.Table, names: Sequence[str], argument: str) -> None:
    """Refuse names that are not columns, suggesting the nearest."""
    for name in names:
        if name not in table.column_names:
            if name in json.loads((table.schema.metadata or {}).get(_INDEX, b"[]")):
                raise InputError(
                    f"{argument}={name!r} is the index of the frame, not a column; call .reset_index() first."
                )
            raise unknown_name(argument, name, table.column_names)


def column(table: pa.Table, name: str, argument: str) -> npt.NDArray[np.float64]:
    """Read one numeric column as float64; nulls become NaN, anything but numbers and booleans is refused."""
    check_columns(table, [name], argument)
    values = _plain(table[name])
    kind = values.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        if pa.types.is_null(kind):
            return np.full(len(values), np.nan)
        raise InputError(f"{argument}={name!r} is a column of {kind}, not of numbers; convert it or leave it out.")
    return exact_floats(values, f"{argument}={name!r}")


def exact_floats(values: pa.Array | pa.ChunkedArray, what: str) -> npt.NDArray[np.float64]:
    """Give numbers as float64, nulls as NaN; refuse whole numbers beyond 2^53, which would merge with their neighbors."""
    try:
        floats = values.cast(pa.float64(), safe=pa.types.is_integer(values.type))
    except pa.ArrowInvalid:
        ends = pc.min_max(values).as_py()
        large = max(ends.values(), key=abs)
        raise InputError(
            f"{what} holds the whole number {large}; as numbers, those beyond {2**53} cannot be told from their neighbors. If they "
            "are codes, name the column in categorical or turn it into text; otherwise change its unit."
        ) from None
    return cast("npt.NDArray[np.float64]", floats.to_numpy(zero_copy_only=False))


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
    if pa.types.is_uint64(values.type) and len(values) and pc.max(values).as_py() > LARGEST_KEY:
        row = int(np.argmax(values.to_numpy() > LARGEST_KEY))
        raise InputError(
            f"{argument}={name!r} is {values[row].as_py()} in row {row:,}; whole numbers of keys end at {LARGEST_KEY} (64 bits with a "
            "sign). Turn the column into text, in people and places alike."
        )
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
