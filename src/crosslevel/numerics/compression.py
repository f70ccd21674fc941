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

from crosslevel.numerics.simplex_integrals import Rule
from crosslevel.typing import FloatArray

__all__ = ["compress", "degree_needed"]


MISFIT = 1e-11
"""Relative misfit of the moments beyond which a group of points is kept as it is."""


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
