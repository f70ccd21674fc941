"""Curves: bins with the curve behind them, an effect at every row, answers over the contextual variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.charts.cells import cells_of
from crosslevel.charts.chart import Axis, Chart, Choice, Mark, Panel, Rows, Shade
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import BLUE, GRAY, INK, PALE, check_color
from crosslevel.charts.words import sampled
from crosslevel.data.checks import as_numbers, check_length, check_level, refuse_idle_arguments
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates, display
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_VALUES = 12
"""A covariate with no more values than this is drawn in columns, its points set apart."""
APART = 0.012
"""Of the axis, between the bars of two subgroups at one value."""
PER_UNIT = "per unit of the axis"


@checked
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
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"point": [0.0, 10.0, 20.0], "estimate": [9.0, 7.0, 4.0], "conf_low": [8.0, 6.0, 3.0], "conf_high": [10.0, 8.0, 5.0]},
    ...     keys=["point"], method="example", level=0.95, interval="posterior", provenance=Provenance.of(call="example()"),
    ... )
    >>> ax = histogram(est, observed=([0, 10], [10, 20], [90, 60]))
    >>> [float(bar.get_height()) for bar in ax.patches]
    [9.0, 6.0]
    """
    for key in set(estimates.keys) - {"point", "lower", "upper", "row"}:
        several = list(dict.fromkeys(estimates[key].tolist()))
        if len(several) > 1:
            raise InputError(
                f"these estimates are of several {key}s ({listed(several)}); draw one, with est.select({key}={several[0]!r})."
            )
    check_color(color)
    chart = curve_chart(
        estimates,
        observed=observed,
        totals=totals,
        truth=truth,
        color=color,
        x_title=xlabel,
        y_title=ylabel,
        title=estimates.title,
    )
    return draw(chart, ax, legend=legend)


def curve_chart(
    estimates: Estimates,
    *,
    observed: tuple[Any, Any, Any] | None = None,
    totals: bool = True,
    truth: bool = True,
    color: str = BLUE,
    x_title: str = "",
    y_title: str = PER_UNIT,
    title: str = "What was observed, and the curve behind it",
) -> Chart:
    """Describe a curve with its band over the histogram that was observed; areas have a drop-down list."""
    points = "point" in estimates.keys
    if not points and not {"lower", "upper"} <= set(estimates.keys):
        raise InputError(
            f"a histogram needs estimates of points or intervals of one axis; these have the keys {listed(estimates.keys)}."
        )
    area = next((k for k in estimates.keys if k not in ("point", "lower", "upper", "row")), None)
    levels = [""] if area is None else [str(v) for v in dict.fromkeys(estimates[area].tolist())]
    words = np.array([""] * len(estimates) if area is None else [str(v) for v in estimates[area].tolist()])
    parts = [_points(estimates, words == v, v) if points else _steps(estimates, words == v, v, totals) for v in levels]
    tables = {"curve": pa.concat_tables(parts)}
    where = {"area": "area"} if len(levels) > 1 else {}
    data = {"rows": Rows("curve", where)}
    marks = []
    if observed is not None:
        tables["observed"] = _bars(observed, totals)
        data["observed"] = Rows("observed")
        marks.append(Mark("bar", "from", "height", x2="to", data="observed", color=PALE, label="observed"))
    elif "area_weighted" in tables["curve"].column_names:
        marks.append(Mark("band", "x", "area_weighted", y2=0.0, color=PALE, alpha=0.9, label="spread evenly"))
    if estimates.level is not None:
        words_of = display.describe_level(estimates.level)
        marks.append(Mark("band", "x", "conf_low", y2="conf_high", color=color, alpha=0.22, label=words_of))
    marks.append(Mark("line", "x", "estimate", color=color, width=1.8, label="estimate"))
    if truth and "truth" in tables["curve"].column_names:
        marks.append(Mark("line", "x", "truth", color=INK, width=0.9, dash=True, label="truth"))
    positive = float(np.nanmin(estimates["estimate"].astype(np.float64))) >= 0
    band = (
        "" if estimates.level is None else f", the band its {display.describe_level(estimates.level)}, point by point"
    )
    bars = "Gray: the bins as they were observed; the" if marks[0].color == PALE else "The"
    return Chart(
        name="curve",
        title=title,
        caption=f"{bars} line is the estimated curve{band}.",
        panels=[Panel(marks, Axis(x_title), Axis(y_title, zero=positive))],
        tables=tables,
        data=data,
        choices=[Choice("area", str(area), [(v, v) for v in levels])] if len(levels) > 1 else [],
        tips={
            "x": "at", "estimate": "estimate", "conf_low": "from", "conf_high": "to", "area_weighted": "spread evenly",
            "truth": "truth", "height": "observed",
        },
        note="" if estimates.level is None else f"{display.describe_level(estimates.level)}: {estimates.interval}",
    )  # fmt: skip


