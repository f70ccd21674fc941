"""Totals are facts: one constant on the logits of a group, so that its members' probabilities add up to what was counted.

For each draw and group one constant c is added to the logits of all its members until sum_j w_j sigmoid(f_j + c) = y sum_j w_j.
Ratios of odds within the group stay as they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, IntArray

STEPS = 200
"""Twice what halving alone would need from a bracket of a thousand logits down to the last digit."""
CLOSE = 1e-8
"""A Newton step this short leaves an error of its square."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """Probabilities that add up.

    Attributes
    ----------
    rate : (n_draws, m)
        Probability of each member.
    shift : (n_draws, q)
        The constant added to a group's logits; NaN where the total is none or all and no finite shift exists, or where there
        was nobody to count.
    """

    rate: FloatArray
    shift: FloatArray


def logit(p: FloatArray) -> FloatArray:
    """Give the log odds.

    Examples
    --------
    >>> logit(np.array([0.5, 0.9])).round(4)
    array([0.    , 2.1972])
    """
    return np.asarray(np.log(p) - np.log1p(-p))


def shift_to_total(
    f: FloatArray, weight: FloatArray, group: IntArray, total: FloatArray, left: FloatArray | None = None
) -> Shifted:
    """Shift logits group by group until the members add up to the total.

    Parameters
    ----------
    f : (n_draws, m)
        Logits of the members.
    weight : (m,)
        How many people each member stands for; only the proportions within a group matter.
    group : (m,) int
        Group of each member, 0 .. q - 1.
    total : (q,)
        Rate of each group; NaN where nobody was counted, whose logits stay as they are.
    left : (n_draws, m), optional
        Share of each member's people who are counted, when that differs between draws.

    Examples
    --------
    >>> found = shift_to_total(np.array([[1.0, -1.0]]), np.ones(2), np.array([0, 0]), np.array([0.6]))
    >>> round(float(found.rate[0].mean()), 12), bool(found.shift[0, 0] > 0)
    (0.6, True)
    """
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(total) + 1)).astype(np.intp)
    everybody = np.ones((0, len(group))) if left is None else np.ascontiguousarray(left)
    rate, shift = np.empty(f.shape), np.full((len(f), len(total)), np.nan)
    _shift_groups(
        np.ascontiguousarray(f),
        np.ascontiguousarray(weight, dtype=np.float64),
        everybody,
        order,
        starts,
        np.asarray(total, dtype=np.float64),
        rate,
        shift,
    )
    return Shifted(rate, shift)


@njit(nogil=True)
def _shift_groups(f, share, left, order, starts, total, rate, shift):  # type: ignore[no-untyped-def]  # pragma: no cover
    n_draws, q = shift.shape
    weight = np.empty(len(order))
    for s in range(n_draws):
        for i in range(q):
            first, last = starts[i], starts[i + 1]
            y, whole = total[i], 0.0
            for j in range(first, last):
                weight[j] = share[order[j]] * (left[s, order[j]] if len(left) else 1.0)
                whole += weight[j]
            if np.isnan(y) or not whole > 0.0:
                for j in range(first, last):
                    rate[s, order[j]] = _expit(f[s, order[j]])
                continue
            if y <= 0.0 or y >= 1.0 or last - first == 1:
                for j in range(first, last):
                    rate[s, order[j]] = min(max(y, 0.0), 1.0)
                if 0.0 < y < 1.0:
                    shift[s, i] = np.log(y) - np.log1p(-y) - f[s, order[first]]
                continue
            c = _shift(f[s], weight, order, first, last, y, whole)
            for j in range(first, last):
                rate[s, order[j]] = _expit(f[s, order[j]] + c)
            shift[s, i] = c


@njit(nogil=True)
def _shift(f, weight, order, first, last, y, whole):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Find c in sum_j weight_j sigmoid(f_j + c) = y whole: Newton inside a bracket, halving where it is slow."""
    log_odds = np.log(y) - np.log1p(-y)
    low, high, mean = np.inf, -np.inf, 0.0
    for j in range(first, last):
        low, high = min(low, f[order[j]]), max(high, f[order[j]])
        mean += weight[j] * f[order[j]]
    # with these every member lies at or below y, or at or above it
    low, high = log_odds - high, log_odds - low
    c, before = min(max(log_odds - mean / whole, low), high), high - low
    target = whole * (y if y <= 0.5 else y - 1.0)
    for _ in range(STEPS):
        # the smaller of yes and no is added up: it has the digits
        gap, slope = -target, 0.0
        for j in range(first, last):
            x = f[order[j]] + c
            e = np.exp(-abs(x))
            d = 1.0 / (1.0 + e)
            slope += weight[j] * e * d * d
            gap += weight[j] * (d if x > 0.0 else e * d) if y <= 0.5 else -weight[j] * (e * d if x > 0.0 else d)
        if gap == 0.0 or not high > low:
            break
        if gap > 0.0:
            high = c
        else:
            low = c
        new = c - gap / slope if slope > 0.0 else np.inf
        newton = low < new < high and abs(new - c) <= 0.5 * before
        if not newton:
            new = 0.5 * (low + high)
        before = abs(new - c)
        c = new
        if before <= CLOSE if newton else before <= 1e-16 * abs(c):
            break
    return c


@njit(nogil=True)
def _expit(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    # the exponential of a negative number only: it cannot overflow, and small rates keep their digits
    if x < 0.0:
        e = np.exp(x)
        return e / (1.0 + e)
    return 1.0 / (1.0 + np.exp(-x))
