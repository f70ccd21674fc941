"""Probability of a rectangle under two correlated standard normals, in the log scale, with its derivatives.

Where the probability is not small, Plackett's (1954) identity: it is the product of the two margins plus the integral
over the correlation of the density at the corners,

    P = P1 P2 + 1/(2 pi) sum over corners +- int_0^asin(rho) exp(-(h^2 + k^2 - 2 h k sin t) / (2 cos^2 t)) dt,

by Gauss-Legendre nodes, as many as the correlation needs (the substitution is Drezner and Wesolowsky's, 1990; the use
of few nodes Genz's, 2004). Its error is absolute, so for small probabilities, and for correlations next to one, the
conditional probability is integrated over one variable in the log scale, in panels that shrink towards every place where
the integrand can turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.truncated_normal import LOG_ROOT_TWO_PI, log_interval

__all__ = ["RectangleSlopes", "log_rectangle", "log_rectangle_slopes"]

FloatArray = npt.NDArray[np.float64]

NODES = ((0.3, 10), (0.75, 16), (0.925, 24), (0.98, 48))
"""Largest |rho| -> Gauss-Legendre nodes with which Plackett's integral is exact to about 1e-15."""
SMALL = 1e-5
"""Probabilities below are integrated in the log scale: above, an absolute error of 1e-16 is 1e-11 of them."""
PANEL_NODES, PANEL_RATIO, PANEL_LEVELS = 12, 3.0, 14
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
    >>> float(log_rectangle(30.0, 31.0, 30.0, 31.0, 0.0).round(4)), float(2 * log_interval(30.0, 31.0).round(4))
    (-908.6429, -908.6429)
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
    rest = np.flatnonzero((P <= SMALL) & (r != 0))
    for part in np.array_split(rest, -(-len(rest) * 2048 // AT_ONCE)) if len(rest) else ():
        found[part] = _panels(A1[part], B1[part], A2[part], B2[part], r[part])
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
