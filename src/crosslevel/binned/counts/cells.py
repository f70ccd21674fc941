"""Bins as sums over the cells of a fine grid: intervals and boxes.

Every edge of a bin is an edge of a cell, so a cell lies in a bin whole or not at all. The weight of a cell is its width or
area, and the expected count of cell a is weight_a exp(f_a).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.typing import BoolArray, FloatArray, IntArray

FEWEST_CELLS = 90
MOST_CELLS = 300
"""Cells of an axis when the caller does not say how wide they are."""
ROUNDING = 1e-12
"""Difference of a whole and its parts, relative to them, that is no difference."""
TAIL_REACH = 7.0
"""An open bin with a tail ends after so many mean excesses; e^-7 lies beyond."""


@dataclass(frozen=True)
class CountBins:
    """B bins over A cells of d axes.

    Attributes
    ----------
    C : (B, A)
        Weight of each cell in each bin: ``weight`` of the cell, or 0; another where bins are weighted sums.
    lower, upper : (A, d)
        Limits of the cells.
    weight : (A,)
        Width or area of the cells.
    span : (d,)
        L, the range of each axis between its finite edges.
    places : (A, d)
        Where covariances see the cells: their centers, and beyond the edge of an open bin with a tail the edge itself.
    excess : (A,)
        How far a cell lies in a tail, in mean excesses; 0 elsewhere.
    warped : (A, d)
        Centers of the cells measured in bins.
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
    def centers(self) -> FloatArray:
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
    def bin_of(self) -> IntArray:
        """Bin of each cell, -1 where there is none, (A,); for disjoint bins."""
        return np.where((self.C > 0).any(axis=0), np.argmax(self.C > 0, axis=0), -1)

    def keep(self, rows: npt.ArrayLike) -> CountBins:
        """Keep some of the bins; their cells all stay."""
        return replace(self, C=self.C[np.asarray(rows)])

    def with_rows(self, C: FloatArray) -> CountBins:
        """Put other bins over the same cells."""
        return replace(self, C=C)


def bins_from_edges(edges: npt.ArrayLike, cell: float | None = None, tail: float | None = None) -> CountBins:
    """Cut contiguous bins between increasing edges, (B + 1,), into cells; see :func:`bins_from_intervals`.

    Examples
    --------
    >>> bins = bins_from_edges([0, 10, 20], cell=5)
    >>> bins.C
    array([[5., 5., 0., 0.],
           [0., 0., 5., 5.]])
    """
    limits = np.asarray(edges, dtype=np.float64)
    return bins_from_intervals(limits[:-1], limits[1:], cell, tail)


def bins_from_intervals(
    lower: npt.ArrayLike, upper: npt.ArrayLike, cell: float | None = None, tail: float | None = None
) -> CountBins:
    """Cut intervals, which may overlap, nest or leave gaps, into cells; gaps are cells of no bin.

    Parameters
    ----------
    lower, upper : (B,)
        Limits. Lower ones may be -inf and upper ones inf: then pass ``tail``.
    cell : float, optional
        Width of a cell; by default a fifth of the narrowest bin and at least 90 cells in all, at most about 300.
    tail : float, optional
        Mean excess over the finite edge of an open bin: beyond it the curve falls like exp(-x / tail) beforehand; the total of
        the open bin, beside its neighbors, corrects this rate within about a quarter.

    Examples
    --------
    >>> bins = bins_from_intervals([0, 0], [10, 4], cell=2)
    >>> bins.C
    array([[2., 2., 2., 2., 2.],
           [2., 2., 0., 0., 0.]])
    >>> bins.disjoint
    False
    """
    low, high = (np.asarray(v, dtype=np.float64)[:, None] for v in (lower, upper))
    return bins_from_boxes(low, high, [cell], tail=tail)


