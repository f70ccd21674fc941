"""Ridge regression with its penalty, bandwidth and landmarks chosen by exact leave-one-out or generalised cross-validation.

The residual of a bag that was left out, intercept refitted, is ``e_i / (1 - h_i - 1/n)``; GCV has the average of h in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear import Design, LinearFit, decompose, penalty_grid, solve
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray

__all__ = ["RULES", "fit_penalty", "fit_ridge", "losses", "minimise"]


RULES = ("loo", "gcv")
LEAST_LEFT = 1e-300
ROUNDING = 1e-14
"""Share of a bag's residual, times the number of bags, that is rounding."""


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
    own, U, t = _outside(design)
    s2 = (design.s[design.s > 0] ** 2)[:, None]
    keep = lam / (s2 + lam)
    turn = keep * (1.0 - keep)
    e = own.residual[:, None] + U @ (keep * t[:, None])
    de = U @ (turn * t[:, None])
    if rule == "gcv":
        left, dleft = (design.free - len(t) + keep.sum(axis=0)) / n, turn.sum(axis=0) / n
    else:
        square = U**2
        left, dleft = own.share[:, None] + square @ keep, square @ turn
    left = np.maximum(left, LEAST_LEFT)
    value = np.mean((e / left) ** 2, axis=0)
    slope = np.mean(2.0 * e * de / left**2 - 2.0 * e**2 * dleft / left**3, axis=0)
    return value, slope


@dataclass(frozen=True, eq=False)
class _Outside:
    """What no penalty reaches of each bag: its residual, and the share of it that its own label has no part in, (n,) each."""

    residual: FloatArray
    share: FloatArray


def _outside(design: Design) -> tuple[_Outside, FloatArray, FloatArray]:
    """Give what lies outside the bags' vectors, and U (n, k) and t (k,) of the directions in which bags differ.

    Where there are as many directions as bags nothing lies outside, and e and 1 - h are both as small as the penalty: they are added
    up from what each direction leaves, never by subtracting from 1, whose rounding would make a fit through all labels look good.
    """
    real = design.s > 0
    U, t = design.U[:, real], design.t[real]
    base = 1.0 / len(design.y) if design.intercept else 0.0
    share = 1.0 - base - np.square(U).sum(axis=1)
    residual = design.y - U @ t
    none = share < ROUNDING * len(share)
    return _Outside(np.where(none, 0.0, residual), np.where(none, 0.0, share)), U, t


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
    s, t = design.s[design.s > 0], design.t[design.s > 0]
    keep = penalty / (s**2 + penalty)
    rss = float((t * keep) @ (t * keep)) + max(float(design.y @ design.y - t @ t), 0.0)
    left = max(design.free - len(t) + float(keep.sum()), 1e-3 * design.free)
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
