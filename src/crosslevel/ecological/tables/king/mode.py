"""The mode of the posterior of King's model, from several starts, and the curvature there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from crosslevel.ecological.tables.king.likelihood import Problem, log_posterior_slope
from crosslevel.numerics.newton import newton
from crosslevel.typing import BoolArray, FloatArray

SMALLEST_SPREAD, LARGEST_SPREAD = 1e-3, 10.0
"""Standard deviations tried. Where the rates of a group are the same everywhere the likelihood grows without end as the
spread falls; a tenth of a percentage point is then called no spread."""
LARGEST_FISHER_Z = 4.0  # |rho| < 0.9993
LARGEST_MEAN = 60.0  # phi1, phi2: means up to 15 squares away when there is no spread
STARTS = ((0.2, 0.2, 0.0), (0.1, 0.3, 0.3), (0.3, 0.1, -0.3), (0.05, 0.05, 0.0), (0.5, 0.5, 0.0))
"""Standard deviations and Fisher z from which the search begins; the last two begin at the center of the square."""
AGREEMENT = 1e-3
"""Log posterior within which two searches have found the same mode: a thousandth of a nat is invisible in any answer."""
DEPTH = 7.0
"""Modes lower than this in log posterior hold less than a thousandth of its mass, and are left out."""
WIDEST = 2.0
"""Largest sd of a proposal on the scale of estimation: 0.5 in a mean, a factor of 7 in a spread."""


@dataclass(frozen=True)
class Mode:
    """Where the posterior is highest.

    Attributes
    ----------
    phi : (n_parameters,)
    value : log posterior there.
    covariance : (n_parameters, n_parameters)
        Inverse of minus the curvature, repaired where that is not positive.
    gradient_norm : of the gradient, less what pushes against a limit.
    distance : to the mode, in posterior standard deviations (Newton decrement).
    n_restarts, agreeing : searches begun, and those that ended here.
    at_limit : (n_parameters,) bool
        Parameters that a limit of the search holds.
    flat : directions whose curvature was not positive enough and was replaced.
    lower : further modes, (phi, covariance) of each, within ``DEPTH`` of this one.
    """

    phi: FloatArray
    value: float
    covariance: FloatArray
    gradient_norm: float
    distance: float
    n_restarts: int
    agreeing: int
    at_limit: BoolArray
    flat: int
    lower: tuple[tuple[FloatArray, FloatArray], ...] = ()


def limits(n_parameters: int) -> FloatArray:
    """Give the smallest and largest value tried of every parameter: (n_parameters, 2)."""
    found = np.full((n_parameters, 2), (-LARGEST_MEAN, LARGEST_MEAN))
    found[2:4] = np.log(SMALLEST_SPREAD), np.log(LARGEST_SPREAD)
    found[4] = -LARGEST_FISHER_Z, LARGEST_FISHER_Z
    return found


def find_mode(problem: Problem) -> Mode:
    """Maximize the posterior from several starts by exact gradients and finish by Newton steps.

    Parameters
    ----------
    problem : Problem
        With covariates of unit variance.
    """
    box = limits(problem.n_parameters)
    n = len(problem.lines.X)

    def downhill(phi: FloatArray) -> tuple[float, FloatArray]:
        value, slope = log_posterior_slope(phi, problem)
        # a step into a region where the density underflows is refused by the line search
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e300, np.zeros(phi.size)
        return -value / n, -slope / n  # per unit, so that the first step is of one length whatever their number

    ends = []
    for start in _starts(problem):
        done = optimize.minimize(
            downhill,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-7},
        )
        ends.append((n * float(done.fun), np.asarray(done.x)))
    ends.sort(key=lambda end: end[0])
    phi, precision, gradient, held = _newton(ends[0][1], problem, box)
    value = log_posterior_slope(phi, problem)[0]
    free = np.where(held, 0.0, gradient)
    covariance, flat = _covariance(precision, gradient, held)
    return Mode(
        phi=phi,
        value=value,
        covariance=covariance,
        gradient_norm=float(np.linalg.norm(free)),
        distance=float(np.sqrt(max(float(free @ covariance @ free), 0.0))),
        n_restarts=len(ends),
        agreeing=sum(-end[0] > value - AGREEMENT for end in ends),
        at_limit=held,
        flat=flat,
        lower=_lower_modes(ends, value, problem, box),
    )


def _lower_modes(
    ends: list[tuple[float, FloatArray]], value: float, problem: Problem, box: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Give place and covariance of every lower mode that still matters; ``ends`` are in order of height."""
    found, last = [], value
    for height, end in ends:
        if not value - DEPTH < -height < last - AGREEMENT:
            continue
        last = -height
        phi, precision, gradient, held = _newton(end, problem, box)
        if log_posterior_slope(phi, problem)[0] < value - AGREEMENT:
            found.append((phi, _covariance(precision, gradient, held)[0]))
    return tuple(found)


