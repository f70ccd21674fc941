"""Intervals on a line: age groups, income bands, times of exposure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.binned.regions.boxes import Boxes, check_limits, panel_rule, sine_integrals_1d
from crosslevel.data.checks import check_finite
from crosslevel.errors import InputError
from crosslevel.typing import ComplexArray, FloatArray, Int64Array

__all__ = ["Intervals"]


class Intervals(Regions):
    """Intervals [lower, upper) of a line.

    Parameters
    ----------
    lower, upper : (n,)
        Limits; they may leave gaps and may overlap, and come in any order.
    open_ended : bool
        Allow limits of -inf and inf: for counts only, and `BinnedGP.fit` must then be told the ``tail``.

    Examples
    --------
    >>> bins = Intervals([0, 10, 20], [10, 20, 35])
    >>> bins.volumes
    array([10., 10., 15.])
    >>> Intervals.from_edges([0, 10, 20, 35]).gaps()
    []
    >>> Intervals([0, 15], [10, 30]).gaps()
    [(10.0, 15.0)]
    """

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike, open_ended: bool = False) -> None:
        self.lower, self.upper = check_limits(lower, upper, 1, open_ended=open_ended)

    @property
    def open_ended(self) -> bool:
        """Whether an interval has no end."""
        return not bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

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

    @property
    def dimension(self) -> int:
        """One."""
        return 1

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def volumes(self) -> FloatArray:
        """Widths, (n,)."""
        return self.upper - self.lower

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
        """List neighbours in order of their lower limits that share a stretch, as pairs of row numbers."""
        order = np.argsort(self.lower, kind="stable")
        shared = np.flatnonzero(self.lower[order][1:] < self.upper[order][:-1])
        return [(int(order[i]), int(order[i + 1])) for i in shared]

    def pieces(self) -> Pieces:
        """Give each interval as one piece."""
        return self._boxes().pieces()

    def fourier_integrals(self, k: FloatArray) -> ComplexArray:
        """Integrate exponentials over every interval."""
        return self._boxes().fourier_integrals(k)

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Integrate sines over every interval in closed form."""
        return sine_integrals_1d(
            self.lower, self.upper, float(basis.centre[0]), float(basis.half_width[0]), basis.index[:, 0]
        )

    def quadrature(self, scale: FloatArray | None = None) -> Pieces:
        """Give Gauss-Legendre points on panels no wider than ``scale``."""
        return panel_rule(self.lower[:, None], self.upper[:, None], scale)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give the saved form."""
        return {"lower": self.lower, "upper": self.upper}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the intervals from their saved form."""
        return cls(arrays["lower"], arrays["upper"], open_ended=True)

    def _boxes(self) -> Boxes:
        return Boxes(self.lower[:, None], self.upper[:, None])

    def _take(self, rows: Int64Array) -> Self:
        return type(self)(self.lower[rows], self.upper[rows], open_ended=True)
