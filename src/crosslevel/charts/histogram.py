"""The bins as they were counted, with the curve behind them and its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosslevel.charts.style import BLUE, GREY, INK, PALE, new_axes, note, plain, style
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.results.display import level_words
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["histogram"]


def histogram(
    estimates: Estimates,
    ax: Axes | None = None,
    *,
    observed: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
    totals: bool = True,
    truth: bool = True,
    color: str = BLUE,
    xlabel: str = "",
    ylabel: str = "per unit",
    legend: bool = True,
) -> Axes:
    """Draw a histogram with the posterior density and its band.

    Parameters
    ----------
    estimates : Estimates
        Of points (key ``point``), whose estimates are densities, or of intervals (keys ``lower`` and ``upper``). Of one area.
    ax : matplotlib.axes.Axes, optional
    observed : (lower, upper, totals), optional
        The bins that were counted, drawn as bars of height total / width. Without it the column ``area_weighted`` is drawn, which
        is the same histogram where the estimates lie.
    totals : bool
        Estimates of intervals, and ``observed``, are totals and drawn per unit of the axis; False for means and rates.
    truth : bool
        Draw the column ``truth`` where there is one.
    color : str
    xlabel, ylabel : str
    legend : bool

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.binned import BinnedCountGP, Intervals
    >>> gp = BinnedCountGP().fit(Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30])
    >>> ax = histogram(gp.estimate(np.linspace(0, 30, 61)), observed=([0, 10, 20], [10, 20, 30], [90, 60, 30]))
    >>> [float(bar.get_height()) for bar in ax.patches]
    [9.0, 6.0, 3.0]
    """
    x, values = _read(estimates, totals)
    with style("y"):
        ax = new_axes(ax)
        if observed is not None:
            _bars(ax, observed, totals)
        elif "area_weighted" in values:
            ax.plot(x, values["area_weighted"], color=GREY, lw=1.0, label="spread evenly")
        if not np.isnan(values["conf_low"]).all():
            words = level_words(estimates.level) if estimates.level is not None else "interval"
            ax.fill_between(x, values["conf_low"], values["conf_high"], color=color, alpha=0.22, lw=0, label=words)
        ax.plot(x, values["estimate"], color=color, lw=1.8, label="estimate")
        if truth and "truth" in values:
            ax.plot(x, values["truth"], color=INK, lw=0.9, ls=":", label="truth")
        low = min(0.0, float(np.nanmin(values["estimate"])))
        ax.set_ylim(bottom=low if low < 0 else 0.0)
        ax.set_xlabel(plain(xlabel))
        ax.set_ylabel(plain(ylabel))
        if estimates.title:
            ax.set_title(plain(estimates.title), loc="left")
        if estimates.level is not None:
            note(ax, f"{level_words(estimates.level)}: {estimates.interval}")
        if legend:
            ax.legend()
    return ax


def _read(estimates: Estimates, totals: bool) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Give places along the axis and, there, the columns to be drawn as densities; a step per interval."""
    names = estimates.table.column_names
    points = "point" in estimates.keys
    if not points and not {"lower", "upper"} <= set(estimates.keys):
        raise InputError(
            f"a histogram needs estimates of points or intervals of one axis; these have the keys {listed(estimates.keys)}."
        )
    for key in set(estimates.keys) - {"point", "lower", "upper", "row"}:
        several = list(dict.fromkeys(estimates[key].tolist()))
        if len(several) > 1:
            raise InputError(
                f"these estimates are of several {key}s ({listed(several)}); draw one, with est.select({key}={several[0]!r})."
            )
    shown = [n for n in ("estimate", "conf_low", "conf_high", "area_weighted", "truth") if n in names]
    columns = {n: estimates[n].astype(np.float64) for n in shown}
    if points:
        order = np.argsort(estimates["point"], kind="stable")
        return estimates["point"][order].astype(np.float64), {n: v[order] for n, v in columns.items()}
    low, high = estimates["lower"].astype(np.float64), estimates["upper"].astype(np.float64)
    keep = np.isfinite(low) & np.isfinite(high)
    order = np.flatnonzero(keep)[np.argsort(low[keep], kind="stable")]
    low, high = low[order], high[order]
    if (low[1:] < high[:-1] - 1e-9 * np.ptp(high)).any():
        raise InputError("these intervals overlap; draw estimates of points, or of intervals that lie side by side.")
    width = high - low if totals else np.ones(len(low))
    x = np.column_stack([low, high, high]).ravel()
    # a gap between two intervals breaks the line
    steps = {
        n: np.column_stack([v[order] / width, v[order] / width, np.full(len(low), np.nan)]) for n, v in columns.items()
    }
    touching = np.append(np.isclose(low[1:], high[:-1]), False)
    keep_rows = np.column_stack([np.ones((len(low), 2), dtype=bool), ~touching]).ravel()
    return x[keep_rows], {n: v.ravel()[keep_rows] for n, v in steps.items()}


def _bars(ax: Axes, observed: tuple[Any, Any, Any], totals: bool) -> None:
    low, high, y = (np.asarray(v, dtype=np.float64) for v in observed)
    if not low.shape == high.shape == y.shape:
        raise InputError(
            f"observed has {len(low)}, {len(high)} and {len(y)} values; pass lower, upper and a total per bin."
        )
    seen = np.isfinite(low) & np.isfinite(high)
    low, high, y = low[seen], high[seen], y[seen]
    height = y / (high - low) if totals else y
    ax.bar(low, height, high - low, align="edge", color=PALE, edgecolor="white", lw=0.8, label="observed")
