"""Bins as sums over the cells of a fine grid: intervals, boxes, or any nonnegative matrix.

Every edge of a bin is an edge of a cell, so a cell lies in a bin whole or not at all. The weight of a cell is its width (or area,
or exposure), and the expected count of cell a is weight_a exp(f_a).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.data.checks import as_numbers, check_counts
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["CountBins", "bins_from_boxes", "bins_from_design", "bins_from_edges", "bins_from_intervals"]


FEWEST_CELLS = 90
MOST_CELLS = 300
"""Cells of an axis when the caller does not say how wide they are."""
TAIL_REACH = 7.0
"""An open bin with a tail ends after so many mean excesses; e^-7 lies beyond."""


@dataclass(frozen=True)
class CountBins:
    """B bins over A cells of d axes.

    Attributes
    ----------
    C : (B, A)
        Weight of each cell in each bin; ``weight`` of the cell, or 0, unless the caller gave the matrix.
    lower, upper : (A, d)
        Limits of the cells.
    weight : (A,)
        Width, area or exposure of the cells.
    span : (d,)
        L, the range of each axis between its finite edges.
    places : (A, d)
        Where covariances see the cells: their centres, and beyond the edge of an open bin with a tail the edge itself.
    excess : (A,)
        How far a cell lies in a tail, in mean excesses; 0 elsewhere.
    warped : (A, d)
        Centres of the cells measured in bins.
    categorical : d flags
        Axes of categories, whose levels have no distances.
    """

    C: FloatArray
    lower: FloatArray
    upper: FloatArray
    weight: FloatArray
    span: FloatArray
    places: FloatArray
    excess: FloatArray
    warped: FloatArray
    categorical: tuple[bool, ...]

    @property
    def n_bins(self) -> int:
        """B."""
        return len(self.C)

    @property
    def n_cells(self) -> int:
        """A."""
        return len(self.lower)

    @property
    def n_axes(self) -> int:
        """Number of axes, d."""
        return self.lower.shape[1]

    @property
    def centres(self) -> FloatArray:
        """Middle of each cell, (A, d)."""
        return 0.5 * (self.lower + self.upper)

    @property
    def averages(self) -> FloatArray:
        """The matrix that averages over the cells of each bin, (B, A)."""
        return np.asarray(self.C / self.C.sum(axis=1, keepdims=True))

    @property
    def disjoint(self) -> bool:
        """Whether each cell lies whole in one bin at most, so that totals can be kept exactly."""
        whole = np.isclose(self.C, self.weight) | (self.C == 0)
        return bool(whole.all() and ((self.C > 0).sum(axis=0) <= 1).all())

    @property
    def bin_of(self) -> npt.NDArray[np.intp]:
        """Bin of each cell, -1 where there is none, (A,); for disjoint bins."""
        return np.where((self.C > 0).any(axis=0), np.argmax(self.C > 0, axis=0), -1)

    def keep(self, rows: npt.ArrayLike) -> CountBins:
        """Keep some of the bins; their cells all stay."""
        return replace(self, C=self.C[np.asarray(rows)])

    def with_rows(self, C: FloatArray) -> CountBins:
        """Put other bins over the same cells."""
        return replace(self, C=C)


def bins_from_edges(
    edges: Any,
    cell: float | None = None,
    exposure: Any = None,
    first: float | None = None,
    last: float | None = None,
    tail: float | None = None,
) -> CountBins:
    """Cut contiguous bins into cells.

    Parameters
    ----------
    edges : (B + 1,)
        Increasing. The first may be -inf and the last inf: then say where they end.
    cell : float, optional
        Width of a cell; by default a fifth of the narrowest bin and at least 90 cells in all, at most about 300.
    exposure : (A,), optional
        Persons at risk (or other weight) of each cell, in place of its width: exp(f) is then a rate.
    first, last : float, optional
        Limits of an open first and last bin.
    tail : float, optional
        In place of ``last`` (or ``first``): beyond its finite edge the curve falls like exp(-x / tail) beforehand, where tail is
        the mean excess over the edge; the total of the open bin, beside its neighbours, corrects this rate within about a
        quarter.

    Examples
    --------
    >>> bins = bins_from_edges([0, 10, 20], cell=5)
    >>> bins.C
    array([[5., 5., 0., 0.],
           [0., 0., 5., 5.]])
    """
    limits = as_numbers(edges, "edges", 1)
    if len(limits) < 2:
        raise InputError(f"edges has {len(limits)} value(s); a bin needs two, its lower and its upper limit.")
    return bins_from_intervals(limits[:-1], limits[1:], cell, exposure, first, last, tail)


def bins_from_intervals(
    lower: Any,
    upper: Any,
    cell: float | None = None,
    exposure: Any = None,
    first: float | None = None,
    last: float | None = None,
    tail: float | None = None,
) -> CountBins:
    """Cut intervals, which may overlap, nest or leave gaps, into cells; gaps are cells of no bin.

    Parameters are those of :func:`bins_from_edges`.

    Examples
    --------
    >>> bins = bins_from_intervals([0, 0], [10, 4], cell=2)
    >>> bins.C
    array([[2., 2., 2., 2., 2.],
           [2., 2., 0., 0., 0.]])
    >>> bins.disjoint
    False
    """
    low, high = as_numbers(lower, "lower", 1), as_numbers(upper, "upper", 1)
    if low.shape != high.shape:
        raise InputError(f"lower has {len(low)} values and upper {len(high)}; pass one of each per bin.")
    low, high, tails = _close(low, high, first, last, tail)
    _check_order(low, high)
    cuts = _cut(low, high, cell, tails)
    below, above = cuts[:-1], cuts[1:]
    middle = 0.5 * (below + above)
    weight, places, excess = above - below, middle.copy(), np.zeros(len(middle))
    warped = _warp(middle, low, high)
    for edge, sign in tails:
        assert tail is not None
        beyond = (middle > edge) if sign > 0 else (middle < edge)
        near, far = (
            np.exp(-np.maximum(np.minimum(sign * (v - edge), TAIL_REACH * tail), 0.0) / tail) for v in (below, above)
        )
        weight = np.where(beyond, tail * np.abs(near - far), weight)
        places[beyond] = edge
        excess[beyond] = sign * (middle[beyond] - edge) / tail
        at_edge = float(np.interp(edge, middle, warped)) if sign > 0 else 1.0
        warped[beyond] = np.round(at_edge) - sign * np.expm1(-excess[beyond])
    span = float(np.ptp(np.clip(cuts, *_finite(cuts, tails))))
    if exposure is not None:
        weight = _check_exposure(exposure, len(below))
    member = (below >= low[:, None] - 1e-12 * span) & (above <= high[:, None] + 1e-12 * span)
    return CountBins(
        member * weight,
        below[:, None],
        above[:, None],
        weight,
        np.array([span]),
        places[:, None],
        excess,
        warped[:, None],
        (False,),
    )


def _finite(cuts: FloatArray, tails: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Give the ends of the range without its tails."""
    ends = {sign: edge for edge, sign in tails}
    return ends.get(-1, float(cuts[0])), ends.get(1, float(cuts[-1]))


