"""What would move an estimate: an omitted variable (contours), or rates that depend on composition (a curve)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.chart import Axis, Chart, Mark, Panel
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import GRAY, INK, PALE, VERMILION
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
_STEPS = 121
_TICKS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_SCHEMA = pa.schema({"level": pa.string(), "x": pa.float64(), "y": pa.float64(), "words": pa.string()})
_NEAR_ONE = 0.995  # the bias has no limit as a variable comes to hold all of composition


@checked
def contour(
    answer: Estimates,
    group: str | None = None,
    outcome: str | None = None,
    ax: Axes | None = None,
    *,
    district: object = None,
    limit: float | None = None,
    names: int = 8,
) -> Axes:
    """Draw the largest bias that an omitted variable can make, over how much it explains of composition and outcome.

    Parameters
    ----------
    answer : Estimates
        Answer of ``crosslevel.ecological.sensitivity``.
    group, outcome : str, optional
        The cell to draw; may be left out when there is only one.
    ax : matplotlib.axes.Axes, optional
    district : object, optional
        The district, in a pooled answer.
    limit : float, optional
        Upper end of both axes; chosen so that the robustness value and the benchmarks are seen.
    names : int, default 8
        Name so many of the benchmarks, those of the largest bias first.

    Returns
    -------
    matplotlib.axes.Axes
        Thin contours: bias in points of rate. Thick: the move that ``sensitivity`` was asked about; where it crosses the
        diagonal (open circle) lies the robustness value. Crosses: covariates, as if each had been omitted. Beyond the
        gray area the bounds rule the bias out.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> answer = Estimates.build(
    ...     {"group": ["young"], "outcome": ["yes"], "estimate": [0.6], "lower": [0.2], "upper": [0.9],
    ...      "robustness_value": [0.39], "bias_scale": [0.1]},
    ...     keys=["group", "outcome"], method="sensitivity", level=None, interval="none",
    ...     provenance=Provenance.of(call="sensitivity(result)"), diagnostics={"move": 0.05},
    ... )
    >>> contour(answer).get_title(loc="left")
    'young × yes: bias if a variable was omitted'
    """
    row = _row(answer, group, outcome, district)
    scale = float(answer["bias_scale"][row])
    if not np.isfinite(scale):
        raise InputError("answer has no bias_scale for this cell; its groups cannot be told apart in a regression.")
    marks = _benchmarks(answer, row)
    value = float(answer["robustness_value"][row])
    end = _limit(limit, value, marks)
    # y = (level / scale)^2 (1 - x) / x on the contour of a level of bias
    strengths = end * np.linspace(0, 1, _STEPS)[1:] ** 2
    move = scale * value / np.sqrt(1 - value) if np.isfinite(value) else np.nan
    most = scale * np.sqrt(end * end / (1 - end))
    levels = [level for level in _LEVELS if level < most and not np.isclose(level, move, rtol=0.02)]
    parts = []
    for level in levels:
        x, y = _curve(level, scale, strengths, end)
        words = [""] * len(x)
        words[len(x) // 2 : len(x) // 2 + 1] = [f"{100 * level:g} point{'s' if level > 0.01 else ''}"] if len(x) else []
        parts.append(pa.table({"level": [f"{level:g}"] * len(x), "x": x, "y": y, "words": words}, schema=_SCHEMA))
    tables = {"levels": pa.concat_tables([_SCHEMA.empty_table(), *parts])}
    drawn = [
        Mark("line", "x", "y", data="levels", by="level", color=GRAY, width=0.9),
        Mark("text", "x", "y", data="levels", text="words"),
    ]
    estimate, lower, upper = (float(answer[name][row]) for name in ("estimate", "lower", "upper"))
    possible = max(estimate - lower, upper - estimate)
    note = ""
    if 0 < possible < most:
        x, y = _curve(possible, scale, strengths, end)
        tables["beyond"] = pa.table({"x": x, "y": y, "top": np.full(len(x), end)})
        drawn.insert(0, Mark("band", "x", "y", y2="top", data="beyond", color="#EFEFEF"))
        note = "gray: more than the bounds allow"
    if np.isfinite(value):
        x, y = _curve(move, scale, strengths, 1.2 * end)
        tables["move"] = pa.table({"x": x, "y": y})
        tables["value"] = pa.table({"x": [value], "y": [value]})
        tables["ends"] = pa.table({"x": [0.0, end]})
        said = f"moves it by {100 * move:.1f} points"
        drawn.append(Mark("diagonal", "x", data="ends", color=GRAY))
        drawn.append(Mark("line", "x", "y", data="move", width=2.2, label=said))
        robust = f"robustness value {value:.2f}"
        drawn.append(Mark("dot", "x", "y", data="value", filled=False, size=49.0, label=robust))
    if marks:
        strongest = sorted(marks, key=lambda m: -m[2] * m[1] / max(1 - m[1], 1e-9))[:names]
        said_of = [m[0] if m in strongest else "" for m in marks]
        tables["marks"] = pa.table({"x": [m[1] for m in marks], "y": [m[2] for m in marks], "words": said_of})
        label = "covariate, had it been omitted"
        drawn.append(Mark("dot", "x", "y", data="marks", color=VERMILION, shape="cross", size=49.0, label=label))
        drawn.append(Mark("text", "x", "y", data="marks", text="words"))
    cell = " × ".join(str(answer[name][row]) for name in ("group", "outcome"))
    ticks = [tick for tick in _TICKS if tick <= end]
    limits = (0.0, end)
    chart = Chart(
        name="omitted",
        title=f"{cell}: bias if a variable was omitted",
        caption="Thin lines: the largest bias of an omitted variable, in points, over how much it explains of composition and outcome. "
        "Thick: the move that was asked about; crosses: covariates, as if each had been omitted. "
        + (f"{note[0].upper()}{note[1:]}." if note else ""),
        panels=[
            Panel(
                drawn,
                Axis("explains of composition (R²)", root=True, limits=limits, ticks=ticks),
                Axis("explains of what composition leaves of the outcome (R²)", root=True, limits=limits, ticks=ticks),
            )
        ],
        tables=tables,
        tips={"words": "bias, or covariate", "x": "of composition", "y": "of the outcome"},
        note=note,
        height=360,
        inches=(7.6, 4.8),
    )
    return draw(chart, ax)


def _curve(level: float, scale: float, strengths: FloatArray, top: float) -> tuple[FloatArray, FloatArray]:
    """Give the contour of one bias inside the picture."""
    inside = strengths[strengths < 1]
    y = np.square(level / scale) * (1 - inside) / inside
    shown = y <= top
    return inside[shown], y[shown]


@checked
def slope_curve(
    answer: Estimates,
    group: str | None = None,
    outcome: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what an estimate becomes when everybody's rate changes with the group's share, inside the bounds.

    Parameters
    ----------
    answer : Estimates
        Answer of ``crosslevel.ecological.sensitivity`` for one district.
    group, outcome : str, optional
        The cell to draw; may be left out when there is only one.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> answer = Estimates.build(
    ...     {"group": ["young"], "outcome": ["yes"], "estimate": [0.6], "lower": [0.2], "upper": [0.9],
    ...      "sens_low": [0.5], "sens_high": [0.7], "bias_scale": [0.1]},
    ...     keys=["group", "outcome"], method="sensitivity", level=None, interval="none",
    ...     provenance=Provenance.of(call="sensitivity(result)"),
    ...     diagnostics={"points_per_10_points_of_share": 2.0,
    ...                  "curve": {"points_per_10_points": [-2, 0, 2], "estimate": [[0.7, 0.6, 0.5]]}},
    ... )
    >>> slope_curve(answer).get_title(loc="left")
    'young × yes: if rates depend on composition'
    """
    row = _row(answer, group, outcome, None)
    curve = answer.diagnostics.get("curve")
    if not curve:
        raise InputError("answer has no curve, as it covers several districts; take one, result.select(district=...).")
    slopes, values = np.array(curve["points_per_10_points"]), np.array(curve["estimate"][row], dtype=np.float64)
    allowed = float(answer.diagnostics["points_per_10_points_of_share"])
    own = {n: float(answer[n][row]) for n in ("lower", "upper", "sens_low", "sens_high", "conf_low", "conf_high")}
    ends = [float(slopes.min()), float(slopes.max())]
    tables = {
        "curve": pa.table({"x": slopes.astype(np.float64), "estimate": values}),
        "bounds": pa.table({"x": ends, "low": [own["lower"]] * 2, "high": [own["upper"]] * 2}),
        "widened": pa.table({"x": [-allowed, allowed], "low": [own["sens_low"]] * 2, "high": [own["sens_high"]] * 2}),
    }
    marks = [
        Mark("band", "x", "low", y2="high", data="bounds", color=PALE, label="possible at all (bounds)"),
        Mark("band", "x", "low", y2="high", data="widened", alpha=0.15, label="widened interval"),
        Mark("line", "x", "estimate", data="curve", width=2.2, label="estimate"),
    ]
    if np.isfinite(own["conf_low"]):
        tables["own"] = pa.table({"x": [0.0], "low": [own["conf_low"]], "high": [own["conf_high"]]})
        marks.append(Mark("interval", "x", "low", y2="high", data="own", color=INK, label="the method's own interval"))
    cell = " × ".join(str(answer[name][row]) for name in ("group", "outcome"))
    x = Axis("rate of everybody, points per 10 points of the group's share")
    chart = Chart(
        name="slope",
        title=f"{cell}: if rates depend on composition",
        caption="The estimate when everybody's rate changes with the group's share of a place, inside the bounds.",
        panels=[Panel(marks, x, Axis("share of the group"))],
        tables=tables,
        tips={"x": "points per 10 points", "estimate": "estimate"},
        inches=(7.6, 4.0),
    )
    return draw(chart, ax)


