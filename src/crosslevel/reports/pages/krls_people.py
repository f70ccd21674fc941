"""What a fitted KRLS knows of its rows, as tables for charts: effects at rows, curves with bands, distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.frames import to_arrow
from crosslevel.errors import CrosslevelError, InputError
from crosslevel.krls import KRLS
from crosslevel.krls.estimator import KernelEstimator
from crosslevel.reports.pages.parts import fifths, level_names, sample
from crosslevel.typing import FloatArray

__all__ = ["Curve", "Seen", "curve_table", "read_groups", "see", "smooth", "spread_table"]


MOST_ROWS = 1500
"""Rows of a fit that two charts of dots show; a browser draws each twice and asks for an answer within a second."""
FEW_VALUES = 12
"""A covariate with no more values than this has an average at each value."""
GRID = 41
MOST_CURVE_ROWS = 25_000
"""Points of all curves together; with many covariates each gets fewer."""
WORK = 5e10
"""Multiplications that bands of effects may take; beyond, fewer rows stand behind the curves."""
FEWEST = 200
BINS = 40


@dataclass(frozen=True, eq=False)
class Seen:
    """The rows that charts show.

    Attributes
    ----------
    rows : (r,)
        Their places among the rows of the fit.
    n : int
        Rows of the fit.
    X : (r, P)
        Covariates, factors as columns of 0 and 1.
    effect : (r, E)
        Effects of the fit at the rows.
    weight : (r,)
    fitted : (r,)
    colors : mapping of words to names
        What rows may be coloured by: the class of each row, (r,).
    behind : (b,)
        Which of the rows stand behind the curves.
    middle, low, high : (b, E)
        Effects there with their band; without a posterior all three are the effects of the fit.
    posterior : bool
        Whether there is one.
    """

    rows: npt.NDArray[np.intp]
    n: int
    X: FloatArray
    effect: FloatArray
    weight: FloatArray
    fitted: FloatArray
    colors: Mapping[str, Sequence[str | None]]
    behind: npt.NDArray[np.intp]
    middle: FloatArray
    low: FloatArray
    high: FloatArray
    posterior: bool


@dataclass(frozen=True, eq=False)
class Curve:
    """Averages along one covariate: ``at`` (g,), ``middle``, ``low`` and ``high`` (g, E)."""

    at: FloatArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray


def read_groups(groups: Any, n: int) -> pa.Table | None:
    """Read columns of labels, one for each of the n rows that fit was given."""
    if groups is None:
        return None
    plain = isinstance(groups, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray)
    try:
        table = pa.table({"group": groups}) if plain else to_arrow(groups, "groups")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"groups cannot be read ({error}); pass a label per row, or columns of labels.") from error
    if table.num_rows != n:
        raise InputError(f"groups has {table.num_rows:,} rows and the model {n:,}; pass a label for every row of fit.")
    return table


def see(model: KernelEstimator, level: float, groups: pa.Table | None = None) -> Seen:
    """Choose rows of the fit, and give their covariates, effects with bands, and classes of colour.

    Parameters
    ----------
    model : KRLS or KernelLogistic
    level : float
        Of the band.
    groups : pyarrow.Table, optional
        Labels of the rows that fit was given.
    """
    fit = model._model
    cells, used = fit.cells, np.flatnonzero(model._used)
    rows = sample(len(used), MOST_ROWS)
    cell = cells.row[rows]
    k = len(cells.m) if fit.spectrum is None else len(fit.spectrum.w)
    behind = sample(len(rows), _affordable(len(cells.m), k, len(model._effects)))
    band = _bands(model, cell[behind], level)
    fitted = model.fitted_[used[rows]]
    colors: dict[str, Sequence[str | None]] = {"fitted outcome, in fifths": fifths(fitted)}
    colors |= _factors(model, cells.X[cell])
    if groups is not None:
        at = pa.array(used[rows])
        colors |= {f"group: {n}": level_names(groups[n].take(at).to_pylist()) for n in groups.column_names}
    weights = model._rows.weights
    weight = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)[rows]
    effect = model._pointwise[cell]
    if band is None:
        behind = np.arange(len(rows))
    middle, low, high = (effect, effect, effect) if band is None else band
    return Seen(
        rows=used[rows],
        n=len(used),
        X=cells.X[cell],
        effect=effect,
        weight=weight,
        fitted=fitted,
        colors=colors,
        behind=behind,
        middle=middle,
        low=low,
        high=high,
        posterior=band is not None,
    )


def _bands(
    model: KernelEstimator, cell: npt.NDArray[np.intp], level: float
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Give effects with their band at distinct rows; None for log odds, and for large models that were loaded."""
    if not isinstance(model, KRLS):
        return None
    distinct, back = np.unique(cell, return_inverse=True)
    try:
        band = model._bands(range(len(model._effects)), model._model.cells.X[distinct], level)
    except CrosslevelError:
        return None
    shape = (len(model._effects), len(distinct))
    middle, low, high = (band[n].reshape(shape).T[back] for n in ("estimate", "conf_low", "conf_high"))
    return middle, low, high


def _affordable(distinct: int, vectors: int, effects: int) -> int:
    return int(np.clip(WORK / (4.0 * distinct * vectors * effects), FEWEST, MOST_ROWS))


