"""Effects that differ between people: along a covariate, as distributions, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from crosslevel.charts.intervals import intervals
from crosslevel.charts.style import BLUE, GREY, INK, PALE, new_axes, note, plain, style
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["effect_curve", "effect_distributions", "effect_ranking"]


FEW_VALUES = 12
"""A covariate with no more values than this is drawn in columns, its points set apart."""
BINS = 41


def effect_curve(
    x: npt.ArrayLike,
    effect: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    ax: Axes | None = None,
    *,
    color: npt.ArrayLike | None = None,
    x_label: str = "",
    y_label: str = "effect",
    color_label: str = "fitted outcome",
    level: float = 0.95,
    simultaneous: bool = False,
    left_out: int = 0,
) -> Axes:
    """Draw the effect at every row against a covariate: a dot with its interval, coloured by the fit.

    Parameters
    ----------
    x, effect, low, high : array of shape (n,)
    ax : matplotlib.axes.Axes, optional
    color : array of shape (n,), optional
        The number that colours the dots.
    x_label, y_label, color_label : str
    level : float
    simultaneous : bool
        Whether the level is held by all rows at once, rather than on average over the curve.
    left_out : int
        Rows that are not drawn; a remark says so.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = effect_curve([1.0, 2.0], [0.5, 0.1], [0.3, -0.1], [0.7, 0.3], x_label="age")
    >>> ax.get_xlabel(), ax.get_title(loc="left")
    ('age', '95 % on average over the curve')
    """
    at, d, lo, hi = (np.asarray(v, dtype=np.float64) for v in (x, effect, low, high))
    if not len(at) == len(d) == len(lo) == len(hi):
        raise InputError(
            f"x, effect, low and high have {len(at)}, {len(d)}, {len(lo)} and {len(hi)} values; pass as many of each."
        )
    if not len(at):
        raise InputError("x has no values; there is nothing to draw.")
    values = np.unique(at)
    few = 1 < len(values) <= min(FEW_VALUES, len(at) - 1)
    if few:
        at = _apart(at, d)
    with style(grid="y"):
        ax = new_axes(ax, 7.0, 4.2)
        ax.vlines(at, lo, hi, color=PALE, lw=1.4, zorder=2)
        ax.axhline(0.0, color="#9A9A9A", lw=0.9, zorder=1)
        if color is None:
            ax.scatter(at, d, s=16, color=BLUE, edgecolors="white", linewidths=0.4, zorder=4)
        else:
            drawn = ax.scatter(
                at, d, s=18, c=np.asarray(color), cmap="viridis", edgecolors="white", linewidths=0.4, zorder=4
            )
            ax.figure.colorbar(drawn, ax=ax, label=plain(color_label), pad=0.02)
        if few:
            ax.set_xticks(values, [f"{v:.6g}" for v in values])
        ax.set_xlabel(plain(x_label))
        ax.set_ylabel(plain(y_label))
        held = "for all rows at once" if simultaneous else "on average over the curve"
        ax.set_title(f"{100 * level:.10g} % {held}", loc="left")
        if left_out:
            note(ax, f"{left_out:,} further rows are not drawn")
    return ax


def _apart(x: FloatArray, d: FloatArray) -> FloatArray:
    """Set points of a covariate with few values side by side, those of small effects to the left."""
    values, code, counts = np.unique(x, return_inverse=True, return_counts=True)
    width = 0.7 * float(np.diff(values).min())
    order = np.lexsort((d, code))
    rank = np.empty(len(x))
    rank[order] = np.arange(len(x)) - np.repeat(np.cumsum(counts) - counts, counts)
    shift: FloatArray = (rank + 0.5) / counts[code] - 0.5
    return x + width * shift


def effect_distributions(
    effects: npt.ArrayLike,
    names: Sequence[str],
    ax: Axes | None = None,
    *,
    weights: npt.ArrayLike | None = None,
    scaled: bool = True,
) -> Axes:
    """Draw how each effect is distributed over the rows, one below the other.

    Parameters
    ----------
    effects : array of shape (n, n_effects)
    names : sequence of str
    ax : matplotlib.axes.Axes, optional
    weights : array of shape (n,), optional
    scaled : bool
        Divide each effect by its largest absolute value, so that effects in different units can be seen together; the range
        is then written at the right.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = effect_distributions(np.array([[0.1, 5.0], [0.3, -2.0], [0.2, 1.0]]), ["age", "treated"])
    >>> [t.get_text() for t in ax.get_yticklabels()]
    ['age', 'treated']
    """
    D = np.asarray(effects, dtype=np.float64)
    if D.ndim != 2 or D.shape[1] != len(names):
        raise InputError(f"effects has the shape {D.shape} for {len(names)} names; pass a column per name.")
    if not D.size:
        raise InputError("effects has no values; there is nothing to draw.")
    w = np.ones(len(D)) if weights is None else np.asarray(weights, dtype=np.float64)
    whole = ~np.isnan(D).any(axis=1)
    D, w = D[whole], w[whole]
    with style():
        ax = new_axes(ax, 6.8, 1.1 + 0.55 * len(names))
        largest = np.abs(D).max(axis=0)
        scale = np.where(largest > 0, largest, 1.0) if scaled else np.ones(len(names))
        edges = np.linspace((D / scale).min(), (D / scale).max(), BINS) if np.ptp(D / scale) > 0 else None
        for e, column in enumerate((D / scale).T):
            _ridge(ax, e, column, w, edges)
            if scaled:
                text = f"{D[:, e].min():.3g} to {D[:, e].max():.3g}"
                ax.annotate(
                    text, xy=(1.01, e), xycoords=ax.get_yaxis_transform(), va="center", fontsize=8.0, color=GREY
                )
        ax.set_yticks(range(len(names)), [plain(str(n)) for n in names])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(len(names) - 0.4, -0.75)
        ax.axvline(0.0, color="#9A9A9A", lw=0.9, zorder=1)
        ax.set_xlabel("effect at each row" + (", relative to the largest of its kind" if scaled else ""))
        ax.set_title("Distribution of effects", loc="left")
    return ax


def _ridge(ax: Axes, e: int, column: FloatArray, w: FloatArray, edges: FloatArray | None) -> None:
    mean = float(w @ column / w.sum())
    if edges is not None:
        heights, _ = np.histogram(column, bins=edges, weights=w)
        ax.stairs(e - 0.8 * heights / heights.max(), edges, baseline=e, fill=True, color=BLUE, alpha=0.55, zorder=3)
    ax.plot([mean, mean], [e, e - 0.35], color=INK, lw=1.6, zorder=4)
    ax.axhline(e, color=PALE, lw=0.8, zorder=2)


def effect_ranking(estimates: Estimates, ax: Axes | None = None) -> Axes:
    """Draw average effects in the order of their sizes in standard errors, plug-in effects as open marks.

    Parameters
    ----------
    estimates : Estimates
        With the column ``plug_in``; a row per term.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Effects of covariates in different units cannot be compared by length; the axis shows each effect divided by its standard
    error, so that the interval of every row has the same width and a row that clears zero is told from noise.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"term": ["age", "arm"], "estimate": [0.01, 0.4], "std_error": [0.01, 0.1], "conf_low": [-0.01, 0.2],
    ...      "conf_high": [0.03, 0.6], "plug_in": [0.008, 0.3]},
    ...     keys=["term"], method="example", level=0.95, interval="wald", provenance=Provenance.of(call="example()"),
    ... )
    >>> [t.get_text() for t in effect_ranking(est).get_yticklabels()]
    ['arm', 'age']
    """
    error = estimates["std_error"]
    if not (error > 0).any():
        raise InputError("estimates has no standard errors, by which effects are ranked; draw est.plot() instead.")
    unit = np.where(error > 0, error, np.nan)
    order = np.argsort(-np.nan_to_num(np.abs(estimates["estimate"] / unit)), kind="stable")
    columns = {k: estimates.table[k].take(order) for k in estimates.keys}
    shown = [n for n in ("estimate", "conf_low", "conf_high", "plug_in") if n in estimates.table.column_names]
    numbers = {n: (estimates[n] / unit)[order] for n in shown}
    ranked = Estimates.build(
        {**columns, **numbers, "std_error": np.where(np.isnan(unit), np.nan, 1.0)},
        keys=estimates.keys,
        method=estimates.method,
        level=estimates.level,
        interval=estimates.interval,
        provenance=estimates.provenance,
        title="Effects by size",
    )
    ax = intervals(ranked, ax)
    kind = "" if estimates.level is None else f" and {100 * estimates.level:.10g} % interval"
    ax.set_xlabel(plain(f"effect{kind}, in standard errors"))
    return ax
