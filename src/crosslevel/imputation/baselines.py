"""What needs no imputation method: regressions on the truth, means of distinct rows, and the ecological regression on group means."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from crosslevel.data.cells import Cells, sums
from crosslevel.errors import ConvergenceError
from crosslevel.imputation.design import Design
from crosslevel.imputation.match_means import match
from crosslevel.imputation.persons.model import Groups, Settings, fit_slopes
from crosslevel.typing import FloatArray, IntArray

RIDGE = 1e-6
"""A millionth of a person's information: dummies of all levels have no unique solution."""
STEPS = 100
SLOPE_SD, MEAN_SD = 0.25, 0.015
"""Of the ecological regression: prior sd of a slope, and sd of group means around what their people explain."""


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
    return match(f[None], cells.pair_group[:, 0], cells.weight, mean)[0][0]
