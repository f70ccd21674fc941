"""Exact integrals of waves over polygons: sums over edges, after the divergence theorem.

For a polygon with edges e from v to v + e (outer rings counter-clockwise, holes clockwise) and k != 0,

    integral of exp(i k.x) = -i / |k|^2  sum_e (k x e) exp(i k.m_e) sinc(k.e / 2),    k x e = k_1 e_2 - k_2 e_1,

m_e the middle of the edge, sinc(h) = sin(h) / h. The sum cancels like 1 / (|k| r) for small |k| r (r the radius of the polygon), so there
it is replaced by signed triangles (o, v, v + e) about the center o, whose integrals are a power series in k:

    integral of exp(i k.(x - o)) = sum_e (v x (v + e))  sum_n i^n h_n(k.v, k.(v + e)) / (n + 2)!,    h_n = sum over p + q = n of a^p b^q.

Both are deterministic and cost one pass over the edges per frequency. Holes and parts are further rings: nothing has to be cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array

JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

SMALL = 0.5
"""|k| r below which the series is used; its 16 terms are exact there to 1e-17, and the edge sum above it loses less than a digit."""
TERMS = 16


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of n polygons: those of polygon i are the rows ``offsets[i]`` to ``offsets[i + 1]``.

    Attributes
    ----------
    start, stop : (e, 2)
        With the inside on the left.
    offsets : (n + 1,)
    center : (n, 2)
        A point about which each polygon is summed (the middle of its bounding box).
    radius : (n,)
        Distance of the farthest corner from it.
    """

    start: FloatArray
    stop: FloatArray
    offsets: Int64Array
    center: FloatArray
    radius: FloatArray

    def __len__(self) -> int:
        return len(self.offsets) - 1


def ring_edges(polygons: Sequence[Sequence[Sequence[npt.ArrayLike]]]) -> Edges:
    """List the edges of polygons, each a list of parts, each a list of rings of corners: the outer one first, then holes.

    Rings may be given in either direction, closed or open; edges of no length are left out.

    Examples
    --------
    >>> square = [[0, 0], [0, 1], [1, 1], [1, 0]]
    >>> edges = ring_edges([[[square]]])
    >>> polygon_areas(edges)
    array([1.])
    """
    starts, stops, counts, centers, radii = [], [], [], [], []
    for parts in polygons:
        first, last = [], []
        for rings in parts:
            for number, ring in enumerate(rings):
                corners = np.asarray(ring, dtype=np.float64).reshape(-1, 2)
                following = np.roll(corners, -1, axis=0)
                base = corners - corners[0]
                turn = float(np.sum(base[:, 0] * np.roll(base[:, 1], -1) - base[:, 1] * np.roll(base[:, 0], -1)))
                if (turn < 0) == (number == 0):
                    corners, following = following, corners
                real = (corners != following).any(axis=1)
                first.append(corners[real])
                last.append(following[real])
        a, b = np.concatenate(first), np.concatenate(last)
        low, high = a.min(axis=0), a.max(axis=0)
        middle = 0.5 * (low + high)
        starts.append(a)
        stops.append(b)
        counts.append(len(a))
        centers.append(middle)
        radii.append(float(np.sqrt(((a - middle) ** 2).sum(axis=1).max())))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Edges(np.concatenate(starts), np.concatenate(stops), offsets, np.array(centers), np.array(radii))


def polygon_areas(edges: Edges) -> FloatArray:
    """Measure each polygon, (n,), by the shoelace formula about its center.

    Examples
    --------
    >>> outer = [[0, 0], [4, 0], [4, 4], [0, 4]]
    >>> hole = [[1, 1], [2, 1], [2, 2], [1, 2]]
    >>> polygon_areas(ring_edges([[[outer, hole]]]))
    array([15.])
    """
    owner = np.repeat(np.arange(len(edges)), np.diff(edges.offsets))
    a, b = edges.start - edges.center[owner], edges.stop - edges.center[owner]
    twice = np.bincount(owner, a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], minlength=len(edges))
    return np.asarray(0.5 * twice, dtype=np.float64)


def polygon_sines(edges: Edges, lower: npt.ArrayLike, width: npt.ArrayLike, index: npt.ArrayLike) -> FloatArray:
    """Integrate products of sines over each polygon: 2 (W_1 W_2)^(-1/2) sin(w_1 (x_1 - lower_1)) sin(w_2 (x_2 - lower_2)).

    The eigenfunctions of the Laplacian on the box of these widths W, w = pi index / W. The sines of an edge are made once for every row and
    column of ``index``, not for every pair.

    Parameters
    ----------
    edges : Edges
    lower, width : (2,)
        Corner and sides of the box.
    index : (m, 2)
        Whole numbers from 1.

    Returns
    -------
    (n, m)

    Examples
    --------
    >>> edges = ring_edges([[[[[0, 0], [1, 0], [1, 1], [0, 1]]]]])
    >>> got = polygon_sines(edges, [0.0, 0.0], [1.0, 1.0], [[1, 1]])
    >>> bool(np.isclose(got[0, 0], 2 * (2 / np.pi) ** 2))
    True
    """
    low, side = (np.asarray(v, dtype=np.float64) for v in (lower, width))
    pairs = np.ascontiguousarray(index, dtype=np.int64).reshape(-1, 2)
    out = np.empty((len(edges), len(pairs)))
    _sines(edges.start, edges.stop, edges.offsets, edges.center, edges.radius, low, np.pi / side, pairs, out)
    out *= 1.0 / np.sqrt(side.prod())  # 2 (W1 W2)^(-1/2) times the half of cos - cos
    return out


