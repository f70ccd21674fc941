"""The picture of a fitted model along one axis: what was counted, and the curve behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.binned.count_answers import distinct
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.charts.histogram import histogram
from crosslevel.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crosslevel.binned.estimator import BinnedGP

__all__ = ["draw_model"]

POINTS = 301


def draw_model(model: BinnedGP, ax: Axes | None, pool: Any, level: float, options: dict[str, Any]) -> Axes:
    """Draw the histogram of one fit, or of one area, with the density behind it."""
    counts = model._counts
    regions: Regions = model._fit.problem.regions if counts is None else distinct(counts)
    if not isinstance(regions, Intervals):
        raise InputError(
            f"plot draws Intervals, and the model was fitted to {type(regions).__name__}; for areas see charts.estimate_pair."
        )
    if counts is not None and counts.areas and (pool is None or isinstance(pool, list | tuple | np.ndarray)):
        raise InputError(f"plot draws one area; name it, as in plot(pool={counts.areas[0]!r}).")
    totals = model.kind_ == "total"
    if counts is None:
        y, ends = model._fit.problem.y, (float(regions.lower.min()), float(regions.upper.max()))
    elif counts.likelihood == "binomial":
        raise InputError("plot draws counts, and this fit is of shares; draw estimates(points) with their intervals.")
    else:
        rows = counts.fit.totals if not counts.areas else counts.fit.totals[counts.areas.index(pool)]
        if len(rows) != len(regions) or counts.rates is not None:
            rows = counts.y
        y, ends = rows, (float(counts.bins.lower.min()), float(counts.bins.upper.max()))
    est = model.estimates(np.linspace(*ends, POINTS), level=level, pool=pool)
    return histogram(est, ax, observed=(regions.lower, regions.upper, y), totals=totals, **options)
