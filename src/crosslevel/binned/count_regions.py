"""Regions as rows over the cells of a count model: which cells does a region sum, and by what part of each?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslevel.binned.counts.cells import CountBins, bins_from_boxes, bins_from_intervals
from crosslevel.binned.counts.targets import cell_shares
from crosslevel.binned.regions.base import Pieces, Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["Codes", "as_pieces", "cut_regions", "design", "sliced_codes"]


Codes = Mapping[int, FloatArray]
"""Axis of categories -> its values in order; value i is the cell from i to i + 1."""


def as_pieces(regions: Regions, argument: str = "regions") -> Pieces:
    """Give the intervals or boxes whose sums the regions are; refuse polygons, which have none."""
    if isinstance(regions, Intervals):  # its pieces are boxes, which have no open ends
        n = len(regions)
        return Pieces(regions.lower[:, None], regions.upper[:, None], np.ones(n), np.arange(n, dtype=np.int64), n)
    found = regions.pieces()
    if found is None:
        raise InputError(
            f"{argument} are {type(regions).__name__}, and counts are un-binned behind Intervals, Boxes and sums of these. Share counts "
            "of polygons out with crosslevel.binned.areas.share_out, or fit them with likelihood='gaussian'."
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
    if low.shape[1] == 1:
        width = cell[0] if isinstance(cell, list | tuple) and len(cell) == 1 else cell
        bins = bins_from_intervals(low[:, 0], high[:, 0], width, tail=tail)
    else:
        if tail is not None:
            raise InputError(
                "tail is for the open end of Intervals, and these are boxes; give every box finite limits."
            )
        widths = [cell] * low.shape[1] if isinstance(cell, int | float) else cell
        bins = bins_from_boxes(low, high, widths, categorical=list(codes))
    return (bins if pieces.simple else bins.with_rows(pieces.gather(bins.C))), codes


def design(bins: CountBins, codes: Codes, regions: Regions) -> FloatArray:
    """Give the rows that sum cells into regions, (R, A): parts of cells for boxes, one over the cell's width for points.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> from crosslevel.binned.regions.points import Points
    >>> bins = bins_from_edges([0, 4], cell=2)
    >>> design(bins, {}, Intervals([1.0], [4.0])), design(bins, {}, Points([3.0]))
    (array([[0.5, 1. ]]), array([[0. , 0.5]]))
    """
    pieces = as_pieces(regions)
    low, high = limits(bins, codes, pieces)
    return pieces.gather(piece_shares(bins, low, high))


def limits(bins: CountBins, codes: Codes, pieces: Pieces) -> tuple[FloatArray, FloatArray]:
    """Give the limits of pieces in the coordinates of the cells, and refuse those that reach outside."""
    low, high = _coded(pieces, codes)
    floor, roof = bins.lower.min(axis=0), bins.upper.max(axis=0)
    # an open end asked for is the open end of the cells
    low, high = np.where(np.isneginf(low), floor, low), np.where(np.isposinf(high), roof, high)
    slack = 1e-9 * bins.span
    outside = ((low < floor - slack) | (high > roof + slack)).any(axis=1)
    if outside.any():
        i = int(np.argmax(outside))
        raise InputError(
            f"region {int(pieces.owner[i])} ({_say(low[i])} to {_say(high[i])}) reaches outside the bins of the fit ({_say(floor)} to "
            f"{_say(roof)}), where counts say nothing. Cut the region, or fit wider bins."
        )
    return low, high


def piece_shares(bins: CountBins, low: FloatArray, high: FloatArray) -> FloatArray:
    """Give the part of each cell in each piece, (p, A); along an axis without width one over the cell's width."""
    points = low == high
    if not points.any():
        return cell_shares(bins, low, high)
    shares = np.ones((len(low), bins.n_cells))
    last = bins.upper.max(axis=0)
    for k in range(bins.n_axes):
        a, b, x, y = bins.lower[:, k], bins.upper[:, k], low[:, k, None], high[:, k, None]
        part = np.clip((np.minimum(b, y) - np.maximum(a, x)) / (b - a), 0.0, 1.0)
        # a cell holds its lower end, the last one both
        inside = (x >= a) & ((x < b) | ((b == last[k]) & (x >= b)))
        shares *= np.where(points[:, k, None], inside / (b - a), part)
    return shares


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


def _say(x: FloatArray) -> str:
    return f"{x[0]:g}" if len(x) == 1 else str(x.tolist())
