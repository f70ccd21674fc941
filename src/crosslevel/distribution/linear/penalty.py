"""The penalty of a linear model, by its evidence or by the error on bags that are left out.

Evidence (Law et al. 2018, section 3.2): y ~ N(b 1, noise (I + Z Z' / lam)) with lam = noise / prior variance, and a flat prior on the
intercept b. Given lam the best noise is Q / m, so one number is searched for:

    -2 log p = m log(2 pi Q / m) + m + sum_k log(1 + s_k^2 / lam) [+ log n],    Q = sum_k t_k^2 lam / (lam + s_k^2) + rest,

m = n, or n - 1 with an intercept (whose flat prior adds log n).

Ridge regression: the residual of a bag that was left out, intercept refitted, is ``e_i / (1 - h_i - 1/n)``; generalized
cross-validation has the average of h in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import brentq

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear.model import Design, LinearFit, decompose, penalty_grid, solve
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

RULES = ("loo", "gcv")
LEAST_LEFT = 1e-300
EXTREME = 1e15
"""A given penalty this many times larger or smaller than the largest squared singular value is lost beside it in rounding."""
ROUNDING = 1e-14
"""Share of a bag's residual, times the number of bags, that is rounding."""


def find_penalty(
    design: Design, criterion: Callable[[FloatArray], tuple[FloatArray, ...]], sign: int
) -> tuple[float, str]:
    """Find the best penalty on a grid, then the root of the slope beside it; say at which limit it lies ("" if at none).

    Parameters
    ----------
    design : Design
    criterion : callable
        Gives values, slopes by log penalty and possibly more of penalties, (L,) each.
    sign : {1, -1}
        Whether the criterion is to be raised or lowered.
    """
    grid = penalty_grid(design)
    values, slopes, *_ = criterion(grid)
    best, up = int(np.argmax(sign * values)), sign * slopes
    if best == 0 and up[0] <= 0:
        return float(grid[0]), "lower"
    if best == len(grid) - 1 and up[-1] >= 0:
        return float(grid[-1]), "upper"
    low, high = (best, best + 1) if up[best] > 0 else (best - 1, best)

    def slope(log_penalty: float) -> float:
        return sign * float(criterion(np.exp(np.array([log_penalty])))[1][0])

    ends = np.log(grid[low]), np.log(grid[high])
    if slope(ends[0]) > 0 > slope(ends[1]):
        return float(np.exp(brentq(slope, *ends, xtol=1e-12, rtol=1e-12))), ""
    return float(grid[best]), ""


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
    fits = []
    for one in candidates:
        design = decompose(one, y, prior, intercept)
        penalty, bound = find_penalty(design, partial(log_evidence, design), sign=1)
        value, slope, noise = log_evidence(design, np.array([penalty]))
        at_end = float(slope[0]) / design.free
        fits.append(solve(design, penalty, float(noise[0]), float(value[0]), bound=bound, slope=at_end))
    return _best(fits, sign=1)


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
    residual, share = _outside(design)
    real = design.s > 0
    U, t, s2 = design.U[:, real], design.t[real], (design.s[real] ** 2)[:, None]
    keep = lam / (s2 + lam)
    turn = keep * (1.0 - keep)
    e = residual[:, None] + U @ (keep * t[:, None])
    de = U @ (turn * t[:, None])
    if rule == "gcv":
        left, dleft = (design.free - len(t) + keep.sum(axis=0)) / n, turn.sum(axis=0) / n
    else:
        square = U**2
        left, dleft = share[:, None] + square @ keep, square @ turn
    left = np.maximum(left, LEAST_LEFT)
    value = np.mean((e / left) ** 2, axis=0)
    slope = np.mean(2.0 * e * de / left**2 - 2.0 * e**2 * dleft / left**3, axis=0)
    return value, slope


def _outside(design: Design) -> tuple[FloatArray, FloatArray]:
    """Give what no penalty reaches of each bag: its residual, and the share of it that its own label has no part in, (n,) each.

    Where there are as many directions as bags nothing lies outside, and e and 1 - h are both as small as the penalty: they are added
    up from what each direction leaves, never by subtracting from 1, whose rounding would make a fit through all labels look good.
    """
    U, t = design.U[:, design.s > 0], design.t[design.s > 0]
    base = 1.0 / len(design.y) if design.intercept else 0.0
    share = 1.0 - base - np.square(U).sum(axis=1)
    none = share < ROUNDING * len(share)
    return np.where(none, 0.0, design.y - U @ t), np.where(none, 0.0, share)


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
        The squared length that is penalized: of the weights, or of the function in the RKHS.
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
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES, "choice")
    fits = []
    for one in candidates:
        design = decompose(one, y, prior, True)
        top = max(float(design.s[0]) ** 2 if len(design.s) else 0.0, 1e-300)
        if penalty is not None and not top / EXTREME <= penalty <= top * EXTREME:
            raise InputError(
                f"penalty={penalty:g} cannot be told from {'zero' if penalty < top else 'infinity'} beside the largest squared "
                f"singular value of the bags' means, {top:.3g}; pass one between {top / EXTREME:.0e} and {top * EXTREME:.0e}, or None "
                "to have it chosen."
            )
        at, bound = (penalty, "") if penalty else find_penalty(design, partial(losses, design, rule=rule), sign=-1)
        fits.append(fit_penalty(design, float(at), rule, bound))
    return _best(fits, sign=-1)


def _best(fits: Sequence[LinearFit], sign: int) -> LinearFit:
    """Keep the fit of the highest criterion (or the lowest, by sign -1)."""
    chosen = int(np.argmax([sign * f.criterion for f in fits]))
    return replace(fits[chosen], chosen=chosen)
