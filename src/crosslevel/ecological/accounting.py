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
RESIDUAL = 1e-14


@dataclass(frozen=True, eq=False)
class Accounted:
    """Draws that add up.

    Attributes
    ----------
    rate : (n_draws, m)
        Probability of each part.
    shift : (n_draws, q)
        The constant added to a place's logits; NaN where the total is none or all and no finite shift exists.
    """

    rate: FloatArray
    shift: FloatArray


def account(f: FloatArray, share: FloatArray, place: IntArray, total: FloatArray) -> Accounted:
    """Shift logits place by place until the parts add up to the total.

    Parameters
    ----------
    f : (n_draws, m)
        Logits of the parts.
    share : (m,) or (n_draws, m)
        Share of the place's people in each part; adds up to one within a place.
    place : (m,) int
        Place of each part, 0 .. q - 1.
    total : (q,)
        Observed rate of each place.

    Examples
    --------
    >>> found = account(np.array([[1.0, -1.0]]), np.array([0.5, 0.5]), np.array([0, 0]), np.array([0.6]))
    >>> round(float(found.rate @ [0.5, 0.5]), 12), bool(found.shift[0, 0] > 0)
    (0.6, True)
    """
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(total) + 1)).astype(np.intp)
    weights = np.ascontiguousarray(np.atleast_2d(share), dtype=np.float64)
    rate, shift = np.empty(f.shape), np.zeros((len(f), len(total)))
    _account(np.ascontiguousarray(f), weights, order, starts, np.asarray(total, dtype=np.float64), rate, shift)
    return Accounted(rate, shift)


@numba.njit(cache=True, nogil=True)
def _account(f, share, order, starts, total, rate, shift):  # type: ignore[no-untyped-def]  # pragma: no cover
    n_draws, q = shift.shape
    for s in range(n_draws):
        row = s if share.shape[0] > 1 else 0
        for i in range(q):
            first, last = starts[i], starts[i + 1]
            if first == last:
                continue
            y = total[i]
            if y <= 0.0 or y >= 1.0:
                for j in range(first, last):
                    rate[s, order[j]] = 0.0 if y <= 0.0 else 1.0
                shift[s, i] = np.nan
                continue
            logit = np.log(y) - np.log1p(-y)
            low, high = np.inf, -np.inf
            for j in range(first, last):
                low, high = min(low, f[s, order[j]]), max(high, f[s, order[j]])
            # all parts at or above y on the one side, at or below on the other
            low, high = logit - high, logit - low
            c = 0.5 * (low + high)
            for _ in range(STEPS):
                gap, slope = -y, 0.0
                for j in range(first, last):
                    p = 1.0 / (1.0 + np.exp(-(f[s, order[j]] + c)))
                    gap += share[row, order[j]] * p
                    slope += share[row, order[j]] * p * (1.0 - p)
                if abs(gap) <= RESIDUAL or not high > low:
                    break
                if gap > 0.0:
                    high = c
                else:
                    low = c
                step = c - gap / slope if slope > 0.0 else np.nan
                new = step if low < step < high else 0.5 * (low + high)
                if new == c:
                    break
                c = new
            for j in range(first, last):
                rate[s, order[j]] = 1.0 / (1.0 + np.exp(-(f[s, order[j]] + c)))
            shift[s, i] = c


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
