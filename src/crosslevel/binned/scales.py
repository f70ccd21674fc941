"""How large are things? Starts, bounds and priors of hyperparameters, from the limits of regions and the spread of y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.binned.hyperparameters import LogNormal
from crosslevel.binned.kernels import BoundKernel
from crosslevel.binned.problem import Problem
from crosslevel.typing import FloatArray

__all__ = ["FEW", "Scales", "lay_starts", "length_priors", "measure"]


FEW = 15
"""Below this many regions the likelihood alone says little about lengthscales, and a prior is added."""
PRIOR_SHARE, PRIOR_LOG_SD = 0.2, 0.7
"""The prior of a lengthscale: median a fifth of the range."""
LENGTHS, NOISES = (0.1, 0.3, 0.03, 1.0), (0.1, 0.01, 0.5, 0.1)
"""Starts: lengthscale as a share of the range, noise as a share of the variance of y."""
WIDTHS = 2.0
"""One more start: lengthscale in widths of regions. A curve that turns from bin to bin looks like noise from the others."""


@dataclass(frozen=True, eq=False)
class Scales:
    """Sizes of the problem.

    Attributes
    ----------
    span : (d,)
        Range of the regions along each axis.
    width : (d,)
        Typical width of a region, or distance of points.
    density_variance : float
        Variance of y as a density.
    noise_variance : float
        Variance of y in units of the noise parameter.
    volume : float
        Typical volume.
    """

    span: FloatArray
    width: FloatArray
    density_variance: float
    noise_variance: float
    volume: float


def measure(problem: Problem) -> Scales:
    """Measure the sizes of a problem."""
    lower, upper = problem.regions.bounds()
    span = upper.max(axis=0) - lower.min(axis=0)
    span = np.where(span > 0, span, 1.0)
    width = np.median(upper - lower, axis=0)
    distinct = np.array([max(len(np.unique(lower[:, d])), 1) for d in range(lower.shape[1])])
    width = np.where(width > 0, width, span / distinct)
    density = problem.y / problem.level
    centre = problem.mean if problem.mean is not None else float(density.mean())
    spread = float(np.mean((density - centre) ** 2))
    if not spread > 0:
        spread = float(centre**2) or 1.0
    noise = float(np.mean((problem.y - centre * problem.level) ** 2 / problem.unit_noise))
    if not noise > 0:
        noise = float(np.mean((problem.y) ** 2 / problem.unit_noise)) or 1.0
    return Scales(span, width, spread, noise, float(np.median(problem.regions.volumes)))


def lay_starts(
    problem: Problem, kernel: BoundKernel, restarts: int, seed: int | None
) -> tuple[list[FloatArray], FloatArray, FloatArray, Scales]:
    """Give starts, lower and upper bounds of the logarithms of kernel hyperparameters and, last, the noise."""
    s = measure(problem)
    variance = []
    for term in kernel.terms:
        white = bool(term.factors) and not any(f.correlation.has_length for f in term.factors)
        share = 0.1 * s.volume if white else 1.0
        variance.append(share * s.density_variance)
    starts = []
    shares = [(length * s.span, noise) for length, noise in zip(LENGTHS, NOISES, strict=True)]
    for lengths, noise in [*shares[:1], (WIDTHS * s.width, NOISES[0]), *shares[1:]]:
        which = iter(variance)
        row = [next(which) if a is None else lengths[a] * kernel.stretch for a in kernel.axes]
        starts.append(np.log([*row, noise * s.noise_variance]))
    which = iter(variance)
    base = np.array([next(which) if a is None else np.nan for a in kernel.axes])
    low = [
        1e-8 * b if a is None else 0.05 * kernel.stretch * min(s.width[a], s.span[a])
        for a, b in zip(kernel.axes, base, strict=True)
    ]
    high = [1e6 * b if a is None else 20.0 * kernel.stretch * s.span[a] for a, b in zip(kernel.axes, base, strict=True)]
    lower = np.log([*low, 1e-7 * s.noise_variance])
    upper = np.log([*high, 1e2 * s.noise_variance])
    rng = np.random.default_rng(seed)
    for _ in range(restarts):
        starts.append(starts[0] + rng.normal(0.0, 1.0, len(starts[0])))
    return starts, lower, upper, s


def length_priors(kernel: BoundKernel, scales: Scales) -> list[LogNormal | None]:
    """Give priors of the lengthscales; variances and noise (the last) have none."""
    return [
        *(
            None if a is None else LogNormal(PRIOR_SHARE * scales.span[a] * kernel.stretch, PRIOR_LOG_SD)
            for a in kernel.axes
        ),
        None,
    ]
