"""Observations as linear functionals of an unknown function with noise, and what a solver gives for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import QUANTITIES, scale_of
from crosslevel.data.checks import check_counts, check_finite, check_length
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

LARGEST_ERROR = 1e150
"""The square of a larger standard error is no number."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Observations y_i = scale_i * (integral of f over region i) + noise.

    Attributes
    ----------
    regions : Regions
    y : (n,)
    scale : (n,)
        1 for totals, 1 / volume for means and rates.
    unit_noise : (n,)
        Noise variance of each observation when the noise parameter is 1.
    known_noise : (n,)
        Known noise variance, added to it.
    level : (n,)
        What each observation is when f = 1 everywhere: scale times volume.
    mean : float or None
        Prior mean of f; None to be estimated.
    """

    regions: Regions
    y: FloatArray
    scale: FloatArray
    unit_noise: FloatArray
    known_noise: FloatArray
    level: FloatArray
    mean: float | None

    def noise(self, sigma2: float) -> FloatArray:
        """Give the noise variances, (n,)."""
        with np.errstate(over="ignore"):  # infinite noise is refused where the covariance is factorized
            return sigma2 * self.unit_noise + self.known_noise


@dataclass(frozen=True, eq=False)
class Objective:
    """Log marginal likelihood, and its derivatives by the logarithms of kernel hyperparameters, (h,), and noise."""

    value: float
    by_kernel: FloatArray
    by_noise: float


@dataclass(frozen=True, eq=False)
class Predicted:
    """Posterior of linear functionals.

    Attributes
    ----------
    mean, variance : (m,)
    prior_variance : (m,)
        Before the data; the level, when it is estimated, not counted.
    covariance : (m, m) or None
    """

    mean: FloatArray
    variance: FloatArray
    prior_variance: FloatArray
    covariance: FloatArray | None


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Each observation predicted from the others: mean and variance (with its noise), (n,) each."""

    mean: FloatArray
    variance: FloatArray


def check_finite_numbers(*numbers: FloatArray | float) -> None:
    """Refuse results that a float does not hold."""
    if not all(np.isfinite(x).all() for x in numbers):
        raise InputError(
            "y, the regions, sizes, std_error and the hyperparameters given differ by so many orders of magnitude that the answer is no "
            "number. Change the unit of the largest or the smallest, or leave hyperparameters to be estimated."
        )


def make_problem(
    regions: Regions, y: Any, quantity: str, sizes: Any = None, std_error: Any = None, mean: float | None = None
) -> Problem:
    """Check observations and set the noise they carry.

    Parameters
    ----------
    regions : Regions
    y : (n,)
    quantity : {"total", "mean", "rate"}
        With ``sizes`` n_i and the variance sigma^2 of one observation, a total has noise n_i sigma^2 and a mean or a rate
        sigma^2 / n_i. Without, totals and means have sigma^2, and rates sigma^2 / volume (the exposure, for weighted sums).
    sizes : (n,), optional
        Observations (mean, total) or exposure (rate) behind each y.
    std_error : (n,), optional
        Known standard errors: margins of error divided by their normal quantile.
    mean : float, optional
        Prior mean of f.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> p = make_problem(Intervals([0, 10], [10, 30]), [2.0, 3.0], "mean", sizes=[4, 9])
    >>> p.scale, p.noise(1.0).round(3), p.level
    (array([0.1 , 0.05]), array([0.25 , 0.111]), array([1., 1.]))
    """
    if quantity not in QUANTITIES:
        raise unknown_name("quantity", quantity, QUANTITIES, "quantity")
    n = len(regions)
    values = check_finite(y, "y", 1)
    check_length(values, "y", n, "regions")
    scale = scale_of(regions, quantity)
    volume = regions.volumes
    unit = np.ones(n) if quantity != "rate" else 1.0 / volume
    if sizes is not None:
        number = check_counts(sizes, "sizes", 1)
        check_length(number, "sizes", n, "regions")
        if not number.all():
            raise InputError(
                f"sizes is 0 in row {int(np.argmin(number))}; a region that nobody was observed in has no y."
            )
        unit = number if quantity == "total" else 1.0 / number
    known = np.zeros(n)
    if std_error is not None:
        error = check_counts(std_error, "std_error", 1)
        check_length(error, "std_error", n, "regions")
        if (error > LARGEST_ERROR).any():
            i = int(np.argmax(error))
            raise InputError(f"std_error is {error[i]:g} in row {i}, which says nothing; drop the row.")
        known = error**2
    return Problem(regions, values, scale, unit, known, scale * volume, mean)
