"""A table in memory as a matrix, and its equal rows.

``learn_table(table, categorical)`` tells numbers from factors; ``read_matrix(table, columns)`` gives plain numbers and level codes, NaN
where missing; ``read_codes(table, column)`` the codes of one factor. ``equal_rows(X)`` numbers the distinct rows in ascending order (NaN
equals NaN and comes last; add 0.0 to make -0.0 equal 0.0).

Used by the imputers and KRLS; means and spreads of an outcome within cells are KRLS's own, on top of ``equal_rows``. People of a stream
are learned in :mod:`crosslevel.data.people_columns` and counted by place in :mod:`crosslevel.data.place_cells`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.columns import (
    UNKNOWN,
    Category,
    Number,
    check_names,
    is_categorical,
    plain_array,
)
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.typing import FloatArray, Int64Array, IntArray

LARGEST_KEY = 2**22
"""Codes up to this many are counted in an array; beyond it they are sorted."""


def learn_table(
    table: pa.Table, categorical: Sequence[str] | None = None, argument: str = "X", *, order: str = "sorted"
) -> tuple[Category | Number, ...]:
    """Tell numbers from factors in memory, and list the factors' levels that occur.

    Numbers and booleans are numbers unless named in ``categorical``; text is a factor. Numbers are not standardized.

    Parameters
    ----------
    table : pyarrow.Table
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    argument : str
        What the caller calls the table.
    order : {"sorted", "given"}
        Of the levels of a column of a categorical type; "given" is that of the type.

    Examples
    --------
    >>> age, sex = learn_table(pa.table({"age": [1, 2], "sex": ["m", "f"]}))
    >>> age.name, sex.labels
    ('age', ('f', 'm'))
    """
    chosen = check_names(categorical or (), table.column_names, "categorical")
    out: list[Category | Number] = []
    for name in table.column_names:
        values = table[name]
        given = pa.types.is_dictionary(values.type) and order == "given"
        plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
        number = (
            pa.types.is_boolean(plain.type) or pa.types.is_null(plain.type) or not is_categorical(values.type, name)
        )
        if number and name not in chosen and not given:
            out.append(Number(name))
            continue
        present = pc.unique(plain).drop_null()
        if pa.types.is_floating(present.type):
            present = present.filter(pc.invert(pc.is_nan(present)))
        if given:
            every = pa.concat_arrays([chunk.dictionary for chunk in values.chunks]).unique()
            levels = every.filter(pc.is_in(every, value_set=present))
        else:
            levels = present.take(pc.sort_indices(present))
        out.append(Category(name, levels, bool(plain.null_count)))
    return tuple(out)


def read_matrix(
    table: pa.Table,
    columns: Sequence[Category | Number],
    argument: str = "X",
    *,
    missing: str = "error",
    repair: str = "",
) -> FloatArray:
    """Give columns as a matrix, (n, d): plain numbers, the codes of levels, and NaN for missing values where these are allowed.

    Parameters
    ----------
    table : pyarrow.Table
    columns : sequence of Category and Number
    argument : str
        What the caller calls the table.
    missing : {"error", "allow", "new"}
        "allow" wants a value in every column, to learn from; "new" is for people of whom a column may be missing altogether.
    repair : str
        What else to do about missing values; the tail of the message.

    Examples
    --------
    >>> sex = Category("sex", pa.array(["f", "m"]), has_null=False)
    >>> read_matrix(pa.table({"age": [30, 41], "sex": ["m", "f"]}), [Number("age"), sex]).tolist()
    [[30.0, 1.0], [41.0, 0.0]]
    """
    frames.check_columns(table, [c.name for c in columns], argument)
    matrix = np.empty((len(columns), table.num_rows)).T  # one column after the other in memory: they are read so
    for j, c in enumerate(columns):
        if isinstance(c, Number):
            matrix[:, j] = frames.column(table, c.name, argument)
        else:
            codes = read_codes(table, c, argument)
            matrix[:, j] = np.where(codes < 0, np.nan, codes)
    if np.isinf(matrix).any():
        row, j = (int(i) for i in np.argwhere(np.isinf(matrix))[0])
        raise InputError(
            f"{argument} has an infinite value in row {row:,} of {columns[j].name!r}; drop these rows or cap the values."
        )
    gaps = np.isnan(matrix)
    if missing == "error" and gaps.any():
        row, j = (int(i) for i in np.argwhere(gaps)[0])
        raise InputError(
            f"{argument} has {int(gaps.sum()):,} missing value(s) (NaN), the first in row {row:,} of {columns[j].name!r}; drop "
            f"these rows or fill the values in{repair}."
        )
    empty = gaps.all(axis=0)
    if missing != "new" and len(matrix) and empty.any():
        raise InputError(
            f"{argument}: the column {columns[int(np.argmax(empty))].name!r} is missing for everybody; leave it out."
        )
    return matrix


def read_codes(table: pa.Table, column: Category, argument: str = "X") -> npt.NDArray[np.int32]:
    """Give the level of every row, MISSING for none; refuse levels that fit did not see."""
    values = plain_array(table, column.name, argument)
    codes = column.codes(values)
    if (codes == UNKNOWN).any():
        column.refuse(values, codes == UNKNOWN, 0, argument, "recode it, leave these rows out, or fit with them")
    return codes


def warn_outside(
    X: FloatArray | Iterable[FloatArray],
    fitted: FloatArray,
    names: Sequence[str],
    stacklevel: int = 5,
    argument: str = "X",
) -> None:
    """Warn of new rows that lie further outside the values of the fit than half of their range.

    Parameters
    ----------
    X : (n, d), or several such matrices, one below the other
        New rows; NaN where missing.
    fitted : (C, d)
        Rows of the fit.
    names : sequence of str
        Of the columns.
    argument : str
        What the caller calls the new rows.
    """
    low, high = np.fmin.reduce(fitted), np.fmax.reduce(fitted)
    times, n = np.zeros(len(names), dtype=np.int64), 0
    first: dict[int, tuple[int, float]] = {}
    for part in [X] if isinstance(X, np.ndarray) else X:
        beyond = np.maximum(low - part, part - high) > high / 2 - low / 2
        times += beyond.sum(axis=0)
        for j in np.flatnonzero(beyond.any(axis=0)).tolist():
            row = int(np.argmax(beyond[:, j]))
            first.setdefault(j, (n + row, part[row, j]))
        n += len(part)
    for j, (row, value) in sorted(first.items()):
        warnings.warn(
            f"{argument}: {times[j]:,} of {n:,} row(s) have values of {names[j]!r} far outside those of the fit, {low[j]:g} to "
            f"{high[j]:g} (the first is {value:g} in row {row:,}); the answer for them is extrapolated. Check units and codes of "
            "missing values, or leave these rows out.",
            CrosslevelWarning,
            stacklevel=stacklevel,
        )


def sums(index: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Add up the values of equal index, (n,).

    Examples
    --------
    >>> sums(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3)
    array([4., 0., 2.])
    """
    return np.bincount(index, values, n).astype(np.float64)


