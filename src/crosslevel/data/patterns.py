"""Patterns of names and numbers that are more often a slip than the truth: codes, percent, totals among their parts."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from crosslevel.typing import FloatArray

MISSING_CODE = re.compile(r"-?(?:9*[789]|7+|8+)|-1")
"""What surveys write for a missing value: 9, 98, 99, 777, -1, -8, -999."""
LOOKS = str.maketrans("асеорхуіѕјԁһкмтвнαβεικνορτυχ", "aceopxyisjdhkmtbhabeiknoptux")
"""Letters of other alphabets, and the Latin ones they look like."""
SAME_SUM, ROUNDING = 1e-9, 0.005
"""Largest difference between a total and the sum of its parts that is rounding, relative to it; of one and its shares."""
PERCENT_PLACES, PERCENT_TRIALS, PERCENT_SPREAD, PERCENT_MEDIAN, PERCENT_GROWTH = 10, 1000, 0.3, 5, 0.3
"""Whole numbers up to 100 are asked about as percent with at least so many places, with trials that reach so many and whose logarithms
differ by so much, above this median (counts of rare events hardly grow with trials), and below this rank correlation with trials."""


def may_be_code(low: float, high: float) -> bool:
    """Tell from the ends of a column whether codes of missing values may stand there."""
    return any(MISSING_CODE.fullmatch(f"{end:.9g}") is not None for end in (low, high))


def missing_codes(values: FloatArray, least: int = 2) -> tuple[float, ...]:
    """Find codes of missing values: such numbers, further from all others than the whole range of these, ``least`` times or more.

    Examples
    --------
    >>> missing_codes(np.array([18.0, 90.0, 999.0, 999.0])), missing_codes(np.array([1.0, 5.0, 9.0, 9.0]))
    ((999.0,), ())
    """
    known, found = values[~np.isnan(values)], []
    if not len(known) or not may_be_code(known.min(), known.max()):
        return ()
    distinct, times = np.unique(known, return_counts=True)
    for sign in (1.0, -1.0):
        for i in range(1, len(distinct) - 1):  # two others at least: -1 and 1 are two values
            if not MISSING_CODE.fullmatch(f"{sign * distinct[-i]:.9g}"):
                break
            if distinct[-i] - distinct[-i - 1] > distinct[-i - 1] - distinct[0] and times[-i:].max() >= least:
                found += (sign * distinct[-i:]).tolist()
                distinct, times = distinct[:-i], times[:-i]
                break
        distinct, times = -distinct[::-1], times[::-1]
    return tuple(found)


def measure(parts: FloatArray, n: FloatArray | None, flags: bool = False) -> str | None:
    """Tell shares and percent from counts.

    Parameters
    ----------
    parts : (k, q)
        What should be counts.
    n : (q,) or None
        What they are parts of; their own sum where nothing else is known.
    flags : bool
        Whether they are true and false.

    Examples
    --------
    >>> n = np.array([200.0, 300.0, 250.0])
    >>> measure(np.array([[0.5, 0.25, 0.1]]), n), measure(np.array([[50.5, 25.2, 9.9]]), n), measure(n[None, :] / 5, n)
    ('shares', 'percent', None)
    """
    broken, whole = np.abs(parts - np.round(parts)) > 1e-6, parts.sum(axis=0) if n is None else n
    asked = whole[whole > 0]
    if not len(asked):
        return None
    single = n is not None and (n <= 1).all() and not (broken.any() and (n == 1).all())
    if (parts <= 1 + ROUNDING).all() and (broken.any() or flags) and not single:
        return "shares"
    told = n is not None and (parts <= 100).all()
    mostly = told and (asked > 100).all() and broken.mean() > 0.5
    ruled = told and not broken.any() and stays(parts.sum(axis=0), whole)
    hundred = (np.abs(asked - 100) <= 1).all() and (broken.any() if n is not None else len(asked) >= 3)
    return "percent" if mostly or ruled or hundred else None


def stays(k: FloatArray, n: FloatArray) -> bool:
    """Tell whether numbers are no larger where trials are more, though trials differ much: so are percent, and counts are not."""
    k, n = k[n > 0], n[n > 0]
    if len(n) < PERCENT_PLACES or n.max() < PERCENT_TRIALS or np.log(n).std() <= PERCENT_SPREAD:
        return False
    if np.median(k) < PERCENT_MEDIAN:
        return False
    ranks = []
    for values in (k, n):
        _, at, times = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(times) - 0.5 * (times - 1))[at])
    return bool(np.ptp(ranks[0]) == 0 or np.corrcoef(ranks[0], ranks[1])[0, 1] < PERCENT_GROWTH)


def total_column(counts: FloatArray) -> int | None:
    """Find a column that is the sum of all others in every row: of three columns and three rows with people, at least.

    Parts that are the same share of every row may add up to another by chance, and are left alone.

    Parameters
    ----------
    counts : (n_rows, n_columns)
        Rows with missing values are left out.

    Examples
    --------
    >>> total_column(np.array([[10.0, 20, 30], [5, 1, 6], [7, 7, 14]]))
    2
    """
    known = counts[(counts > 0).any(axis=1) & np.isfinite(counts).all(axis=1)]
    rows = known.sum(axis=1, keepdims=True)
    if known.shape[1] < 3 or len(known) < 3 or np.ptp(known / rows, axis=0).max() < SAME_SUM:
        return None
    found = (np.abs(2 * known - rows) <= SAME_SUM * rows).all(axis=0)
    return int(np.argmax(found)) if found.any() else None


def total_rows(counts: FloatArray) -> list[int]:
    """Find the rows that are, in every column, the sum of all other rows: of three rows with people, at least.

    Where all rows have the same composition, one equal number makes all equal: that can be chance, and they are left alone.

    Parameters
    ----------
    counts : (n_rows, n_columns)
        Missing values count nobody.

    Examples
    --------
    >>> total_rows(np.array([[10.0, 20], [5, 1], [15, 21]]))
    [2]
    """
    counts = np.nan_to_num(counts, posinf=0.0, neginf=0.0)
    there = counts.sum(axis=1) > 0
    counts, rows = counts[there], np.flatnonzero(there)
    if len(rows) < 3:
        return []
    shares, sums = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=0)
    if np.ptp(shares, axis=0).max() <= SAME_SUM:
        return []
    same = (np.abs(2 * counts - sums) <= SAME_SUM * sums).all(axis=1)
    return [int(row) for row in rows[same]]


def subtotal_rows(counts: FloatArray) -> list[int]:
    """Find rows that are the sum of all rows since the one before them, two such rows at least, as published tables have them.

    Examples
    --------
    >>> subtotal_rows(np.array([[1.0, 2], [3, 5], [4, 7], [2, 2], [2, 6], [4, 8]]))
    [2, 5]
    """
    for rows in (np.arange(len(counts)), np.arange(len(counts))[::-1]):  # totals below their parts, or above them
        found: list[int] = []
        start, below = 0, np.cumsum(counts[rows], axis=0)
        for i, row in enumerate(counts[rows]):
            parts = below[i] - row - (below[start - 1] if start else 0.0)
            if i - start >= 2 and row.any() and (np.abs(parts - row) <= SAME_SUM * row).all():
                found, start = [*found, i], i + 1
        if len(found) > 1 and start == len(rows):
            return sorted(int(rows[i]) for i in found)
    return []


def twins(names: Iterable[Any]) -> list[str]:
    """Find names that differ by blanks, case or letters that look alike.

    Examples
    --------
    >>> twins(["York", "york ", "Leeds"])
    ['York', 'york ']
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        if isinstance(name, str):
            folded = unicodedata.normalize("NFKC", name).casefold().translate(LOOKS)
            alike["".join(folded.split())].append(name)
    return sorted(name for own in alike.values() if len(own) > 1 for name in own)
