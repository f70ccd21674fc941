"""People by cluster, such as the household, gathered over a stream at a bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.sketch import Hashes
from crosslevel.errors import InputError
from crosslevel.typing import BoolArray, FloatArray, Int64Array

MOST_PEOPLE = 8_000_000
"""People held: 256 MB. Beyond them clusters are left out by their hash, half of those left at a time."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """People by cluster, such as the household: those of one cluster are neighbors.

    Attributes
    ----------
    place, cell : (n,) int
    cluster : (n,) int
        Number of each person's cluster; none stands in two places.
    weight : (n,)
    kept : float
        Share of the clusters that are here; the others were left out by chance, to save memory.
    """

    place: Int64Array
    cell: npt.NDArray[np.int32]
    cluster: Int64Array
    weight: FloatArray
    kept: float = 1.0


class ClusterRecords:
    """The place, kind, cluster and weight of every person, whatever the order of rows.

    Parameters
    ----------
    column : str
        Column that names the cluster. A person without one is a cluster of one; people of one cluster who live in two places are two.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.hash_rows = Hashes({column: True}, 0)
        self.parts: list[tuple[Int64Array, Int64Array, np.ndarray[tuple[int], np.dtype[np.uint64]], FloatArray]] = []
        self.limit = np.uint64(2**64 - 1)
        self.kept, self.held, self.named = 1.0, 0, False

    def add(self, batch: pa.RecordBatch, row: int, place: Int64Array, cell: Int64Array, weight: FloatArray) -> None:
        """Take in the people of a batch; those of weight 0 or of no place count for nothing."""
        values = batch.column(self.column)
        number = self.hash_rows(batch.select([self.column]))
        alone = pa.compute.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)
        self.named = self.named or not alone.all()
        if alone.any():
            rows = pa.record_batch({self.column: np.arange(row, row + len(number))[alone]})
            # of rows, which are no clusters: another seed
            number[alone] = Hashes({self.column: True}, 1)(rows)
        self._keep((place >= 0) & (weight > 0) & (number <= self.limit), place, cell, number, weight)
        while self.held > MOST_PEOPLE:
            self._halve()

    def _keep(self, kept: BoolArray, *columns: np.ndarray) -> None:
        self.parts.append(tuple(c[kept] for c in columns))  # type: ignore[arg-type]
        self.held += len(self.parts[-1][0])

    def _halve(self) -> None:
        """Leave out the half of clusters of larger hash."""
        self.limit >>= np.uint64(1)
        self.kept *= 0.5
        before, self.parts, self.held = self.parts, [], 0
        for part in before:
            self._keep(part[2] <= self.limit, *part)

    def merge(self, other: ClusterRecords) -> None:
        """Take in the people of another, of other people."""
        self.named = self.named or other.named
        while self.limit > other.limit:
            self._halve()
        for part in other.parts:
            self._keep(part[2] <= self.limit, *part)
        while self.held > MOST_PEOPLE:
            self._halve()

    def finish(self, cells: Int64Array) -> Clusters:
        """Put people of one place and cluster side by side; ``cells`` are the kinds of people in their final order."""
        if not self.named:
            raise InputError(
                f"cluster={self.column!r} is missing for everybody; name the column of households, or leave it out."
            )
        place, cell, number, weight = (np.concatenate(c) for c in zip(*self.parts, strict=True))
        order = np.lexsort((number, place))
        place, number = place[order], number[order]
        new = np.append(False, (place[1:] != place[:-1]) | (number[1:] != number[:-1]))
        dense = np.searchsorted(cells, cell[order]).astype(np.int32)
        return Clusters(place, dense, np.cumsum(new), weight[order], self.kept)
