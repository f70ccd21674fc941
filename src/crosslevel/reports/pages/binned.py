"""The page of bins and areas: what was counted, the density behind it, new bins, and maps of means and deviations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals
from crosslevel.data.checks import check_level
from crosslevel.reports.pages import binned_charts as charts
from crosslevel.reports.pages.parts import MOST_POINTS, about, on_map, sample, settled, span
from crosslevel.reports.pages.words import number
from crosslevel.reports.views import Choice, Section, View
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

__all__ = ["accepts", "section"]


CITATION = "Smith, M. T., Alvarez, M. A. and Lawrence, N. D. (2018). Gaussian process regression for binned data. arXiv:1809.02010."
POINTS = 201
MOST_AREAS = 60
"""Areas of pooled counts whose curves a page holds."""
RANKED = 60
OF_ESTIMATE = ("estimate", "std_error", "conf_low", "conf_high")


def accepts(result: Any) -> bool:
    """Tell whether this is a model of bins or areas, or a table of such a model."""
    if isinstance(result, BinnedGP | BinnedCountGP):
        return hasattr(result, "solver_")
    return isinstance(result, Estimates) and bool({"informed", "nested_rate"} & set(result.table.column_names))


def section(heading: str, result: Any, *, shapes: Any = None, new: Any = None, level: float = 0.95) -> Section:
    """Make the page of a fitted model, or of a table of predictions.

    Parameters
    ----------
    heading : str
    result : BinnedGP, BinnedCountGP or Estimates
    shapes : optional
        The map; areas that it shows all are mapped, their means and their standard deviations.
    new : Regions, points or Estimates, optional
        What a model is to predict, or its prediction; the regions it was fitted to when not given.
    level : float
        Of a model's intervals.

    Examples
    --------
    >>> gp = BinnedGP(lengthscale=20.0).fit(Intervals.from_edges([0, 10, 20, 30]), [3, 5, 4], quantity="total")
    >>> [view.name for view in section("Ages", gp).views]
    ['density', 'bins']
    """
    if isinstance(result, Estimates):
        return _page(heading, result, shapes, {}, [], [], None)
    level = check_level(level)
    found = new if isinstance(new, Estimates) else result.estimate(new, level=level)
    tables: dict[str, pa.Table] = {}
    choices: list[Choice] = []
    views: list[View] = []
    said = _density(result, level, tables, choices, views)
    return _page(heading, found, shapes, tables, choices, views, result, said)


def _page(
    heading: str,
    found: Estimates,
    shapes: Any,
    tables: dict[str, pa.Table],
    choices: list[Choice],
    views: list[View],
    model: BinnedGP | BinnedCountGP | None,
    warnings: Sequence[str] = (),
) -> Section:
    kind = _kind(found)
    area = _area_key(found, kind)
    if area is not None and not any(c.name == "area" for c in choices):
        choices.append(_areas(list(dict.fromkeys(found[area].tolist()))))
    codes = _codes(found, area, choices)
    warnings = [*warnings, *_left_out(found, area, codes, kind)]
    if kind == "point":
        tables["points"] = _points(found, codes)
        views.append(charts.points_view(found.level, area is not None))
    elif kind == "bins":
        tables["bins"] = _bins(found, codes)
        if tables["bins"].num_rows:
            views.append(charts.bins_view(found.level, _what(found), area is not None, _beside(found)))
    else:
        tables["areas"] = _places(found)
        if len(found.keys) == 1 and on_map(shapes, tables["areas"]["place"].to_pylist(), found.keys[0]):
            views.append(charts.maps_view(found.level, shapes.dots))
        views.append(charts.ranked_view(found.level, tables["areas"].num_rows, len(found), _beside(found)))
        tables["ranked"] = _ranked(tables["areas"])
    facts = about(found)
    facts["warnings"] = [*facts["warnings"], *warnings]
    return Section(
        heading=heading,
        kind="binned",
        sentences=_sentences(found, kind, model),
        answer=found.table,
        keys=list(found.keys),
        citation=CITATION,
        tables=tables,
        labels={"place": found.keys[0]} if kind == "areas" and len(found.keys) == 1 else {},
        choices=choices,
        views=views,
        **facts,
    )


def _kind(found: Estimates) -> str:
    return "point" if "point" in found.keys else "bins" if {"lower", "upper"} <= set(found.keys) else "areas"


def _area_key(found: Estimates, kind: str) -> str | None:
    """Name the key of pooled areas: one beside the limits of bins."""
    if kind == "areas":
        return None
    others = [k for k in found.keys if k not in ("lower", "upper", "point", "row")]
    return others[0] if others else None


def _left_out(found: Estimates, area: str | None, codes: Sequence[str | None], kind: str) -> list[str]:
    """Say which predictions the charts do not show."""
    shown = sum(code is not None for code in codes)
    said = []
    if area is not None and shown < len(found):
        said.append(
            f"the charts show {shown:,} of {len(found):,} predictions, those of the areas listed; the table has all."
        )
    if kind != "areas" and shown > MOST_POINTS:
        said.append(f"the chart shows a random {MOST_POINTS:,} of {shown:,} predictions (seed 0); the table has all.")
    return said


def _areas(values: Sequence[Any]) -> Choice:
    return Choice("area", "Area", [(f"a{i}", str(v)) for i, v in enumerate(values[:MOST_AREAS])])


def _codes(found: Estimates, area: str | None, choices: Sequence[Choice]) -> list[str | None]:
    if area is None:
        return ["a0"] * len(found)
    known = {words: value for c in choices if c.name == "area" for value, words in c.options}
    return [known.get(str(v)) for v in found[area].tolist()]


def _density(
    model: BinnedGP | BinnedCountGP, level: float, tables: dict[str, pa.Table], choices: list[Choice], views: list[View]
) -> list[str]:
    """Add the bins that were observed with the density behind them; gives a sentence when there is none."""
    if isinstance(model, BinnedCountGP) and model._curve_quantity != "total":
        return _share_curve(model, level, tables, views)
    regions = model._observed
    if not isinstance(regions, Intervals):
        return []
    pooled = isinstance(model, BinnedCountGP) and bool(model.areas_)
    areas = list(model.areas_) if isinstance(model, BinnedCountGP) and pooled else [None]
    shown = areas[:MOST_AREAS]
    if pooled:
        choices.append(_areas(areas))
    bins, curves = [], []
    for i, area in enumerate(shown):
        low, high, y = regions.lower, regions.upper, model._totals(area)
        whole = np.isfinite(low) & np.isfinite(high) & np.isfinite(y)
        height = y / (high - low) if model.quantity_ == "total" else y
        bins.append(
            pa.table(
                {
                    "area": [f"a{i}"] * int(whole.sum()),
                    "from": low[whole],
                    "to": high[whole],
                    "observed": y[whole],
                    "height": height[whole],
                }
            )
        )
        points = np.linspace(*model._ends(), POINTS)
        only = {"pool": area} if pooled else {}
        est = model.estimate(points, level=level, **only)
        curves.append(pa.table({"area": [f"a{i}"] * POINTS, "x": est["point"], **{n: est[n] for n in OF_ESTIMATE}}))
    tables["observed"], tables["curve"] = pa.concat_tables(bins), pa.concat_tables(curves)
    views.append(charts.density_view(level, model.quantity_, pooled))
    if len(areas) > MOST_AREAS:
        return [
            f"the charts show the first {MOST_AREAS} of {len(areas):,} areas; the table has all that were asked for."
        ]
    return []


def _share_curve(model: BinnedCountGP, level: float, tables: dict[str, pa.Table], views: list[View]) -> list[str]:
    """Add the curve of a share or a rate."""
    quantity = "rate" if model._curve_quantity == "rate" else None
    if not isinstance(model._observed, Intervals):
        return []
    est = model.estimate(np.linspace(*model._ends(), POINTS), quantity, level)
    tables["curve"] = pa.table({"area": ["a0"] * POINTS, "x": est["point"], **{n: est[n] for n in OF_ESTIMATE}})
    views.append(charts.density_view(level, model._curve_quantity, False, bars=False))
    return []


def _numbers(found: Estimates, rows: npt.NDArray[np.intp]) -> dict[str, pa.Array]:
    return {n: pa.array(found[n][rows].astype(np.float64), from_pandas=True) for n in OF_ESTIMATE}


def _points(found: Estimates, codes: Sequence[str | None]) -> pa.Table:
    rows = np.array([i for i in np.argsort(found["point"], kind="stable") if codes[i] is not None], dtype=np.intp)
    rows = rows[sample(len(rows))]
    return pa.table({"area": [codes[i] for i in rows], "x": found["point"][rows], **_numbers(found, rows)})


def _bins(found: Estimates, codes: Sequence[str | None]) -> pa.Table:
    """Lay intervals out: limits, words for them, estimates; those without end have no place on the axis."""
    lower, upper = found["lower"].astype(np.float64), found["upper"].astype(np.float64)
    order = np.argsort(np.nan_to_num(lower, nan=-np.inf), kind="stable")
    rows = np.array([i for i in order if codes[i] is not None], dtype=np.intp)
    rows = rows[sample(len(rows))]
    words = [_bin_words(lower[i], upper[i]) for i in rows]
    columns: dict[str, Any] = {
        "area": [codes[i] for i in rows],
        "label": words,
        "place": np.arange(len(rows), dtype=np.float64),
        "from": pa.array(lower[rows], from_pandas=True),
        "to": pa.array(upper[rows], from_pandas=True),
        **_numbers(found, rows),
    }
    beside = _beside(found)
    if beside:
        columns["beside"] = pa.array(found[beside][rows].astype(np.float64), from_pandas=True)
    return pa.table(columns)


def _bin_words(low: float, high: float) -> str:
    if not np.isfinite(high):
        return f"{_limit(low)} and over"
    return f"under {_limit(high)}" if not np.isfinite(low) else f"{_limit(low)} to {_limit(high)}"


def _limit(value: float) -> str:
    """Write a limit in full: rounded ones would give narrow bins the same name."""
    return f"{value:,.10g}"


def _places(found: Estimates) -> pa.Table:
    rows = np.arange(len(found))
    words = [" · ".join(str(found[k][i]) for k in found.keys) for i in rows]
    columns: dict[str, Any] = {"place": words, **_numbers(found, rows)}
    beside = _beside(found)
    if beside:
        columns["beside"] = pa.array(found[beside].astype(np.float64), from_pandas=True)
    return pa.table(columns)


def _ranked(areas: pa.Table) -> pa.Table:
    values = areas["estimate"].to_numpy()
    order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[:RANKED]
    return areas.take(pa.array(order)).append_column("rank", pa.array(np.arange(len(order), dtype=np.float64)))


def _beside(found: Estimates) -> str | None:
    """Name the naive answer that stands beside the estimate."""
    return next((n for n in ("area_weighted", "nested_rate") if n in found.table.column_names), None)


def _what(found: Estimates) -> str:
    """Take what was predicted from the end of the method's words: total, mean, rate, share, count."""
    return found.method.rpartition(", ")[2] if ", " in found.method else "estimate"


