"""Totals are facts: shift every draw so that the parts of a place add up to what was counted there.

For each draw and place one constant c is added to the logits of all its parts until sum_g share_g sigmoid(f_g + c) = y. The
parts then lie inside the Duncan-Davis bounds by construction.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from crosslevel.numerics.logit_shift import Shifted, shift_to_total
from crosslevel.typing import FloatArray, IntArray

__all__ = ["account", "part_bounds", "summing"]


def account(
    f: FloatArray, share: FloatArray, place: IntArray, total: FloatArray, left: FloatArray | None = None
) -> Shifted:
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
    return shift_to_total(f, share, place, total, left)


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
