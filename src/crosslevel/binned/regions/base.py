"""Regions: intervals, boxes, polygons, simplices, points and weighted sums of these, as linear functionals of a function.

A *region* is a linear functional of the unknown function f: the integral of f over it (for a point, the value there). A
``Regions`` object holds n of them in d dimensions. A new type subclasses ``Regions`` and gives:

=====================================  ====================================================================================
``dimension``, ``__len__``, ``_take``  d, n, and the regions at an array of row numbers (indexing is built on it)
``volumes``                            (n,) the integral of 1: length, area, population for weights; 1 for a point, so that
                                       total, mean and density are one thing there
``bounds()``                           two (n, d) arrays: corners of boxes that hold the regions
``labels()``                           columns that name the rows in a table of results
=====================================  ====================================================================================

and two ways to integrate (it is a frozen dataclass of arrays and plain values, which is also what is saved):

(a) ``pieces(scale)``: for product kernels. The regions as signed, weighted sums of axis-aligned boxes, `Pieces`; along an axis a box may
    have no width, which means the value there, not an integral. Exact, whatever ``scale``; bodies of three dimensions and more are summed
    over points instead, for functions that change over ``scale`` (d,), and have no pieces without it. None where there is no such sum.
(b) ``sine_integrals(basis)``, (n, m): integrals of the Laplacian's eigenfunctions on a box (`SineBasis`); not of those bodies.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.data.checks import align_groups, check_one_order, names_of, row_keys, take_rows
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray, Int64Array, IntArray

_LIMIT = r"(-?(?:inf|\d+(?:\.\d+)?))"
_START = re.compile(rf"[(\[]?\s*{_LIMIT}\s*(?:[-–,+]|to\b|and\b)")
"""Where the text of an interval says that it starts: 20-39, [20, 40), 20 to 39, 80+."""
_BRACKETS = re.compile(rf"[(\[]\s*{_LIMIT}\s*,\s*{_LIMIT}\s*[)\]]")
"""An interval as pandas writes it."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
"""The commas of 1,000-1,999."""
NEAR = 0.2
"""Share of its width by which a named interval may miss its region: limits are rounded, and (4, 9] are the ages [5, 10)."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Regions as weighted sums of axis-aligned boxes: region i is the sum of ``weight[p]`` times piece p over ``owner[p] == i``.

    Attributes
    ----------
    lower, upper : (p, d)
        Corners; where the two are equal the piece is a point along that axis.
    weight : (p,)
        May be negative (holes).
    owner : (p,)
        Row number of the region, not decreasing.
    n : int
        Number of regions.

    Examples
    --------
    >>> p = Pieces.points([[0.0], [1.0], [5.0]], weight=[0.5, 0.5, 1.0], owner=[0, 0, 1], n=2)
    >>> p.gather(np.array([2.0, 4.0, 7.0]))
    array([3., 7.])
    """

    lower: FloatArray
    upper: FloatArray
    weight: FloatArray
    owner: Int64Array
    n: int

    @classmethod
    def points(cls, x: npt.ArrayLike, weight: npt.ArrayLike, owner: npt.ArrayLike, n: int) -> Pieces:
        """Make the pieces of a quadrature: points ``x`` (p, d) with their weights."""
        at = np.ascontiguousarray(x, dtype=np.float64)
        return cls(at, at, np.asarray(weight, dtype=np.float64), np.asarray(owner, dtype=np.int64), int(n))

    def __len__(self) -> int:
        return len(self.weight)

    def cut(self, start: int, stop: int, first: int = 0, n: int | None = None) -> Pieces:
        """Give the pieces from ``start`` to ``stop``, regions counted from ``first``, as those of ``n`` regions (all by default)."""
        rows = slice(start, stop)
        owner = self.owner[rows] - first
        return Pieces(self.lower[rows], self.upper[rows], self.weight[rows], owner, self.n if n is None else n)

    @cached_property
    def simple(self) -> bool:
        """Whether every region is one piece of weight 1, so that nothing has to be summed."""
        return (
            len(self) == self.n and bool((self.weight == 1.0).all()) and bool((self.owner == np.arange(self.n)).all())
        )

    def gather(self, values: FloatArray, axis: int = 0) -> FloatArray:
        """Sum values of pieces (along ``axis``) into values of regions."""
        if self.simple:
            return values
        from scipy.sparse import csr_array

        S = csr_array((self.weight, (self.owner, np.arange(len(self)))), shape=(self.n, len(self)))
        if values.ndim == 1:
            return np.asarray(S @ values)
        return np.asarray(S @ values) if axis == 0 else np.ascontiguousarray((S @ values.T).T)


