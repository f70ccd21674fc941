"""Leads and differences as densities of their draws: how much of each lies beyond zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslevel.charts.style import BLUE, GREY, INK, PALE, VERMILION, new_axes, note, plain, style
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.results.display import level_words
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["margins"]


_HEIGHT = 0.8
_POINTS = 256
_LONGEST_LABEL = 42


def margins(
    result: Estimates, ax: Axes | None = None, *, threshold: float = 0.0, bounds: bool = False, max_rows: int = 24
) -> Axes:
    """Draw the draws of each row as a density, the part beyond the threshold in another colour and as a number.

    Parameters
    ----------
    result : Estimates
        With draws: of ``margin``, ``polarization``, or any other.
    ax : matplotlib.axes.Axes, optional
    threshold : float
        Where the colours change; the number at the right is the share of the draws above it.
    bounds : bool
        Draw the columns ``lower`` and ``upper``, if they are there, as a light bar. They are often much wider than the
        densities.
    max_rows : int
        Draw at most so many rows, and say so below.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["young"], "estimate": [0.1], "conf_low": [-0.1], "conf_high": [0.2]}, keys=["group"],
    ...     method="example", level=0.95, interval="quantiles of 4 draws", provenance=Provenance.of(call="example()"),
    ...     draws=[[-0.1], [0.1], [0.15], [0.2]],
    ... )
    >>> [t.get_text() for t in margins(est).texts]
    ['above 0', '0.75']
    """
    if result.draws is None:
        raise InputError(
            f"result has no draws ({result.method}); rxc, king and multinomial_dirichlet have. Draw result.plot() instead."
        )
    if not len(result) or max_rows < 1:
        raise InputError("there is nothing to draw: result has no rows, or max_rows is below 1.")
    rows = range(min(len(result), max_rows))
    words = [result.table[k].to_pylist() for k in result.keys]
    with style():
        ax = new_axes(ax, 7.2, 1.3 + 0.52 * len(rows))
        if bounds and {"lower", "upper"} <= set(result.table.column_names):
            ax.barh(
                [i - 0.1 for i in rows], (result["upper"] - result["lower"])[: len(rows)], left=result["lower"][: len(rows)],
                height=0.5, color=PALE, lw=0, zorder=1, label="possible at all (bounds)",
            )  # fmt: skip
        beside = ax.get_yaxis_transform()
        ax.text(1.01, -0.95, f"above {threshold:g}", transform=beside, va="center", fontsize=8.0, color=GREY)
        for i in rows:
            draws = result.draws[:, i]
            draws = draws[np.isfinite(draws)]
            _ridge(ax, i, draws, threshold)
            chance = f"{np.mean(draws > threshold):.2f}" if len(draws) else "–"
            ax.text(1.01, i - 0.2, chance, transform=beside, va="center", fontsize=9.0, color=INK)
            _interval(ax, i, float(result["estimate"][i]), float(result["conf_low"][i]), float(result["conf_high"][i]))
        ax.axvline(threshold, color="#9A9A9A", lw=0.9, zorder=2)
        ax.set_yticks(list(rows), [_short(" · ".join(str(w[i]) for w in words)) for i in rows])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(len(rows) - 0.5, -1.15)
        ax.set_xlabel(plain(f"estimate, {level_words(result.level)} and density of {len(result.draws):,} draws"))
        ax.set_title(plain(_wrapped(result.title or result.method)), loc="left")
        if len(rows) < len(result):
            note(ax, f"the first {len(rows):,} of {len(result):,} rows")
    return ax


def _ridge(ax: Axes, i: int, draws: FloatArray, threshold: float) -> None:
    """Fill the density of one row above its line; nothing where all draws are the same."""
    ax.axhline(i, color=PALE, lw=0.8, zorder=2)
    if len(draws) < 2 or np.ptp(draws) < 1e-12:
        return
    x, density = _density(draws)
    y = i - _HEIGHT * density / density.max()
    for side, colour in ((x >= threshold, BLUE), (x <= threshold, VERMILION)):
        ax.fill_between(x, i, y, where=side, color=colour, alpha=0.45, lw=0, zorder=3)


def _density(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smooth the draws by a normal kernel of Silverman's width, at points that include those near the ends."""
    spread = min(float(draws.std()), float(np.subtract(*np.quantile(draws, [0.75, 0.25]))) / 1.349 or np.inf)
    width = 0.9 * spread * len(draws) ** -0.2
    x = np.linspace(draws.min() - 3 * width, draws.max() + 3 * width, _POINTS)
    return x, np.exp(-0.5 * ((x[:, None] - draws) / width) ** 2).mean(axis=1)


def _interval(ax: Axes, i: int, estimate: float, low: float, high: float) -> None:
    if np.isfinite(low) and np.isfinite(high):
        ax.hlines(i, low, high, color=INK, lw=1.6, zorder=5)
    ax.plot([estimate], [i], "o", color=INK, ms=4.6, mec="white", mew=0.6, zorder=6)


def _wrapped(title: str) -> str:
    """Break a long title after its colon."""
    head, colon, tail = title.partition(": ")
    return f"{head}:\n{tail}" if colon and len(title) > 70 else title


def _short(text: str) -> str:
    return plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")
