"""People counted by equal rows, as they are written.

What needs no order of people (a fit to cells) can be given these rows in their place. People are counted by place and binned columns in
:mod:`crosslevel.data.place_cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from crosslevel.data.people import People
from crosslevel.data.sql import quoted
from crosslevel.errors import InputError, TooManyKindsError
from crosslevel.typing import FloatArray

MOST_KINDS = 4_000_000
"""Distinct rows that are held."""


@dataclass(frozen=True, eq=False)
class Kinds:
    """Distinct rows of people, in order.

    Attributes
    ----------
    table : pyarrow.Table
    count, weight, weight_squared : (n,)
        People of each row, and the sums of their weights and squared weights.
    """

    table: pa.Table
    count: FloatArray
    weight: FloatArray
    weight_squared: FloatArray


def count_kinds(people: People, columns: Sequence[str]) -> Kinds:
    """Count equal people; weight 0 counts for nothing.

    Examples
    --------
    >>> people = People({"sex": ["f", "m", "f"], "age": [30, 40, 30], "w": [1.0, 2.0, 3.0]}, weight="w")
    >>> found = count_kinds(people, ["sex", "age"])
    >>> found.table.to_pydict(), found.count.tolist(), found.weight.tolist()
    ({'sex': ['f', 'm'], 'age': [30, 40]}, [2.0, 1.0], [4.0, 2.0])
    """
    w, names = people.weight_sql, ", ".join(quoted(name) for name in columns)
    numbers = ", ".join(str(i + 1) for i in range(len(columns)))
    found = people.answer(
        f"select {names}, cast(count(*) as double) as n, sum({w}) as w, sum({w} * {w}) as s from people where {w} > 0 "
        f"group by {numbers} order by {numbers} limit {MOST_KINDS + 1}"
    )
    if found.num_rows > MOST_KINDS:
        raise TooManyKindsError(
            f"people have more than {MOST_KINDS:,} distinct rows of {list(columns)}, and no more are held in memory; name fewer columns, "
            "or round those of numbers."
        )
    if not found.num_rows:
        raise InputError(
            f"people has no rows of positive weight ({people.describe()}); check the file and the where filter."
        )
    k = len(columns)
    count, weight, squared = (found.column(k + i).to_numpy() for i in range(3))
    return Kinds(found.select(range(k)), count, weight, squared)
