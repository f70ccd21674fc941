"""Columns of a results table: four Arrow types in, nothing else.

A column is float64, int64, bool or text. NaN is null, so that a table has one way to say "not known".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.errors import InputError

__all__ = ["COLUMN_TYPES", "as_column", "same_bits", "to_array"]

COLUMN_TYPES: dict[str, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
}
"""Name -> Arrow type of every column a results table may hold."""


def as_column(values: object, name: str, dtype: pa.DataType | None = None) -> pa.Array:
    """Read values as one column of float64, int64, bool or text; NaN becomes null, infinity is refused.

    Parameters
    ----------
    values : array-like
        One-dimensional: list, NumPy or Arrow array, Series.
    name : str
        Name of the column, for messages.
    dtype : pyarrow.DataType, optional
        The type the column must have.

    Examples
    --------
    >>> as_column([0.5, float("nan")], "estimate").to_pylist()
    [0.5, None]
    """
    array = _settle(_read(values, name), name)
    if dtype is not None and array.type != dtype:
        array = _cast(array, dtype, name)
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
        infinite = pc.fill_null(pc.is_inf(array), False)
        if pc.any(infinite).as_py():
            row = pc.index(infinite, True).as_py()
            raise InputError(
                f"column {name!r} is infinite in {pc.sum(infinite).as_py():,} row(s), the first ({array[row].as_py()}) "
                f"in row {row:,}; pass finite numbers, or NaN where the answer is not known."
            )
    return array


def _read(values: Any, name: str) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        raise InputError(f"column {name!r} is the single value {values!r}; pass one value per row.")
    try:
        # a Series goes through Arrow: NumPy would turn its integers into floats where some are null
        if hasattr(values, "__arrow_c_stream__"):
            array = pa.chunked_array(values).combine_chunks()
            return array.take(np.arange(len(array))) if pa.types.is_integer(array.type) else array
        if hasattr(values, "__array__"):
            values = np.array(values)  # Arrow would share the caller's memory, as above for integers
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InputError(
            f"column {name!r} cannot be read as one column ({error}); pass a one-dimensional array of numbers, text or booleans."
        ) from error


def _settle(array: pa.Array, name: str) -> pa.Array:
    """Bring any number, text or boolean to its one type here."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _settle(array.dictionary_decode(), name)
    if kind in COLUMN_TYPES.values():
        return array
    if pa.types.is_null(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _cast(array, pa.float64(), name)
    if pa.types.is_integer(kind):
        return _cast(array, pa.int64(), name)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _cast(array, pa.string(), name)
    raise InputError(f"column {name!r} is of type {kind}; pass numbers, text or booleans (turn dates into text first).")


def _cast(array: pa.Array, dtype: pa.DataType, name: str) -> pa.Array:
    exact = pa.types.is_integer(dtype)
    try:
        return array.cast(dtype, safe=exact)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"column {name!r} is of type {array.type} and cannot become {dtype} ({error}); convert it first."
        ) from error


def to_array(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Give a column as a NumPy array: NaN for null in numbers, None for null in text.

    Integers and booleans keep their type as long as no value is null.
    """
    if pa.types.is_boolean(values.type) and values.null_count:
        return np.array(values.to_pylist(), dtype=object)
    array = values.to_numpy() if isinstance(values, pa.ChunkedArray) else values.to_numpy(zero_copy_only=False)
    # Arrow hands out views that cannot be written; callers expect an array of their own
    return np.array(array, dtype=np.float64 if pa.types.is_integer(values.type) and values.null_count else None)


def same_bits(left: pa.Table, right: pa.Table) -> bool:
    """Tell whether two tables are the same to the last bit (so that 0.0 is not -0.0)."""
    if not left.schema.equals(right.schema) or not left.equals(right):
        return False
    floats = [n for n in left.column_names if pa.types.is_floating(left.schema.field(n).type)]
    return all(
        np.array_equal(
            np.signbit(pc.fill_null(left[n], 0.0).to_numpy()), np.signbit(pc.fill_null(right[n], 0.0).to_numpy())
        )
        for n in floats
    )
