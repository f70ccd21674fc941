"""What was observed, as linear functionals of the unknown function with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.data.checks import as_numbers, check_finite
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["KINDS", "Problem", "make_problem", "scale_of"]


KINDS = ("total", "mean", "rate")
"""What y may be."""
ASKED = (*KINDS, "density")
"""What may be predicted; a density over a region is its mean."""


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
        Variance that is known and comes on top.
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
        return sigma2 * self.unit_noise + self.known_noise


def scale_of(regions: Regions, kind: str) -> FloatArray:
    """Give what integrals over the regions are multiplied by, (n,)."""
    if kind not in ASKED:
        raise unknown_name("kind", kind, ASKED, "kind")
    if isinstance(regions, Intervals) and regions.open_ended:
        raise InputError(
            "an interval has no end, and the Gaussian model needs one: give a finite limit beyond which there is nothing, such as "
            "upper=105 for the last age group, or fit counts with likelihood='poisson' and tail=."
        )
    if kind == "total":
        return np.ones(len(regions))
    volume = regions.volumes
    if (volume == 0).any():
        i = int(np.argmax(volume == 0))
        raise InputError(
            f"region {i} has volume (or population) 0, so it has no {kind}; ask for kind='total' or drop it."
        )
    return 1.0 / volume


def make_problem(
    regions: Regions, y: Any, kind: str, sizes: Any = None, std_error: Any = None, mean: float | None = None
) -> Problem:
    """Check observations and say what noise they carry.

    Parameters
    ----------
    regions : Regions
    y : (n,)
    kind : {"total", "mean", "rate"}
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
    >>> from crosslevel.binned.regions.intervals import Intervals
    >>> p = make_problem(Intervals([0, 10], [10, 30]), [2.0, 3.0], "mean", sizes=[4, 9])
    >>> p.scale, p.noise(1.0).round(3), p.level
    (array([0.1 , 0.05]), array([0.25 , 0.111]), array([1., 1.]))
    """
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "kind")
    n = len(regions)
    values = as_numbers(y, "y", 1)
    if len(values) != n:
        raise InputError(f"y has {len(values):,} values for {n:,} regions; pass one per region.")
    if not np.isfinite(values).all():
        i = int(np.argmax(~np.isfinite(values)))
        raise InputError(
            f"y is missing or infinite in row {i} ({values[i]}), {int((~np.isfinite(values)).sum()):,} in all; leave these regions "
            "out of fit (an unknown total is simply not observed) and predict them afterwards."
        )
    scale = scale_of(regions, kind)
    volume = regions.volumes
    unit = np.ones(n)
    if sizes is not None:
        unit = _sizes(sizes, n)
        unit = unit if kind == "total" else 1.0 / unit
    elif kind == "rate":
        unit = 1.0 / volume
    known = np.zeros(n) if std_error is None else _errors(std_error, n) ** 2
    return Problem(regions, values, scale, unit, known, scale * volume, mean)


def _sizes(sizes: Any, n: int) -> FloatArray:
    x = check_finite(sizes, "sizes", 1)
    if len(x) != n:
        raise InputError(f"sizes has {len(x):,} values for {n:,} regions; pass one per region.")
    if (x <= 0).any():
        i = int(np.argmax(x <= 0))
        raise InputError(f"sizes is {x[i]:g} in row {i}; a region that nobody was observed in has no y. Drop it.")
    return x


def _errors(std_error: Any, n: int) -> FloatArray:
    x = check_finite(std_error, "std_error", 1)
    if len(x) != n:
        raise InputError(f"std_error has {len(x):,} values for {n:,} regions; pass one per region.")
    if (x < 0).any():
        i = int(np.argmax(x < 0))
        raise InputError(f"std_error is negative in row {i} ({x[i]:g}); pass standard deviations.")
    return x
