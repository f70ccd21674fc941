"""Spectral densities of kernels of the distance, and how far their correlation reaches."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from crosslevel.errors import unknown_name
from crosslevel.numerics.integrals.correlations import spectral_density
from crosslevel.typing import FloatArray

__all__ = ["reach", "spectrum"]


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
