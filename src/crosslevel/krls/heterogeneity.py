"""How much do effects differ between people, and with what?

The spread describes the fitted function, which shrinkage makes smoother than the truth. What can be tested is a slope: the
least-squares slope of the effects at the rows on a covariate, sum_i rho_i delta_i with rho = (x - mean) / sum (x - mean)^2.
It is the functional of an average effect with other row weights, so it is debiased and gets its error as averages do. On a
binary covariate it is the difference between the average effects of the two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crosslevel.krls.effects import Effect
from crosslevel.krls.model import Cells
from crosslevel.typing import FloatArray

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SAME = 1e-10
"""Effects that differ by less than this share of the largest are the same."""


def heterogeneity_columns(
    cells: Cells, effects: Sequence[Effect], pointwise: FloatArray, names: Sequence[str]
) -> dict[str, Any]:
    """Describe how effects differ between the rows, as columns of a table with a row per effect.

    ``response`` is "rising" or "falling" where the outcome is monotone in the covariate, "both", or None for steps; ``strongest`` is
    the column of the matrix that the effect is most correlated with, None where it does not vary.

    Parameters
    ----------
    cells : Cells
    effects : sequence of Effect
    pointwise : (U, E)
        Effects at the distinct rows, in the units of the data.
    names : sequence of str
        Of the columns of the matrix.
    """
    share = cells.m / cells.N
    average = share @ pointwise
    correlation = correlations(cells, pointwise)
    best = np.argmax(np.nan_to_num(np.abs(correlation)), axis=1)
    varies = [not bool(np.isnan(row).all()) for row in correlation]
    quantiles = zip(QUANTILES, weighted_quantiles(pointwise, cells.m, QUANTILES), strict=True)
    return {
        "term": [e.term for e in effects],
        "estimate": np.sqrt(share @ np.square(pointwise - average)),
        "average": average,
        **{f"q{round(100 * q):02d}": values for q, values in quantiles},
        "share_positive": share @ (pointwise > 0.0),
        "response": [
            None if e.switch is not None else _direction(d) for e, d in zip(effects, pointwise.T, strict=True)
        ],
        "strongest": [names[b] if v else None for b, v in zip(best, varies, strict=True)],
        "correlation": correlation[np.arange(len(best)), best],
    }


def weighted_quantiles(values: FloatArray, weights: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Give the smallest value that at least a share of the weight does not exceed, (n_levels, E).

    Examples
    --------
    >>> weighted_quantiles(np.array([[1.0], [2.0], [5.0]]), np.array([1.0, 2.0, 1.0]), [0.25, 0.5, 0.9]).ravel().tolist()
    [1.0, 2.0, 5.0]
    """
    out = np.empty((len(levels), values.shape[1]))
    for e, column in enumerate(values.T):
        order = np.argsort(column, kind="stable")
        reached = np.cumsum(weights[order]) / weights.sum()
        places = np.searchsorted(reached, np.asarray(levels) - 1e-12)
        out[:, e] = column[order][np.minimum(places, len(column) - 1)]
    return out


def correlations(cells: Cells, pointwise: FloatArray) -> FloatArray:
    """Correlate the effects at the rows with every column of the matrix, (E, P)."""
    share = cells.m / cells.N
    X = cells.X - share @ cells.X
    D = pointwise - share @ pointwise
    sd = np.sqrt(share @ np.square(D))
    varies = sd > SAME * np.abs(pointwise).max(axis=0, initial=0.0)
    scale = np.where(varies, sd, np.nan)[:, None] * np.sqrt(share @ np.square(X))
    return ((share[:, None] * D).T @ X) / scale


def slope_weights(cells: Cells, columns: Sequence[int]) -> FloatArray:
    """Give the row weights that make the slope of effects on each of some columns of the matrix, (U, n_columns).

    Examples
    --------
    >>> from crosslevel.krls.model import collapse
    >>> cells = collapse(np.array([[0.0], [1.0], [3.0]]), np.zeros(3))
    >>> float((slope_weights(cells, [0]).T @ (5 + 2 * cells.X))[0, 0].round(12))
    2.0
    """
    share = cells.m / cells.N
    X = cells.X[:, columns] - share @ cells.X[:, columns]
    return (share[:, None] * X) / (share @ np.square(X))


def _direction(d: FloatArray) -> str:
    tiny = SAME * np.abs(d).max(initial=0.0)
    if (d >= -tiny).all():
        return "rising"
    return "falling" if (d <= tiny).all() else "both"
