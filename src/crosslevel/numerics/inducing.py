"""A Matern field carried by a few points: which points, the basis they make, and its derivative by the length.

With K_um between n locations and m points and K_mm = L L' between the points, the field at the locations is Phi w + e with
Phi = K_um L^-T, w ~ N(0, I) and e independent of variance 1 - |Phi_u|^2, so that every location keeps the variance it has (Snelson and
Ghahramani 2006, "Sparse Gaussian processes using pseudo-inputs").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from crosslevel.numerics.kernels import matern
from crosslevel.typing import FloatArray, Int64Array

__all__ = ["Basis", "basis_of", "leaves"]

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
