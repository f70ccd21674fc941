"""Probability of a rectangle under two correlated standard normals, in the log scale, with its derivatives.

Where the probability is not small, Plackett's (1954) identity: it is the product of the two margins plus the integral
over the correlation of the density at the corners,

    P = P1 P2 + 1/(2 pi) sum over corners +- int_0^asin(rho) exp(-(h^2 + k^2 - 2 h k sin t) / (2 cos^2 t)) dt,

by Gauss-Legendre nodes, as many as the correlation needs (the substitution is Drezner and Wesolowsky's, 1990; the use
of few nodes Genz's, 2004). Its error is absolute. Small probabilities are therefore integrated in the log scale, as the
density of one variable times the conditional probability of the other: a log-concave integrand whose curvature lies
between 1 and 1 / (1 - rho^2), so that nodes around its peak suffice. For correlations next to one, panels shrink toward
every place where it can turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.truncated_normal import LOG_ROOT_TWO_PI, NARROW, ROOT_HALF, log_interval
from crosslevel.typing import FloatArray

NODES = ((0.3, 10), (0.75, 16), (0.925, 24), (0.98, 48))
"""Largest |rho| -> Gauss-Legendre nodes with which Plackett's integral is exact to about 1e-15."""
SMALL = 1e-5
"""Probabilities below are integrated in the log scale: above, an absolute error of 1e-16 is 1e-11 of them."""
PEAK_NODES = ((0.5, 20), (0.8, 22), (0.925, 28), (0.98, 36))
"""Largest |rho| -> nodes on each side of the peak with which the relative error stays below 1e-11."""
PEAK_DEPTH = 28.0  # log units below the peak at which the integral is cut: exp(-28) is 7e-13
PANEL_NODES, PANEL_RATIO, PANEL_LEVELS = 12, 3.0, 14
ROOT_PI = math.sqrt(math.pi)
JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
AT_ONCE = 1 << 18  # numbers worked on at a time: they stay in the cache


@dataclass(frozen=True)
class RectangleSlopes:
    """Derivatives of log P by the ends of the rectangle and by the correlation, each of the shape of P.

    Attributes
    ----------
    a1, b1, a2, b2, rho : array
    """

    a1: FloatArray
    b1: FloatArray
    a2: FloatArray
    b2: FloatArray
    rho: FloatArray