def _factors(model: KernelEstimator, X: FloatArray) -> dict[str, Sequence[str | None]]:
    """Give the level of each factor back from its columns of 0 and 1."""
    out: dict[str, Sequence[str | None]] = {}
    for column, places in model.encoding_.places():
        if column.name in model.encoding_.factors:
            own, levels = X[:, places], model.encoding_.factors[column.name]
            code = np.where(own.any(axis=1), own.argmax(axis=1) + 1, 0)
            out[f"factor: {column.name}"] = level_names([levels[c] for c in code.tolist()])
    return out


def smooth(x: FloatArray, values: Sequence[FloatArray], weight: FloatArray, grid: int = GRID) -> Curve:
    """Average effects and the ends of their bands along a covariate.

    At a covariate of few values these are means at each value; otherwise means with normal weights around points between its 1st
    and 99th percentile, of the usual width 1.06 sd n^(-1/5). Ends of the band are averaged as the effects are: the average of
    quantities that are each within so much of their estimate is, with errors that go together, within the average of that.

    Parameters
    ----------
    x : (n,)
    values : three of (n, E)
        Effects, lower and upper ends.
    weight : (n,)
    grid : int

    Examples
    --------
    >>> effect = np.array([[1.0], [3.0], [5.0]])
    >>> found = smooth(np.array([0.0, 0.0, 1.0]), [effect, effect - 1, effect + 1], np.array([1.0, 3.0, 1.0]))
    >>> found.at.tolist(), found.middle[:, 0].tolist(), found.low[:, 0].tolist()
    ([0.0, 1.0], [2.5, 5.0], [1.5, 4.0])
    """
    distinct = np.unique(x)
    if len(distinct) <= FEW_VALUES:
        at = distinct
        W = (x[None, :] == at[:, None]) * weight
    else:
        ends = np.quantile(x, [0.01, 0.99])
        at = np.linspace(ends[0], ends[1], grid) if ends[1] > ends[0] else distinct[:: max(1, len(distinct) // grid)]
        total = weight.sum()
        sd = np.sqrt(weight @ (x - weight @ x / total) ** 2 / total)
        h = max(1.06 * sd * len(x) ** -0.2, 1e-12 + 0.5 * float(np.median(np.diff(at))) if len(at) > 1 else sd)
        W = np.exp(-0.5 * ((x[None, :] - at[:, None]) / h) ** 2) * weight
    W = W / W.sum(axis=1, keepdims=True)
    middle, low, high = (W @ v for v in values)
    return Curve(at, middle, low, high)


def curve_table(seen: Seen) -> pa.Table:
    """Make the table of all curves: every effect (e0, e1, ...) along every covariate (x0, x1, ...).

    Without a posterior the band is the range of the middle 95 % of rows around there, and no statement of confidence.
    """
    P, E = seen.X.shape[1], seen.effect.shape[1]
    grid = int(np.clip(MOST_CURVE_ROWS // max(P * E, 1), 9, GRID))
    parts: dict[str, list[Any]] = {n: [] for n in ("term", "along", "x", "effect", "low", "high")}
    for p in range(P):
        x = seen.X[seen.behind, p]
        found = smooth(x, [seen.middle, seen.low, seen.high], seen.weight[seen.behind], grid)
        low, high = (found.low, found.high) if seen.posterior else _ranges(x, seen.middle, found.at)
        for e in range(E):
            parts["term"] += [f"e{e}"] * len(found.at)
            parts["along"] += [f"x{p}"] * len(found.at)
            for name, values in (("x", found.at), ("effect", found.middle[:, e])):
                parts[name].append(values)
            parts["low"].append(low[:, e])
            parts["high"].append(high[:, e])
    numbers = {n: np.concatenate(parts[n]) for n in ("x", "effect", "low", "high")}
    return pa.table({"term": parts["term"], "along": parts["along"], **numbers})


def _ranges(x: FloatArray, effect: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the middle 95 % of effects among the rows nearest to each point."""
    few = len(np.unique(x)) <= FEW_VALUES
    near = max(20, len(x) // 20)
    low, high = np.empty((len(at), effect.shape[1])), np.empty((len(at), effect.shape[1]))
    for i, point in enumerate(at):
        rows = x == point if few else np.argsort(np.abs(x - point), kind="stable")[:near]
        low[i], high[i] = np.quantile(effect[rows], [0.025, 0.975], axis=0)
    return low, high


def spread_table(model: KernelEstimator) -> pa.Table:
    """Make histograms of the fitted effects over all rows: term, ends of the class, share of the rows."""
    m = model._model.cells.m
    parts: dict[str, list[Any]] = {n: [] for n in ("term", "from", "to", "share")}
    for e, values in enumerate(model._pointwise.T):
        low, high = float(values.min()), float(values.max())
        room = max(high - low, 1e-9 * max(abs(low), abs(high), 1e-300))
        edges = np.linspace(low - (room if high == low else 0.0), high + (room if high == low else 0.0), BINS + 1)
        counts, _ = np.histogram(values, edges, weights=m)
        parts["term"] += [f"e{e}"] * BINS
        parts["from"].append(edges[:-1])
        parts["to"].append(edges[1:])
        parts["share"].append(counts / m.sum())
    return pa.table({n: v if n == "term" else np.concatenate(v) for n, v in parts.items()})
