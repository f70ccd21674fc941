"""Columns of a table in memory: numbers told from factors, and a matrix made of them.

``learn_table(table, categorical)`` says what each column is; ``read_matrix(table, columns)`` gives plain numbers and level codes, NaN where
missing; ``read_codes(table, column)`` the codes of one factor. Used by the imputers and KRLS; people of a stream are learned in
:mod:`crosslevel.data.learning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
    first_row,
    is_categorical,
    plain_array,
    refuse_stray_text,
)
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["learn_table", "read_codes", "read_matrix"]


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
        "given" makes every column of a categorical type a factor, with levels in the order of the type.

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
        number = pa.types.is_boolean(plain.type) or pa.types.is_null(plain.type) or not is_categorical(plain.type, name)
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
        if name not in chosen and not given:
            refuse_stray_text(name, levels.to_pylist(), table.num_rows, partial(first_row, [table], name))
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
    missing : {"error", "allow"}
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
    if len(matrix) and empty.any():
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
