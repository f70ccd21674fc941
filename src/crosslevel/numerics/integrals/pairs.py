"""Double integrals of a correlation over any two intervals or points, and matrices of them.

Two intervals that overlap are cut at their limits into parts that lie apart and one part they share. All integrals over parts are
positive, so their sum keeps the relative accuracy of its terms. Differences of limits are taken before anything is divided by the
lengthscale: a narrow interval far from the origin keeps its width.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.integrals import matern
from crosslevel.numerics.integrals import squared_exponential as eq
from crosslevel.numerics.integrals.squared_exponential import JIT

CODES = {"eq": 0, "matern12": 1, "matern32": 2, "matern52": 3}
"""Names of the correlations to the numbers that compiled code knows them by."""

_eq_at, _eq_reach, _eq_across, _eq_itself, _eq_double = eq.gaussian, eq.reach, eq.across, eq.itself, eq.double_tail
_m_at, _m_reach, _m_across, _m_itself = matern.matern, matern.reach, matern.across, matern.itself
NARROW, FAR, ROOT_PI = eq.NARROW, eq.FAR, eq.ROOT_PI


@njit(**JIT)
def _reach(code, gap, w):
    return _eq_reach(gap, w) if code == 0 else _m_reach(code - 1, gap, w)


@njit(**JIT)
def _across(code, gap, w1, w2):
    return _eq_across(gap, w1, w2) if code == 0 else _m_across(code - 1, gap, w1, w2)


@njit(**JIT)
def _point_interval(code, inverse, x, s, t):
    if x < s:
        return _reach(code, (s - x) * inverse, (t - s) * inverse)
    if x > t:
        return _reach(code, (x - t) * inverse, (t - s) * inverse)
    k0, g0 = _reach(code, 0.0, (x - s) * inverse)
    k1, g1 = _reach(code, 0.0, (t - x) * inverse)
    return k0 + k1, g0 + g1


@njit(**JIT)
def _two_intervals(code, inverse, s, t, s2, t2):
    if s2 >= t:
        return _across(code, (s2 - t) * inverse, (t - s) * inverse, (t2 - s2) * inverse)
    if s >= t2:
        return _across(code, (s - t2) * inverse, (t - s) * inverse, (t2 - s2) * inverse)
    shared = (min(t, t2) - max(s, s2)) * inverse
    left, right = abs(s - s2) * inverse, abs(t - t2) * inverse
    k, g = _eq_itself(shared) if code == 0 else _m_itself(code - 1, shared)
    if left > 0.0:
        k1, g1 = _across(code, 0.0, left, shared)
        k, g = k + k1, g + g1
    if right > 0.0:
        k1, g1 = _across(code, 0.0, shared, right)
        k, g = k + k1, g + g1
    if (s - s2) * (t - t2) > 0.0:  # staggered: one sticks out to the left, the other to the right
        k1, g1 = _across(code, shared, left, right)
        k, g = k + k1, g + g1
    return k, g


@njit(**JIT)
def pair(code, inverse, s, t, s2, t2):
    """Integrate the correlation and its derivative by log lengthscale over [s, t] and [s2, t2]; where s = t, evaluate there.

    ``inverse`` is 1 / l (paper) for the squared exponential and sqrt(2 nu) / lengthscale for the Matern correlations.
    """
    if s == t:
        if s2 == t2:
            z = abs(s - s2) * inverse
            return _eq_at(z) if code == 0 else _m_at(code - 1, z)
        k, g = _point_interval(code, inverse, s, s2, t2)
        return k / inverse, g / inverse
    if s2 == t2:
        k, g = _point_interval(code, inverse, s2, s, t)
        return k / inverse, g / inverse
    k, g = _two_intervals(code, inverse, s, t, s2, t2)
    return k / (inverse * inverse), g / (inverse * inverse)


@njit(**JIT)
def fill_cross(code, inverse, s, t, s2, t2, K, G):
    """Fill K (n, m) and G (n, m), or K alone when G has no columns."""
    gradient = G.shape[1] > 0
    for i in range(len(s)):
        for j in range(len(s2)):
            k, g = pair(code, inverse, s[i], t[i], s2[j], t2[j])
            K[i, j] = k
            if gradient:
                G[i, j] = g


@njit(**JIT)
def fill_square(code, inverse, s, t, K, G):
    """Fill K (n, n) and G (n, n), or K alone when G has no columns, each pair once."""
    gradient = G.shape[1] > 0
    for i in range(len(s)):
        for j in range(i, len(s)):
            k, g = pair(code, inverse, s[i], t[i], s[j], t[j])
            K[i, j] = K[j, i] = k
            if gradient:
                G[i, j] = G[j, i] = g


@njit(**JIT)
def fill_contiguous(inverse, edges, above, below, K, G):
    """Fill K and G of the squared exponential for bins that share edges: one double tail per pair of edges, not four per pair of bins.

    ``above`` and ``below``, (n + 1, 2) each, hold the tails from one edge and from the next; NaN where not yet wanted.
    """
    gradient = G.shape[1] > 0
    n = len(edges) - 1
    unit = 1.0 / (inverse * inverse)
    above[:] = math.nan
    for i in range(n):
        below[:] = math.nan
        w1 = (edges[i + 1] - edges[i]) * inverse
        for j in range(i, n):
            w2 = (edges[j + 1] - edges[j]) * inverse
            gap = (edges[j] - edges[i + 1]) * inverse
            if i == j:
                k, g = _eq_itself(w1)
            elif gap > FAR:
                k = g = 0.0
            elif min(w1 * (2.0 * gap + w1), w2 * (2.0 * gap + w2)) < NARROW:
                k, g = _eq_across(gap, w1, w2)
            else:
                for e in (j, j + 1):
                    if math.isnan(above[e, 0]):
                        above[e] = _eq_double((edges[e] - edges[i]) * inverse)
                    if math.isnan(below[e, 0]):
                        below[e] = _eq_double((edges[e] - edges[i + 1]) * inverse)
                k = below[j, 0] - above[j, 0] - below[j + 1, 0] + above[j + 1, 0]
                g = below[j, 1] - above[j, 1] - below[j + 1, 1] + above[j + 1, 1]
            K[i, j] = K[j, i] = k * unit
            if gradient:
                G[i, j] = G[j, i] = g * unit
        above[:] = below
