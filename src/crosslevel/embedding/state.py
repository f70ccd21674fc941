"""The state of a pass: sums per bag that merge by addition.

Per bag: number of rows, sum of w, sum of w^2, sum of w phi. Two states over disjoint people add up to the state over
all of them; that is all an engine has to know.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

BLOCK = 1024
"""Bags per block of sums, at most: the state grows by blocks and never copies what it holds."""
BLOCK_BYTES = 1 << 25
"""Size of a block of wide sums; only what is touched of it takes memory."""


_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""How to ask for private pages; shared ones, the default, would not be huge. Windows has neither."""


def _lazy_zeros(rows: int, columns: int) -> FloatArray:
    """Give zeros that take memory when first touched, in huge pages where the system has them.

    Sums over thousands of bags are touched once or twice each: with ordinary pages the faults would cost more than the
    additions.
    """
    pages = mmap.mmap(-1, rows * columns * 8, **_PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=np.float64).reshape(rows, columns)


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """What a chunk adds.

    Attributes
    ----------
    rows : int
        Rows of the chunk.
    keys : list of tuple
        Key of each bag touched: the values of ``by``, then the subgroup.
    count : (n_bags,) int64
    weight, weight_squared : (n_bags,)
    sums : (n_bags, n_features)
        Sums of w times the raw features.
    """

    rows: int
    keys: list[tuple[Any, ...]]
    count: npt.NDArray[np.int64]
    weight: FloatArray
    weight_squared: FloatArray
    sums: FloatArray


class BagSums:
    """Sums per bag, added to chunk by chunk and mergeable.

    Parameters
    ----------
    n_features : int
    names : sequence of str
        Names of the key columns.
    subgroups : sequence of str
        Names of the subgroups in their order, where the last key column is the subgroup; empty otherwise.

    Examples
    --------
    >>> one = ChunkSums(2, [("a",)], np.array([2]), np.array([3.0]), np.array([5.0]), np.array([[6.0]]))
    >>> state, other = BagSums(1, ["region"]), BagSums(1, ["region"])
    >>> state.add(one)
    >>> other.add(one)
    >>> state.merge(other)
    >>> state.weight
    array([6.])
    """

    def __init__(self, n_features: int, names: Iterable[str], subgroups: Iterable[str] = ()) -> None:
        self.n_features = n_features
        self.names = tuple(names)
        self.subgroups = tuple(subgroups)
        self._index: dict[tuple[Any, ...], int] = {}
        self._block_rows = min(BLOCK, max(1, BLOCK_BYTES // (8 * n_features)))
        self._blocks: list[FloatArray] = []
        self._small = np.zeros((3, 0))

    def __len__(self) -> int:
        return len(self._index)

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        """Key of each bag, in order of appearance."""
        return list(self._index)

    @property
    def count(self) -> npt.NDArray[np.int64]:
        """Rows of each bag."""
        return self._small[0, : len(self)].astype(np.int64)

    @property
    def weight(self) -> FloatArray:
        """Sum of w of each bag."""
        return self._small[1, : len(self)]

    @property
    def weight_squared(self) -> FloatArray:
        """Sum of w^2 of each bag."""
        return self._small[2, : len(self)]

    def add(self, chunk: ChunkSums) -> None:
        """Add a chunk's sums, in place."""
        for j, key in enumerate(chunk.keys):
            i = self._place(key)
            self._small[:, i] += (chunk.count[j], chunk.weight[j], chunk.weight_squared[j])
            self.row(i)[:] += chunk.sums[j]

    def merge(self, other: BagSums) -> None:
        """Add a state over other people, in place."""
        for j, key in enumerate(other.keys):
            i = self._place(key)
            self._small[:, i] += other._small[:, j]
            self.row(i)[:] += other.row(j)

    def row(self, i: int) -> FloatArray:
        """Give the sums of bag ``i``, to be changed in place."""
        return self._blocks[i // self._block_rows][i % self._block_rows]

    def sums(self) -> FloatArray:
        """Gather the sums, (n_bags, n_features)."""
        if not self._blocks:
            return np.zeros((0, self.n_features))
        last = len(self) - (len(self._blocks) - 1) * self._block_rows
        return np.concatenate([*self._blocks[:-1], self._blocks[-1][:last]])

    def _place(self, key: tuple[Any, ...]) -> int:
        i = self._index.setdefault(key, len(self._index))
        if i == len(self._blocks) * self._block_rows:
            self._blocks.append(_lazy_zeros(self._block_rows, self.n_features))
            self._small = np.concatenate([self._small, np.zeros((3, self._block_rows))], axis=1)
        return i

    def key_table(self) -> pa.Table:
        """Lay the keys out as a table, in order of appearance."""
        columns = zip(*self.keys, strict=True) if self.keys else ([] for _ in self.names)
        return pa.table({n: pa.array(list(c)) for n, c in zip(self.names, columns, strict=True)})

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give everything but the keys as arrays, for a checkpoint."""
        return {"small": self._small[:, : len(self)], "sums": self.sums()}

    @classmethod
    def from_arrays(
        cls,
        keys: list[tuple[Any, ...]],
        names: Iterable[str],
        arrays: Mapping[str, Any],
        subgroups: Iterable[str] = (),
    ) -> BagSums:
        """Bring a state back from its keys and arrays."""
        small, sums = np.asarray(arrays["small"]), np.asarray(arrays["sums"])
        if small.shape != (3, len(keys)) or sums.ndim != 2 or len(sums) != len(keys) or len(set(keys)) < len(keys):
            raise InputError(f"arrays of shapes {small.shape} and {sums.shape} do not hold {len(keys):,} bags.")
        state = cls(int(sums.shape[1]), names, subgroups)
        for j, key in enumerate(keys):
            i = state._place(key)
            state._small[:, i] = small[:, j]
            state.row(i)[:] = sums[j]
        return state
