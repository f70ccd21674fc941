"""Covariances between regions: products of integrals along the axes, summed over pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.binned.gaussian.kernels import Kernel, Part
from crosslevel.binned.regions.base import Pieces
from crosslevel.numerics.integrals.correlations import Limits
from crosslevel.typing import FloatArray, Int64Array

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
    total = np.zeros(pieces.n)
    for part in kernel.split(logs):
        product = np.full(pieces.n, part.variance)
        for axis, (limits, where) in enumerate(zip(a.limits, a.place, strict=True)):
            one = part.correlation.diagonal(limits, float(part.lengths[axis]))
            product *= one if where is None else one[where]
        total += product
    return total


def _pairs(kernel: Kernel, logs: FloatArray, a: Layout, b: Layout | None, gradient: bool) -> list[FloatArray]:
    """Give covariances of pieces and, if asked, their derivatives by every hyperparameter."""
    total: FloatArray | None = None
    slopes: list[FloatArray] = []
    for part in kernel.split(logs):
        axes = [_along(axis, part, a, b, gradient) for axis in range(kernel.dimension)]
        product = axes[0][0] * part.variance
        for one, _ in axes[1:]:
            product = product * one
        total = product if total is None else total + product
        if not gradient:
            continue
        slopes.append(product)
        for i, (_, slope) in enumerate(axes):
            if slope is None:
                continue
            steep = slope * part.variance
            for j, (one, _) in enumerate(axes):
                if j != i:
                    steep = steep * one
            slopes.append(steep)
    assert total is not None
    return [total, *slopes]


def _along(axis: int, part: Part, a: Layout, b: Layout | None, gradient: bool) -> tuple[FloatArray, FloatArray | None]:
    """Give integrals along one axis for pairs of pieces, and the derivative by log lengthscale where there is one."""
    other = a if b is None else b
    K, G = part.correlation.covariance(
        a.limits[axis],
        None if b is None else b.limits[axis],
        float(part.lengths[axis]),
        gradient and part.correlation.has_length,
    )
    K = _spread(K, a.place[axis], other.place[axis])
    return K, None if G is None else _spread(G, a.place[axis], other.place[axis])


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
