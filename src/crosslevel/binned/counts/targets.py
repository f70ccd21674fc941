"""Regions as rows over the cells of a count model: which cells a region sums, and by what part of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from crosslevel.binned.counts.cells import CountBins, bins_from_boxes
from crosslevel.binned.regions.base import Pieces, Regions
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, Int64Array

Codes = Mapping[int, FloatArray]
"""Axis of categories -> its values in order; value i is the cell from i to i + 1."""


def as_pieces(regions: Regions, argument: str = "regions") -> Pieces:
    """Give the intervals or boxes whose sums the regions are; refuse polygons, which have none."""
    found = regions.pieces()
    if found is None:
        raise InputError(
            f"{argument} are {type(regions).__name__}, and counts are un-binned behind Intervals, Boxes and sums of these. Carry "
            "counts of polygons over to others with crosslevel.binned.interpolate, or fit them with BinnedGP."
        )
    return found


def sliced_codes(pieces: Pieces) -> dict[int, FloatArray]:
    """List the values along the axes where every piece is a slice: a coded gender, a year. They are categories."""
    flat = pieces.lower == pieces.upper
    mixed = flat.any(axis=0) & ~flat.all(axis=0)
    if mixed.any() or flat.all():
        what = f"has no width along axis {int(np.argmax(mixed))}" if mixed.any() else "is a point"
        raise InputError(
            f"region {int(pieces.owner[np.argmax(flat[:, np.argmax(mixed)])])} {what}: a count belongs to a region with width. Pass "
            "Intervals or Boxes; a year of age 30 is [30, 31)."
        )
    return {int(a): np.unique(pieces.lower[:, a]) for a in np.flatnonzero(flat.all(axis=0))}


def cut_regions(
    regions: Regions, cell: Any = None, tail: float | None = None
) -> tuple[CountBins, dict[int, FloatArray]]:
    """Cut observed regions into cells; give the bins and the codes of axes of categories.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Boxes
    >>> bins, codes = cut_regions(Boxes([[0, 1], [0, 2]], [[10, 1], [10, 2]], point_axes=[1]), cell=[5, None])
    >>> bins.C.astype(int).tolist(), codes[1].tolist()
    ([[5, 0, 5, 0], [0, 5, 0, 5]], [1.0, 2.0])
    """
    pieces = as_pieces(regions)
    codes = sliced_codes(pieces)
    low, high = _coded(pieces, codes)
    several = isinstance(cell, Sequence | np.ndarray) and not isinstance(cell, str)
    widths = list(cell) if several else [cell] * low.shape[1]
    for width in widths:
        if width is not None and (isinstance(width, bool | np.bool_) or not isinstance(width, Real)):
            raise InputError(f"cell={cell!r} is no width; pass a number, such as cell=1, or for boxes one per axis.")
    bins = bins_from_boxes(low, high, widths, list(codes), tail)
    return (bins if pieces.simple else bins.with_rows(pieces.gather(bins.C))), codes


def design(bins: CountBins, codes: Codes, regions: Regions) -> FloatArray:
    """Give the rows that sum cells into regions, (R, A): parts of cells for boxes, one over the cell's width for points.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> from crosslevel.binned.regions.boxes import Intervals, Points
    >>> bins = bins_from_edges([0, 4], cell=2)
    >>> design(bins, {}, Intervals([1.0], [4.0])), design(bins, {}, Points([3.0]))
    (array([[0.5, 1. ]]), array([[0. , 0.5]]))
    """
    pieces = as_pieces(regions)
    return pieces.gather(cell_shares(bins, *limits(bins, codes, pieces)))


def limits(bins: CountBins, codes: Codes, pieces: Pieces) -> tuple[FloatArray, FloatArray]:
    """Give the limits of pieces in the coordinates of the cells, and refuse those that reach outside."""
    low, high = _coded(pieces, codes)
    floor, roof = bins.lower.min(axis=0), bins.upper.max(axis=0)
    # an open end that is predicted is the open end of the cells
    low, high = np.where(np.isneginf(low), floor, low), np.where(np.isposinf(high), roof, high)
    slack = 1e-9 * bins.span
    outside = ((low < floor - slack) | (high > roof + slack)).any(axis=1)
    if outside.any():
        i = int(np.argmax(outside))
        raise InputError(
            f"region {int(pieces.owner[i])} ({_row(low[i])} to {_row(high[i])}) reaches outside the bins of the fit ({_row(floor)} to "
            f"{_row(roof)}), where counts say nothing. Cut the region, or fit wider bins."
        )
    return low, high


def cell_shares(bins: CountBins, low: FloatArray, high: FloatArray) -> FloatArray:
    """Give the share of each cell that lies in each box, (R, A); along an axis without width one over the cell's width.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> cell_shares(bins_from_edges([0, 4], cell=2), np.array([[1.0]]), np.array([[4.0]]))
    array([[0.5, 1. ]])
    """
    points = low == high
    shares = np.ones((len(low), bins.n_cells))
    last = bins.upper.max(axis=0)
    for k in range(bins.n_axes):
        a, b, x, y = bins.lower[:, k], bins.upper[:, k], low[:, k, None], high[:, k, None]
        part = np.clip((np.minimum(b, y) - np.maximum(a, x)) / (b - a), 0.0, 1.0)
        if points[:, k].any():
            # a cell holds its lower end, the last one both
            inside = (x >= a) & ((x < b) | ((b == last[k]) & (x >= b)))
            part = np.where(points[:, k, None], inside / (b - a), part)
        shares *= part
    if not points.any():
        shares[shares < 1e-9] = 0.0
        shares[shares > 1.0 - 1e-9] = 1.0
    return shares


def region_counts(
    bins: CountBins, low: FloatArray, high: FloatArray, counts: Int64Array, rng: np.random.Generator
) -> Int64Array:
    """Sum whole counts of cells over regions, (n, R); the people of a cut cell fall on either side by its parts.

    All regions see the same fall, so that parts still add up to wholes.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> bins, counts = bins_from_edges([0, 4], cell=2), np.array([[9, 5]])
    >>> parts = region_counts(bins, np.array([[0.0], [1.0]]), np.array([[1.0], [4.0]]), counts, np.random.default_rng(0))
    >>> parts.sum()
    np.int64(14)
    """
    shares = cell_shares(bins, low, high)
    whole = np.where(shares == 1.0, 1, 0)
    out = counts @ whole.T
    for a in np.flatnonzero(((shares > 0) & (shares < 1)).any(axis=0)):
        pieces = []
        for k in range(bins.n_axes):
            cuts = np.concatenate([[bins.lower[a, k], bins.upper[a, k]], low[:, k], high[:, k]])
            pieces.append(np.unique(cuts[(cuts >= bins.lower[a, k]) & (cuts <= bins.upper[a, k])]))
        below = np.stack([g.ravel() for g in np.meshgrid(*[p[:-1] for p in pieces], indexing="ij")], axis=1)
        above = np.stack([g.ravel() for g in np.meshgrid(*[p[1:] for p in pieces], indexing="ij")], axis=1)
        size = np.prod(above - below, axis=1)
        fallen = rng.multinomial(counts[:, a], size / size.sum())
        middle = 0.5 * (below + above)
        inside = ((middle >= low[:, None, :]) & (middle <= high[:, None, :])).all(axis=2) & (whole[:, [a]] == 0)
        out = out + fallen @ inside.T.astype(np.int64)
    return np.asarray(out)


def _coded(pieces: Pieces, codes: Codes) -> tuple[FloatArray, FloatArray]:
    """Write the values of axes of categories as cells of width 1."""
    low, high = pieces.lower.copy(), pieces.upper.copy()
    for axis, values in codes.items():
        place = np.searchsorted(values, low[:, axis])
        known = (place < len(values)) & (values[np.minimum(place, len(values) - 1)] == low[:, axis])
        bad = ~known | (low[:, axis] != high[:, axis])
        if bad.any():
            i = int(np.argmax(bad))
            known_values = ", ".join(f"{v:g}" for v in values[:8]) + ", ..." * (len(values) > 8)
            raise InputError(
                f"region {int(pieces.owner[i])} runs from {low[i, axis]:g} to {high[i, axis]:g} along axis {axis}, whose values are "
                f"categories ({known_values}); pass one of them as both limits, or a WeightedSum for several."
            )
        low[:, axis], high[:, axis] = place, place + 1.0
    return low, high


def _row(x: FloatArray) -> str:
    return f"{x[0]:g}" if len(x) == 1 else str(x.tolist())
