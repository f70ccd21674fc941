"""Who went where: a table of groups by outcomes as a heat map with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from crosslevel.charts.style import INK, PALE, new_axes, note, plain, style
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["transfers"]


_LONGEST_LABEL = 24


def transfers(
    result: Estimates, ax: Axes | None = None, *, counts: bool = False, intervals: bool = True, cmap: str = "Blues"
) -> Axes:
    """Draw the table of groups (rows) by outcomes (columns), each cell coloured by its share and with its numbers.

    Parameters
    ----------
    result : Estimates
        With the keys ``group`` and ``outcome``; other keys must have one value (``result.select(district="north")``).
    ax : matplotlib.axes.Axes, optional
    counts : bool
        Write the column ``count`` instead of the share. Colours always show shares, so that small groups can be seen.
    intervals : bool
        Write the interval below the share, where there is one.
    cmap : str
        A matplotlib colour map, from 0 to 1. Numbers are dark or white, whichever contrasts more with their cell.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["young", "young", "old", "old"], "outcome": ["yes", "no"] * 2, "estimate": [0.6, 0.4, 0.25, 0.75]},
    ...     keys=["group", "outcome"], method="example", level=None, interval="none",
    ...     provenance=Provenance.of(call="example()"),
    ... )
    >>> [t.get_text() for t in transfers(est).texts][:4]
    ['0.60', '0.40', '0.25', '0.75']
    """
    import matplotlib as mpl

    groups, outcomes, row = one_table(result)
    if counts and "count" not in result.table.column_names:
        raise InputError("result has no column 'count'; draw the shares, counts=False.")
    share = np.where(row >= 0, result["estimate"][row], np.nan)
    words = _words(result, row, counts, intervals)
    with style():
        ax = new_axes(ax, 2.4 + 1.15 * len(outcomes), 1.5 + 0.62 * len(groups))
        colours = mpl.colormaps[cmap].with_extremes(bad=PALE)
        drawn = ax.imshow(np.ma.masked_invalid(share), cmap=colours, vmin=0.0, vmax=1.0, aspect="auto")
        for (i, j), text in words.items():
            ink = INK if np.isnan(share[i, j]) else _ink(drawn.cmap(drawn.norm(share[i, j])))
            size = 9.0 if text.count("\n") else 10.0
            ax.text(j, i, text, ha="center", va="center", color=ink, fontsize=size, linespacing=1.35)
        ax.set_xticks(range(len(outcomes)), [_short(o) for o in outcomes])
        ax.set_yticks(range(len(groups)), [_short(g) for g in groups])
        ax.xaxis.set_ticks_position("top")
        ax.tick_params(length=0, labelcolor=INK)
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_xticks(np.arange(1, len(outcomes)) - 0.5, minor=True)
        ax.set_yticks(np.arange(1, len(groups)) - 0.5, minor=True)
        ax.grid(visible=True, which="minor", axis="both", color="white", lw=2.0)
        ax.tick_params(which="minor", length=0)
        ax.set_title(plain(result.title or result.method), loc="left", pad=14)
        of = "share of the group's voters" if "voters" in result.table.column_names else "share of the group"
        ends = "" if counts or not (intervals or result.level is None) else f", {level_words(result.level)}"
        note(ax, f"people; colour: {of}" if counts else f"{of}{ends}")
    return ax


def one_table(result: Estimates) -> tuple[list[str], list[str], npt.NDArray[np.intp]]:
    """Give the groups, the outcomes and the row of each cell (-1: none) of a result that is one table."""
    for key in ("group", "outcome"):
        if key not in result.keys:
            raise InputError(
                f"result has no key {key!r}, only {listed(result.keys)}; draw a table of groups by outcomes."
            )
    for key in result.keys:
        values = list(dict.fromkeys(result.table[key].to_pylist()))
        if key not in ("group", "outcome") and len(values) > 1:
            raise InputError(
                f"result holds {len(values):,} tables, by {key!r}; draw one of them, result.select({key}={values[0]!r})."
            )
    if not len(result):
        raise InputError("result has no rows; there is nothing to draw.")
    columns = [result.table[key].to_pylist() for key in ("group", "outcome")]
    groups, outcomes = (list(dict.fromkeys(values)) for values in columns)
    row = np.full((len(groups), len(outcomes)), -1, dtype=np.intp)
    for n, (g, o) in enumerate(zip(*columns, strict=True)):
        row[groups.index(g), outcomes.index(o)] = n
    return groups, outcomes, row


def _words(result: Estimates, row: npt.NDArray[np.intp], counts: bool, intervals: bool) -> dict[tuple[int, int], str]:
    """Write what stands in each cell."""
    values = result["count" if counts else "estimate"]
    low, high = result["conf_low"], result["conf_high"]
    said = {}
    for (i, j), n in np.ndenumerate(row):
        if n < 0 or np.isnan(values[n]):
            said[i, j] = "–"
            continue
        said[i, j] = f"{values[n]:,.0f}" if counts else f"{values[n]:.2f}"
        if intervals and not counts and np.isfinite(low[n]) and np.isfinite(high[n]):
            said[i, j] += f"\n[{low[n]:.2f}, {high[n]:.2f}]"
    return said


def _ink(colour: npt.ArrayLike) -> str:
    """Choose dark or white, whichever has the larger contrast by WCAG's relative luminance."""
    rgb = np.asarray(colour, dtype=np.float64)[:3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    dark = 0.016  # of INK
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / (dark + 0.05) else INK


def _short(text: str) -> str:
    return plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")
