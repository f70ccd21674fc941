"""What is known of each person, as numbers: columns of numbers stay, text and categories become codes of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["Column", "encode", "learn_columns"]


@dataclass(frozen=True)
class Column:
    """One column of X.

    Attributes
    ----------
    name : str
    levels : tuple or None
        Levels of a factor, whose codes are their positions; None for numbers.
    """

    name: str
    levels: tuple[Any, ...] | None = None

    @property
    def factor(self) -> bool:
        """Whether the column is a factor, without order."""
        return self.levels is not None


def learn_columns(table: pa.Table, categorical: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Tell numbers from factors, and list the factors' levels in sorted order.

    Examples
    --------
    >>> learn_columns(pa.table({"age": [1, 2], "sex": ["m", "f"]}))
    (Column(name='age', levels=None), Column(name='sex', levels=('f', 'm')))
    """
    chosen = [] if categorical is None else [categorical] if isinstance(categorical, str) else list(categorical)
    for name in chosen:
        if name not in table.column_names:
            raise unknown_name("categorical", name, table.column_names)
    out = []
    for name in table.column_names:
        values = _plain(table[name])
        if name not in chosen and _is_number(values.type):
            out.append(Column(name))
            continue
        if pa.types.is_nested(values.type):
            raise InputError(f"X: the column {name!r} holds {values.type}; pass numbers or text.")
        levels = sorted(v for v in pc.unique(values).to_pylist() if v is not None and v == v)
        out.append(Column(name, tuple(levels)))
    return tuple(out)


def encode(table: pa.Table, columns: Sequence[Column], *, allow_missing: bool = False) -> FloatArray:
    """Give the columns as a matrix, (n, d), with NaN for missing values where these are allowed.

    Examples
    --------
    >>> encode(pa.table({"sex": ["m", "f"]}), [Column("sex", ("f", "m"))]).tolist()
    [[1.0], [0.0]]
    """
    frames.check_columns(table, [c.name for c in columns], "X")
    matrix = np.empty((len(columns), table.num_rows)).T  # one column after the other in memory: they are read so
    for j, c in enumerate(columns):
        matrix[:, j] = frames.column(table, c.name, "X") if c.levels is None else _codes(_plain(table[c.name]), c)
    if np.isfinite(matrix).all():
        return matrix
    if np.isinf(matrix).any():
        row, j = (int(i) for i in np.argwhere(np.isinf(matrix))[0])
        raise InputError(
            f"X has an infinite value in row {row:,} of {columns[j].name!r}; drop these rows or cap the values."
        )
    gaps = np.isnan(matrix)
    row, j = (int(i) for i in np.argwhere(gaps)[0])
    if not allow_missing:
        raise InputError(
            f"X has {int(gaps.sum()):,} missing value(s) (NaN), the first in row {row:,} of {columns[j].name!r}; drop these "
            "people, fill the values in, or use a method that allows them (missing='mean')."
        )
    empty = gaps.all(axis=0)
    if empty.any():
        raise InputError(
            f"X: the column {columns[int(np.argmax(empty))].name!r} is missing for everybody; leave it out."
        )
    return matrix


def _codes(values: pa.ChunkedArray, column: Column) -> FloatArray:
    known = pa.array(list(column.levels or ()))
    try:
        found = pc.index_in(values.cast(known.type), value_set=known, skip_nulls=True)
    except pa.ArrowException as error:
        raise InputError(
            f"X: the column {column.name!r} holds {values.type}, the fit had {known.type}; pass the same."
        ) from error
    codes = np.asarray(pc.fill_null(found.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)
    strange = np.isnan(codes) & ~values.is_null(nan_is_null=True).to_numpy()
    if strange.any():
        row = int(np.argmax(strange))
        raise InputError(
            f"X: the column {column.name!r} is {values[row].as_py()!r} in row {row:,}, a level the fit did not have; its levels "
            f"are {listed(column.levels or (), 12)}. Recode it or fit with it."
        )
    return codes


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )
