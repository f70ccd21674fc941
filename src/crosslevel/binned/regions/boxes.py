"""Intervals, boxes with sides along the axes, and points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis, name_text
from crosslevel.data.checks import align_rows, as_numbers, check_finite, check_whole, names_of, row_keys
from crosslevel.data.signatures import check_arguments
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import BoolArray, FloatArray, Int64Array

QUANTITIES = ("total", "mean", "rate")
"""What y may be."""
PREDICTED = (*QUANTITIES, "density")
"""What may be predicted; a density over a region is its mean."""
MOST_YEARS = 10_000
"""No age is older, and no year later."""
AGE_WORDS = (
    (r"\b(?:aged?|ages|years?|yrs?|old)\b", ""),
    (r"\b(?:and|or)\s+(?:over|older|above|more)\b|\bplus\b", "+"),
    (r"\b(?:under|below|less\s+than)\b", "<"),
    (r"\b(?:to|and)\b|[–—]", "-"),
    (r"\s+", ""),
)
"""Words of published age groups, and the signs that stand for them."""
_AGES = re.compile(r"(\d+)(?:(\+)|-(<?)(\d+))?|<(\d+)")


class _Sided(Regions):
    """Regions with sides along the axes: everything follows from ``bounds()``, where an axis without width is a point."""

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return int(self.bounds()[0].shape[1])

    def __len__(self) -> int:
        return len(self.bounds()[0])

    @property
    def volumes(self) -> FloatArray:
        """Products of the widths, (n,); an axis without width counts 1, so that total, mean and density of a point are its value."""
        lower, upper = self.bounds()
        return np.asarray(np.prod(np.where(upper > lower, upper - lower, 1.0), axis=1))

    def pieces(self, scale: FloatArray | None = None) -> Pieces:
        """Give each region as one piece."""
        n = len(self)
        return Pieces(*self.bounds(), np.ones(n), np.arange(n, dtype=np.int64), n)

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Integrate sines in closed form, each frequency of an axis once; where there is no width, evaluate them."""
        out = np.ones((1, 1))
        lower, upper = self.bounds()
        for d in range(self.dimension):
            index, where = np.unique(basis.index[:, d], return_inverse=True)
            sides, rows = np.unique(np.stack([lower[:, d], upper[:, d]]), axis=1, return_inverse=True)
            one = _sine_integrals(sides[0], sides[1], float(basis.center[d]), float(basis.half_width[d]), index)
            whole = len(index) == len(where) and bool((where == np.arange(len(where))).all())
            part = one[rows.ravel()] if whole else one[rows.ravel()[:, None], where]
            out = part if d == 0 else out * part
        return out


