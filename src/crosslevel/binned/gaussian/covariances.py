"""Covariances between regions: products of integrals along the axes, summed over pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from crosslevel.binned.regions.base import Pieces
from crosslevel.data.checks import check_positive
from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.integrals.correlations import CORRELATIONS, Correlation, Limits
from crosslevel.typing import FloatArray, Int64Array


@dataclass(frozen=True)
class Kernel:
    """A kernel over given axes; what is None is to be found.

    Attributes
    ----------
    correlation : Correlation
    variance : float or None
    lengthscales : (d,)

    Notes
    -----
    The hyperparameters are logarithms: of the variance, then of the lengthscales.
    """

    correlation: Correlation
    variance: float | None
    lengthscales: tuple[float | None, ...]

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return len(self.lengthscales)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        axes = [f"_{axis}" for axis in range(self.dimension)] if self.dimension > 1 else [""]
        return ("variance", *(f"lengthscale{axis}" for axis in axes))

    @property
    def given(self) -> tuple[float | None, ...]:
        """Hyperparameters (not their logarithms) that were given; None where they are to be found."""
        return (self.variance, *self.lengthscales)


def read_kernel(name: Any, dimension: int, *, variance: float | None = None, lengthscale: Any = None) -> Kernel:
    """Read a name, with its variance and lengthscale (one, or one per axis) where they are given.

    Examples
    --------
    >>> read_kernel("matern32", 2, variance=2.0).given
    (2.0, None, None)
    """
    if name not in CORRELATIONS:
        raise unknown_name("kernel", name, CORRELATIONS, "kernel")
    return Kernel(Correlation(name), _positive(variance, "variance"), _lengths(lengthscale, dimension))


def read_number(value: Any, argument: str) -> float | None:
    """Read a finite number; None stays None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise InputError(f"{argument}={value!r} is not a number; pass one, or None to have it estimated.")
    return number


def _positive(value: Any, argument: str) -> float | None:
    number = read_number(value, argument)
    if number is not None and number <= 0:
        raise InputError(f"{argument}={value!r} is not a positive number; pass one, or None to have it estimated.")
    return None if number is None else check_positive(number, argument)


def _lengths(lengthscale: Any, dimension: int) -> tuple[float | None, ...]:
    if not isinstance(lengthscale, Sequence | np.ndarray):
        return (_positive(lengthscale, "lengthscale"),) * dimension
    if len(lengthscale) != dimension:
        raise InputError(
            f"lengthscale has {len(lengthscale)} values for {dimension} dimension(s); pass one, or one per axis."
        )
    return tuple(_positive(x, "lengthscale") for x in lengthscale)


AT_ONCE = 4_000_000
"""Pairs of pieces held at a time."""
REPEATED = 0.7
"""Limits along an axis are gathered when fewer than this share of them are distinct, as in grids."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Pieces with the distinct limits along each axis.

    Attributes
    ----------
    pieces : Pieces
    limits : tuple of (lower, upper)
        Per axis.
    place : tuple of (p,) or None
        Per axis the place of each piece's limits; None when every piece has its own.
    """

    pieces: Pieces
    limits: tuple[Limits, ...]
    place: tuple[Int64Array | None, ...]


def lay_out(pieces: Pieces) -> Layout:
    """Find the distinct limits along each axis."""
    limits: list[Limits] = []
    place: list[Int64Array | None] = []
    for d in range(pieces.lower.shape[1]):
        both = np.stack([pieces.lower[:, d], pieces.upper[:, d]])
        distinct, where = np.unique(both, axis=1, return_inverse=True)
        if distinct.shape[1] <= REPEATED * both.shape[1]:
            limits.append((np.ascontiguousarray(distinct[0]), np.ascontiguousarray(distinct[1])))
            place.append(where.ravel().astype(np.int64))
        else:
            limits.append((np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1])))
            place.append(None)
    return Layout(pieces, tuple(limits), tuple(place))


def prior_covariance(
    kernel: Kernel, logs: FloatArray, a: Layout, b: Layout | None = None, gradient: bool = False
) -> tuple[FloatArray, list[FloatArray]]:
    """Give the covariances of the regions' integrals.

    Parameters
    ----------
    kernel : Kernel
    logs : (h,)
        Its hyperparameters, as logarithms.
    a, b : Layout
        n and m regions; b None means a again.
    gradient : bool
        Also differentiate by the hyperparameters.

    Returns
    -------
    K : (n, m)
    dK : list of (n, m)
        Derivatives by each of ``logs``; empty when not asked for.
    """
    other = a if b is None else b
    if len(a.pieces) * len(other.pieces) <= AT_ONCE or (a.pieces.simple and other.pieces.simple):
        found = _pairs(kernel, logs, a, b, gradient)
        gathered = [a.pieces.gather(other.pieces.gather(x, axis=1)) for x in found]
        return gathered[0], gathered[1:]
    rows = max(1, AT_ONCE // len(other.pieces))
    parts = [
        [other.pieces.gather(x, axis=1) for x in _pairs(kernel, logs, _part(a, i, i + rows), other, gradient)]
        for i in range(0, len(a.pieces), rows)
    ]
    whole = [a.pieces.gather(np.concatenate(x)) for x in zip(*parts, strict=True)]
    return whole[0], whole[1:]


def variances(kernel: Kernel, logs: FloatArray, a: Layout) -> FloatArray:
    """Give the prior variances of the regions' integrals, (n,)."""
    pieces = a.pieces
    if not pieces.simple:
        starts = np.searchsorted(pieces.owner, np.arange(pieces.n + 1))
        out = np.empty(pieces.n)
        for i in range(pieces.n):
            alone = lay_out(pieces.cut(starts[i], starts[i + 1], i, 1))
            K = _pairs(kernel, logs, alone, None, False)[0]
            out[i] = alone.pieces.weight @ K @ alone.pieces.weight
        return out
    total = np.full(pieces.n, np.exp(logs[0]))
    for axis, (limits, where) in enumerate(zip(a.limits, a.place, strict=True)):
        one = kernel.correlation.diagonal(limits, float(np.exp(logs[1 + axis])))
        total *= one if where is None else one[where]
    return total


def _pairs(kernel: Kernel, logs: FloatArray, a: Layout, b: Layout | None, gradient: bool) -> list[FloatArray]:
    """Give covariances of pieces and, if asked, their derivatives by every hyperparameter."""
    other, variance = a if b is None else b, np.exp(logs[0])
    axes: list[list[Any]] = []
    for axis in range(kernel.dimension):
        second = None if b is None else b.limits[axis]
        found = kernel.correlation.covariance(a.limits[axis], second, float(np.exp(logs[1 + axis])), gradient)
        axes.append([None if x is None else _spread(x, a.place[axis], other.place[axis]) for x in found])
    total: FloatArray = variance * reduce(np.multiply, [one for one, _ in axes])
    if not gradient:
        return [total]
    slopes = [
        variance * reduce(np.multiply, [slope if j == i else one for j, (one, slope) in enumerate(axes)])
        for i in range(kernel.dimension)
    ]
    return [total, total, *slopes]


def _spread(K: FloatArray, rows: Int64Array | None, columns: Int64Array | None) -> FloatArray:
    if rows is not None:
        K = K[rows]
    return K if columns is None else K[:, columns]


def _part(a: Layout, start: int, stop: int) -> Layout:
    rows = slice(start, stop)
    limits = tuple(
        (s[rows], t[rows]) if where is None else (s, t) for (s, t), where in zip(a.limits, a.place, strict=True)
    )
    return Layout(a.pieces.cut(start, stop), limits, tuple(None if w is None else w[rows] for w in a.place))
