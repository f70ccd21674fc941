"""Stationary kernels over places, and the distances they take.

A Matern field carried by a few points: which points, the basis they make, and its derivative by the length.

With K_um between n locations and m points and K_mm = L L' between the points, the field at the locations is Phi w + e with
Phi = K_um L^-T, w ~ N(0, I) and e independent of variance 1 - |Phi_u|^2, so that every location keeps the variance it has (Snelson and
Ghahramani 2006, "Sparse Gaussian processes using pseudo-inputs").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg

from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray, Int64Array

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


JITTER = 1e-8
"""Added to the diagonal of K_mm: points that nearly coincide."""


def leaves(x: FloatArray, n_leaves: int) -> tuple[Int64Array, Int64Array]:
    """Cut points in leaves of about equal size, each time across the widest side.

    Parameters
    ----------
    x : (n, d)
    n_leaves : int
        At most n.

    Returns
    -------
    leaf : (n,)
        Leaf of each point.
    middle : (n_leaves,)
        The point of each leaf that is nearest its mean.

    Examples
    --------
    >>> leaf, middle = leaves(np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]), 2)
    >>> leaf.tolist(), middle.tolist()
    ([0, 0, 0, 1, 1, 1], [1, 4])
    """
    leaf = np.zeros(len(x), dtype=np.int64)
    middle = np.empty(n_leaves, dtype=np.int64)
    waiting = [(np.arange(len(x)), 0, n_leaves)]
    while waiting:
        own, first, n = waiting.pop()
        if n == 1:
            leaf[own] = first
            middle[first] = own[np.argmin(((x[own] - x[own].mean(axis=0)) ** 2).sum(axis=1))]
            continue
        side = x[own, np.argmax(np.ptp(x[own], axis=0))]
        order = own[np.argsort(side, kind="stable")]
        below = n // 2
        cut = max(below, min(len(own) * below // n, len(own) - (n - below)))
        waiting += [(order[:cut], first, below), (order[cut:], first + below, n - below)]
    return leaf, middle


@dataclass(frozen=True, eq=False)
class Basis:
    """The basis at one length.

    Attributes
    ----------
    Phi : (n, m)
    rest : (n,)
        Variance of e.
    L : (m, m)
        Root of K_mm, lower.
    by_length, points_by_length : (n, m) and (m, m)
        Derivatives of K_um and of K_mm by the logarithm of the length.
    """

    Phi: FloatArray
    rest: FloatArray
    L: FloatArray
    by_length: FloatArray
    points_by_length: FloatArray

    def slope(self, E: FloatArray) -> float:
        """Give sum(E * dPhi) for the logarithm of the length; E : (n, m)."""
        half = linalg.solve_triangular(self.L, self.points_by_length, lower=True, check_finite=False)
        P = np.tril(linalg.solve_triangular(self.L, half.T, lower=True, check_finite=False).T)
        P[np.diag_indices_from(P)] *= 0.5  # L^-1 dL
        back = linalg.solve_triangular(self.L, E.T, lower=True, trans="T", check_finite=False).T
        return float(np.einsum("ij,ij->", back, self.by_length) - np.einsum("ij,ij->", E.T @ self.Phi, P))


def basis_of(between: FloatArray, points: FloatArray, length: float, kind: str) -> Basis:
    """Give the basis of a field of variance one.

    Parameters
    ----------
    between : (n, m)
        Distances of locations from the points.
    points : (m, m)
        Distances between the points.
    length : float
    kind : str
        The Matern kernel.
    """
    K, dK = matern(between, length, kind)
    Kmm, dKmm = matern(points, length, kind)
    Kmm[np.diag_indices_from(Kmm)] += JITTER
    L = np.asarray(linalg.cholesky(Kmm, lower=True, overwrite_a=True, check_finite=False))
    Phi = np.ascontiguousarray(linalg.solve_triangular(L, K.T, lower=True, check_finite=False).T)
    return Basis(Phi, np.maximum(1.0 - np.einsum("ij,ij->i", Phi, Phi), 0.0), L, dK, dKmm)
