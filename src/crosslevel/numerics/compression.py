"""Fewer points for the same integrals: a cubature of thousands of points cut to as many as there are polynomials to keep.

A coast of a thousand corners needs a thousand triangles, but a function that is smooth over the whole polygon sees only its
moments. Tchakaloff's theorem: some of the points, with other positive weights, have the same moments; non-negative least
squares finds them.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from crosslevel.numerics.simplex_integrals import Rule, cubature, random_rule, split_simplices
from crosslevel.typing import FloatArray, Int64Array

__all__ = ["compress", "degree_needed", "simplex_rule"]


MISFIT = 1e-11
"""Relative misfit of the moments beyond which a group of points is kept as it is."""


STEPS = ((0.05, 2), (0.2, 3), (1.0, 5))
"""Points per axis for simplices with edges up to this many lengthscales: each leaves an error below 1e-9 of a Gaussian's integral."""


MOST = 120
"""Moments beyond which least squares cost more than the points they save."""


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


def compress(rule: Rule, scale: FloatArray, tolerance: float = 1e-9) -> Rule:
    """Cut a rule to few points per cell of side ``scale`` (d,), keeping every moment that a Gaussian of that width can see.

    Parameters
    ----------
    rule : Rule
        With positive weights.
    scale : (d,)
        The lengthscale of the functions to be integrated.
    tolerance : float
        Relative error of their integrals (for functions as smooth as a Gaussian).

    Returns
    -------
    Rule
        Its points are some of those of ``rule``; weights are positive and have the same sum in every region.

    Examples
    --------
    >>> x = np.linspace(0.0005, 0.9995, 1000)[:, None]
    >>> small = compress(Rule(x, np.full(1000, 1e-3), np.zeros(1000, dtype=np.int64)), np.array([1.0]))
    >>> len(small.x) < 15, bool(np.isclose(small.weight @ np.exp(-small.x[:, 0] ** 2 / 2), 0.8556243918921))
    (True, True)
    """
    cells = np.floor(rule.x / scale - (rule.x / scale).min(axis=0)).astype(np.int64)
    _, group = np.unique(np.column_stack([rule.owner, cells]), axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    kept, weights = [], []
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        chosen, weight = _fewer(rule.x[rows], rule.weight[rows], scale, tolerance)
        kept.append(rows[chosen])
        weights.append(weight)
    rows, weight = np.concatenate(kept), np.concatenate(weights)
    order = np.argsort(rule.owner[rows], kind="stable")
    rows, weight = rows[order], weight[order]
    return Rule(rule.x[rows], weight, rule.owner[rows])


def _fewer(
    x: FloatArray, weight: FloatArray, scale: FloatArray, tolerance: float
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    low, high = x.min(axis=0), x.max(axis=0)
    half = np.maximum(0.5 * (high - low), 1e-12 * scale)
    degree = degree_needed(float((half / scale).max()), tolerance)
    powers = [p for p in product(range(degree + 1), repeat=x.shape[1]) if sum(p) <= degree]
    everything = np.arange(len(x))
    if len(x) <= len(powers) or len(powers) > MOST:
        return everything, weight
    u = (x - 0.5 * (low + high)) / half
    polynomials = np.cos(np.arange(degree + 1)[:, None, None] * np.arccos(np.clip(u, -1.0, 1.0)))  # (p, q, d)
    V = np.stack([np.prod([polynomials[p, :, d] for d, p in enumerate(power)], axis=0) for power in powers])
    target = V @ weight
    try:
        fewer, misfit = nnls(V, target, maxiter=20 * len(powers))
    except RuntimeError:
        return everything, weight
    if misfit > MISFIT * weight.sum():
        return everything, weight
    chosen = np.flatnonzero(fewer)
    return chosen, fewer[chosen] * (weight.sum() / fewer.sum())


def simplex_rule(
    vertices: FloatArray,
    owner: Int64Array,
    n: int,
    scale: FloatArray | None,
    points: str = "cubature",
    n_points: int = 400,
    seed: int = 0,
) -> Rule:
    """Make the points of bodies that are unions of simplices.

    Without a scale: three points per axis and simplex, whatever its size. With one: simplices are cut to the scale, get as many
    points as their size asks for, and the points of each cell of that size are cut to those that matter
    (:func:`compress`).

    Examples
    --------
    >>> rule = simplex_rule(np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), np.array([0]), 1, np.array([5.0, 5.0]))
    >>> bool(np.isclose(rule.weight.sum(), 0.5)), len(rule.weight) < 30
    (True, True)
    """
    if points == "random":
        return random_rule(vertices, owner, n, n_points, seed)
    if scale is None:
        return cubature(vertices, owner, 3)
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
    return compress(Rule(x[order], weight[order], who[order]), size)
