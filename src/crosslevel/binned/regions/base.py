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

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.typing import FloatArray, Int64Array


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
