"""Intervals: from draws by their quantiles, or from a standard error by the normal or Student's distribution."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from crosslevel.typing import BoolArray, FloatArray

BLOCK = 1_000_000
"""Draws that are sorted at once: 8 MB, whatever the number of rows."""


class Spread(NamedTuple):
    """What draws say about each quantity: the ends of the interval, the standard error, and where all draws are finite."""

    low: FloatArray
    high: FloatArray
    std_error: FloatArray
    finite: BoolArray


def quantile_interval(
    draws: FloatArray, level: float, *, method: Literal["linear", "inverted_cdf"] = "linear", ddof: int = 0
) -> Spread:
    """Give the central interval of every quantity that was drawn, and the standard deviation of its draws.

    Parameters
    ----------
    draws : (n_draws, ...)
    level : float
        Probability inside the interval, in (0, 1).
    method : {"linear", "inverted_cdf"}
        How NumPy reads a quantile between two draws; "inverted_cdf" gives one of them, as counts need.
    ddof : int
        0 divides the variance by ``n_draws``, 1 by one less.

    Returns
    -------
    Spread
        Arrays of the shape of one draw; NaN where some draw is not finite.

    Examples
    --------
    >>> draws = np.column_stack([np.linspace(0.0, 1.0, 101), np.full(101, np.inf)])
    >>> found = quantile_interval(draws, 0.9)
    >>> found.low.round(2), found.high.round(2), found.finite
    (array([0.05,  nan]), array([0.95,  nan]), array([ True, False]))
    """
    shape, tail = draws.shape[1:], 0.5 * (1.0 - level)
    flat = draws.reshape(len(draws), -1)
    n = flat.shape[1]
    low, high, error = (np.full(n, np.nan) for _ in range(3))
    finite = np.zeros(n, dtype=bool)
    step = max(1, BLOCK // len(draws))
    for first in range(0, n, step):
        some = np.ascontiguousarray(flat[:, first : first + step].T)
        good = np.isfinite(some).all(axis=1)
        rows = first + np.flatnonzero(good)
        finite[rows] = True
        if len(rows):
            low[rows], high[rows] = np.quantile(some[good], [tail, 1.0 - tail], axis=1, method=method)
            error[rows] = some[good].std(axis=1, ddof=ddof)
    return Spread(*(v.reshape(shape) for v in (low, high, error, finite)))


def normal_interval(
    estimate: FloatArray, std_error: FloatArray, level: float, *, df: float = np.inf
) -> tuple[FloatArray, FloatArray]:
    """Give the ends of ``estimate`` plus and minus `critical_value` standard errors.

    Examples
    --------
    >>> normal_interval(np.array([1.0]), np.array([0.5]), 0.95)
    (array([0.02001801]), array([1.97998199]))
    """
    half = critical_value(level, df) * std_error
    return estimate - half, estimate + half


def critical_value(level: float, df: float = np.inf) -> float:
    """Give the standard errors between the estimate and an end of its interval: 1.96 for 0.95.

    Parameters
    ----------
    level : float
        Probability inside the interval.
    df : float
        Degrees of freedom of Student's distribution; infinite for the normal one.

    Examples
    --------
    >>> round(critical_value(0.95), 3), round(critical_value(0.95, df=9), 3)
    (1.96, 2.262)
    """
    tail: Any = 0.5 + 0.5 * level
    return float(special.stdtrit(df, tail) if np.isfinite(df) else special.ndtri(tail))