def _drawn(estimates: Estimates) -> dict[str, FloatArray]:
    names = ("estimate", "conf_low", "conf_high", "area_weighted", "truth")
    return {n: estimates[n].astype(np.float64) for n in names if n in estimates.table.column_names}


def _points(estimates: Estimates, own: npt.NDArray[np.bool_], area: str) -> pa.Table:
    rows = np.flatnonzero(own)
    rows = rows[np.argsort(estimates["point"][rows], kind="stable")]
    rows = rows[sampled(len(rows))]
    columns = {n: pa.array(v[rows], from_pandas=True) for n, v in _drawn(estimates).items()}
    return pa.table({"area": [area] * len(rows), "x": estimates["point"][rows].astype(np.float64), **columns})


def _steps(estimates: Estimates, own: npt.NDArray[np.bool_], area: str, totals: bool) -> pa.Table:
    """Lay intervals out as steps; a gap between two breaks the line, and those without end have no place."""
    low, high = estimates["lower"].astype(np.float64), estimates["upper"].astype(np.float64)
    keep = own & np.isfinite(low) & np.isfinite(high)
    order = np.flatnonzero(keep)[np.argsort(low[keep], kind="stable")]
    low, high = low[order], high[order]
    if (low[1:] < high[:-1] - 1e-9 * np.ptp(high)).any():
        raise InputError("these intervals overlap; draw estimates of points, or of intervals that lie side by side.")
    width = high - low if totals else np.ones(len(low))
    touching = np.append(np.isclose(low[1:], high[:-1]), False)
    kept = np.column_stack([np.ones((len(low), 2), dtype=bool), ~touching]).ravel()
    columns = {}
    for name, values in _drawn(estimates).items():
        v = values[order] / width
        columns[name] = pa.array(np.column_stack([v, v, np.full(len(v), np.nan)]).ravel()[kept], from_pandas=True)
    x = np.column_stack([low, high, high]).ravel()[kept]
    return pa.table({"area": [area] * len(x), "x": x, **columns})


def _bars(observed: tuple[Any, Any, Any], totals: bool) -> pa.Table:
    low, high, y = (as_numbers(values, "observed", 1) for values in observed)
    if not low.shape == high.shape == y.shape:
        raise InputError(
            f"observed has {len(low)}, {len(high)} and {len(y)} values; pass lower, upper and a total per bin."
        )
    seen = np.isfinite(low) & np.isfinite(high)
    low, high, y = low[seen], high[seen], y[seen]
    return pa.table({"from": low, "to": high, "height": y / (high - low) if totals else y})


