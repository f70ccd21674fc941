"""The table of an answer: columns of four types, keys that tell rows apart, intervals that are intervals, plain values beside it.

A column is float64, int64, bool or text. NaN is null, so that a table has one way to say "not known".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.checks import as_numbers, check_level
from crosslevel.data.frames import refuse_other_index
from crosslevel.errors import InputError, listed, unknown_name

if TYPE_CHECKING:
    from crosslevel.results.estimates import Estimates

SHARES = (
    "cells", "comparison", "contextual_variance", "coverage", "held_out", "performance", "places", "polarization_summary",
    "polarization_tally", "subgroups", "surveyed",
)  # fmt: skip
"""Kinds of tables whose estimates are shares where they lie between 0 and 1."""
DIFFERENCES = ("contrast", "effects", "pointwise_effects", "sensitivity")
"""Kinds that are not shares even with bounds."""
OF_SHARES = ("Share of ", "Support of each group")
"""How titles of reports of shares begin; other reports of a table are of differences."""

COLUMN_TYPES: dict[str, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
}
"""Name -> Arrow type of every column a results table may hold."""
NUMBERS = ("estimate", "std_error", "conf_low", "conf_high")
"""The columns every answer has, null where a method has nothing to say."""


def tabulate(columns: Mapping[str, Any], keys: Sequence[str]) -> pa.Table:
    """Make the table: keys first, then the four numbers, then the rest in the order given.

    Examples
    --------
    >>> tabulate({"estimate": [1, 2], "truth": [1.5, 2.5], "place": ["a", "b"]}, ["place"]).column_names
    ['place', 'estimate', 'std_error', 'conf_low', 'conf_high', 'truth']
    """
    for name in columns:
        if not isinstance(name, str) or not name:
            raise InputError(f"columns has the name {name!r}; name every column with text.")
    for key in keys:
        if key in NUMBERS:
            raise InputError(f"keys has {key!r}, which is a column of numbers in every answer; rename the key.")
        if key not in columns:
            raise unknown_name("keys", key, list(columns))
    if len(set(keys)) < len(keys):
        raise InputError(f"keys={list(keys)!r} names a column twice; name each once.")
    if "estimate" not in columns:
        raise InputError(f"columns has no 'estimate', only {listed(columns)}; add the column.")
    refuse_other_index(columns, "columns")
    rest = [n for n in columns if n not in keys and n not in NUMBERS]
    arrays = {n: as_column(columns[n], n, pa.float64() if n in NUMBERS else None) for n in columns}
    lengths = {n: len(a) for n, a in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns have different lengths ({lengths}); make them equally long.")
    empty = pa.nulls(lengths["estimate"], pa.float64())
    table = pa.table({n: arrays.get(n, empty) for n in (*keys, *NUMBERS, *rest)})
    repeated = first_duplicate(table, keys)
    if repeated is not None:
        first, again = repeated
        raise InputError(
            f"rows {first:,} and {again:,} have the same keys ({described_row(table, keys, first)}); give every row keys "
            "of its own, or add the column that tells them apart to keys."
        )
    return table


def check_interval(table: pa.Table, keys: Sequence[str], level: float | None, interval: str) -> None:
    """Refuse an interval without a level, a level without an interval, and ends in the wrong order."""
    if not isinstance(interval, str) or not interval:
        raise InputError(f"interval={interval!r} does not say what kind of interval this is; use words, or 'none'.")
    if level is not None:
        check_level(level)
    if interval == "none":
        given = [n for n in ("conf_low", "conf_high") if table[n].null_count < table.num_rows]
        if level is not None or given:
            what = f"level={level!r}" if level is not None else f"the column {given[0]!r} has numbers"
            raise InputError(f"interval is 'none' but {what}; name the kind of interval, or leave these out.")
        return
    if level is None:
        raise InputError(f"interval={interval!r} has no level; pass level=0.95, or interval='none'.")
    crossed = pc.fill_null(pc.greater(table["conf_low"], table["conf_high"]), False)
    if pc.any(crossed).as_py():
        row = pc.index(crossed, True).as_py()
        low, high = table["conf_low"][row].as_py(), table["conf_high"][row].as_py()
        raise InputError(
            f"conf_low exceeds conf_high in {pc.sum(crossed).as_py():,} row(s), first where "
            f"{described_row(table, keys, row)} ({low!r} > {high!r}); swap the ends or repair the interval."
        )


def check_draws(draws: object, n_rows: int) -> npt.NDArray[np.float64]:
    """Accept posterior draws of shape (n_draws, n_rows); NaN where there is no estimate."""
    array = as_numbers(draws, "draws", 2)
    if array.shape[1] != n_rows:
        raise InputError(
            f"draws has shape {array.shape} for {n_rows:,} rows; pass one column of draws per row of the table."
        )
    if np.isinf(array).any():
        raise InputError("draws has infinite values; pass finite numbers, or NaN where the answer is not known.")
    return array.copy() if isinstance(draws, np.ndarray) else array


def match_rows(table: pa.Table, other: pa.Table, keys: Sequence[str]) -> npt.NDArray[np.int64]:
    """Find for each row of ``table`` the one row of ``other`` with the same keys; both must have the same keys.

    Examples
    --------
    >>> match_rows(pa.table({"k": ["a", "b"]}), pa.table({"k": ["b", "a"]}), ["k"])
    array([1, 0])
    """
    other = pa.table({k: as_column(other[k], k) for k in keys})
    repeated = first_duplicate(other, keys)
    if repeated is not None:
        raise InputError(
            f"frame has the keys {described_row(other, keys, repeated[0])} twice (rows {repeated[0]:,} and {repeated[1]:,}); "
            "keep one row for each."
        )
    place = {values: row for row, values in enumerate(_key_rows(other, keys))}
    wanted = _key_rows(table, keys)
    differ = [k for k in keys if pa.types.is_string(table[k].type) != pa.types.is_string(other[k].type)]
    hint = (
        f" (the key {differ[0]!r} is {other[differ[0]].type} there and {table[differ[0]].type} here)" if differ else ""
    )
    for row, values in enumerate(wanted):
        if values not in place:
            raise InputError(
                f"frame has no row for {described_row(table, keys, row)}{hint}; add it, with a null truth if it is not known."
            )
    if len(place) > len(wanted):
        have = set(wanted)
        row = next(i for values, i in place.items() if values not in have)
        raise InputError(
            f"frame has {len(place) - len(wanted):,} row(s) that match no estimate, first {described_row(other, keys, row)}; "
            "check the spelling of the keys, or drop these rows."
        )
    return np.array([place[values] for values in wanted], dtype=np.int64)


def _key_rows(table: pa.Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table[k].to_pylist() for k in keys), strict=True)) if keys else [()] * table.num_rows


def first_duplicate(table: pa.Table, keys: Sequence[str]) -> tuple[int, int] | None:
    """Find the first two rows that have the same keys, or None.

    Examples
    --------
    >>> first_duplicate(pa.table({"k": ["a", "b", "a"]}), ["k"])
    (0, 2)
    """
    if table.num_rows < 2:
        return None
    if not keys:
        return 0, 1
    rows = pa.table({**{f"k{i}": table[k] for i, k in enumerate(keys)}, "row": np.arange(table.num_rows)})
    names = [f"k{i}" for i in range(len(keys))]
    counts = rows.group_by(names, use_threads=False).aggregate([("row", "count"), ("row", "min")])
    repeated = counts.filter(pc.greater(counts["row_count"], 1))
    if not repeated.num_rows:
        return None
    first = int(pc.min(repeated["row_min"]).as_py())
    values = _key_rows(table, keys)
    return first, values.index(values[first], first + 1)


def described_row(table: pa.Table, keys: Sequence[str], row: int) -> str:
    """Name a row by its keys: ``group='women', outcome='dem'``."""
    return ", ".join(f"{k}={table[k][row].as_py()!r}" for k in keys) or f"row {row:,}"


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


def midpoints(estimates: Estimates) -> npt.NDArray[np.bool_]:
    """Tell which rows are of the method of bounds and of no point: the estimate is the midpoint, which is none and is not shown."""
    names = estimates.table.column_names
    if "lower" not in names or "upper" not in names:
        return np.zeros(len(estimates), dtype=np.bool_)
    if "method" in estimates.keys:
        of_bounds = np.array([m == "bounds" for m in estimates["method"].tolist()], dtype=np.bool_)
    else:
        of_bounds = np.full(len(estimates), estimates.method.startswith("bounds"))
    return of_bounds & (np.asarray(estimates["lower"] < estimates["upper"], dtype=np.bool_))


def without_midpoints(estimates: Estimates) -> pa.Table:
    """Give the table with neither estimate nor count where these come from the middle of bounds."""
    table, only = estimates.table, midpoints(estimates)
    for name in ("estimate", "count") if only.any() else ():
        if name in table.column_names:
            kept = pc.if_else(pa.array(~only), table[name], None)
            table = table.set_column(table.column_names.index(name), name, kept)
    return table


def on_unit_scale(estimates: Estimates) -> bool:
    """Tell whether the estimates are shares: between 0 and 1, as is the truth, or with bounds that are.

    A regression may leave the range; its bounds do not.
    """
    names = estimates.table.column_names
    for low, high in (("lower", "upper"), ("bound_low", "bound_high")):
        if {low, high} <= set(names) - set(estimates.keys) and _between(estimates, (low, high)):
            return True
    return _between(estimates, [n for n in ("estimate", "truth") if n in names])


def bounded(estimates: Estimates) -> bool:
    """Tell whether the table has columns of bounds."""
    columns = set(estimates.table.column_names) - set(estimates.keys)
    return {"lower", "upper"} <= columns or {"bound_low", "bound_high"} <= columns


def in_percent(estimates: Estimates) -> bool:
    """Tell whether these are known to be shares, by bounds from 0 to 1 or by their kind; effects and differences never are."""
    if estimates.kind == "margins":
        known = estimates.title.startswith(OF_SHARES)
    else:
        known = estimates.kind in SHARES or (estimates.kind not in DIFFERENCES and bounded(estimates))
    return known and on_unit_scale(estimates)


def _between(estimates: Estimates, names: Sequence[str]) -> bool:
    values = np.concatenate([np.asarray(estimates[n], dtype=float) for n in names])
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() >= 0 and values.max() <= 1)


def plain(value: Any, path: str = "value") -> Any:
    """Turn a value into plain JSON ones: NumPy to Python, NaN to None, infinity to "inf".

    Examples
    --------
    >>> plain({"trace": np.array([1.0, np.nan]), "n": np.int64(3), "gap": float("inf")})
    {'trace': [1.0, None], 'n': 3, 'gap': 'inf'}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), path) if not isinstance(value, np.void) else _refuse(value, path)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        named = {str(k): plain(v, f"{path}[{str(k)!r}]") for k, v in value.items()}
        return named if len(named) == len(value) else _refuse(value, path)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v, f"{path}[{i}]") for i, v in enumerate(value)]
    return _refuse(value, path)


def _refuse(value: object, path: str) -> Any:
    raise InputError(
        f"{path} is a {type(value).__name__}, which JSON cannot hold; use numbers, text, booleans, lists and mappings with "
        "text names."
    )
