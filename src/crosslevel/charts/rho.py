"""What answers become if the composition of a place acts on everybody who lives there: a line per subgroup, over rho."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosslevel.charts.style import CYCLE, GREY, new_axes, note, plain, style
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.results.display import level_words
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["rho"]


_COLUMNS = ("contextual_variance", "neighborhood", "changes_sign")
_APART = 0.012  # of the axis, between the bars of two subgroups at one rho
_LONGEST_LABEL = 42


@dataclass(frozen=True, eq=False)
class Line:
    """One subgroup.

    rho, estimate, low, high, neighborhood : (n,) in order of rho; name : its keys in words; changes : whether it crosses its
    neighborhood
    """

    name: str
    rho: FloatArray
    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    neighborhood: FloatArray
    changes: bool


def rho(answer: Estimates, ax: Axes | None = None, *, max_lines: int = 8, legend: bool = True) -> Axes:
    """Draw the answers of ``EcologicalInference.sensitivity`` against rho, a line per subgroup with its interval at each rho.

    Parameters
    ----------
    answer : Estimates
        Answer of :meth:`crosslevel.EcologicalInference.sensitivity`.
    ax : matplotlib.axes.Axes, optional
    max_lines : int, default 8
        Draw at most so many subgroups, those that change sign first, and say so below.
    legend : bool
        Name the subgroups.

    Returns
    -------
    matplotlib.axes.Axes
        Dots and lines: estimates; bars: intervals, side by side at each rho; dashed: the subgroup's neighborhood, in its colour.
        Open dots mark subgroups that lie above their neighborhood for some rho and below it for others.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> answer = Estimates.build(
    ...     {"contextual_variance": [0.0, 0.3], "sex": ["women", "women"], "estimate": [0.55, 0.48], "conf_low": [0.5, 0.42],
    ...      "conf_high": [0.6, 0.54], "neighborhood": [0.5, 0.5], "changes_sign": [True, True]},
    ...     keys=["contextual_variance", "sex"], method="example", level=0.95, interval="quantiles",
    ...     provenance=Provenance.of(call="model.sensitivity()"),
    ... )
    >>> [text.get_text() for text in rho(answer).get_legend().get_texts()]
    ['women (changes sign)', 'neighborhood']
    """
    if not isinstance(answer, Estimates) or not set(_COLUMNS) <= set(answer.table.column_names):
        raise InputError("answer is not one of EcologicalInference.sensitivity; pass model.sensitivity(by=...).")
    if not len(answer) or max_lines < 1:
        raise InputError("there is nothing to draw: answer has no rows, or max_lines is below 1.")
    lines = _lines(answer)
    shown = sorted(lines, key=lambda line: not line.changes)[:max_lines]
    values = np.unique(answer["contextual_variance"])
    with style("both"):
        ax = new_axes(ax, 8.2 if legend else 6.4, 4.2)
        ax.set_xscale("function", functions=(_root, np.square))  # a variance: its root is how strong the effect is
        end = float(values[-1])
        room = np.sqrt(end) * (_APART * len(shown) + 0.02)
        for i, line in enumerate(shown):
            aside = np.sqrt(end) * _APART * (i - 0.5 * (len(shown) - 1))
            _draw(ax, line, CYCLE[i % len(CYCLE)], ("o", "s")[i // len(CYCLE) % 2], aside + room)
        # shifted by `room` so that bars at rho 0 have somewhere to stand
        ax.set_xlim(0, (np.sqrt(end) + 2 * room) ** 2)
        ax.set_xticks((np.sqrt(values) + room) ** 2, [f"{v:g}" for v in values])
        ax.minorticks_off()
        ax.set_xlabel("contextual variance: how far the composition of a place acts on everybody there")
        ax.set_ylabel(plain(f"estimate and {level_words(answer.level)}"))
        ax.set_title(plain(_title(answer)), loc="left")
        if legend:
            ax.plot([], [], color=GREY, lw=1.1, ls="--", label="neighborhood")
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=1.8)
        _remark(ax, lines, shown)
    return ax


def _lines(answer: Estimates) -> list[Line]:
    """Gather the rows of each subgroup, in order of rho."""
    keys = [name for name in answer.keys if name != "contextual_variance"]
    rows: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(answer.table[name].to_pylist() for name in keys), strict=True)):
        rows.setdefault(key, []).append(i)
    if not keys:
        rows = {(): list(range(len(answer)))}
    said = {name: answer[name] for name in ("contextual_variance", "estimate", "conf_low", "conf_high", "neighborhood")}
    found = []
    for key, mine in rows.items():
        order = np.array(mine)[np.argsort(said["contextual_variance"][mine], kind="stable")]
        at, estimate, low, high, near = (np.asarray(values[order], dtype=np.float64) for values in said.values())
        changes = bool(answer["changes_sign"][order].any())
        name = _short(" · ".join(str(v) for v in key) or "everybody")
        found.append(Line(name, at, estimate, low, high, near, changes))
    return found


def _draw(ax: Axes, line: Line, colour: str, mark: str, aside: float) -> None:
    x = (np.sqrt(line.rho) + aside) ** 2
    there = np.isfinite(line.low) & np.isfinite(line.high)
    ax.vlines(x[there], line.low[there], line.high[there], color=colour, lw=3.4, alpha=0.3, zorder=2)
    ax.plot(x, line.neighborhood, color=colour, lw=1.1, ls="--", zorder=3)
    ax.plot(
        x, line.estimate, color=colour, lw=1.8, marker=mark, ms=6.0, mew=1.5, zorder=5,
        markerfacecolor="white" if line.changes else colour,
        label=line.name + (" (changes sign)" if line.changes else ""),
    )  # fmt: skip


def _remark(ax: Axes, lines: list[Line], shown: list[Line]) -> None:
    words = []
    if any(line.changes for line in shown):
        words.append("open: above the neighborhood for some rho, below it for others")
    if len(shown) < len(lines):
        words.append(f"{len(shown):,} of {len(lines):,} subgroups")
    if words:
        note(ax, "; ".join(words))


def _title(answer: Estimates) -> str:
    head = (answer.title or answer.method).split(", by how far composition acts")[0]
    return head if len(head) <= 70 else head[:69] + "…"


def _root(values: npt.ArrayLike) -> FloatArray:
    return np.sqrt(np.maximum(np.asarray(values, dtype=np.float64), 0.0))


def _short(text: str) -> str:
    return plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")
