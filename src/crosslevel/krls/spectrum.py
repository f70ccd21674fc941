"""One eigendecomposition, after which every question costs one pass over the eigenvectors.

B = M^1/2 K M^1/2 = Q diag(w) Q', K the kernel between distinct rows and M the diagonal of their counts. The ridge system
of all N rows has the solution c with G c = u, G = K_full + penalty I; gathered by distinct row it becomes a system in
G = B + penalty I of size U. Whoever brings a `Spectrum`, exact or of low rank, gets penalty, effects and inference for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg

from crosslevel.errors import InputError
from crosslevel.krls.kernel import GaussianKernel
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Spectrum", "available_memory", "decompose", "memory_needed"]


BLOCK = 2**21
"""Entries squared at once when row sums of squared eigenvectors are taken."""


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

    @property
    def streams(self) -> bool:
        """Whether the eigenvectors are made anew for every pass, so that passes should be few."""
        return False

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

    def solve(self, X: FloatArray, penalty: float) -> FloatArray:
        """Give (B + penalty I)^-1 X, (U, c)."""
        b = self.project(X)
        if self.complete:
            return self.expand(b / (self.w + penalty)[:, None])
        shrunk = b * (self.w / (self.w + penalty))[:, None]
        return (X - self.expand(shrunk)) / penalty

    def inverse_diagonal(self, penalty: FloatArray) -> FloatArray:
        """Give the diagonal of (B + penalty I)^-1 for every penalty, (U, n_penalties)."""
        if self.complete:
            return self.squared(1.0 / (self.w[:, None] + penalty))
        return (1.0 - self.squared(self.w[:, None] / (self.w[:, None] + penalty))) / penalty

    def inverse(self, penalty: float) -> FloatArray:
        """Give (B + penalty I)^-1 whole, (U, U)."""
        if self.complete:
            R = self.Q / np.sqrt(self.w + penalty)
            return R @ R.T
        R = self.rows(np.arange(len(self))) * np.sqrt(self.w / (self.w + penalty) / penalty)
        found: FloatArray = R @ -R.T
        found[np.diag_indices(len(found))] += 1.0 / penalty
        return found

    def inverse_blocks(self, rows: IntArray, penalty: float) -> FloatArray:
        """Give the blocks of (B + penalty I)^-1 at some sets of rows, (b, size) to (b, size, size)."""
        Q = self.rows(rows)
        if self.complete:
            return (Q / (self.w + penalty)) @ Q.transpose(0, 2, 1)
        return (np.eye(rows.shape[1]) - (Q * (self.w / (self.w + penalty))) @ Q.transpose(0, 2, 1)) / penalty

    def squared(self, X: FloatArray) -> FloatArray:
        """Give (Q o Q) X without a copy of the eigenvectors, (U, c)."""
        out = np.empty((len(self), X.shape[1]))
        for rows, _, found in self.passes(np.empty((len(self.w), 0)), X):
            out[rows] = found
        return out

    def inverse_norms(self, X: FloatArray, penalty: float, power: int) -> FloatArray:
        """Give x' (B + penalty I)^-power x for every column x of X, (c,)."""
        b = np.square(self.project(X))
        if self.complete:
            return (1.0 / (self.w + penalty) ** power) @ b
        outside = 1.0 / penalty**power
        return np.einsum("ij,ij->j", X, X) * outside - (outside - 1.0 / (self.w + penalty) ** power) @ b

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
