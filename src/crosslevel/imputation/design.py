"""What a person's columns say on one scale: scores of mean 0 and sd 1 among the people, and how far a priori each may reach.

A column of numbers with few values is ordered: one linear score, and orthogonal polynomials for what bends, of smaller reach. One
with many values gives the linear score alone. A factor gives a centered dummy per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.data.cells import sums
from crosslevel.data.columns import Category, Number
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, IntArray

MOST_LEVELS = 12
"""A column of numbers with more distinct values than this is continuous."""
MOST_SCORES = 150_000_000
"""Scores of distinct rows that are held: 1.2 GB, of which a fit needs a few copies."""


@dataclass(frozen=True, eq=False)
class Feature:
    """The scores of one column.

    Attributes
    ----------
    name : str
    kind : {"ordered", "unordered", "continuous"}
    at : (L,)
        Values (codes of a factor) at which scores are known, ascending; for a continuous column its mean and mean plus one sd.
    score : (L, k)
        Scores at these values.
    terms : tuple of str
        Names of the k scores.
    reach : (k,)
        d: prior sd of a slope relative to that of a linear one.
    """

    name: str
    kind: str
    at: FloatArray
    score: FloatArray
    terms: tuple[str, ...]
    reach: FloatArray

    def scores(self, values: FloatArray) -> FloatArray:
        """Give the scores of values, (n, k): between known values by interpolation, 0 (the average) where missing."""
        if self.kind == "continuous":
            return np.nan_to_num((values - self.at[0]) / (self.at[1] - self.at[0]))[:, None]
        out = np.column_stack([np.interp(values, self.at, s) for s in self.score.T])
        out[np.isnan(values)] = 0.0
        return out


@dataclass(frozen=True, eq=False)
class Design:
    """The scores of all columns.

    Attributes
    ----------
    features : tuple of Feature
    """

    features: tuple[Feature, ...]

    def matrix(self, X: FloatArray) -> FloatArray:
        """Give Z, (n, K)."""
        return np.ascontiguousarray(np.hstack([f.scores(X[:, j]) for j, f in enumerate(self.features)]))

    @property
    def reach(self) -> FloatArray:
        """Give d of every score, (K,)."""
        return np.concatenate([f.reach for f in self.features])

    @property
    def owner(self) -> IntArray:
        """Give the number of the column each score comes from, (K,)."""
        return np.repeat(np.arange(len(self.features)), [len(f.terms) for f in self.features])

    @property
    def first(self) -> IntArray:
        """Give the number of the first (linear) score of each column."""
        return np.concatenate([[0], np.cumsum([len(f.terms) for f in self.features])[:-1]]).astype(np.intp)

    @property
    def terms(self) -> tuple[str, ...]:
        """Give the names of the scores."""
        return tuple(t for f in self.features for t in f.terms)


def learn_design(
    X: FloatArray, weight: FloatArray, columns: Sequence[Category | Number], curvature: float = 0.3
) -> Design:
    """Learn the scores from distinct rows and how many people each stands for.

    Parameters
    ----------
    X : (C, d)
    weight : (C,)
    columns : sequence of Category or Number
    curvature : float
        d of what bends; 0 leaves it out.

    Examples
    --------
    >>> design = learn_design(np.array([[1.0], [2.0], [3.0]]), np.ones(3), [Number("age")])
    >>> design.matrix(np.array([[1.0], [2.0], [3.0]])).round(3)
    array([[-1.225,  0.707],
           [ 0.   , -1.414],
           [ 1.225,  0.707]])
    >>> design.terms, design.reach.tolist()
    (('linear', 'degree 2'), [1.0, 0.3])
    """
    return Design(tuple(_feature(X[:, j], weight, c, curvature) for j, c in enumerate(columns)))


def check_size(X: FloatArray, design: Design) -> None:
    """Refuse more scores than memory holds, and name the columns that cost most.

    Parameters
    ----------
    X : (C, d)
        Distinct rows.
    design : Design
    """
    if len(X) * len(design.reach) <= MOST_SCORES:
        return
    values = np.array([len(np.unique(column)) for column in X.T])
    dear = [f"{design.features[j].name!r} ({values[j]:,} values)" for j in np.argsort(-values, kind="stable")[:5]]
    raise InputError(
        f"people: {len(X):,} distinct rows with {len(design.reach):,} scores each are more than memory holds; the columns that cost "
        f"most are {', '.join(dear)}. Leave some out, or round them to a few values."
    )


def _feature(values: FloatArray, weight: FloatArray, column: Category | Number, curvature: float) -> Feature:
    known = ~np.isnan(values)
    values, weight = values[known], weight[known] / weight[known].sum()
    at, code = np.unique(values, return_inverse=True)
    share = sums(code.reshape(-1), weight, len(at))
    if isinstance(column, Category):
        return _unordered(at, share, column)
    if len(at) > MOST_LEVELS:
        mean = float(weight @ values)
        sd = float(np.sqrt(weight @ (values - mean) ** 2))
        return Feature(
            column.name, "continuous", np.array([mean, mean + sd]), np.array([[0.0], [1.0]]), ("linear",), np.ones(1)
        )
    present = share > 0  # values that only people of weight zero have
    at, share = at[present], share[present]
    score = polynomials(at, share, len(at) - 1 if curvature > 0 else 1)
    terms = ("linear", *(f"degree {k}" for k in range(2, score.shape[1] + 1)))
    reach = np.array([1.0, *[curvature] * (score.shape[1] - 1)])
    return Feature(column.name, "ordered", at, score, terms, reach)


def polynomials(at: FloatArray, share: FloatArray, degree: int) -> FloatArray:
    """Give orthogonal polynomials of degree 1, 2, … with mean 0 and sd 1 under the shares, (L, degree)."""
    x = (at - share @ at) / np.sqrt(share @ (at - share @ at) ** 2)
    basis = [np.ones(len(at))]
    for _ in range(degree):
        new = basis[-1] * x
        for _ in range(2):  # once more takes out what rounding left
            for b in basis:
                new = new - (share @ (new * b)) * b
        basis.append(new / np.sqrt(share @ new**2))
    return np.column_stack(basis[1:])


def _unordered(at: FloatArray, share: FloatArray, column: Category) -> Feature:
    """Give centered dummies of sd 1. All levels have one; the reach makes two levels the same as one binary number."""
    L = len(at)
    score = (np.eye(L) - share) / np.sqrt(np.maximum(share * (1.0 - share), 1e-300))
    terms = tuple(str(column.labels[int(code)]) for code in at)
    return Feature(column.name, "unordered", at, score, terms, np.full(L, np.sqrt((L - 1) / L)))
