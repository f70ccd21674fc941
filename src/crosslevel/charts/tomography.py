"""The two pictures of a 2 x 2 ecological inference: tomography lines, and outcome against composition.

Two groups, two outcomes: what pictures need of counts, checked tables or estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.charts.chart import Axis, Chart, Mark, Panel
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import GRAY, INK, PALE, VERMILION
from crosslevel.data.checks import check_kind
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError
from crosslevel.numerics.truncated_normal import log_interval, truncated_quantile
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from dataclasses import dataclass

from crosslevel.data import checks, frames


@dataclass(frozen=True)
class Margins:
    """What the pictures show.

    X, T : (n,) share of the first group, share with the first outcome; N : (n,) people; groups, outcomes : two names each
    """

    X: FloatArray
    T: FloatArray
    N: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]


def read_margins(groups: object, outcomes: object) -> Margins:
    """Read counts, checked tables or estimates."""
    if isinstance(groups, Estimates):
        if outcomes is not None:
            raise InputError("outcomes has no place beside estimates, which hold the counts already; leave it out.")
        cells = _unit_cells(groups)
        names = [list(dict.fromkeys(by_unit(groups).table[k].to_pylist())) for k in ("group", "outcome")]
        return _shares(cells.sum(axis=2), cells.sum(axis=1), *names)
    if outcomes is None:
        groups = getattr(groups, "tables", groups)
        if not all(hasattr(groups, name) for name in ("X", "T", "groups", "outcomes")):
            raise InputError(
                "outcomes is missing; pass units x 2 outcomes, or as groups alone checked tables or estimates."
            )
        checked: Any = groups
        return _shares(checked.X, checked.T, checked.groups, checked.outcomes)
    X, group_names = _counts(groups, "groups", "group")
    T, outcome_names = _counts(outcomes, "outcomes", "outcome")
    if len(X) != len(T):
        raise InputError(f"groups has {len(X):,} units and outcomes {len(T):,}; pass both for the same units.")
    return _shares(X, T, group_names, outcome_names)


def _counts(given: object, argument: str, word: str) -> tuple[FloatArray, list[str]]:
    if frames.is_frame(given):
        table = frames.to_arrow(given, argument)
        names = list(table.column_names)
        array = np.column_stack([frames.column(table, name, argument) for name in names]) if names else np.empty((0, 0))
    else:
        array = checks.as_numbers(given, argument, 2)
        names = [f"{word}_{j}" for j in range(array.shape[1])]
    return checks.check_counts(array, argument, 2), names


def _shares(X: FloatArray, T: FloatArray, groups: Sequence[str], outcomes: Sequence[str]) -> Margins:
    if len(groups) != 2 or len(outcomes) != 2:
        raise InputError(
            f"this picture is of 2 x 2 tables and these have {len(groups)} groups and {len(outcomes)} outcomes; pass two of "
            "each, for example one group against all others."
        )
    N, total = X.sum(axis=1), T.sum(axis=1)
    there = (N > 0) & (total > 0)
    if not there.any():
        raise InputError("groups has no unit with people; there is nothing to draw.")
    X, T, N, total = X[there], T[there], N[there], total[there]
    return Margins(X[:, 0] / N, T[:, 0] / total, N, tuple(groups), tuple(outcomes))


def by_unit(estimates: Estimates) -> Estimates:
    """Give the answers by unit, group and outcome."""
    if estimates.units is None or estimates.units.keys != ("unit", "group", "outcome"):
        raise InputError(
            "estimates have no answers by unit, group and outcome; pass those of a method of 2 x 2 tables."
        )
    return estimates.units


def _unit_cells(estimates: Estimates) -> FloatArray:
    """(n_units, 2, 2) counts."""
    found = by_unit(estimates)["count"]
    if len(estimates) != 4 or len(found) % 4:
        raise InputError(f"estimates have {len(estimates)} cells; this picture is of 2 x 2 tables, which have four.")
    return np.asarray(found, dtype=np.float64).reshape(-1, 2, 2)


def unit_shares(estimates: Estimates, column: str, n: int) -> FloatArray:
    """Give one column as shares with the first outcome, (n_units, 2); NaN where a group has nobody."""
    _unit_cells(estimates)
    found = np.asarray(by_unit(estimates)[column], dtype=np.float64).reshape(-1, 2, 2)[:, :, 0]
    if len(found) != n:
        raise InputError(
            f"estimates have {len(found):,} units and groups {n:,} with people; pass both for the same units."
        )
    return found


def true_shares(truth: object, estimates: Estimates | None, n: int) -> FloatArray | None:
    """Give the true shares of both groups, (n_units, 2), when asked for."""
    if truth is None or truth is False:
        return None
    if truth is True:
        if estimates is None or "truth" not in by_unit(estimates).table.column_names:
            raise InputError(
                "truth=True needs estimates whose .units have a column 'truth'; pass the shares, (n_units, 2)."
            )
        return unit_shares(estimates, "truth", n)
    found = checks.as_numbers(truth, "truth", 2)
    if found.shape != (n, 2):
        raise InputError(
            f"truth has shape {found.shape}; pass both groups' shares in every unit with people, ({n}, 2)."
        )
    return found


CONTOURS = (0.5, 0.95)
BAND = 0.8
_STRATA = (400, 60)  # points of the fitted distribution, by first and by second coordinate


@checked
def tomography(
    groups: object,
    outcomes: object = None,
    *,
    units: Sequence[object] | None = None,
    estimates: Estimates | None = None,
    truth: object = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the line of every unit in the square of the two groups' shares: all that its totals leave possible.

    A unit's line is short where the bounds are narrow. Where lines cross there is evidence, if units are alike.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x 2 groups and units x 2 outcomes; or ``groups`` alone: checked tables, or 2 x 2 estimates with
        ``.units``.
    units : sequence, optional
        Names of units to draw in ink, over the others. Without estimates, or with arrays, their row numbers.
    estimates : Estimates, optional
        2 x 2 estimates of the same units: each is a point on its line. Those of ``king`` also give contours: the ellipses
        within which half and 95 % of the fitted distribution lie, after it is cut to the square.
    truth : True or array of shape (n_units, 2), optional
        The true shares, as open diamonds; True for the column ``truth`` of ``estimates.units``.
    legend : bool
        Explain the marks.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = tomography({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> ax.get_xlabel(), len(ax.collections[0].get_segments())
    ('share of young: yes', 2)
    """
    margins = read_margins(groups, outcomes)
    estimates = _estimates_of(groups, estimates)
    points = None if estimates is None else unit_shares(estimates, "estimate", len(margins.X))
    true = true_shares(truth, estimates, len(margins.X))
    chosen = _chosen(units, estimates, len(margins.X))
    n = len(margins.X)
    ends = _segments(margins)
    tables = {"lines": pa.table(dict(zip(("x", "y", "x2", "y2"), ends.reshape(n, 4).T, strict=True)))}
    faint = float(np.clip(20.0 * n**-0.8, 0.015, 0.7))  # thousands of lines must show where they cross most
    many = n >= 1000
    line: dict[str, Any] = {"x": "x", "y": "y", "x2": "x2", "y2": "y2"}
    look: dict[str, Any] = {"color": GRAY, "width": 0.5 if many else 0.9, "alpha": faint}
    marks = [Mark("interval", **line, data="lines", **look, label="what totals allow")]
    if len(chosen):
        tables["named"] = tables["lines"].take(pa.array(chosen))
        marks.append(Mark("interval", **line, data="named", color=INK, width=1.6, label="units named"))
    if estimates is not None and _is_king(estimates):
        for level, xy, dash in _contours(estimates):
            name = f"contour{100 * level:g}"
            tables[name] = pa.table({"x": xy[:, 0], "y": xy[:, 1], "turn": np.arange(float(len(xy)))})
            words = f"{100 * level:g} % of the fit"
            marks.append(
                Mark("line", "x", "y", data=name, color=VERMILION, width=1.4, dash=dash, order="turn", label=words)
            )
    if true is not None:
        tables["truth"] = pa.table({"x": true[:, 0], "y": true[:, 1]})
        look = {"color": VERMILION, "shape": "diamond", "filled": False}
        marks.append(Mark("dot", "x", "y", data="truth", size=12.0, alpha=0.3 if many else 0.7, label="truth", **look))
    if points is not None:
        tables["points"] = pa.table({"x": points[:, 0], "y": points[:, 1]})
        size = float(np.clip(2500.0 / n, 3.0, 18.0))
        marks.append(Mark("dot", "x", "y", data="points", size=size, alpha=0.3 if many else 0.8, label="estimate"))
    x, y = (Axis(f"share of {group}: {margins.outcomes[0]}", limits=(-0.01, 1.01)) for group in margins.groups)
    chart = Chart(
        name="tomography",
        title=f"{n:,} unit{'s' if n > 1 else ''}: what each allows",
        caption="A line for each unit: all pairs of shares that its totals allow. Lines are short where the bounds are narrow.",
        panels=[Panel(marks, x, y)],
        tables=tables,
        tips={"x": x.title, "y": y.title},
        height=420,
        inches=(7.4, 5.6),
    )
    return draw(chart, ax, legend=legend)


