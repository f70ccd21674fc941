"""Covariances of integrals of a Gaussian process: over intervals, between intervals and points, and how they change with its length.

With the double antiderivative H of a stationary correlation (H'' = k) its integrals are
kFF = H(t - s') + H(s - t') - H(t - t') - H(s - s') for [s, t] and [s', t'] (Smith, Alvarez & Lawrence, eq. 1, without the printed
variance), kFf = H'(t - x) - H'(s - x), kff = H''. They are not evaluated by these differences, which lose all
digits for far or narrow intervals, but to a relative 1e-10 and better by `crosslevel.numerics.integrals.pairs`.

Spectral densities, and how far correlations reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from crosslevel.errors import unknown_name
from crosslevel.numerics.integrals.pairs import CODES, fill_contiguous, fill_cross, fill_square
from crosslevel.typing import FloatArray

Limits = tuple[FloatArray, FloatArray]

CORRELATIONS = tuple(CODES)
"""Names that :class:`Correlation` knows."""
_RATE = {"eq": math.sqrt(0.5), "matern12": 1.0, "matern32": math.sqrt(3.0), "matern52": math.sqrt(5.0)}


@dataclass(frozen=True)
class Correlation:
    """A stationary correlation along one axis, known by its integrals.

    Attributes
    ----------
    name : {"eq", "matern12", "matern32", "matern52"}

    Examples
    --------
    >>> limits = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    >>> Correlation("matern12").covariance(limits, None, 1.0)[0].round(4)
    array([[0.7358, 0.3996],
           [0.3996, 0.7358]])
    """

    name: str

    def covariance(
        self, a: Limits, b: Limits | None, lengthscale: float, gradient: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Integrate over the intervals ``a`` (n of them, lower and upper limits) and ``b`` (m; None: ``a`` again).

        Where the limits of an interval are equal it is a point, and the correlation is evaluated instead of integrated.
        Gives (n, m), and its derivative by log lengthscale if asked.
        """
        inverse = _RATE[self.name] / lengthscale
        s, t = a
        shape = (len(s), len(s) if b is None else len(b[0]))
        K = np.empty(shape)
        G = np.empty(shape) if gradient else np.empty((shape[0], 0))
        if b is not None:
            fill_cross(CODES[self.name], inverse, s, t, b[0], b[1], K, G)
        elif self.name == "eq" and len(s) > 1 and bool((s[1:] == t[:-1]).all() and (s < t).all()):
            edges = np.append(s, t[-1])
            fill_contiguous(inverse, edges, np.empty((len(edges), 2)), np.empty((len(edges), 2)), K, G)
        else:
            fill_square(CODES[self.name], inverse, s, t, K, G)
        return K, G if gradient else None

    def diagonal(self, a: Limits, lengthscale: float) -> FloatArray:
        """Integrate every interval with itself, (n,)."""
        width, where = np.unique(a[1] - a[0], return_inverse=True)
        one = np.zeros(1)
        found = [self.covariance((one, np.array([w])), None, lengthscale)[0][0, 0] for w in width]
        return np.asarray(found)[where]


def shared_lengths(a: Limits, b: Limits) -> FloatArray:
    """Measure what pairs of intervals share, (n, m)."""
    return np.maximum(np.minimum(a[1][:, None], b[1]) - np.maximum(a[0][:, None], b[0]), 0.0)


def spectral_density(name: str, w: npt.ArrayLike, lengthscale: float) -> tuple[FloatArray, FloatArray]:
    """Give the Fourier transform of a built-in correlation along one axis, and its derivative by log lengthscale.

    Parameters
    ----------
    name : {"eq", "matern12", "matern32", "matern52"}
    w : array
        Angular frequencies.
    lengthscale : float

    Examples
    --------
    >>> spectral_density("matern12", [0.0], 1.0)
    (array([2.]), array([2.]))
    """
    if name not in CODES:
        raise unknown_name("name", name, tuple(CODES), "kernel")
    x = (np.asarray(w, dtype=np.float64) * lengthscale) ** 2
    if name == "eq":
        S = math.sqrt(2.0 * math.pi) * lengthscale * np.exp(-0.5 * x)
        return S, S * (1.0 - x)
    power, a = {"matern12": (1, 1.0), "matern32": (2, 3.0), "matern52": (3, 5.0)}[name]
    constant = {"matern12": 2.0, "matern32": 12.0 * math.sqrt(3.0), "matern52": 16.0 / 3.0 * 25.0 * math.sqrt(5.0)}[
        name
    ]
    S = constant * lengthscale / (a + x) ** power
    return S, S * (1.0 - 2.0 * power * x / (a + x))


SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("eq", *SMOOTHNESS)


def reach(kernel: str, tolerance: float) -> float:
    """Give the distance, in lengthscales, at which a correlation has fallen to ``tolerance``.

    Examples
    --------
    >>> round(reach("eq", math.exp(-2.0)), 6), round(reach("matern12", math.exp(-2.0)), 6)
    (2.0, 2.0)
    """
    if kernel not in KERNELS:
        raise unknown_name("kernel", kernel, KERNELS, "kernel")
    if kernel == "eq":
        return math.sqrt(-2.0 * math.log(tolerance))
    nu = SMOOTHNESS[kernel]

    def fall(r: float) -> float:
        t = math.sqrt(2.0 * nu) * r
        polynomial = {0.5: 0.0, 1.5: math.log1p(t), 2.5: math.log1p(t + t * t / 3.0)}[nu]
        return polynomial - t - math.log(tolerance)

    return float(optimize.brentq(fall, 0.0, 100.0 - 10.0 * math.log(tolerance)))
