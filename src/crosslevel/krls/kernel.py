"""The Gaussian kernel on standardised covariates, and how wide it should be.

k(x, x') = exp(-|z - z'|^2 / s), z the covariates centred and divided by their standard deviations. The number s, called
sigma in the R packages though it is a squared length, is the bandwidth here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from crosslevel.typing import FloatArray

__all__ = ["GaussianKernel", "Scaling", "max_variance_bandwidth", "standardise"]


BLOCK = 2**21
"""Entries of the kernel made at once (16 MiB): large enough for the BLAS, small beside the kernel itself."""


@dataclass(frozen=True)
class Scaling:
    """Weighted means and standard deviations (divisor: total weight minus one).

    Attributes
    ----------
    mean, sd : (P,)
    """

    mean: FloatArray
    sd: FloatArray

    def apply(self, X: FloatArray) -> FloatArray:
        """Standardise rows like those the scaling was learnt from."""
        return (X - self.mean) / self.sd


def standardise(X: FloatArray, m: FloatArray) -> Scaling:
    """Find the means and standard deviations of rows that stand for m rows each.

    Parameters
    ----------
    X : (n, P)
    m : (n,)
        Counts; their total is the number of rows.

    Examples
    --------
    >>> standardise(np.array([[0.0], [3.0]]), np.array([2.0, 1.0])).mean.tolist()
    [1.0]
    """
    total = m.sum()
    mean = m @ X / total
    return Scaling(mean, np.sqrt(m @ np.square(X - mean) / (total - 1.0)))


@dataclass(frozen=True)
class GaussianKernel:
    """The kernel between the distinct rows of the data, made in blocks whenever it is needed.

    Attributes
    ----------
    Z : (U, P)
        Standardised distinct rows.
    s : float
        Bandwidth.

    Examples
    --------
    >>> kernel = GaussianKernel(np.array([[0.0], [1.0]]), s=1.0)
    >>> kernel.matrix().round(4).tolist()
    [[1.0, 0.3679], [0.3679, 1.0]]
    >>> kernel.apply(np.array([[1.0], [1.0]])).ravel().round(4).tolist()
    [1.3679, 1.3679]
    """

    Z: FloatArray
    s: float

    def matrix(self, root: FloatArray | None = None) -> FloatArray:
        """Give K, or diag(root) K diag(root), in the memory order LAPACK overwrites: (U, U)."""
        U = len(self.Z)
        K = np.empty((U, U), order="F")
        for rows, block in self.blocks():
            block[np.arange(rows.start, rows.stop) - rows.start, np.arange(rows.start, rows.stop)] = 1.0
            if root is not None:
                block *= root[rows, None] * root
            K[:, rows] = block.T
        return K

    def apply(self, X: FloatArray, at: FloatArray | None = None) -> FloatArray:
        """Multiply the kernel between the rows ``at`` (the data's own when None) and the data with X, (U, c)."""
        points = self.Z if at is None else at
        out = np.empty((len(points), X.shape[1]))
        for rows, block in self.blocks(points):
            out[rows] = block @ X
        return out

    def columns(self, index: npt.NDArray[np.intp]) -> FloatArray:
        """Give some columns of K, (U, c)."""
        chosen = GaussianKernel(self.Z[index], self.s)
        out = np.empty((len(self.Z), len(index)))
        for rows, block in chosen.blocks(self.Z):
            out[rows] = block
        out[index, np.arange(len(index))] = 1.0
        return out

    def blocks(self, at: FloatArray | None = None) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows of the kernel between ``at`` and the data, a block at a time."""
        points = self.Z if at is None else at
        norms = np.einsum("ij,ij->i", self.Z, self.Z)
        step = max(1, BLOCK // max(1, len(self.Z)))
        for start in range(0, len(points), step):
            rows = slice(start, min(start + step, len(points)))
            yield rows, np.exp(_exponent(points[rows], self.Z, norms, self.s))

    @property
    def centres(self) -> GaussianKernel:
        """The kernel whose functions the fit is a sum of: here one around every distinct row."""
        return self

    def centre_coef(self, coef: FloatArray) -> FloatArray:
        """Give the coefficients at the centres from those at the distinct rows."""
        return coef

    def lift(self, V: FloatArray) -> FloatArray:
        """Give values on the kernel functions of the distinct rows, (U, E), from those on the functions of the centres."""
        return V

    def without(self, columns: npt.NDArray[np.intp]) -> GaussianKernel:
        """Give the factor of the kernel that the other columns make; the bandwidth stays."""
        return GaussianKernel(np.delete(self.Z, columns, axis=1), self.s)


def _exponent(points: FloatArray, Z: FloatArray, norms: FloatArray, s: float) -> FloatArray:
    """Give -|z - z'|^2 / s, (n_points, U); rounding may not make a distance negative."""
    D = points @ Z.T
    D *= 2.0
    D -= norms
    D -= np.einsum("ij,ij->i", points, points)[:, None]
    np.minimum(D, 0.0, out=D)
    D /= s
    return D


def max_variance_bandwidth(Z: FloatArray, m: FloatArray) -> float:
    """Find the bandwidth at which the kernel between two different people varies most.

    The default of R's KRLS 1.7: a kernel of all ones or all zeros tells nobody apart. The maximum is searched on the log
    scale, and to convergence.

    Parameters
    ----------
    Z : (U, P)
        Standardised distinct rows.
    m : (U,)
        Rows that each stands for.
    """
    N = m.sum()
    pairs = N * (N - 1.0)

    def negative_variance(log_s: float) -> float:
        kernel = GaussianKernel(Z, float(np.exp(log_s)))
        first = second = 0.0
        for rows, block in kernel.blocks():
            first += float(m[rows] @ (block @ m))
            np.square(block, out=block)
            second += float(m[rows] @ (block @ m))
        mean = (first - N) / pairs  # a person paired with itself is not a pair
        return -((second - N) / pairs - mean * mean)

    grid = np.log(np.geomspace(0.01, max(2.0 * Z.shape[1], 2000.0), 25))
    values = [negative_variance(g) for g in grid]
    best = int(np.argmin(values))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(negative_variance, bounds=around, method="bounded", options={"xatol": 1e-8})
    return float(np.exp(found.x))
