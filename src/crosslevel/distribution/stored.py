"""Bags whose people stay where they are: a memory map or a float32 array that is read block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.data import checks
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["StoredBags"]


class StoredBags:
    """Bags of people who are not copied: a memory-mapped file, or float32 in memory.

    `crosslevel.Bags` holds its people as float64 of its own. Where these would not fit, this holds a reference, and the
    estimators read a block at a time; values are checked as they pass.

    Parameters
    ----------
    values : (n_people, n_columns) array of floats
        Of any precision, such as ``numpy.load(path, mmap_mode="r")``.
    offsets : (n_bags + 1,) integers
        Bag ``i`` holds the rows ``offsets[i]:offsets[i + 1]``.
    weights : (n_people,) array, optional
        Survey weights; all ones when not given.
    keys : sequence, optional
        One name per bag.

    Examples
    --------
    >>> bags = StoredBags(np.zeros((3, 2), dtype=np.float32), offsets=[0, 2, 3])
    >>> bags.shape, bags.sizes.tolist()
    ((2, 2), [2, 1])
    >>> bags[[1]].sizes.tolist()
    [1]
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        offsets: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        keys: Sequence[object] | npt.NDArray[Any] | None = None,
    ) -> None:
        if getattr(values, "ndim", 0) != 2 or values.dtype.kind != "f":
            raise InputError("values is not a 2-D array of floats; pass people x columns, for others use Bags.")
        bounds = np.asarray(offsets)
        if bounds.ndim != 1 or len(bounds) < 2 or bounds.dtype.kind not in "iu" or bounds[0] != 0:
            raise InputError("offsets must be whole numbers that begin with 0 and end with the number of people.")
        if bounds[-1] != len(values) or (np.diff(bounds) <= 0).any():
            raise InputError(
                f"offsets end with {bounds[-1]:,} for {len(values):,} people or leave a bag empty; they must increase and end "
                "with the number of people."
            )
        self.values = values
        self.offsets = bounds.astype(np.int64)
        self.weights = (
            np.ones(len(values)) if weights is None else checks.check_weights(weights, "weights", len(values))
        )
        totals = np.add.reduceat(self.weights, self.offsets[:-1])
        if not (totals > 0).all():
            raise InputError(f"weights are all zero in bag {int(np.argmin(totals > 0))}; drop this bag.")
        self.keys = np.arange(len(self)) if keys is None else np.asarray(keys)
        if len(self.keys) != len(self):
            raise InputError(f"keys has {len(self.keys):,} names for {len(self):,} bags; name each bag once.")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags, number of columns."""
        return len(self), int(self.values.shape[1])

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of people in each bag."""
        return np.diff(self.offsets)

    @property
    def effective_sizes(self) -> FloatArray:
        """Kish's effective number of people in each bag."""
        starts = self.offsets[:-1]
        w = self.weights / np.repeat(np.maximum.reduceat(self.weights, starts), self.sizes)  # w^2 may overflow
        return np.asarray(np.add.reduceat(w, starts) ** 2 / np.add.reduceat(w**2, starts))

    def __getitem__(self, index: Any) -> StoredBags:
        """Give some of the bags, in any order; their people are then read row by row through an index."""
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            chosen = chosen.reshape(-1)
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        out = object.__new__(StoredBags)
        source = self.values
        out.values = _Rows(source.source, source.rows[rows]) if isinstance(source, _Rows) else _Rows(source, rows)  # type: ignore[assignment]
        out.offsets, out.weights, out.keys = offsets, self.weights[rows], self.keys[chosen]
        return out

    def __repr__(self) -> str:
        n, d = self.shape
        return f"StoredBags({n:,} bags, {len(self.weights):,} people, {d} columns; fit an estimator on them)"


class _Rows:
    """Some rows of an array, gathered only when a slice of them is read."""

    def __init__(self, source: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> None:
        self.source, self.rows = source, rows
        self.shape = (len(rows), source.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        return np.asarray(self.source[self.rows[index]])
