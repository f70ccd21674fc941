"""An estimate against another number: labels of bags, imputed means, published means, places left out, people of bags."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.charts.cells import cells_of
from crosslevel.charts.chart import Axis, Chart, Choice, Mark, Panel, Rows, Shade
from crosslevel.charts.intervals import rows_chart
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import BLUE, GRAY, INK, PALE, VERMILION
from crosslevel.charts.words import describe_sample, fifths, sampled, with_level
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates, display
from crosslevel.results.scores import share_row
from crosslevel.results.table import on_unit_scale
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_INTERVALS = 400
"""More bags than these are drawn without intervals: they would hide one another."""
NAMED = 24
"""Most points that carry a name; more would lie over one another."""
CLASSES = 10
"""Classes of probabilities whose shares are compared with what happened."""


def _numbers(estimates: Estimates, name: str) -> FloatArray:
    return np.asarray(estimates[name], dtype=np.float64)


def against(
    x: str, *, color: str | Shade = BLUE, size: str | float = 30.0, label: str = "", thin: bool = False
) -> list[Mark]:
    """Give the marks of estimates against a number: the line of equality, intervals upright, dots."""
    bars = Mark("interval", x, "conf_low", y2="conf_high", color=PALE if thin else GRAY, width=1.2, alpha=0.8)
    return [bars, Mark("diagonal", x, color=INK), Mark("dot", x, "estimate", color=color, size=size, label=label)]


def labels_chart(estimates: Estimates) -> Chart:
    """Describe predicted labels against the truth, a small chart for each class of sizes; ranked where no label is known."""
    names = estimates.table.column_names
    there = np.flatnonzero(np.isfinite(_numbers(estimates, "truth"))) if "truth" in names else np.arange(0)
    if not len(there):
        return rows_chart(estimates, name="ranked", title="Predicted labels", x_title="predicted label")
    rows = there[sampled(len(there))]
    size = _numbers(estimates, "size")
    strata = np.array([str(v) for v in (estimates["stratum"].tolist() if "stratum" in names else fifths(size))])
    least = {s: float(size[strata == s].min()) for s in dict.fromkeys(strata)}
    cells = cells_of(estimates).with_columns(stratum=strata, place=[least[s] for s in strata]).take(rows)
    colors = [("std_error", "standard error of the prediction"), ("size", "size of the bag")]
    return cells.chart(
        "predicted",
        "Predictions against labels, by size of bag",
        f"Each dot is a bag, {describe_sample(len(rows), len(there), 'bag')}{with_level(estimates.level)} of a new label; on the "
        "dashed line a prediction equals the label. One chart for each class of effective sizes.",
        [Panel(against("truth", color=Shade("shade"), thin=True), Axis("label"), Axis("prediction"))],
        choices=[Choice("color", "Color by", colors)],
        columns={"shade": "color"},
        words={"estimate": "prediction", "truth": "label", "size": "size of the bag"},
        facet=("stratum", "size of bag"),
    )


@checked
def predicted_bags(
    estimates: Estimates,
    ax: Axes | None = None,
    *,
    sizes: tuple[float, float] | None = None,
    intervals: bool | None = None,
    limits: tuple[float, float] | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw each bag's prediction against its label: color shows the standard error, the area of the mark the size.

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
        Ends of the colors; share them between pictures that are compared.
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
    for name in ("truth", "size"):
        if name not in estimates.table.column_names:
            raise InputError(f"estimates has no column {name!r}; pass model.estimate(bags, y=y).")
    truth, size, sd = (_numbers(estimates, n) for n in ("truth", "size", "std_error"))
    if not np.isfinite(sd).all():
        raise InputError("estimates has rows without std_error; classes of bags have none, draw est.plot('intervals').")
    keep = np.isfinite(truth)
    some = ""
    if sizes is not None:
        least, most = sizes
        keep &= (size >= least) & (size <= most)
        some = f" of size {least:g} to {most:g}"
    if not keep.any():
        raise InputError(f"estimates has no bag{some} whose label is known; there is nothing to draw.")
    rows = np.flatnonzero(keep)
    held = (_numbers(estimates, "conf_low") <= truth) & (truth <= _numbers(estimates, "conf_high"))
    shown = bool(len(rows) <= MOST_INTERVALS) if intervals is None else intervals
    shade = Shade(
        "std_error",
        "standard error of the prediction" if colorbar else "",
        domain=(float(sd.min()), float(sd.max())) if limits is None else limits,
    )
    logs = np.log(np.maximum(size, 1e-300))
    spread = float(np.ptp(logs))
    area = (logs - logs.min()) / spread if spread > 0 else np.full(len(logs), 0.3)
    marks = against("truth", color=shade, size="area", thin=True)
    chart = (
        cells_of(estimates)
        .with_columns(area=0.1 + area)
        .take(rows)
        .chart(
            "predicted",
            _bags_title(len(rows), estimates.level, float(held[rows].mean()), sizes),
            "",
            [Panel(marks if shown and estimates.level is not None else marks[1:], Axis("label"), Axis("prediction"))],
            note=""
            if sizes is not None or spread == 0
            else f"larger marks are larger bags, {size.min():,.0f} to {size.max():,.0f}",
            inches=(6.2, 5.2),
        )
    )
    return draw(chart, ax)


def _bags_title(n: int, level: float | None, share: float, sizes: tuple[float, float] | None) -> str:
    bags = f"{n:,} bag{'' if n == 1 else 's'}"
    if sizes is not None:
        bags += f" of {sizes[0]:g}" if sizes[0] == sizes[1] else f" of {sizes[0]:g} to {sizes[1]:g}"
    return bags if level is None else f"{bags}, {100 * level:.10g} % intervals hold {100 * share:.0f} %"


def coverage_chart(scores: Estimates) -> Chart:
    """Describe coverage (or accuracy) by class of sizes, beside the nominal level and the baseline."""
    names = scores.table.column_names
    nominal = float(scores["nominal"][0]) if "nominal" in names else None
    what = "accuracy" if nominal is None else f"share of labels inside {100 * nominal:.10g} % intervals"
    words = [f"{s} ({int(c):,})" for s, c in zip(scores["stratum"].tolist(), scores["n"].tolist(), strict=True)]
    cells = cells_of(scores).with_key("stratum", words)
    marks = [] if nominal is None else [Mark("rule", nominal, color=INK, dash=True)]
    marks.append(Mark("interval", "conf_low", x2="conf_high", width=2.2))
    marks.append(Mark("dot", "estimate", size=42.0, label="accuracy" if nominal is None else "coverage"))
    base = next((n for n in ("baseline_coverage", "baseline_accuracy") if n in names), None)
    if base is not None:
        cells = cells.with_columns(baseline=_numbers(scores, base))
        marks.append(Mark("dot", "baseline", color=GRAY, shape="diamond", size=20.0, label="baseline"))
    claims = "" if nominal is None else f" The dashed line is the nominal level, {100 * nominal:.10g} %."
    beside = " Gray diamonds: a forecast that knows no members." if base else ""
    return cells.chart(
        "calibration",
        "Accuracy by size of bag" if nominal is None else "Coverage by size of bag",
        f"The {what} with its 95 % Wilson interval, which is wide where there are few bags.{claims}{beside}",
        [Panel(marks, Axis(what), Axis(names="label"))],
        words={"label": "bags of size", "estimate": what},
        inches=(6.4, 1.3 + 0.36 * len(scores)),
    )


@checked
def bag_calibration(scores: Estimates, ax: Axes | None = None) -> Axes:
    """Draw how often intervals held the label in each class of bag sizes, beside the nominal level.

    Parameters
    ----------
    scores : Estimates
        Of `crosslevel.diagnostics.calibration_table`: key ``stratum``, with ``nominal``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> scores = Estimates.build(
    ...     {"stratum": ["all", "5"], "estimate": [0.9, 0.8], "conf_low": [0.8, 0.6], "conf_high": [1.0, 0.9], "nominal": [0.95] * 2,
    ...      "n": [90, 45]},
    ...     keys=["stratum"], method="example", level=0.95, interval="Wilson", provenance=Provenance.of(call="example()"),
    ... )
    >>> [t.get_text() for t in bag_calibration(scores).get_yticklabels()]
    ['all (90)', '5 (45)']
    """
    if "nominal" not in scores.table.column_names or scores.keys != ("stratum",):
        raise InputError("scores is no table of coverage; pass that of calibration_table.")
    return draw(coverage_chart(scores), ax)


def reliability_chart(estimates: Estimates) -> Chart:
    """Describe how often each class came true by its probability; the likeliest bags where classes are not known."""
    if "truth" not in estimates.table.column_names:
        title = "Bags by the probability of a class"
        return rows_chart(estimates, name="ranked", title=title, x_title="probability", fixed=["class"])
    own = estimates["class"]
    classes = list(dict.fromkeys(own.tolist()))
    parts = [
        {"class": str(c), **row}
        for c in classes
        for row in reliability(estimates["estimate"][own == c], estimates["truth"][own == c])
    ]
    limits = (0.0, 1.0)
    x, y = Axis("mean probability", limits=limits), Axis("share that was of the class", limits=limits)
    return Chart(
        "reliability",
        "Are probabilities calibrated?",
        "Bags by the probability of the chosen class, in tenths: how often it was the class, with the 95 % Wilson interval. On "
        "the dashed line probabilities are calibrated.",
        [Panel(against("predicted", size=32.0), x, y)],
        {"shares": pa.Table.from_pylist(parts)},
        {"rows": Rows("shares", {"class": "class"})},
        [Choice("class", "Class", [(str(c), str(c)) for c in classes])],
        tips={"predicted": "mean probability", "estimate": "share", "conf_low": "from", "conf_high": "to", "n": "bags"},
        height=340,
    )


def reliability(p: npt.ArrayLike, truth: npt.ArrayLike, classes: int = CLASSES) -> list[dict[str, float | int]]:
    """Compare probabilities with what happened, in classes of equal width: the mean (``predicted``), and the share as a row of scores.

    Examples
    --------
    >>> rows = reliability([0.1, 0.15, 0.9, 0.95], [0, 1, 1, 1], classes=2)
    >>> [(row["predicted"], row["estimate"], row["n"]) for row in rows]
    [(0.125, 0.5, 2), (0.925, 1.0, 2)]
    """
    q, t = np.asarray(p, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    place = np.minimum((q * classes).astype(np.intp), classes - 1)
    return [{"predicted": float(q[place == c].mean()), **share_row(t[place == c])} for c in np.unique(place)]


def validation_chart(estimates: Estimates) -> Chart:
    """Describe what was predicted for places left out against what was observed there."""
    share = on_unit_scale(estimates)
    covered = estimates.diagnostics.get("coverage")
    told = f" {100 * covered:.0f} % of the intervals contain what was observed." if isinstance(covered, float) else ""
    x, y = Axis("observed", share=share), Axis("predicted from other places", share=share)
    return cells_of(estimates).chart(
        "validation",
        "Places predicted from the others",
        f"A dot for each place{with_level(estimates.level)}; on the dashed line both agree.{told}",
        [Panel(against("truth", size=12.0), x, y)],
        share=share,
        height=320,
        inches=(6.0, 5.2),
    )


def imputed_chart(result: Estimates, *, feature: str | None = None, label: bool | None = None) -> Chart:
    """Describe imputed means of subgroups against the mean of the group means of the same people.

    A table stacked over several columns (keys ``column`` and ``value``) has a list of the columns.
    """
    cells = cells_of(result if feature is None else result.select(feature=feature))
    n = cells.table.num_rows
    choices = [cells.choice("feature")]
    if result.keys == ("feature", "column", "value"):
        choices.append(cells.choice("column", "By"))
    listed_keys = [key for key, column in cells.keys.items() if column in [c.name for c in choices]]
    names = [cells.label(i, [key for key in cells.keys if key not in listed_keys]) for i in range(n)]
    few = n <= NAMED * math.prod(len(c.options) for c in choices) if label is None else label
    cells = cells.with_columns(short=names if few else [""] * n)
    marks = against("naive", size="people", label="imputed")
    marks[1] = Mark("diagonal", "naive", color=GRAY, label="as the group means")
    crosses = ""
    if cells.has("truth"):
        marks.append(Mark("dot", "naive", "truth", color=VERMILION, shape="cross", size=34.0, label="truth"))
        crosses = " Crosses are the truth."
    marks.append(Mark("text", "naive", "estimate", text="short"))
    x = Axis("mean of the group means of the same people (naive)")
    return cells.chart(
        "means",
        "Imputed means of subgroups against the group means",
        f"A dot for each subgroup{with_level(result.level)}, its area the number of people. On the dashed line nothing was "
        f"learned about a subgroup beyond the means of its groups.{crosses}",
        [Panel(marks, x, Axis(f"imputed mean and {display.describe_level(result.level)}"))],
        choices=choices,
        words={"estimate": "imputed mean"},
        height=360,
        inches=(7.4, 5.2),
    )


@checked
def imputed_means(
    result: Estimates, ax: Axes | None = None, *, feature: str | None = None, label: bool | None = None
) -> Axes:
    """Draw the imputed mean of each subgroup against what it would be if everybody had the group's mean.

    Parameters
    ----------
    result : Estimates
        Of ``CrossLevelImputer.estimate`` or ``CUDIA.estimate``: with the columns ``naive`` and ``people``, and ``truth`` where it
        was added with ``with_truth``.
    ax : matplotlib.axes.Axes, optional
    feature : str, optional
        The hidden feature, where there are several.
    label : bool, optional
        Name the points; by default up to 24 of them are.

    Returns
    -------
    matplotlib.axes.Axes
        Dots with intervals, their area the number of people. On the diagonal nothing was learned about a subgroup; crosses are
        the truth.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"feature": ["ill", "ill"], "age": [30, 60], "estimate": [0.1, 0.3], "conf_low": [0.05, 0.2],
    ...      "conf_high": [0.2, 0.4], "naive": [0.18, 0.22], "people": [100, 50]},
    ...     keys=["feature", "age"], method="example", level=0.95, interval="posterior",
    ...     provenance=Provenance.of(call="model.estimate(by='age')"),
    ... )
    >>> [text.get_text() for text in imputed_means(est).texts]
    ['30', '60']
    """
    if not isinstance(result, Estimates) or not {"naive", "people", "feature"} <= set(result.table.column_names):
        raise InputError(
            "result has no columns 'feature', 'naive' and 'people'; pass the estimate(by=...) of CrossLevelImputer or CUDIA."
        )
    feature = one_feature(result, feature)
    chart = imputed_chart(result, feature=feature, label=label)
    title = f"{feature} by {', '.join(k for k in result.keys if k != 'feature')}"
    return draw(replace(chart, title=title), ax)


def one_feature(result: Estimates, feature: str | None) -> str:
    """Name the hidden feature to draw."""
    known = list(dict.fromkeys(result.table["feature"].to_pylist()))
    if not known:
        raise InputError("there is nothing to draw: result has no rows.")
    if feature is None and len(known) > 1:
        raise InputError(
            f"result has {len(known)} hidden features ({', '.join(map(str, known))}); say which with feature=."
        )
    if feature is not None and feature not in known:
        raise unknown_name("feature", feature, known, "hidden feature")
    return str(known[0] if feature is None else feature)


def published_chart(result: Estimates) -> Chart:
    """Describe each published mean against what the other groups predict, with whether the interval held."""
    t, e, low, high = (_numbers(result, n) for n in ("published", "estimate", "conf_low", "conf_high"))
    sure = np.isfinite(low) & np.isfinite(high)
    held = np.where(~sure, "no interval", np.where((low <= t) & (t <= high), "held", "missed"))
    cells = cells_of(result).with_columns(held=held).take(np.flatnonzero(np.isfinite(t) & np.isfinite(e)))
    names = ["held", "missed", "no interval"]
    color = Shade("held", "interval", names=True, domain=names, range=[BLUE, VERMILION, GRAY])
    return cells.chart(
        "groups",
        "Each group's mean, predicted from the others",
        f"A check of totals: predictions{with_level(result.level, 'their')} against what was published. Means that are "
        "predicted well say little about persons.",
        [Panel(against("published", color=color), Axis("published mean"), Axis("predicted from the other groups"))],
        choices=[cells.choice("feature")],
        words={"estimate": "predicted"},
        height=320,
    )


def bag_sizes_chart(estimates: Estimates) -> Chart:
    """Describe how many people are behind each bag, and how many they count for."""
    rows = sampled(len(estimates))
    marks = [Mark("diagonal", "people", color=INK), Mark("dot", "people", "estimate", size=18.0, alpha=0.7)]
    return (
        cells_of(estimates)
        .take(rows)
        .chart(
            "sizes",
            "People of the bags, and how many they count for",
            f"Each dot is a bag, {describe_sample(len(rows), len(estimates), 'bag')}. On the dashed line weights cost nothing; below "
            "it unequal weights make people count for fewer. No interval.",
            [Panel(marks, Axis("people"), Axis("effective people (Kish)"))],
            words={"estimate": "effective people"},
        )
    )
