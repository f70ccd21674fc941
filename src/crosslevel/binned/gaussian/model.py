"""Observations as linear functionals of an unknown function with noise, and what a solver gives for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.binned import baselines
from crosslevel.binned.region_estimator import Answer
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import QUANTITIES, scale_of
from crosslevel.data.checks import check_counts, check_finite, check_length
from crosslevel.errors import InputError, unknown_name
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import BoolArray, FloatArray

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


MOST_PAIRS = 20_000_000
"""Pairs of predicted and observed regions beyond which the naive answer is left out."""
UNKNOWN = 0.05
"""Share of the prior variance that the data must remove for a region to count as informed."""


def draw(predicted: Predicted, n_draws: int, seed: int) -> FloatArray:
    """Draw from the joint posterior, (n_draws, m).

    Rounding leaves a covariance eigenvalues of either sign around zero; what lies below zero is set to zero.
    """
    assert predicted.covariance is not None
    w, Q = np.linalg.eigh(predicted.covariance)
    normal = np.random.default_rng(seed).standard_normal((n_draws, len(w)))
    return predicted.mean + (normal * np.sqrt(np.maximum(w, 0.0))) @ Q.T


def uninformed(variance: FloatArray, prior_variance: FloatArray) -> BoolArray:
    """Tell which predictions the data hardly changed: less than 5 % of the prior variance is gone.

    Examples
    --------
    >>> uninformed(np.array([0.99, 0.2]), np.ones(2))
    array([ True, False])
    """
    return np.asarray(variance > (1.0 - UNKNOWN) * prior_variance)


def area_weighting(problem: Problem, regions: Regions, scale: FloatArray) -> FloatArray | None:
    """Spread each observed total evenly over its region and sum: the naive answer.

    None where observed regions overlap; nan for a region that they do not cover.
    """
    if baselines.overlap(problem.regions) is not False or len(problem.y) * len(regions) > MOST_PAIRS:
        return None
    parts = baselines.shared_volumes(regions, problem.regions)
    if parts is None:
        return None
    spread = baselines.area_weighting(parts, problem.level, problem.y)
    covered = parts.sum(axis=1) > (1.0 - baselines.slack(regions)) * regions.volumes
    return np.where(covered, spread * scale, np.nan)


def describe_predictions(
    problem: Problem, regions: Regions, predicted: Predicted, scale: FloatArray, level: float
) -> Answer:
    """Give the columns of the table: a row per region or point."""
    sd = np.sqrt(predicted.variance)
    low, high = normal_interval(predicted.mean, sd, level)
    said = []
    if (problem.y >= 0).all() and (predicted.mean < 0).any():
        said.append(
            f"{int((predicted.mean < 0).sum())} estimate(s) are negative though nothing observed is; for counts use BinnedCountGP, "
            "which keeps them positive."
        )
    naive = area_weighting(problem, regions, scale)
    return Answer(
        dict(regions.labels()),
        {"estimate": predicted.mean, "std_error": sd, "conf_low": low, "conf_high": high},
        ~uninformed(predicted.variance, predicted.prior_variance),
        "are estimated from the prior alone: the data say nothing about them",
        {} if naive is None else {"area_weighted": naive},
        said,
    )
