"""New regions from draws of cells: sums, with cells cut where a region's limit crosses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.counts.cells import CountBins
from crosslevel.data.checks import check_finite
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["cell_shares", "read_regions", "region_counts"]


def read_regions(bins: CountBins, lower: Any, upper: Any) -> tuple[FloatArray, FloatArray]:
    """Read the limits of new regions, (R, d) each, and refuse those outside the cells."""
    ndim = 1 if bins.n_axes == 1 else 2
    low, high = check_finite(lower, "lower", ndim), check_finite(upper, "upper", ndim)
    low, high = (v[:, None] if ndim == 1 else v for v in (low, high))
    if low.shape != high.shape or low.shape[1] != bins.n_axes:
        raise InputError(
            f"lower has shape {low.shape} and upper {high.shape}; pass one limit of each per region and axis ({bins.n_axes})."
        )
    if (low >= high).any():
        i = int(np.argmax((low >= high).any(axis=1)))
        raise InputError(f"region {i} runs from {low[i].tolist()} to {high[i].tolist()}; lower must lie below upper.")
    floor, roof = bins.lower.min(axis=0), bins.upper.max(axis=0)
    outside = ((low < floor - 1e-9 * bins.span) | (high > roof + 1e-9 * bins.span)).any(axis=1)
    if outside.any():
        i = int(np.argmax(outside))
        raise InputError(
            f"region {i} ({low[i].tolist()} to {high[i].tolist()}) reaches outside the cells of the fit ({floor.tolist()} to "
            f"{roof.tolist()}); the counts say nothing there. Cut the region, or fit with wider limits."
        )
    return low, high


def cell_shares(bins: CountBins, low: FloatArray, high: FloatArray) -> FloatArray:
    """Give the share of each cell that lies in each region, (R, A).

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> cell_shares(bins_from_edges([0, 4], cell=2), np.array([[1.0]]), np.array([[4.0]]))
    array([[0.5, 1. ]])
    """
    shares = np.ones((len(low), bins.n_cells))
    for k in range(bins.n_axes):
        a, b = bins.lower[:, k], bins.upper[:, k]
        common = np.minimum(b, high[:, k, None]) - np.maximum(a, low[:, k, None])
        shares *= np.clip(common / (b - a), 0.0, 1.0)
    shares[shares < 1e-9] = 0.0
    shares[shares > 1.0 - 1e-9] = 1.0
    return shares


def region_counts(
    bins: CountBins, low: FloatArray, high: FloatArray, counts: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
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
        pieces = [_pieces(bins.lower[a, k], bins.upper[a, k], low[:, k], high[:, k]) for k in range(bins.n_axes)]
        below = np.stack([g.ravel() for g in np.meshgrid(*[p[:-1] for p in pieces], indexing="ij")], axis=1)
        above = np.stack([g.ravel() for g in np.meshgrid(*[p[1:] for p in pieces], indexing="ij")], axis=1)
        size = np.prod(above - below, axis=1)
        fallen = rng.multinomial(counts[:, a], size / size.sum())
        middle = 0.5 * (below + above)
        inside = ((middle >= low[:, None, :]) & (middle <= high[:, None, :])).all(axis=2) & (whole[:, [a]] == 0)
        out = out + fallen @ inside.T.astype(np.int64)
    return np.asarray(out)


def _pieces(a: float, b: float, low: FloatArray, high: FloatArray) -> FloatArray:
    cuts = np.concatenate([[a, b], low, high])
    return np.unique(cuts[(cuts >= a) & (cuts <= b)])
