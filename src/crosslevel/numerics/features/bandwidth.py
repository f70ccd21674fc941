"""The median heuristic: how far apart two people typically are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["median_bandwidth"]


def median_bandwidth(
    X: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    n_sample: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Find the weighted median distance between two different rows.

    Parameters
    ----------
    X : array (n, d)
        The rows, already scaled as the feature map will see them.
    weights : array (n,), optional
        A pair (i, j) counts ``w_i w_j`` times; default all equal.
    n_sample : int
        Above this many rows a seeded sample is used: rows drawn with probabilities proportional to the weights, with
        replacement, pairs of a row with itself left out. Up to it, the answer is exact.
    random_state : int or Generator
        Seed of the sample.

    Returns
    -------
    float
        The median; if more than half of the pairs coincide, the median of those that do not (the bandwidth must be
        positive).

    Examples
    --------
    >>> median_bandwidth([[0.0], [1.0], [3.0]])
    2.0
    >>> median_bandwidth([[0.0], [1.0], [3.0]], weights=[10, 10, 1])
    1.0
    """
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] < 1:
        raise InputError(f"X has shape {rows.shape}; a bandwidth needs at least two rows of at least one column.")
    if not np.isfinite(rows).all():
        bad = int(np.argmax(~np.isfinite(rows).all(axis=1)))
        raise InputError(f"X has a missing or infinite value, first in row {bad}; drop or fill that row.")
    w = _weights(weights, len(rows))
    if n_sample < 2:
        raise InputError(f"n_sample={n_sample!r} is too small; a distance needs at least 2 rows.")
    picked = np.flatnonzero(w)
    if len(picked) > n_sample:
        rng = np.random.default_rng(random_state)
        picked = np.sort(rng.choice(len(rows), size=n_sample, p=w / w.sum()))
        w = np.ones(len(rows))
    first, second = np.triu_indices(len(picked), k=1)
    different = picked[first] != picked[second]
    first, second = first[different], second[different]
    distances = _distances(rows[picked], first, second)
    positive = distances > 0
    if not positive.any():
        raise InputError(
            f"X: all {len(picked):,} rows with positive weight coincide, so the median distance is 0; "
            "pass a bandwidth or columns that vary."
        )
    pair_weights = w[picked[first]] * w[picked[second]]
    median = _weighted_median(distances, pair_weights)
    return median if median > 0 else _weighted_median(distances[positive], pair_weights[positive])


def _weights(weights: npt.ArrayLike | None, n: int) -> FloatArray:
    if weights is None:
        return np.ones(n)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.any():
        raise InputError(
            f"weights must be {n:,} finite numbers >= 0, not all zero (one per row of X); got shape {w.shape}."
        )
    return w


def _distances(rows: FloatArray, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]) -> FloatArray:
    """Distances of the pairs; those far below the rounding error of the squares are exactly 0."""
    centered = rows - rows.mean(axis=0)
    square = (centered**2).sum(axis=1)
    gram = centered @ centered.T
    d2 = square[first] + square[second] - 2.0 * gram[first, second]
    return np.sqrt(np.where(d2 > 1e-12 * (square[first] + square[second]), d2, 0.0))


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Smallest value with at least half of the weight at or below it; the midpoint if exactly half."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    half = below[-1] / 2
    i = int(np.searchsorted(below, half))
    low = values[order[i]]
    return float((low + values[order[i + 1]]) / 2 if below[i] == half and i + 1 < len(values) else low)
