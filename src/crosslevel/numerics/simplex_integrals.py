"""Integrals over bodies of three dimensions and more: unions of simplices, summed over points.

A simplex is its d + 1 corners. Its volume is |det[v_1 - v_0, ..., v_d - v_0]| / d! (Algorithm 1 of the paper prints v! for d!).

A function that is smooth over a body sees only its moments. Tchakaloff's theorem: some of the points of a fine rule, with other positive
weights, have the same moments; non-negative least squares finds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from crosslevel.typing import FloatArray, Int64Array

POINTS = 4
"""Points per axis of the fine rule."""
SPLIT, CELL = 1.5, 2.0
"""Lengthscales to which simplices are cut, and of the cells whose points are joined."""
TOLERANCE = 1e-4
MISFIT = 1e-11
"""Relative misfit of the moments beyond which a group of points is kept as it is."""
MOST = 120
"""Moments beyond which least squares cost more than the points they save: the degree is lowered until there are no more."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule: the integral of g over region i is the sum of ``weight[q] g(x[q])`` over ``owner[q] == i``.

    Attributes
    ----------
    x : (q, d)
    weight : (q,)
    owner : (q,)
        Not decreasing.
    """

    x: FloatArray
    weight: FloatArray
    owner: Int64Array


def simplex_volumes(vertices: npt.ArrayLike) -> FloatArray:
    """Measure each simplex, (s,), from its corners (s, d + 1, d).

    Examples
    --------
    >>> simplex_volumes([[[0, 0], [1, 0], [0, 1]]])
    array([0.5])
    >>> simplex_volumes([[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]) * 6
    array([1.])
    """
    v = np.asarray(vertices, dtype=np.float64)
    return np.abs(np.linalg.det(v[:, 1:] - v[:, :1])) / math.factorial(v.shape[2])


@lru_cache(maxsize=64)
def conical_rule(dimension: int, n: int) -> tuple[FloatArray, FloatArray]:
    """Give the conical product rule on a simplex: shares of the corners (n^d, d + 1) and weights that sum to 1.

    Exact for polynomials of degree 2n - 1; all points lie inside and all weights are positive (Stroud 1971).

    Examples
    --------
    >>> shares, weight = conical_rule(2, 3)
    >>> bool(np.isclose(weight @ (shares[:, 1] ** 2 * shares[:, 2] ** 3), 2 * 2 * 6 / math.factorial(7)))
    True
    """
    from scipy.special import roots_jacobi

    shares, weight = np.ones((1, 1)), np.ones(1)
    for left in range(dimension, 0, -1):
        # of what is left, the share u goes to this corner; the rest has left - 1 dimensions, hence (1 - u)^(left - 1)
        nodes, w = roots_jacobi(n, left - 1, 0)
        u, w = 0.5 * (1.0 + nodes), w / w.sum()
        rest = shares[:, None, -1:]
        taken = np.concatenate([rest * u[None, :, None], rest * (1.0 - u)[None, :, None]], axis=2)
        before = np.broadcast_to(shares[:, None, :-1], (len(shares), n, shares.shape[1] - 1))
        shares = np.concatenate([before, taken], axis=2).reshape(len(shares) * n, -1)
        weight = (weight[:, None] * w).reshape(-1)
    shares.setflags(write=False)
    weight.setflags(write=False)
    return shares, weight


def split_simplices(vertices: FloatArray, owner: Int64Array, size: FloatArray) -> tuple[FloatArray, Int64Array]:
    """Halve the longest edge of every simplex until no edge is longer than ``size`` (d,), lengths measured in it.

    Examples
    --------
    >>> v, owner = split_simplices(np.array([[[0.0], [4.0]]]), np.array([0]), np.array([1.0]))
    >>> len(v), simplex_volumes(v).sum()
    (4, np.float64(4.0))
    """
    corners = vertices.shape[1]
    first, second = np.triu_indices(corners, 1)
    done_v, done_o = [], []
    v, own = vertices, owner
    while len(v):
        lengths = np.sqrt((((v[:, first] - v[:, second]) / size) ** 2).sum(axis=2))
        longest = lengths.argmax(axis=1)
        rows = np.arange(len(v))
        small = lengths[rows, longest] <= 1.0
        done_v.append(v[small])
        done_o.append(own[small])
        v, own, longest = v[~small], own[~small], longest[~small]
        rows = np.arange(len(v))
        a, b = first[longest], second[longest]
        middle = 0.5 * (v[rows, a] + v[rows, b])
        left, right = v.copy(), v.copy()
        left[rows, b], right[rows, a] = middle, middle
        v, own = np.concatenate([left, right]), np.concatenate([own, own])
    split, owners = np.concatenate(done_v), np.concatenate(done_o)
    order = np.argsort(owners, kind="stable")
    return split[order], owners[order]


def cubature(v: FloatArray, owner: Int64Array, n: int) -> Rule:
    """Make the conical rule on each simplex, n points per axis."""
    shares, w = conical_rule(v.shape[2], n)
    x = np.einsum("qc,scd->sqd", shares, v).reshape(-1, v.shape[2])
    return Rule(x, (simplex_volumes(v)[:, None] * w).reshape(-1), np.repeat(owner, len(w)))


def degree_needed(half_width: float, tolerance: float) -> int:
    """Give the degree at which polynomials match exp(-x^2 / 2) to ``tolerance`` over any interval of this half width.

    The Chebyshev coefficient of degree p is at most about 2 (h / 2)^p / sqrt(p!), since derivatives are at most 1.1 sqrt(p!).

    Examples
    --------
    >>> degree_needed(0.5, 1e-9), degree_needed(0.05, 1e-9)
    (10, 5)
    """
    degree = 1
    while 2.0 * (0.5 * half_width) ** (degree + 1) / math.sqrt(math.factorial(degree + 1)) > tolerance and degree < 30:
        degree += 1
    return degree


def simplex_rule(vertices: FloatArray, owner: Int64Array, scale: FloatArray) -> Rule:
    """Make the points of bodies that are unions of simplices, for functions that change over ``scale`` (d,).

    Simplices are cut to the scale and summed over many points; of those of each cell of a body some are kept, with the same moments.

    Parameters
    ----------
    vertices : (s, d + 1, d)
    owner : (s,)
        Region of each simplex, not decreasing.
    scale : (d,)

    Examples
    --------
    >>> corner = np.vstack([np.zeros(3), np.eye(3)])[None]
    >>> rule = simplex_rule(corner, np.array([0]), np.full(3, 2.0))
    >>> bool(np.isclose(rule.weight.sum(), 1 / 6)), len(rule.weight) < 40
    (True, True)
    """
    size = np.asarray(scale, dtype=np.float64) * np.ones(vertices.shape[2])
    rule = cubature(*split_simplices(vertices, owner, SPLIT * size), POINTS)
    low = np.full((int(owner[-1]) + 1, vertices.shape[2]), np.inf)
    np.minimum.at(low, owner, vertices.min(axis=1))
    cells = np.floor((rule.x - low[rule.owner]) / (CELL * size)).astype(np.int64)
    _, group = np.unique(np.column_stack([rule.owner, cells]), axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    kept, weights = [], []
    for rows in np.split(order, np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1):
        chosen, weight = _fewer(rule.x[rows], rule.weight[rows], size)
        kept.append(rows[chosen])
        weights.append(weight)
    rows = np.concatenate(kept)
    return Rule(rule.x[rows], np.concatenate(weights), rule.owner[rows])


def _fewer(x: FloatArray, weight: FloatArray, scale: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Choose some of the points, and their weights, with the moments that a Gaussian of width ``scale`` can see."""
    low, high = x.min(axis=0), x.max(axis=0)
    half, d = np.maximum(0.5 * (high - low), 1e-12 * scale), x.shape[1]
    degree = degree_needed(float((half / scale).max()), TOLERANCE)
    while math.comb(degree + d, d) > MOST:
        degree -= 1
    powers = [p for p in product(range(degree + 1), repeat=d) if sum(p) <= degree]
    if len(x) <= len(powers):
        return np.arange(len(x)), weight
    u = (x - 0.5 * (low + high)) / half
    polynomials = np.cos(np.arange(degree + 1)[:, None, None] * np.arccos(np.clip(u, -1.0, 1.0)))  # (p, q, d)
    V = np.stack([np.prod([polynomials[p, :, axis] for axis, p in enumerate(power)], axis=0) for power in powers])
    try:
        fewer, misfit = nnls(V, V @ weight, maxiter=20 * len(powers))
    except RuntimeError:
        fewer, misfit = weight, 0.0
    if misfit > MISFIT * weight.sum():
        return np.arange(len(x)), weight
    chosen = np.flatnonzero(fewer)
    return chosen, fewer[chosen] * (weight.sum() / fewer.sum())
