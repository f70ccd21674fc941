"""Numbers in words, as a reader likes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.results.display import describe_level

MOST_POINTS = 3000
"""Rows that a chart of points holds; more are sampled."""
SEED = 0


def plain(value: Any) -> str:
    """Write one value: four significant decimals, a dash for nothing.

    Examples
    --------
    >>> plain(0.51234), plain(None), plain(12345.6), plain(True), plain({"a": 7.5e-7})
    ('0.5123', '–', '12,346', 'yes', 'a: 7.5e-07')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        size = abs(float(value))
        return f"{value:,.0f}" if size >= 1e4 else f"{value:.4f}" if size == 0 or 1e-3 <= size < 10 else f"{value:.4g}"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {plain(v)}" for k, v in value.items())
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return ", ".join(map(plain, value))
    return str(value)


def number(value: float) -> str:
    """Write a number to three significant digits.

    Examples
    --------
    >>> number(0.012345), number(1234567.0), number(-3.0), number(999.7)
    ('0.0123', '1,234,567', '-3', '1,000')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def percent(value: float) -> str:
    """Write a share in percent, to a tenth.

    Examples
    --------
    >>> percent(0.5123), percent(-1e-9)
    ('51.2 %', '0.0 %')
    """
    return f"{round(100 * value, 1) + 0.0:.1f} %" if math.isfinite(value) else "–"


def points(value: float) -> str:
    """Write a difference of two shares in percentage points.

    Examples
    --------
    >>> points(0.0213), points(-0.01)
    ('2.1 points', '-1.0 points')
    """
    return f"{round(100 * value, 1) + 0.0:.1f} points" if math.isfinite(value) else "–"


def count(n: int, one: str, several: str | None = None) -> str:
    """Count things.

    Examples
    --------
    >>> count(1, "place"), count(1200, "place"), count(2, "county", "counties")
    ('1 place', '1,200 places', '2 counties')
    """
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def describe_intervals(level: float | None, interval: str) -> str:
    """Say the level of intervals, and their kind.

    Examples
    --------
    >>> describe_intervals(0.95, "wald"), describe_intervals(None, "none")
    ('95 % intervals (wald)', 'no interval')
    """
    return describe_level(level) + ("" if level is None else f"s ({interval})")


def with_level(level: float | None, whose: str = "its") -> str:
    """Say which interval is drawn beside a number; nothing where there is none.

    Examples
    --------
    >>> with_level(0.9), with_level(None)
    (' with its 90 % interval', '')
    """
    return "" if level is None else f" with {whose} {describe_level(level)}"


def span(low: float, high: float) -> str:
    """Write an interval.

    Examples
    --------
    >>> span(0.1, 0.25)
    '[0.1, 0.25]'
    """
    return f"[{number(low)}, {number(high)}]"


def sampled(n: int, most: int = MOST_POINTS) -> npt.NDArray[np.intp]:
    """Choose the rows that a chart shows: all, or a seeded random part in their order.

    Examples
    --------
    >>> sampled(3).tolist(), len(sampled(10_000))
    ([0, 1, 2], 3000)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(SEED).choice(n, most, replace=False))


def describe_sample(shown: int, n: int, one: str) -> str:
    """Say which rows a chart shows.

    Examples
    --------
    >>> describe_sample(5, 5, "bag"), describe_sample(5, 900, "row")
    ('5 bags', 'a random 5 of 900 rows (seed 0)')
    """
    return count(n, one) if shown == n else f"a random {shown:,} of {count(n, one)} (seed {SEED})"


def fifths(values: npt.ArrayLike) -> list[str | None]:
    """Name the fifth that each number falls into, in an order that text keeps.

    Examples
    --------
    >>> fifths([1.0, 2.0, 3.0, 4.0, 50.0])
    ['1: 1 to 1', '2: 2 to 2', '3: 3 to 3', '4: 4 to 4', '5: 50 to 50']
    """
    x = np.asarray(values, dtype=np.float64)
    known = np.isfinite(x)
    if not known.any():
        return [None] * len(x)
    ends = np.unique(np.quantile(x[known], [0.2, 0.4, 0.6, 0.8]))
    code = np.searchsorted(ends, x, side="right")
    names: dict[int, str] = {}
    for place, c in enumerate(np.unique(code[known]).tolist()):
        own = x[known & (code == c)]
        names[c] = f"{place + 1}: {number(float(own.min()))} to {number(float(own.max()))}"
    return [names[c] if k else None for c, k in zip(code.tolist(), known.tolist(), strict=True)]


def named(name: str) -> str:
    """Give the name of a column in words: ``std_error`` is read as standard error.

    Examples
    --------
    >>> named("std_error"), named("bound_low"), named("my_column")
    ('standard error', 'bound, low', 'my column')
    """
    return _NAMES.get(name, name.replace("_", " "))


_NAMES = {
    "std_error": "standard error",
    "conf_low": "interval, low",
    "conf_high": "interval, high",
    "bound_low": "bound, low",
    "bound_high": "bound, high",
    "lower": "bound, low",
    "upper": "bound, high",
    "model_low": "the model's own interval, low",
    "model_high": "the model's own interval, high",
    "shift": "shift to the place's total (logit)",
    "observed": "everybody in the place, observed",
    "rxc": "R x C model",
    "goodman": "Goodman regression",
    "neighborhood": "everybody like their place",
    "effective_size": "people behind it (effective)",
}
