"""Integrals of the Matern correlations 1/2, 3/2 and 5/2 in units of 1 / a, a = sqrt(2 nu) / lengthscale, to relative rounding error.

All are a polynomial times exp(-z), and so are their tails, double tails and derivatives by the logarithm of the lengthscale. With
P(gap + x + y) expanded in x and y, a difference of tails is a sum of products of 1 - exp(-w) and w^i exp(-w): no digits are lost
however narrow or far the intervals.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.integrals.squared_exponential import JIT, NODES, WEIGHTS

CORRELATION = np.array(
    [[[1.0, 0, 0, 0], [0, 1.0, 0, 0]], [[1.0, 1, 0, 0], [0, 0, 1.0, 0]], [[1.0, 1, 1 / 3, 0], [0, 0, 1 / 3, 1 / 3]]]
)
"""(3, 2, 4): for nu = 1/2, 3/2, 5/2 the polynomials of the correlation and of its derivative by log lengthscale, constants first."""


def _tails(polynomial: np.ndarray) -> np.ndarray:
    """Give T with T(z) exp(-z) the integral of polynomial times exp(-u) from z to infinity."""
    out = polynomial.copy()
    for n in range(2, -1, -1):
        out[..., n] += (n + 1) * out[..., n + 1]
    return out


TAIL = _tails(CORRELATION)
DOUBLE = _tails(TAIL)
LARGE = 745.0
"""exp(-LARGE) is zero in double precision."""


@njit(**JIT)
def matern(code, z):
    """Evaluate at z."""
    e = math.exp(-z)
    p, q = CORRELATION[code, 0], CORRELATION[code, 1]
    return e * (p[0] + z * (p[1] + z * p[2])), e * z * (q[1] + z * (q[2] + z * q[3]))


@njit(**JIT)
def _taylor(p, z):
    """Give P, P', P'' / 2 and P''' / 6 at z."""
    return (
        p[0] + z * (p[1] + z * (p[2] + z * p[3])),
        p[1] + z * (2.0 * p[2] + 3.0 * z * p[3]),
        p[2] + 3.0 * z * p[3],
        p[3],
    )


@njit(**JIT)
def _drops(w):
    """Give f(0) - f(w) for f = x^i exp(-x), i = 0 to 3."""
    e = math.exp(-w)
    return -math.expm1(-w), -w * e, -w * w * e, -w * w * w * e


@njit(**JIT)
def reach(code, gap, w):
    """Integrate over [gap, gap + w], gap >= 0: a point and an interval."""
    if gap > LARGE:
        return 0.0, 0.0
    f0, f1, f2, f3 = _drops(w)
    e = math.exp(-gap)
    p0, p1, p2, _ = _taylor(TAIL[code, 0], gap)
    q0, q1, q2, q3 = _taylor(TAIL[code, 1], gap)
    return e * (p0 * f0 + p1 * f1 + p2 * f2), e * (q0 * f0 + q1 * f1 + q2 * f2 + q3 * f3)


@njit(**JIT)
def across(code, gap, w1, w2):
    """Integrate over two intervals of widths w1 and w2 that lie ``gap`` >= 0 apart."""
    if gap > LARGE:
        return 0.0, 0.0
    f0, f1, f2, f3 = _drops(w1)
    h0, h1, h2, h3 = _drops(w2)
    e = math.exp(-gap)
    first = f1 * h0 + f0 * h1
    second = f2 * h0 + 2.0 * f1 * h1 + f0 * h2
    third = f3 * h0 + 3.0 * f2 * h1 + 3.0 * f1 * h2 + f0 * h3
    p0, p1, p2, _ = _taylor(DOUBLE[code, 0], gap)
    q0, q1, q2, q3 = _taylor(DOUBLE[code, 1], gap)
    return (
        e * (p0 * f0 * h0 + p1 * first + p2 * second),
        e * (q0 * f0 * h0 + q1 * first + q2 * second + q3 * third),
    )


@njit(**JIT)
def itself(code, w):
    """Integrate over an interval of width w and itself."""
    if w >= 1.0:
        e = math.exp(-w)
        p, q = _taylor(DOUBLE[code, 0], w), _taylor(DOUBLE[code, 1], w)
        k = TAIL[code, 0, 0] * w + e * p[0] - DOUBLE[code, 0, 0]
        g = TAIL[code, 1, 0] * w + e * q[0] - DOUBLE[code, 1, 0]
        return 2.0 * k, 2.0 * g
    k = g = 0.0
    for i in range(len(NODES)):
        k1, g1 = matern(code, w * NODES[i])
        k += WEIGHTS[i] * (1.0 - NODES[i]) * k1
        g += WEIGHTS[i] * (1.0 - NODES[i]) * g1
    return 2.0 * w * w * k, 2.0 * w * w * g
