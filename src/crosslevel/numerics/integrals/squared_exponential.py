"""Integrals of the squared-exponential correlation exp(-z^2), z = r / l with the paper's l, to relative rounding error.

Every function gives a pair: the integral, and its derivative by log l at fixed limits (the integral of 2 z^2 exp(-z^2)), both in
units of l. Parts that lie apart, and a part with itself, have positive integrals; `crosslevel.numerics.integrals.pairs` makes all
others of these, so that nothing cancels.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from crosslevel.numerics.compiled import njit

JIT = {"nogil": True, "error_model": "numpy"}
ROOT_PI = math.sqrt(math.pi)
FAR = 27.3
"""exp(-FAR^2) is zero in double precision."""
ASYMPTOTIC = 6.0
"""From here on the double tail is a series in 1 / z^2 whose smallest term is below exp(-36); the difference it replaces would lose
2 z^2 roundings of an exponential that is itself right to z^2 of them."""
NARROW = 0.5
"""A width w at a distance d is narrow when exp(-z^2) falls by less than exp(-0.5) over it: w (2 d + w) < 0.5. Differences of
tails lose at most a factor of 6 beyond; series and sums over eight points are exact to rounding below."""
ORDER = 26
"""Terms of the series; the first one left out is below 1e-18 of the sum at the border of what is narrow."""
_x, _w = np.polynomial.legendre.leggauss(8)
NODES, WEIGHTS = 0.5 + 0.5 * _x, 0.5 * _w


@njit(**JIT)
def gaussian(z):
    """Evaluate at z."""
    k = math.exp(-z * z)
    return k, 2.0 * z * z * k


@njit(**JIT)
def _tail(z):
    """Integrate from z >= 0 to infinity."""
    half = 0.5 * ROOT_PI * math.erfc(z)
    return half, half + z * math.exp(-z * z)


@njit(**JIT)
def double_tail(z):
    """Integrate (u - z) times the correlation from z >= 0 to infinity: H(z) less its straight part."""
    if z > FAR:
        return 0.0, 0.0
    e = math.exp(-z * z)
    if z < ASYMPTOTIC:
        x = ROOT_PI * z * math.erfc(z)
        return 0.5 * (e - x), e - 0.5 * x
    step = 0.5 / (z * z)
    term = total = step  # 1 - sqrt(pi) z erfcx(z) = sum_k (-1)^(k+1) (2k-1)!! / (2 z^2)^k
    for k in range(2, 32):
        term *= -(2 * k - 1) * step
        total += term
        if abs(term) < 1e-17 * step:
            break
    return 0.5 * e * total, 0.5 * e * (1.0 + total)


@njit(**JIT)
def _series(gap, w1, w2):
    """Integrate over two narrow intervals by Taylor's series (Hermite polynomials) around the distance of their middles."""
    c = gap + 0.5 * (w1 + w2)
    a, b = 0.25 * w1 * w1, 0.25 * w2 * w2
    h, ahead = 1.0, 2.0 * c
    value, slope = 1.0, 2.0 * c * c
    factorial, small = 1.0, 0
    for j in range(2, ORDER, 2):
        h = 2.0 * c * ahead - 2.0 * (j - 1) * h
        ahead = 2.0 * c * h - 2.0 * j * ahead
        factorial *= j * (j - 1)
        # moment j of the sum of two uniform variables on ± w / 2, by Horner in a
        moment, weight = 0.0, 1.0
        power = 1.0
        for i in range(j // 2 + 1):
            moment = moment * b + weight * power / ((2 * i + 1) * (j - 2 * i + 1))
            weight *= (j - 2 * i) * (j - 2 * i - 1) / ((2.0 * i + 1.0) * (2.0 * i + 2.0))
            power *= a
        more, steeper = h * moment / factorial, (c * ahead - j * h) * moment / factorial
        value += more
        slope += steeper
        small = small + 1 if abs(more) + abs(steeper) < 1e-17 * abs(value) else 0
        if small == 2:
            break
    scale = w1 * w2 * math.exp(-c * c)
    return scale * value, scale * slope


@njit(**JIT)
def reach(gap, w):
    """Integrate over [gap, gap + w], gap >= 0: a point and an interval."""
    if gap > FAR:
        return 0.0, 0.0
    if w * (2.0 * gap + w) >= NARROW:
        k0, g0 = _tail(gap)
        k1, g1 = _tail(gap + w)
        return k0 - k1, g0 - g1
    k = g = 0.0
    for i in range(len(NODES)):
        k1, g1 = gaussian(gap + w * NODES[i])
        k += WEIGHTS[i] * k1
        g += WEIGHTS[i] * g1
    return w * k, w * g


@njit(**JIT)
def across(gap, w1, w2):
    """Integrate over two intervals of widths w1 and w2 that lie ``gap`` >= 0 apart."""
    if gap > FAR:
        return 0.0, 0.0
    if w1 > w2:
        w1, w2 = w2, w1
    if w2 * (2.0 * gap + w2) < NARROW:
        return _series(gap, w1, w2)
    if w1 * (2.0 * gap + w1) >= NARROW:
        k0, g0 = double_tail(gap)
        k1, g1 = double_tail(gap + w1)
        k2, g2 = double_tail(gap + w2)
        k3, g3 = double_tail(gap + w1 + w2)
        return k0 - k1 - k2 + k3, g0 - g1 - g2 + g3
    k = g = 0.0
    for i in range(len(NODES)):
        k1, g1 = reach(gap + w1 * NODES[i], w2)
        k += WEIGHTS[i] * k1
        g += WEIGHTS[i] * g1
    return w1 * k, w1 * g


@njit(**JIT)
def itself(w):
    """Integrate over an interval of width w and itself."""
    if w >= 1.0:
        k, g = double_tail(w)
        return ROOT_PI * w + 2.0 * k - 1.0, ROOT_PI * w + 2.0 * g - 2.0
    k = g = 0.0
    for i in range(len(NODES)):
        k1, g1 = gaussian(w * NODES[i])
        k += WEIGHTS[i] * (1.0 - NODES[i]) * k1
        g += WEIGHTS[i] * (1.0 - NODES[i]) * g1
    return 2.0 * w * w * k, 2.0 * w * w * g
