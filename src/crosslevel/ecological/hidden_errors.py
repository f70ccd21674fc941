"""Learn how far subgroups are off for reasons that totals cannot show, from columns that were hidden and are known.

For every hidden column, group and level the error of the model on the logit scale is compared with what the model's own draws allow;
what is left over is one variance, tau^2 (omega^2 more within places), times a factor that knows how much of a group's confounding
the matched totals take away. How far estimates are shrunk toward the places' own rates is chosen per column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special, stats

from crosslevel.ecological.confounding import FALLBACK, Confounding, LearnedConfounding, shrink, variance_factors
from crosslevel.ecological.covariance import Hyperparameters
from crosslevel.ecological.quantities import summing
from crosslevel.numerics.excess_variance import paule_mandel
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.results.scores import coverage, interval_score
from crosslevel.typing import FloatArray, IntArray

__all__ = [
    "Dimension",
    "Errors",
    "Task",
    "confounding_of",
    "errors_of",
    "learn_confounding",
    "learn_shrinkage",
    "scores_of",
]


SHRINKAGES = tuple(k / 20 for k in range(13))
FEW = 3
"""Fewer hidden columns than this tell less than the shipped value."""
ENOUGH = 8
"""From this many on the normal quantile serves."""
LEAST_PEOPLE = 100
"""Groups of places with fewer people have no truth to speak of."""
LEAST_SHAPE = 1e-4
"""Groups of a smaller K are nearly everybody where they live: matched totals leave them no error to learn from, only rounding."""


@dataclass(frozen=True, eq=False)
class Dimension:
    """Groups of one column in every place: what the model says and what is true.

    Attributes
    ----------
    name : str
    levels : tuple of str
    place, level : (m,) int
    share : (m,)
        Of the place's people.
    weight : (m,)
    count, effective : (m,)
        People behind it, and Kish's number of them.
    rate : (n_draws, m)
        Draws that add up to the place's total.
    truth : (m,)
    """

    name: str
    levels: tuple[str, ...]
    place: IntArray
    level: IntArray
    share: FloatArray
    weight: FloatArray
    count: FloatArray
    effective: FloatArray
    rate: FloatArray
    truth: FloatArray


@dataclass(frozen=True, eq=False)
class Task:
    """A hidden column, learned back from its totals.

    Attributes
    ----------
    label : str
    total : (q,)
        Rate of each place.
    dimensions : tuple of Dimension
    hyperparameters : Hyperparameters
    share : float
        Of everybody.
    hidden : tuple of str
        Columns that were not among the features: the label's own, those named with it, and those that nearly determine it.
    """

    label: str
    total: FloatArray
    dimensions: tuple[Dimension, ...]
    hyperparameters: Hyperparameters
    share: float
    hidden: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of the groups of one column, on the logit scale.

    Attributes
    ----------
    error, variance, K, own : (n_groups,)
        Over all places: truth less estimate, variance of the draws, and what tau^2 and omega^2 are multiplied with.
    estimate, truth, neighborhood : (n_groups,)
        Rates.
    people : (n_groups,)
    place_error, place_variance, place_shape, place_noise, place_people : (m,)
        Likewise for groups of places; ``noise`` is the variance of the truth itself.
    place_estimate, place_truth, place_neighborhood : (m,)
    """

    error: FloatArray
    variance: FloatArray
    K: FloatArray
    own: FloatArray
    estimate: FloatArray
    truth: FloatArray
    neighborhood: FloatArray
    people: FloatArray
    place_error: FloatArray
    place_variance: FloatArray
    place_shape: FloatArray
    place_noise: FloatArray
    place_people: FloatArray
    place_estimate: FloatArray
    place_truth: FloatArray
    place_neighborhood: FloatArray


