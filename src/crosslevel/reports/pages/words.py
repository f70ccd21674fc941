"""Numbers in words, as a reader likes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslevel.results import Estimates

__all__ = [
    "count",
    "is_share",
    "level_words",
    "mapped_level",
    "named",
    "number",
    "percent",
    "plain",
    "points",
    "provenance_words",
]


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
    """Write a share in per cent, to a tenth.

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


def level_words(level: float | None, interval: str = "") -> str:
    """Say the level of an interval, and its kind.

    Examples
    --------
    >>> level_words(0.95, "wald"), level_words(None)
    ('95 % intervals (wald)', 'no interval')
    """
    if level is None:
        return "no interval"
    return f"{100 * level:g} % intervals" + (f" ({interval})" if interval else "")


def mapped_level(level: float | None) -> str:
    """Say what hovering over a place tells, with the level where there is one.

    Examples
    --------
    >>> mapped_level(0.9), mapped_level(None)
    ('Hover for the 90 % interval and what else is known of a place.', 'Hover for what is known of a place; there is no interval.')
    """
    if level is None:
        return "Hover for what is known of a place; there is no interval."
    return f"Hover for the {100 * level:g} % interval and what else is known of a place."


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


def is_share(estimates: Estimates) -> bool:
    """Tell whether the estimates are shares, by their size: all between 0 and 1, as is what else is on their scale."""
    names = [n for n in ("estimate", "truth") if n in estimates.table.column_names]
    values = np.concatenate([np.asarray(estimates[n], dtype=float) for n in names])
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() >= 0 and values.max() <= 1)


def provenance_words(estimates: Estimates) -> list[tuple[str, str]]:
    """Give where the numbers came from, as names and words."""
    told = estimates.provenance
    return [
        ("crosslevel", told.version),
        ("call", told.call),
        ("seed", "none" if told.seed is None else str(told.seed)),
        *((f"data: {name}", str(value)) for name, value in told.data.items()),
    ]
