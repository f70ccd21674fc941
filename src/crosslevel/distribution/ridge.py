"""Ridge regression with its penalty, bandwidth and landmarks chosen by exact leave-one-out or generalised cross-validation.

The residual of a bag that was left out, intercept refitted, is ``e_i / (1 - h_i - 1/n)``; GCV has the average of h in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear import Design, LinearFit, decompose, penalty_grid, solve
from crosslevel.errors import unknown_name

__all__ = ["RULES", "fit_penalty", "fit_ridge", "losses", "minimise"]

FloatArray = npt.NDArray[np.float64]

RULES = ("loo", "gcv")
LEAST_LEFT = 1e-10
"""Least share of its own residual a bag keeps: beyond, the left-out residual is rounding."""


def losses(design: Design, penalty: FloatArray, rule: str) -> tuple[FloatArray, FloatArray]:
    """Evaluate the mean squared left-out residual and its slope by log penalty, (L,) each.

    Parameters
    ----------
    design : Design
    penalty : (L,)
    rule : {"loo", "gcv"}
    """
    lam = np.atleast_1d(penalty)
    n = len(design.y)
    take = (design.s**2)[:, None] / ((design.s**2)[:, None] + lam)
    turn = -take * (1.0 - take)
    e = design.y[:, None] - design.U @ (take * design.t[:, None])
    de = -design.U @ (turn * design.t[:, None])
    base = 1.0 / n if design.intercept else 0.0
    if rule == "gcv":
        h, dh = take.sum(axis=0) / n, turn.sum(axis=0) / n
    else:
        square = design.U**2
        h, dh = square @ take, square @ turn
    left = np.maximum(1.0 - base - h, LEAST_LEFT)
    value = np.mean((e / left) ** 2, axis=0)
    slope = np.mean(2.0 * e * de / left**2 + 2.0 * e**2 * dh / left**3, axis=0)
    return value, slope


def minimise(design: Design, rule: str) -> LinearFit:
    """Find the penalty of least left-out error: the best of a grid, then the root of the slope beside it."""
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES, "choice")
    grid = penalty_grid(design)
    values, slopes = losses(design, grid, rule)
    best = int(np.argmin(values))
    bound, penalty = "", float(grid[best])
    if best == 0 and slopes[0] >= 0:
        bound = "lower"
    elif best == len(grid) - 1 and slopes[-1] <= 0:
        bound = "upper"
    else:
        low, high = (best, best + 1) if slopes[best] < 0 else (best - 1, best)

        def slope(log_penalty: float) -> float:
            return float(losses(design, np.exp(np.array([log_penalty])), rule)[1][0])

        ends = np.log(grid[low]), np.log(grid[high])
        if slope(ends[0]) < 0 < slope(ends[1]):
            penalty = float(np.exp(brentq(slope, *ends, xtol=1e-12, rtol=1e-12)))
    return fit_penalty(design, penalty, rule, bound)


def fit_penalty(design: Design, penalty: float, rule: str, bound: str = "") -> LinearFit:
    """Fit at a given penalty; the noise is what is left by as many degrees of freedom as are left."""
    value, slope = losses(design, np.array([penalty]), rule)
    keep = penalty / (design.s**2 + penalty)
    rss = float((design.t * keep) @ (design.t * keep)) + design.rest
    left = max(design.free - float((1.0 - keep).sum()), 1e-3 * design.free)
    scale = max(float(value[0]), design.floor)
    return solve(design, penalty, rss / left, float(value[0]), bound=bound, slope=float(slope[0]) / scale)


def fit_ridge(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    prior: str = "iid",
    rule: str = "loo",
    penalty: float | None = None,
) -> LinearFit:
    """Fit every candidate and keep the one of least left-out error.

    Parameters
    ----------
    candidates : sequence of BagFeatures
    y : (n,)
    prior : {"iid", "rkhs"}
        The squared length that is penalised: of the weights, or of the function in the RKHS.
    rule : {"loo", "gcv"}
    penalty : float, optional
        Given, it is not searched for; it multiplies the squared length beside the *sum* of squared errors.

    Examples
    --------
    >>> mu = np.random.default_rng(0).normal(size=(50, 2))
    >>> one = BagFeatures(mu, np.ones(50), np.eye(2), None, mu.mean(axis=0))
    >>> (fit_ridge([one], 1.0 + mu @ [2.0, 0.0]).coef.round(4) + 0.0).tolist()
    [2.0, 0.0]
    """
    designs = [decompose(c, y, prior, True) for c in candidates]
    fits = [minimise(d, rule) if penalty is None else fit_penalty(d, float(penalty), rule) for d in designs]
    curve = np.array([f.criterion for f in fits])
    best = int(np.argmin(curve))
    return replace(fits[best], chosen=best, curve=curve)
