"""What the composition of a unit predicts for its outcomes, and how rates are assumed to change with it.

Shared by the contextual model and by the Multinomial-Dirichlet model.

Uncertainty of the contextual slope in draws of the district: each is moved as far as a slope of its own would move it.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg

from crosslevel.data import checks
from crosslevel.ecological.tables.raking import rake
from crosslevel.typing import FloatArray

SLOPE, SLOPE_SD = 0.35, 0.1
"""The contextual slope and its standard deviation, learned on tables whose inner cells were counted."""
SLOPE_RANGE, SLOPE_SD_RANGE = (-1.0, 2.0), (0.0, 1.0)
RIDGE = 1e-3  # of the mean squared composition: composition predicts, it need not be told apart
FLOOR = 0.1  # of the overall share, so that log m stays tame where composition predicts nothing


@dataclass(frozen=True)
class ContextualEffect:
    """How the rates of every group are assumed to change with the composition of their unit.

    Attributes
    ----------
    H : (n, C)
        Log of what composition predicts, over the overall share.
    b, sd : float
        The contextual slope, by which log rates change with H, and its standard deviation.
    """

    H: FloatArray
    b: float
    sd: float

    @property
    def absent(self) -> bool:
        """Whether rates are assumed not to change at all."""
        return (self.b, self.sd) == (0.0, 0.0)

    def factor(self) -> FloatArray:
        """Give the factor (n, C) of every rate before rates are made to add up."""
        return np.asarray(np.exp(self.b * self.H))


def read_slope(given: Any, sd: float = SLOPE_SD) -> tuple[float, float]:
    """Read the contextual slope, with its standard deviation where it is given too.

    Examples
    --------
    >>> read_slope(0.2), read_slope((0, 0))
    ((0.2, 0.1), (0.0, 0.0))
    """
    slope, error = (given, sd) if isinstance(given, Real | str) else tuple(given)
    return (
        checks.check_between(slope, "contextual_slope", *SLOPE_RANGE),
        checks.check_between(error, "contextual_slope (its standard deviation)", *SLOPE_SD_RANGE),
    )


def predicted_by_composition(x: FloatArray, y: FloatArray) -> FloatArray:
    """Predict the outcomes of every unit from its composition: H_ic = log(m_ic / ybar_c), (n, C).

    The two sides may count different totals; a unit weighs as much as its groups do.
    """
    N, t = x.sum(axis=1), y / y.sum(axis=1, keepdims=True)
    ybar, xbar = N @ t / N.sum(), x.sum(axis=0) / N.sum()
    A = np.sqrt(N)[:, None] * (x / N[:, None] - xbar)
    moved = np.sqrt(N)[:, None] * (t - ybar)
    gram = A.T @ A
    ridge = RIDGE * np.trace(gram) / x.shape[1]
    if ridge <= 0:  # every unit has the same composition
        return np.zeros(y.shape)
    slope = scipy.linalg.solve(gram + ridge * np.eye(len(gram)), A.T @ moved, assume_a="pos")
    m = np.maximum(ybar + (x / N[:, None] - xbar) @ slope, FLOOR * ybar)
    return np.log(m / m.sum(axis=1, keepdims=True) / ybar)


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
