"""A row for each estimate: dot, interval, bounds, truth and other methods; methods side by side; places in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.charts.cells import Cells, cells_of, unit_limits
from crosslevel.charts.chart import Axis, Chart, Choice, Mark, Panel, Rows, Shade
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import BLUE, GRAY, GREEN, INK, ORANGE, PALE, PURPLE, VERMILION, check_color
from crosslevel.charts.words import describe_intervals, named
from crosslevel.data.checks import check_whole
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates, display
from crosslevel.results.table import midpoints, on_unit_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BESIDE: dict[str, tuple[str, str]] = {
    "neighborhood": (ORANGE, "square"),
    "goodman": (GREEN, "triangle-up"),
    "rxc": (PURPLE, "diamond"),
    "homogeneous": ("#56B4E9", "triangle-down"),
    "naive": (ORANGE, "stroke"),
    "plug_in": (ORANGE, "diamond"),
    "baseline": ("#6B6B6B", "diamond"),
    "area_weighted": (ORANGE, "diamond"),
    "people_weighted": (ORANGE, "diamond"),
}
"""Columns of other answers that are drawn beside the estimate: color and shape."""
SPARE = ("square", "triangle-up", "triangle-down", "diamond")
MOST_LINES = 60
"""Rows drawn as lines with their names; more are drawn by rank."""
MOST_CELLS = 30
BOUNDS = "possible at all (bounds)"


BEYOND = "outside 0 to 1"


def _cut_beside(cells: Cells, beside: Sequence[str]) -> Cells:
    """Add what an axis from 0 to 1 shows of other answers that leave it: dots inside, arrows at the ends."""
    for name in beside:
        x = np.asarray(cells.table[name].to_numpy(), dtype=np.float64)
        with np.errstate(invalid="ignore"):
            low, high = x < 0, x > 1
        if (low | high).any():
            dots = (np.where(low | high, np.nan, x), np.where(low, 0.0, np.nan), np.where(high, 1.0, np.nan))
            cells = cells.with_columns(**dict(zip(_cut_names(name), dots, strict=True)))
    return cells


def _cut_names(name: str) -> list[str]:
    return [f"{name}_{part}" for part in ("shown", "below", "above")]


def _interval_and_dots(cells: Cells, interval: bool, color: str | Shade, tint: str | Shade, **look: Any) -> list[Mark]:
    """Give the marks of interval and estimate; arrows at the ends of an axis from 0 to 1 where they lie outside."""
    cut = cells.has("shown")
    low, high, dot = ("shown_low", "shown_high", "shown") if cut else ("conf_low", "conf_high", "estimate")
    marks = [Mark("interval", low, x2=high, color=color, **look)] if interval else []
    marks.append(Mark("dot", dot, color=tint, **look))
    for name, shape in (("below", "triangle-left"), ("above", "triangle-right")):
        if cut and cells.has(name):
            marks.append(Mark("dot", name, color=tint, **(look | {"shape": shape, "size": 42.0})))
    return marks


def describe_cut(table: pa.Table) -> list[str]:
    """Say what an axis from 0 to 1 does to the rows: arrows for estimates outside it, intervals cut at its ends."""
    have = set(table.column_names)
    said = ["arrows are estimates outside 0 to 1"] if have & {"below", "above"} else []
    ends = [
        np.asarray(table[n].to_numpy(), dtype=float) for n in ("conf_low", "conf_high") if "shown" in have and n in have
    ]
    with np.errstate(invalid="ignore"):
        return [*said, *(["intervals are cut at 0 and 1"] if any(((v < 0) | (v > 1)).any() for v in ends) else [])]


def _only_bounds(cells: Cells) -> bool:
    """Tell whether there are bounds and no estimates."""
    return cells.has("bound_low", "bound_high") and cells.table["estimate"].null_count == len(cells.table)


def estimate_title(estimates: Estimates) -> str:
    """Give the words of an axis of estimates."""
    if estimates.level is None:
        return BOUNDS if midpoints(estimates).any() else "estimate (no interval)"
    return f"estimate and {display.describe_level(estimates.level)} ({estimates.interval})"


def row_marks(
    cells: Cells,
    level: float | None,
    *,
    beside: Sequence[str] = (),
    bounds: bool = True,
    truth: bool = True,
    color: str = BLUE,
) -> list[Mark]:
    """Give the marks of rows with names: bounds behind, the interval, the estimate, other answers and the truth."""
    marks = []
    if bounds and cells.has("bound_low", "bound_high"):
        marks.append(Mark("bar", "bound_low", x2="bound_high", color=PALE, label=BOUNDS))
    interval = level is not None and cells.has("conf_low", "conf_high")
    if not _only_bounds(cells):
        labels = {"interval": display.describe_level(level), "dot": "estimate"}
        found = _interval_and_dots(cells, interval, color, color if level is not None else GRAY)
        marks += [replace(m, label=BEYOND if m.x in ("below", "above") else labels[m.form]) for m in found]
    for i, name in enumerate(beside):
        tint, shape = BESIDE.get(cells.labels[name], ("#6B6B6B", SPARE[i % len(SPARE)]))
        drawn = dict.fromkeys([name], shape)
        if cells.has(_cut_names(name)[0]):
            drawn = dict(zip(_cut_names(name), (shape, "triangle-left", "triangle-right"), strict=True))
        label = named(cells.labels[name])
        marks += [
            Mark("dot", x, color=tint, shape=form, filled=False, size=36.0, label=label if form == shape else "")
            for x, form in drawn.items()
        ]
    if truth and cells.has("truth"):
        marks.append(Mark("dot", "truth", color=VERMILION, shape="diamond", filled=False, size=49.0, label="truth"))
    ends = [m.x for m in marks] + [m.x2 for m in marks if m.x2]
    seen = np.concatenate([np.asarray(cells.table[n].to_numpy(), dtype=float) for n in ends if isinstance(n, str)])
    if seen.size and np.nanmin(seen, initial=0.0) < 0 < np.nanmax(seen, initial=0.0):
        marks.insert(0, Mark("rule", 0.0, color=GRAY))
    return marks


def rows_chart(
    estimates: Estimates,
    cells: Cells | None = None,
    *,
    name: str = "intervals",
    title: str = "Every row",
    x_title: str = "",
    fixed: Sequence[str] = (),
    caption: str = "",
    largest_first: bool = True,
) -> Chart:
    """Describe every row with its interval; keys that would make it too long become drop-down lists.

    Parameters
    ----------
    estimates : Estimates
    cells : Cells, optional
    name : str
    title : str
        What is drawn; that it has intervals or bounds is added.
    x_title : str
        Words of the axis, where these are not the usual ones.
    fixed : sequence of str
        Keys that are drop-down lists in any case.
    caption : str
        Further sentences.
    largest_first : bool
        Whether rows are sorted by the estimate until the reader chooses, rather than as in the table.
    """
    cells = (cells_of(estimates) if cells is None else cells).within_unit(estimates)
    lines = _lines(cells, fixed)
    chosen = [key for key in cells.keys if key not in lines]
    choices = [cells.choice(key) for key in chosen]
    most = cells.most_rows(chosen)
    beside = [n for n in BESIDE if cells.has(n)]
    if most > MOST_LINES:
        return ordered_chart(estimates, cells, name=name, title=title, lines=lines, choices=choices)
    if len(lines) > 1:
        # one more list, that narrows nothing at first
        sizes = {k: len(cells.levels(k)) for k in lines}
        key = min(sizes, key=sizes.__getitem__)
        if 1 < sizes[key] < most:
            choices.append(cells.choice(key, all_rows=True))
    highest = ["estimate", *beside]
    options = [(n, f"{named(cells.labels[n])}, highest first") for n in highest] + [("position", "as in the table")]
    order = Choice(f"{name}_order", "sorted by", options, 0 if largest_first else len(options) - 1)
    interval = estimates.level is not None and cells.has("conf_low", "conf_high")
    bounds = cells.has("bound_low", "bound_high")
    said = " with its interval" if interval else " with its bounds" if bounds else ""
    share, limits = on_unit_scale(estimates), unit_limits(estimates)
    cells = _cut_beside(cells, beside) if limits else cells
    marks = row_marks(cells, estimates.level if interval else None, beside=beside)
    x = Axis(x_title or estimate_title(estimates), share=share, limits=limits)
    return cells.chart(
        name,
        title + (said if title.startswith("Every") else ""),
        _caption(estimates, cells, bounds, interval) + (f" {caption}" if caption else ""),
        [Panel(marks, x, Axis(names="label", order="sort_by", down=True))],
        choices=[*choices, order],
        columns={"sort_by": order.name},
        lines=lines,
        share=share,
        inches=(8.4, 1.2 + 0.27 * most),
    )


def ordered_chart(
    estimates: Estimates,
    cells: Cells,
    *,
    name: str = "places",
    title: str = "Places in order",
    lines: Sequence[str] = (),
    choices: Sequence[Choice] = (),
    where: Mapping[str, str] | None = None,
    size: str = "full",
) -> Chart:
    """Describe very many rows from the lowest estimate to the highest, with their intervals; hovering names them."""
    interval = estimates.level is not None and cells.has("conf_low", "conf_high")
    share = on_unit_scale(estimates)
    marks = [Mark("dot", "rank", "estimate", size=8.0, alpha=0.9)]
    if interval:
        thin = 0.35 if cells.table.num_rows < 500 else 0.15
        marks.insert(0, Mark("interval", "rank", "conf_low", y2="conf_high", width=1.0, alpha=thin))
    said = (
        f"lines are {describe_intervals(estimates.level, estimates.interval)}" if interval else "there is no interval"
    )
    return cells.chart(
        name,
        title + (" with its interval" if interval and title.startswith("Every") else ""),
        f"From the lowest estimate to the highest; {said}. Hover for the numbers.",
        [Panel(marks, Axis("rank, from the lowest"), Axis("estimate", share=share))],
        choices=choices,
        where=where,
        lines=lines,
        rank="estimate",
        share=share,
        size=size,
    )


def _caption(estimates: Estimates, cells: Cells, bounds: bool, interval: bool) -> str:
    if _only_bounds(cells):
        return "Gray bars are bounds that hold whatever people did; nothing inside them is more probable. Hover for the numbers."
    said = (
        f"Dots are estimates; lines are {describe_intervals(estimates.level, estimates.interval)}"
        if interval
        else "Dots are estimates"
    )
    said = "; ".join([said, *describe_cut(cells.table)])
    said += "; gray bars are bounds that hold whatever people did" if bounds else ""
    return f"{said}. Hover for the numbers."


def _lines(cells: Cells, fixed: Sequence[str]) -> list[str]:
    """Choose the keys whose values are drawn side by side: all, or as many as make no more than the most lines."""
    keys = [key for key in cells.keys if key not in fixed]
    if cells.most_rows(list(fixed)) <= MOST_LINES or len(keys) <= 1:
        return keys
    kept: list[str] = []
    for key in sorted(keys, key=lambda k: len(cells.levels(k))):
        rest = [k for k in cells.keys if k not in (*kept, key)]
        if not kept or cells.most_rows(rest) <= MOST_LINES:
            kept.append(key)
    return kept


@checked
def intervals(
    estimates: Estimates,
    ax: Axes | None = None,
    *,
    truth: bool = True,
    bounds: bool = True,
    baselines: Sequence[str] | None = None,
    sort: bool = False,
    max_rows: int = MOST_LINES,
    color: str = BLUE,
    legend: bool = True,
) -> Axes:
    """Draw one row per key: the estimate as a dot, its interval as a line.

    Parameters
    ----------
    estimates : Estimates
        What to draw. With two keys or more, rows are grouped by the first.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure as high as the rows need.
    truth : bool
        Draw the column ``truth``, if there is one, as an open diamond.
    bounds : bool
        Draw the columns ``lower`` and ``upper`` (or ``bound_low`` and ``bound_high``), if they are there, as a light bar: what
        is possible at all.
    baselines : sequence of str, optional
        Columns to draw as open marks; by default those with the name of a baseline (such as ``goodman``).
    sort : bool
        Put large estimates first, within each group.
    max_rows : int
        Draw at most this many rows, and say so below.
    color : color
        Color of dots and intervals; without an interval the dots are gray.
    legend : bool
        Explain the marks, when there is more than one.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["women", "men"], "estimate": [0.52, 0.47], "conf_low": [0.49, 0.43], "conf_high": [0.55, 0.51]},
    ...     keys=["group"], method="example", level=0.95, interval="wald", provenance=Provenance.of(call="example()"),
    ... )
    >>> intervals(est).get_xlabel()
    'estimate and 95 % interval (wald)'
    """
    check_color(color)
    _check_rows(estimates, "max_rows", max_rows)
    cells = cells_of(estimates)
    chosen = _baselines(estimates, cells, baselines)
    first = estimates.table[estimates.keys[0]].to_pylist() if len(estimates.keys) > 1 else []
    grouped = len(set(first)) < len(first)
    order = _order(estimates, first if grouped else [None] * len(estimates), sort)[:max_rows]
    shown = cells.take(order).within_unit(estimates)
    shown = _cut_beside(shown, chosen) if unit_limits(estimates) else shown
    marks = row_marks(shown, estimates.level, beside=chosen, bounds=bounds, truth=truth, color=color)
    keys = list(cells.keys.values())
    heads = len(set(shown.table[keys[0]].to_pylist())) if grouped else 0
    wide = legend and len([m for m in marks if m.form in ("dot", "bar")]) > 1
    few = [f"the first {len(order):,} of {len(estimates):,} rows"] if len(order) < len(estimates) else []
    chart = shown.chart(
        "intervals",
        estimates.title or estimates.method,
        "",
        [
            Panel(
                marks,
                Axis(estimate_title(estimates), limits=unit_limits(estimates)),
                Axis(names="label", group=keys[0] if grouped else ""),
            )
        ],
        note="; ".join([*few, *describe_cut(shown.table)]),
        inches=(8.4 if wide else 6.6, 1.15 + 0.27 * (len(order) + 1.7 * heads)),
    )
    return draw(chart, ax, legend=legend)


def _check_rows(estimates: Estimates, argument: str, most: int) -> None:
    if len(estimates) == 0:
        raise InputError("estimates has no rows; there is nothing to draw.")
    check_whole(most, argument, 1)


def _baselines(estimates: Estimates, cells: Cells, wanted: Sequence[str] | None) -> list[str]:
    """Name the columns of the cells that are drawn beside the estimate."""
    ours = {words: name for name, words in cells.labels.items()}
    if wanted is None:
        return [n for n in BESIDE if cells.has(n) and estimates[cells.labels[n]].dtype == np.float64]
    for name in wanted:
        if name not in estimates.table.column_names:
            raise unknown_name("baselines", name, estimates.table.column_names)
        if name in estimates.keys or estimates[name].dtype.kind not in "fiu":
            raise InputError(f"baselines has {name!r}, which is not a column of numbers; name columns of numbers.")
    return [ours[name] for name in wanted if name in ours]


def _order(estimates: Estimates, groups: Sequence[Any], sort: bool) -> npt.NDArray[np.intp]:
    """Order the rows: groups as they first appear, within them as they are or by size."""
    rank = {g: i for i, g in enumerate(dict.fromkeys(groups))}
    by_group = np.array([rank[g] for g in groups])
    return np.lexsort((-estimates["estimate"], by_group)) if sort else np.argsort(by_group, kind="stable")


def methods_chart(comparison: Estimates, *, max_cells: int | None = None) -> Chart:
    """Describe what each method says of each cell; a long comparison shows the groups of one outcome at a time.

    ``max_cells`` keeps the first cells only, and makes no lists.
    """
    cells = cells_of(comparison).within_unit(comparison)
    others = [key for key in cells.keys if key != "method"]
    joined = {"cell": [cells.keys[key] for key in others], "method": [cells.keys["method"]]}
    kept = cells.table.filter(pa.array([m != "bounds" for m in comparison["method"].tolist()]))
    n_methods = max(1, len(set(kept[cells.keys["method"]].to_pylist())))
    words = list(zip(*(cells.table[cells.keys[key]].to_pylist() for key in others), strict=True))
    order = list(dict.fromkeys(words))
    first = cells.table.take(pa.array([words.index(cell) for cell in order]))
    chosen: list[str] = []
    note = ""
    if max_cells is None:
        while len(others) - len(chosen) > 1 and cells.most_rows(chosen) > MOST_LINES * max(1, n_methods // 2):
            chosen.append(max((k for k in others if k not in chosen), key=lambda k: len(cells.levels(k))))
    else:
        shown = set(order[:max_cells])
        keep = list(zip(*(kept[cells.keys[key]].to_pylist() for key in others), strict=True))
        kept, first = kept.filter(pa.array([cell in shown for cell in keep])), first.slice(0, max_cells)
        note = f"the first {max_cells:,} of {len(order):,} cells" if max_cells < len(order) else ""
    interval = comparison.level is not None and cells.has("conf_low", "conf_high")
    by = Shade("method", names=True)
    marks = _interval_and_dots(cells, interval, by, by, offset=True, size=26.0, width=1.8)
    if cells.has("bound_low", "bound_high"):
        marks.insert(0, Mark("bar", "bound_low", x2="bound_high", color=PALE, data="cells", label=BOUNDS))
    if cells.has("truth"):
        marks.append(Mark("tick", "truth", color=INK, data="cells", label="truth"))
    kind = display.describe_level(comparison.level)
    caption = "A dot for each method; none has an interval."
    if interval:
        caption = f"A line for each method; {describe_intervals(comparison.level, comparison.interval)} where a method has them."
    if cells.has("bound_low", "bound_high"):
        caption += "".join(f" {said[0].upper()}{said[1:]}." for said in describe_cut(kept))
        caption += " Gray bars are what is possible at all (bounds), whatever people did."
    where = {cells.keys[key]: cells.keys[key] for key in chosen}
    share = on_unit_scale(comparison)
    axis = f"estimate and {kind}, where a method has one" if comparison.level else "estimate (no interval)"
    return Chart(
        name="methods",
        title="What each method says" if max_cells is None else comparison.title or comparison.method,
        caption=caption,
        panels=[
            Panel(
                marks,
                Axis(axis, share=share and max_cells is None, limits=unit_limits(comparison)),
                Axis(names="cell", offset="method"),
            )
        ],
        tables={"cells": kept, "bounds": first},
        data={
            "rows": Rows("cells", where, joined=joined),
            "cells": Rows("bounds", where, joined={"cell": joined["cell"]}),
        },
        choices=[cells.choice(key) for key in chosen],
        labels=cells.labels,
        tips=cells.tips({"cell": " · ".join(others), "method": "method"}),
        share=share,
        note=note,
        inches=(8.4, 1.2 + 0.2 * (min(len(order), max_cells or len(order)) * (n_methods + 1.2))),
    )


@checked
def methods(comparison: Estimates, ax: Axes | None = None, *, max_cells: int = MOST_CELLS, legend: bool = True) -> Axes:
    """Draw what each method says of each cell: a dot with its interval, the deterministic bounds behind.

    Parameters
    ----------
    comparison : Estimates
        Of :func:`crosslevel.ecological.compare`: one of its keys is ``method``. The midpoints of the method of bounds are
        not drawn: the bar is what it says.
    ax : matplotlib.axes.Axes, optional
        By default a new figure as high as the cells need.
    max_cells : int
        Draw at most this many cells, and say so below.
    legend : bool

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["young"] * 2, "outcome": ["yes"] * 2, "method": ["goodman", "rxc"], "estimate": [0.6, 0.5],
    ...      "conf_low": [0.5, 0.3], "conf_high": [0.7, 0.7], "lower": [0.2, 0.2], "upper": [0.9, 0.9]},
    ...     keys=["group", "outcome", "method"], method="example", level=0.95, interval="each its own",
    ...     provenance=Provenance.of(call="example()"),
    ... )
    >>> [t.get_text() for t in methods(est).get_legend().get_texts()]
    ['possible at all (bounds)', 'goodman', 'rxc']
    """
    if "method" not in comparison.keys:
        raise InputError("comparison has no key 'method'; pass the Estimates of crosslevel.ecological.compare.")
    _check_rows(comparison, "max_cells", max_cells)
    chart = methods_chart(comparison, max_cells=max_cells)
    note = "; ".join([*([chart.note] if chart.note else []), *describe_cut(chart.tables["cells"])])
    return draw(replace(chart, note=note), ax, legend=legend)