@dataclass(frozen=True, eq=False, repr=False)
class Boxes(_Sided):
    """Boxes in d dimensions: products of intervals.

    Parameters
    ----------
    lower, upper : (n, d)
        Limits; every lower one must be less than its upper one. The index of a frame names the boxes.
    point_axes : sequence of int, optional
        Axes along which a box is a slice at ``lower`` = ``upper``, not an interval: a coded gender, a year.

    Examples
    --------
    >>> ages = Boxes([[0, 20.0], [1, 20.0]], [[0, 30.0], [1, 35.0]], point_axes=[0])
    >>> ages.volumes
    array([10., 15.])
    >>> ages
    <Boxes: 2 regions in 2 dimensions>
    """

    lower: Any
    upper: Any
    point_axes: Sequence[int] = ()
    names: list[str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        lower, upper = _check_limits(self.lower, self.upper, 2, self.point_axes)
        names = [name_text(name) for name in names_of(self.lower) or ()] or None
        self._set(lower=lower, upper=upper, point_axes=tuple(int(a) for a in self.point_axes), names=names)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the limits."""
        return self.lower, self.upper

    def labels(self) -> dict[str, Any]:
        """Name the boxes by their limits: lower_0, upper_0, lower_1, ... ."""
        out: dict[str, Any] = {}
        for d in range(self.dimension):
            out |= {f"lower_{d}": self.lower[:, d], f"upper_{d}": self.upper[:, d]}
        return out

    def _take(self, rows: Int64Array) -> Self:
        found = replace(self, lower=self.lower[rows], upper=self.upper[rows])
        found._set(names=None if self.names is None else [self.names[i] for i in rows])
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(_Sided):
    """Intervals [lower, upper) of a line: age groups, income bands, times of exposure.

    Parameters
    ----------
    lower, upper : (n,)
        Limits; they may leave gaps and may overlap, and come in any order. The index of a Series names the intervals.
    open_ended : bool
        The first or last interval may have no end, its outer limit missing (None) or infinite: for `BinnedCountGP` only, whose fit then
        needs ``tail``. Afterwards it says whether an interval has no end.

    Examples
    --------
    >>> bins = Intervals([0, 10, 20], [10, 20, 35])
    >>> bins.volumes
    array([10., 10., 15.])
    >>> Intervals.from_edges([0, 10, 20, 35]).gaps()
    []
    >>> Intervals([0, 15], [10, 30]).gaps()
    [(10.0, 15.0)]
    >>> Intervals([0, 65, 85], [65, 85, None], open_ended=True).upper
    array([65., 85., inf])
    """

    lower: Any
    upper: Any
    open_ended: bool = False
    names: list[str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.open_ended, bool):
            check_arguments(Intervals.__init__, {"open_ended": self.open_ended})
        lower, upper = _check_limits(self.lower, self.upper, 1, open_ended=self.open_ended)
        finite = bool(np.isfinite(lower).all() and np.isfinite(upper).all())
        names = [name_text(name) for name in names_of(self.lower) or ()] or None
        self._set(lower=lower, upper=upper, open_ended=not finite, names=names)

    @classmethod
    def from_edges(cls, edges: npt.ArrayLike) -> Self:
        """Make the bins between consecutive edges."""
        e = check_finite(edges, "edges", 1)
        if len(e) < 2:
            raise InputError(f"edges has {len(e)} value(s); one bin needs two.")
        if (np.diff(e) <= 0).any():
            i = int(np.argmax(np.diff(e) <= 0))
            raise InputError(f"edges must increase; edge {i + 1} ({e[i + 1]:g}) does not exceed edge {i} ({e[i]:g}).")
        return cls(e[:-1], e[1:])

    @classmethod
    def single_years(cls, first: int, last: int) -> Self:
        """Make an interval for each year of age from ``first`` up to, and without, ``last``.

        Examples
        --------
        >>> Intervals.single_years(0, 3).upper
        array([1., 2., 3.])
        """
        check_whole(last, "last", check_whole(first, "first", 0, MOST_YEARS) + 1, MOST_YEARS)
        return cls.from_edges(np.arange(first, last + 1, dtype=np.float64))

    def years(self) -> Self:
        """Give every single year between the finite limits, and an open end as it is.

        Examples
        --------
        >>> found = Intervals.ages(["0-1", "2-3", "4+"]).years()
        >>> found.lower, found.upper
        (array([0., 1., 2., 3., 4.]), array([ 1.,  2.,  3.,  4., inf]))
        """
        limits = np.concatenate([self.lower, self.upper])
        finite = limits[np.isfinite(limits)]
        edges = np.arange(np.ceil(finite.min()), np.floor(finite.max()) + 1.0)
        if not 2 <= len(edges) <= MOST_YEARS:
            raise InputError(
                f"the regions run from {finite.min():g} to {finite.max():g}, which are no years of age; pass the regions asked for."
            )
        edges = np.concatenate([np.unique(limits[np.isneginf(limits)]), edges, np.unique(limits[np.isposinf(limits)])])
        return type(self)(edges[:-1], edges[1:], open_ended=True)

    @classmethod
    def ages(cls, groups: Any) -> Self:
        """Read age groups as tables publish them, in whole years with both ends included: "18-25" is [18, 26).

        Parameters
        ----------
        groups : text, whole number, or a sequence of these
            "18-25", "18 to 25 years", "18 and 19", "30" (one year of age), "under 5" (from 0 on), "85+" and "85 and over" (without
            an end, for `BinnedCountGP`). "18 to under 25" is [18, 25). What is told of them later, as a Series with these groups for
            its index, is matched by them.

        Examples
        --------
        >>> found = Intervals.ages(["under 5", "5-9", "10 to 14 years", "15", "85+"])
        >>> found.lower, found.upper
        (array([ 0.,  5., 10., 15., 85.]), array([ 5., 10., 15., 16., inf]))
        """
        several = [groups] if isinstance(groups, str) or not isinstance(groups, Iterable) else list(groups)
        limits = [read_age(group, f"groups[{i}]") for i, group in enumerate(several)]
        if not limits:
            raise InputError("groups is empty; pass at least one age group, such as '18-25'.")
        lower, upper = np.array(limits).T
        found = cls(lower, upper, open_ended=True)
        found._set(names=[name_text(group) for group in several])
        return found

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the limits, (n, 1) each."""
        return self.lower[:, None], self.upper[:, None]

    def labels(self) -> dict[str, Any]:
        """Name the intervals by ``lower`` and ``upper``."""
        return {"lower": self.lower, "upper": self.upper}

    def gaps(self) -> list[tuple[float, float]]:
        """List the stretches between the least and the greatest limit that no interval covers."""
        order = np.argsort(self.lower, kind="stable")
        reach = np.maximum.accumulate(self.upper[order])[:-1]
        start = self.lower[order][1:]
        return [(float(a), float(b)) for a, b in zip(reach, start, strict=True) if b > a]

    def overlaps(self) -> list[tuple[int, int]]:
        """List neighbors in order of their lower limits that share a stretch, as pairs of row numbers."""
        order = np.argsort(self.lower, kind="stable")
        shared = np.flatnonzero(self.lower[order][1:] < self.upper[order][:-1])
        return [(int(order[i]), int(order[i + 1])) for i in shared]

    def _take(self, rows: Int64Array) -> Self:
        found = type(self)(self.lower[rows], self.upper[rows], open_ended=True)
        found._set(names=None if self.names is None else [self.names[i] for i in rows])
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Points(_Sided):
    """Points in d dimensions: regions without extent, whose total is the value there.

    Parameters
    ----------
    x : (n,) or (n, d)

    Examples
    --------
    >>> Points([20.0, 30.0])
    <Points: 2 regions in 1 dimension>
    """

    x: Any

    def __post_init__(self) -> None:
        at = check_finite(self.x, "points")
        if np.ndim(self.x) == 0 or at.ndim > 2:
            raise InputError(
                f"points has shape {np.shape(self.x)}; pass one number or one row of coordinates per point."
            )
        if not len(at):
            raise InputError("points is empty; pass at least one.")
        self._set(x=at[:, None] if at.ndim == 1 else at)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the points twice."""
        return self.x, self.x

    def labels(self) -> dict[str, Any]:
        """Name the points by ``point``, or ``point_0``, ``point_1``, ... ."""
        if self.dimension == 1:
            return {"point": self.x[:, 0]}
        return {f"point_{d}": self.x[:, d] for d in range(self.dimension)}

    def _take(self, rows: Int64Array) -> Self:
        return type(self)(self.x[rows])


def as_regions(regions: Any, argument: str = "regions", dimension: int | None = None) -> Regions:
    """Take regions as they are and arrays as points; refuse a wrong number of dimensions.

    Examples
    --------
    >>> as_regions([1.0, 2.0])
    <Points: 2 regions in 1 dimension>
    """
    if isinstance(regions, Regions):
        found = regions
    elif isinstance(regions, tuple):
        raise InputError(f"{argument} is a tuple; pass Intervals(lower, upper) for bins, or an array for points.")
    else:
        try:
            found = Points(regions)
        except InputError as error:
            ages = isinstance(regions, Iterable) and any(isinstance(one, str) for one in regions)
            repair = " Age groups as text are Intervals.ages(...)." if ages else ""
            raise InputError(
                f"{argument} is neither regions (Intervals, Boxes, Polygons, ...) nor an array of points: {error}{repair}"
            ) from error
    if dimension is not None and found.dimension != dimension:
        raise InputError(
            f"{argument} has {found.dimension} dimension(s) and the model was fitted in {dimension}; pass regions or points there."
        )
    return found


def scale_of(regions: Regions, quantity: str) -> FloatArray:
    """Give what integrals over the regions are multiplied by, (n,)."""
    if quantity not in PREDICTED:
        raise unknown_name("quantity", quantity, PREDICTED, "quantity")
    if isinstance(regions, Intervals) and regions.open_ended:
        raise InputError(
            "regions has an interval without end, and the Gaussian model needs one: give a finite limit beyond which there is nothing, "
            "such as upper=105 for the last age group, or fit counts with BinnedCountGP and tail=."
        )
    if quantity == "total":
        return np.ones(len(regions))
    volume = regions.volumes
    if (volume == 0).any():
        i = int(np.argmax(volume == 0))
        raise InputError(
            f"region {i} has volume (or population) 0, so it has no {quantity}; use quantity='total' or drop it."
        )
    return 1.0 / volume


def describe_layout(regions: Regions) -> tuple[str, ...]:
    """Say where observed intervals leave gaps and where they overlap; both are allowed, and may be a mistake."""
    if not isinstance(regions, Intervals):
        return ()
    said = []
    gaps, overlaps = regions.gaps(), regions.overlaps()
    if gaps:
        said.append(
            f"{len(gaps)} gap(s) between intervals, first from {gaps[0][0]:g} to {gaps[0][1]:g}: the curve is inferred there. If groups "
            "were written 0-9, 10-19, their upper limits are 10 and 20: Intervals.ages reads them so."
        )
    if overlaps:
        i, j = overlaps[0]
        said.append(
            f"{len(overlaps)} overlap(s), first rows {i} and {j} ([{regions.lower[i]:g}, {regions.upper[i]:g}) and "
            f"[{regions.lower[j]:g}, {regions.upper[j]:g})): both totals are taken to count the people they share."
        )
    return tuple(said)


def _sine_integrals(s: FloatArray, t: FloatArray, center: float, half_width: float, index: Int64Array) -> FloatArray:
    """Integrate L^(-1/2) sin(w_j (x - center + L)) over [s, t], (n, m); where s = t, evaluate there.

    The difference of cosines is taken as a product, width times sinc times the sine at the middle, which keeps narrow bins exact.
    """
    w = np.pi * index / (2.0 * half_width)
    width, middle = t - s, s + 0.5 * (t - s)
    out = np.sin(np.outer(middle - center + half_width, w))
    if (width > 0).any():
        out *= np.sinc(np.outer(width, w) / (2.0 * np.pi))
    return out * (np.where(width > 0, width, 1.0) / np.sqrt(half_width))[:, None]


def read_age(group: Any, argument: str) -> tuple[float, float]:
    """Read one age group: its first year, and the one after its last."""
    value = group.as_py() if hasattr(group, "as_py") else group
    text = f"{value:g}" if isinstance(value, float) else str(value).lower()
    for words, sign in AGE_WORDS:
        text = re.sub(words, sign, text)
    found = _AGES.fullmatch(text)
    if found is None:
        raise InputError(
            f"{argument}={value!r} is no age group; write whole years with both ends included, such as '18-25', '30', '85+' or "
            "'under 5'. Other limits are Intervals(lower, upper)."
        )
    first, open_, short, last, under = found.groups()
    low = 0.0 if first is None else float(first)
    high = np.inf if open_ else float(under or last or first) + (not under and not short)
    if not low < high:
        raise InputError(f"{argument}={value!r} ends before it begins; write the smaller age first.")
    return low, high


def _check_limits(
    lower: npt.ArrayLike, upper: npt.ArrayLike, ndim: int, point_axes: Sequence[int] = (), open_ended: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Refuse limits that are missing, infinite, reversed or equal, naming the first."""
    upper = align_rows(upper, row_keys(lower), "upper")
    s, t = as_numbers(lower, "lower", ndim), as_numbers(upper, "upper", ndim)
    if s.shape != t.shape:
        raise InputError(f"lower has shape {s.shape} and upper {t.shape}; pass one of each per region.")
    if not len(s):
        raise InputError("lower and upper are empty; pass at least one region.")
    if open_ended:  # the usual way to write an open bin
        first, last = np.isnan(s) & (t <= np.fmin.reduce(t)), np.isnan(t) & (s >= np.fmax.reduce(s))
        s, t = np.where(first, -np.inf, s), np.where(last, np.inf, t)
    for argument, x in (("lower", s), ("upper", t)):
        bad = np.isnan(x) if open_ended else ~np.isfinite(x)
        if bad.any():
            raise InputError(
                f"{argument} is missing in row {_first(bad)}, or infinite: give a finite limit beyond which there is nothing, such as 105 "
                "years. Counts may keep an open end: Intervals(..., open_ended=True), or Intervals.ages(['85+']), and fit(..., tail=)."
            )
    if (s > t).any():
        i = _first(s > t)
        raise InputError(
            f"lower exceeds upper, first in row {i} ({_row(s, i)} > {_row(t, i)}); pass the smaller limit first: (min, max)."
        )
    flat, axes = s == t, list(point_axes)
    if axes:
        if not all(isinstance(axis, Integral) and 0 <= axis < s.shape[1] for axis in axes) or not flat[:, axes].all():
            raise InputError(
                f"point_axes={axes!r} must be numbers of axes along which lower equals upper in every row."
            )
        flat[:, axes] = False
    if flat.any():
        i = _first(flat)
        raise InputError(
            f"lower equals upper in row {i} ({_row(s, i)}): a region without width has no total. Pass a point as a plain array, "
            "give the region its width (an age of 30 is [30, 31)), or name a sliced axis in Boxes(point_axes=)."
        )
    return s, t


def _first(bad: BoolArray) -> int:
    return int(np.argwhere(bad)[0][0])


def _row(x: FloatArray, row: int) -> str:
    return f"{x[row]:g}" if x.ndim == 1 else str(x[row].tolist())