def bins_from_boxes(
    lower: Any,
    upper: Any,
    cell: Sequence[float | None] | None = None,
    exposure: Any = None,
    categorical: Sequence[int] = (),
) -> CountBins:
    """Cut boxes into the cells of a product grid.

    Parameters
    ----------
    lower, upper : (B, d)
        Limits; they may overlap, nest and leave gaps. Codes of a category k are the box from k to k + 1.
    cell : d widths, optional
        None for an axis chooses as in :func:`bins_from_edges`, about 1,000 cells over all axes.
    exposure : (A,), optional
    categorical : indices of axes whose values are categories

    Examples
    --------
    Ages 0-10 and 10-20 of women (0) and men (1):

    >>> bins = bins_from_boxes([[0, 0], [10, 0], [0, 1], [10, 1]], [[10, 1], [20, 1], [10, 2], [20, 2]], (5, None), categorical=[1])
    >>> bins.C.shape, bins.centres[1].tolist()
    ((4, 8), [2.5, 1.5])
    """
    low, high = as_numbers(lower, "lower", 2), as_numbers(upper, "upper", 2)
    if low.shape != high.shape:
        raise InputError(f"lower has shape {low.shape} and upper {high.shape}; pass one row of limits per box in each.")
    d = low.shape[1]
    widths: Sequence[float | None] = [None] * d if cell is None else list(cell)
    if len(widths) != d:
        raise InputError(f"cell has {len(widths)} widths for {d} axes; pass one per axis.")
    most = min(40, max(4, int(1200.0 ** (1.0 / max(d - len(categorical), 1)))))
    axes, warps = [], []
    for k in range(d):
        if not np.isfinite(low[:, k]).all() or not np.isfinite(high[:, k]).all():
            raise InputError(f"axis {k} of the boxes has an open limit; give every box finite limits.")
        _check_order(low[:, k], high[:, k])
        width = widths[k]
        if k in categorical:
            axes.append(np.arange(np.floor(low[:, k].min()), np.ceil(high[:, k].max()) + 1))
        else:
            axes.append(_cut(low[:, k], high[:, k], width, [], (most // 2, most)))
        warps.append(_warp(0.5 * (axes[k][:-1] + axes[k][1:]), low[:, k], high[:, k]))

    def grid(parts: Sequence[FloatArray]) -> FloatArray:
        return np.stack([g.ravel() for g in np.meshgrid(*parts, indexing="ij")], axis=1)

    below, above = grid([a[:-1] for a in axes]), grid([a[1:] for a in axes])
    weight = np.prod(above - below, axis=1) if exposure is None else _check_exposure(exposure, len(below))
    span = np.array([a[-1] - a[0] for a in axes])
    slack = 1e-12 * span
    member = ((below >= low[:, None, :] - slack) & (above <= high[:, None, :] + slack)).all(axis=2)
    flags = tuple(k in categorical for k in range(d))
    middle = 0.5 * (below + above)
    return CountBins(member * weight, below, above, weight, span, middle, 0.0 * weight, grid(warps), flags)


def bins_from_design(C: Any, centres: Any, weight: Any = None) -> CountBins:
    """Take any nonnegative matrix of bins by cells.

    Parameters
    ----------
    C : (B, A)
        Expected bin = C exp(f).
    centres : (A,) or (A, d)
        Where the cells lie.
    weight : (A,), optional
        Expected cell = weight exp(f); one by default.

    Examples
    --------
    >>> bins_from_design([[1, 1, 0], [0, 0, 1]], [0.5, 1.5, 2.5]).disjoint
    True
    """
    matrix = check_counts(C, "C", 2)
    x = as_numbers(centres, "centres")
    x = x[:, None] if x.ndim == 1 else x
    if len(x) != matrix.shape[1]:
        raise InputError(f"C has {matrix.shape[1]} columns and centres {len(x)} rows; pass one centre per cell.")
    if (matrix.sum(axis=1) == 0).any():
        raise InputError(f"row {int(np.argmax(matrix.sum(axis=1) == 0))} of C is zero everywhere; drop this bin.")
    w = np.ones(len(x)) if weight is None else _check_exposure(weight, len(x))
    half = np.array([0.5 * np.min(np.diff(np.unique(a)), initial=np.inf) for a in x.T])
    half = np.where(np.isfinite(half), half, 0.5)
    below, above = x - half, x + half
    span = above.max(axis=0) - below.min(axis=0)
    shares = matrix / matrix.sum(axis=1, keepdims=True)
    centre = shares @ x
    sd = np.sqrt(np.maximum(shares @ x**2 - centre**2, half**2 / 3))
    widths = np.sqrt(12.0) * sd  # the width of a uniform bin of this spread
    return CountBins(matrix, below, above, w, span, x, 0.0 * w, x / widths.mean(axis=0), (False,) * x.shape[1])


def _check_exposure(exposure: Any, n: int) -> FloatArray:
    values = check_counts(exposure, "exposure", 1)
    if len(values) != n:
        raise InputError(f"exposure has {len(values)} values for {n} cells; pass one per cell, in order.")
    if not (values > 0).any():
        raise InputError("exposure is zero in every cell; nobody is at risk.")
    return np.maximum(values, 1e-12 * values.max())


def _close(
    low: FloatArray, high: FloatArray, first: float | None, last: float | None, tail: float | None
) -> tuple[FloatArray, FloatArray, list[tuple[float, int]]]:
    """Give open bins an end; list the edges where a tail begins, with its direction."""
    for name, values in (("lower", low), ("upper", high)):
        if np.isnan(values).any():
            raise InputError(f"{name} of bin {int(np.argmax(np.isnan(values)))} is missing; give its limit.")
    if tail is not None and not tail > 0:
        raise InputError(f"tail={tail!r} is not a positive length; pass the mean excess over the last finite edge.")
    low, high, tails = low.copy(), high.copy(), []
    for values, other, infinite, stated, sign, name in (
        (low, high, -np.inf, first, -1, "first"),
        (high, low, np.inf, last, 1, "last"),
    ):
        open_ = values == infinite
        if not open_.any():
            continue
        if stated is not None:
            values[open_] = stated
        elif tail is not None:
            edge = float(other[open_].max() if sign > 0 else other[open_].min())
            values[open_] = edge + sign * TAIL_REACH * tail
            tails.append((edge, sign))
        else:
            raise InputError(
                f"the {name} bin is open ({infinite:g}); say where it ends with {name}=, or give tail=, its mean excess over the "
                "finite edge."
            )
    return low, high, tails


def _check_order(low: FloatArray, high: FloatArray) -> None:
    for bad, what in ((low > high, "reversed limits"), (low == high, "zero width")):
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                f"bin {i} has {what} ({low[i]:g} to {high[i]:g}); each lower limit must lie below its upper limit."
            )


def _cut(
    low: FloatArray,
    high: FloatArray,
    cell: float | None,
    tails: Sequence[tuple[float, int]],
    number: tuple[int, int] = (FEWEST_CELLS, MOST_CELLS),
) -> FloatArray:
    """Cut the range at all limits of bins and between them into cells of about one width."""
    cuts = np.unique(np.concatenate([low, high]))
    widths = np.diff(cuts)
    cuts = cuts[np.concatenate([[True], widths > 1e-9 * (cuts[-1] - cuts[0])])]
    widths = np.diff(cuts)
    open_ends = set(tails)
    closed = np.array([(a, 1) not in open_ends and (b, -1) not in open_ends for a, b in pairwise(cuts)])
    total = float(widths[closed].sum()) if closed.any() else float(widths.sum())
    if cell is None:
        cell = max(min(float(widths.min()) / 5.0, total / number[0]), total / number[1])
    elif not cell > 0:
        raise InputError(f"cell={cell!r} is not a positive width; pass one, such as cell=1.")
    if total / cell > 20_000:
        raise InputError(f"cell={cell:g} would make {total / cell:,.0f} cells; pass a wider cell.")
    pieces = []
    for a, b, is_closed in zip(cuts[:-1], cuts[1:], closed, strict=True):
        n = max(1, round((b - a) / cell)) if is_closed else 28
        pieces.append(np.linspace(a, b, n + 1)[:-1])
    return np.concatenate([*pieces, cuts[-1:]])


def _warp(x: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Measure places in bins: each disjoint bin one unit wide, else all of them their mean width."""
    order = np.argsort(low)
    if (low[order][1:] >= high[order][:-1] - 1e-9 * (high.max() - low.min())).all():
        edges = np.unique(np.concatenate([low, high]))
        keep = np.concatenate([[True], np.diff(edges) > 1e-9 * (edges[-1] - edges[0])])
        edges = edges[keep]
        return np.asarray(np.interp(x, edges, np.arange(len(edges), dtype=np.float64)))
    return np.asarray(x / float((high - low).mean()))
