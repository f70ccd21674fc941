"""Tables that cannot flatter: every method stands beside the answers that need no method.

Beside imputed values always stand the group mean (*naive*), the ecological logistic regression on the same means, and what can be had
with the truth itself: a regression on the columns (*full information*), the same with a dummy per group (*x + group*), and the mean of
every distinct row (*saturated x*). The share of the way from naive to full information is the *lift*.

Where the means are those of the very people that are scored, chance is shared: a group that happens to have more old people in the sample
happens to have more of what old people have. ``aggregates_from`` says whose means are used: those of other people than the sample
(*disjoint*), or of a population of which the sample is a part.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse, special, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from crosslevel.data import checks, frames
from crosslevel.data.cells import Cells, gather, sums
from crosslevel.data.checks import align_rows, row_keys
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import ConvergenceError, InputError, unknown_name
from crosslevel.imputation.design import Design, learn_design
from crosslevel.imputation.inputs import read_grouped, read_tables
from crosslevel.imputation.match_means import match
from crosslevel.imputation.persons.model import Groups, Settings, fit_slopes
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import BoolArray, FloatArray, IntArray, Progress, RandomState

ALWAYS = ("naive group mean", "ecological logistic", "saturated x", "x + group", "full information")
SOURCES = ("sample", "population", "disjoint")
SHARED = (
    "The means are those of the very people that are scored, so that chance differences between groups are shared and the figures flatter; "
    "pass imputers and aggregates_from='disjoint'."
)
CLIP = 1e-6
"""A probability nearer to 0 or 1 than this is scored as this: nobody's log-likelihood is minus infinity."""
RIDGE = 1e-6
"""A millionth of a person's information: dummies of all levels have no unique solution."""
STEPS = 100
SLOPE_SD, MEAN_SD = 0.25, 0.015
"""Of the ecological regression: prior sd of a slope, and sd of group means around what their people explain."""


@dataclass(frozen=True, eq=False)
class _World:
    """Everything the rows of a table share."""

    X: FloatArray
    cells: Cells
    design: Design
    group: IntArray
    n_groups: int
    weight: FloatArray
    mean: FloatArray


@checked
def evaluate(
    X: Any,
    partition: Any,
    truth: Any,
    methods: Mapping[str, Any] | None = None,
    *,
    aggregates_from: str = "sample",
    sample_weight: Any = None,
    categorical: Sequence[str] | None = None,
    level: float = 0.95,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> Estimates:
    """Score imputed probabilities of a binary feature against the truth, beside what needs no imputation.

    Parameters
    ----------
    X : dataframe or array of shape (n, d)
    partition : array of labels, str, or frame of one column
    truth : array of shape (n,)
        0 and 1.
    methods : mapping of str to array or estimator
        Imputed probabilities, (n,), or a fitted estimator with ``transform(X, partition)``. With ``aggregates_from`` "disjoint" or
        "population" imputers, of which copies are fitted here.
    aggregates_from : {"sample", "population", "disjoint"}, default "sample"
        Whose means the methods get. "disjoint": the people of every group are halved at random, each half is imputed from the means of the
        other, and everybody is scored once. "population": each half is imputed from the means of both. "sample": these very people, whose
        chance differences the means then share; the table says so, and its figures flatter.
    sample_weight : array of shape (n,), optional
    categorical : sequence of str, optional
        Columns of numbers that are codes without order.
    level : float
        Of the interval of the log-likelihood, over persons.
    random_state : int, None, Generator or RandomState, default 0
        Of the halves.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the fits of imputers to halves done and of all.

    Returns
    -------
    Estimates
        ``estimate`` is the mean log-likelihood of a person; ``gain`` what it gains on the group mean, with the error of that
        difference; ``lift``, ``auc``, ``brier``, ``rmse_cells`` (of the mean of distinct rows, in which all that X tells shows) and
        the intercept and slope of a logistic regression of the truth on the logit (0 and 1 when calibrated). ``uses_truth`` says which
        rows nobody could have without it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group, x = np.repeat(np.arange(25), 80), rng.integers(0, 4, 2000)
    >>> y = rng.random(2000) < 0.1 + 0.2 * x
    >>> table = evaluate({"x": x}, group, y, {"always a half": np.full(2000, 0.5)})
    >>> table["method"].tolist()[:2], table["lift"][0]
    (['naive group mean', 'ecological logistic'], np.float64(0.0))
    >>> from crosslevel.imputation import CrossLevelImputer
    >>> evaluate({"x": x}, group, y, {"imputed": CrossLevelImputer()}, aggregates_from="disjoint").diagnostics["aggregates_from"]
    'disjoint'
    """
    y = _binary(align_rows(truth, row_keys(X), "truth"))
    if aggregates_from not in SOURCES:
        raise unknown_name("aggregates_from", aggregates_from, SOURCES, "choice")
    methods = methods or {}
    _refuse_taken(methods)
    world = _world(X, partition, y, sample_weight, categorical)
    if aggregates_from == "sample":
        checks.refuse_idle_arguments(
            evaluate,
            {"random_state": random_state, "progress": progress or None},
            "with aggregates_from='sample', which halves nobody",
        )
        parts = [(np.ones(len(y), dtype=bool), world.mean)]
    else:
        first = _half(world.group, np.random.default_rng(checks.read_seed(random_state)))
        others = aggregates_from == "disjoint"
        parts = [(own, _means(world, y, ~own) if others else world.mean) for own in (first, ~first)]
    rows = {n: np.empty(len(y)) for n in ALWAYS[:2]}
    for own, mean in parts:
        group, cells = world.group[own], gather(world.X[own], world.group[own], world.weight[own])
        rows["naive group mean"][own] = mean[group]
        rows["ecological logistic"][own] = ecological_logistic(cells, world.design, mean)[cells.pair]
    rows |= {
        "saturated x": saturated(world.cells.row, y, world.weight),
        "x + group": with_groups(world.cells, world.design, world.n_groups, y, world.weight)[world.cells.pair],
        "full information": logistic(world.cells, world.design, y, world.weight)[world.cells.row],
    }
    if aggregates_from == "sample":
        rows |= _given(methods, X, partition, sample_weight, len(y))
    else:
        rows |= _fitted(methods, X, partition, parts, None if sample_weight is None else world.weight, progress)
    said = (SHARED,) if aggregates_from == "sample" else ()
    return _table(rows, y, world, level, aggregates_from, said)


def _half(group: IntArray, rng: np.random.Generator) -> BoolArray:
    """Choose half of the people of every group at random, (n,)."""
    order = np.lexsort((rng.random(len(group)), group))
    size = np.bincount(group)
    if (size < 2).any():
        raise InputError(
            f"partition: {int((size < 2).sum())} group(s) have fewer than two people, who cannot be halved; leave them out, or pass "
            "aggregates_from='sample'."
        )
    chosen = np.empty(len(group), dtype=bool)
    chosen[order] = (np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)) % 2 == 0
    return chosen


