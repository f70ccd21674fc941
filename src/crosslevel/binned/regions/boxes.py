"""Boxes with sides along the axes, and what the limits of regions must satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.data.checks import as_numbers
from crosslevel.errors import InputError
from crosslevel.typing import ComplexArray, FloatArray, Int64Array

__all__ = ["Boxes", "check_limits", "panel_rule"]

PER_PANEL = 4
"""Points of the quadrature per panel and axis: a function that changes over a panel's width is integrated to about 1e-6."""
_X, _W = np.polynomial.legendre.leggauss(PER_PANEL)


class Boxes(Regions):
    """Boxes in d dimensions: products of intervals.

    Parameters
    ----------
    lower, upper : (n, d)
        Limits; every lower one must be less than its upper one.
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

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike, point_axes: Sequence[int] = ()) -> None:
        self.lower, self.upper = check_limits(lower, upper, 2, point_axes)
        self.point_axes = tuple(int(a) for a in point_axes)

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return int(self.lower.shape[1])

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def volumes(self) -> FloatArray:
        """Products of the widths, (n,); a slice counts 1."""
        width = self.upper - self.lower
        return np.asarray(np.prod(np.where(width > 0, width, 1.0), axis=1))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the limits."""
        return self.lower, self.upper

    def labels(self) -> dict[str, Any]:
        """Name the boxes by their limits: lower_0, upper_0, lower_1, ... ."""
        out: dict[str, Any] = {}
        for d in range(self.dimension):
            out |= {f"lower_{d}": self.lower[:, d], f"upper_{d}": self.upper[:, d]}
        return out

    def pieces(self) -> Pieces:
        """Give each box as one piece."""
        return _one_each(self.lower, self.upper)

    def fourier_integrals(self, k: FloatArray) -> ComplexArray:
        """Integrate exponentials: along each axis the width times sinc."""
        out = np.ones((len(self), len(k)), dtype=np.complex128)
        for d in range(self.dimension):
            width, middle = _width_middle(self.lower[:, d], self.upper[:, d])
            factor = np.where(width > 0, width, 1.0)[:, None]
            out *= factor * np.exp(1j * np.outer(middle, k[:, d])) * np.sinc(np.outer(width, k[:, d]) / (2.0 * np.pi))
        return out

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Integrate sines in closed form, each frequency of an axis once."""
        out = np.ones((1, 1))
        for d in range(self.dimension):
            index, where = np.unique(basis.index[:, d], return_inverse=True)
            sides, rows = np.unique(np.stack([self.lower[:, d], self.upper[:, d]]), axis=1, return_inverse=True)
            one = sine_integrals_1d(sides[0], sides[1], float(basis.centre[d]), float(basis.half_width[d]), index)
            whole = len(index) == len(where) and bool((where == np.arange(len(where))).all())
            part = one[rows.ravel()] if whole else one[rows.ravel()[:, None], where]
            out = part if d == 0 else out * part
        return out

    def quadrature(self, scale: FloatArray | None = None) -> Pieces:
        """Give Gauss-Legendre points on panels no wider than ``scale``."""
        return panel_rule(self.lower, self.upper, scale)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give the saved form."""
        return {"lower": self.lower, "upper": self.upper, "point_axes": np.asarray(self.point_axes, dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the boxes from their saved form."""
        return cls(arrays["lower"], arrays["upper"], arrays["point_axes"].tolist())

    def _take(self, rows: Int64Array) -> Self:
        return type(self)(self.lower[rows], self.upper[rows], self.point_axes)


def sine_integrals_1d(s: FloatArray, t: FloatArray, centre: float, half_width: float, index: Int64Array) -> FloatArray:
    """Integrate L^(-1/2) sin(w_j (x - centre + L)) over [s, t], (n, m); where s = t, evaluate there.

    The difference of cosines is taken as a product, width times sinc times the sine at the middle, which keeps narrow bins exact.
    """
    w = np.pi * index / (2.0 * half_width)
    width, middle = _width_middle(s, t)
    out = np.sin(np.outer(middle - centre + half_width, w))
    if (width > 0).any():
        out *= np.sinc(np.outer(width, w) / (2.0 * np.pi))
    return out * (np.where(width > 0, width, 1.0) / np.sqrt(half_width))[:, None]


def panel_rule(lower: FloatArray, upper: FloatArray, scale: FloatArray | None) -> Pieces:
    """Place Gauss-Legendre points in boxes, on panels no wider than ``scale``; an axis without width gets one point."""
    n, d = lower.shape
    points, weights, owner = [], [], []
    for i in range(n):
        axes = [_axis_rule(lower[i, j], upper[i, j], np.inf if scale is None else float(scale[j])) for j in range(d)]
        grid = np.meshgrid(*(x for x, _ in axes), indexing="ij")
        mass = np.meshgrid(*(w for _, w in axes), indexing="ij")
        points.append(np.stack([g.ravel() for g in grid], axis=1))
        weights.append(np.prod([m.ravel() for m in mass], axis=0))
        owner.append(np.full(len(weights[-1]), i))
    return Pieces.points(np.concatenate(points), np.concatenate(weights), np.concatenate(owner), n)


def _axis_rule(s: float, t: float, scale: float) -> tuple[FloatArray, FloatArray]:
    if s == t:
        return np.array([s]), np.ones(1)
    panels = max(1, int(np.ceil((t - s) / scale - 1e-12)))
    edges = np.linspace(s, t, panels + 1)
    half = 0.5 * np.diff(edges)
    x = (edges[:-1] + half)[:, None] + half[:, None] * _X
    return x.ravel(), (half[:, None] * _W).ravel()


def check_limits(
    lower: npt.ArrayLike, upper: npt.ArrayLike, ndim: int, point_axes: Sequence[int] = (), open_ended: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Refuse limits that are missing, infinite, reversed or equal, naming the first."""
    s, t = as_numbers(lower, "lower", ndim), as_numbers(upper, "upper", ndim)
    if s.shape != t.shape:
        raise InputError(f"lower has shape {s.shape} and upper {t.shape}; pass one of each per region.")
    if not len(s):
        raise InputError("lower and upper are empty; pass at least one region.")
    for argument, x in (("lower", s), ("upper", t)):
        if np.isnan(x).any():
            raise InputError(f"{argument} is missing in row {_first(np.isnan(x))}; drop this region or give its limit.")
        if np.isinf(x).any() and not open_ended:
            raise InputError(
                f"{argument} is infinite in row {_first(np.isinf(x))}; an open-ended region needs a finite limit beyond which "
                "there is nothing, such as upper=105 for the last age group. Counts may keep their open end: "
                "Intervals(..., open_ended=True) and fit(..., tail=)."
            )
    if (s > t).any():
        i = _first(s > t)
        raise InputError(
            f"lower exceeds upper in {int((s > t).any(axis=-1).sum() if ndim > 1 else (s > t).sum()):,} region(s), first in row {i} "
            f"({_say(s, i)} > {_say(t, i)}); limits go lower first: pass (min, max)."
        )
    flat = s == t
    if ndim > 1:
        for axis in point_axes:
            if not 0 <= axis < s.shape[1]:
                raise InputError(
                    f"point_axes={list(point_axes)!r} names axis {axis}; there are axes 0 to {s.shape[1] - 1}."
                )
            if not flat[:, axis].all():
                i = _first(~flat[:, axis])
                raise InputError(
                    f"axis {axis} is in point_axes but row {i} has lower {s[i, axis]:g} and upper {t[i, axis]:g}."
                )
        flat = flat.copy()
        flat[:, list(point_axes)] = False
    if flat.any():
        i = _first(flat)
        raise InputError(
            f"lower equals upper in row {i} ({_say(s, i)}): a region without width has no total. Pass a point as a plain array, "
            "give the region its width (an age of 30 is [30, 31)), or name a sliced axis in Boxes(point_axes=)."
        )
    return s, t


def _first(bad: npt.NDArray[np.bool_]) -> int:
    return int(np.argwhere(bad)[0][0])


def _say(x: FloatArray, row: int) -> str:
    return f"{x[row]:g}" if x.ndim == 1 else str(x[row].tolist())


def _width_middle(s: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    return t - s, s + 0.5 * (t - s)


def _one_each(lower: FloatArray, upper: FloatArray) -> Pieces:
    n = len(lower)
    return Pieces(lower, upper, np.ones(n), np.arange(n, dtype=np.int64), n)
