"""How probable are the labels, whatever the weights? The marginal likelihood, maximised (Law et al. 2018, section 3.2).

y ~ N(b 1, noise (I + Z Z' / lam)) with lam = noise / prior variance, and a flat prior on the intercept b. Given lam the best noise
is Q / m, so one number is searched for:

    -2 log p = m log(2 pi Q / m) + m + sum_k log(1 + s_k^2 / lam) [+ log n],    Q = sum_k t_k^2 lam / (lam + s_k^2) + rest,

m = n, or n - 1 with an intercept (whose flat prior adds log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear import Design, LinearFit, decompose, penalty_grid, solve
from crosslevel.typing import FloatArray

__all__ = ["fit_evidence", "log_evidence", "maximise"]


def log_evidence(design: Design, penalty: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Evaluate the log evidence at its best noise, its slope by log penalty and that noise, (L,) each."""
    lam = np.atleast_1d(penalty)
    s2 = (design.s**2)[:, None]
    keep = lam / (lam + s2)
    t2 = (design.t**2)[:, None]
    m = design.free
    Q = np.maximum((t2 * keep).sum(axis=0) + design.rest, m * design.floor)
    slope_Q = (t2 * keep * (1.0 - keep)).sum(axis=0)
    value = -0.5 * (m * (np.log(2.0 * np.pi * Q / m) + 1.0) + np.log1p(s2 / lam).sum(axis=0))
    value = value - 0.5 * np.log(len(design.y)) * design.intercept
    slope = -0.5 * (m * slope_Q / Q - (1.0 - keep).sum(axis=0))
    return value, slope, Q / m


def maximise(design: Design) -> LinearFit:
    """Find the penalty of largest evidence: the best of a grid, then the root of the slope beside it."""
    grid = penalty_grid(design)
    values, slopes, _ = log_evidence(design, grid)
    best = int(np.argmax(values))
    bound, penalty = "", float(grid[best])
    if best == 0 and slopes[0] <= 0:
        bound = "lower"
    elif best == len(grid) - 1 and slopes[-1] >= 0:
        bound = "upper"
    else:
        low, high = (best, best + 1) if slopes[best] > 0 else (best - 1, best)

        def slope(log_penalty: float) -> float:
            return float(log_evidence(design, np.exp(np.array([log_penalty])))[1][0])

        ends = np.log(grid[low]), np.log(grid[high])
        if slope(ends[0]) > 0 > slope(ends[1]):
            penalty = float(np.exp(brentq(slope, *ends, xtol=1e-12, rtol=1e-12)))
    value, at, noise = log_evidence(design, np.array([penalty]))
    return solve(design, penalty, float(noise[0]), float(value[0]), bound=bound, slope=float(at[0]) / design.free)


def fit_evidence(
    candidates: Sequence[BagFeatures], y: FloatArray, prior: str = "rkhs", intercept: bool = True
) -> LinearFit:
    """Fit every candidate by its evidence and keep the most probable.

    Parameters
    ----------
    candidates : sequence of BagFeatures
        Of the same bags, with different landmarks and bandwidths.
    y : (n,)
    prior : {"rkhs", "iid"}
    intercept : bool

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mu = rng.normal(size=(200, 3))
    >>> one = BagFeatures(mu, np.ones(200), np.eye(3), None, mu.mean(axis=0))
    >>> found = fit_evidence([one], 2.0 + mu @ [1.0, 0.0, -1.0] + 0.1 * rng.normal(size=200))
    >>> (found.coef.round(1) + 0.0).tolist(), round(found.noise, 2)
    ([1.0, 0.0, -1.0], 0.01)
    """
    fits = [maximise(decompose(c, y, prior, intercept)) for c in candidates]
    curve = np.array([f.criterion for f in fits])
    best = int(np.argmax(curve))
    return replace(fits[best], chosen=best, curve=curve)
