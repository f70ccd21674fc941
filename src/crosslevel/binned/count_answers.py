"""Answers from counts: draws of regions, the one table of crosslevel, and how far they may be trusted."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.answers import default_scale
from crosslevel.binned.baselines import composite_link, uniform_spread
from crosslevel.binned.count_model import CountModel
from crosslevel.binned.count_regions import as_pieces, design, limits
from crosslevel.binned.counts.areas import PooledFit
from crosslevel.binned.counts.checking import LeaveOneOut, leave_one_out, leave_one_out_pooled
from crosslevel.binned.counts.fit import CountFit
from crosslevel.binned.counts.predictive import draw_curves
from crosslevel.binned.counts.skill import Skill
from crosslevel.binned.counts.targets import region_counts
from crosslevel.binned.problem import ASKED
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.binned.regions.points import Points
from crosslevel.errors import ConvergenceError, InputError, listed, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["COUNT_KINDS", "choose_areas", "count_loo", "count_skill", "counts_table", "region_draws", "trust"]


COUNT_KINDS = (*ASKED, "count")
"""What may be asked of counts: expected totals, means per unit (densities), rates, and whole counts."""
DRAWS = 1000
"""Draws behind a prediction."""
QUICK = 40
"""Bins up to which a table is scored by leaving bins out without being asked (areas x bins: ten times as many)."""


def choose_areas(model: CountModel, pool: Any) -> list[int] | None:
    """Give the row numbers of the areas asked for, all by default; None for one histogram."""
    if not model.areas:
        if pool is not None:
            raise InputError("pool is given, and the model was fitted without; it has one histogram.")
        return None
    if pool is None:
        return list(range(len(model.areas)))
    asked = list(pool) if isinstance(pool, list | tuple | np.ndarray) else [pool]
    for one in asked:
        if one not in model.areas:
            raise unknown_name("pool", one, model.areas, "area")
    return [model.areas.index(one) for one in asked]


def region_draws(
    model: CountModel, regions: Regions, kind: str | None, area: int | None = None, n: int = DRAWS, seed: int | None = 0
) -> FloatArray:
    """Draw what was asked of every region, (n, R).

    Expected totals are sums over cells of one set of draws, so parts add up to wholes; so do whole counts (kind "count") of
    regions asked for together.
    """
    if kind is not None and kind not in COUNT_KINDS:
        raise unknown_name("kind", kind, COUNT_KINDS, "kind")
    if model.likelihood == "binomial":
        return _share_draws(model, regions, kind, n, seed)
    if kind == "rate":
        return _rate_draws(model, regions, n, seed)
    drawn = model.draws(area, n, seed)
    if kind == "count":
        if drawn.counts is None:
            raise InputError("kind='count' needs whole counts, and y has fractions; ask for kind='total'.")
        pieces = as_pieces(regions)
        if isinstance(regions, Points) or (pieces.weight != 1.0).any():
            raise InputError("kind='count' is for regions with width and sums of whole ones; ask for kind='total'.")
        low, high = limits(model.bins, model.codes, pieces)
        rng = np.random.default_rng(seed)
        return pieces.gather(region_counts(model.bins, low, high, drawn.counts, rng).astype(np.float64), axis=1)
    return (drawn.expected @ design(model.bins, model.codes, regions).T) * _scale(regions, kind)


def _share_draws(model: CountModel, regions: Regions, kind: str | None, n: int, seed: int | None) -> FloatArray:
    """Average shares over the cells of each region."""
    if kind in ("total", "count"):
        raise InputError(
            f"kind={kind!r} of a region depends on its trials, which are not known; ask for kind='mean', the share, and multiply."
        )
    rows = design(model.bins, model.codes, regions) * model.bins.weight
    return model.draws(None, n, seed).expected @ (rows / rows.sum(axis=1, keepdims=True)).T


def _rate_draws(model: CountModel, regions: Regions, n: int, seed: int | None) -> FloatArray:
    """Divide events by people, both summed over the region."""
    if model.rates is None:
        raise InputError(
            "kind='rate' needs people at risk; pass exposure= to fit, or ask for kind='mean', the count per unit of the axis."
        )
    h = draw_curves(model.rates.mean, model.rates.covariance, n, np.random.default_rng(seed))
    A = model.bins.n_cells
    people = model.bins.weight * np.exp(h[:, :A])
    rows = design(model.bins, model.codes, regions).T
    return np.asarray(((people * np.exp(h[:, A:])) @ rows) / (people @ rows))


def counts_table(
    model: CountModel,
    regions: Regions,
    *,
    kind: str | None,
    pool: Any,
    level: float,
    seed: int | None,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Estimates:
    """Make the table: a row per area and region, expected totals with their band, and the band of the count itself."""
    areas = choose_areas(model, pool)
    half = 0.5 * (1.0 - level)
    parts: list[FloatArray] = []
    ranges: list[FloatArray] = []
    naive: list[dict[str, FloatArray]] = []
    for area in [None] if areas is None else areas:
        draws = region_draws(model, regions, kind, area, seed=seed)
        parts.append(
            np.vstack([draws.mean(axis=0), draws.std(axis=0, ddof=1), np.quantile(draws, [half, 1 - half], axis=0)])
        )
        if _countable(model, regions, kind):
            counts = region_draws(model, regions, "count", area, seed=seed)
            ranges.append(np.quantile(counts, [half, 1 - half], axis=0, method="inverted_cdf"))
        naive.append(_baselines(model, regions, kind, area))
    labels = _labels(model, regions, areas)
    keys = list(labels)
    rows = list(zip(*(np.asarray(v).tolist() for v in labels.values()), strict=True))
    if len(set(rows)) < len(rows):
        labels, keys = {"row": np.arange(len(rows)), **labels}, ["row", *keys]
    values = np.hstack(parts)
    known = np.tile(_informed(model, regions), len(parts))
    said = list(notes)
    if not known.all():
        names = listed([r[0] if len(r) == 1 else r for r, k in zip(rows, known, strict=True) if not k], 3)
        said.append(
            f"{int((~known).sum())} row(s) lie mostly where no count was observed ({names}): they are guessed from the others."
        )
    columns: dict[str, Any] = {
        **labels,
        **dict(zip(("estimate", "std_error", "conf_low", "conf_high"), values, strict=True)),
        "informed": known,
    }
    if ranges:
        columns |= dict(zip(("count_low", "count_high"), np.hstack(ranges), strict=True))
    for name in naive[0]:
        columns[name] = np.concatenate([one[name] for one in naive])
    asked = kind or ("share" if model.likelihood == "binomial" else "total")
    return Estimates.build(
        columns,
        keys=keys,
        method=f"{model.likelihood.replace('_', ' ')} counts behind regions, {asked}",
        level=level,
        interval="posterior quantile",
        provenance=provenance,
        diagnostics=diagnostics,
        warnings=said,
        title="What lies behind the bins",
    )


def _labels(model: CountModel, regions: Regions, areas: list[int] | None) -> dict[str, Any]:
    labels = {n: [_end(v) for v in np.asarray(x).tolist()] for n, x in regions.labels().items()}
    if areas is None:
        return labels
    name = str(model.pool)
    repeated = {n: list(v) * len(areas) for n, v in labels.items()}
    if name in repeated:
        raise InputError(f"pool is named {name!r}, as a column of the regions is; give the key another name.")
    return {name: [model.areas[a] for a in areas for _ in range(len(regions))], **repeated}


def _end(value: Any) -> Any:
    """Write an open end as missing: tables hold no infinity."""
    return None if isinstance(value, float) and np.isinf(value) else value


def _countable(model: CountModel, regions: Regions, kind: str | None) -> bool:
    if kind not in (None, "total", "count") or model.likelihood == "binomial" or isinstance(regions, Points):
        return False
    pieces = as_pieces(regions)
    whole = bool((model.y == np.round(model.y)).all())
    return whole and bool((pieces.weight == 1.0).all()) and not (pieces.lower == pieces.upper).all(axis=1).any()


def _informed(model: CountModel, regions: Regions) -> npt.NDArray[np.bool_]:
    """Tell which regions lie at least by half in observed bins."""
    rows = np.abs(design(model.bins, model.codes, regions)) * model.bins.weight
    seen = (model.bins.C > 0).any(axis=0)
    return np.asarray((rows @ seen) >= 0.5 * rows.sum(axis=1))


def _baselines(model: CountModel, regions: Regions, kind: str | None, area: int | None) -> dict[str, FloatArray]:
    """Spread evenly and, along one axis, by a penalised composite link model: totals or densities, as asked for."""
    if model.likelihood == "binomial" or kind == "rate":
        return {}
    scale = _scale(regions, kind)
    rows = design(model.bins, model.codes, regions)
    fit = model.fit
    totals = fit.totals[area] if isinstance(fit, PooledFit) else fit.totals
    seen = ~np.isnan(totals)
    C, y = model.bins.C[seen], totals[seen]
    inside = (C > 0).any(axis=0)
    blank = (np.abs(rows) @ ~inside) > 1e-9
    out = {"area_weighted": np.where(blank, np.nan, (rows @ uniform_spread(C, y)) * scale)}
    if area is None and model.bins.n_axes == 1 and model.bins.disjoint and not model.bins.excess.any() and len(y) > 3:
        try:
            f = composite_link(C, y).f
        except ConvergenceError:
            return out
        out["pclm"] = (rows @ (model.bins.weight * np.exp(f))) * scale
    return out


def _scale(regions: Regions, kind: str | None) -> FloatArray:
    """Give what totals are multiplied by; an interval without end has a total but no mean."""
    if isinstance(regions, Intervals) and regions.open_ended:
        if kind not in (None, "total", "count"):
            raise InputError(f"kind={kind!r} of an interval without end is not defined; ask for kind='total'.")
        return np.ones(len(regions))
    return default_scale(regions, None if kind == "count" else kind, "total")


def count_loo(model: CountModel) -> LeaveOneOut:
    """Predict each bin from the others."""
    if model.rates is not None:
        raise InputError("leave-one-out is for counts alone, and this fit is of rates; score it on events left out.")
    if isinstance(model.fit, PooledFit):
        return leave_one_out_pooled(model.fit)
    return leave_one_out(model.fit)


def count_skill(model: CountModel) -> Skill:
    """Measure the skill against uniform spreading and PCLM."""
    if isinstance(model.fit, PooledFit) or model.rates is not None:
        raise InputError("skill is measured on one histogram of counts; for areas around a shared curve see loo_.")
    return model.fit.skill()


def trust(model: CountModel) -> dict[str, Any]:
    """Score the fit where that is quick: bins left out, and skill on merged bins. None where it is not."""
    out: dict[str, Any] = {"leave_one_out": None, "skill": None}
    fit = model.fit
    if model.rates is not None or model.likelihood != "poisson" or model.bins.n_axes > 1:
        return out
    size, most = (fit.totals.size, 10 * QUICK) if isinstance(fit, PooledFit) else (model.bins.n_bins, QUICK)
    if size <= most:
        left = count_loo(model)
        out["leave_one_out"] = {"log_score": left.mean_log_density, "coverage": left.coverage()}
        if isinstance(fit, CountFit) and fit.bins.disjoint and fit.bins.n_bins >= 4:
            with contextlib.suppress(ConvergenceError):
                out["skill"] = asdict(count_skill(model))
    return out


def moments(
    model: CountModel, regions: Regions, kind: str | None, pool: Any, covariance: bool, seed: int | None
) -> tuple[FloatArray, FloatArray]:
    """Give means and standard deviations (m,) or covariances (m, m) of draws; with areas a first axis of them."""
    areas = choose_areas(model, pool)
    means, spreads = [], []
    for area in [None] if areas is None else areas:
        draws = region_draws(model, regions, kind, area, seed=seed)
        means.append(draws.mean(axis=0))
        spreads.append(np.atleast_2d(np.cov(draws.T)) if covariance else draws.std(axis=0, ddof=1))
    return (means[0], spreads[0]) if areas is None else (np.array(means), np.array(spreads))


def sample(model: CountModel, regions: Regions, kind: str | None, pool: Any, n: int, seed: int | None) -> FloatArray:
    """Draw regions n times, (n, m); with areas (areas, n, m)."""
    areas = choose_areas(model, pool)
    if areas is None:
        return region_draws(model, regions, kind, None, n, seed)
    return np.array([region_draws(model, regions, kind, a, n, seed) for a in areas])


def distinct(model: CountModel) -> Regions:
    """Give the regions observed, each once: rows of pooled areas repeat them."""
    if not model.areas:
        return model.regions
    pieces = as_pieces(model.regions)
    _, first = np.unique(np.hstack([pieces.lower, pieces.upper]), axis=0, return_index=True)
    return model.regions[first]


def counts_summary(model: CountModel, values: str, notes: tuple[str, ...]) -> str:
    """Write a fit of counts as text."""
    scores = trust(model)
    many = f" in {len(model.areas):,} areas" if model.areas else ""
    lines = [
        f"{model.likelihood.replace('_', ' ').capitalize()} counts behind {len(model.y):,} regions{many}, {model.y.sum():,.0f} in all",
        values,
        f"solver: {model.path}",
    ]
    left, skill = scores["leave_one_out"], scores["skill"]
    if left is not None:
        lines.append(f"leave-one-out log score {left['log_score']:.4f}, 95 % intervals hold {left['coverage']:.0%}")
    if skill is not None:
        said = ", ".join(f"{s:+.0%} against {b}" for b, s in skill["skill"].items())
        lines.append(f"skill on bins merged in pairs: {said}")
    return "\n".join([*lines, *(f"note: {n}" for n in notes)])
