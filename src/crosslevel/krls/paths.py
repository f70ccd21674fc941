"""Which way to the eigenvectors, and what it costs? Exact while it is affordable, then to rounding, then by landmarks; it is said which.

exact     every eigenvector; 24 U^2 bytes, some U^3 multiplications.
partial   the eigenvectors that differ from zero at double precision, by pivoted Cholesky; the same numbers to 1e-8.
nystrom   a model of its own whose functions are sums around some hundred landmarks: an approximation, announced as one.

"auto" takes the first that is affordable, in this order, after equal rows are gathered.
How much memory and time a fit will take is known before it is begun.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.errors import InputError
from crosslevel.krls.nystrom import LowRank, choose_landmarks, nystrom, partial
from crosslevel.krls.spectrum import (
    GaussianKernel,
    Spectrum,
    available_memory,
    check_memory,
    decompose,
    memory_needed,
    standardize,
)
from crosslevel.typing import FloatArray

METHODS = ("auto", "exact", "partial", "nystrom")
BACKENDS = ("numpy", "jax")
EXACT_ROWS = 6_000
"""Distinct rows up to which the exact way is taken without looking for a shorter one: half a minute."""
MOST_EXACT = 20_000
"""Distinct rows beyond which "auto" does not take the exact way though memory would do: ten minutes and more."""
MOST_EXACT_DEVICE = 40_000
TOLERANCE = 1e-11
"""Unexplained variance of a row, 1 being all of it, at which the partial way is exact: fits agree to 1e-10."""
MOST_CENTRES = 40_000
"""Distinct rows up to which a partial fit is a sum of functions around all of them, beyond only around the landmarks."""
RANK = 600
"""Landmarks of the Nystrom way, unless others are asked for."""
SAMPLE = 3_000
GROWTH = 0.4
"""Rows of the probe for the rank of the kernel, and the power of the number of rows with which the rank grows."""
SHARE_OF_MEMORY = 0.4


@dataclass(frozen=True)
class Path:
    """The eigenvectors, and how they were found.

    Attributes
    ----------
    spectrum : Spectrum
    kernel : GaussianKernel
    description : str
        The way, in words.
    lost : float
        Share of the trace of the kernel that is lost.
    approximate : bool
        Whether the numbers are those of another model than the exact one.
    """

    spectrum: Spectrum
    kernel: GaussianKernel
    description: str
    lost: float = 0.0
    approximate: bool = False


def find_path(
    kernel: GaussianKernel,
    m: FloatArray,
    n: int,
    method: str = "auto",
    *,
    rank: int | None = None,
    backend: str = "numpy",
    seed: int = 0,
) -> Path:
    """Find eigenvectors of M^1/2 K M^1/2 by the given or the first affordable way.

    Parameters
    ----------
    kernel : GaussianKernel
        Of U distinct rows.
    m : (U,)
    n : int
        Rows, for the description.
    method, rank, backend, seed
        See `KRLS`.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 300)[:, None]
    >>> find_path(GaussianKernel(x, 1.0), np.ones(300), 300, "partial").description
    'partial eigendecomposition, ... of 300 eigenvectors, exact to rounding (... of the trace lost)'
    """
    U = len(m)
    if method == "nystrom":
        return _nystrom(kernel, m, n, rank, seed)
    if method == "partial":
        most = rank or int(min(U, max(_room(U), 2)))
        found = partial(kernel, m, min(most, U), np.inf if rank else TOLERANCE, seed)
        if found is None:
            raise InputError(
                f"the kernel of {U:,} distinct rows needs more than the {most:,} eigenvectors that fit into memory; pass "
                "method='nystrom', or rank= to accept what is lost."
            )
        return _partial(kernel, found, m, n)
    if method == "auto" and not _exact_at_once(U, backend):
        found = partial(kernel, m, _most(U), TOLERANCE, seed) if partial_rank(kernel, seed) else None
        if found is not None:
            return _partial(kernel, found, m, n)
        if not _exact_affordable(U):
            return _nystrom(kernel, m, n, rank, seed)
    return _exact(kernel, m, n, backend)


def partial_rank(kernel: GaussianKernel, seed: int = 0) -> int | None:
    """Predict from some rows how many eigenvectors differ from zero; None when too many for the partial way to pay."""
    U = len(kernel.Z)
    size = min(SAMPLE, U)
    pick = np.random.default_rng(seed).choice(U, size, replace=False)
    probe = choose_landmarks(GaussianKernel(kernel.Z[pick], kernel.s), int(0.75 * size), TOLERANCE, seed)
    if probe.left.max() > TOLERANCE:
        return None
    expected = int(len(probe.index) * (U / size) ** GROWTH)
    return expected if expected <= _most(U) else None


def _most(U: int) -> int:
    return int(min(U // 3, _room(U)))


def _room(U: int) -> int:
    """Say how many eigenvectors there is memory for: two matrices of them are held."""
    free = available_memory()
    return U if free is None else int(SHARE_OF_MEMORY * free / (16 * U))


def _exact_at_once(U: int, backend: str) -> bool:
    return (MOST_EXACT_DEVICE if backend == "jax" else EXACT_ROWS) >= U


def _exact_affordable(U: int) -> bool:
    free = available_memory()
    return U <= MOST_EXACT and (free is None or memory_needed(U) <= free)


def _exact(kernel: GaussianKernel, m: FloatArray, n: int, backend: str) -> Path:
    U, where = len(m), ""
    if backend == "jax":
        from crosslevel.krls.jax_backend import DeviceKernel, device_name

        device = DeviceKernel(kernel.Z, kernel.s)
        spectrum: Spectrum = device.decompose(m)
        kernel, where = device, f", on {device_name()}"
    else:
        check_memory(U, n)
        spectrum = decompose(kernel, m)
    return Path(spectrum, kernel, f"exact, {_rows(n, U)}{where}")


def _partial(kernel: GaussianKernel, found: LowRank, m: FloatArray, n: int) -> Path:
    U, lost = len(m), found.lost / float(m.sum())
    exact = lost <= 10 * TOLERANCE
    # derivatives of what is lost are larger than it: functions around all rows keep them right to 1e-10, others to 1e-6
    kernel = kernel if exact and U <= MOST_CENTRES else found.kernel
    description = (
        f"partial eigendecomposition, {found.rank:,} of {U:,} eigenvectors, {'exact to rounding' if exact else 'truncated'} "
        f"({lost:.1g} of the trace lost){_collapsed(n, U)}"
    )
    return Path(found.spectrum, kernel, description, lost, not exact)


def _nystrom(kernel: GaussianKernel, m: FloatArray, n: int, rank: int | None, seed: int) -> Path:
    U = len(m)
    found = nystrom(kernel, m, min(rank or RANK, U), seed)
    lost, r = found.lost / float(m.sum()), len(found.kernel.landmarks)
    description = f"Nystrom approximation, {r:,} landmarks (seed {seed}) for {U:,} rows, {lost:.2g} of the trace lost"
    return Path(found.spectrum, found.kernel, description + _collapsed(n, U), lost, True)


def _rows(n: int, U: int) -> str:
    return f"{n:,} rows" + (f" collapsed to {U:,} distinct ones" if n > U else "")


def _collapsed(n: int, U: int) -> str:
    return f", {_rows(n, U)}" if n > U else ""


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


def cost_of_rows(rows: FloatArray, method: str, rank: int | None, bandwidth: str | float, seed: int) -> Cost:
    """Estimate memory and time of a fit from its matrix: equal rows are counted, and the rank of their kernel is probed.

    Parameters
    ----------
    rows : (n, P)
    method, rank, bandwidth, seed
        See `KRLS`.
    """
    n, p = rows.shape
    distinct = np.unique(rows + 0.0, axis=0)
    low_rank = None
    if method in ("auto", "partial") and len(distinct) > EXACT_ROWS:
        Z = standardize(distinct, np.ones(len(distinct))).apply(distinct)
        s = float(p) if isinstance(bandwidth, str) else float(bandwidth)  # near enough for "maxvar"
        low_rank = partial_rank(GaussianKernel(Z, s), seed)
    return _cost(n, p, method, len(distinct), rank, low_rank)


def _cost(n: int, p: int, method: str, U: int, rank: int | None = None, low_rank: int | None = None) -> Cost:
    """Estimate memory and time of a fit of n rows, U of them distinct, with p columns.

    Parameters
    ----------
    n, p : int
    method : str
    U : int
    rank : int, optional
        As in `KRLS`.
    low_rank : int, optional
        Eigenvectors that differ from zero, where that is known.

    Examples
    --------
    >>> _cost(4_000, 5, "auto", 4_000).method, _cost(1_000_000, 5, "auto", 1_000_000).method
    ('exact', 'nystrom')
    >>> _cost(344_084, 9, "auto", 5_668).method
    'exact'
    """
    way = method
    if method == "auto":
        exact = U <= EXACT_ROWS or (low_rank is None and _exact_affordable(U))
        way = "exact" if exact else "nystrom" if low_rank is None else "partial"
    rows = 8.0 * n * (6 * p + 30)  # the data, their effects, and what intervals need of every row
    if way == "exact":
        r, size = U, memory_needed(U) + rows
        seconds = CUBED * U**3 + (EXACT_PASSES * PRODUCT * 20 + EXPONENTIAL * 3) * U**2
    elif way == "partial":
        r = min(U, rank or low_rank or max(1, U // 3))
        size = 8.0 * (2 * U * r + 4 * r * r) + rows
        seconds = PRODUCT * U * r * r * 4 + CUBED * r**3 + EXPONENTIAL * U * r * 6
    else:
        r = min(U, rank or RANK)
        size = 8.0 * (6 * r * r + 20_000 * r) + rows
        seconds = U * (STREAM_PASSES * EXPONENTIAL * r + SQUARE_PASSES * 2 * PRODUCT * r * r / 2) + CUBED * r**3
    return Cost(way, n, U, p, r, int(size + BASE), float(seconds + 0.5), available_memory())


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