def equal_rows(X: FloatArray) -> tuple[IntArray, IntArray]:
    """Number the distinct rows in ascending order of their columns, NaN last and equal to NaN.

    Returns
    -------
    row : (n,)
        Number of each row among the distinct ones.
    first : (U,)
        First row of each number, so that ``X[first]`` are the distinct rows.

    Examples
    --------
    >>> row, first = equal_rows(np.array([[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]]))
    >>> row.tolist(), first.tolist()
    ([1, 0, 1], [1, 0])
    """
    row = np.zeros(len(X), dtype=np.int64)
    for j in range(X.shape[1]):
        row = _combine(row, _codes(X[:, j]))
    row, n_cells = _rank(row)
    return row.astype(np.intp), _first(row, n_cells).astype(np.intp)


def _codes(values: FloatArray) -> Int64Array:
    """Number the distinct values of a column in ascending order, missing last."""
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    if max(abs(low), abs(high)) < 2**15:  # not where all are missing
        gaps = np.isnan(values)
        small = (np.where(gaps, high + 1.0, values) if gaps.any() else values) - low
        codes = small.astype(np.int64)
        if (codes == small).all():
            return _rank(codes)[0]
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _combine(key: Int64Array, codes: Int64Array | IntArray) -> Int64Array:
    """Put a further code behind a key, without overflow."""
    n = int(codes.max(initial=0)) + 1
    if int(key.max(initial=0)) >= LARGEST_KEY // n:
        key = _rank(key)[0]  # at most one per person, so that the product of two fits
    return key * n + codes


def _rank(key: Int64Array) -> tuple[Int64Array, int]:
    """Number the distinct keys in ascending order."""
    if int(key.max(initial=0)) < LARGEST_KEY:
        present = np.bincount(key) > 0
        number = np.cumsum(present) - 1
        return number[key], int(present.sum())
    values, codes = np.unique(key, return_inverse=True)
    return codes.astype(np.int64).reshape(-1), len(values)


def _first(codes: Int64Array, n: int) -> Int64Array:
    """Find the first person of each code."""
    first = np.empty(n, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first
