"""Answers of a count model: draws of regions, naive baselines, and the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from crosslevel.binned.baselines import uniform_spread
from crosslevel.binned.counts.model import CountModel
from crosslevel.binned.counts.targets import as_pieces, design, limits, region_counts
from crosslevel.binned.region_estimator import Answer
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import Intervals, Points
from crosslevel.binned.regions.sums import default_scale
from crosslevel.errors import InputError, unknown_name
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import BoolArray, FloatArray

COUNT_QUANTITIES = ("total", "mean", "density", "count", "expected")
"""What may be predicted of counts: totals, means per unit (densities), whole counts, and totals whose bins are chance too."""
TOTALS = ("total", "count", "expected")
DRAWS = 1000
"""Draws behind a prediction."""
ROUNDING = 1e-9
"""Standard deviation of draws, relative to their mean, below which they are one number."""


def choose_areas(model: CountModel, pool: Any) -> list[int | None]:
    """Give the row numbers of the areas asked for, all by default; None alone for one histogram."""
    if not model.areas:
        if pool is not None:
            raise InputError(f"pool={pool!r} is given, and the model was fitted without; it has one histogram.")
        return [None]
    if pool is None:
        return list(range(len(model.areas)))
    wanted = list(pool) if isinstance(pool, Iterable) and not isinstance(pool, str) else [pool]
    for one in wanted:
        if one not in model.areas:
            raise unknown_name("pool", one, model.areas, "area")
    return [model.areas.index(one) for one in wanted]


def region_draws(
    model: CountModel, regions: Regions, quantity: str | None, area: int | None, seed: int, n_draws: int = DRAWS
) -> FloatArray:
    """Draw a quantity of every region, (n_draws, R).

    Expected totals are sums over cells of one set of draws, so parts add up to wholes; so do whole counts (quantity "count") of
    regions that are drawn together.
    """
    if quantity is not None and quantity not in COUNT_QUANTITIES:
        raise unknown_name("quantity", quantity, COUNT_QUANTITIES, "quantity")
    if model.likelihood == "binomial":
        return _share_draws(model, regions, quantity, n_draws, seed)
    if quantity == "expected":
        drawn_cells = model.one(area).expected(n_draws, seed if area is None else np.random.default_rng([seed, area]))
        return (drawn_cells @ design(model.bins, model.codes, regions).T) * _scale(regions, quantity)
    drawn = model.draws(area, n_draws, seed)
    if quantity == "count":
        pieces = as_pieces(regions)
        if drawn.counts is None or isinstance(regions, Points) or (pieces.weight != 1.0).any():
            raise InputError(
                "quantity='count' needs whole counts, and regions with width or sums of whole ones; use quantity='total'."
            )
        low, high = limits(model.bins, model.codes, pieces)
        rng = np.random.default_rng(seed)
        return pieces.gather(region_counts(model.bins, low, high, drawn.counts, rng).astype(np.float64), axis=1)
    return (drawn.expected @ design(model.bins, model.codes, regions).T) * _scale(regions, quantity)


def _share_draws(model: CountModel, regions: Regions, quantity: str | None, n_draws: int, seed: int) -> FloatArray:
    """Average shares over the trials of each region; over its width where it has none."""
    if quantity in ("total", "count", "expected"):
        raise InputError(
            f"quantity={quantity!r} of a region depends on its trials, which are not known; use quantity='mean', the share, and multiply."
        )
    parts = design(model.bins, model.codes, regions)
    rows, wide = parts * (model.bins.weight if model.at_risk is None else model.at_risk), parts * model.bins.weight
    rows = np.where((rows != 0).any(axis=1, keepdims=True), rows, wide)
    return model.draws(None, n_draws, seed).expected @ (rows / rows.sum(axis=1, keepdims=True)).T


def describe_counts(
    model: CountModel, regions: Regions, quantity: str | None, pool: Any, level: float, seed: int
) -> Answer:
    """Give the columns of the table: a row per area and region, with the interval of the expectation and of the count itself."""
    areas = choose_areas(model, pool)
    parts: list[FloatArray] = []
    beside: list[dict[str, FloatArray]] = []
    for area in areas:
        parts.append(_summarize(region_draws(model, regions, quantity, area, seed), level))
        more: dict[str, FloatArray] = {}
        if _countable(model, regions, quantity):
            counts = region_draws(model, regions, "count", area, seed)
            whole = quantile_interval(counts, level, method="inverted_cdf")
            more = {"count_low": whole.low, "count_high": whole.high}
        beside.append({**more, **naive_answers(model, regions, quantity, area)})
    return Answer(
        _labels(model, regions, areas),
        dict(zip(("estimate", "std_error", "conf_low", "conf_high"), np.hstack(parts), strict=True)),
        np.tile(_informed(model, regions), len(parts)),
        "lie mostly where no count was observed, and are inferred from the others",
        {name: np.concatenate([one[name] for one in beside]) for name in beside[0]},
        [],
    )


def _summarize(draws: FloatArray, level: float) -> FloatArray:
    """Give mean, standard error and the ends of the interval, (4, R).

    A total that every draw keeps varies by rounding alone, and has no error. Draws of a region of which nothing is known may have
    their mean beyond a quantile; the interval then reaches to it.
    """
    mean, spread = draws.mean(axis=0), quantile_interval(draws, level, ddof=1)
    known = spread.std_error <= ROUNDING * np.abs(mean)
    low, high = np.minimum(spread.low, mean), np.maximum(spread.high, mean)
    return np.vstack(
        [mean, np.where(known, 0.0, spread.std_error), np.where(known, mean, low), np.where(known, mean, high)]
    )


def _labels(model: CountModel, regions: Regions, areas: list[int | None]) -> dict[str, Any]:
    labels = {n: [_end(v) for v in np.asarray(x).tolist()] for n, x in regions.labels().items()}
    if not model.areas:
        return labels
    name = str(model.pool)
    repeated = {n: list(v) * len(areas) for n, v in labels.items()}
    if name in repeated:
        raise InputError(f"pool is named {name!r}, as a column of the regions is; give the key another name.")
    return {name: [model.areas[a or 0] for a in areas for _ in range(len(regions))], **repeated}


def _end(value: Any) -> Any:
    """Write an open end as missing: tables hold no infinity."""
    return None if isinstance(value, float) and np.isinf(value) else value


def _countable(model: CountModel, regions: Regions, quantity: str | None) -> bool:
    if quantity not in (None, "total", "count") or model.likelihood == "binomial" or isinstance(regions, Points):
        return False
    pieces = as_pieces(regions)
    whole = bool((model.y == np.round(model.y)).all())
    return whole and bool((pieces.weight == 1.0).all()) and not (pieces.lower == pieces.upper).all(axis=1).any()


def _informed(model: CountModel, regions: Regions) -> BoolArray:
    """Tell which regions lie at least by half in observed bins."""
    rows = np.abs(design(model.bins, model.codes, regions)) * model.bins.weight
    seen = (model.bins.C > 0).any(axis=0)
    return np.asarray((rows @ seen) >= 0.5 * rows.sum(axis=1))


def naive_answers(model: CountModel, regions: Regions, quantity: str | None, area: int | None) -> dict[str, FloatArray]:
    """Spread totals evenly; nothing for shares."""
    if model.likelihood == "binomial":
        return {}
    scale = _scale(regions, quantity)
    rows = design(model.bins, model.codes, regions)
    totals = model.totals(area)
    seen = ~np.isnan(totals)
    C, y = model.bins.C[seen], totals[seen]
    inside = (C > 0).any(axis=0)
    blank = (np.abs(rows) @ ~inside) > 1e-9
    return {"area_weighted": np.where(blank, np.nan, (rows @ uniform_spread(C, y)) * scale)}


def _scale(regions: Regions, quantity: str | None) -> FloatArray:
    """Give what totals are multiplied by; an interval without end has a total but no mean."""
    if isinstance(regions, Intervals) and regions.open_ended:
        if quantity not in (None, *TOTALS):
            raise InputError(f"quantity={quantity!r} of an interval without end is not defined; use quantity='total'.")
        return np.ones(len(regions))
    return default_scale(regions, None if quantity in TOTALS[1:] else quantity, "total")
