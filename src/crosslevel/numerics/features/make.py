"""Draw a feature map by its name, and its bandwidth by the median heuristic: how far apart two people typically are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.features.base import FeatureMap, gaussian_kernel
from crosslevel.numerics.features.maps import (
    DenseFourier,
    FastFood,
    Landmarks,
    Linear,
    Nystrom,
    StructuredOrthogonal,
    draw_fastfood,
    draw_rff,
    draw_sorf,
    whitening,
)
from crosslevel.typing import FloatArray

MAPS: dict[str, type[FeatureMap]] = {
    "sorf": StructuredOrthogonal,
    "fastfood": FastFood,
    "rff": DenseFourier,
    "nystrom": Nystrom,
    "landmarks": Landmarks,
    "linear": Linear,
}
"""Name of a map -> its class."""

_STRUCTURED = {"fastfood": draw_fastfood, "sorf": draw_sorf}


def make_map(
    name: str,
    n_inputs: int,
    n_features: int | None = None,
    bandwidth: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    landmarks: npt.ArrayLike | None = None,
) -> FeatureMap:
    """Draw a feature map.

    Parameters
    ----------
    name : str
        ``sorf``, ``fastfood`` or ``rff`` (Fourier maps of the Gaussian kernel), ``nystrom`` or ``landmarks`` (kernels with
        given points), ``linear``.
    n_inputs : int
        Columns of the rows to be mapped.
    n_features : int, optional
        Length of ``phi(x)``: even for the Fourier maps (cosines, then sines). The landmark maps have one feature per
        landmark and the linear map one per column; there it may be left out.
    bandwidth : float, optional
        b of ``exp(-|x - y|^2 / (2 b^2))``; every map but ``linear`` needs it.
    random_state : int or Generator
        Seed of the draw; the same seed gives the same map.
    landmarks : array (n_features, n_inputs), optional
        The points of ``nystrom`` and ``landmarks``.

    Returns
    -------
    FeatureMap

    Examples
    --------
    >>> fmap = make_map("sorf", n_inputs=3, n_features=2000, bandwidth=1.5)
    >>> fmap
    <sorf map: 3 columns to 2,000 features, bandwidth 1.5>
    >>> x, y = [[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.5]]
    >>> error = fmap.transform(x) @ fmap.transform(y).T - fmap.kernel(x, y)
    >>> bool(abs(error[0, 0]) < 0.05)
    True
    """
    if name not in MAPS:
        raise unknown_name("feature_map", name, list(MAPS), what="feature map")
    d = _positive_int("n_inputs", n_inputs)
    if name == "linear":
        _same_count(name, n_features, d, "column")
        return Linear(name, d, d, float("nan"))
    b = _positive(name, bandwidth)
    rng = np.random.default_rng(random_state)
    if name in ("nystrom", "landmarks"):
        return _from_landmarks(name, d, n_features, b, landmarks)
    total = _positive_int("n_features", n_features)
    if total % 2:
        raise InputError(
            f"n_features={total:,} is odd; the {name} map makes a cosine and a sine of every frequency. "
            f"Pass {total + 1:,} (or {total - 1:,})."
        )
    if name == "rff":
        return DenseFourier(name, d, total, b, W=draw_rff(d, total // 2, rng) / b)
    return MAPS[name](name, d, total, b, **_STRUCTURED[name](d, total // 2, rng))


def _from_landmarks(
    name: str, d: int, n_features: int | None, bandwidth: float, landmarks: npt.ArrayLike | None
) -> FeatureMap:
    if landmarks is None:
        raise InputError(
            f"landmarks is missing; the {name} map needs points: pass landmarks=array (n_features, {d:,})."
        )
    U: FloatArray = np.array(landmarks, dtype=np.float64)
    if U.ndim != 2 or U.shape[1] != d or not len(U):
        raise InputError(f"landmarks has shape {U.shape}; pass one row of n_inputs={d:,} columns per landmark.")
    if not np.isfinite(U).all():
        row = int(np.argmax(~np.isfinite(U).all(axis=1)))
        raise InputError(f"landmarks has a missing or infinite value in row {row}; drop that landmark.")
    _same_count(name, n_features, len(U), "landmark")
    if name == "landmarks":
        return Landmarks(name, d, len(U), bandwidth, U)
    return Nystrom(name, d, len(U), bandwidth, U, whitening(gaussian_kernel(U, U, bandwidth)))


def _same_count(name: str, n_features: int | None, count: int, what: str) -> None:
    if n_features is not None and n_features != count:
        raise InputError(
            f"n_features={n_features!r}, but the {name} map has one feature per {what}, here {count:,}; "
            "leave n_features out."
        )


def _positive_int(argument: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{argument}={value!r} is not a positive whole number; pass at least 1.")
    return int(value)


def _positive(name: str, bandwidth: float | None) -> float:
    if bandwidth is None:
        raise InputError(f"bandwidth is missing; the {name} map needs a number, for example median_bandwidth(X).")
    value = float(bandwidth)
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"bandwidth={bandwidth!r} is not a positive number; median_bandwidth(X) gives a usual one.")
    return value


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
