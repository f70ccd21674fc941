"""How much memory and time will a fit take? Known before it is begun."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.data.checks import check_whole
from crosslevel.errors import InputError, unknown_name
from crosslevel.krls.paths import EXACT_ROWS, METHODS, MOST_EXACT, RANK, partial_rank
from crosslevel.krls.spectrum import GaussianKernel, available_memory, memory_needed, standardize
from crosslevel.typing import FloatArray

__all__ = ["Cost", "cost", "cost_of_rows"]

CUBED = 9e-11
"""Seconds per cubed row of an eigendecomposition with vectors, two cores of a server of 2023."""
PRODUCT = 2.5e-11
"""Seconds per multiplication in a product of matrices."""
EXPONENTIAL = 3e-9
"""Seconds per entry of the kernel that is made."""
BASE = 250 * 2**20
"""Bytes of the interpreter and the libraries."""
EXACT_PASSES, STREAM_PASSES, SQUARE_PASSES = 12, 18, 6


@dataclass(frozen=True)
class Cost:
    """What a fit will take, effects and intervals included.

    Attributes
    ----------
    method : str
        The way it will go: "exact", "partial" or "nystrom".
    rows, distinct, columns : int
    rank : int
        Eigenvectors, or landmarks.
    bytes : int
        Peak of memory.
    seconds : float
        On two cores; right to a factor of two on an idle machine.
    free : int or None
        Bytes of memory that are free now.
    """

    method: str
    rows: int
    distinct: int
    columns: int
    rank: int
    bytes: int
    seconds: float
    free: int | None

    def __str__(self) -> str:
        size = f"{self.rows:,} rows" + ("" if self.distinct == self.rows else f" ({self.distinct:,} distinct)")
        what = {
            "exact": "exact",
            "partial": f"partial eigendecomposition with about {self.rank:,} eigenvectors",
            "nystrom": f"Nystrom approximation with {self.rank:,} landmarks",
        }[self.method]
        free = "" if self.free is None else f"; {_gib(self.free)} are free"
        return f"{size}, {self.columns:,} columns: {what}, about {_gib(self.bytes)} and {_time(self.seconds)}{free}"


def cost(
    n: int,
    p: int,
    method: str = "auto",
    *,
    distinct: int | None = None,
    rank: int | None = None,
    low_rank: int | None = None,
) -> Cost:
    """Estimate memory and time of a fit.

    Parameters
    ----------
    n, p : int
        Rows and columns.
    method : {"auto", "collapse", "exact", "partial", "nystrom"}
    distinct : int, optional
        Distinct rows; all of them when not given. `KRLS.cost` counts them.
    rank : int, optional
        As in `KRLS`.
    low_rank : int, optional
        Eigenvectors that differ from zero, where that is known. `KRLS.cost` finds out.

    Examples
    --------
    >>> cost(4_000, 5).method, cost(1_000_000, 5).method
    ('exact', 'nystrom')
    >>> cost(344_084, 9, distinct=5_668).method
    'exact'
    >>> print(cost(1_000_000, 5))
    1,000,000 rows, 5 columns: Nystrom approximation with 600 landmarks, about ... GiB and ...
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS, "choice")
    n, p = check_whole(n, "n", 1), check_whole(p, "p", 1)
    for name, value, ways in (
        ("distinct", distinct, ("auto", "collapse", "partial", "nystrom")),
        ("rank", rank, ("partial", "nystrom")),
        ("low_rank", low_rank, ("auto", "partial")),
    ):
        if value is not None and method not in ways:
            raise InputError(f"{name}={value!r} has no effect with method={method!r}; leave {name} out.")
        if value is not None:
            check_whole(value, name, 1)
    free = available_memory()
    U = n if distinct is None else distinct
    way = method if method in ("exact", "partial", "nystrom") else "exact"
    if method == "auto" and U > EXACT_ROWS:
        affordable = U <= MOST_EXACT and (free is None or memory_needed(U) <= free)
        way = "partial" if low_rank is not None else "exact" if affordable else "nystrom"
    rows = 8.0 * n * (6 * p + 30)  # the data, their effects, and what intervals need of every row
    passes = float(U) * U * EXPONENTIAL * 3 if way == "exact" else 0.0
    if way == "exact":
        r, size = U, memory_needed(U) + rows
        seconds = CUBED * U**3 + EXACT_PASSES * PRODUCT * U**2 * 20 + passes
    elif way == "partial":
        r = min(U, rank or low_rank or max(1, U // 3))
        size = 8.0 * (2 * U * r + 4 * r * r) + rows
        seconds = PRODUCT * U * r * r * 4 + CUBED * r**3 + EXPONENTIAL * U * r * 6
    else:
        r = min(U, rank or RANK)
        size = 8.0 * (6 * r * r + 20_000 * r) + rows
        seconds = U * (STREAM_PASSES * EXPONENTIAL * r + SQUARE_PASSES * 2 * PRODUCT * r * r / 2) + CUBED * r**3
    return Cost(way, n, U, p, r, int(size + BASE), float(seconds + 0.5), free)


def cost_of_rows(rows: FloatArray, method: str, rank: int | None, bandwidth: str | float, seed: int) -> Cost:
    """Estimate the cost of a fit from its matrix: equal rows are counted, and the rank of their kernel is probed.

    Parameters
    ----------
    rows : (n, P)
    method, rank, bandwidth, seed
        See `KRLS`.
    """
    n, p = rows.shape
    if method == "exact":
        return cost(n, p, method)
    distinct = np.unique(rows + 0.0, axis=0)
    low = None
    if method in ("auto", "partial") and len(distinct) > EXACT_ROWS:
        Z = standardize(distinct, np.ones(len(distinct))).apply(distinct)
        s = float(p) if isinstance(bandwidth, str) else float(bandwidth)  # near enough for "maxvar"
        low = partial_rank(GaussianKernel(Z, s), seed)
    return cost(n, p, method, distinct=len(distinct), rank=rank, low_rank=low)


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