def _starts(problem: Problem) -> list[FloatArray]:
    """Begin at Goodman's rates, clipped into the square, and at its center, with several spreads."""
    X, T = problem.lines.X, problem.lines.T
    rates = np.linalg.lstsq(np.column_stack([X, 1.0 - X]), T, rcond=1e-6)[0]
    found = []
    for i, (sb, sw, z) in enumerate(STARTS):
        mean = np.clip(rates, 0.02, 0.98) if i < 3 else np.full(2, 0.5 * (0.5 + T.mean()))
        phi = np.zeros(problem.n_parameters)
        phi[:5] = [(mean[0] - 0.5) / (sb**2 + 0.25), (mean[1] - 0.5) / (sw**2 + 0.25), np.log(sb), np.log(sw), z]
        found.append(phi)
    return found


def _precision(phi: FloatArray, problem: Problem) -> FloatArray:
    """Difference the exact gradient centrally: minus the curvature, (n_parameters, n_parameters)."""
    step = 1e-5
    rows = [
        (log_posterior_slope(phi - step * e, problem)[1] - log_posterior_slope(phi + step * e, problem)[1]) / (2 * step)
        for e in np.eye(phi.size)
    ]
    found = np.array(rows)
    return np.nan_to_num((found + found.T) / 2)


def _newton(phi: FloatArray, problem: Problem, box: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Polish the end of a search; give it with the curvature, the gradient and the parameters that a limit holds."""
    at: list[Any] = []

    def direction(phi: FloatArray) -> FloatArray | None:
        gradient, precision = log_posterior_slope(phi, problem)[1], _precision(phi, problem)
        held = ((phi <= box[:, 0] + 1e-9) & (gradient < 0)) | ((phi >= box[:, 1] - 1e-9) & (gradient > 0))
        at[:] = precision, gradient, held
        if held.all():
            return None
        roots, vectors = np.linalg.eigh(precision[np.ix_(~held, ~held)])
        along, sharp = vectors.T @ gradient[~held], np.maximum(np.abs(roots), WIDEST**-2)
        if np.sqrt((along**2 / sharp).sum()) < 1e-7:
            return None
        step = np.zeros(phi.size)
        step[~held] = vectors @ (along / sharp)
        return step

    found = newton(
        phi,
        lambda phi: log_posterior_slope(phi, problem)[0],
        direction,
        max_steps=20,
        halvings=11,
        project=lambda phi: np.clip(phi, box[:, 0], box[:, 1]),
    )
    return found.x, at[0], at[1], at[2]


def _covariance(precision: FloatArray, gradient: FloatArray, held: BoolArray) -> tuple[FloatArray, int]:
    """Invert the curvature, at most ``WIDEST`` in any direction; give also the number of directions cut to that.

    Against a limit the posterior falls off as exp(-|gradient| distance), with sd 1 / |gradient|.
    """
    sharpened = precision.copy()
    sharpened[held, :] = sharpened[:, held] = 0.0
    sharpened[held, held] = np.maximum(np.diag(precision)[held], 0.0) + gradient[held] ** 2
    roots, vectors = np.linalg.eigh(sharpened)
    flat = int((roots < WIDEST**-2).sum())
    return (vectors / np.maximum(roots, WIDEST**-2)) @ vectors.T, flat
