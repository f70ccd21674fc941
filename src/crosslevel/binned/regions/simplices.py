"""Bodies in any dimension as unions of simplices: the paper's polytopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.data.checks import check_finite
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError
from crosslevel.numerics.polygon_integrals import polygon_sines, ring_edges
from crosslevel.numerics.simplex_integrals import CELL, simplex_rule, simplex_volumes
from crosslevel.typing import FloatArray, Int64Array

MOST_CELLS = 400
"""Cells of two lengthscales beyond which bodies are refused: 120 points each, and all pairs of these."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Simplices(Regions):
    """Regions that are unions of simplices: segments, triangles, tetrahedra, and so on.

    Parameters
    ----------
    bodies : sequence of (s, d + 1, d)
        One array per region: its s simplices, each by d + 1 corners. The simplices of a region must not overlap.

    Examples
    --------
    >>> square = [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]]
    >>> tent = [[[0, 0], [2, 0], [0.5, 1.5]]]
    >>> regions = Simplices([square, tent])
    >>> regions.volumes
    array([1. , 1.5])
    """

    bodies: Sequence[Any]

    def __post_init__(self) -> None:
        if len(self.bodies) == 0:
            raise InputError("bodies holds no region; pass at least one list of simplices.")
        bodies = tuple(check_finite(body, f"bodies[{i}]", 3) for i, body in enumerate(self.bodies))
        d = bodies[0].shape[2]
        if d < 2:
            raise InputError("bodies are segments of a line; pass Intervals, or a WeightedSum of them.")
        for i, body in enumerate(bodies):
            if body.shape[2] != d or body.shape[1] != d + 1 or not len(body):
                raise InputError(
                    f"bodies[{i}] has shape {body.shape}; pass (simplices, corners, coordinates) with {d + 1} corners of {d} "
                    "coordinates each, the same for every region."
                )
            flat = simplex_volumes(body) == 0
            if flat.any():
                raise InputError(
                    f"bodies[{i}] has a simplex without volume (number {int(flat.argmax())}: its corners lie in a plane); leave it out."
                )
        self._set(bodies=bodies)

    @cached_property
    def vertices(self) -> FloatArray:
        """Corners of all simplices, (s, d + 1, d)."""
        return np.concatenate(self.bodies)

    @cached_property
    def owner(self) -> Int64Array:
        """Row number of the region of each simplex, (s,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), [len(b) for b in self.bodies])

    @property
    def dimension(self) -> int:
        """Number of coordinates of a corner."""
        return int(self.vertices.shape[2])

    def __len__(self) -> int:
        return len(self.bodies)

    @cached_property
    def volumes(self) -> FloatArray:
        """Volumes, (n,)."""
        return np.bincount(self.owner, simplex_volumes(self.vertices), minlength=len(self)).astype(np.float64)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the corners of the box around each region, (n, d) each."""
        at = np.searchsorted(self.owner, np.arange(len(self)))
        return np.minimum.reduceat(self.vertices.min(axis=1), at), np.maximum.reduceat(self.vertices.max(axis=1), at)

    def labels(self) -> dict[str, Any]:
        """Number the regions."""
        return {"region": list(range(len(self)))}

    def pieces(self, scale: FloatArray | None = None) -> Pieces | None:
        """Give points of bodies of three dimensions and more; see `Regions`."""
        if self.dimension == 2 or scale is None:
            return None
        lower, upper = self.bounds()
        widest = (upper - lower).max(axis=0) / CELL
        # in steps of a factor of 2 below bodies of one cell: a search asks for the same points again and again
        steps = np.minimum(np.floor(np.log2(np.minimum(scale, 1e300) / widest)), 0.0)
        if 2.0 ** -steps.sum() * len(self) > MOST_CELLS:
            raise InputError(
                f"the bodies are up to {float((CELL * widest / scale).max()):.3g} lengthscales wide, and {len(self):,} of them would take "
                "too many points; pass a longer lengthscale, or cut the bodies into Boxes."
            )
        if tuple(steps) not in self._rules:
            rule = simplex_rule(self.vertices, self.owner, widest * 2.0**steps)
            self._rules[tuple(steps)] = Pieces.points(rule.x, rule.weight, rule.owner, len(self))
        return self._rules[tuple(steps)]

    @cached_property
    def _rules(self) -> dict[tuple[float, ...], Pieces]:
        return {}

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Integrate the functions of ``basis`` over each region of the plane, exactly, (n, m)."""
        if self.dimension != 2:
            raise InputError("bodies of three dimensions and more have no features; use solver='dense'.")
        edges = ring_edges([[[triangle] for triangle in body] for body in self.bodies])
        return polygon_sines(edges, basis.center - basis.half_width, 2.0 * basis.half_width, basis.index)

    def _take(self, rows: Int64Array) -> Self:
        return replace(self, bodies=[self.bodies[i] for i in rows])