@checked
def xt(
    groups: object,
    outcomes: object = None,
    *,
    estimates: Estimates | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share with the first outcome against the share of the first group, one mark per unit, sized by its people.

    The fan holds every straight line through the district's totals whose ends (the two groups' shares) respect the
    district's bounds; Goodman's line, weighted by people, may leave it. A bend in the cloud is evidence against
    constant shares.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        As in :func:`tomography`.
    estimates : Estimates, optional
        Those of ``king``: the mean of T that the fitted model expects at each X, and its middle 80 %. With covariates, at
        their means.
    legend : bool
        Explain the marks.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = xt({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('share of young', 'share with yes')
    """
    margins = read_margins(groups, outcomes)
    estimates = _estimates_of(groups, estimates)
    if estimates is not None and not _is_king(estimates):
        raise InputError(
            f"estimates come from {estimates.method!r}, which fits no distribution of T given X; pass those of king, or none."
        )
    X, T, N = margins.X, margins.T, margins.N
    n = len(X)
    low, high = _fan(margins)
    grid = np.linspace(0.0, 1.0, 101)
    one, other = low[1] + (low[0] - low[1]) * grid, high[1] + (high[0] - high[1]) * grid
    size = np.clip(150.0 * np.sqrt(20.0 / max(n, 20)) * N / N.max(), 3.0, None)
    tables = {
        "fan": pa.table({"x": grid, "low": np.minimum(one, other), "high": np.maximum(one, other)}),
        "units": pa.table({"x": X, "y": T, "people": N, "area": size}),
    }
    marks = [Mark("band", "x", "low", y2="high", data="fan", color=PALE, label="bounds of the district")]
    if estimates is not None:
        tables["expected"] = _expected(estimates)
        words = f"{100 * BAND:g} % of T given X (king)"
        marks.append(Mark("band", "x", "low", y2="high", data="expected", alpha=0.18, label=words))
        marks.append(Mark("line", "x", "mean", data="expected", width=1.8, label="mean of T given X (king)"))
    faint = float(np.clip(6.0 / np.sqrt(n), 0.12, 0.7))
    marks.append(Mark("dot", "x", "y", data="units", color=INK, size="area", alpha=faint, label="unit, by its people"))
    slope = _goodman(X, T, N)
    if slope is not None:
        tables["goodman"] = pa.table({"x": [0.0, 1.0], "y": [float(slope[1]), float(slope[0])]})
        label = "Goodman, by people"
        marks.append(Mark("line", "x", "y", data="goodman", color=VERMILION, width=1.5, dash=True, label=label))
    x, y = (
        Axis(w, limits=(-0.01, 1.01)) for w in (f"share of {margins.groups[0]}", f"share with {margins.outcomes[0]}")
    )
    chart = Chart(
        name="xt",
        title="Outcome against composition",
        caption="A dot for each unit, its area the number of people; a bend in the cloud is evidence against constant shares.",
        panels=[Panel(marks, x, y)],
        tables=tables,
        tips={"x": x.title, "y": y.title, "people": "people"},
        note="all units have one composition: no line can be fitted" if slope is None else "",
        inches=(8.4, 4.6),
    )
    return draw(chart, ax, legend=legend)


def _chosen(units: Sequence[object] | None, estimates: Estimates | None, n: int) -> npt.NDArray[np.intp]:
    """Number the units to draw in ink."""
    if units is None:
        return np.empty(0, dtype=np.intp)
    names = list(range(n)) if estimates is None else by_unit(estimates).table["unit"].to_pylist()[::4]
    place = {name: i for i, name in enumerate(names)}
    strangers = [u for u in units if u not in place]
    if strangers:
        raise InputError(
            f"units has {strangers[0]!r}, which is no unit; pass names of the estimates' units, or row numbers without them."
        )
    return np.array([place[u] for u in units], dtype=np.intp)


def _segments(margins: Margins) -> FloatArray:
    """Give the two ends of every unit's line inside the square: (n, 2 ends, 2 coordinates)."""
    X, T = margins.X, margins.T
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.clip((T - (1 - X)) / X, 0, 1), np.clip(T / X, 0, 1)
        at_low, at_high = (np.clip((T - X * b) / (1 - X), 0, 1) for b in (low, high))
    none, only = X <= 0, X >= 1  # a group alone: its share is T, the other's anything
    b = np.stack([np.where(none, 0.0, np.where(only, T, low)), np.where(none, 1.0, np.where(only, T, high))], axis=1)
    w = np.stack(
        [np.where(none, T, np.where(only, 0.0, at_low)), np.where(none, T, np.where(only, 1.0, at_high))], axis=1
    )
    return np.stack([b, w], axis=2)


def _fan(margins: Margins) -> tuple[FloatArray, FloatArray]:
    """Give the two extreme pairs of district shares, each (first group, second group)."""
    X, T, N = margins.X, margins.T, margins.N
    people, with_outcome = float(N @ X), float(N @ T)
    others = float(N.sum()) - people
    cells = float(N @ np.maximum(0.0, X + T - 1.0)), float(N @ np.minimum(X, T))
    # a group without anybody may have any share; the fan then spans the square on its side
    first = [cell / people if people > 0 else float(k) for k, cell in enumerate(cells)]
    second = [(with_outcome - cell) / others if others > 0 else 1.0 - k for k, cell in enumerate(cells)]
    low, high = (np.clip([b, w], 0.0, 1.0) for b, w in zip(first, second, strict=True))
    return low, high


def _goodman(X: FloatArray, T: FloatArray, N: FloatArray) -> FloatArray | None:
    """Regress by people; None where compositions do not differ."""
    center = N @ X / N.sum()
    spread = N @ (X - center) ** 2
    if spread <= 1e-12 * N.sum():
        return None
    slope = N @ ((X - center) * T) / spread
    start = N @ T / N.sum() - slope * center
    return np.array([start + slope, start])


def _estimates_of(groups: Any, estimates: Estimates | None) -> Estimates | None:
    """Give the estimates to draw: those given, or those whose units are drawn."""
    if estimates is None:
        return groups if isinstance(groups, Estimates) else None
    check_kind(estimates, Estimates, "estimates", "pass the table that king(...) gives")
    return estimates


def _is_king(estimates: Estimates) -> bool:
    return {"mean", "sd", "rho"} <= set(estimates.diagnostics)


def _fitted(estimates: Estimates) -> tuple[FloatArray, FloatArray, float]:
    mean, sd = (np.array(estimates.diagnostics[name], dtype=np.float64) for name in ("mean", "sd"))
    return mean, sd, float(estimates.diagnostics["rho"])


def _points(mean: FloatArray, sd: FloatArray, rho: float) -> tuple[FloatArray, FloatArray]:
    """Spread points evenly over the cut distribution: (k, 2), and their weights, which add up to one."""
    u, v = (np.arange(k) / k + 0.5 / k for k in _STRATA)
    b = truncated_quantile(u, mean[0], sd[0], 0.0, 1.0)
    center, spread = mean[1] + rho * sd[1] / sd[0] * (b - mean[0]), sd[1] * np.sqrt(1.0 - rho * rho)
    w = truncated_quantile(v[None, :], center[:, None], spread, 0.0, 1.0)
    log_weight = log_interval(-center / spread, (1.0 - center) / spread)
    weight = np.repeat(np.exp(log_weight - log_weight.max()), len(v))
    return np.column_stack([np.repeat(b, len(v)), w.ravel()]), weight / weight.sum()


def _quantiles(values: FloatArray, weight: FloatArray, levels: Sequence[float]) -> FloatArray:
    order = np.argsort(values)
    return np.interp(levels, np.cumsum(weight[order]), values[order])


def _contours(estimates: Estimates) -> list[tuple[float, FloatArray, bool]]:
    """Give (share, outline, dashed) of the ellipses of equal density that hold these shares of the cut distribution."""
    mean, sd, rho = _fitted(estimates)
    points, weight = _points(mean, sd, rho)
    z = (points - mean) / sd
    distance = np.sqrt((z[:, 0] ** 2 - 2 * rho * z[:, 0] * z[:, 1] + z[:, 1] ** 2) / (1 - rho**2))
    turn = np.linspace(0.0, 2 * np.pi, 721)
    circle = np.column_stack([np.cos(turn), rho * np.cos(turn) + np.sqrt(1 - rho**2) * np.sin(turn)])
    radii = _quantiles(distance, weight, CONTOURS)
    return [(level, mean + r * sd * circle, level > 0.5) for level, r in zip(CONTOURS, radii, strict=True)]


def _expected(estimates: Estimates) -> pa.Table:
    """Give the mean of T given X and its middle part."""
    points, weight = _points(*_fitted(estimates))
    X = np.linspace(0.0, 1.0, 41)
    T = [points @ np.array([x, 1.0 - x]) for x in X]
    low, high = np.array([_quantiles(t, weight, [(1 - BAND) / 2, (1 + BAND) / 2]) for t in T]).T
    return pa.table({"x": X, "mean": [float(t @ weight) for t in T], "low": low, "high": high})