def _means(world: _World, y: FloatArray, people: BoolArray) -> FloatArray:
    """Give the mean truth of some people in every group, (P,)."""
    group, weight = world.group[people], world.weight[people]
    total = sums(group, weight, world.n_groups)
    if (total <= 0).any():
        raise InputError("sample_weight is zero for half of a group; leave its people out, or give them a weight.")
    return sums(group, weight * y[people], world.n_groups) / total


def _fitted(
    methods: Mapping[str, Any],
    X: Any,
    partition: Any,
    parts: Sequence[tuple[BoolArray, FloatArray]],
    weight: FloatArray | None,
    progress: Progress | None,
) -> dict[str, FloatArray]:
    """Fit a copy of every imputer to each part of the people and the means it is given; impute that part."""
    people, labels, *_ = read_tables(X, partition)
    name = labels.column_names[0]
    keys = frames.group_rows(labels, name, "partition").keys.column(0)
    rows = {n: np.empty(len(people)) for n in methods}
    with count_steps(progress, "Fitting imputers", len(methods) * len(parts), "fits") as step:
        for method, imputer in methods.items():
            if not hasattr(imputer, "fit"):
                raise InputError(
                    f"methods[{method!r}] cannot be fitted to halves; pass an imputer, or aggregates_from='sample'."
                )
            for own, mean in parts:
                part = people.filter(pa.array(own)), labels.filter(pa.array(own))
                weights = None if weight is None else weight[own]
                fitted = clone(imputer).fit(*part, pa.table({name: keys, "hidden": mean}), sample_weight=weights)
                rows[method][own] = fitted.transform(*part, sample_weight=weights)[:, 0]
                if step is not None:
                    step()
    return rows


