"""Covariances of integrals of a Gaussian process: over intervals, between intervals and points, and how they change with its length.

A stationary correlation k(r) is known here by its double antiderivative H (H'' = k), which is all that its integrals need:
kFF = H(t - s') + H(s - t') - H(t - t') - H(s - s') for [s, t] and [s', t'] (Smith, Alvarez & Lawrence, eq. 1, without the printed
variance), kFf = H'(t - x) - H'(s - x), kff = H''. The four built in are not evaluated by these differences, which lose all
digits for far or narrow intervals, but to a relative 1e-10 and better by `crosslevel.numerics.integrals.pairs`.

Spectral densities of kernels of the distance, and how far their correlation reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.integrals.pairs import CODES, fill_contiguous, fill_cross, fill_square
from crosslevel.typing import FloatArray

Limits = tuple[FloatArray, FloatArray]

CORRELATIONS = (*CODES, "white")
"""Names that :func:`correlation` knows."""
_RATE = {"eq": math.sqrt(0.5), "matern12": 1.0, "matern32": math.sqrt(3.0), "matern52": math.sqrt(5.0)}


class Correlation(Protocol):
    """A stationary correlation along one axis, known by its integrals."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def has_length(self) -> bool:
        """Whether it has a lengthscale."""

    def covariance(
        self, a: Limits, b: Limits | None, lengthscale: float, gradient: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Integrate over the intervals ``a`` (n of them, lower and upper limits) and ``b`` (m; None: ``a`` again).

        Where the limits of an interval are equal it is a point, and the correlation is evaluated instead of integrated.
        Gives (n, m), and its derivative by log lengthscale if asked.
        """

    def diagonal(self, a: Limits, lengthscale: float) -> FloatArray:
        """Give the diagonal of ``covariance(a, None, lengthscale)``, (n,)."""

    def spectral_density(self, w: FloatArray, lengthscale: float) -> tuple[FloatArray, FloatArray] | None:
        """Give the Fourier transform of the correlation at w and its derivative by log lengthscale; None when unknown."""


def correlation(name: str) -> Correlation:
    """Find a correlation by name: "eq", "matern12", "matern32", "matern52" or "white".

    Examples
    --------
    >>> limits = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    >>> K, _ = correlation("matern12").covariance(limits, None, 1.0)
    >>> K.round(4)
    array([[0.7358, 0.3996],
           [0.3996, 0.7358]])
    """
    if name == "white":
        return White()
    if name not in CODES:
        raise unknown_name("kernel", name, CORRELATIONS, "kernel")
    return _BuiltIn(name)


@dataclass(frozen=True)
class _BuiltIn:
    """One of the four correlations whose integrals are compiled."""

    name: str
    has_length: bool = True

    def covariance(
        self, a: Limits, b: Limits | None, lengthscale: float, gradient: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Integrate over pairs of intervals; see `Correlation`."""
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
        """Integrate every interval with itself."""
        width, where = np.unique(a[1] - a[0], return_inverse=True)
        one = np.zeros(1)
        found = [self.covariance((one, np.array([w])), None, lengthscale)[0][0, 0] for w in width]
        return np.asarray(found)[where]

    def spectral_density(self, w: FloatArray, lengthscale: float) -> tuple[FloatArray, FloatArray]:
        """Give the Fourier transform and its derivative by log lengthscale."""
        return spectral_density(self.name, w, lengthscale)


@dataclass(frozen=True)
class White:
    """White noise along the axis: intervals covary by the length they share (H = |r| / 2).

    At a point white noise has no value; a point is taken to hold none of it.

    Examples
    --------
    >>> White().covariance((np.array([0.0]), np.array([2.0])), (np.array([1.0]), np.array([5.0])), 1.0)[0]
    array([[1.]])
    """

    name: str = "white"
    has_length: bool = False

    def covariance(
        self, a: Limits, b: Limits | None, lengthscale: float, gradient: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Measure what pairs of intervals share; see `Correlation`."""
        c = a if b is None else b
        K = np.maximum(np.minimum(a[1][:, None], c[1]) - np.maximum(a[0][:, None], c[0]), 0.0)
        return K, np.zeros_like(K) if gradient else None

    def diagonal(self, a: Limits, lengthscale: float) -> FloatArray:
        """Give the widths."""
        return a[1] - a[0]

    def spectral_density(self, w: FloatArray, lengthscale: float) -> None:
        """White noise has no features."""


@dataclass(frozen=True, eq=False)
class Antiderivative:
    """A correlation of the user's own, given by its double antiderivative.

    Parameters
    ----------
    H : callable
        Takes an array of distances r >= 0 in units of the lengthscale and gives H(r), H'' = k and H even.
        A constant added to H changes nothing, a straight line does: H' must vanish at 0.
    slope, value : callable, optional
        H' and k = H''. Without them they are differences of H through nine points, right to about 1e-9 (``slope``) and 1e-7.
    density : callable, optional
        Fourier transform of k at angular frequencies, for solvers with features.
    name : str

    Notes
    -----
    Integrals are the plain four-term difference of H: a pair of bins narrower than a thousandth of the lengthscale keeps about
    ten digits of the sixteen, one narrower than a millionth four.

    Examples
    --------
    >>> mine = Antiderivative(lambda r: r + np.exp(-r))
    >>> limits = np.array([0.0]), np.array([1.0])
    >>> mine.covariance(limits, None, 1.0)[0].round(4)
    array([[0.7358]])
    """

    H: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray] | None = None
    value: Callable[[FloatArray], FloatArray] | None = None
    density: Callable[[FloatArray], FloatArray] | None = None
    name: str = "own"
    has_length: bool = True

    def __post_init__(self) -> None:
        if not callable(self.H):
            raise InputError(
                f"H={self.H!r} is not a function; pass one of the distance r >= 0 in units of the lengthscale."
            )
        start = float(self._first(np.zeros(1))[0])
        if not abs(start) < 1e-6:
            raise InputError(
                f"H has slope {start:.3g} at r = 0; an even antiderivative has slope 0. Subtract {start:.3g} * r from H."
            )

    def covariance(
        self, a: Limits, b: Limits | None, lengthscale: float, gradient: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Integrate over pairs of intervals; see `Correlation`."""
        c = a if b is None else b
        point_a, point_c = a[0] == a[1], c[0] == c[1]
        K, G = np.empty((len(a[0]), len(c[0]))), np.empty((len(a[0]), len(c[0])))
        for rows, p in ((np.flatnonzero(~point_a), False), (np.flatnonzero(point_a), True)):
            for columns, q in ((np.flatnonzero(~point_c), False), (np.flatnonzero(point_c), True)):
                if len(rows) and len(columns):
                    block = self._block([x[rows] for x in a], [x[columns] for x in c], p, q, lengthscale)
                    K[np.ix_(rows, columns)], G[np.ix_(rows, columns)] = block
        return K, G if gradient else None

    def diagonal(self, a: Limits, lengthscale: float) -> FloatArray:
        """Integrate every interval with itself."""
        return np.array(
            [self.covariance((s, t), None, lengthscale)[0][0, 0] for s, t in zip(*map(_column, a), strict=True)]
        )

    def spectral_density(self, w: FloatArray, lengthscale: float) -> tuple[FloatArray, FloatArray] | None:
        """Give the Fourier transform and, by differences, its derivative by log lengthscale."""
        if self.density is None:
            return None
        step = 1e-5
        at = [lengthscale * math.exp(e) for e in (-step, 0.0, step)]
        low, here, high = (x * np.asarray(self.density(np.abs(w) * x)) for x in at)
        return here, (high - low) / (2.0 * step)

    def _block(
        self, a: list[FloatArray], c: list[FloatArray], a_points: bool, c_points: bool, lengthscale: float
    ) -> tuple[FloatArray, FloatArray]:
        """Sum signed antiderivatives over the limits; the derivative by log length of l^2 H(r / l) is l^2 (2 H - z H')."""
        ends_a = ((1.0, a[0]),) if a_points else ((1.0, a[1]), (-1.0, a[0]))
        ends_c = ((1.0, c[0]),) if c_points else ((1.0, c[1]), (-1.0, c[0]))
        order = 2 - a_points - c_points
        K = G = np.zeros((len(a[0]), len(c[0])))
        for sign_a, x in ends_a:
            for sign_c, u in ends_c:
                d = (x[:, None] - u) / lengthscale
                z = np.abs(d)
                if order == 2:
                    k, g, sign = self.H(z), 2.0 * self.H(z) - z * self._first(z), -sign_a * sign_c
                elif order == 1:
                    k = np.sign(d) * self._first(z)
                    g, sign = k - d * self._second(z), sign_a * sign_c * (1.0 if c_points else -1.0)
                else:
                    k, g, sign = self._second(z), -z * self._third(z), 1.0
                K, G = K + sign * k, G + sign * g
        return K * lengthscale**order, G * lengthscale**order

    def _first(self, z: FloatArray) -> FloatArray:
        return np.asarray(self.slope(z)) if self.slope is not None else _derivative(self.H, z, 1)

    def _second(self, z: FloatArray) -> FloatArray:
        if self.value is not None:
            return np.asarray(self.value(z))
        return _derivative(self.slope, z, 1) if self.slope is not None else _derivative(self.H, z, 2)

    def _third(self, z: FloatArray) -> FloatArray:
        return _derivative(self._second, z, 1, step=0.1) if self.value is None else _derivative(self.value, z, 1)


def _column(x: FloatArray) -> FloatArray:
    return x[:, None]


def _derivative(f: Callable[[FloatArray], FloatArray], z: FloatArray, order: int, step: float = 0.04) -> FloatArray:
    """Differentiate the polynomial through nine points, none of them below 0: f may have a kink there."""
    nodes = np.arange(9.0)
    inverse = np.linalg.inv(np.vander(nodes, increasing=True))
    first = np.maximum(z - 4.0 * step, 0.0)
    values = np.stack([f(first + step * j) for j in nodes], axis=-1)
    coefficients = values @ inverse.T
    x = (z - first) / step
    powers = np.arange(order, 9)
    factors = special.poch(powers - order + 1, order)
    return np.asarray((coefficients[..., order:] * factors * x[..., None] ** (powers - order)).sum(-1) / step**order)


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


def spectrum(kernel: str, w: npt.ArrayLike, lengthscale: float) -> FloatArray:
    """Give the Fourier transform in d dimensions of a correlation that is a function of the distance, which no rotation changes.

    2^d pi^(d/2) G(nu + d/2) / G(nu) (2 nu)^nu (2 nu + |w l|^2)^-(nu + d/2) l^d for a Matern kernel.

    Parameters
    ----------
    kernel : {"eq", "matern12", "matern32", "matern52"}
    w : (m, d)
        Angular frequencies.
    lengthscale : float

    Returns
    -------
    (m,)

    Examples
    --------
    >>> one = spectrum("matern32", np.array([[0.7]]), 2.0)
    >>> bool(np.isclose(one, spectral_density("matern32", [0.7], 2.0)[0])[0])
    True
    """
    if kernel not in KERNELS:
        raise unknown_name("kernel", kernel, KERNELS, "kernel")
    at = np.asarray(w, dtype=np.float64)
    d = at.shape[1]
    if kernel == "eq":
        return np.prod([spectral_density(kernel, at[:, a], lengthscale)[0] for a in range(d)], axis=0)
    nu = SMOOTHNESS[kernel]
    constant = 2.0**d * math.pi ** (d / 2) * special.gamma(nu + d / 2) / special.gamma(nu) * (2.0 * nu) ** nu
    square = ((at * lengthscale) ** 2).sum(axis=1)
    return np.asarray(constant * lengthscale**d * (2.0 * nu + square) ** -(nu + d / 2))


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
