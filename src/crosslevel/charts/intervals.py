"""A row per estimate: dot, interval, bounds, truth and baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosslevel.charts.style import BLUE, GREY, PALE, VERMILION, new_axes, note, plain, style
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.results.display import level_words
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["intervals"]

BASELINES = ("goodman", "neighborhood", "homogeneous", "naive", "plug_in", "baseline")
"""Columns drawn as baselines when they are there."""
BOUNDS = (("lower", "upper"), ("bound_low", "bound_high"))
"""Pairs of columns drawn as bounds; the first pair that is there."""

_MARKS = ("|", "x", "^", "s", "v", "+")
_GAP = 0.7  # rows between two groups
_INCHES_PER_ROW = 0.27
_LONGEST_LABEL = 42


@dataclass(frozen=True)
class Rows:
    """Where each row goes.

    y : (n,) position of each row, downwards; labels : n words; heads : (y, words) of each group, if there are any
    """

    y: FloatArray
    labels: list[str]
    heads: list[tuple[float, str]]


def intervals(
    estimates: Estimates,
    ax: Axes | None = None,
    *,
    truth: bool = True,
    bounds: bool = True,
    baselines: Sequence[str] | None = None,
    sort: bool = False,
    max_rows: int = 60,
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
        Columns to draw as small grey marks; by default those with the name of a baseline (such as ``goodman``).
    sort : bool
        Put large estimates first, within each group.
    max_rows : int
        Draw at most so many rows, and say so below.
    color : colour
        Colour of dots and intervals; without an interval the dots are grey.
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
    if len(estimates) == 0:
        raise InputError("estimates has no rows; there is nothing to draw.")
    if max_rows < 1:
        raise InputError(f"max_rows={max_rows!r} leaves nothing to draw; pass 1 or more.")
    chosen = _baselines(estimates, baselines)
    order = _order(estimates, sort)[:max_rows]
    rows = _place(estimates, order)
    with style():
        height = 1.15 + _INCHES_PER_ROW * (rows.y[-1] - rows.y[0] + 1)
        columns = {n: estimates[n][order] for n in estimates.table.column_names}
        pair = next((p for p in BOUNDS if set(p) <= set(columns) - set(estimates.keys)), None) if bounds else None
        wide = legend and bool(chosen or pair or (truth and "truth" in columns))
        ax = new_axes(ax, 8.4 if wide else 6.6, height)
        ax.margins(x=0.03)
        ax.use_sticky_edges = False  # a bar that starts at 0 would cut the dot there in half
        if pair is not None:
            _bars(ax, rows.y, columns[pair[0]], columns[pair[1]])
        _dots(ax, rows.y, columns, color if estimates.level is not None else GREY, estimates)
        for i, name in enumerate(chosen):
            _mark(ax, columns[name], rows.y, _MARKS[i % len(_MARKS)], "#6B6B6B", plain(name.replace("_", " ")))
        if truth and "truth" in columns:
            _mark(ax, columns["truth"], rows.y, "D", VERMILION, "truth")
        _dress(ax, rows, estimates, len(order), legend)
    return ax


def _baselines(estimates: Estimates, wanted: Sequence[str] | None) -> list[str]:
    names = estimates.table.column_names
    if wanted is None:
        return [n for n in BASELINES if n in names and estimates[n].dtype == np.float64]
    for name in wanted:
        if name not in names:
            raise unknown_name("baselines", name, names)
        if estimates[name].dtype.kind not in "fiu":
            raise InputError(f"baselines has {name!r}, which is not a column of numbers; name columns of numbers.")
    return list(wanted)


def _groups(estimates: Estimates) -> list[Any]:
    """Tell the first key of each row when it gathers rows, else nothing."""
    if len(estimates.keys) < 2:
        return []
    first = estimates.table[estimates.keys[0]].to_pylist()
    return first if len(set(first)) < len(first) else []


def _order(estimates: Estimates, sort: bool) -> npt.NDArray[np.intp]:
    """Order the rows: groups as they first appear, within them as they are or by size."""
    groups = _groups(estimates) or [None] * len(estimates)
    rank = {g: i for i, g in enumerate(dict.fromkeys(groups))}
    by_group = np.array([rank[g] for g in groups])
    return np.lexsort((-estimates["estimate"], by_group)) if sort else np.argsort(by_group, kind="stable")


def _place(estimates: Estimates, order: npt.NDArray[np.intp]) -> Rows:
    groups = _groups(estimates)
    shown = estimates.keys[1:] if groups else estimates.keys
    words = [estimates.table[k].to_pylist() for k in shown]
    labels = [_short(" · ".join(_say(column[i]) for column in words)) for i in order]
    y = np.arange(len(order), dtype=float)
    heads: list[tuple[float, str]] = []
    shift = 0.0
    for position, i in enumerate(order if groups else ()):
        if position == 0 or groups[i] != groups[order[position - 1]]:
            shift += _GAP if position else 0.0
            heads.append((position + shift, _short(_say(groups[i]))))
            shift += 1.0
        y[position] += shift
    return Rows(y, labels, heads)


def _bars(ax: Axes, y: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    there = ~(np.isnan(lower) | np.isnan(upper))
    ax.barh(
        y[there],
        (upper - lower)[there],
        left=lower[there],
        height=0.54,
        color=PALE,
        lw=0,
        zorder=1,
        label="possible at all (bounds)",
    )


def _dots(ax: Axes, y: FloatArray, columns: dict[str, Any], color: str, estimates: Estimates) -> None:
    low, high = columns["conf_low"], columns["conf_high"]
    there = ~(np.isnan(low) | np.isnan(high))
    ax.plot(columns["estimate"], y, "o", color=color, ms=5.2, mec="white", mew=0.7, zorder=6, label="estimate")
    if there.any():
        ax.hlines(y[there], low[there], high[there], color=color, lw=2.0, zorder=3, label=level_words(estimates.level))


def _mark(ax: Axes, x: FloatArray, y: FloatArray, mark: str, color: str, label: str) -> None:
    """Draw open marks, so that what lies under them can be seen."""
    size = {"|": 10.0, "D": 7.0}.get(mark, 6.0)
    above = 5 if mark == "D" else 4
    ax.plot(x, y, mark, color=color, markerfacecolor="none", ms=size, mew=1.4, zorder=above, label=label)


def _dress(ax: Axes, rows: Rows, estimates: Estimates, n_shown: int, legend: bool) -> None:
    """Label the axes, name the groups, and say what is not shown."""
    ax.set_yticks(rows.y, rows.labels)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    top = rows.heads[0][0] if rows.heads else rows.y[0]
    ax.set_ylim(rows.y[-1] + 0.7, top - 0.7)
    for y, words in rows.heads:
        ax.annotate(
            words, xy=(0, y), xycoords=ax.get_yaxis_transform(), xytext=(-5, 0), textcoords="offset points",
            ha="right", va="center", fontweight="bold", fontsize=9,
        )  # fmt: skip
    if ax.dataLim.x0 < 0 < ax.dataLim.x1:
        ax.axvline(0, color="#9A9A9A", lw=0.9, zorder=2)
    kind = level_words(estimates.level) + ("" if estimates.level is None else f" ({estimates.interval})")
    ax.set_xlabel(plain(f"estimate and {kind}" if estimates.level is not None else f"estimate ({kind})"))
    ax.set_title(plain(estimates.title or estimates.method), loc="left")
    marks = ax.get_legend_handles_labels()[1]
    if legend and set(marks) - {"estimate", level_words(estimates.level)}:
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=1.4)
    if n_shown < len(estimates):
        note(ax, f"the first {n_shown:,} of {len(estimates):,} rows")


def _say(value: object) -> str:
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _short(text: str) -> str:
    return plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")
