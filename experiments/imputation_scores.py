"""Scores that cannot flatter: imputed probabilities of a yes-or-no feature beside the answers that need no imputation.

Beside imputed values always stand the group mean (*naive*), the ecological logistic regression on the same means, and what can be had
with the truth itself: a regression on the columns (*full information*), the same with a dummy per group (*x + group*), and the mean of
every distinct row (*saturated x*). The share of the way from naive to full information is the *lift*.

Where the means are those of the very people that are scored, chance is shared: a group that happens to have more old people in the sample
happens to have more of what old people have. ``means_of`` says whose means are used: those of other people than the sample (*disjoint*:
the people of every group are halved at random, each half is imputed from the means of the other), of a *population* of which each half is
a part, or of the *sample* itself; its figures flatter, and the table says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse, special, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import crosslevel as cl
from crosslevel.data.cells import sums
from crosslevel.errors import ConvergenceError
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.design import Design, learn_design
from crosslevel.imputation.inputs import read_fit, read_rows
from crosslevel.imputation.match_means import match
from crosslevel.imputation.persons.model import Groups, Settings, fit_slopes
from crosslevel.results import Provenance

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

ALWAYS = ("naive group mean", "ecological logistic", "saturated x", "x + group", "full information")
HIDDEN = "hidden"
SHARED = (
    "The means are those of the very people that are scored, so that chance differences between groups are shared and the figures flatter; "
    "ask for means_of='disjoint'."
)
CLIP = 1e-6
"""A probability nearer to 0 or 1 than this is scored as this: nobody's log-likelihood is minus infinity."""
RIDGE = 1e-6
"""A millionth of a person's information: dummies of all levels have no unique solution."""
STEPS = 100
SLOPE_SD, MEAN_SD = 0.25, 0.015
"""Of the ecological regression: prior sd of a slope, and sd of group means around what their people explain."""


def nouns(table: pa.Table, by: str, means: FloatArray | None = None, y: FloatArray | None = None) -> tuple[Any, Any]:
    """People of a table, and places with the means of a hidden feature: those given, or the mean truth of these people."""
    labels, group = np.unique(table[by].to_numpy(zero_copy_only=False), return_inverse=True)
    if means is None:
        assert y is not None
        means = np.bincount(group, y) / np.bincount(group)
    places = cl.Places({by: labels, HIDDEN: means}, by=by, means=[HIDDEN])
    return cl.People(table, by=by, columns=[n for n in table.column_names if n != by]), places


def evaluate(
    table: pa.Table,
    by: str,
    y: FloatArray,
    methods: Mapping[str, Any] | None = None,
    *,
    means_of: str = "sample",
    seed: int = 0,
) -> cl.Estimates:
    """Score imputed probabilities against the truth.

    Parameters
    ----------
    table : pyarrow.Table
        What is known of each person, and the group.
    by : str
    y : (n,)
        0 and 1.
    methods : mapping of str to array or imputer
        Imputed probabilities (n,), or a fitted imputer; with ``means_of`` "disjoint" or "population" imputers, of which copies are fitted.
    means_of : {"sample", "population", "disjoint"}
    seed : int
        Of the halves.
    """
    people, places = nouns(table, by, y=y)
    given = read_fit(people, places)
    rows = read_rows(people, given.schema)
    cells, group, P = rows.cells, rows.group[:, 0], len(given.schema.partitions[0])
    design = learn_design(cells.X, sums(cells.row, np.ones(len(y)), len(cells.X)), given.schema.columns)
    whole = given.published[0].mean
    parts = [(np.ones(len(y), dtype=bool), whole)]
    if means_of != "sample":
        first = halves(group, np.random.default_rng(seed))
        other = [np.bincount(group[side], y[side]) / np.bincount(group[side]) for side in (~first, first)]
        parts = [
            (first, other[0] if means_of == "disjoint" else whole),
            (~first, other[1] if means_of == "disjoint" else whole),
        ]
    found = {n: np.empty(len(y)) for n in (*ALWAYS[:2], *(methods or {}))}
    for own, mean in parts:
        some = table.filter(pa.array(own))
        part, target = nouns(some, by, mean)
        mine = read_rows(part, given.schema).cells
        found[ALWAYS[0]][own] = mean[group[own]]
        found[ALWAYS[1]][own] = ecological_logistic(mine, design, mean)[mine.pair]
        for name, method in (methods or {}).items():
            if hasattr(method, "fit"):
                fitted = method if means_of == "sample" else clone(method).fit(part, target)
                found[name][own] = fitted.transform(part)[HIDDEN].to_numpy()
            else:
                found[name][own] = np.asarray(method)[own]
    truth = {
        ALWAYS[2]: saturated(cells.row, y),
        ALWAYS[3]: with_groups(cells, design, P, y)[cells.pair],
        ALWAYS[4]: logistic(cells, design, y)[cells.row],
    }
    order = {n: (truth | found)[n] for n in (*ALWAYS, *(methods or {}))}
    return tabulate(order, y, cells, P, means_of)