def errors_of(task: Task, dimension: Dimension, amount: float, least: int = LEAST_PEOPLE) -> Errors:
    """Compare draws with the truth, after shrinking them.

    Parameters
    ----------
    task : Task
    dimension : Dimension
        One of the task's.
    amount : float
        lambda.
    least : int
        People a group of a place must have.
    """
    d, y = dimension, task.total
    rate = d.rate
    if amount:
        near = special.logit(np.clip(y, 1e-9, 1.0 - 1e-9))[d.place]
        rate = shift_to_total(shrink(special.logit(d.rate), near, amount), d.share, d.place, y).rate
    rate = np.clip(rate, 1e-9, 1.0 - 1e-9)
    n_levels = len(d.levels)
    shape = variance_factors(rate.mean(axis=0), d.share, d.weight, d.place, d.level)
    there = np.unique(d.level)
    there = there[shape.level[there] >= LEAST_SHAPE]
    add = summing(d.level, n_levels)[there]
    people = add @ d.weight
    whole = (add @ (rate * d.weight).T).T / people
    P = np.clip(whole.mean(axis=0), 1e-9, 1.0 - 1e-9)
    T = (add @ (d.truth * d.weight)) / people
    p = rate.mean(axis=0)
    enough = (d.count >= least) & (shape.part >= LEAST_SHAPE)
    smooth = (d.truth * d.effective + 0.5) / (d.effective + 1.0)
    noise = np.clip(1.0 - d.share, 0.0, 1.0) / np.maximum(d.effective * p * (1.0 - p), 1e-9)
    return Errors(
        special.logit(_open(T, people)) - special.logit(P),
        special.logit(np.clip(whole, 1e-9, 1.0 - 1e-9)).var(axis=0, ddof=1),
        shape.level[there],
        shape.level_own[there],
        P,
        T,
        (add @ (y[d.place] * d.weight)) / people,
        people,
        (special.logit(smooth) - special.logit(p))[enough],
        special.logit(rate).var(axis=0, ddof=1)[enough],
        shape.part[enough],
        noise[enough],
        d.weight[enough],
        p[enough],
        d.truth[enough],
        y[d.place][enough],
    )


def _open(rate: FloatArray, people: FloatArray) -> FloatArray:
    return np.asarray((rate * people + 0.5) / (people + 1.0))


def learn_confounding(tasks: Sequence[Task], level: float = 0.95) -> LearnedConfounding:
    """Learn tau, omega and shrinkage from hidden columns, and check them leaving out one column at a time.

    Parameters
    ----------
    tasks : sequence of Task
    level : float
        Level of the intervals that are checked.
    """
    memory: dict[tuple[int, str, float], Errors] = {}

    def errors(t: int, d: Dimension, amount: float) -> Errors:
        key = (t, d.name, amount)
        if key not in memory:
            memory[key] = errors_of(tasks[t], d, amount)
        return memory[key]

    def learn(chosen: Sequence[int]) -> tuple[Confounding, dict[str, float]]:
        shrinkage = learn_shrinkage(
            [tasks[t] for t in chosen], lambda task, d, amount: errors(tasks.index(task), d, amount)
        )
        found = [errors(t, d, shrinkage[d.name]) for t in chosen for d in tasks[t].dimensions]
        return confounding_of(found, len(chosen)), shrinkage

    rows = []
    for t, task in enumerate(tasks):
        others = [k for k in range(len(tasks)) if k != t]
        confounding, shrinkage = learn(others) if others else (FALLBACK, {})
        found = [errors(t, d, shrinkage.get(d.name, 0.0)) for d in task.dimensions]
        rows.append({"label": task.label, "share": task.share, **scores_of(found, confounding, level)})
    table = pa.Table.from_pylist(rows)
    confounding, shrinkage = learn(range(len(tasks)))
    return LearnedConfounding(
        confounding,
        shrinkage,
        tuple(task.label for task in tasks),
        _mean(table["coverage"].to_numpy()),
        _mean(table["place_coverage"].to_numpy()),
        table,
        level,
    )


def _mean(values: FloatArray) -> float:
    """Average what there is, NaN where there is nothing."""
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else float("nan")


