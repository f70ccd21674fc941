"""The kernel: a variance times the product of one correlation along every axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.data.checks import check_positive
from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.integrals.correlations import CORRELATIONS, Correlation


@dataclass(frozen=True)
class Kernel:
    """A kernel over given axes; what is None is to be found.

    Attributes
    ----------
    correlation : Correlation
    variance : float or None
    lengthscales : (d,)

    Notes
    -----
    The hyperparameters are logarithms: of the variance, then of the lengthscales.
    """

    correlation: Correlation
    variance: float | None
    lengthscales: tuple[float | None, ...]

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return len(self.lengthscales)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        axes = [f"_{axis}" for axis in range(self.dimension)] if self.dimension > 1 else [""]
        return ("variance", *(f"lengthscale{axis}" for axis in axes))

    @property
    def given(self) -> tuple[float | None, ...]:
        """Hyperparameters (not their logarithms) that were given; None where they are to be found."""
        return (self.variance, *self.lengthscales)


def read_kernel(name: Any, dimension: int, *, variance: float | None = None, lengthscale: Any = None) -> Kernel:
    """Read a name, with its variance and lengthscale (one, or one per axis) where they are given.

    Examples
    --------
    >>> read_kernel("matern32", 2, variance=2.0).given
    (2.0, None, None)
    """
    if name not in CORRELATIONS:
        raise unknown_name("kernel", name, CORRELATIONS, "kernel")
    return Kernel(Correlation(name), _positive(variance, "variance"), _lengths(lengthscale, dimension))


def read_number(value: Any, argument: str) -> float | None:
    """Read a finite number; None stays None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise InputError(f"{argument}={value!r} is not a number; pass one, or None to have it estimated.")
    return number


def _positive(value: Any, argument: str) -> float | None:
    number = read_number(value, argument)
    if number is not None and number <= 0:
        raise InputError(f"{argument}={value!r} is not a positive number; pass one, or None to have it estimated.")
    return None if number is None else check_positive(number, argument)


def _lengths(lengthscale: Any, dimension: int) -> tuple[float | None, ...]:
    if not isinstance(lengthscale, Sequence | np.ndarray):
        return (_positive(lengthscale, "lengthscale"),) * dimension
    if len(lengthscale) != dimension:
        raise InputError(
            f"lengthscale has {len(lengthscale)} values for {dimension} dimension(s); pass one, or one per axis."
        )
    return tuple(_positive(x, "lengthscale") for x in lengthscale)
