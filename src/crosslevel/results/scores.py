"""How far estimates lie from the truth, and how often intervals hold it.

Functions on arrays. A pair with a NaN on either side is left out; when no pair is left there is no score, and
the error says so.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.data.checks import as_numbers, check_level
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray


def rmse(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """How far off is an estimate, in the root of the mean square?

    Examples
    --------
    >>> rmse([1.0, 5.0], [1.0, 2.0]) == (9 / 2) ** 0.5
    True
    """
    e, t = _complete(estimate=estimate, truth=truth)
    return float(np.sqrt(np.mean((e - t) ** 2)))


def mae(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """How far off is an estimate, on average?

    Examples
    --------
    >>> mae([1.0, 5.0], [1.0, 2.0])
    1.5
    """
    e, t = _complete(estimate=estimate, truth=truth)
    return float(np.mean(np.abs(e - t)))


def bias(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """How much too high are the estimates, on average?

    Examples
    --------
    >>> bias([1.0, 5.0], [1.0, 2.0])
    1.5
    """
    e, t = _complete(estimate=estimate, truth=truth)
    return float(np.mean(e - t))


def coverage(low: npt.ArrayLike, high: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Which share of the truths lies inside the interval, ends included?

    Examples
    --------
    >>> coverage([0, 0], [1, 1], [0.5, 2.0])
    0.5
    """
    lo, hi, t = _complete(low=low, high=high, truth=truth)
    return float(np.mean((lo <= t) & (t <= hi)))


def coverage_std_error(low: npt.ArrayLike, high: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """How uncertain is the coverage itself, were the rows independent: √(c(1-c)/n).

    Examples
    --------
    >>> coverage_std_error([0] * 4, [1] * 4, [0.5, 0.5, 2.0, 2.0])
    0.25
    """
    lo, hi, t = _complete(low=low, high=high, truth=truth)
    c = coverage(lo, hi, t)
    return float(np.sqrt(c * (1.0 - c) / len(t)))


def share_row(hits: npt.ArrayLike) -> dict[str, float | int]:
    """Give the share of hits as the columns of a row: estimate, standard error, 95 % interval of Wilson, and n.

    Examples
    --------
    >>> row = share_row([True, False, True, True])
    >>> row["estimate"], row["n"], round(row["conf_low"], 3), round(row["conf_high"], 3)
    (0.75, 4, 0.301, 0.954)
    """
    from scipy import stats  # takes longer to import than everything else here

    hit = np.asarray(hits, dtype=np.float64)
    share, n = float(hit.mean()), len(hit)
    low, high = stats.binomtest(round(float(hit.sum())), n).proportion_ci(0.95, method="wilson")
    ends = {"conf_low": float(low), "conf_high": float(high)}
    return {"estimate": share, "std_error": float(np.sqrt(share * (1.0 - share) / n)), **ends, "n": n}


def interval_score(
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    truth: npt.ArrayLike,
    level: float,
    weight: npt.ArrayLike | None = None,
) -> float:
    """How good are the intervals, width and misses together (smaller is better)?

    The mean, weighted where weights are given, of (high - low) + 2/α · (distance of the truth outside the interval),
    α = 1 - level: eq. 43 of Gneiting and Raftery (2007), "Strictly proper scoring rules, prediction, and estimation".

    Examples
    --------
    >>> interval_score([0.0, 0.0], [1.0, 1.0], [0.5, 2.0], level=0.5)
    3.0
    """
    alpha = 1.0 - check_level(level)
    w = np.ones_like(np.asarray(truth, dtype=np.float64)) if weight is None else weight
    lo, hi, t, w = _complete(low=low, high=high, truth=truth, weight=w)
    outside = np.maximum(lo - t, 0.0) + np.maximum(t - hi, 0.0)
    return float(np.average(hi - lo + 2.0 / alpha * outside, weights=w))


def scorecard(
    estimate: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, truth: npt.ArrayLike, level: float | None
) -> dict[str, float | int | None]:
    """Put all scores of one table together; those of the interval are None when no row has one.

    Examples
    --------
    >>> scorecard([0.5], [0.4], [0.6], [0.5], 0.95)["coverage"]
    1.0
    """
    e, t = _complete(estimate=estimate, truth=truth)
    lo, hi, all_t = (as_numbers(v, n, 1) for n, v in (("low", low), ("high", high), ("truth", truth)))
    held = level is not None and not (np.isnan(lo) | np.isnan(hi) | np.isnan(all_t)).all()
    return {
        "n": len(e),
        "rmse": rmse(e, t),
        "mae": mae(e, t),
        "bias": bias(e, t),
        "level": level,
        "coverage": coverage(lo, hi, all_t) if held else None,
        "coverage_std_error": coverage_std_error(lo, hi, all_t) if held else None,
        "interval_score": interval_score(lo, hi, all_t, level) if held and level is not None else None,
    }


def _complete(**arrays: npt.ArrayLike) -> list[FloatArray]:
    """Flatten the arrays and keep the entries present in all of them."""
    read = {name: as_numbers(values, name) for name, values in arrays.items()}
    shapes = {name: a.shape for name, a in read.items()}
    if len(set(shapes.values())) > 1:
        raise InputError(f"the shapes differ ({shapes}); pass arrays of one shape.")
    whole = np.logical_and.reduce([~np.isnan(a) for a in read.values()])
    if not whole.any():
        raise InputError(f"no row has all of {', '.join(read)}; there is nothing to score.")
    return [a[whole] for a in read.values()]