def _sentences(found: Estimates, kind: str, model: BinnedGP | BinnedCountGP | None) -> Sequence[str]:
    what = {"point": "points", "bins": "bins", "areas": "areas"}[kind]
    source = "" if model is None else f", learned from {_learned(model)}"
    e = found["estimate"].astype(np.float64)
    top = int(np.nanargmax(e))
    words = _where(found, kind, top)
    d = found.diagnostics
    left = d.get("leave_one_out")
    width = settled(_width(found), float(np.nanmax(np.abs(e))))
    sure = f"Intervals are {level_words(found.level)}s ({found.interval}), on average {number(width)} wide."
    if width == 0.0:
        sure = f"Intervals are {level_words(found.level)}s ({found.interval}); these totals were observed and are kept exactly."
    if left:
        sure += f" When each region is predicted from the others, 95 % intervals cover {100 * left['coverage']:.0f} %."
    naive = _beside(found)
    told = ""
    if naive:
        apart = float(np.nanmean(np.abs(e - found[naive].astype(np.float64))))
        told = (
            f" The naive answer ({naive}) differs by {number(settled(apart, float(np.nanmax(np.abs(e)))))} on average."
        )
    return [
        f"What lies behind bins and areas? Predictions for {len(found):,} {what}{source}.",
        f"The largest estimate is that of {words}: {number(float(e[top]))} "
        f"{span(float(found['conf_low'][top]), float(found['conf_high'][top]))}.{told}",
        sure,
    ]


def _learned(model: BinnedGP | BinnedCountGP) -> str:
    return f"{len(model._data()[1]):,} regions ({model.quantity_}s)"


def _where(found: Estimates, kind: str, row: int) -> str:
    others = [str(found[k][row]) for k in found.keys if k not in ("lower", "upper", "point", "row")]
    if kind == "bins":
        others.append(_bin_words(float(found["lower"][row]), float(found["upper"][row])))
    elif kind == "point":
        others.append(number(float(found["point"][row])))
    return " · ".join(others)


def _width(found: Estimates) -> float:
    return float(np.nanmean(found["conf_high"].astype(np.float64) - found["conf_low"].astype(np.float64)))