@njit(**JIT)
def _sinc(h: float) -> float:
    if abs(h) < 0.1:
        s = h * h
        return 1.0 - s / 6.0 * (1.0 - s / 20.0 * (1.0 - s / 42.0 * (1.0 - s / 72.0)))
    return math.sin(h) / h


@njit(**JIT)
def _triangle(a: float, b: float) -> tuple[float, float]:
    """Sum i^n h_n(a, b) / (n + 2)! over n: the real and the imaginary part, for small a and b."""
    real, imaginary = 0.5, 0.0
    h, power, factorial = 1.0, 1.0, 2.0
    for n in range(1, TERMS):
        power *= b
        h = a * h + power
        factorial *= n + 2
        term = h / factorial
        turn = n % 4
        if turn == 1:
            imaginary += term
        elif turn == 2:
            real -= term
        elif turn == 3:
            imaginary -= term
        else:
            real += term
    return real, imaginary


@njit(**JIT)
def _small(
    start: FloatArray, stop: FloatArray, first: int, last: int, o: FloatArray, phase: float, k: float, q: float
) -> complex:
    """Integrate exp(i (k x + q y)) over one polygon by its series about o, where the wave has this phase."""
    real, imaginary = 0.0, 0.0
    for e in range(first, last):
        ax, ay = start[e, 0] - o[0], start[e, 1] - o[1]
        bx, by = stop[e, 0] - o[0], stop[e, 1] - o[1]
        twice = ax * by - ay * bx
        r, i = _triangle(k * ax + q * ay, k * bx + q * by)
        real += twice * r
        imaginary += twice * i
    c, s = math.cos(phase), math.sin(phase)
    return complex(c * real - s * imaginary, c * imaginary + s * real)


@njit(**JIT)
def _sines(
    start: FloatArray,
    stop: FloatArray,
    offsets: Int64Array,
    center: FloatArray,
    radius: FloatArray,
    low: FloatArray,
    step: FloatArray,
    pairs: Int64Array,
    out: FloatArray,
) -> None:
    """Fill out with the integrals of cos(k x - q y) - cos(k x + q y), (k, q) = step * pairs, x and y counted from low.

    Corners are not moved to low: small polygons would lose their digits.
    """
    rows, columns = pairs[:, 0].max() + 1, pairs[:, 1].max() + 1
    m = len(pairs)
    # sines and cosines of middle and half edge: along x by row, along y by column
    sx, cx, hx, gx = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    sy, cy, hy, gy = np.empty(columns), np.empty(columns), np.empty(columns), np.empty(columns)
    for i in range(len(offsets) - 1):
        out[i] = 0.0
        for e in range(offsets[i], offsets[i + 1]):
            dx, dy = stop[e, 0] - start[e, 0], stop[e, 1] - start[e, 1]
            _turns((0.5 * (start[e, 0] + stop[e, 0]) - low[0]) * step[0], 0.5 * dx * step[0], sx, cx, hx, gx)
            _turns((0.5 * (start[e, 1] + stop[e, 1]) - low[1]) * step[1], 0.5 * dy * step[1], sy, cy, hy, gy)
            for j in range(m):
                a, b = pairs[j, 0], pairs[j, 1]
                k, q = a * step[0], b * step[1]
                along, across = 0.5 * k * dx, 0.5 * q * dy
                p = sx[a] * cy[b]
                r = cx[a] * sy[b]
                u = hx[a] * gy[b]
                v = gx[a] * hy[b]
                plus, minus = along + across, along - across
                # a short edge has a small phase, which the products of the tables would know only in absolute terms
                first = (u - v) / minus if abs(minus) > 0.1 else _sinc(minus)
                second = (u + v) / plus if abs(plus) > 0.1 else _sinc(plus)
                out[i, j] += (k * dy + q * dx) * (p - r) * first - (k * dy - q * dx) * (p + r) * second
        for j in range(m):
            k, q = pairs[j, 0] * step[0], pairs[j, 1] * step[1]
            square = k * k + q * q
            if math.sqrt(square) * radius[i] < SMALL:
                along, across = k * (center[i, 0] - low[0]), q * (center[i, 1] - low[1])
                near = _small(start, stop, offsets[i], offsets[i + 1], center[i], along - across, k, -q)
                far = _small(start, stop, offsets[i], offsets[i + 1], center[i], along + across, k, q)
                out[i, j] = near.real - far.real
            else:
                out[i, j] /= square


@njit(**JIT)
def _turns(middle: float, half: float, s: FloatArray, c: FloatArray, h: FloatArray, g: FloatArray) -> None:
    """Fill sine and cosine of every multiple of the phase of an edge's middle (s, c) and of half the edge (h, g)."""
    for j in range(len(s)):
        s[j], c[j] = math.sin(j * middle), math.cos(j * middle)
        h[j], g[j] = math.sin(j * half), math.cos(j * half)
