"""Bodies in any dimension as unions of simplices: the paper's polytopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions
from crosslevel.data.checks import check_finite, check_seed
from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.compression import compress
from crosslevel.numerics.simplex_integrals import (
    Rule,
    cubature,
    random_rule,
    simplex_fourier,
    simplex_volumes,
    split_simplices,
)
from crosslevel.typing import ComplexArray, FloatArray, Int64Array

__all__ = ["Simplices", "check_points", "simplex_quadrature"]

RULES = ("cubature", "random")
STEPS = ((0.05, 2), (0.2, 3), (1.0, 5))
"""Points per axis for simplices with edges up to this many lengthscales: each leaves an error below 1e-9 of a Gaussian's integral."""


class Simplices(Regions):
    """Regions that are unions of simplices: segments, triangles, tetrahedra, and so on.

    Parameters
    ----------
    bodies : sequence of (s, d + 1, d)
        One array per region: its s simplices, each by d + 1 corners. The simplices of a region must not overlap.
    points : {"cubature", "random"}
        The rule of the dense solver; "random" is the paper's.
    n_points : int
        Points per region for "random".
    seed : int
        Of the random points, which depend on it and on the region alone.

    Examples
    --------
    >>> square = [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]]
    >>> tent = [[[0, 0], [2, 0], [0.5, 1.5]]]
    >>> regions = Simplices([square, tent])
    >>> regions.volumes
    array([1. , 1.5])
    """

    def __init__(
        self, bodies: Sequence[npt.ArrayLike], *, points: str = "cubature", n_points: int = 400, seed: int = 0
    ) -> None:
        check_points(points, n_points, seed)
        if len(bodies) == 0:
            raise InputError("bodies holds no region; pass at least one list of simplices.")
        read = [check_finite(body, f"bodies[{i}]", 3) for i, body in enumerate(bodies)]
        d = read[0].shape[2]
        for i, body in enumerate(read):
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
        owner = np.repeat(np.arange(len(read)), [len(b) for b in read])
        self._set(np.concatenate(read), owner, len(read), points, n_points, seed)

    def _set(self, vertices: FloatArray, owner: Int64Array, n: int, points: str, n_points: int, seed: int) -> None:
        self.vertices, self.owner, self.n = vertices, owner, n
        self.points, self.n_points, self.seed = points, n_points, seed
        self._volumes = np.bincount(owner, simplex_volumes(vertices), minlength=n).astype(np.float64)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a corner."""
        return int(self.vertices.shape[2])

    def __len__(self) -> int:
        return self.n

    @property
    def volumes(self) -> FloatArray:
        """Volumes, (n,)."""
        return self._volumes

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the corners of the box around each region, (n, d) each."""
        at = np.searchsorted(self.owner, np.arange(self.n))
        return np.minimum.reduceat(self.vertices.min(axis=1), at), np.maximum.reduceat(self.vertices.max(axis=1), at)

    def labels(self) -> dict[str, Any]:
        """Number the regions."""
        return {"region": list(range(self.n))}

    def fourier_integrals(self, k: FloatArray) -> ComplexArray:
        """Integrate exp(i k . x) over each region, exactly, (n, m)."""
        return simplex_fourier(self.vertices, self.owner, self.n, k)

    def quadrature(self, scale: FloatArray | None = None) -> Pieces:
        """Give points and weights over the simplices of each region; see `Regions`."""
        return simplex_quadrature(self.vertices, self.owner, self.n, scale, self.points, self.n_points, self.seed)

    def _take(self, rows: Int64Array) -> Self:
        parts = [np.flatnonzero(self.owner == i) for i in rows]
        owner = np.repeat(np.arange(len(rows)), [len(p) for p in parts])
        out = object.__new__(type(self))
        chosen = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        out._set(self.vertices[chosen], owner, len(rows), self.points, self.n_points, self.seed)
        return out

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give the saved form."""
        rule = np.array([RULES.index(self.points), self.n_points, self.seed, self.n], dtype=np.int64)
        return {"vertices": self.vertices, "owner": self.owner, "rule": rule}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the regions from their saved form."""
        which, n_points, seed, n = (int(v) for v in arrays["rule"])
        out = object.__new__(cls)
        owner = np.asarray(arrays["owner"], dtype=np.int64)
        out._set(np.asarray(arrays["vertices"], dtype=np.float64), owner, n, RULES[which], n_points, seed)
        return out


def check_points(points: str, n_points: int, seed: int) -> None:
    """Refuse a rule that is not known, or one without points."""
    if points not in RULES:
        raise unknown_name("points", points, RULES, "rule")
    if isinstance(n_points, bool) or not isinstance(n_points, Integral) or n_points < 1:
        raise InputError(f"n_points={n_points!r} is not a whole number of at least 1; pass n_points=400.")
    if check_seed(seed, "seed") is None:
        raise InputError("seed=None would draw other points each time, so covariances would not agree; pass seed=0.")


def simplex_quadrature(
    vertices: FloatArray,
    owner: Int64Array,
    n: int,
    scale: FloatArray | None,
    points: str = "cubature",
    n_points: int = 400,
    seed: int = 0,
) -> Pieces:
    """Make the points of regions that are unions of simplices.

    Without a scale: three points per axis and simplex, whatever its size. With one: simplices are cut to the scale, get as many
    points as their size asks for, and the points of each cell of that size are cut to those that matter
    (`crosslevel.numerics.compression`).

    Examples
    --------
    >>> pieces = simplex_quadrature(np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), np.array([0]), 1, np.array([5.0, 5.0]))
    >>> bool(np.isclose(pieces.weight.sum(), 0.5)), len(pieces) < 30
    (True, True)
    """
    if points == "random":
        rule = random_rule(vertices, owner, n, n_points, seed)
        return Pieces.points(rule.x, rule.weight, rule.owner, n)
    if scale is None:
        rule = cubature(vertices, owner, 3)
        return Pieces.points(rule.x, rule.weight, rule.owner, n)
    size = np.asarray(scale, dtype=np.float64) * np.ones(vertices.shape[2])
    small, own = split_simplices(vertices, owner, size)
    edges = (small[:, :, None] - small[:, None, :]) / size
    longest = np.sqrt((edges**2).sum(axis=-1)).max(axis=(1, 2))
    rules, floor = [], 0.0
    for top, n_axis in STEPS:
        rows = (longest > floor) & (longest <= top * (1 + 1e-9))
        floor = top * (1 + 1e-9)
        if rows.any():
            rules.append(cubature(small[rows], own[rows], n_axis))
    x, weight, who = (np.concatenate([getattr(r, name) for r in rules]) for name in ("x", "weight", "owner"))
    order = np.argsort(who, kind="stable")
    fewer = compress(Rule(x[order], weight[order], who[order]), size)
    return Pieces.points(fewer.x, fewer.weight, fewer.owner, n)