def learn_shrinkage(
    tasks: Sequence[Task], errors: Callable[[Task, Dimension, float], Errors] = errors_of
) -> dict[str, float]:
    """Choose how far the groups of every column are shrunk: the share with the smallest mean error over hidden columns.

    Parameters
    ----------
    tasks : sequence of Task
    errors : callable, optional
        In place of :func:`errors_of`, for one that remembers.
    """
    shrinkage = {}
    for name in dict.fromkeys(d.name for task in tasks for d in task.dimensions):
        mine = [(task, d) for task in tasks for d in task.dimensions if d.name == name]
        found = [[errors(task, d, amount) for task, d in mine] for amount in SHRINKAGES]
        losses = [_mean(np.array([_mean(np.abs(e.estimate - e.truth)) for e in several])) for several in found]
        shrinkage[name] = SHRINKAGES[int(np.nanargmin(losses))] if np.isfinite(losses).any() else 0.0
    return shrinkage


def confounding_of(found: Sequence[Errors], n_labels: int) -> Confounding:
    """Learn tau and omega from the errors of hidden columns; the shipped ones where they are too few."""
    if n_labels < FEW or not any(len(e.error) for e in found):
        return FALLBACK
    tau2 = paule_mandel(*(np.concatenate([getattr(e, n) for e in found]) for n in ("error", "variance", "K")))
    parts = [e for e in found if len(e.place_error)]
    omega2 = FALLBACK.omega**2
    if parts:
        weight = np.concatenate([e.place_people / e.place_people.sum() for e in parts])
        within = paule_mandel(
            np.concatenate([e.place_error for e in parts]),
            np.concatenate([e.place_variance + e.place_noise for e in parts]),
            np.concatenate([e.place_shape for e in parts]),
            weight,
        )
        omega2 = max(0.0, within - tau2)
    degrees = None if n_labels >= ENOUGH else float(n_labels + 1)
    return Confounding(float(np.sqrt(tau2)), float(np.sqrt(omega2)), n_labels, degrees)


def _quantile(confounding: Confounding, level: float) -> float:
    tail = 0.5 * (1.0 + level)
    return float(stats.norm.ppf(tail) if confounding.degrees is None else stats.t.ppf(tail, confounding.degrees))


def scores_of(found: Sequence[Errors], confounding: Confounding, level: float = 0.95) -> dict[str, float]:
    """Score intervals of groups over all places and within places: shares, points of a share as fractions.

    Every group counts alike over all places; within places people do.
    """
    z, tau2, omega2 = _quantile(confounding, level), confounding.tau**2, confounding.omega**2
    P, T, near = (np.concatenate([getattr(e, n) for e in found]) for n in ("estimate", "truth", "neighborhood"))
    spread = np.sqrt(np.concatenate([e.variance + tau2 * e.K + omega2 * e.own for e in found]))
    low, high = special.expit(special.logit(P) - z * spread), special.expit(special.logit(P) + z * spread)
    said: dict[str, Any] = {
        "groups": len(P),
        "error": _mean(np.abs(P - T)),
        "neighborhood_error": _mean(np.abs(near - T)),
        "coverage": coverage(low, high, T) if len(P) else np.nan,
        "width": _mean(high - low),
        "score": interval_score(low, high, T, level) if len(P) else np.nan,
    }
    p, t, w = (np.concatenate([getattr(e, f"place_{n}") for e in found]) for n in ("estimate", "truth", "people"))
    if not len(p):
        return said | dict.fromkeys(
            ("place_rmse", "place_neighborhood_rmse", "place_coverage", "place_width", "place_score"), np.nan
        )
    w = w / w.sum()
    near = np.concatenate([e.place_neighborhood for e in found])
    spread = np.sqrt(
        np.concatenate([e.place_variance + e.place_noise + (tau2 + omega2) * e.place_shape for e in found])
    )
    low, high = special.expit(special.logit(p) - z * spread), special.expit(special.logit(p) + z * spread)
    return said | {
        "place_rmse": float(np.sqrt(w @ (p - t) ** 2)),
        "place_neighborhood_rmse": float(np.sqrt(w @ (near - t) ** 2)),
        "place_coverage": float(w @ ((low <= t) & (t <= high))),
        "place_width": float(w @ (high - low)),
        "place_score": interval_score(low, high, t, level, w),
    }
