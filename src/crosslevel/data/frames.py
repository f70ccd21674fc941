"""Any dataframe in, the caller's kind of dataframe out; the columns, the groups and the fingerprint of a table.

This is the only module that knows a dataframe library, and it knows them through narwhals. Inside crosslevel a table is a
:class:`pyarrow.Table`. Two tables have the same fingerprint when they have the same column names in the same order, the same rows in the
same order and the same values, however they are stored: chunks, the kind of dataframe, dictionary encoding, 32 or 64 bits,
integers or floats of the same value, and NaN or null for a missing number make no difference.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.errors import InputError, unknown_name

FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""The kinds of dataframe that answers can come back as."""

KINDS: tuple[FrameKind, ...] = ("pandas", "polars", "pyarrow")
NUMBER = re.compile(r"\s*[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
"""What is a number as text; 01001 is a code."""
NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
"""What is read as numbers; a column without any value has the type null."""

LARGEST_KEY = 2**63 - 1
"""The largest whole number that names a group: answers hold int64."""

FINGERPRINT_VERSION = 2  # hashed in first: a change of the recipe must change every fingerprint
FINGERPRINT_DIGITS = 16
TIMES = (
    (pa.types.is_timestamp, pa.timestamp),
    (pa.types.is_duration, pa.duration),
    (pa.types.is_time, pa.time64),
)
EXACT = 2.0**53  # below this, whole numbers are exact in float64

_INDEX = b"crosslevel.index"


def is_frame(obj: object) -> bool:
    """Tell whether ``obj`` is a table :func:`to_arrow` can read (a bare array is not)."""
    if type(obj).__module__.partition(".")[0] in ("pyspark", "scipy"):
        return False  # rows that stay with the workers; sparse matrices, some of which are mappings
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
    name = str(wrapped.implementation) if isinstance(wrapped, nw.DataFrame | nw.LazyFrame) else ""
    return next((kind for kind in KINDS if kind == name), "pyarrow")


def to_arrow(frame: object, argument: str = "frame") -> pa.Table:
    """Read any dataframe as an Arrow table.

    Parameters
    ----------
    frame : dataframe
        pandas, polars (eager or lazy), pyarrow, a duckdb relation, a mapping of name to values, or anything with Arrow's stream protocol.
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
    except Exception as error:  # what a dataframe library raises on export is its own affair
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


def _from_mapping(columns: Mapping[Any, Any], argument: str) -> pa.Table:
    for name, values in columns.items():
        if not hasattr(values, "__len__") or isinstance(values, str):
            raise InputError(f"{argument}[{name!r}] is {values!r}, not a column; pass a list or an array of values.")
    lengths = {str(name): len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{argument} has columns of different lengths ({lengths}); make them equally long.")
    refuse_other_index(columns, argument)
    arrays = []
    for name, values in columns.items():
        try:
            arrays.append(_as_column(values))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{argument}[{name!r}] holds values of mixed types or of a type no table has ({error}); give the column one type."
            ) from error
    return pa.table(arrays, names=[str(name) for name in columns])  # 1 and "1" are two here, and refused


def refuse_other_index(columns: Mapping[Any, Any], argument: str) -> None:
    """Refuse Series of one mapping that name their rows differently, or alike in another order."""
    named = {name: values.index for name, values in columns.items() if hasattr(values, "iloc")}
    counts = {name: index.tolist() == list(range(len(index))) for name, index in named.items()}
    first = min(named, key=counts.__getitem__, default=None)  # one that names its rows, where there is one
    for name, index in named.items():
        if not index.equals(named[first]) and (not counts[name] or set(index) == set(named[first])):
            pair = f"{argument}[{name!r}] and {argument}[{first!r}]"
            raise InputError(f"{pair} have different indexes, or one in another order; pass one frame, or arrays.")


def _as_column(values: Any) -> Any:
    """Read values as a column; NaN among text is missing."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError):
        return pa.array(values, from_pandas=True)


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
    if not any(is_one(values.type) for is_one in NUMERIC):
        raise InputError(
            f"{argument}={name!r} is a column of {values.type}, not of numbers{_first_text(values)}; convert it or leave it out."
        )
    return exact_floats(values, f"{argument}={name!r}")


def _first_text(values: pa.ChunkedArray) -> str:
    """Name the first cell that is no number."""
    for row, value in enumerate(values.to_pylist()):
        if value is not None and not NUMBER.fullmatch(str(value)):
            return f" (the first that is none is {value!r} in row {row:,}; --text-numbers reads 1,234 or 45 %)"
    return " (though all of its text could be read as such)"


def exact_floats(values: pa.Array | pa.ChunkedArray, what: str) -> npt.NDArray[np.float64]:
    """Give numbers as float64, nulls as NaN; refuse whole numbers beyond 2^53, which would merge with their neighbors."""
    try:
        floats = values.cast(pa.float64(), safe=pa.types.is_integer(values.type))
    except pa.ArrowInvalid:
        large = max(pc.min_max(values).as_py().values(), key=abs)
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
    out = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)
    strange = [n for n in out if not isinstance(n, str)]
    if strange:
        raise InputError(
            f"{argument}={strange[0]!r} is not a column name; names are text here, for example {argument}='{strange[0]}'."
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


def fingerprint(data: object) -> str:
    """Give the fingerprint of a table: ``sha256:`` and 16 hexadecimal digits.

    Examples
    --------
    >>> fingerprint({"age": [30, 41]})
    'sha256:3319862371c573c1'
    >>> fingerprint({"age": [30.0, 41.0]}) == fingerprint({"age": [30, 41]})
    True
    >>> fingerprint({"age": [41, 30]}) == fingerprint({"age": [30, 41]})
    False
    """
    table = to_arrow(data, "data")
    digest = hashlib.sha256(repr([FINGERPRINT_VERSION, table.num_rows, table.column_names]).encode())
    for values in table.columns:
        for part in _canonical(_plain(values)):
            digest.update(part)
    return f"sha256:{digest.hexdigest()[:FINGERPRINT_DIGITS]}"


def _canonical(values: pa.ChunkedArray) -> Iterator[bytes]:
    """Give the values of a column as bytes that do not depend on how they are stored."""
    kind = values.type
    missing = values.is_null(nan_is_null=pa.types.is_floating(kind)).to_numpy()
    if pa.types.is_null(kind):
        return
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        floats = values.cast(pa.float64(), safe=False).to_numpy()
        yield b"number" + (np.where(missing, 0.0, floats) + 0.0).astype("<f8").tobytes()  # -0.0 becomes 0.0
        if pa.types.is_integer(kind) and np.abs(np.where(missing, 0.0, floats)).max(initial=0.0) >= EXACT:
            rounded = [i for i, v in enumerate(values.to_pylist()) if v is not None and int(float(v)) != v]
            yield repr([(i, values[i].as_py()) for i in rounded]).encode() if rounded else b""
    else:
        for is_one, make in TIMES:
            values = values.cast(make("us"), safe=False).cast(pa.int64()) if is_one(kind) else values
        text = values if pa.types.is_nested(kind) else values.cast(pa.large_string())
        yield repr([_common_name(kind), *text.to_pylist()]).encode("utf-8", "surrogatepass")
    yield np.packbits(missing).tobytes()


def _common_name(kind: pa.DataType) -> str:
    """Name what types that may hold the same values have in common."""
    kinds = {"boolean": pa.types.is_boolean, "date": pa.types.is_date, "decimal": pa.types.is_decimal}
    kinds |= {"duration": pa.types.is_duration, "time": pa.types.is_time, "text": _is_text}
    zone = f"timestamp {kind.tz or ''}" if pa.types.is_timestamp(kind) else str(kind)
    return next((name for name, is_one in kinds.items() if is_one(kind)), zone)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def kind_of(kind: pa.DataType) -> str:
    """Say of what kind a column is, as expressions see it.

    Examples
    --------
    >>> kind_of(pa.int8()), kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.date32())
    ('number', 'text', 'date')
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return "missing" if pa.types.is_null(kind) else "date" if pa.types.is_temporal(kind) else str(kind)
