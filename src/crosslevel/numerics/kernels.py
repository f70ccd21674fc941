"""Stationary kernels over places, and the distances they take."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["EARTH_RADIUS_KM", "SMOOTHNESS", "distances", "matern", "points_of"]


EARTH_RADIUS_KM = 6371.0088
SMOOTHNESS = ("matern12", "matern32", "matern52")
METRICS = ("sphere", "plane")


def distances(A: npt.ArrayLike, B: npt.ArrayLike, metric: str = "sphere") -> FloatArray:
    """Measure how far the places of A lie from those of B.

    Parameters
    ----------
    A, B : (n, 2) and (m, 2)
        Longitude and latitude in degrees for "sphere", any two coordinates for "plane".
    metric : {"sphere", "plane"}
        "sphere" gives kilometers along the chord through the earth: 2 R sin(arc / 2R), within 1 % of the great circle up to
        3,000 km. A Matern kernel of the arc itself is no kernel (it can have negative eigenvalues), of the chord it is.

    Examples
    --------
    >>> distances([[0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]).round(1)
    array([[111.2,   0. ]])
    """
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS, "metric")
    a, b = (np.asarray(x, dtype=np.float64) for x in (A, B))
    for argument, x in (("A", a), ("B", b)):
        if x.ndim != 2 or x.shape[1] != 2:
            raise InputError(f"{argument} has shape {x.shape}; pass a row of two coordinates per place.")
    a, b = points_of(a, metric), points_of(b, metric)
    # differences, not the expanded square, whose rounding would part places that coincide
    return np.sqrt(sum((a[:, k, None] - b[None, :, k]) ** 2 for k in range(a.shape[1])))


def points_of(coords: FloatArray, metric: str) -> FloatArray:
    """Give coordinates whose plain distances are those of the metric: (n, 3) for "sphere", (n, 2) for "plane"."""
    return _on_sphere(coords) if metric == "sphere" else coords


def _on_sphere(degrees: FloatArray) -> FloatArray:
    lon, lat = np.radians(degrees).T
    return EARTH_RADIUS_KM * np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def matern(distance: FloatArray, length: float, kind: str = "matern32") -> tuple[FloatArray, FloatArray]:
    """Evaluate a Matern correlation and its derivative by the logarithm of the length.

    Parameters
    ----------
    distance : array
    length : float
        l, in the unit of ``distance``; t = sqrt(2 nu) distance / l.
    kind : {"matern12", "matern32", "matern52"}
        exp(-t), (1 + t) exp(-t), (1 + t + t^2 / 3) exp(-t).

    Returns
    -------
    correlation, by_log_length : arrays of the shape of ``distance``

    Examples
    --------
    >>> k, slope = matern(np.array([0.0, 1.0]), 1.0, "matern12")
    >>> k.round(3), slope.round(3)
    (array([1.   , 0.368]), array([0.   , 0.368]))
    """
    if kind == "matern12":
        t = distance / length
        decay = np.exp(-t)
        return decay, t * decay
    if kind == "matern32":
        t = np.sqrt(3.0) / length * distance
        decay = np.exp(-t)
        return (1.0 + t) * decay, t**2 * decay
    if kind == "matern52":
        t = np.sqrt(5.0) / length * distance
        decay = np.exp(-t)
        return (1.0 + t + t**2 / 3.0) * decay, t**2 * (1.0 + t) / 3.0 * decay
    raise unknown_name("kind", kind, SMOOTHNESS, "kernel")
