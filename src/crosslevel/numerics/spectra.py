"""Spectral densities of kernels in several dimensions, and how far their correlation reaches."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from crosslevel.errors import unknown_name
from crosslevel.numerics.integrals import spectral_density
from crosslevel.typing import FloatArray

__all__ = ["FORMS", "reach", "spectrum"]


FORMS = ("product", "isotropic")
SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("eq", *SMOOTHNESS)


def spectrum(kernel: str, w: npt.ArrayLike, lengthscale: npt.ArrayLike, form: str = "product") -> FloatArray:
    """Give the Fourier transform of a correlation in d dimensions.

    Parameters
    ----------
    kernel : {"eq", "matern12", "matern32", "matern52"}
    w : (m, d)
        Angular frequencies.
    lengthscale : float or (d,)
    form : {"product", "isotropic"}
        A product of one-dimensional correlations, which boxes need, or a function of the distance, which no rotation changes:
        2^d pi^(d/2) G(nu + d/2) / G(nu) (2 nu)^nu (2 nu + |w l|^2)^-(nu + d/2) prod(l). They are one and the same for "eq".

    Returns
    -------
    (m,)

    Examples
    --------
    >>> w = np.array([[0.3, 1.0]])
    >>> bool(np.isclose(spectrum("eq", w, 2.0, "product"), spectrum("eq", w, 2.0, "isotropic"))[0])
    True
    >>> one = np.array([[0.7]])
    >>> bool(np.isclose(spectrum("matern32", one, 2.0, "product"), spectrum("matern32", one, 2.0, "isotropic"))[0])
    True
    """
    if kernel not in KERNELS:
        raise unknown_name("kernel", kernel, KERNELS, "kernel")
    if form not in FORMS:
        raise unknown_name("form", form, FORMS, "form")
    at = np.asarray(w, dtype=np.float64)
    d = at.shape[1]
    length = np.broadcast_to(np.asarray(lengthscale, dtype=np.float64), (d,))
    if form == "product" or kernel == "eq":
        return np.prod([spectral_density(kernel, at[:, a], float(length[a]))[0] for a in range(d)], axis=0)
    nu = SMOOTHNESS[kernel]
    constant = 2.0**d * math.pi ** (d / 2) * special.gamma(nu + d / 2) / special.gamma(nu) * (2.0 * nu) ** nu
    square = ((at * length) ** 2).sum(axis=1)
    return np.asarray(constant * length.prod() * (2.0 * nu + square) ** -(nu + d / 2))


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
