"""Weighted sums of regions, and several kinds of regions in a row.

Find the area that holds a place, and weight areas by the people in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.binned.regions.boxes import Points, as_regions, scale_of
from crosslevel.data.checks import check_counts, check_finite, check_length
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, Int64Array


@dataclass(frozen=True, eq=False, repr=False)
class WeightedSum(Regions):
    """Sums of parts with weights: region j is the sum of ``weights[i]`` times part i over the parts with ``owner[i] == j``.

    With ``weights`` the population density of each part, a region's total is the integral of f over its people, its volume is
    its population, and its mean the average of f over them.

    Parameters
    ----------
    parts : Regions or array of points
    weights : (p,)
    owner : (p,), optional
        Row number of the region that each part belongs to, 0 to n - 1; all to one region when not given.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> wards = Intervals.from_edges([0.0, 1.0, 3.0, 4.0])
    >>> towns = WeightedSum.of_population(wards, [100, 300, 50], owner=[0, 0, 1])
    >>> towns.volumes
    array([400.,  50.])
    """

    parts: Any
    weights: Any
    owner: Any = None

    def __post_init__(self) -> None:
        parts = as_regions(self.parts, "parts")
        weights = check_finite(self.weights, "weights", 1)
        own = np.zeros(len(parts)) if self.owner is None else check_finite(self.owner, "owner", 1)
        check_length(weights, "weights", len(parts), "parts")
        check_length(own, "owner", len(parts), "parts")
        if (own != np.round(own)).any() or (own < 0).any():
            raise InputError("owner must hold row numbers of regions, whole and from 0.")
        missing = np.setdiff1d(np.arange(int(own.max()) + 1), own)
        if len(missing):
            raise InputError(f"owner skips region {missing[0]:g}; number the regions from 0 without gaps.")
        order = np.argsort(own, kind="stable")
        if (order != np.arange(len(order))).any():
            parts, weights, own = parts[order], weights[order], own[order]
        self._set(parts=parts, weights=weights, owner=own.astype(np.int64))

    @classmethod
    def of_population(cls, parts: Any, population: npt.ArrayLike, owner: npt.ArrayLike | None = None) -> Self:
        """Weight the parts so that each counts as many people as it has, spread evenly over it."""
        found = as_regions(parts, "parts")
        people = check_counts(population, "population", 1)
        check_length(people, "population", len(found), "parts")
        return cls(found, people / found.volumes, owner)

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return int(self.parts.dimension)

    def __len__(self) -> int:
        return int(self.owner[-1]) + 1

    @property
    def volumes(self) -> FloatArray:
        """Weighted volumes, (n,)."""
        return np.asarray(np.bincount(self.owner, self.weights * self.parts.volumes, len(self)), dtype=np.float64)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give boxes around the parts."""
        lower, upper = self.parts.bounds()
        return np.minimum.reduceat(lower, self._first()), np.maximum.reduceat(upper, self._first())

    def labels(self) -> dict[str, Any]:
        """Number the regions."""
        return {"region": np.arange(len(self))}

    def pieces(self, scale: FloatArray | None = None) -> Pieces | None:
        """Give the pieces of the parts with their weights."""
        found = self.parts.pieces(scale)
        if found is None:
            return None
        weight = found.weight * self.weights[found.owner]
        return Pieces(found.lower, found.upper, weight, self.owner[found.owner], len(self))

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Sum the integrals of the parts."""
        return np.add.reduceat(self.weights[:, None] * self.parts.sine_integrals(basis), self._first(), axis=0)

    def _first(self) -> Int64Array:
        return np.flatnonzero(np.diff(self.owner, prepend=-1)).astype(np.int64)

    def _take(self, rows: Int64Array) -> Self:
        picked = [np.flatnonzero(self.owner == r) for r in rows]
        parts = np.concatenate(picked)
        return type(self)(
            self.parts[parts], self.weights[parts], np.repeat(np.arange(len(rows)), [len(p) for p in picked])
        )


@dataclass(frozen=True, eq=False, repr=False)
class Stack(Regions):
    """Several kinds of regions in a row, of the same dimension; see :func:`stack`."""

    members: Sequence[Regions]

    def __post_init__(self) -> None:
        self._set(members=tuple(self.members))
        if not self.members:
            raise InputError("stack() got nothing; pass at least one set of regions.")
        dimensions = [m.dimension for m in self.members]
        if len(set(dimensions)) > 1:
            raise InputError(f"regions of {dimensions} dimensions cannot be stacked; bring them into one space.")

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return self.members[0].dimension

    def __len__(self) -> int:
        return int(self._starts()[-1])

    @property
    def volumes(self) -> FloatArray:
        """Volumes of the members in a row."""
        return np.concatenate([m.volumes for m in self.members])

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the bounds of the members in a row."""
        lower, upper = zip(*(m.bounds() for m in self.members), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    def labels(self) -> dict[str, Any]:
        """Number the regions, and say of what kind each is."""
        kinds = [type(m).__name__.lower() for m in self.members for _ in range(len(m))]
        return {"region": np.arange(len(self)), "shape": kinds}

    def pieces(self, scale: FloatArray | None = None) -> Pieces | None:
        """Give the pieces of the members in a row."""
        found = [p for m in self.members if (p := m.pieces(scale)) is not None]
        if len(found) < len(self.members):
            return None
        lower, upper, weight = (np.concatenate([getattr(f, n) for f in found]) for n in ("lower", "upper", "weight"))
        owner = np.concatenate([f.owner + s for f, s in zip(found, self._starts()[:-1], strict=True)])
        return Pieces(lower, upper, weight, owner, len(self))

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Give the integrals of the members in a row."""
        return np.concatenate([m.sine_integrals(basis) for m in self.members])

    def _starts(self) -> Int64Array:
        return np.append(0, np.cumsum([len(m) for m in self.members]))

    def _take(self, rows: Int64Array) -> Self:
        starts = self._starts()
        which = np.searchsorted(starts[1:], rows, side="right")
        runs = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(which)) + 1)
        return type(self)([self.members[which[r[0]]][rows[r] - starts[which[r[0]]]] for r in runs])


def stack(*regions: Any) -> Stack:
    """Put several kinds of regions, or points, in a row: observations of points and of areas together.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> both = stack(Intervals([0, 5], [5, 10]), [2.0, 7.0, 8.0])
    >>> len(both), both.volumes.tolist()
    (5, [5.0, 5.0, 1.0, 1.0, 1.0])
    """
    return Stack([as_regions(r, f"regions[{i}]") for i, r in enumerate(regions)])


def default_scale(regions: Regions, quantity: str | None, fitted: str) -> FloatArray:
    """Give what integrals are multiplied by; without a quantity, density at points and the quantity of fit at regions."""
    if quantity is not None:
        return scale_of(regions, quantity)
    if isinstance(regions, Stack):
        return np.concatenate([default_scale(m, None, fitted) for m in regions.members])
    return scale_of(regions, "density" if isinstance(regions, Points) else fitted)
