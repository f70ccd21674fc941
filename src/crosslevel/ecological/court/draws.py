"""Chances and intervals from joint draws, and what to say where there are none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.data import checks
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = [
    "chance_of_first",
    "interval_of",
    "lead_over_others",
    "level_of",
    "mean_of_draws",
    "remarks_on",
    "share_of_draws",
]


USUAL_LEVEL = 0.95
WITH_DRAWS = "rxc, king and multinomial_dirichlet"
FEW_DRAWS = 400
"""With fewer, a chance of 0.95 is known to worse than two points, and that is said."""


def chance_of_first(support: FloatArray) -> FloatArray:
    """Give each outcome its share of the first place in every draw (..., n_outcomes); ties are split evenly.

    Examples
    --------
    >>> import numpy as np
    >>> chance_of_first(np.array([[0.5, 0.2, 0.3], [0.4, 0.4, 0.2]])).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]
    """
    level = np.where(np.isnan(support), -np.inf, support)
    best = level == level.max(axis=-1, keepdims=True)
    there = np.isfinite(support)
    first = (best & there).astype(np.float64)
    total = first.sum(axis=-1, keepdims=True)
    return np.where(there, np.divide(first, total, out=np.zeros_like(first), where=total > 0), np.nan)


def lead_over_others(support: FloatArray) -> FloatArray:
    """Give the lead of each outcome over the best of the others, (..., n_outcomes); NaN where there is no other."""
    filled = np.where(np.isnan(support), -np.inf, support)
    best_other = np.stack(
        [np.delete(filled, c, axis=-1).max(axis=-1, initial=-np.inf) for c in range(filled.shape[-1])], -1
    )
    with np.errstate(invalid="ignore"):
        lead = filled - best_other
    return np.where(np.isfinite(lead), lead, np.nan)


def interval_of(draws: FloatArray, estimate: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give std_error, conf_low and conf_high from draws (n_draws, ...); NaN where there are none.

    The interval is widened to hold the estimate, which need not be the draws' centre where they end at a bound.
    """
    known = np.isfinite(draws).any(axis=0) & np.isfinite(estimate)
    error, low, high = (np.full(estimate.shape, np.nan) for _ in range(3))
    kept = draws[:, known]
    if kept.shape[1]:
        error[known] = np.nanstd(kept, axis=0)
        ends = np.nanquantile(kept, [(1 - level) / 2, (1 + level) / 2], axis=0)
        low[known], high[known] = np.minimum(ends[0], estimate[known]), np.maximum(ends[1], estimate[known])
    return error, low, high


def share_of_draws(held: npt.NDArray[np.bool_], draws: FloatArray) -> FloatArray:
    """Give the share of the draws (n_draws, ...) in which something held; NaN where there are none."""
    known = np.isfinite(draws)
    n = known.sum(axis=0)
    return np.divide((held & known).sum(axis=0), n, out=np.full(n.shape, np.nan), where=n > 0)


def mean_of_draws(values: FloatArray) -> FloatArray:
    """Average over the draws (n_draws, ...); NaN where there are none."""
    known = np.isfinite(values)
    n = known.sum(axis=0)
    return np.divide(np.where(known, values, 0.0).sum(axis=0), n, out=np.full(n.shape, np.nan), where=n > 0)


def level_of(result: Estimates, level: float | None) -> float | None:
    """Settle the level of the intervals: the caller's, the answer's own, 95 %; None without draws and interval."""
    if level is not None:
        level = checks.check_level(level)
    if result.draws is not None:
        return level if level is not None else result.level if result.level is not None else USUAL_LEVEL
    if level is not None and level != result.level:
        own = "no interval" if result.level is None else f"its own interval at {result.level:g} only"
        raise InputError(
            f"level={level!r} needs posterior draws, and {result.method} has none and {own}; leave level out, or use a method "
            f"with draws ({WITH_DRAWS})."
        )
    return result.level


def remarks_on(result: Estimates, missing: str) -> tuple[str, ...]:
    """Say what the reader should know: no draws and what is missing for that, few draws, or midpoints of bounds."""
    methods = set(result["method"].tolist()) if "method" in result.keys else {result.method.split(" ")[0]}
    said = (
        ("Midpoints of bounds are not estimates: nothing inside the bounds is more probable than anything else.",)
        if "bounds" in methods
        else ()
    )
    if result.draws is None:
        return (*said, f"{result.method}: no posterior draws, so {missing}; {WITH_DRAWS} have draws.")
    n = len(result.draws)
    if n >= FEW_DRAWS:
        return said
    return (*said, f"Chances rest on {n:,} draws: one of 0.95 is known to ±{2 * np.sqrt(0.95 * 0.05 / n):.2f}.")
