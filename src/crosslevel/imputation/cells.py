"""People counted once for every distinct row, and for every distinct row and group, in memory.

What is done per person is then done per distinct row: with categorical columns a country has a few hundred of them, whatever the number
of its people. The share of every cell in every group ties them to published means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from scipy import sparse

from crosslevel.data.cells import equal_rows, sums
from crosslevel.data.people import People
from crosslevel.data.sql import quoted
from crosslevel.errors import InputError, TooManyKindsError
from crosslevel.typing import FloatArray, IntArray

MOST_KINDS = 4_000_000
"""Distinct rows that are held."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Distinct rows, and distinct pairs of a row and a group.

    Attributes
    ----------
    X : (C, d)
        The distinct rows, in ascending order of their columns; NaN, which equals NaN here, is a missing value.
    row : (n,) int
        Cell of each person.
    pair : (n,) int
        Pair of each person.
    pair_cell : (M,) int
        Cell of each pair; pairs are in ascending order of cell, then of groups.
    pair_group : (M, L) int
        Group of each pair in each of L partitions.
    count : (M,)
        People in each pair.
    weight : (M,)
        Sum of their weights; the count when there are none.
    weight_squared : (M,)
        Sum of their squared weights.
    """

    X: FloatArray
    row: IntArray
    pair: IntArray
    pair_cell: IntArray
    pair_group: IntArray
    count: FloatArray
    weight: FloatArray
    weight_squared: FloatArray

    def _rows_of_people(self) -> dict[str, int]:
        return {"X": len(self.X)}

    def without_people(self) -> Cells:
        """The same counts, without the order of people."""
        nobody = np.empty(0, dtype=np.intp)
        return replace(self, row=nobody, pair=nobody)

    def shares(self, partition: int = 0, n_groups: int | None = None) -> sparse.csr_array:
        """Give W, (P, C): the weighted share of each cell in each group of a partition; rows sum to one.

        Examples
        --------
        >>> cells = gather(np.array([[0.0], [1.0], [1.0]]), np.array([0, 0, 1]))
        >>> cells.shares().toarray()
        array([[0.5, 0.5],
               [0. , 1. ]])
        """
        group = self.pair_group[:, partition]
        n = int(group.max(initial=-1)) + 1 if n_groups is None else n_groups
        total = np.bincount(group, self.weight, n)
        share = self.weight / np.maximum(total[group], 1e-300)
        return sparse.csr_array((share, (group, self.pair_cell)), shape=(n, len(self.X)))

    def sizes(self, partition: int = 0, n_groups: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Count people, and effective people (Σw)² / Σw², in each group of a partition, (P,) each.

        Examples
        --------
        >>> cells = gather(np.zeros((3, 1)), np.array([0, 0, 1]), np.array([1.0, 3.0, 2.0]))
        >>> cells.sizes()
        (array([2., 1.]), array([1.6, 1. ]))
        """
        group = self.pair_group[:, partition]
        n = int(group.max(initial=-1)) + 1 if n_groups is None else n_groups
        people = sums(group, self.count, n)
        total, squares = np.bincount(group, self.weight, n), np.bincount(group, self.weight_squared, n)
        return people, total**2 / np.maximum(squares, 1e-300)


def gather(X: FloatArray, group: IntArray, weight: FloatArray | None = None) -> Cells:
    """Gather equal rows, and equal rows of equal groups.

    Parameters
    ----------
    X : (n, d)
        Numbers and codes; NaN where missing.
    group : (n,) or (n, L) int
        Group of each person in each partition, counted from 0.
    weight : (n,), optional
        Survey weights.

    Examples
    --------
    >>> cells = gather(np.array([[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]]), np.array([0, 0, 1]))
    >>> cells.X.tolist(), cells.row.tolist(), cells.pair_cell.tolist(), cells.pair_group[:, 0].tolist()
    ([[0.0, 2.0], [1.0, 2.0]], [1, 0, 1], [0, 1, 1], [0, 0, 1])
    """
    groups = np.asarray(group, dtype=np.intp).reshape(len(X), -1)
    row, first_of_cell = equal_rows(X)
    pair, first_of_pair = equal_rows(np.column_stack([row, groups]).astype(np.float64))
    n_pairs = len(first_of_pair)
    count = np.bincount(pair, minlength=n_pairs).astype(np.float64)
    w = count if weight is None else sums(pair, weight, n_pairs)
    squares = count if weight is None else sums(pair, weight**2, n_pairs)
    return Cells(
        X=np.ascontiguousarray(X[first_of_cell], dtype=np.float64),
        row=row,
        pair=pair,
        pair_cell=row[first_of_pair],
        pair_group=groups[first_of_pair],
        count=count,
        weight=w,
        weight_squared=squares,
    )


def people_mark(cells: Cells) -> str:
    """Give a text that is the same for the same people in any order, by which a fit knows its own again.

    Examples
    --------
    >>> X, group = np.array([[1.0], [2.0], [2.0]]), np.array([0, 0, 1])
    >>> own = people_mark(gather(X, group))
    >>> own == people_mark(gather(X[::-1], group[::-1])), own == people_mark(gather(X[:2], group[:2]))
    (True, False)
    """
    digest = hashlib.sha256()
    weight = cells.weight.astype(np.float32)  # sums in another order differ in the last digits
    for part in (cells.X, cells.pair_cell, cells.pair_group, cells.count, weight):
        values = np.asarray(part, dtype=np.float64)
        digest.update(repr(values.shape).encode())
        digest.update(np.where(np.isnan(values), np.nan, values + 0.0).tobytes())
    return digest.hexdigest()


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
