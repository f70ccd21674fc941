"""Uncertainty of the contextual slope in draws of the district: each is moved as far as a slope of its own would move it."""

from __future__ import annotations

import numpy as np

from crosslevel.ecological.tables.raking import rake
from crosslevel.typing import FloatArray

__all__ = ["balanced_normal", "moved_along"]


ROUNDING = 1e-9  # of a cell's people
TINY = 1e-200  # people, to be divided by


def moved_along(draws: FloatArray, slope: FloatArray, z: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Move each of the draws by z along the slope, between its bounds; sums stay.

    Parameters
    ----------
    draws : (n_draws, R, C)
        Tables in counts, inside their bounds.
    slope : (R, C)
        Of the mean table in the contextual slope; its rows and columns sum to zero.
    z : (n_draws,)
        How far the contextual slope is off.
    low, high : (R, C)
        Bounds.

    Notes
    -----
    A cell that grows moves in a straight line, one that shrinks nears its lower bound like an exponential; to first order both move
    by z slope. Raking restores the sums. Where an upper bound is passed, the table stops on the way there.
    """
    room, step = np.maximum(draws - low, 0.0), z[:, None, None] * slope
    fall = np.divide(np.minimum(step, 0.0), room, out=np.zeros_like(step), where=room > TINY)
    moved = np.ascontiguousarray(room * np.exp(fall) + np.maximum(step, 0.0))
    rake(moved, room.sum(axis=2), room.sum(axis=1), moved[0], 0)
    ahead = moved + low - draws
    # a cell known with certainty moves by rounding errors, and must not hold the others back
    moves = ahead > ROUNDING * np.maximum(1.0, high)
    reach = np.divide(high - draws, ahead, out=np.ones_like(ahead), where=moves).min(axis=(1, 2))
    return np.asarray(np.clip(draws + reach[:, None, None] * ahead, low, high))


def balanced_normal(n: int, seed: int) -> FloatArray:
    """Draw n standard normal numbers in pairs of opposite sign, so that they leave a mean where it is."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal(n // 2)
    return rng.permutation(np.concatenate([half, -half, np.zeros(n % 2)]))
