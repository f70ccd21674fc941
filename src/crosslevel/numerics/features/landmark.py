"""Maps without random frequencies: kernels with landmarks (whitened or not) and the identity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.features.base import FeatureMap, gaussian_kernel
from crosslevel.typing import FloatArray

__all__ = ["EIGENVALUE_CUT", "Landmarks", "Linear", "Nystrom", "whitening"]

EIGENVALUE_CUT = 1e-9
"""Eigenvalues of the landmarks' kernel matrix below this share of the largest count as zero: at float64 precision
their eigenvectors are noise, and 1/sqrt would amplify it more than thirty-thousand-fold."""


def whitening(K: FloatArray) -> FloatArray:
    """Compute the symmetric ``K^(-1/2)`` on the eigenvectors kept by ``EIGENVALUE_CUT``, zero on the others.

    Examples
    --------
    >>> K = np.array([[4.0, 0.0], [0.0, 1.0]])
    >>> whitening(K).round(6)
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > EIGENVALUE_CUT * values[-1]
    scaled = vectors[:, keep] / np.sqrt(values[keep])
    return np.asarray(scaled @ vectors[:, keep].T, dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Landmarks(FeatureMap):
    """An RBF network's layer: ``phi(x)_l = k(x, u_l)``, not whitened.

    Attributes
    ----------
    U : array (n_features, n_inputs)
        The landmarks.
    """

    U: FloatArray

    def _rows_of_people(self) -> dict[str, int]:
        return {"U": len(self.U)}

    def _features(self, X: FloatArray) -> FloatArray:
        return gaussian_kernel(X, self.U, self.bandwidth)

    def kernel(self, X: npt.ArrayLike, Y: npt.ArrayLike) -> FloatArray:
        """Compute the kernel these features induce, ``sum_l k(x, u_l) k(y, u_l)``: it is matched exactly."""
        return self.transform(X) @ self.transform(Y).T


@dataclass(frozen=True, eq=False, repr=False)
class Nystrom(FeatureMap):
    """Nyström features ``phi(x) = K^(-1/2) k(U, x)``: exact on the landmarks (Williams & Seeger, 2001).

    Attributes
    ----------
    U : array (n_features, n_inputs)
        The landmarks.
    whiten : array (n_features, n_features)
        ``K^(-1/2)`` of the landmarks' kernel matrix K; see ``EIGENVALUE_CUT``.
    """

    U: FloatArray
    whiten: FloatArray

    def _rows_of_people(self) -> dict[str, int]:
        return {"U": len(self.U)}

    def _features(self, X: FloatArray) -> FloatArray:
        return gaussian_kernel(X, self.U, self.bandwidth) @ self.whiten

    def finish(self, raw: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Whiten means of kernel values."""
        return np.matmul(raw, self.whiten, out=out)


@dataclass(frozen=True, eq=False, repr=False)
class Linear(FeatureMap):
    """The map ``phi(x) = x``: mean embeddings are weighted means and shares."""

    def _features(self, X: FloatArray) -> FloatArray:
        return X.copy()

    def kernel(self, X: npt.ArrayLike, Y: npt.ArrayLike) -> FloatArray:
        """Compute the inner products ``x @ y``, matched exactly."""
        return self._rows(X, "X") @ self._rows(Y, "Y").T
