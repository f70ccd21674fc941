"""What every feature map is: a frozen bundle of arrays with ``transform`` and ``kernel``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.typing import AnyIntArray, FloatArray

BLOCK = 1024
"""Columns whose frequencies are written out at a time."""


def gaussian_kernel(X: npt.ArrayLike, Y: npt.ArrayLike, bandwidth: float) -> FloatArray:
    """Compute ``exp(-|x - y|^2 / (2 b^2))`` for every pair of rows.

    Examples
    --------
    >>> gaussian_kernel([[0.0], [1.0]], [[1.0]], bandwidth=1.0).round(4)
    array([[0.6065],
           [1.    ]])
    """
    A, B = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    square = (A**2).sum(1)[:, None] + (B**2).sum(1)[None, :] - 2.0 * (A @ B.T)
    return np.exp(np.maximum(square, 0.0) / (-2.0 * bandwidth**2))


def check_piece(
    codes: AnyIntArray,
    reals: npt.NDArray[np.floating[Any]],
    weights: FloatArray,
    bags: AnyIntArray,
    n_inputs: int,
    n_bags: int | None = None,
) -> None:
    """Refuse encoded rows that would read or write outside an array, or poison a sum: the kernels check nothing."""
    n = len(weights)
    for argument, array, ndim in (("codes", codes, 2), ("reals", reals, 2), ("bags", bags, 2), ("weights", weights, 1)):
        if array.ndim != ndim or len(array) != n:
            raise InputError(
                f"{argument} has shape {array.shape}; pass {ndim} dimension(s) and {n:,} rows, as many as weights."
            )
    for argument, positions, limit in (("codes", codes, n_inputs), ("bags", bags, n_bags)):
        low, high = int(positions.min(initial=-1)), int(positions.max(initial=-1))
        if low < -1 or (limit is not None and high >= limit):
            end = "" if limit is None else f" to {limit - 1:,}"
            raise InputError(f"{argument} runs from {low:,} to {high:,}, outside -1 (none){end}; check the offsets.")
    for argument, values in (("reals", reals), ("weights", weights)):
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise InputError(
                f"{argument} has a missing or infinite value, first in row {row:,} of the piece; fill it before embedding."
            )


@dataclass(frozen=True, eq=False)
class FeatureMap(ABC):
    """A map from ``n_inputs`` columns to ``n_features`` features.

    Attributes
    ----------
    name : str
        One of ``features.MAPS``.
    n_inputs : int
        Columns of ``X``, called d.
    n_features : int
        Length of ``phi(x)``.
    bandwidth : float
        b of the Gaussian kernel (nan for the linear map).
    """

    name: str
    n_inputs: int
    n_features: int
    bandwidth: float

    @abstractmethod
    def _features(self, X: FloatArray) -> FloatArray:
        """Apply the map to checked rows."""

    def transform(self, X: npt.ArrayLike) -> FloatArray:
        """Apply the map row by row: ``(n, n_inputs)`` to ``(n, n_features)``, float64."""
        return self._features(self._rows(X, "X"))

    def kernel(self, X: npt.ArrayLike, Y: npt.ArrayLike) -> FloatArray:
        """Compute the kernel that ``phi(x) @ phi(y)`` approximates, ``(len(X), len(Y))``."""
        return gaussian_kernel(self._rows(X, "X"), self._rows(Y, "Y"), self.bandwidth)

    def finish(self, raw: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Apply the constant linear part of the map to means of raw features, (n, n_features); ``out`` may be ``raw``.

        Kernels sum raw features (cosines and sines, kernel values); whitening and scaling commute with sums, so
        they are done once, after all sums are merged.
        """
        if out is None:
            return raw.copy()
        out[...] = raw
        return out

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give everything the map is made of, as arrays by name."""
        return {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}

    def _rows(self, X: npt.ArrayLike, argument: str) -> FloatArray:
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_inputs:
            raise InputError(
                f"{argument} has shape {rows.shape}; the {self.name} map takes rows of {self.n_inputs:,} columns."
            )
        return rows

    def __repr__(self) -> str:
        return f"<{self.name} map: {self.n_inputs:,} columns to {self.n_features:,} features, bandwidth {self.bandwidth:g}>"


@dataclass(frozen=True, eq=False, repr=False)
class FourierMap(FeatureMap):
    """A map ``phi(x) = sqrt(1/m) [cos Wx, sin Wx]`` with m = n_features / 2 frequencies, the rows of W (m, d)."""

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies m; each gives a cosine and a sine."""
        return self.n_features // 2

    def finish(self, raw: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Divide cosines and sines by the root of the number of frequencies."""
        return np.divide(raw, np.sqrt(self.n_frequencies), out=out)

    @abstractmethod
    def project(self, X: FloatArray) -> FloatArray:
        """Multiply rows by the frequencies: ``X @ W.T``, (n, m)."""

    def frequencies(self) -> FloatArray:
        """Write out the matrix W, (m, n_inputs)."""
        d = self.n_inputs
        units = (np.eye(min(BLOCK, d - first), d, first) for first in range(0, d, BLOCK))
        return np.concatenate([self.project(some).T for some in units], axis=1)

    def _features(self, X: FloatArray) -> FloatArray:
        angles = self.project(X)
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(self.n_frequencies)
