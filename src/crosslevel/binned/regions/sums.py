"""Weighted sums of regions, and several kinds of regions in a row."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.binned.regions.points import as_regions
from crosslevel.data.checks import check_finite
from crosslevel.errors import InputError
from crosslevel.typing import ComplexArray, FloatArray, Int64Array

__all__ = ["Stack", "WeightedSum", "from_arrays", "stack", "to_arrays"]

_HOMES = {
    "Intervals": "crosslevel.binned.regions.intervals",
    "Boxes": "crosslevel.binned.regions.boxes",
    "Points": "crosslevel.binned.regions.points",
    "WeightedSum": "crosslevel.binned.regions.sums",
    "Stack": "crosslevel.binned.regions.sums",
    "Polygons": "crosslevel.binned.regions.polygons",
    "Simplices": "crosslevel.binned.regions.simplices",
}
"""Name of a kind of regions -> the module that defines it; the names are written into saved models."""


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
    >>> from crosslevel.binned.regions.intervals import Intervals
    >>> wards = Intervals.from_edges([0.0, 1.0, 3.0, 4.0])
    >>> towns = WeightedSum.of_population(wards, [100, 300, 50], owner=[0, 0, 1])
    >>> towns.volumes
    array([400.,  50.])
    """

    def __init__(self, parts: Any, weights: npt.ArrayLike, owner: npt.ArrayLike | None = None) -> None:
        self.parts = as_regions(parts, "parts")
        self.weights = check_finite(weights, "weights", 1)
        own = np.zeros(len(self.parts)) if owner is None else check_finite(owner, "owner", 1)
        for argument, x in (("weights", self.weights), ("owner", own)):
            if len(x) != len(self.parts):
                raise InputError(f"{argument} has {len(x):,} values for {len(self.parts):,} parts; pass one per part.")
        if (own != np.round(own)).any() or (own < 0).any():
            raise InputError("owner must hold row numbers of regions, whole and from 0.")
        missing = np.setdiff1d(np.arange(int(own.max()) + 1), own)
        if len(missing):
            raise InputError(f"owner skips region {missing[0]:g}; number the regions from 0 without gaps.")
        order = np.argsort(own, kind="stable")
        if (order != np.arange(len(order))).any():
            self.parts, self.weights, own = self.parts[order], self.weights[order], own[order]
        self.owner: Int64Array = own.astype(np.int64)
        self._n = int(self.owner[-1]) + 1

    @classmethod
    def of_population(cls, parts: Any, population: npt.ArrayLike, owner: npt.ArrayLike | None = None) -> Self:
        """Weight the parts so that each counts as many people as it has, spread evenly over it."""
        found = as_regions(parts, "parts")
        people = check_finite(population, "population", 1)
        if len(people) != len(found):
            raise InputError(f"population has {len(people):,} values for {len(found):,} parts; pass one per part.")
        if (people < 0).any():
            i = int(np.argmax(people < 0))
            raise InputError(f"population is negative in row {i} ({people[i]:g}); pass numbers of people.")
        return cls(found, people / found.volumes, owner)

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return self.parts.dimension

    def __len__(self) -> int:
        return self._n

    @property
    def volumes(self) -> FloatArray:
        """Weighted volumes, (n,)."""
        return np.asarray(np.bincount(self.owner, self.weights * self.parts.volumes, self._n), dtype=np.float64)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give boxes around the parts."""
        first = np.flatnonzero(np.diff(self.owner, prepend=-1))
        lower, upper = self.parts.bounds()
        return np.minimum.reduceat(lower, first), np.maximum.reduceat(upper, first)

    def labels(self) -> dict[str, Any]:
        """Number the regions."""
        return {"region": np.arange(self._n)}

    def pieces(self) -> Pieces | None:
        """Give the pieces of the parts with their weights."""
        return self._own(self.parts.pieces())

    def quadrature(self, scale: FloatArray | None = None) -> Pieces | None:
        """Give the quadratures of the parts with their weights."""
        return self._own(self.parts.quadrature(scale))

    def fourier_integrals(self, k: FloatArray) -> ComplexArray | None:
        """Sum the integrals of the parts."""
        found = self.parts.fourier_integrals(k)
        return None if found is None else np.add.reduceat(self.weights[:, None] * found, self._first(), axis=0)

    def sine_integrals(self, basis: SineBasis) -> FloatArray | None:
        """Sum the integrals of the parts."""
        found = self.parts.sine_integrals(basis)
        return None if found is None else np.add.reduceat(self.weights[:, None] * found, self._first(), axis=0)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give the saved form."""
        return {"weights": self.weights, "owner": self.owner} | to_arrays(self.parts, "parts_")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the sums from their saved form."""
        return cls(from_arrays(arrays, "parts_"), arrays["weights"], arrays["owner"])

    def _first(self) -> Int64Array:
        return np.flatnonzero(np.diff(self.owner, prepend=-1)).astype(np.int64)

    def _own(self, found: Pieces | None) -> Pieces | None:
        if found is None:
            return None
        return Pieces(
            found.lower, found.upper, found.weight * self.weights[found.owner], self.owner[found.owner], self._n
        )

    def _take(self, rows: Int64Array) -> Self:
        picked = [np.flatnonzero(self.owner == r) for r in rows]
        parts = np.concatenate(picked)
        return type(self)(
            self.parts[parts], self.weights[parts], np.repeat(np.arange(len(rows)), [len(p) for p in picked])
        )


class Stack(Regions):
    """Several kinds of regions in a row, of the same dimension; see :func:`stack`."""

    def __init__(self, members: Sequence[Regions]) -> None:
        self.members = tuple(members)
        if not self.members:
            raise InputError("stack() got nothing; pass at least one set of regions.")
        dimensions = [m.dimension for m in self.members]
        if len(set(dimensions)) > 1:
            raise InputError(f"regions of {dimensions} dimensions cannot be stacked; bring them into one space.")
        self._ends = np.cumsum([len(m) for m in self.members])

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return self.members[0].dimension

    def __len__(self) -> int:
        return int(self._ends[-1])

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

    def pieces(self) -> Pieces | None:
        """Give the pieces of the members in a row."""
        return self._joined([m.pieces() for m in self.members])

    def quadrature(self, scale: FloatArray | None = None) -> Pieces | None:
        """Give the quadratures of the members in a row."""
        return self._joined([m.quadrature(scale) for m in self.members])

    def exact_pieces(self, scale: FloatArray | None = None) -> Pieces:
        """Give exact pieces of the members that have them, and quadratures of the others."""
        joined = self._joined([m.exact_pieces(scale) for m in self.members])
        assert joined is not None
        return joined

    def fourier_integrals(self, k: FloatArray) -> ComplexArray | None:
        """Give the integrals of the members in a row."""
        found = [m.fourier_integrals(k) for m in self.members]
        return None if any(f is None for f in found) else np.concatenate([f for f in found if f is not None])

    def sine_integrals(self, basis: SineBasis) -> FloatArray | None:
        """Give the integrals of the members in a row."""
        found = [m.sine_integrals(basis) for m in self.members]
        return None if any(f is None for f in found) else np.concatenate([f for f in found if f is not None])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give the saved form."""
        out: dict[str, npt.NDArray[Any]] = {"members": np.asarray(len(self.members))}
        for i, m in enumerate(self.members):
            out |= to_arrays(m, f"member{i}_")
        return out

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the stack from its saved form."""
        return cls([from_arrays(arrays, f"member{i}_") for i in range(int(arrays["members"]))])

    def _joined(self, found: Sequence[Pieces | None]) -> Pieces | None:
        have = [f for f in found if f is not None]
        if len(have) < len(found):
            return None
        starts = [0, *self._ends[:-1].tolist()]
        return Pieces(
            np.concatenate([f.lower for f in have]),
            np.concatenate([f.upper for f in have]),
            np.concatenate([f.weight for f in have]),
            np.concatenate([f.owner + s for f, s in zip(have, starts, strict=True)]),
            len(self),
        )

    def _take(self, rows: Int64Array) -> Self:
        which = np.searchsorted(self._ends, rows, side="right")
        starts = np.concatenate([[0], self._ends[:-1]])
        runs = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(which)) + 1)
        return type(self)([self.members[which[r[0]]][rows[r] - starts[which[r[0]]]] for r in runs])


def stack(*regions: Any) -> Stack:
    """Put several kinds of regions, or points, in a row: observations of points and of areas together.

    Examples
    --------
    >>> from crosslevel.binned.regions.intervals import Intervals
    >>> both = stack(Intervals([0, 5], [5, 10]), [2.0, 7.0, 8.0])
    >>> len(both), both.volumes.tolist()
    (5, [5.0, 5.0, 1.0, 1.0, 1.0])
    """
    return Stack([as_regions(r, f"regions[{i}]") for i, r in enumerate(regions)])


def to_arrays(regions: Regions, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """Give the saved form of any regions, with their kind."""
    kind = np.frombuffer(type(regions).__name__.encode(), dtype=np.uint8)
    return {f"{prefix}kind": kind} | {f"{prefix}{k}": v for k, v in regions.to_arrays().items()}


def from_arrays(arrays: Mapping[str, npt.NDArray[Any]], prefix: str = "") -> Regions:
    """Make any regions from their saved form."""
    name = bytes(np.asarray(arrays[f"{prefix}kind"], dtype=np.uint8)).decode()
    if name not in _HOMES:
        raise InputError(f"regions of kind {name!r} are not known to this version; update crosslevel.")
    cls = getattr(importlib.import_module(_HOMES[name]), name)
    own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    found: Regions = cls.from_arrays(own)
    return found