@checked
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
    left_out: int = 0,
) -> Axes:
    """Draw the effect at every row against a covariate: a dot with its interval, colored by the fit.

    Parameters
    ----------
    x, effect, low, high : array of shape (n,)
    ax : matplotlib.axes.Axes, optional
    color : array of shape (n,), optional
        The number that colors the dots.
    x_label, y_label, color_label : str
    level : float
        Held on average over the curve.
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
    given = {"x": x, "effect": effect, "low": low, "high": high}
    at, d, lo, hi = (as_numbers(values, name, 1) for name, values in given.items())
    check_level(level)
    if not len(at) == len(d) == len(lo) == len(hi):
        raise InputError(
            f"x, effect, low and high have {len(at)}, {len(d)}, {len(lo)} and {len(hi)} values; pass as many of each."
        )
    if not len(at):
        raise InputError("x has no values; there is nothing to draw.")
    values = np.unique(at)
    few = 1 < len(values) <= min(FEW_VALUES, len(at) - 1)
    table = {"x": _apart(at, d) if few else at, "estimate": d, "conf_low": lo, "conf_high": hi}
    dots = Mark("dot", "x", "estimate", size=16.0)
    if color is None:
        refuse_idle_arguments(effect_curve, {"color_label": color_label}, "without color; pass color")
    else:
        table["shade"] = as_numbers(color, "color", 1)
        check_length(table["shade"], "color", len(at), "values of x")
        dots = Mark("dot", "x", "estimate", size=18.0, color=Shade("shade", color_label))
    bars = Mark("interval", "x", "conf_low", y2="conf_high", color=PALE, width=1.4)
    chart = Chart(
        name="effect",
        title=f"{100 * level:.10g} % on average over the curve",
        caption="",
        panels=[
            Panel(
                [Mark("rule", y=0.0, color=GRAY), bars, dots],
                Axis(x_label, ticks=values.tolist() if few else None),
                Axis(y_label),
            )
        ],
        tables={"rows": pa.table(table)},
        note=f"{left_out:,} further rows are not drawn" if left_out else "",
        inches=(7.0, 4.2),
    )
    return draw(chart, ax)


def _apart(x: FloatArray, d: FloatArray) -> FloatArray:
    """Set points of a covariate with few values side by side, those of small effects to the left."""
    values, code, counts = np.unique(x, return_inverse=True, return_counts=True)
    width = 0.7 * float(np.diff(values).min())
    order = np.lexsort((d, code))
    rank = np.empty(len(x))
    rank[order] = np.arange(len(x)) - np.repeat(np.cumsum(counts) - counts, counts)
    shift: FloatArray = (rank + 0.5) / counts[code] - 0.5
    return x + width * shift


@checked
def contextual_variance(answer: Estimates, ax: Axes | None = None, *, max_lines: int = 8, legend: bool = True) -> Axes:
    """Draw the answers of ``EcologicalInference.sensitivity`` against the contextual variance, a line per subgroup.

    Parameters
    ----------
    answer : Estimates
        Answer of :meth:`crosslevel.EcologicalInference.sensitivity`.
    ax : matplotlib.axes.Axes, optional
    max_lines : int, default 8
        Draw at most this many subgroups, those that change sign first, and say so below.
    legend : bool
        Name the subgroups.

    Returns
    -------
    matplotlib.axes.Axes
        Dots and lines: estimates; bars: intervals, side by side at each variance; dashed: the subgroup's neighborhood, in its
        color. Open dots mark subgroups that are above their neighborhood for some variances and below it for others.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> answer = Estimates.build(
    ...     {"contextual_variance": [0.0, 0.3], "sex": ["women", "women"], "estimate": [0.55, 0.48], "conf_low": [0.5, 0.42],
    ...      "conf_high": [0.6, 0.54], "neighborhood": [0.5, 0.5], "changes_sign": [True, True]},
    ...     keys=["contextual_variance", "sex"], method="example", level=0.95, interval="quantiles",
    ...     provenance=Provenance.of(call="model.sensitivity()"),
    ... )
    >>> [text.get_text() for text in contextual_variance(answer).get_legend().get_texts()]
    ['women (changes sign)', 'neighborhood']
    """
    needed = {"neighborhood", "changes_sign"}
    if not isinstance(answer, Estimates) or not needed <= set(answer.table.column_names):
        raise InputError("answer is not one of EcologicalInference.sensitivity; pass model.sensitivity(by=...).")
    if not len(answer) or max_lines < 1:
        raise InputError("there is nothing to draw: answer has no rows, or max_lines is below 1.")
    return draw(context_chart(answer, max_lines=max_lines), ax, legend=legend)


def context_chart(answer: Estimates, *, max_lines: int = 8) -> Chart:
    """Describe a line per subgroup over the contextual variance, with its interval and its neighborhood."""
    variance, *keys = answer.keys
    cells = cells_of(answer)
    named = [cells.label(i, keys) if keys else "everybody" for i in range(len(answer))]
    changing = {n for n, c in zip(named, answer["changes_sign"], strict=True) if c}
    every = list(dict.fromkeys(named))
    shown = sorted(every, key=lambda n: n not in changing)[:max_lines]
    line = np.array([shown.index(n) if n in shown else len(every) for n in named])
    at = answer[variance].astype(np.float64)
    values, end = np.unique(at), np.sqrt(at.max())
    room = end * (APART * len(shown) + 0.02)  # so that bars at 0 have somewhere to stand
    open_ = np.array([n in changing for n in named])
    estimate = answer["estimate"].astype(np.float64)
    cells = cells.with_columns(
        name=[n + (" (changes sign)" if o else "") for n, o in zip(named, open_, strict=True)],
        x=(np.sqrt(at) + room + end * APART * (line - 0.5 * (len(shown) - 1))) ** 2,
        open=np.where(open_, estimate, np.nan),
        closed=np.where(open_, np.nan, estimate),
    )
    by = Shade("name", names=True)
    marks = [
        Mark("interval", "x", "conf_low", y2="conf_high", color=by, width=3.4, alpha=0.3),
        Mark("line", "x", "estimate", color=by, width=1.8),
        Mark("line", "x", "neighborhood", color=by, width=1.1, dash=True, label="neighborhood"),
        Mark("dot", "x", "closed", color=by, size=36.0),
        Mark("dot", "x", "open", color=by, size=36.0, filled=False),
    ]
    said = ["open: above the neighborhood for some variances, below it for others"] if changing & set(shown) else []
    said += [f"{len(shown):,} of {len(every):,} subgroups"] if len(shown) < len(every) else []
    head = (answer.title or answer.method).split(", by ")[0]
    x = Axis(
        "contextual variance: how strongly the composition of a place acts on everybody there",
        root=True,
        limits=(0.0, float((end + 2 * room) ** 2) or 1.0),
        ticks={float((np.sqrt(v) + room) ** 2): float(v) for v in values},
    )
    kind = display.describe_level(answer.level)
    return cells.take(np.lexsort((at, line))[: int(np.sum(line < len(every)))]).chart(
        "context",
        head if len(head) <= 70 else head[:69] + "…",
        f"Lines: estimates for each contextual variance; bars: {kind}; dashed: the neighborhood."
        + "".join(f" {s[0].upper()}{s[1:]}." for s in said),
        [Panel(marks, x, Axis(f"estimate and {kind}"))],
        note="; ".join(said),
        inches=(8.2, 4.2),
    )