@dataclass(frozen=True, eq=False)
class SineBasis:
    """Eigenfunctions of the Laplacian on a box, zero at its border: products of sines.

    phi_j(x) = prod_d half_width_d^(-1/2) sin(w_jd (x_d - center_d + half_width_d)),  w_jd = pi index_jd / (2 half_width_d).

    Attributes
    ----------
    center, half_width : (d,)
        The box is center ± half_width.
    index : (m, d)
        Whole numbers from 1.

    Examples
    --------
    >>> basis = SineBasis(np.zeros(1), np.ones(1), np.array([[1], [2]]))
    >>> basis.frequencies.round(3).tolist()
    [[1.571], [3.142]]
    >>> basis.values(np.array([[0.0]])).round(3)
    array([[1., 0.]])
    """

    center: FloatArray
    half_width: FloatArray
    index: Int64Array

    def __len__(self) -> int:
        return len(self.index)

    @property
    def frequencies(self) -> FloatArray:
        """w, (m, d); the spectral density of a kernel is taken here."""
        return np.pi * self.index / (2.0 * self.half_width)

    def values(self, x: FloatArray) -> FloatArray:
        """Evaluate at the rows of ``x`` (n, d): (n, m)."""
        out = np.ones((len(x), len(self)))
        for d in range(len(self.center)):
            at = x[:, d] - self.center[d] + self.half_width[d]
            out *= np.sin(at[:, None] * self.frequencies[:, d]) / np.sqrt(self.half_width[d])
        return out


class Regions(ABC):
    """Base of every kind of region; see the text of this module for what a kind must give."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of axes, d."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def volumes(self) -> FloatArray:
        """Integral of 1 over each region, (n,)."""

    @abstractmethod
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give lower and upper corners of a box around each region, (n, d) each."""

    @abstractmethod
    def labels(self) -> dict[str, Any]:
        """Give the columns that name the regions in a table."""

    @abstractmethod
    def _take(self, rows: Int64Array) -> Self:
        """Give the regions at these row numbers."""

    def pieces(self, scale: FloatArray | None = None) -> Pieces | None:
        """Give the regions as sums of boxes, where they are such sums."""
        return None

    @abstractmethod
    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Integrate the functions of ``basis`` over every region, (n, m)."""

    def _set(self, **fields: Any) -> None:
        """Set fields of a frozen dataclass while it is made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __getitem__(self, index: Any) -> Self:
        if isinstance(index, tuple):  # scikit-learn's splitters may write regions[rows, ...]
            index = index[0]
        rows = np.arange(len(self))[index]
        return self._take(np.atleast_1d(rows).astype(np.int64))

    def __repr__(self) -> str:
        n, d = len(self), self.dimension
        return f"<{type(self).__name__}: {n:,} region{'s' * (n != 1)} in {d} dimension{'s' * (d != 1)}>"


