"""Find hyperparameters by marginal likelihood, and say how sure it is that they were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["Certificate", "Found", "LogNormal", "maximise"]

Goal = Callable[[FloatArray], tuple[float, FloatArray]]

FLAT = 1e-2
"""Largest slope that counts as none: less than a hundredth of a log likelihood unit for a hyperparameter 2.7 times as large."""
SAME = 0.01
"""Searches whose log likelihoods differ by less have found the same optimum."""
_FAILED = -1e25


@dataclass(frozen=True)
class LogNormal:
    """A normal prior of the logarithm of a hyperparameter."""

    median: float
    log_sd: float

    def log_density(self, log_value: float) -> tuple[float, float]:
        """Give the log density up to a constant, and its slope."""
        z = (log_value - np.log(self.median)) / self.log_sd
        return float(-0.5 * z * z), float(-z / self.log_sd)


@dataclass(frozen=True)
class Certificate:
    """How the search ended.

    Attributes
    ----------
    converged : bool
        Whether no slope is left, other than out of the bounds.
    slope : float
        Largest slope left, per log unit.
    searches, agreeing : int
        Searches made, and those that ended at the same optimum.
    at_bounds : tuple of str
        Hyperparameters at a limit of the search.
    evaluations : int
    """

    converged: bool
    slope: float
    searches: int
    agreeing: int
    at_bounds: tuple[str, ...]
    evaluations: int


@dataclass(frozen=True, eq=False)
class Found:
    """The best hyperparameters (logarithms), the value there, and the certificate."""

    theta: FloatArray
    value: float
    certificate: Certificate


def maximise(
    goal: Goal,
    starts: Sequence[FloatArray],
    lower: FloatArray,
    upper: FloatArray,
    names: Sequence[str],
    priors: Sequence[LogNormal | None] | None = None,
) -> Found:
    """Climb from several starts with L-BFGS and keep the best.

    Parameters
    ----------
    goal : callable
        Takes logarithms of hyperparameters; gives the log likelihood and its gradient.
    starts : sequence of (h,)
    lower, upper : (h,)
        Bounds of the logarithms.
    names : sequence of str
    priors : sequence, optional
        One per hyperparameter, or None.

    Examples
    --------
    >>> found = maximise(lambda t: (-float((t**2).sum()), -2 * t), [np.ones(2)], -5 * np.ones(2), 5 * np.ones(2), ["a", "b"])
    >>> found.theta.round(6) + 0.0, found.certificate.converged
    (array([0., 0.]), True)
    """
    count = [0]

    def negative(theta: FloatArray) -> tuple[float, FloatArray]:
        count[0] += 1
        try:
            value, slope = goal(theta)
        except InputError:  # a covariance that cannot be factorised: turn back
            return -_FAILED, np.zeros(len(theta))
        slope = slope.copy()
        for i, prior in enumerate(priors or ()):
            if prior is not None:
                more, steeper = prior.log_density(float(theta[i]))
                value, slope[i] = value + more, slope[i] + steeper
        if not np.isfinite(value) or not np.isfinite(slope).all():
            return -_FAILED, np.zeros(len(theta))
        return -value, -slope

    bounds = list(zip(lower, upper, strict=True))
    ends = []
    for start in starts:
        x = np.clip(start, lower, upper)
        for _ in range(3):  # L-BFGS may stop on a flat stretch; starting afresh forgets its wrong curvature
            result = optimize.minimize(
                negative,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": 200, "ftol": 1e-11, "gtol": 1e-5},
            )
            x = result.x
            left = _slope_left(x, np.asarray(result.jac), lower, upper)
            if left < FLAT:
                break
        ends.append((float(result.fun), x, left))
    value, x, left = min(ends, key=lambda e: e[0])
    at = tuple(n for n, v, a, b in zip(names, x, lower, upper, strict=True) if min(v - a, b - v) < 1e-6)
    same = sum(e[0] < value + SAME for e in ends)
    done = left < FLAT and value < -_FAILED
    return Found(x, -value, Certificate(done, left, len(ends), same, at, count[0]))


def _slope_left(x: FloatArray, slope: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Give the largest slope (of what is minimised) that does not lead out of the bounds."""
    free = np.where(((x <= lower + 1e-9) & (slope > 0)) | ((x >= upper - 1e-9) & (slope < 0)), 0.0, slope)
    return float(np.abs(free).max(initial=0.0))
