"""Labels of bags: predictions against the truth, coloured by how sure they are, and how often intervals hold by size of bag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslevel.charts.style import BLUE, GREY, INK, PALE, new_axes, note, plain, style
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bag_calibration", "predicted_bags"]


MOST_INTERVALS = 400
"""More bags than these are drawn without intervals: they would hide one another."""
SMALLEST, LARGEST = 12.0, 70.0
"""Areas of the marks, in square points."""


def predicted_bags(
    estimates: Estimates,
    ax: Axes | None = None,
    *,
    sizes: tuple[float, float] | None = None,
    intervals: bool | None = None,
    limits: tuple[float, float] | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw each bag's prediction against its label: colour tells the standard deviation, the area of the mark the size.

    Parameters
    ----------
    estimates : Estimates
        Of ``model.estimate(bags, y=y)`` or of cross-validation: with ``truth``, ``std_error`` and ``size``.
    ax : matplotlib.axes.Axes, optional
    sizes : (float, float), optional
        Draw the bags of these sizes only, ends included; for a row of pictures by size.
    intervals : bool, optional
        Draw the intervals; by default for up to 400 bags.
    limits : (float, float), optional
        Ends of the colours; share them between pictures that are compared.
    colorbar : bool

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"bag": [0, 1], "estimate": [1.0, 2.0], "std_error": [0.5, 0.1], "conf_low": [0.0, 1.8], "conf_high": [2.0, 2.2],
    ...      "size": [5.0, 100.0], "truth": [1.4, 2.1]},
    ...     keys=["bag"], method="example", level=0.95, interval="predictive", provenance=Provenance.of(call="example()"),
    ... )
    >>> ax = predicted_bags(est)
    >>> ax.get_xlabel(), ax.get_title(loc="left")
    ('label', '2 bags, 95 % intervals hold 100 %')
    """
    truth, mean, sd, low, high, size = _columns(estimates)
    keep = np.isfinite(truth)
    if sizes is not None:
        keep &= (size >= sizes[0]) & (size <= sizes[1])
    if not keep.any():
        some = "" if sizes is None else f" of size {sizes[0]:g} to {sizes[1]:g}"
        raise InputError(f"estimates has no bag{some} whose label is known; there is nothing to draw.")
    shown = bool(keep.sum() <= MOST_INTERVALS) if intervals is None else intervals
    held = (low <= truth) & (truth <= high)
    area = _areas(size)
    ends = (float(sd.min()), float(sd.max())) if limits is None else limits
    with style(grid="both"):
        ax = new_axes(ax, 6.2, 5.2)
        if shown and estimates.level is not None:
            ax.vlines(truth[keep], low[keep], high[keep], color=PALE, lw=1.1, zorder=2)
        span = [float(truth[keep].min()), float(truth[keep].max())]
        ax.plot(span, span, color=INK, lw=1.0, ls=(0, (4, 2)), zorder=3)
        drawn = ax.scatter(
            truth[keep], mean[keep], s=area[keep], c=sd[keep], cmap="viridis", vmin=ends[0], vmax=ends[1],
            edgecolors="white", linewidths=0.4, zorder=4,
        )  # fmt: skip
        if colorbar:
            ax.figure.colorbar(drawn, ax=ax, label="standard deviation of the prediction", pad=0.02)
        ax.set_xlabel("label")
        ax.set_ylabel("prediction")
        ax.set_title(_title(int(keep.sum()), estimates.level, float(held[keep].mean()), sizes), loc="left")
        if sizes is None and size.max() > size.min():
            note(ax, f"larger marks are larger bags, {size.min():,.0f} to {size.max():,.0f}")
    return ax


def _columns(estimates: Estimates) -> tuple[FloatArray, ...]:
    names = ("truth", "estimate", "std_error", "conf_low", "conf_high", "size")
    for name in ("truth", "size"):
        if name not in estimates.table.column_names:
            raise InputError(
                f"estimates has no column {name!r}; pass model.estimate(bags, y=y), or the predictions of cross_validate_bags."
            )
    found = tuple(np.asarray(estimates[n], dtype=np.float64) for n in names)
    if not np.isfinite(found[2]).all():
        raise InputError("estimates has rows without std_error; classes of bags have none, draw est.plot('intervals').")
    return found


def _areas(size: FloatArray) -> FloatArray:
    """Let the area of a mark grow with the logarithm of the size."""
    logs = np.log(np.maximum(size, 1e-300))
    spread = float(np.ptp(logs))
    share = (logs - logs.min()) / spread if spread > 0 else np.full(len(logs), 0.3)
    return np.asarray(SMALLEST + (LARGEST - SMALLEST) * share)


def _title(n: int, level: float | None, share: float, sizes: tuple[float, float] | None) -> str:
    bags = f"{n:,} bag{'' if n == 1 else 's'}"
    if sizes is not None:
        bags += f" of {sizes[0]:g}" if sizes[0] == sizes[1] else f" of {sizes[0]:g} to {sizes[1]:g}"
    return bags if level is None else f"{bags}, {100 * level:.10g} % intervals hold {100 * share:.0f} %"


def bag_calibration(scores: Estimates, ax: Axes | None = None) -> Axes:
    """Draw how often intervals held the label in each class of bag sizes, beside the level they claim.

    Parameters
    ----------
    scores : Estimates
        Of `crosslevel.diagnostics.calibration_table` or the scores of `cross_validate_bags`: key ``stratum``, with ``nominal``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.diagnostics import calibration_table
    >>> rng = np.random.default_rng(0)
    >>> found = calibration_table(rng.normal(size=200), np.zeros(200), np.ones(200), np.repeat(["5", "20"], 100))
    >>> [t.get_text() for t in bag_calibration(found).get_yticklabels()]
    ['all (200)', '5 (100)', '20 (100)']
    """
    if "nominal" not in scores.table.column_names or scores.keys != ("stratum",):
        raise InputError("scores is no table of coverage; pass that of calibration_table or of cross_validate_bags.")
    n = len(scores)
    y = np.arange(n, dtype=np.float64)
    with style():
        ax = new_axes(ax, 6.4, 1.3 + 0.36 * n)
        ax.axvline(float(scores["nominal"][0]), color=INK, lw=1.0, ls=(0, (4, 2)), zorder=2)
        ax.hlines(y, scores["conf_low"], scores["conf_high"], color=BLUE, lw=2.2, zorder=3)
        ax.plot(scores["estimate"], y, "o", color=BLUE, ms=6.5, mec="white", mew=0.8, zorder=5, label="coverage")
        if "baseline_coverage" in scores.table.column_names:
            ax.plot(scores["baseline_coverage"], y, "D", color=GREY, ms=4.5, mec="white", zorder=4, label="baseline")
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
        names = [f"{s} ({c:,})" for s, c in zip(scores["stratum"].tolist(), scores["n"].tolist(), strict=True)]
        ax.set_yticks(y, [plain(name) for name in names])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(n - 0.4, -0.6)
        ax.set_xlabel(f"share of labels inside {100 * float(scores['nominal'][0]):.10g} % intervals")
        ax.set_title("Coverage by size of bag", loc="left")
    return ax
