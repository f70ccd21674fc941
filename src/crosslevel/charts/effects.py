"""Effects that differ between people: averages by size, contrasts, and effects at rows along any covariate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.cells import cells_of
from crosslevel.charts.chart import Axis, Chart, Choice, Mark, Panel, Rows, Shade
from crosslevel.charts.densities import distributions_chart
from crosslevel.charts.intervals import rows_chart
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import GRAY, ORANGE
from crosslevel.charts.words import MOST_POINTS, describe_sample, fifths, sampled, with_level
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError
from crosslevel.results import Estimates, display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LEVELS = 12
"""Levels that colors can distinguish; further ones share the last."""
MOST_COLUMNS = 30
"""Covariates that the axis of effects at rows can show."""
OTHER = "all others"
OF_ROWS = ("term", "row", "estimate", "std_error", "conf_low", "conf_high", "value", "fitted", "weight")


def stars(p: float | None) -> str:
    """Mark how small a p-value is: * below .05, ** below .01, *** below .001.

    Examples
    --------
    >>> [stars(p) for p in (0.2, 0.04, 0.009, 0.0001, None)]
    ['', '*', '**', '***', '']
    """
    if p is None or not p < 0.05:
        return ""
    return "***" if p < 0.001 else "**" if p < 0.01 else "*"


@checked
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
    error, so that the interval of every row has the same width and a row that clears zero is distinguished from noise.

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
    if not (estimates["std_error"] > 0).any():
        raise InputError("estimates has no standard errors, by which effects are ranked; draw est.plot() instead.")
    return draw(averages_chart(estimates), ax)


def averages_chart(estimates: Estimates) -> Chart:
    """Describe average effects in standard errors, largest first."""
    error = np.where(estimates["std_error"] > 0, estimates["std_error"], np.nan)
    names = [n for n in ("estimate", "conf_low", "conf_high", "plug_in") if n in estimates.table.column_names]
    columns: dict[str, Any] = {f"z_{n}": np.asarray(estimates[n] / error, dtype=np.float64) for n in names}
    if "p_value" in estimates.table.column_names:
        columns["stars"] = [stars(p) for p in estimates.table["p_value"].to_pylist()]
    if "contrast" in estimates.table.column_names:
        columns["contrast"] = [str(v) for v in estimates["contrast"].tolist()]
    order = np.argsort(-np.nan_to_num(np.abs(columns["z_estimate"])), kind="stable")
    marks = [
        Mark("rule", 0.0, color=GRAY),
        Mark("interval", "z_conf_low", x2="z_conf_high", label=display.describe_level(estimates.level)),
        Mark("dot", "z_estimate", label="estimate"),
    ]
    open_ = ""
    if "plug_in" in names:
        marks.append(Mark("dot", "z_plug_in", color=ORANGE, shape="diamond", filled=False, size=36.0, label="plug-in"))
        open_ = " Open marks are the averages of the shrunken fit (plug_in in the table)."
    kind = "" if estimates.level is None else f" and {100 * estimates.level:.10g} % interval"
    return (
        cells_of(estimates)
        .with_columns(**columns)
        .take(order)
        .chart(
            "averages",
            "Effects by size",
            f"Each effect{with_level(estimates.level)}, divided by its standard error, since effects of covariates in different "
            f"units cannot be compared by length. An interval that clears the line at zero is distinguished from noise.{open_}",
            [Panel(marks, Axis(f"effect{kind}, in standard errors"), Axis(names="label"))],
            words={"estimate": "average effect", "p_value": "p", "stars": "stars", "contrast": "compares"},
            size="half",
            inches=(8.4 if open_ else 6.6, 1.15 + 0.27 * len(estimates)),
        )
    )


def effects_charts(estimates: Estimates) -> list[Chart]:
    """Describe average effects: by size, contrasts of factors in units of the outcome, or by group with a list of terms."""
    if len(estimates.keys) > 1:
        others = ", ".join(k for k in estimates.keys if k != "term")
        return [
            rows_chart(
                estimates, name="groups", title=f"Average effect by {others}", x_title="average effect", fixed=["term"]
            )
        ]
    charts = [averages_chart(estimates)]
    kinds = estimates.table["kind"].to_pylist() if "kind" in estimates.table.column_names else []
    if "contrast" in kinds:
        own = estimates.select(kind="contrast")
        drawn = rows_chart(own, name="contrasts", title="Contrasts of factors", x_title="average contrast")
        caption = "What the outcome would be on average at a level, less at the level it is compared with, all else unchanged."
        charts.append(replace(drawn, caption=f"{caption} {drawn.caption}", size="half"))
    return charts


def at_rows_charts(estimates: Estimates) -> list[Chart]:
    """Describe effects at rows: with intervals along the term's own covariate; else along any, two panels with one brush.

    The table has the keys ``term`` and ``row``; further columns of numbers are covariates, ``fitted`` and columns of text color
    the dots.
    """
    terms = [str(t) for t in dict.fromkeys(estimates["term"].tolist())]
    words = np.array([str(v) for v in estimates["term"].tolist()])
    wide = {t: np.flatnonzero(words == t) for t in terms}
    if estimates.level is not None:
        return [_band_chart(estimates, terms, wide)]
    D = np.column_stack([estimates["estimate"][wide[t]].astype(np.float64) for t in terms])
    return [_brushed_chart(estimates, terms, wide), distributions_chart(D, terms)]


def _band_chart(estimates: Estimates, terms: list[str], wide: dict[str, Any]) -> Chart:
    """Describe effects at rows against their own covariate, with their intervals."""
    most = max(300, MOST_POINTS // len(terms))
    each = len(wide[terms[0]])
    rows = np.concatenate([wide[t][sampled(each, most)] for t in terms])
    cells = cells_of(estimates).with_columns(value=estimates["value"].astype(np.float64)).take(rows)
    marks = [
        Mark("rule", y=0.0, color=GRAY),
        Mark("interval", "value", "conf_low", y2="conf_high", color=GRAY, width=1.0, alpha=0.5),
        Mark("dot", "value", "estimate", size=11.0),
    ]
    shown = describe_sample(min(each, most), each, "row")
    return cells.chart(
        "bands",
        "Effects at rows, along their own covariate",
        f"Each dot is a row, {shown}{with_level(estimates.level)} ({estimates.interval}).",
        [Panel(marks, Axis("covariate of the term"), Axis("effect"))],
        choices=[cells.choice("term", "Effect of")],
        words={"estimate": "effect"},
    )


def _brushed_chart(estimates: Estimates, terms: list[str], wide: dict[str, Any]) -> Chart:
    """Describe effects at rows along any covariate, in two panels with one brush."""
    first = wide[terms[0]]
    names = [n for n in estimates.table.column_names if n not in OF_ROWS]
    covariates = [n for n in names if estimates[n].dtype.kind in "fiu"][:MOST_COLUMNS]
    columns: dict[str, Any] = {f"x{p}": estimates[n][first].astype(np.float64) for p, n in enumerate(covariates)}
    along = [(f"x{p}", n) for p, n in enumerate(covariates)]
    columns |= {f"e{e}": estimates["estimate"][wide[t]].astype(np.float64) for e, t in enumerate(terms)}
    colors: dict[str, list[str | None]] = {}
    if "fitted" in estimates.table.column_names:
        colors["fitted outcome, in fifths"] = fifths(estimates["fitted"][first])
    colors |= {n: _levels(estimates.table[n].to_pylist(), first) for n in names if estimates[n].dtype.kind not in "fiu"}
    colors = colors or {"nothing": ["rows"] * len(first)}
    columns |= {f"c{c}": pa.array(v, pa.string()) for c, v in enumerate(colors.values())}
    many = [i for i, (column, _) in enumerate(along) if len(np.unique(columns[column])) > 2]
    own = [
        next((i for i, (_, words) in enumerate(along) if t == words or t.startswith(f"{words} (")), 0) for t in terms
    ]
    # two heaps of dots above 0 and 1 show nothing: comparisons of two groups open along a covariate with more values
    own = [i if i in many else next(iter(many), i) for i in own]
    second = min(1, len(terms) - 1)
    of_terms = [(f"e{e}", t) for e, t in enumerate(terms)]
    choices = [
        Choice("term", "Effect of", of_terms),
        Choice("along", "along", along, own[0]),
        Choice("term2", "beside it, the effect of", of_terms, second),
        Choice("along2", "along", along, own[second]),
        Choice("color", "Color by", [(f"c{c}", n) for c, n in enumerate(colors)]),
    ]
    rows = Rows(
        "people", columns={"x": "along", "effect": "term", "x2": "along2", "effect2": "term2", "shade": "color"}
    )
    shade = Shade("shade", names=True, scheme="ordered")
    n_rows = int(estimates.diagnostics.get("rows", len(first)) or len(first))
    return Chart(
        name="effects",
        title="Effects at rows, along a covariate",
        caption=f"Each dot is the effect of the fit at a row, {describe_sample(len(first), n_rows, 'row')}, whose covariates this page "
        "holds; the line is a local average. No interval. Drag over the left chart to keep the colors of some rows in both charts; click "
        "beside to let go.",
        panels=[
            Panel(
                [
                    Mark("rule", y=0.0, color=GRAY),
                    Mark("dot", x, y, color=shade, size=10.0, alpha=0.65, brush=True),
                    Mark("trend", x, y),
                ],
                Axis("covariate"),
                Axis("effect"),
            )
            for x, y in (("x", "effect"), ("x2", "effect2"))
        ],
        tables={"people": pa.table(columns)},
        data={"rows": rows},
        choices=choices,
        labels=dict(along)
        | {f"e{e}": f"effect of {t}" for e, t in enumerate(terms)}
        | {f"c{c}": n for c, n in enumerate(colors)},
        tips={"x": "covariate", "effect": "effect", "shade": "class"},
    )


def _levels(values: list[Any], rows: Any) -> list[str | None]:
    """Name the level of each row, the rarest levels together when there are more than colors can distinguish."""
    words = [None if values[i] is None else str(values[i]) for i in rows]
    counts: dict[str, int] = {}
    for word in words:
        if word is not None:
            counts[word] = counts.get(word, 0) + 1
    if len(counts) <= MOST_LEVELS:
        return words
    kept = set(sorted(counts, key=lambda w: (-counts[w], w))[: MOST_LEVELS - 1])
    return [w if w is None or w in kept else OTHER for w in words]