def _row(answer: Estimates, group: str | None, outcome: str | None, district: object) -> int:
    """Find the one row asked for."""
    if not isinstance(answer, Estimates) or "bias_scale" not in answer.table.column_names:
        raise InputError("answer is not one of crosslevel.ecological.sensitivity; pass sensitivity(result).")
    keep = np.ones(len(answer), dtype=bool)
    for name, wanted in (("district", district), ("group", group), ("outcome", outcome)):
        if wanted is None:
            continue
        if name not in answer.keys or wanted not in answer[name].tolist():
            known = answer[name].tolist() if name in answer.keys else []
            raise unknown_name(name, wanted, list(dict.fromkeys(known)), "value")
        keep &= answer[name] == wanted
    if keep.sum() != 1:
        raise InputError(
            f"{int(keep.sum())} cells fit; name one by group=, outcome= (and district= in a pooled answer)."
        )
    return int(np.argmax(keep))


def _benchmarks(answer: Estimates, row: int) -> list[tuple[str, float, float]]:
    """Give (name, strength in composition, strength in outcome) of every covariate for this cell."""
    bench: dict[str, list[Any]] = answer.diagnostics.get("bench", {})
    cell = (answer["group"][row], answer["outcome"][row])
    rows = zip(
        *(bench.get(n, []) for n in ("covariate", "group", "outcome", "r2_composition", "r2_outcome")), strict=True
    )
    return [(name, d, y) for name, g, o, d, y in rows if (g, o) == cell]


def _limit(limit: float | None, value: float, marks: list[tuple[str, float, float]]) -> float:
    if limit is not None:
        if not 0 < limit < 1:
            raise InputError(f"limit={limit!r} is not between 0 and 1; pass for example 0.5.")
        return limit
    seen = [0.2, *([1.3 * value] if np.isfinite(value) else []), *(1.1 * s for _, d, y in marks for s in (d, y))]
    return min(max(seen), _NEAR_ONE)
