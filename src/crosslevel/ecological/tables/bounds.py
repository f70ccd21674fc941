"""The method of bounds: what the two margins of a unit imply with certainty.

Duncan and Davis (1953). For one cell of an R x C table with margins X_r and T_c and N people, the count lies in
[max(0, X_r + T_c - N), min(X_r, T_c)], and every value in between is attained by some table; so the closed form is
sharp for single cells of any R x C, and their sums over units are sharp too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.typing import FloatArray

__all__ = ["CellBounds", "cell_bounds"]


@dataclass(frozen=True)
class CellBounds:
    """Bounds on every cell, in counts.

    Attributes
    ----------
    low, high : (n_units, n_groups, n_outcomes)
    """

    low: FloatArray
    high: FloatArray


def cell_bounds(X: FloatArray, T: FloatArray) -> CellBounds:
    """Bound the count of people of each group with each outcome, in every unit.

    Parameters
    ----------
    X : (n_units, n_groups)
    T : (n_units, n_outcomes)

    Examples
    --------
    >>> import numpy as np
    >>> found = cell_bounds(np.array([[30.0, 70.0]]), np.array([[80.0, 20.0]]))
    >>> found.low[0].tolist(), found.high[0].tolist()
    ([[10.0, 0.0], [50.0, 0.0]], [[30.0, 20.0], [70.0, 20.0]])
    """
    x, t = X[:, :, None], T[:, None, :]
    N = X.sum(axis=1)[:, None, None]
    high = np.minimum(x, t)
    # the minimum keeps low <= high when the margins agree only up to rounding
    return CellBounds(low=np.minimum(np.maximum(0.0, x + t - N), high), high=high)
