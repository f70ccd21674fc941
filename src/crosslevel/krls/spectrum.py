"""The Gaussian kernel on standardized covariates, and its eigendecomposition.

k(x, x') = exp(-|z - z'|^2 / s), z the covariates centered and divided by their standard deviations. The number s, called
sigma in the R packages though it is a squared length, is the bandwidth here.

B = M^1/2 K M^1/2 = Q diag(w) Q', K the kernel between distinct rows and M the diagonal of their counts. The ridge system
of all N rows has the solution c with G c = u, G = K_full + penalty I; gathered by distinct row it becomes a system in
G = B + penalty I of size U. After one decomposition every solve costs one pass over the eigenvectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy import special
from scipy.optimize import brentq

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, IntArray

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
        """Standardize rows like those the scaling was learned from."""
        return (X - self.mean) / self.sd


def standardize(X: FloatArray, m: FloatArray) -> Scaling:
    """Find the means and standard deviations of rows that stand for m rows each.

    Parameters
    ----------
    X : (n, P)
    m : (n,)
        Counts; their total is the number of rows.

    Examples
    --------
    >>> standardize(np.array([[0.0], [3.0]]), np.array([2.0, 1.0])).mean.tolist()
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
        Standardized distinct rows.
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

    def between(self, at: FloatArray) -> FloatArray:
        """Give the kernel between the rows ``at`` and the data whole, (n, U)."""
        return np.concatenate([np.empty((0, len(self.Z))), *(block for _, block in self.blocks(at))])

    def blocks(self, at: FloatArray | None = None, entries: int = BLOCK) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows of the kernel between ``at`` and the data, a block of so many entries at a time.

        The exponent is one product of matrices, (2 z / s, -|z|^2 / s, 1) (z', 1, -|z'|^2 / s).
        """
        points = self.Z if at is None else at
        norms = np.einsum("ij,ij->i", self.Z, self.Z)
        right = np.column_stack([self.Z * (2.0 / self.s), np.full(len(norms), -1.0 / self.s), -norms / self.s])
        step = max(1, entries // max(1, len(norms)))
        for start in range(0, len(points), step):
            rows = slice(start, min(start + step, len(points)))
            z = points[rows]
            block = np.column_stack([z, np.einsum("ij,ij->i", z, z), np.ones(len(z))]) @ right.T
            np.minimum(block, 0.0, out=block)  # rounding may not make a distance negative
            yield rows, np.exp(block, out=block)

    @property
    def centers(self) -> GaussianKernel:
        """The kernel whose functions the fit is a sum of: here one around every distinct row."""
        return self

    def center_coef(self, coef: FloatArray) -> FloatArray:
        """Give the coefficients at the centers from those at the distinct rows."""
        return coef

    def lift(self, V: FloatArray) -> FloatArray:
        """Give values on the kernel functions of the distinct rows, (U, E), from those on the functions of the centers."""
        return V

    def without(self, columns: IntArray) -> GaussianKernel:
        """Give the factor of the kernel that the other columns make; the bandwidth stays."""
        return GaussianKernel(np.delete(self.Z, columns, axis=1), self.s)


def max_variance_bandwidth(Z: FloatArray, m: FloatArray) -> float:
    """Find the bandwidth at which the kernel between two different people varies most.

    The default of R's KRLS 1.7: a kernel of all ones or all zeros tells nobody apart. The maximum is searched on the log
    scale, and to convergence.

    Parameters
    ----------
    Z : (U, P)
        Standardized distinct rows.
    m : (U,)
        Rows that each stands for.
    """
    N = m.sum()
    pairs = N * (N - 1.0)

    def variance(log_s: float) -> tuple[float, float]:
        """Give the variance of the kernel between two people, and its derivative by log s, where K' = -K log K."""
        sums = np.zeros(4)
        for rows, block in GaussianKernel(Z, float(np.exp(log_s))).blocks():
            turn = -special.xlogy(block, block)
            parts = (block, np.square(block), turn, 2.0 * block * turn)
            sums += [m[rows] @ (part @ m) for part in parts]
        first, second, by_first, by_second = sums / pairs
        mean, alone = first - N / pairs, N / pairs  # a person paired with itself is not a pair
        return second - alone - mean * mean, by_second - 2.0 * mean * by_first

    grid = np.log(np.geomspace(0.01, max(2.0 * Z.shape[1], 2000.0), 25))
    best = int(np.argmax([variance(g)[0] for g in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    if not variance(low)[1] > 0 > variance(high)[1]:  # at a limit of the search
        return float(np.exp(grid[best]))
    return float(np.exp(brentq(lambda log_s: variance(log_s)[1], low, high, xtol=1e-13, rtol=1e-13)))


@dataclass(frozen=True)
class Spectrum:
    """Eigenpairs of B, and the solves they make cheap.

    Attributes
    ----------
    Q : (U, k)
        Orthonormal eigenvectors.
    w : (k,)
        Eigenvalues, ascending, not negative.
    complete : bool
        Whether k = U. Otherwise the eigenvalues that are left out count as zero, not as absent; eigenvectors with eigenvalues
        that are small beside the penalty then need not be orthonormal to rounding, since they enter times w / (w + penalty).

    Examples
    --------
    >>> spectrum = decompose(GaussianKernel(np.array([[0.0], [1.0], [3.0]]), 1.0), np.ones(3))
    >>> G = np.linalg.inv(spectrum.Q @ np.diag(spectrum.w) @ spectrum.Q.T + 0.5 * np.eye(3))
    >>> bool(np.allclose(spectrum.solve(np.eye(3), 0.5), G))
    True
    >>> bool(np.allclose(spectrum.inverse_diagonal(np.array([0.5]))[:, 0], np.diag(G)))
    True
    """

    Q: FloatArray
    w: FloatArray
    complete: bool = True

    def __len__(self) -> int:
        return len(self.Q)

    def project(self, X: FloatArray) -> FloatArray:
        """Give Q' X, (k, c)."""
        return self.Q.T @ X

    def expand(self, b: FloatArray) -> FloatArray:
        """Give Q b, (U, c)."""
        return self.Q @ b

    def rows(self, index: IntArray) -> FloatArray:
        """Give some rows of the eigenvectors, (..., k)."""
        return self.Q[index]

    def passes(self, b: FloatArray, x: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield Q b and (Q o Q) x, a block of rows at a time; no copy of the eigenvectors is made."""
        step = max(1, BLOCK // max(1, len(self.w)))
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, self.Q[rows] @ b, np.square(self.Q[rows]) @ x

    def inverted(self, penalty: float | FloatArray, power: int = 1) -> tuple[Any, FloatArray]:
        """Write (B + penalty I)^-power as a I + Q diag(b) Q'; give a, and b as (k,), or (k, n_penalties) for several."""
        w = self.w if np.ndim(penalty) == 0 else self.w[:, None]
        outside = 0.0 if self.complete else 1.0 / penalty**power
        return outside, 1.0 / (w + penalty) ** power - outside

    def solve(self, X: FloatArray, penalty: float) -> FloatArray:
        """Give (B + penalty I)^-1 X, (U, c)."""
        outside, inside = self.inverted(penalty)
        return outside * X + self.expand(inside[:, None] * self.project(X))

    def inverse_diagonal(self, penalty: FloatArray) -> FloatArray:
        """Give the diagonal of (B + penalty I)^-1 for every penalty, (U, n_penalties)."""
        outside, inside = self.inverted(penalty)
        return outside + self.squared(inside)

    def inverse(self, penalty: float) -> FloatArray:
        """Give (B + penalty I)^-1 whole, (U, U)."""
        outside, inside = self.inverted(penalty)
        found = self.expand(inside[:, None] * self.rows(np.arange(len(self))).T)
        found[np.diag_indices(len(found))] += outside
        return found

    def inverse_blocks(self, rows: IntArray, penalty: float) -> FloatArray:
        """Give the blocks of (B + penalty I)^-1 at some sets of rows, (b, size) to (b, size, size)."""
        outside, inside = self.inverted(penalty)
        Q = self.rows(rows)
        return outside * np.eye(rows.shape[1]) + (Q * inside) @ Q.transpose(0, 2, 1)

    def squared(self, X: FloatArray) -> FloatArray:
        """Give (Q o Q) X without a copy of the eigenvectors, (U, c)."""
        out = np.empty((len(self), X.shape[1]))
        for rows, _, found in self.passes(np.empty((len(self.w), 0)), X):
            out[rows] = found
        return out

    def inverse_norms(self, X: FloatArray, penalty: float, power: int) -> FloatArray:
        """Give x' (B + penalty I)^-power x for every column x of X, (c,)."""
        outside, inside = self.inverted(penalty, power)
        return outside * np.einsum("ij,ij->j", X, X) + inside @ np.square(self.project(X))

    def edf(self, penalty: float) -> float:
        """Count the effective degrees of freedom, the trace of the matrix that maps y to its fit."""
        return float(np.sum(self.w / (self.w + penalty)))


def decompose(kernel: GaussianKernel, m: FloatArray) -> Spectrum:
    """Find all eigenpairs of M^1/2 K M^1/2.

    Divide and conquer: twice as fast as LAPACK's other driver at 4,000 rows, for one matrix more of memory. Rounding
    leaves eigenvalues of about -1e-13 where the kernel is singular; they are zero.
    """
    unweighted = bool((m == 1.0).all())
    B = kernel.matrix(None if unweighted else np.sqrt(m))
    w, Q = scipy.linalg.eigh(B, overwrite_a=True, check_finite=False, driver="evd")
    return Spectrum(Q=Q, w=np.maximum(w, 0.0))


def memory_needed(U: int) -> int:
    """Say how many bytes the decomposition of U distinct rows needs: the matrix and twice that to work in."""
    return 3 * 8 * U * U + 8 * BLOCK * 4


def available_memory() -> int | None:
    """Say how many bytes of memory are free, None where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def check_memory(U: int, n: int) -> int:
    """Refuse a decomposition that does not fit into memory; give the bytes it needs."""
    needed, free = memory_needed(U), available_memory()
    if free is not None and needed > free:
        raise InputError(
            f"X has {U:,} distinct rows (of {n:,}), whose exact fit needs about {needed / 2**30:,.1f} GiB of memory; "
            f"{free / 2**30:,.1f} GiB are free. Round the covariates so that more rows coincide (equal rows cost nothing), "
            "or pass method='nystrom', an approximation."
        )
    return needed
