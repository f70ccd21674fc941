"""How good is the fit, and how much of it do the average effects alone explain?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.krls.collapse import Cells
from crosslevel.krls.effects import Effect
from crosslevel.krls.model import Fit
from crosslevel.krls.variants import scales
from crosslevel.typing import FloatArray

__all__ = ["Measures", "average", "fit_measures", "spread_rows"]


@dataclass(frozen=True)
class Measures:
    """Numbers that describe the fit.

    Attributes
    ----------
    loo : float
    curve : (n_tried, 2)
        Penalties and losses, in the units of ``loo``.
    r2 : float
        1 - var(residuals) / var(y).
    r2_ame : float
        Squared correlation of y with the covariates times their average effects.
    """

    loo: float
    curve: FloatArray
    r2: float
    r2_ame: float


def fit_measures(fit: Fit, effects: Sequence[Effect], averages: FloatArray, *, as_r: bool) -> Measures:
    """Describe a fit.

    Parameters
    ----------
    fit : Fit
    effects : sequence of Effect
    averages : (E,)
        Plug-in average effects, in the units of the data.
    as_r : bool
        Whether the loss is R's ``Looe``, a sum of squares of the standardised outcome times one standard deviation of y,
        rather than a mean squared error.
    """
    cells, solution = fit.cells, fit.solution
    unit = fit.y_sd if as_r else fit.y_sd**2 / cells.N
    mean_residual = float(cells.m @ (cells.mean - solution.fitted)) / cells.N
    r2 = 1.0 - (solution.rss - cells.N * mean_residual**2) / (cells.N - 1.0)
    return Measures(
        loo=solution.loo * unit,
        curve=fit.choice.curve * [1.0, unit],
        r2=float(r2),
        r2_ame=_r2_of_averages(fit, effects, averages),
    )


def _r2_of_averages(fit: Fit, effects: Sequence[Effect], averages: FloatArray) -> float:
    """Correlate y with the index that the average effects make (bigKRLS's R2AME)."""
    cells, Z = fit.cells, fit.kernel.Z
    slope = np.zeros(Z.shape[1])
    for effect, value in zip(effects, averages / scales(fit, effects), strict=True):
        width = 1.0
        if effect.switch is not None:
            points = effect.switch.points[:, int(np.argmax(effect.switch.columns == effect.column))]
            width = points[effect.high] - points[effect.low]
        slope[effect.column] = value / width
    index = Z @ slope  # centred, as Z is
    variance = cells.m @ index**2
    if not variance > 0:
        return 0.0
    return float((cells.m @ (index * cells.mean)) ** 2 / variance / (cells.N - 1.0))


def average(cells: Cells, values: FloatArray) -> FloatArray:
    """Average values of the distinct rows over the rows they stand for."""
    return cells.m @ values / cells.N


def spread_rows(values: FloatArray, used: npt.NDArray[np.bool_]) -> FloatArray:
    """Put the values of the used rows at their places, NaN elsewhere."""
    if used.all():
        return values
    out: npt.NDArray[Any] = np.full((len(used), *values.shape[1:]), np.nan)
    out[used] = values
    return out