def bins_from_boxes(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    cell: Sequence[float | None] | None = None,
    categorical: Sequence[int] = (),
    tail: float | None = None,
) -> CountBins:
    """Cut boxes into the cells of a product grid.

    Parameters
    ----------
    lower, upper : (B, d)
        Limits; they may overlap, nest and leave gaps. Codes of a category k are the box from k to k + 1.
    cell : d widths, optional
        None for an axis chooses as in :func:`bins_from_intervals`, about 1,000 cells over all axes.
    categorical : indices of axes whose values are categories
    tail : float, optional
        Of open ends of the only axis, see :func:`bins_from_intervals`.

    Examples
    --------
    Ages 0-10 and 10-20 of women (0) and men (1):

    >>> bins = bins_from_boxes([[0, 0], [10, 0], [0, 1], [10, 1]], [[10, 1], [20, 1], [10, 2], [20, 2]], (5, None), categorical=[1])
    >>> bins.C.shape, bins.centers[1].tolist()
    ((4, 8), [2.5, 1.5])
    """
    low, high = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    d = low.shape[1]
    widths: Sequence[float | None] = [None] * d if cell is None else list(cell)
    if len(widths) != d:
        raise InputError(f"cell={cell!r} has {len(widths)} widths for {d} axes; pass one per axis.")
    if d > 1 and tail is not None:
        raise InputError(
            f"tail={tail!r} is for the open end of Intervals, and these are boxes; give every box finite limits."
        )
    tails = _close(low[:, 0], high[:, 0], tail) if d == 1 else []
    most = min(40, max(4, int(1200.0 ** (1.0 / max(d - len(categorical), 1)))))
    number = (FEWEST_CELLS, MOST_CELLS) if d == 1 else (most // 2, most)
    axes, warps = [], []
    for k in range(d):
        if k in categorical:
            axes.append(np.arange(np.floor(low[:, k].min()), np.ceil(high[:, k].max()) + 1))
        else:
            axes.append(_cut(low[:, k], high[:, k], widths[k], tails, number))
        warps.append(_warp(0.5 * (axes[k][:-1] + axes[k][1:]), low[:, k], high[:, k]))

    def grid(parts: Sequence[FloatArray]) -> FloatArray:
        return np.stack([g.ravel() for g in np.meshgrid(*parts, indexing="ij")], axis=1)

    below, above = grid([a[:-1] for a in axes]), grid([a[1:] for a in axes])
    weight = np.prod(above - below, axis=1)
    span = np.array([a[-1] - a[0] for a in axes])
    slack = 1e-12 * span
    member = np.asarray(((below >= low[:, None, :] - slack) & (above <= high[:, None, :] + slack)).all(axis=2))
    _check_covered(member)
    flags = tuple(k in categorical for k in range(d))
    middle = 0.5 * (below + above)
    bins = CountBins(member * weight, below, above, weight, span, middle, 0.0 * weight, grid(warps), flags)
    return bins if tail is None else _with_tails(bins, member, tails, tail)


def _with_tails(bins: CountBins, member: BoolArray, tails: Sequence[tuple[float, int]], tail: float) -> CountBins:
    """Let cells beyond the edge of an open bin weigh less and less, and lie at the edge."""
    below, above, middle = bins.lower[:, 0], bins.upper[:, 0], bins.centers[:, 0]
    weight, places, excess, warped = bins.weight, middle.copy(), bins.excess.copy(), bins.warped[:, 0].copy()
    for edge, sign in tails:
        beyond = (middle > edge) if sign > 0 else (middle < edge)
        near, far = (
            np.exp(-np.maximum(np.minimum(sign * (v - edge), TAIL_REACH * tail), 0.0) / tail) for v in (below, above)
        )
        weight = np.where(beyond, tail * np.abs(near - far), weight)
        places[beyond] = edge
        excess[beyond] = sign * (middle[beyond] - edge) / tail
        at_edge = float(np.interp(edge, middle, warped)) if sign > 0 else 1.0
        warped[beyond] = np.round(at_edge) - sign * np.expm1(-excess[beyond])
    ends = {sign: edge for edge, sign in tails}
    span = np.array([ends.get(1, above[-1]) - ends.get(-1, below[0])])
    return replace(
        bins,
        C=member * weight,
        weight=weight,
        span=span,
        places=places[:, None],
        excess=excess,
        warped=warped[:, None],
    )


def difference_nested(bins: CountBins, totals: FloatArray, of: str = "") -> tuple[CountBins, FloatArray] | None:
    """Replace every bin that holds others by what they leave of it.

    Given its parts, the count of a whole is that of the rest, so the likelihood is that of disjoint bins. Returns None when two
    bins overlap without one holding the other, or cells lie in a bin by a part.

    Parameters
    ----------
    totals : (B,)
    of : str
        Whose bins these are, for the error.

    Raises
    ------
    InputError
        When a whole is smaller than its parts, or has people where it has no cells left.

    Examples
    --------
    >>> bins, totals = difference_nested(bins_from_intervals([0, 0], [10, 4], cell=2), np.array([30.0, 9.0]))
    >>> (bins.C > 0).astype(int).tolist(), totals.tolist()
    ([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], [9.0, 21.0])
    """
    member = bins.C > 0
    if not np.isclose(bins.C, bins.weight)[member].all():
        return None
    common = member.astype(np.int64) @ member.T.astype(np.int64)
    size = np.diag(common)
    smaller = np.minimum(size[:, None], size[None, :])
    if not ((common == 0) | (common == smaller)).all():
        return None
    kept: list[tuple[BoolArray, float]] = []
    parts: list[int] = []  # the largest bins met so far, which the next one may hold
    for i in np.argsort(size, kind="stable"):
        inside = [j for j in parts if common[i, j] == size[j]]
        rest = member[i] & ~np.any(member[inside], axis=0) if inside else member[i]
        parted = float(totals[inside].sum())
        left = float(totals[i]) - parted
        if abs(left) <= ROUNDING * parted:  # sums of fractions
            left = 0.0
        if left < 0 or (left > 0 and not rest.any()):
            low, high = bins.lower[member[i]].min(axis=0), bins.upper[member[i]].max(axis=0)
            where = f"from {low[0]:g} to {high[0]:g}" if len(low) == 1 else f"from {low.tolist()} to {high.tolist()}"
            raise InputError(
                f"the bin {where}{of} counts {totals[i]:.15g}, and the bins inside it {parted:.15g}; a whole is the sum of its parts. "
                "Correct the totals, or drop the bin."
            )
        if rest.any():
            kept.append((rest, left))
        parts = [*(j for j in parts if j not in inside), int(i)]
    disjoint = bins.with_rows(np.array([rest for rest, _ in kept]) * bins.weight)
    return measured_in_bins(disjoint), np.array([left for _, left in kept])


def measured_in_bins(bins: CountBins) -> CountBins:
    """Measure the places of one axis in disjoint bins; leave others as they are."""
    if bins.n_axes > 1 or not bins.disjoint:
        return bins
    return replace(bins, warped=_in_runs(bins)[:, None])


def _in_runs(bins: CountBins) -> FloatArray:
    """Measure places in disjoint bins, a bin of several runs of cells counting once for each, (A,)."""
    where = bins.bin_of
    change = np.flatnonzero(np.diff(where)) + 1
    edges = np.concatenate([bins.lower[:1, 0], bins.lower[change, 0], bins.upper[-1:, 0]])
    return np.asarray(np.interp(bins.centers[:, 0], edges, np.arange(len(edges), dtype=np.float64)))


def _close(low: FloatArray, high: FloatArray, tail: float | None) -> list[tuple[float, int]]:
    """Give open bins an end, in place; list the edges where a tail begins, with its direction."""
    if tail is not None and not tail > 0:
        raise InputError(f"tail={tail!r} is not a positive length; pass the mean excess over the last finite edge.")
    tails = []
    for values, other, sign in ((low, high, -1), (high, low, 1)):
        open_ = values == sign * np.inf
        if not open_.any():
            continue
        if tail is None:
            raise InputError(
                "regions has an open end; pass tail=, the mean excess over its finite limit beforehand (about 6 years for people of 85 "
                "and over), or give the bin a finite limit beyond which there is nobody."
            )
        edge = float(other[open_].max() if sign > 0 else other[open_].min())
        values[open_] = edge + sign * TAIL_REACH * tail
        tails.append((edge, sign))
    if tail is not None and not tails:
        raise InputError(f"tail={tail!r} has no effect: no interval of regions has an open end; leave tail out.")
    return tails


def _check_covered(member: BoolArray) -> None:
    """Refuse a bin that no cell lies in: it is narrower than the limits of the others are told apart."""
    empty = ~member.any(axis=1)
    if empty.any():
        raise InputError(
            f"region {int(np.argmax(empty))} is narrower than a billionth of the range of all; drop it, or join it with its neighbor."
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
