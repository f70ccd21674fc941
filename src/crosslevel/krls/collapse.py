"""Which rows have the same covariates? They share a fitted value, so the algebra needs each only once.

With U distinct rows standing for N rows, the N - U other eigenvalues of the kernel are exactly zero, and least squares
needs of y only the mean and the spread within each distinct row. Data without duplicates are the case U = N, m = 1.

Weights. A *count* says that a row stands for that many rows: deleting one observation takes one away. A *survey* weight
says how much a row counts: deleting the observation takes all its weight away. Both enter the fit as m; they differ in
what is deleted (``step``), hence in the leave-one-out loss and in robust errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslevel.typing import FloatArray, IntArray

__all__ = ["Cells", "Clusters", "collapse"]


@dataclass(frozen=True)
class Clusters:
    """The pairs of distinct row and cluster that occur, sorted by cluster.

    Attributes
    ----------
    start : (G + 1,)
        Cluster g has the pairs ``start[g]:start[g + 1]``.
    cell : (C,)
        Distinct row of each pair.
    n : (C,)
        Weight of each pair.
    mean : (C,)
        Mean outcome of each pair.
    """

    start: IntArray
    cell: IntArray
    n: FloatArray
    mean: FloatArray

    def __len__(self) -> int:
        return len(self.start) - 1


@dataclass(frozen=True)
class Cells:
    """Distinct rows and what least squares needs to know of the outcomes there.

    Attributes
    ----------
    X : (U, P)
        Distinct rows, in the units of the data.
    m : (U,)
        Weight of each (the number of rows, without weights).
    mean : (U,)
        Mean outcome.
    row : (n,)
        Distinct row of each row.
    stratum : (T,)
        Distinct row of each stratum; a stratum holds the rows of one distinct row with one ``step``.
    step : (T,)
        The weight that goes when one observation is deleted.
    weight, stratum_mean, ss : (T,)
        Weight, mean outcome, and weighted sum of squares about that mean.
    clusters : Clusters or None
    """

    X: FloatArray
    m: FloatArray
    mean: FloatArray
    row: IntArray
    stratum: IntArray
    step: FloatArray
    weight: FloatArray
    stratum_mean: FloatArray
    ss: FloatArray
    clusters: Clusters | None

    @property
    def N(self) -> float:
        """Total weight: the number of rows that are stood for."""
        return float(self.m.sum())

    def rescaled(self, centre: float, scale: float) -> Cells:
        """Give the same cells for the outcome (y - centre) / scale."""
        clusters = self.clusters
        if clusters is not None:
            clusters = replace(clusters, mean=(clusters.mean - centre) / scale)
        return replace(
            self,
            mean=(self.mean - centre) / scale,
            stratum_mean=(self.stratum_mean - centre) / scale,
            ss=self.ss / scale**2,
            clusters=clusters,
        )


def collapse(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray | None = None,
    cluster: IntArray | None = None,
    *,
    survey: bool = False,
    merge: bool = True,
) -> Cells:
    """Gather the rows with equal covariates.

    Parameters
    ----------
    X : (n, P)
    y : (n,)
    weights : (n,), optional
        Positive; ones when not given.
    cluster : (n,), optional
        Cluster of each row, numbered from zero.
    survey : bool
        Whether a weight belongs to one observation, rather than being a number of observations.
    merge : bool
        False leaves every row a cell of its own.

    Examples
    --------
    >>> cells = collapse(np.array([[1.0], [2.0], [1.0]]), np.array([0.0, 5.0, 4.0]))
    >>> cells.X.ravel().tolist(), cells.m.tolist(), cells.mean.tolist(), cells.ss.tolist()
    ([1.0, 2.0], [2.0, 1.0], [2.0, 5.0], [8.0, 0.0])
    """
    w = np.ones(len(y)) if weights is None else weights
    if merge:
        distinct, row = np.unique(X + 0.0, axis=0, return_inverse=True)  # -0.0 is 0.0
        row = row.reshape(-1)
    else:
        distinct, row = X, np.arange(len(X))
    if len(distinct) == len(X):  # the order of the data is easier to follow than the sorted one
        distinct, row = X, np.arange(len(X))
    steps, kind = np.unique(w, return_inverse=True) if survey else (np.ones(1), np.zeros(len(y), dtype=np.intp))
    pairs, stratum_of_row = np.unique(row * len(steps) + kind.reshape(-1), return_inverse=True)
    stratum_of_row = stratum_of_row.reshape(-1)
    weight, mean = _means(stratum_of_row, len(pairs), w, y)
    ss: FloatArray = np.bincount(stratum_of_row, w * np.square(y - mean[stratum_of_row]), len(pairs)).astype(np.float64)
    m, cell_mean = _means(row, len(distinct), w, y)
    return Cells(
        X=distinct,
        m=m,
        mean=cell_mean,
        row=row,
        stratum=pairs // len(steps),
        step=steps[pairs % len(steps)],
        weight=weight,
        stratum_mean=mean,
        ss=ss,
        clusters=None if cluster is None else _cluster_pairs(row, len(distinct), cluster, w, y),
    )


def _means(code: IntArray, size: int, w: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    weight: FloatArray = np.bincount(code, w, size).astype(np.float64)
    return weight, np.bincount(code, w * y, size) / weight


def _cluster_pairs(row: IntArray, U: int, cluster: IntArray, w: FloatArray, y: FloatArray) -> Clusters:
    pairs, code = np.unique(cluster * U + row, return_inverse=True)
    n, mean = _means(code.reshape(-1), len(pairs), w, y)
    start = np.searchsorted(pairs // U, np.arange(int(cluster.max()) + 2))
    return Clusters(start=start.astype(np.intp), cell=pairs % U, n=n, mean=mean)
