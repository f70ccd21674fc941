"""A gamma prior of alpha whose shape and mean are themselves unknown, and learned with the rest.

alpha_rc ~ Gamma(shape, rate shape / mean), with log shape and log mean normal around stated values. Given alpha the two depend on
the units only through n = R C, the sum of log alpha and the sum of alpha, so that renewing them costs nothing beside a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["SPREAD", "Hyperprior", "renew"]

SPREAD = 1.0
"""Standard deviation of the logarithms: one of them is off by a factor of e or more in a third of all problems."""
WIDTH = 1.0  # of the first interval of a slice: about the spread
TURNS = 3  # renewals of both to one of the units, which cost far more


@dataclass(frozen=True)
class Hyperprior:
    """Where shape and mean of the gamma prior are expected, and how certainly.

    Attributes
    ----------
    shape, mean : float
        Medians.
    spread : float
        Standard deviation of both logarithms.
    """

    shape: float
    mean: float
    spread: float = SPREAD

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw shape and rate."""
        shape = self.shape * math.exp(self.spread * rng.standard_normal())
        return shape, shape / (self.mean * math.exp(self.spread * rng.standard_normal()))

    def log_density(self, u: float, v: float, n: int, logs: float, total: float) -> float:
        """Give the log posterior of u = log shape and v = log mean, up to a constant.

        ``n`` alphas have ``total`` as their sum and ``logs`` as that of their logarithms.
        """
        shape = math.exp(u)
        likelihood = n * (shape * (u - v) - math.lgamma(shape)) + shape * logs - shape * math.exp(-v) * total
        distance = (u - math.log(self.shape)) ** 2 + (v - math.log(self.mean)) ** 2
        return likelihood - distance / (2 * self.spread**2)


def renew(
    alpha: npt.NDArray[np.float64], prior: tuple[float, float], hyper: Hyperprior, rng: np.random.Generator
) -> tuple[float, float]:
    """Draw shape and rate anew given alpha (R, C), by slice sampling of their logarithms in turn."""
    n, logs, total = alpha.size, float(np.log(alpha).sum()), float(alpha.sum())
    u, v = math.log(prior[0]), math.log(prior[0] / prior[1])
    for _ in range(TURNS):
        u = _slice(lambda z, v=v: hyper.log_density(z, v, n, logs, total), u, rng)  # type: ignore[misc]
        v = _slice(lambda z, u=u: hyper.log_density(u, z, n, logs, total), v, rng)  # type: ignore[misc]
    return math.exp(u), math.exp(u - v)


def _slice(density: Callable[[float], float], here: float, rng: np.random.Generator) -> float:
    """Draw from a log density on the line, stepping out from where the chain stands (Neal, 2003)."""
    level = density(here) + math.log(rng.random())
    low = here - WIDTH * rng.random()
    high = low + WIDTH
    while density(low) > level:
        low -= WIDTH
    while density(high) > level:
        high += WIDTH
    while True:
        z = low + (high - low) * rng.random()
        if density(z) >= level:
            return z
        low, high = (z, high) if z < here else (low, z)