def distinct_labels(labels: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Give key columns that tell rows apart, with a row number where the labels do not, and a name for each row.

    Examples
    --------
    >>> distinct_labels({"point": [3.0, 3.0]})
    ({'row': array([0, 1]), 'point': [3.0, 3.0]}, [3.0, 3.0])
    """
    rows = list(zip(*(np.asarray(v).tolist() for v in labels.values()), strict=True))
    numbered = {} if len(set(rows)) == len(rows) else {"row": np.arange(len(rows))}
    return {**numbered, **labels}, [r[0] if len(r) == 1 else r for r in rows]


def align_to_regions(
    regions: Regions, y: Any, *, argument: str = "y", points: list[Any] | None = None, **others: Any
) -> tuple[Any, ...]:
    """Put what is told of regions in their order: by the names of polygons or age groups, or, without names, by the index of y.

    ``points`` is the index of a frame or Series of points, by which all is matched.

    Examples
    --------
    >>> import pandas as pd
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> bins = Intervals([0, 10], [10, 30])
    >>> y, people = pd.Series([3, 4], index=["old", "young"]), pd.Series([90, 80], index=["young", "old"])
    >>> [values.tolist() for values in align_to_regions(bins, y, exposure=people)]
    [[3, 4], [80, 90]]
    >>> align_to_regions(Intervals.ages(["0-17", "18-99"]), pd.Series([7, 2], index=["18-99", "0-17"]))[0].tolist()
    [2, 7]
    >>> align_to_regions(bins, pd.Series([4, 3], index=[10, 0]))[0].tolist()
    [3, 4]
    """
    given = {argument: y, **others}
    if points is not None:
        return tuple(align_groups(values, points, name) for name, values in given.items())
    own = set(row_keys(y) or ())  # what has the index of y follows y
    rows = {
        name: None if name != argument and own and set(row_keys(v) or ()) == own else _by_limits(regions, v, name)
        for name, v in given.items()
    }
    found = {name: v if rows[name] is None else np.asarray(v)[rows[name]] for name, v in given.items()}
    order = rows[argument]
    keys = row_keys(y if order is None else take_rows(y, order))
    names = None if getattr(regions, "names", None) is None else [name_text(name) for name in regions.names]  # type: ignore[attr-defined]
    if names is None or (regions.dimension == 1 and len(set(names)) < len(names)):  # age groups of several areas
        if keys is None:
            check_one_order(found)
        return tuple(align_groups(values, keys, name) for name, values in found.items())
    if regions.dimension > 1:
        return tuple(align_groups(_named_by_text(v, names, name), names, name) for name, v in found.items())
    rest = names if _carries(found[argument], names) else keys
    return tuple(
        align_groups(_with_text(v), names, name) if _carries(v, names) else align_groups(v, rest, name)
        for name, v in found.items()
    )


def _by_limits(regions: Regions, values: Any, argument: str) -> IntArray | None:
    """Find the rows, in the order of the regions, of values whose index are the intervals themselves or their limits; None if not."""
    keys, names = names_of(values), [name_text(name) for name in getattr(regions, "names", None) or ()]
    if keys is None or np.ndim(values) != 1 or len(keys) != len(regions) or regions.dimension > 1:
        return None
    if names and len(set(names)) == len(names) and _carries(values, names):
        return None
    limits = np.hstack(regions.bounds())
    text = [k.strip() if isinstance(k, str) else "" for k in keys]
    text = [t if t[:1] in ("(", "[") else _THOUSANDS.sub("", t) for t in text]
    cut, starts = [_BRACKETS.fullmatch(t) for t in text], [_START.match(t) for t in text]
    near, sides = np.zeros(len(keys)), [[0], [1]]
    bins = all(cut) or all(isinstance(getattr(k, "left", None), Real) for k in keys)
    if bins:  # the right ends before the left ones: pandas.cut moves the first left one, to include it
        told = [m.groups() if m else (k.left, k.right) for k, m in zip(keys, cut, strict=True)]
        near, sides = NEAR * np.where(np.isinf(regions.volumes), 0.0, regions.volumes), [[0, 1], [1], [0]]
    elif all(starts):
        told, sides = [(m[1], m[1]) for m in starts if m], [[0]]
    elif all(type(k) in (int, float) for k in keys):
        told = [(k, k) for k in keys]
    else:
        return None
    numbers = np.array(told, dtype=np.float64)
    counts = all(type(k) is int and 0 <= k <= 2 * len(keys) for k in keys) and values.index.name is None
    for side in sides:
        ends, found = limits[:, side], numbers[:, side]
        if np.isclose(found, ends, rtol=0, atol=near[:, None]).all():
            return np.arange(len(keys))
        to, of = np.lexsort(ends.T), np.lexsort(found.T)
        if np.isclose(found[of], ends[to], rtol=0, atol=near[to, None]).all():
            if counts:  # numbers of the rows of a frame, or of half of it
                raise InputError(
                    f"{argument} has the index {listed(keys, 3)}, without a name, which may be the limits of the regions or numbers of "
                    f"rows. Pass {argument}.to_numpy() if its rows are in the order of the regions; if they are limits, name the index: "
                    f"{argument}.rename_axis('lower')."
                )
            if len(np.unique(ends, axis=0)) == len(ends):
                return of[np.argsort(to)]
            bins = True
    if bins:
        raise InputError(
            f"{argument} is named by the intervals {listed(keys, 3)}, which are not those of the regions, each once (limits "
            f"{listed(limits.tolist(), 3)}); make both from the same limits, or pass an array in the order of the regions."
        )
    return None


def name_text(name: Any) -> str:
    """Write a name as text, a whole number without its point.

    Examples
    --------
    >>> name_text(30.0), name_text(" 18-24 ")
    ('30', '18-24')
    """
    value = name.as_py() if hasattr(name, "as_py") else name
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return f"{value:.0f}" if whole else str(value).strip()


def _carries(values: Any, names: list[str]) -> bool:
    """Tell whether values are told of by age group: a key column, an index of text, or the ages themselves in any order."""
    if isinstance(values, Mapping) or getattr(values, "shape", ())[1:] == (2,):
        return True
    keys = names_of(values)
    return keys is not None and (any(isinstance(k, str) for k in keys) or {name_text(k) for k in keys} == set(names))


def _named_by_text(values: Any, names: list[str], argument: str) -> Any:
    """Write the index of a Series as text, as the names of polygons are; one that only counts stays where no name is its number."""
    keys = row_keys(values)
    if keys is None:
        return values
    counting = [str(i) for i in range(len(keys))]
    if [name_text(k) for k in keys] == counting and (names == counting or set(names) != set(counting)):
        return values
    if names_of(values) is None:
        raise InputError(
            f"{argument} has an index that only counts from 0, and the polygons are named by the same numbers in another order "
            f"({listed(names, 3)}). Pass {argument}.to_numpy() if its rows are in the order of the polygons; if its index are their "
            "names, name or sort it so."
        )
    return _with_text(values)


def _with_text(values: Any) -> Any:
    """Write the index of a Series as text."""
    keys = row_keys(values)
    return values if keys is None else values.set_axis([name_text(k) for k in keys], axis=0)
