"""Totals are facts: shift every draw so that the parts of a place add up to what was counted there.

For each draw and place one constant c is added to the logits of all its parts until sum_g share_g sigmoid(f_g + c) = y. The
parts then lie inside the Duncan-Davis bounds by construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = ["Accounted", "account", "part_bounds", "summing"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

STEPS = 200
"""Twice what halving alone would need from a bracket of a thousand logits down to the last digit."""
CLOSE = 1e-8
"""A Newton step this short leaves an error of its square."""


@dataclass(frozen=True, eq=False)
class Accounted:
    """Draws that add up.

    Attributes
    ----------
    rate : (n_draws, m)
        Probability of each part.
    shift : (n_draws, q)
        The constant added to a place's logits; NaN where the total is none or all and no finite shift exists, or where there
        was nobody to count.
    """

    rate: FloatArray
    shift: FloatArray


def account(
    f: FloatArray, share: FloatArray, place: IntArray, total: FloatArray, left: FloatArray | None = None
) -> Accounted:
    """Shift logits place by place until the parts add up to the total.

    Parameters
    ----------
    f : (n_draws, m)
        Logits of the parts.
    share : (m,)
        Share of the place's people in each part; only their proportions within a place matter.
    place : (m,) int
        Place of each part, 0 .. q - 1.
    total : (q,)
        Observed rate of each place; NaN where nobody was counted, whose logits stay as they are.
    left : (n_draws, m), optional
        Share of each part's people who are counted, when that differs between draws.

    Examples
    --------
    >>> found = account(np.array([[1.0, -1.0]]), np.array([0.5, 0.5]), np.array([0, 0]), np.array([0.6]))
    >>> round(float(found.rate[0] @ [0.5, 0.5]), 12), bool(found.shift[0, 0] > 0)
    (0.6, True)
    """
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(total) + 1)).astype(np.intp)
    everybody = np.ones((0, len(place))) if left is None else np.ascontiguousarray(left)
    rate, shift = np.empty(f.shape), np.full((len(f), len(total)), np.nan)
    _account(
        np.ascontiguousarray(f),
        np.ascontiguousarray(share, dtype=np.float64),
        everybody,
        order,
        starts,
        np.asarray(total, dtype=np.float64),
        rate,
        shift,
    )
    return Accounted(rate, shift)


@numba.njit(cache=True, nogil=True)
def _account(f, share, left, order, starts, total, rate, shift):  # type: ignore[no-untyped-def]  # pragma: no cover
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


@numba.njit(cache=True, nogil=True)
def _shift(f, weight, order, first, last, y, whole):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Find c in sum_j weight_j sigmoid(f_j + c) = y whole: Newton inside a bracket, halving where it is slow."""
    logit = np.log(y) - np.log1p(-y)
    low, high, mean = np.inf, -np.inf, 0.0
    for j in range(first, last):
        low, high = min(low, f[order[j]]), max(high, f[order[j]])
        mean += weight[j] * f[order[j]]
    # with these every part lies at or below y, or at or above it
    low, high = logit - high, logit - low
    c, before = min(max(logit - mean / whole, low), high), high - low
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


@numba.njit(cache=True, nogil=True)
def _expit(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    # the exponential of a negative number only: it cannot overflow, and small rates keep their digits
    if x < 0.0:
        e = np.exp(x)
        return e / (1.0 + e)
    return 1.0 / (1.0 + np.exp(-x))


def part_bounds(share: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Say between which rates a part must lie, given its share and the whole's rate (Duncan & Davis 1953).

    Parameters
    ----------
    share, total : (m,)

    Examples
    --------
    >>> low, high = part_bounds(np.array([0.8]), np.array([0.4]))
    >>> low.round(3), high.round(3)
    (array([0.25]), array([0.5]))
    """
    safe = np.maximum(share, 1e-300)
    low = np.clip((total - (1.0 - share)) / safe, 0.0, 1.0)
    high = np.clip(total / safe, 0.0, 1.0)
    # a part that is everyone: rounding of its share must not cross the two
    return np.minimum(low, total), np.maximum(high, total)


def summing(index: IntArray, n: int) -> sparse.csr_array:
    """Give the (n, m) matrix that adds up entries of equal index."""
    m = len(index)
    return sparse.csr_array((np.ones(m), (index, np.arange(m))), shape=(n, m))
