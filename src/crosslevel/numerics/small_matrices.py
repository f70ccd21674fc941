"""Compiled algebra of matrices too small for LAPACK, called once per unit inside other compiled loops."""

from __future__ import annotations

import math

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray


@njit(nogil=True, error_model="numpy")
def invert(S: FloatArray, L: FloatArray, inverse: FloatArray, k: int) -> float:
    """Invert the leading k rows and columns of a symmetric matrix.

    Parameters
    ----------
    S : array of shape (at least k, at least k)
        Its lower triangle is read. May be the same array as `L`.
    L : array
        Receives the Cholesky factor in its lower triangle.
    inverse : array
        Receives the inverse.
    k : int

    Returns
    -------
    float
        Log of the determinant, NaN when the matrix is not positive definite (`inverse` is then not filled).
    """
    logdet = 0.0
    for c in range(k):
        for h in range(c + 1):
            s = S[c, h]
            for m in range(h):
                s -= L[c, m] * L[h, m]
            if h == c:
                if not s > 0.0:
                    return np.nan
                L[c, c] = math.sqrt(s)
                logdet += math.log(s)
            else:
                L[c, h] = s / L[h, h]
    for c in range(k):  # row c of the upper triangle of `inverse` holds column c of L^-1 first
        for h in range(c, k):
            s = 1.0 if h == c else 0.0
            for m in range(c, h):
                s -= L[h, m] * inverse[c, m]
            inverse[c, h] = s / L[h, h]
    for c in range(k):  # L^-T L^-1, in place: what a sum still needs is written after it
        for h in range(c, k):
            s = 0.0
            for m in range(h, k):
                s += inverse[c, m] * inverse[h, m]
            inverse[c, h] = s
    for c in range(k):
        for h in range(c):
            inverse[c, h] = inverse[h, c]
    return logdet
