"""Several methods side by side: every method's interval in every cell, in front of what is possible at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.charts.style import CYCLE, INK, PALE, new_axes, note, plain, style
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.results.display import level_words
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["methods"]


_MARKS = ("o", "s", "^")
_STEP = 0.2  # inches from one method to the next
_GAP = 1.2  # between two cells, in such steps
_LONGEST_LABEL = 42


def methods(comparison: Estimates, ax: Axes | None = None, *, max_cells: int = 30, legend: bool = True) -> Axes:
    """Draw what each method says of each cell: a dot with its interval, the deterministic bounds behind.

    Parameters
    ----------
    comparison : Estimates
        Of :func:`crosslevel.ecological.compare`: one of its keys is ``method``. The midpoints of the method of bounds are
        not drawn: the bar is what it says.
    ax : matplotlib.axes.Axes, optional
        By default a new figure as high as the cells need.
    max_cells : int
        Draw at most so many cells, and say so below.
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
    ['goodman', 'rxc', 'possible at all (bounds)']
    """
    if "method" not in comparison.keys:
        raise InputError("comparison has no key 'method'; pass the Estimates of crosslevel.ecological.compare.")
    if not len(comparison):
        raise InputError("comparison has no rows; there is nothing to draw.")
    if max_cells < 1:
        raise InputError(f"max_cells={max_cells!r} leaves nothing to draw; pass 1 or more.")
    names = [m for m in dict.fromkeys(comparison["method"].tolist()) if m != "bounds"]
    cell_keys = [k for k in comparison.keys if k != "method"]
    cells = list(zip(*(comparison.table[k].to_pylist() for k in cell_keys), strict=True))
    order = list(dict.fromkeys(cells))
    shown = order[:max_cells]
    n = max(len(names), 1)
    top = {cell: i * (n + _GAP) for i, cell in enumerate(shown)}
    bottom = (len(shown) - 1) * (n + _GAP) + n
    with style():
        ax = new_axes(ax, 8.4 if legend else 6.6, 1.2 + _STEP * bottom)
        ax.use_sticky_edges = False
        for i, name in enumerate(names):
            rows = [k for k, m in enumerate(comparison["method"]) if m == name and cells[k] in top]
            y = np.array([top[cells[k]] + i for k in rows], dtype=float)
            _intervals(ax, comparison, rows, y, name, CYCLE[i % len(CYCLE)], _MARKS[i // len(CYCLE) % len(_MARKS)])
        _bounds(ax, comparison, cells, top, n)
        _truth(ax, comparison, cells, top, n)
        middle = [top[cell] + (n - 1) / 2 for cell in shown]
        ax.set_yticks(middle, [_short(" · ".join(map(str, cell))) for cell in shown])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(bottom + 0.2, -1.2)
        kind = level_words(comparison.level)
        ax.set_xlabel(
            plain(f"estimate and {kind}, where a method has one" if comparison.level else "estimate (no interval)")
        )
        ax.set_title(plain(comparison.title or comparison.method), loc="left")
        if legend:
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=1.4)
        if len(shown) < len(order):
            note(ax, f"the first {len(shown):,} of {len(order):,} cells")
    return ax


def _intervals(ax: Axes, est: Estimates, rows: list[int], y: FloatArray, name: str, color: str, mark: str) -> None:
    x, low, high = (est[n][rows] for n in ("estimate", "conf_low", "conf_high"))
    there = ~(np.isnan(low) | np.isnan(high))
    ax.plot(x, y, mark, color=color, ms=5.0, mec="white", mew=0.6, zorder=5, label=plain(name))
    if there.any():
        ax.hlines(y[there], low[there], high[there], color=color, lw=1.8, zorder=3)


def _bounds(ax: Axes, est: Estimates, cells: list[Any], top: dict[Any, float], n: int) -> None:
    """Draw one bar per cell, as high as its methods."""
    if not {"lower", "upper"} <= set(est.table.column_names):
        return
    first = {cell: i for i, cell in reversed(list(enumerate(cells)))}
    lower, upper = est["lower"], est["upper"]
    bars = [(y, lower[first[c]], upper[first[c]]) for c, y in top.items()]
    bars = [b for b in bars if np.isfinite(b[1]) and np.isfinite(b[2])]
    if bars:
        y, low, high = (np.array(v, dtype=float) for v in zip(*bars, strict=True))
        ax.barh(
            y + (n - 1) / 2, high - low, left=low, height=n + 0.1, color=PALE, lw=0, zorder=1,
            label="possible at all (bounds)",
        )  # fmt: skip


def _truth(ax: Axes, est: Estimates, cells: list[Any], top: dict[Any, float], n: int) -> None:
    """Draw the column ``truth``, where there is one, as a line through the cell's methods."""
    if "truth" not in est.table.column_names:
        return
    first = {cell: i for i, cell in reversed(list(enumerate(cells)))}
    marks = [(est["truth"][first[c]], y) for c, y in top.items() if np.isfinite(est["truth"][first[c]])]
    if marks:
        x, y = (np.array(v, dtype=float) for v in zip(*marks, strict=True))
        ax.vlines(x, y - 0.5, y + n - 0.5, color=INK, lw=1.6, ls=(0, (3, 1.5)), zorder=4, label="truth")


def _short(text: str) -> str:
    return plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")
