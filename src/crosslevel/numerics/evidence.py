"""Maximize a log evidence or log posterior from several starts within bounds, and record how the search ended.

Every room that learns hyperparameters calls :func:`maximize`; what a fit says of its own search is one :class:`Convergence`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from crosslevel.errors import ConvergenceError, InputError
from crosslevel.typing import BoolArray, FloatArray

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""Parameters in; the value to be raised and its gradient out."""

FLAT = 1e-2
"""Largest slope that counts as none: less than a hundredth of a log likelihood unit for a hyperparameter 2.7 times as large."""
SAME = 0.01
"""Searches whose values differ by less have found the same optimum."""
LBFGS = {"maxiter": 200, "ftol": 1e-11, "gtol": 1e-5}
_FAILED = 1e25


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
class Convergence:
    """How a search ended.

    Attributes
    ----------
    converged : bool
        Whether no slope is left, other than out of the bounds.
    slope : float
        Largest slope left, bounds that hold a parameter left out.
    n_searches, agreeing : int
        Searches made, and those that ended at the same optimum.
    at_bounds : tuple of str
        Parameters at a limit of the search.
    evaluations : int
        Calls of the objective, over all starts.
    values : tuple of float
        Value reached from each start.
    """

    converged: bool
    slope: float
    n_searches: int = 1
    agreeing: int = 1
    at_bounds: tuple[str, ...] = ()
    evaluations: int = 0
    values: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Maximum:
    """The best parameters found, the value and gradient there, and how the search ended.

    Attributes
    ----------
    theta, gradient : (h,)
    value : float
        Log priors included, where there are any.
    start : int
        Position of the start that led here.
    convergence : Convergence
    """

    theta: FloatArray
    value: float
    gradient: FloatArray
    start: int
    convergence: Convergence


def maximize(
    objective: Objective,
    starts: Sequence[FloatArray],
    lower: FloatArray | None = None,
    upper: FloatArray | None = None,
    names: Sequence[str] = (),
    priors: Sequence[LogNormal | None] | None = None,
    *,
    flat: float = FLAT,
    rounds: int = 3,
    options: Mapping[str, Any] | None = None,
) -> Maximum:
    """Climb from several starts with L-BFGS and keep the best end.

    Parameters
    ----------
    objective : callable
        Gives the value to be raised and its gradient. A point where it raises InputError or ConvergenceError, or is not finite,
        is one the line search turns back from.
    starts : sequence of (h,)
    lower, upper : (h,), optional
        Bounds; none when left out, entries may be infinite.
    names : sequence of str
        Of the parameters, for ``at_bounds``.
    priors : sequence, optional
        One per parameter (which is then a logarithm), or None.
    flat : float
        Largest slope that counts as none.
    rounds : int
        How often a search that stopped on a slope is begun again where it stopped, which forgets its wrong curvature.
    options : mapping, optional
        Of L-BFGS, over the defaults of this module.

    Examples
    --------
    >>> found = maximize(lambda t: (-float((t**2).sum()), -2 * t), [np.ones(2)], -5 * np.ones(2), 5 * np.ones(2), ["a", "b"])
    >>> found.theta.round(6) + 0.0, found.convergence.converged
    (array([0., 0.]), True)
    """
    low = np.full(len(starts[0]), -np.inf) if lower is None else np.asarray(lower, dtype=np.float64)
    high = np.full(len(starts[0]), np.inf) if upper is None else np.asarray(upper, dtype=np.float64)
    count = 0

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        nonlocal count
        count += 1
        try:
            value, slope = objective(theta)
        except (InputError, ConvergenceError):
            return _FAILED, np.zeros(len(theta))
        slope = np.array(slope, dtype=np.float64)
        for i, prior in enumerate(priors or ()):
            if prior is not None:
                more, steeper = prior.log_density(float(theta[i]))
                value, slope[i] = value + more, slope[i] + steeper
        if not np.isfinite(value) or not np.isfinite(slope).all():
            return _FAILED, np.zeros(len(theta))
        return -value, -slope

    ends = []
    for start in starts:
        x = np.clip(start, low, high)
        for _ in range(rounds):
            found = optimize.minimize(
                loss,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=optimize.Bounds(low, high),
                options={**LBFGS, **(options or {})},
            )
            x = np.asarray(found.x)
            left = _slope_left(x, np.asarray(found.jac), low, high)
            if left < flat:
                break
        ends.append((float(found.fun), x, np.asarray(found.jac), left))
    best = min(range(len(ends)), key=lambda k: ends[k][0])
    cost, x, jac, left = ends[best]
    at = np.minimum(x - low, high - x) < 1e-6
    convergence = Convergence(
        converged=left < flat and cost < _FAILED,
        slope=left,
        n_searches=len(ends),
        agreeing=sum(end[0] < cost + SAME for end in ends),
        at_bounds=tuple(name for name, held in zip(names, at, strict=True) if held) if names else (),
        evaluations=count,
        values=tuple(-end[0] for end in ends),
    )
    return Maximum(x, -cost, -jac, best, convergence)


def _slope_left(x: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """Give the largest slope (of what is minimized) that does not lead out of the bounds."""
    held: BoolArray = ((x <= low + 1e-9) & (slope > 0)) | ((x >= high - 1e-9) & (slope < 0))
    return float(np.abs(np.where(held, 0.0, slope)).max(initial=0.0))