def halves(group: IntArray, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Choose half of the people of every group at random, (n,)."""
    order = np.lexsort((rng.random(len(group)), group))
    size = np.bincount(group)
    if (size < 2).any():
        raise cl.errors.InputError(
            f"{int((size < 2).sum())} group(s) have fewer than two people, who cannot be halved."
        )
    chosen = np.empty(len(group), dtype=bool)
    chosen[order] = (np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)) % 2 == 0
    return chosen


def logistic_regression(Z: Any, yes: FloatArray, n: FloatArray) -> LogisticRegression:
    """Fit a logistic regression to rows with counts."""
    Z = sparse.csr_array(Z)
    model = LogisticRegression(C=1.0 / RIDGE, solver="newton-cholesky", tol=1e-9, max_iter=STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            weight = np.maximum(np.concatenate([n - yes, yes]), 0.0)
            return model.fit(sparse.vstack([Z, Z]).tocsr(), np.repeat([0, 1], len(yes)), weight)
        except ConvergenceWarning as warning:
            raise ConvergenceError("a logistic regression did not converge.") from warning


def logistic(cells: Cells, design: Design, y: FloatArray) -> FloatArray:
    """Regress the truth on the scores of all columns: the probability of each cell, (C,)."""
    Z, C = design.matrix(cells.X), len(cells.X)
    model = logistic_regression(Z, sums(cells.row, y, C), sums(cells.row, np.ones(len(y)), C))
    return np.asarray(model.predict_proba(Z)[:, 1])


def with_groups(cells: Cells, design: Design, n_groups: int, y: FloatArray) -> FloatArray:
    """Regress the truth on the scores and a dummy per group: the probability of each pair, (M,)."""
    M = len(cells.weight)
    dummies = sparse.csr_array((np.ones(M), (np.arange(M), cells.pair_group[:, 0])), shape=(M, n_groups))
    Z = sparse.hstack([sparse.csr_array(design.matrix(cells.X)[cells.pair_cell]), dummies]).tocsr()
    return np.asarray(logistic_regression(Z, sums(cells.pair, y, M), cells.count).predict_proba(Z)[:, 1])


def saturated(row: IntArray, y: FloatArray) -> FloatArray:
    """Give everybody the mean truth of people with the same row, (n,)."""
    return np.asarray((np.bincount(row, y) / np.bincount(row))[row])


def ecological_logistic(cells: Cells, design: Design, mean: FloatArray) -> FloatArray:
    """Fit the ecological logistic regression on group means: the probability of each pair, (M,), matched to the means.

    Linear scores only, a weak prior of fixed size, and group means that scatter by ``MEAN_SD``: what one does without a reason to
    hold slopes more strongly when there are more groups.
    """
    P = len(mean)
    Z = design.matrix(cells.X)[:, design.first]
    _, n = cells.sizes(0, P)
    s = np.clip(mean, 0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0))
    scatter = (MEAN_SD / (s * (1.0 - s))) ** 2
    # so many groups that nothing is added to the scatter of the means
    settings = Settings(SLOPE_SD, 1e12 * int((~np.isnan(mean)).sum()), n_restarts=0)
    fit = fit_slopes(Z, np.ones(Z.shape[1]), Groups(cells.shares(0, P), mean, scatter), n, settings)
    f = (Z @ fit.beta + fit.intercept)[cells.pair_cell]
    return match(f, cells.pair_group[:, 0], cells.weight, mean)[0]


def calibration(p: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Give intercept and slope of a logistic regression of the truth on the logit of p; NaN where p does not vary."""
    f = special.logit(np.clip(p, CLIP, 1.0 - CLIP))
    if f.max() - f.min() < 1e-9:
        return np.nan, np.nan
    values, code = np.unique(f, return_inverse=True)
    yes, n = np.bincount(code.reshape(-1), y), np.bincount(code.reshape(-1)).astype(float)
    model = logistic_regression(values[:, None], yes, n)
    return float(model.intercept_[0]), float(model.coef_[0, 0])


def tabulate(rows: Mapping[str, FloatArray], y: FloatArray, cells: Cells, n_groups: int, means_of: str) -> cl.Estimates:
    """Lay out the scores: mean log-likelihood of a person, gain, lift, AUC, Brier score, error of cells, calibration."""
    each = {
        n: special.xlogy(y, q) + special.xlog1py(1.0 - y, -q)
        for n, p in rows.items()
        for q in [np.clip(p, CLIP, 1.0 - CLIP)]
    }
    people, root = np.bincount(cells.row), np.sqrt(len(y))
    true = np.bincount(cells.row, y) / people
    z = float(stats.norm.ppf(0.975))
    base, top = float(each[ALWAYS[0]].mean()), float(each[ALWAYS[4]].mean())
    columns: dict[str, list[Any]] = {}
    for name, p in rows.items():
        score, gain = float(each[name].mean()), each[name] - each[ALWAYS[0]]
        error = float(each[name].std() / root)
        intercept, slope = calibration(p, y)
        row = {
            "method": name,
            "estimate": score,
            "std_error": error,
            "conf_low": score - z * error,
            "conf_high": score + z * error,
            "gain": score - base,
            "gain_error": float(gain.std() / root),
            "lift": (score - base) / (top - base) if top > base else np.nan,
            "auc": float(roc_auc_score(y, p)),
            "brier": float(np.mean((p - y) ** 2)),
            "rmse_cells": float(np.sqrt(people @ (np.bincount(cells.row, p) / people - true) ** 2 / people.sum())),
            "intercept": intercept,
            "slope": slope,
            "uses_truth": name in ALWAYS[2:],
        }
        for key, value in row.items():
            columns.setdefault(key, []).append(value)
    return cl.Estimates.build(
        columns,
        keys=["method"],
        method="mean log-likelihood of a person",
        level=0.95,
        interval="wald, over persons",
        provenance=Provenance.of(call="evaluate(...)"),
        diagnostics={"people": len(y), "groups": n_groups, "distinct_rows": len(cells.X), "means_of": means_of},
        warnings=(SHARED,) if means_of == "sample" else (),
    )
