"""Any dataframe in, the caller's kind of dataframe out.

This is the only module that knows a dataframe library, and it knows them through narwhals. Inside crosslevel a
table is a :class:`pyarrow.Table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.errors import InputError, unknown_name

__all__ = ["FrameKind", "check_columns", "column", "frame_kind", "from_arrow", "is_frame", "to_arrow"]

FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""The kinds of dataframe that answers can come back as."""

KINDS: tuple[FrameKind, ...] = ("pandas", "polars", "pyarrow")


def is_frame(obj: object) -> bool:
    """Tell whether ``obj`` is a table :func:`to_arrow` can read (a bare array is not)."""
    if isinstance(obj, pa.Table | pa.RecordBatch | Mapping) or hasattr(obj, "__arrow_c_stream__"):
        return True
    return isinstance(nw.from_native(obj, pass_through=True), nw.DataFrame | nw.LazyFrame)


def frame_kind(frame: object) -> FrameKind:
    """Name the kind of dataframe the caller would like back; Arrow when it is none we can make."""
    wrapped = nw.from_native(frame, pass_through=True)
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
    wrapped = nw.from_native(frame, pass_through=True)
    try:
        if isinstance(wrapped, nw.LazyFrame):
            wrapped = wrapped.collect(backend="pyarrow")
        if isinstance(wrapped, nw.DataFrame):
            return cast("pa.Table", wrapped.to_arrow())
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"{argument} has a column with values of mixed types that no table format can hold ({error}); "
            "give the column one type, for example all text or all numbers."
        ) from error
    raise InputError(
        f"{argument} is a {type(frame).__name__}, not a table; pass a pandas, polars or pyarrow frame, a duckdb "
        "relation, or a mapping of column name to values."
    )


def _from_mapping(columns: Mapping[Any, Any], argument: str) -> pa.Table:
    lengths = {str(name): len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{argument} has columns of different lengths ({lengths}); make them equally long.")
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[str(name)] = pa.array(values, from_pandas=isinstance(values, np.ndarray) and values.dtype == object)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(
                f"{argument}[{name!r}] holds values of mixed types ({error}); give the column one type."
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
            raise unknown_name(argument, name, table.column_names)


def column(table: pa.Table, name: str, argument: str) -> npt.NDArray[np.float64]:
    """Read one numeric column as float64; nulls become NaN, anything but numbers and booleans is refused."""
    check_columns(table, [name], argument)
    values = table[name]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
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
    return cast("npt.NDArray[np.float64]", values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