def log_rectangle(
    a1: npt.ArrayLike, b1: npt.ArrayLike, a2: npt.ArrayLike, b2: npt.ArrayLike, rho: npt.ArrayLike
) -> FloatArray:
    """Give log P(a1 < Z1 < b1, a2 < Z2 < b2) of standard normals with correlation rho, elementwise.

    Parameters
    ----------
    a1, b1, a2, b2 : array
        Finite ends, in standard deviations.
    rho : array in (-1, 1)

    Examples
    --------
    >>> float(np.exp(log_rectangle(0.0, 50.0, 0.0, 50.0, 0.5)).round(12))
    0.333333333333
    >>> float(log_rectangle(30.0, 31.0, 30.0, 31.0, 0.0).round(3)), float((2 * log_interval(30.0, 31.0)).round(3))
    (-908.642, -908.642)
    """
    ends = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (a1, b1, a2, b2, rho)))
    shape = ends[0].shape
    A1, B1, A2, B2, r = (v.ravel() for v in ends)
    margins = log_interval(A1, B1) + log_interval(A2, B2)
    P = np.zeros(r.shape)
    strength = np.abs(r)
    lower = -1.0
    for upper, nodes in NODES:
        rows = np.flatnonzero((strength > lower) & (strength <= upper))
        for part in np.array_split(rows, -(-len(rows) * nodes // AT_ONCE)) if len(rows) else ():
            P[part] = np.exp(margins[part]) + _plackett(A1[part], B1[part], A2[part], B2[part], r[part], nodes)
        lower = upper
    found = np.log(P, out=np.full(r.shape, -np.inf), where=P > SMALL)
    found[r == 0] = margins[r == 0]
    small = (P <= SMALL) & (r != 0)
    lower = -1.0
    for upper, nodes in (*PEAK_NODES, (1.0, 0)):
        rows = np.flatnonzero(small & (strength > lower) & (strength <= upper))
        for part in np.array_split(rows, -(-len(rows) * (2 * nodes or 2048) // AT_ONCE)) if len(rows) else ():
            ends_there = A1[part], B1[part], A2[part], B2[part], r[part]
            found[part] = _peak(*ends_there, nodes) if nodes else _panels(*ends_there)
        lower = upper
    return found.reshape(shape)


def log_rectangle_slopes(
    a1: npt.ArrayLike,
    b1: npt.ArrayLike,
    a2: npt.ArrayLike,
    b2: npt.ArrayLike,
    rho: npt.ArrayLike,
    log_p: npt.ArrayLike,
) -> RectangleSlopes:
    """Differentiate log P, in closed form.

    By an end of the rectangle the derivative of P is the density there times the conditional probability of the other
    side; by the correlation it is the signed sum of the density at the corners (Plackett 1954).

    Parameters
    ----------
    a1, b1, a2, b2, rho : array
        As in :func:`log_rectangle`.
    log_p : array
        What it gave.

    Examples
    --------
    >>> ends = (-1.0, 1.0, -0.5, 2.0)
    >>> slopes = log_rectangle_slopes(*ends, 0.4, log_rectangle(*ends, 0.4))
    >>> step = (log_rectangle(*ends, 0.4 + 1e-5) - log_rectangle(*ends, 0.4 - 1e-5)) / 2e-5
    >>> bool(abs(slopes.rho - step) < 1e-8)
    True
    """
    A1, B1, A2, B2, r, log_P = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (a1, b1, a2, b2, rho, log_p))
    )
    c2 = 1.0 - r * r
    c = np.sqrt(c2)

    def edge(z: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        across = log_interval((low - r * z) / c, (high - r * z) / c)
        return np.exp(across - 0.5 * z * z - LOG_ROOT_TWO_PI - log_P)

    def corner(h: FloatArray, k: FloatArray) -> FloatArray:
        return np.exp(-((h - k) ** 2 + 2.0 * (1.0 - r) * h * k) / (2.0 * c2) - 2.0 * LOG_ROOT_TWO_PI - log_P) / c

    with np.errstate(under="ignore"):
        return RectangleSlopes(
            a1=-edge(A1, A2, B2),
            b1=edge(B1, A2, B2),
            a2=-edge(A2, A1, B1),
            b2=edge(B2, A1, B1),
            rho=corner(B1, B2) + corner(A1, A2) - corner(A1, B2) - corner(B1, A2),
        )


@lru_cache(maxsize=16)
def _legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Give nodes and weights on [0, 1]."""
    t, w = np.polynomial.legendre.leggauss(n)
    return 0.5 * (t + 1.0), 0.5 * w


def _plackett(A1: FloatArray, B1: FloatArray, A2: FloatArray, B2: FloatArray, r: FloatArray, n: int) -> FloatArray:
    """Integrate the corners' densities over the correlation: what dependence adds to the product of margins."""
    t, w = _legendre(n)
    angle = np.arcsin(r)
    s = np.sin(angle[:, None] * t)
    q = 0.5 / (1.0 - s * s)
    sq = 2.0 * s * q
    total = np.zeros(s.shape)
    with np.errstate(under="ignore"):
        for h, k, sign in ((B1, B2, 1.0), (A1, A2, 1.0), (A1, B2, -1.0), (B1, A2, -1.0)):
            total += sign * np.exp((h * k)[:, None] * sq - (h * h + k * k)[:, None] * q)
    return (total @ w) * angle / (2.0 * np.pi)


def _peak(A1: FloatArray, B1: FloatArray, A2: FloatArray, B2: FloatArray, r: FloatArray, n: int) -> FloatArray:
    """Integrate phi(z) P(A2 < Z2 < B2 | z) over z in [A1, B1] around its peak, in the log scale."""
    found = np.empty(len(r))
    _peaks(A1, B1, A2, B2, r, *_legendre(n), found)
    return found


@njit(**JIT)
def _peaks(A1, B1, A2, B2, R, t, w, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One rectangle after another: King's likelihood asks for a single one, thousands of times."""
    sides = np.empty(2)
    for i in range(len(R)):
        low, high, a, b, r = A1[i], B1[i], A2[i], B2[i], R[i]
        c = math.sqrt((1.0 - r) * (1.0 + r))
        # steps by the largest curvature never overshoot, by the smallest never fall short: the peak stays bracketed
        peak = min(max(r * a if a > 0 else r * b if b < 0 else 0.0, low), high)
        for _ in range(8):
            g = _slope(peak, a, b, r, c)
            if g > 0:
                low, high = max(low, peak + g * c * c), min(high, peak + g)
            else:
                low, high = max(low, peak + g), min(high, peak + g * c * c)
            low, high = min(low, B1[i]), max(high, A1[i])
            peak = 0.5 * (low + high)
        g, top = _slope(peak, a, b, r, c), _log_slice(peak, a, b, r, c)
        for k, sign, end in ((0, -1.0, A1[i]), (1, 1.0, B1[i])):
            downhill = max(-sign * g, 0.0)
            near, reach = 0.0, min(math.sqrt(downhill**2 + 2.0 * PEAK_DEPTH) - downhill, abs(end - peak))
            if _log_slice(peak + sign * reach, a, b, r, c) <= top - PEAK_DEPTH:
                for _ in range(4):
                    middle = 0.5 * (near + reach)
                    if _log_slice(peak + sign * middle, a, b, r, c) < top - PEAK_DEPTH:
                        reach = middle
                    else:
                        near = middle
            sides[k] = reach
        total = 0.0
        for k, sign in ((0, -1.0), (1, 1.0)):
            for j in range(len(t)):
                total += math.exp(_log_slice(peak + sign * sides[k] * t[j], a, b, r, c) - top) * sides[k] * w[j]
        found[i] = top + math.log(total) - LOG_ROOT_TWO_PI


@njit(**JIT)
def _log_slice(z, a, b, r, c):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Log of phi(z) P(a < Z2 < b | z), up to the constant of the normal density."""
    return _log_interval((a - r * z) / c, (b - r * z) / c) - 0.5 * z * z


@njit(**JIT)
def _slope(z, a, b, r, c):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Differentiate :func:`_log_slice` by z."""
    a, b = (a - r * z) / c, (b - r * z) / c
    log_d = _log_interval(a, b) + LOG_ROOT_TWO_PI
    return r / c * (math.exp(-0.5 * a * a - log_d) - math.exp(-0.5 * b * b - log_d)) - z


@njit(**JIT)
def _log_interval(a, b):  # type: ignore[no-untyped-def]  # pragma: no cover
    """As ``truncated_normal.log_interval``, of one interval."""
    near, far = (-b, -a) if a + b < 0 else (a, b)
    width, middle = far - near, 0.5 * (near + far)
    if width * (1.0 + far) < NARROW:
        return math.log(width) - 0.5 * middle**2 - LOG_ROOT_TWO_PI + math.log1p((middle**2 - 1.0) * width**2 / 24.0)
    if near <= 0:
        return math.log(0.5 * (math.erf(ROOT_HALF * far) - math.erf(ROOT_HALF * near)))
    inside = _erfcx(ROOT_HALF * near) - math.exp(-width * middle) * _erfcx(ROOT_HALF * far)
    return math.log(0.5 * inside) - 0.5 * near * near


@njit(**JIT)
def _erfcx(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Give exp(x^2) erfc(x) for x >= 0: by its parts, beyond 20 by the asymptotic series."""
    if x < 20.0:
        return math.exp(x * x) * math.erfc(x)
    u = 0.5 / (x * x)
    return (1.0 - u * (1.0 - 3.0 * u * (1.0 - 5.0 * u * (1.0 - 7.0 * u * (1.0 - 9.0 * u))))) / (x * ROOT_PI)


def _panels(A1: FloatArray, B1: FloatArray, A2: FloatArray, B2: FloatArray, r: FloatArray) -> FloatArray:
    """Integrate phi(z) P(A2 < Z2 < B2 | z) over z in [A1, B1], in the log scale.

    The integrand is log-concave. It can turn at the ends, at 0, where the conditional mean enters or leaves [A2, B2]
    (z = A2 / rho, B2 / rho), and, when it never enters, at the mode of the density on the nearer side (z = rho A2, rho B2).
    """
    c = np.sqrt((1.0 - r) * (1.0 + r))
    turns = np.column_stack([A1, B1, np.zeros_like(r), A2 / r, B2 / r, r * A2, r * B2])
    turns = np.clip(turns, A1[:, None], B1[:, None])
    steps = PANEL_RATIO ** -np.arange(PANEL_LEVELS, dtype=np.float64)
    offsets = np.concatenate([-steps, [0.0], steps])
    edges = turns[:, :, None] + (B1 - A1)[:, None, None] * offsets
    edges = np.sort(np.clip(edges.reshape(len(r), -1), A1[:, None], B1[:, None]), axis=1)
    t, w = _legendre(PANEL_NODES)
    width = np.diff(edges, axis=1)
    z = edges[:, :-1, None] + width[:, :, None] * t
    rr, cc = r[:, None, None], c[:, None, None]
    with np.errstate(divide="ignore", under="ignore"):
        log_f = log_interval((A2[:, None, None] - rr * z) / cc, (B2[:, None, None] - rr * z) / cc) - 0.5 * z * z
        top = log_f.max(axis=(1, 2))
        sums = (np.exp(log_f - top[:, None, None]) * w).sum(axis=2) * width
        return top + np.log(sums.sum(axis=1)) - LOG_ROOT_TWO_PI
