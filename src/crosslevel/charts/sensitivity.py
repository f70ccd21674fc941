"""What would move an estimate: an overlooked variable (contours), or rates that depend on composition (a curve)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosslevel.charts.style import BLUE, GREY, INK, PALE, VERMILION, new_axes, note, plain, style
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["contour", "slope_curve"]


_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
_STEPS = 121
_TICKS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_NEAR_ONE = 0.995  # the bias has no limit as a variable comes to hold all of composition


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
    """Draw the largest bias that an overlooked variable can make, over how much it explains of composition and outcome.

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
        diagonal (open circle) lies the robustness value. Crosses: covariates, as if each had been overlooked. Beyond the
        grey line the bounds rule the bias out.

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
    'young × yes: bias if something was overlooked'
    """
    row = _row(answer, group, outcome, district)
    scale = float(answer["bias_scale"][row])
    if not np.isfinite(scale):
        raise InputError("answer has no bias_scale for this cell; make it with sensitivity(result, groups, outcomes).")
    marks = _benchmarks(answer, row)
    value = float(answer["robustness_value"][row])
    end = _limit(limit, value, marks)
    strengths = end * np.linspace(0, 1, _STEPS) ** 2
    composition, outcome_strength = np.meshgrid(strengths, strengths)
    bias = scale * np.sqrt(outcome_strength * composition / (1 - composition))
    with style("both"):
        ax = new_axes(ax, 7.6, 4.8)
        for scaled in (ax.set_xscale, ax.set_yscale):  # small strengths are the usual ones
            scaled("function", functions=(_root, np.square))
        move = scale * value / np.sqrt(1 - value)
        levels = [level for level in _LEVELS if level < bias.max() and not np.isclose(level, move, rtol=0.02)]
        if levels:
            drawn = ax.contour(composition, outcome_strength, bias, levels=levels, colors=[GREY], linewidths=0.9)
            ax.clabel(
                drawn,
                fmt={level: f"{100 * level:g} point{'s' if level > 0.01 else ''}" for level in levels},
                fontsize=8,
            )
        _limits_of_the_possible(ax, answer, row, (composition, outcome_strength, bias))
        if np.isfinite(value):
            _robustness(ax, value, scale, strengths)
        _marks(ax, marks, end, names)
        ax.set_xlim(0, end)
        ax.set_ylim(0, end)
        ticks = [tick for tick in _TICKS if tick <= end]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xlabel("explains of composition (R²)")
        ax.set_ylabel("explains of what composition leaves of the outcome (R²)")
        cell = " × ".join(str(answer[name][row]) for name in ("group", "outcome"))
        ax.set_title(plain(f"{cell}: bias if something was overlooked"), loc="left")
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=1.4)
    return ax


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
    with style("both"):
        ax = new_axes(ax, 7.6, 4.0)
        ax.axhspan(
            *(float(answer[n][row]) for n in ("lower", "upper")),
            color=PALE,
            lw=0,
            zorder=0,
            label="possible at all (bounds)",
        )
        low, high = ([float(answer[name][row])] * 2 for name in ("sens_low", "sens_high"))
        ax.fill_between([-allowed, allowed], low, high, color=BLUE, alpha=0.15, lw=0, label="widened interval")
        ax.plot(slopes, values, color=BLUE, lw=2.2, label="estimate")
        own = float(answer["conf_low"][row]), float(answer["conf_high"][row])
        if np.isfinite(own[0]):
            ax.vlines([0], *own, color=INK, lw=2.0, label="the method's own interval")
        ax.set_xlabel("rate of everybody, points per 10 points of the group's share")
        ax.set_ylabel("share of the group")
        cell = " × ".join(str(answer[name][row]) for name in ("group", "outcome"))
        ax.set_title(plain(f"{cell}: if rates depend on composition"), loc="left")
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=1.4)
    return ax


def _root(values: npt.ArrayLike) -> FloatArray:
    return np.sqrt(np.maximum(np.asarray(values, dtype=np.float64), 0.0))


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


def _limits_of_the_possible(
    ax: Axes, answer: Estimates, row: int, field: tuple[FloatArray, FloatArray, FloatArray]
) -> None:
    estimate, lower, upper = (float(answer[name][row]) for name in ("estimate", "lower", "upper"))
    most = max(estimate - lower, upper - estimate)
    if 0 < most < field[2].max():
        ax.contourf(*field, levels=[most, np.inf], colors=["#EFEFEF"], zorder=0)
        note(ax, "grey: more than the bounds allow")


def _robustness(ax: Axes, value: float, scale: float, strengths: FloatArray) -> None:
    move = scale * value / np.sqrt(1 - value)
    inside = strengths[(strengths > 0) & (strengths < 1)]
    curve = np.square(move / scale) * (1 - inside) / inside
    shown = curve <= strengths[-1] * 1.2
    ax.plot(inside[shown], curve[shown], color=BLUE, lw=2.2, label=f"moves it by {100 * move:.1f} points")
    ax.plot([0, strengths[-1]], [0, strengths[-1]], color=GREY, lw=0.7, ls=":")
    ax.plot(
        [value], [value], "o", color=BLUE, mfc="white", ms=7, mew=1.6, zorder=5, label=f"robustness value {value:.2f}"
    )


def _marks(ax: Axes, marks: list[tuple[str, float, float]], end: float, names: int) -> None:
    if not marks:
        return
    x, y = (np.array([m[i] for m in marks]) for i in (1, 2))
    ax.plot(x, y, "x", color=VERMILION, ms=7, mew=1.6, zorder=6, label="covariate, had it been overlooked")
    named: list[tuple[float, float]] = []
    for i in np.argsort(-(y * x / np.maximum(1 - x, 1e-9)))[:names]:
        left = x[i] > 0.7 * end
        crowded = any(abs(x[i] - a) < 0.08 * end and abs(y[i] - b) < 0.08 * end for a, b in named)
        named.append((x[i], y[i]))
        ax.annotate(
            plain(marks[i][0]), xy=(x[i], y[i]), xytext=(-6 if left else 6, -9 if crowded else 4), textcoords="offset points",
            ha="right" if left else "left", fontsize=8, color=INK,
        )  # fmt: skip