def calibration(p: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> tuple[float, float]:
    """Give intercept and slope of a logistic regression of the truth on the logit of p; NaN where p does not vary.

    Examples
    --------
    >>> y = np.array([1.0, 0, 0, 0, 0, 1, 1, 0])
    >>> intercept, slope = calibration(np.array([0.25] * 4 + [0.5] * 4), y)
    >>> round(abs(intercept), 4), round(slope, 4)
    (0.0, 1.0)
    """
    f = special.logit(np.clip(p, CLIP, 1.0 - CLIP))
    if f.max() - f.min() < 1e-9:
        return np.nan, np.nan
    values, code = np.unique(f, return_inverse=True)
    w = np.ones(len(y)) if weight is None else weight
    yes, n = sums(code.reshape(-1), w * y, len(values)), sums(code.reshape(-1), w, len(values))
    model = logistic_regression(values[:, None], yes, n)
    return float(model.intercept_[0]), float(model.coef_[0, 0])


def _world(X: Any, partition: Any, y: FloatArray, sample_weight: Any, categorical: Any) -> _World:
    given = read_grouped(X, partition, sample_weight, categorical=categorical)
    if len(given.schema.partitions) != 1:
        raise InputError("a table of scores is for one partition; evaluate them one by one.")
    people, P = given.people, len(given.schema.partitions[0])
    if len(y) != len(people.X):
        raise InputError(f"the truth has {len(y):,} values for {len(people.X):,} rows of X; pass one per person.")
    weight = np.ones(len(y)) if people.weight is None else people.weight
    cells = gather(people.X, people.group, people.weight)
    design = learn_design(cells.X, sums(cells.pair_cell, cells.weight, len(cells.X)), given.schema.columns)
    group = people.group[:, 0]
    mean = sums(group, weight * y, P) / sums(group, weight, P)
    return _World(people.X, cells, design, group, P, weight, mean)


def _refuse_taken(methods: Mapping[str, Any]) -> None:
    if not isinstance(methods, Mapping):
        raise InputError(f"methods is a {type(methods).__name__}; pass imputers or imputed values by name.")
    for name in methods:
        if name in ALWAYS:
            raise InputError(f"methods: {name!r} is the name of a row that is always shown; choose another.")


def _given(methods: Mapping[str, Any], X: Any, partition: Any, weight: Any, n: int) -> dict[str, FloatArray]:
    out, weighed = {}, {} if weight is None else {"sample_weight": weight}
    for name, method in methods.items():
        fitted = hasattr(method, "transform") and not hasattr(method, "iloc")  # a Series has a transform of its own
        values = method.transform(X, partition, **weighed) if fitted else method
        values = align_rows(values, row_keys(X), f"methods[{name!r}]")
        p = checks.as_numbers(np.asarray(checks.unmasked(values)), f"methods[{name!r}]")
        p = p[:, 0] if p.ndim == 2 and p.shape[1] == 1 else p
        if p.shape != (n,):
            raise InputError(f"methods[{name!r}] has shape {p.shape}; pass one probability for each of {n:,} people.")
        if np.isnan(p).any() or (p < 0).any() or (p > 1).any():
            row = int(np.argmax(~((p >= 0) & (p <= 1))))
            raise InputError(f"methods[{name!r}] is {p[row]} in row {row:,}; probabilities lie between 0 and 1.")
        out[str(name)] = p
    return out


def _table(
    rows: Mapping[str, FloatArray],
    y: FloatArray,
    world: _World,
    level: float,
    source: str,
    said: tuple[str, ...],
) -> Estimates:
    level = checks.check_level(level)
    w = world.weight / world.weight.sum()
    spread = float(np.sqrt((w**2).sum()))
    each = {
        n: special.xlogy(y, q) + special.xlog1py(1.0 - y, -q)
        for n, p in rows.items()
        for q in [np.clip(p, CLIP, 1.0 - CLIP)]
    }
    people = sums(world.cells.row, world.weight, len(world.cells.X))
    true = sums(world.cells.row, world.weight * y, len(world.cells.X)) / people
    z = float(stats.norm.ppf(0.5 + 0.5 * level))
    base, top = float(w @ each["naive group mean"]), float(w @ each["full information"])
    columns: dict[str, list[Any]] = {}
    for name, p in rows.items():
        score = float(w @ each[name])
        error = spread * float(np.sqrt(w @ (each[name] - score) ** 2))
        gain = each[name] - each["naive group mean"]
        cell = sums(world.cells.row, world.weight * p, len(world.cells.X)) / people
        intercept, slope = calibration(p, y, world.weight)
        row = {
            "method": name,
            "estimate": score,
            "std_error": error,
            "conf_low": score - z * error,
            "conf_high": score + z * error,
            "gain": score - base,
            "gain_error": spread * float(np.sqrt(w @ (gain - (score - base)) ** 2)),
            "lift": (score - base) / (top - base) if top > base else np.nan,
            "auc": float(roc_auc_score(y, p, sample_weight=world.weight)),
            "brier": float(w @ (p - y) ** 2),
            "rmse_cells": float(np.sqrt(people @ (cell - true) ** 2 / people.sum())),
            "intercept": intercept,
            "slope": slope,
            "uses_truth": name in ALWAYS[2:],
        }
        for key, value in row.items():
            columns.setdefault(key, []).append(value)
    return Estimates.build(
        columns,
        keys=["method"],
        method="mean log-likelihood of a person",
        level=level,
        interval="wald, over persons",
        provenance=Provenance.of(call="evaluate(...)"),
        diagnostics={
            "people": len(y),
            "groups": world.n_groups,
            "distinct_rows": len(world.cells.X),
            "aggregates_from": source,
        },
        warnings=said,
        kind="imputation_scores",
    )


def _binary(values: Any) -> FloatArray:
    y = checks.check_finite(
        values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(checks.unmasked(values)), "truth", 1
    )
    if not np.isin(y, (0.0, 1.0)).all() or y.min() == y.max():
        raise InputError(f"truth must hold both 0 and 1 and nothing else; it holds {np.unique(y)[:5].tolist()}.")
    return y


def logistic_regression(Z: Any, yes: FloatArray, n: FloatArray) -> LogisticRegression:
    """Fit a logistic regression to rows with weighted counts.

    Parameters
    ----------
    Z : (M, K), sparse or not
    yes, n : (M,)
        Weighted counts.

    Examples
    --------
    >>> model = logistic_regression(np.array([[-1.0], [1.0]]), np.array([2.0, 6.0]), np.full(2, 10.0))
    >>> model.predict_proba([[-1.0], [1.0]])[:, 1].round(4)
    array([0.2, 0.6])
    """
    Z = sparse.csr_array(Z)
    model = LogisticRegression(C=1.0 / RIDGE, solver="newton-cholesky", tol=1e-9, max_iter=STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            weight = np.maximum(np.concatenate([n - yes, yes]), 0.0)
            return model.fit(sparse.vstack([Z, Z]).tocsr(), np.repeat([0, 1], len(yes)), weight)
        except ConvergenceWarning as warning:
            raise ConvergenceError(
                "a logistic regression did not converge; a column may tell yes from no without error."
            ) from warning


def logistic(cells: Cells, design: Design, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Regress the truth on the scores of all columns: the probability of each cell, (C,)."""
    Z, C = design.matrix(cells.X), len(cells.X)
    model = logistic_regression(Z, sums(cells.row, weight * y, C), sums(cells.row, weight, C))
    return np.asarray(model.predict_proba(Z)[:, 1])


def with_groups(cells: Cells, design: Design, n_groups: int, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Regress the truth on the scores and a dummy per group: the probability of each pair, (M,)."""
    M = len(cells.weight)
    dummies = sparse.csr_array((np.ones(M), (np.arange(M), cells.pair_group[:, 0])), shape=(M, n_groups))
    Z = sparse.hstack([sparse.csr_array(design.matrix(cells.X)[cells.pair_cell]), dummies]).tocsr()
    model = logistic_regression(Z, sums(cells.pair, weight * y, M), cells.weight)
    return np.asarray(model.predict_proba(Z)[:, 1])


def saturated(row: IntArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Give everybody the mean truth of people with the same row, (n,).

    Examples
    --------
    >>> saturated(np.array([0, 0, 1]), np.array([0.0, 1.0, 1.0]), np.ones(3))
    array([0.5, 0.5, 1. ])
    """
    n = int(row.max()) + 1
    return np.asarray((sums(row, weight * y, n) / np.maximum(sums(row, weight, n), 1e-300))[row])


def ecological_logistic(cells: Cells, design: Design, mean: FloatArray) -> FloatArray:
    """Fit the ecological logistic regression on group means: the probability of each pair, (M,), matched to the means.

    Linear scores only, a weak prior of fixed size, and group means that scatter by ``MEAN_SD``: what one does without a reason to
    hold slopes more strongly when there are more groups.
    """
    P = len(mean)
    Z = design.matrix(cells.X)[:, design.first]
    known = ~np.isnan(mean)
    _, n = cells.sizes(0, P)
    s = np.clip(mean, 0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0))
    scatter = (MEAN_SD / (s * (1.0 - s))) ** 2
    # so many groups that nothing is added to the scatter of the means
    settings = Settings(SLOPE_SD, 1e12 * int(known.sum()), n_restarts=0)
    fit = fit_slopes(Z, np.ones(Z.shape[1]), Groups(cells.shares(0, P), mean, scatter), n, settings)
    f = (Z @ fit.beta + fit.intercept)[cells.pair_cell]
    return match(f, cells.pair_group[:, 0], cells.weight, mean)[0]
