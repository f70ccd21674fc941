"""Which few rows span the kernel functions of all? Randomly pivoted Cholesky, in blocks.

A landmark is drawn with probability proportional to what the landmarks before it leave unexplained of each row,
d_i = k(x_i, x_i) - phi_i' phi_i; the factor gains a column, and d falls. Blocks of candidates are drawn together and those that
the others of their block already explain are dropped, so that the work is products of matrices. Unexplained variance adds
up to the trace that is lost, the error that is reported (Chen, Epperly, Tropp and Webber 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crosslevel.krls.kernel import GaussianKernel
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Landmarks", "choose_landmarks"]


CANDIDATES = 96
"""Candidates drawn together."""
NEW = 0.1
"""Share of the largest unexplained variance of its block below which a candidate waits for another draw."""


@dataclass(frozen=True)
class Landmarks:
    """Rows whose kernel functions stand for those of all rows.

    Attributes
    ----------
    index : (r,)
        The rows.
    L : (U, r)
        K is about L L'; the landmarks' own rows are lower triangular.
    left : (U,)
        Unexplained variance of each row.
    """

    index: IntArray
    L: FloatArray
    left: FloatArray


def choose_landmarks(
    kernel: GaussianKernel, most: int, tolerance: float, seed: int = 0, m: FloatArray | None = None
) -> Landmarks:
    """Choose landmarks until no row has more unexplained variance than the tolerance, or there are ``most``.

    Parameters
    ----------
    kernel : GaussianKernel
        Of U distinct rows.
    most : int
    tolerance : float
    seed : int
    m : (U,), optional
        Rows that each distinct row stands for; they are drawn more often the more they stand for.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 300)[:, None]
    >>> kernel = GaussianKernel(x, s=1.0)
    >>> found = choose_landmarks(kernel, 100, 1e-10)
    >>> len(found.index) < 40, bool(np.abs(found.L @ found.L.T - kernel.matrix()).max() < 1e-9)
    (True, True)
    """
    U = len(kernel.Z)
    most = min(most, U)
    rng = np.random.default_rng(seed)
    L = np.empty((U, most), order="F")
    left = np.ones(U)
    index: list[int] = []
    while len(index) < most:
        chances = np.where(left > tolerance, left if m is None else left * m, 0.0)
        able = int(np.count_nonzero(chances))
        if able == 0:
            break
        drawn = _draw(rng, chances, min(CANDIDATES, able))
        r = len(index)
        block = GaussianKernel(kernel.Z[drawn], kernel.s).matrix() - L[drawn, :r] @ L[drawn, :r].T
        order, root = _pivots(block, most - r)
        new = drawn[order]
        columns = kernel.columns(new)
        columns -= L[:, :r] @ L[new, :r].T
        made = columns @ np.linalg.inv(root).T  # small and well conditioned: candidates that repeat others were dropped
        made[new] = root  # exactly triangular, where the difference of nearly equal numbers would not be
        made[index] = 0.0
        L[:, r : r + len(new)] = made
        left = np.maximum(left - np.einsum("ij,ij->i", made, made), 0.0)
        left[new] = 0.0
        index += new.tolist()
    return Landmarks(np.array(index, dtype=np.intp), L[:, : len(index)], left)


def _draw(rng: np.random.Generator, chances: FloatArray, count: int) -> IntArray:
    """Draw different rows with these chances (the largest of independent exponential clocks)."""
    with np.errstate(divide="ignore"):
        clock = rng.standard_exponential(len(chances)) / chances
    return np.argpartition(clock, count - 1)[:count].astype(np.intp)


def _pivots(block: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
    """Order candidates by pivoted Cholesky, keep those that are new, and give their factor, (b, b)."""
    limit = NEW * float(np.diag(block).max())
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(block, tol=limit, lower=1)
    keep = max(1, min(int(rank), most))
    return pivots[:keep].astype(np.intp) - 1, np.tril(factor[:keep, :keep])
