"""Columns of the members of bags: numbers as they are, text and codes as a column of 0 and 1 per level, missing values.

What was learned of one table is applied to the next, so that bags to predict have the columns of those that were fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.columns import (
    check_names,
    decoded,
    is_categorical,
    plain_array,
)
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import BoolArray, FloatArray

MISSING = ("error", "drop", "indicate")
MOST_LEVELS = 50
"""Levels of a column of text; with more it is a name or a number in disguise."""


@dataclass(frozen=True)
class MemberColumn:
    """One column of people.

    Attributes
    ----------
    name : str
    levels : tuple of str, or None
        Of a category, each a column of 0 and 1; None for numbers.
    fill : float or None
        What stands for a missing number, beside a column that says so; None where none was missing. Of a category, 0 where
        missing values are a level of their own.
    """

    name: str
    levels: tuple[str, ...] | None
    fill: float | None

    @property
    def names(self) -> list[str]:
        """Names of its columns in the bags."""
        own = [self.name] if self.levels is None else [f"{self.name}: {level}" for level in self.levels]
        return own if self.fill is None else [*own, f"{self.name}: missing"]


def learn_members(
    table: pa.Table, names: Sequence[str], categorical: Sequence[str] | None, missing: str
) -> tuple[MemberColumn, ...]:
    """Learn what the columns hold; text and yes/no are categories, other columns where they are named.

    Examples
    --------
    >>> table = pa.table({"age": [30.0, None, 50.0], "sex": ["m", "f", "f"]})
    >>> [c.names for c in learn_members(table, ["age", "sex"], None, "indicate")]
    [['age', 'age: missing'], ['sex: f', 'sex: m']]
    """
    if missing not in MISSING:
        raise unknown_name("missing", missing, list(MISSING), "choice")
    codes = set() if categorical is None else set(check_names(categorical, list(names), "categorical"))
    found = []
    for name in names:
        values = plain_array(table, name, "columns")
        if name in codes or is_categorical(values.type, name):
            text = _texts(values)
            levels = tuple(sorted({level for level in text if level is not None}))
            if len(levels) > MOST_LEVELS:
                raise InputError(
                    f"column {name!r} has {len(levels):,} different values of text ({listed(levels)}), and at most {MOST_LEVELS} make "
                    "columns; leave it out of columns, gather its levels, or make it numbers."
                )
            found.append(MemberColumn(name, levels, 0.0 if missing == "indicate" and None in text else None))
        else:
            x = frames.column(table, name, "columns")
            gap = np.isnan(x)
            fill = float(x[~gap].mean()) if missing == "indicate" and gap.any() and not gap.all() else None
            found.append(MemberColumn(name, None, fill))
    return tuple(found)


def encode_members(table: pa.Table, learned: Sequence[MemberColumn], missing: str) -> tuple[FloatArray, BoolArray]:
    """Make the columns of the bags, (n, P), and tell which rows are complete, (n,).

    Examples
    --------
    >>> table = pa.table({"age": [30.0, None, 50.0], "sex": ["m", "f", "f"]})
    >>> encode_members(table, learn_members(table, ["age", "sex"], None, "indicate"), "indicate")[0].tolist()
    [[30.0, 0.0, 0.0, 1.0], [40.0, 1.0, 1.0, 0.0], [50.0, 0.0, 1.0, 0.0]]
    """
    parts: list[FloatArray] = []
    whole = np.ones(table.num_rows, dtype=bool)
    for column in learned:
        values = plain_array(table, column.name, "columns")
        if column.levels is None:
            if is_categorical(values.type, column.name) and not pa.types.is_boolean(decoded(values).type):
                raise InputError(
                    f"column {column.name!r} holds categories here and held numbers before; convert it to numbers."
                )
            x = frames.column(table, column.name, "columns")
            gap, made = np.isnan(x), [x]
        else:
            text = np.array(_texts(values), dtype=object)
            gap = np.array([v is None for v in text], dtype=bool)
            strange = sorted(set(text[~gap].tolist()) - set(column.levels))
            if strange:
                raise InputError(
                    f"column {column.name!r} has {strange[0]!r}, which the bags it is encoded like do not (levels: "
                    f"{listed(column.levels, 12)}); drop these people, or gather levels before both."
                )
            made = [(text == level).astype(np.float64) for level in column.levels]
        if column.fill is not None:
            made = [np.where(gap, column.fill, x) for x in made] + [gap.astype(np.float64)]
        elif gap.any() and missing != "drop":
            first = int(np.argmax(gap))
            why = "which those it is encoded like did not have" if missing == "indicate" else "and missing='error'"
            raise InputError(
                f"column {column.name!r} has {int(gap.sum()):,} missing value(s), the first in row {first:,}, {why}; pass missing='drop' "
                "to leave these people out, or missing='indicate' to put the mean in their place with a column that says so."
            )
        else:
            whole &= ~gap
        parts += made
    return np.column_stack(parts), whole


def _texts(values: pa.Array) -> list[str | None]:
    """Write the values of a category as text, missing as None."""
    plain = decoded(values)
    if pa.types.is_floating(plain.type):
        plain = pc.if_else(pc.is_nan(plain), None, plain)
    out = []
    for value in plain.to_pylist():
        whole = isinstance(value, float) and value.is_integer()
        out.append(None if value is None else str(int(value)) if whole else str(value))
    return out
