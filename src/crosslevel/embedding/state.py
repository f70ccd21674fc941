"""The state of a pass: sums per bag, that add up.

Per bag: number of rows, sum of w, sum of w^2, sum of w phi. Two states over disjoint people add up to the state over
all of them; that is all an engine has to know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

Key = tuple[Any, ...]
"""The values of ``by``, then the subgroup where there are any."""
SMALL = 3
"""Numbers of a bag before its features: rows, sum of w, sum of w^2."""


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """What a chunk adds.

    Attributes
    ----------
    rows : int
        Rows of the chunk.
    keys : list of tuple
        Key of each bag touched.
    count : (n_bags,) int64
    weight, weight_squared : (n_bags,)
    sums : (n_bags, n_features)
        Sums of w times the raw features.
    """

    rows: int
    keys: list[Key]
    count: npt.NDArray[np.int64]
    weight: FloatArray
    weight_squared: FloatArray
    sums: FloatArray


@dataclass(eq=False)
class BagSums:
    """Sums per bag.

    Attributes
    ----------
    names : tuple of str
        Names of the key columns.
    parts : tuple of str
        Names of the subgroups in their order, where the last key column is the subgroup; empty otherwise.
    bags : dict of key to (3 + n_features,)
        Rows, sum of w, sum of w^2, sums of w times the raw features.

    Examples
    --------
    >>> one = ChunkSums(2, [("a",)], np.array([2]), np.array([3.0]), np.array([5.0]), np.array([[6.0]]))
    >>> state, other = BagSums(("region",)), BagSums(("region",))
    >>> state.add(one)
    >>> other.add(one)
    >>> state.merge(other)
    >>> state.bags
    {('a',): array([ 4.,  6., 10., 12.])}
    """

    names: tuple[str, ...]
    parts: tuple[str, ...] = ()
    bags: dict[Key, FloatArray] = field(default_factory=dict)

    def add(self, chunk: ChunkSums) -> None:
        """Add a chunk's sums, in place."""
        small = np.column_stack([chunk.count, chunk.weight, chunk.weight_squared])
        for key, few, sums in zip(chunk.keys, small, chunk.sums, strict=True):
            bag = self.bags.get(key)
            if bag is None:
                self.bags[key] = np.concatenate([few, sums])
            else:
                bag[:SMALL] += few
                bag[SMALL:] += sums

    def merge(self, other: BagSums) -> None:
        """Add a state over other people, in place; it takes over what it has not."""
        for key, sums in other.bags.items():
            if key in self.bags:
                self.bags[key] += sums
            else:
                self.bags[key] = sums

    def small(self) -> FloatArray:
        """Gather rows, sum of w and sum of w^2 of the bags, (3, n_bags)."""
        return np.array([bag[:SMALL] for bag in self.bags.values()]).reshape(-1, SMALL).T

    def key_table(self) -> pa.Table:
        """Lay the keys out as a table, in order of appearance."""
        columns = zip(*self.bags, strict=True) if self.bags else ([] for _ in self.names)
        return pa.table({n: pa.array(list(c)) for n, c in zip(self.names, columns, strict=True)})

    def restore(self, keys: pa.Table, sums: FloatArray) -> None:
        """Take in what was written: keys, and a row of numbers for each."""
        found = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        if len(found) != len(sums) or len(set(found)) < len(found):
            raise InputError(f"an array of shape {sums.shape} does not hold the sums of {len(found):,} bags.")
        self.bags = dict(zip(found, sums, strict=True))
