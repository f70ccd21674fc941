"""The fit on arrays: gather equal rows, standardize, decompose, choose the penalty, solve.

Rows with the same covariates share a fitted value, so the algebra needs each only once. With U distinct rows standing for N rows,
the N - U other eigenvalues of the kernel are exactly zero, and least squares needs of y only the mean and the spread within each
distinct row. Data without duplicates are the case U = N, m = 1.

Weights are survey weights: they say how much a row counts, and only their ratios matter. Deleting an observation takes all
its weight away. Copies of a row are one observation, deleted together, which has the weight of all of them; so every row twice is
every row once, in the penalty, the effects and their errors. Weights add up to the number of observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from crosslevel.data.cells import equal_rows
from crosslevel.krls.effects import Effect, pointwise_effects, scales
from crosslevel.krls.nystrom import LandmarkKernel, from_landmarks
from crosslevel.krls.paths import find_path
from crosslevel.krls.penalty import Choice, choose_penalty, given_penalty
from crosslevel.krls.spectrum import GaussianKernel, Scaling, Spectrum, max_variance_bandwidth, standardize
from crosslevel.typing import FloatArray, IntArray, Step

STEPS = 4
"""Steps of a fit that progress counts: eigenvectors, penalty, coefficients, effects."""
BY_CHANCE = 0.01
"""Chance that two outcomes are equal from which on rows that are alike may be different people."""
KEPT = 1e-8
"""Eigenvalues below this share of the penalty are left out of a saved model: they move a prior variance of 1 by less than that."""
LARGEST = 64 * 2**20
"""Bytes of eigenvectors beyond which none are saved; such a model predicts and has its table, but no new standard errors."""


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
        Weight of each; they add up to the number of observations.
    mean : (U,)
        Mean outcome.
    row : (n,)
        Distinct row of each row.
    row_weight, row_step : (n,)
        Weight of each row, and that of the observation it belongs to: the row and its copies.
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
    row_weight: FloatArray
    row_step: FloatArray
    stratum: IntArray
    step: FloatArray
    weight: FloatArray
    stratum_mean: FloatArray
    ss: FloatArray
    clusters: Clusters | None

    def _rows_of_people(self) -> dict[str, int]:
        return {"X": len(self.X)}

    @property
    def N(self) -> float:
        """Total weight: the number of observations."""
        return float(self.m.sum())

    def rescaled(self, center: float, scale: float) -> Cells:
        """Give the same cells for the outcome (y - center) / scale."""
        clusters = self.clusters
        if clusters is not None:
            clusters = replace(clusters, mean=(clusters.mean - center) / scale)
        return replace(
            self,
            mean=(self.mean - center) / scale,
            stratum_mean=(self.stratum_mean - center) / scale,
            ss=self.ss / scale**2,
            clusters=clusters,
        )


def collapse(X: FloatArray, y: FloatArray, weights: FloatArray | None = None, cluster: IntArray | None = None) -> Cells:
    """Gather the rows with equal covariates.

    Parameters
    ----------
    X : (n, P)
    y : (n,)
    weights : (n,), optional
        Positive survey weights, of any scale; ones when not given.
    cluster : (n,), optional
        Cluster of each row, numbered from zero.

    Examples
    --------
    >>> cells = collapse(np.array([[1.0], [2.0], [1.0]]), np.array([0.0, 5.0, 4.0]))
    >>> cells.X.ravel().tolist(), cells.m.tolist(), cells.mean.tolist(), cells.ss.tolist()
    ([1.0, 2.0], [2.0, 1.0], [2.0, 5.0], [8.0, 0.0])
    """
    number, first = equal_rows(X + 0.0)  # -0.0 is 0.0
    distinct, row = X, np.arange(len(X))
    if len(first) < len(X):  # otherwise the order of the data is easier to follow than the sorted one
        distinct, row = X[first] + 0.0, number
    w = np.ones(len(y)) if weights is None else weights
    step = _weight_of_copies(row, y, w)
    scale = np.sum(w / step) / w.sum()  # observations to a unit of weight
    w, step = scale * w, scale * step
    steps, kind = np.unique(step, return_inverse=True)
    pairs, stratum_of_row = np.unique(row * len(steps) + kind, return_inverse=True)
    weight, mean = _means(stratum_of_row, len(pairs), w, y)
    ss: FloatArray = np.bincount(stratum_of_row, w * np.square(y - mean[stratum_of_row]), len(pairs)).astype(np.float64)
    m, cell_mean = _means(row, len(distinct), w, y)
    return Cells(
        X=distinct,
        m=m,
        mean=cell_mean,
        row=row,
        row_weight=w,
        row_step=step,
        stratum=pairs // len(steps),
        step=steps[pairs % len(steps)],
        weight=weight,
        stratum_mean=mean,
        ss=ss,
        clusters=None if cluster is None else cluster_pairs(row, len(distinct), cluster, w, y),
    )


def _weight_of_copies(row: IntArray, y: FloatArray, w: FloatArray) -> FloatArray:
    """Give the weight of each row with its copies, (n,).

    Copies are equal in covariates and outcome. Where outcomes take few values, people with equal covariates can have the same one by
    chance: then rows are copies only if every row has as many.

    Parameters
    ----------
    row : (n,)
        Distinct covariates of each row.
    y, w : (n,)
    """
    values, level = np.unique(y, return_inverse=True)
    alike, copy = np.unique(row * len(values) + level, return_inverse=True)
    if len(alike) == len(y):
        return w
    held = np.bincount(alike % len(values))
    by_chance = held @ (held - 1.0) / (len(alike) * max(len(alike) - 1.0, 1.0))
    if by_chance < BY_CHANCE or len(alike) == row.max() + 1:  # or nobody differs from those with equal covariates
        return np.bincount(copy, w)[copy]
    weights, kind = np.unique(w, return_inverse=True)
    counts = np.unique(copy * len(weights) + kind, return_counts=True)[1]
    return np.gcd.reduce(counts) * w


def _means(code: IntArray, size: int, w: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    weight: FloatArray = np.bincount(code, w, size).astype(np.float64)
    return weight, np.bincount(code, w * y, size) / weight


def cluster_pairs(row: IntArray, U: int, cluster: IntArray, w: FloatArray, y: FloatArray) -> Clusters:
    """Gather the rows of every cluster by distinct row."""
    pairs, code = np.unique(cluster * U + row, return_inverse=True)
    n, mean = _means(code, len(pairs), w, y)
    start = np.searchsorted(pairs // U, np.arange(int(cluster.max()) + 2))
    return Clusters(start=start.astype(np.intp), cell=pairs % U, n=n, mean=mean)


@dataclass(frozen=True)
class Solution:
    """The fit at one penalty, for the standardized outcome.

    Attributes
    ----------
    coef : (U,)
        Sum of the coefficients c within each distinct row: f(x) = sum_u k(x, x_u) coef_u.
    fitted : (U,)
    rss : float
        Residual sum of squares.
    edf : float
        Effective degrees of freedom.
    loo : float
        Leave-one-out sum of squares.
    """

    coef: FloatArray
    fitted: FloatArray
    rss: float
    edf: float
    loo: float


@dataclass(frozen=True)
class Fit:
    """Everything that predictions, effects and intervals are made of.

    Attributes
    ----------
    cells : Cells
        With the standardized outcome.
    scaling : Scaling
        Of the covariates.
    y_mean, y_sd : float
    kernel : GaussianKernel
    spectrum : Spectrum or None
        None in a model that was saved without it, which can still predict.
    choice : Choice
    solution : Solution
    path : str
        The way the numbers were made, in words.
    lost : float
        Share of the trace of the kernel that is lost on the way; zero for the exact one.
    approximate : bool
        Whether the numbers are those of another model than the exact one.
    """

    cells: Cells
    scaling: Scaling
    y_mean: float
    y_sd: float
    kernel: GaussianKernel
    spectrum: Spectrum | None
    choice: Choice
    solution: Solution
    path: str
    lost: float = 0.0
    approximate: bool = False

    @property
    def penalty(self) -> float:
        """The penalty of the fit."""
        return self.choice.penalty

    @property
    def r2(self) -> float:
        """Share of variance explained: 1 - var(residuals) / var(y)."""
        cells = self.cells
        mean_residual = float(cells.m @ (cells.mean - self.solution.fitted)) / cells.N
        return float(1.0 - (self.solution.rss - cells.N * mean_residual**2) / (cells.N - 1.0))

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict at rows in the units of the data."""
        coef = self.kernel.center_coef(self.solution.coef)[:, None]
        f = self.kernel.centers.apply(coef, self.scaling.apply(X))[:, 0]
        return f * self.y_sd + self.y_mean

    def effects(self, effects: Sequence[Effect], Z: FloatArray | None = None) -> FloatArray:
        """Evaluate effects at the distinct rows, or at standardized rows, in the units of the data: (n, E)."""
        return pointwise_effects(self.kernel, effects, self.solution.coef, Z) * scales(self, effects)

    def describe(self) -> tuple[str, ...]:
        """Say what should be known of the fit before its numbers are used."""
        said = []
        if self.choice.bound is not None:
            what = (
                "the data show no pattern that could be predicted, and the fit is nearly constant"
                if self.choice.bound == "upper"
                else "the data ask for as little smoothing as can be computed, and the fit comes as close to the data as this "
                "kernel can"
            )
            said.append(
                f"the penalty lies at the {self.choice.bound} limit of the search ({self.penalty:.3g}): {what}."
            )
        if self.approximate:
            said.append(
                f"the numbers are those of an approximate model: {self.path}. Leave-one-out, effects and intervals are exact for "
                "that model; a larger rank brings it nearer to the exact one."
            )
        return tuple(said)

    def compact(self) -> Self:
        """Leave out what `restored` can make again, and the eigenvectors that no standard error needs."""
        kernel, spectrum, nothing = self.kernel, None, self.kernel.Z[:0]
        if isinstance(kernel, LandmarkKernel):  # the eigenvectors can be made of T
            w = kernel.spectrum.w
            small: GaussianKernel = replace(
                kernel, Z=nothing, root=w[:0], spectrum=Spectrum(np.empty((0, len(w))), w, False)
            )
            return replace(self, kernel=small, spectrum=None)
        if self.spectrum is not None:
            keep = self.spectrum.w > KEPT * self.penalty
            if 8 * len(self.spectrum) * int(keep.sum()) <= LARGEST:
                Q = np.ascontiguousarray(np.asarray(self.spectrum.Q)[:, keep])
                spectrum = Spectrum(Q, self.spectrum.w[keep], self.spectrum.complete and bool(keep.all()))
        return replace(self, kernel=GaussianKernel(nothing, kernel.s), spectrum=spectrum)

    def restored(self) -> Self:
        """Make the kernel again that `compact` left out, and the eigenvectors of landmarks."""
        kernel = GaussianKernel(self.scaling.apply(self.cells.X), self.kernel.s)
        if not isinstance(self.kernel, LandmarkKernel):
            return replace(self, kernel=kernel)
        found = from_landmarks(kernel, self.cells.m, self.kernel.landmarks, self.kernel.T, self.kernel.spectrum.w)
        return replace(self, kernel=found.kernel, spectrum=found.spectrum)

    def row_coefficients(self, y: FloatArray) -> FloatArray:
        """Give the coefficient c of each row of the data, for a unit of its weight, (n,): those of R."""
        u, cells = self.cells.row, self.cells
        own = (y - self.y_mean) / self.y_sd - cells.mean[u]
        return own / self.penalty + (self.solution.coef / cells.m)[u]


def fit(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray | None = None,
    cluster: IntArray | None = None,
    *,
    penalty: float | None = None,
    bandwidth: str | float = "n_columns",
    rule: str = "loo",
    method: str = "auto",
    rank: int | None = None,
    backend: str = "numpy",
    seed: int = 0,
    step: Step | None = None,
) -> Fit:
    """Fit by kernel regularized least squares.

    Parameters
    ----------
    X : (n, P)
        Without constant columns.
    y : (n,)
        Not constant.
    weights, cluster : (n,), optional
    penalty : float, optional
        Chosen by ``rule`` when not given.
    bandwidth : "n_columns", "maxvar" or float
    rule, method, rank, backend, seed
        See `KRLS`.
    step : callable, optional
        Called after each of ``STEPS`` - 1 steps; effects are the last.

    Examples
    --------
    >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> found = fit(x, x[:, 0] ** 2)
    >>> float(found.predict(np.array([[0.5]])).round(3)[0])
    0.25
    """
    cells = collapse(X, y, weights, cluster)
    scaling = standardize(cells.X, cells.m)
    N = cells.N
    y_mean = float(cells.m @ cells.mean / N)
    squares = cells.ss.sum() + cells.weight @ np.square(cells.stratum_mean - y_mean)
    y_sd = float(np.sqrt(squares / (N - 1.0)))
    cells = cells.rescaled(y_mean, y_sd)
    Z = scaling.apply(cells.X)
    s = bandwidth_of(bandwidth, Z, cells.m)
    path = find_path(GaussianKernel(Z, s), cells.m, len(y), method, rank=rank, backend=backend, seed=seed)
    spectrum = path.spectrum
    if step is not None:
        step()
    given = None if penalty is None else given_penalty(penalty, float(spectrum.w[-1]))
    choice = given or choose_penalty(spectrum, cells, rule)
    if step is not None:
        step()
    solution = solution_at(spectrum, cells, choice.penalty)
    if step is not None:
        step()
    return Fit(
        cells=cells,
        scaling=scaling,
        y_mean=y_mean,
        y_sd=y_sd,
        kernel=path.kernel,
        spectrum=spectrum,
        choice=choice,
        solution=solution,
        path=path.description,
        lost=path.lost,
        approximate=path.approximate,
    )


def bandwidth_of(bandwidth: str | float, Z: FloatArray, m: FloatArray) -> float:
    """Give the bandwidth as a number, for standardized distinct rows that stand for m rows each."""
    if isinstance(bandwidth, str):
        return float(Z.shape[1]) if bandwidth == "n_columns" else max_variance_bandwidth(Z, m)
    return float(bandwidth)


def _loo(cells: Cells, e: FloatArray, keep: FloatArray) -> float:
    """Add up squared leave-one-out residuals, from residuals by stratum and the share a lone observation keeps."""
    share = cells.step / cells.m[cells.stratum]
    kept = (1.0 - share) + share * keep[cells.stratum]
    return float(np.sum((cells.ss + cells.weight * e**2) / kept**2))


def solution_at(spectrum: Spectrum, cells: Cells, penalty: float) -> Solution:
    """Solve for the coefficients at a penalty."""
    root = np.sqrt(cells.m)
    Giu = spectrum.solve((root * cells.mean)[:, None], penalty)[:, 0]
    e = penalty * Giu / root  # mean less fit, without the cancellation of a difference
    e_stratum = e[cells.stratum] + cells.stratum_mean - cells.mean[cells.stratum]
    return Solution(
        coef=root * Giu,
        fitted=cells.mean - e,
        rss=float(cells.ss.sum() + cells.weight @ e_stratum**2),
        edf=spectrum.edf(penalty),
        loo=_loo(cells, e_stratum, penalty * spectrum.inverse_diagonal(np.array([penalty]))[:, 0]),
    )


def r2_of_averages(fit: Fit, effects: Sequence[Effect], averages: FloatArray) -> float:
    """Give the squared correlation of y with the covariates times their average effects (bigKRLS's R2AME).

    Parameters
    ----------
    fit : Fit
    effects : sequence of Effect
    averages : (E,)
        Plug-in average effects, in the units of the data.
    """
    cells, Z = fit.cells, fit.kernel.Z
    slope = np.zeros(Z.shape[1])
    for effect, value in zip(effects, averages / scales(fit, effects), strict=True):
        width = 1.0
        if effect.switch is not None:
            points = effect.switch.points[:, int(np.argmax(effect.switch.columns == effect.column))]
            width = points[effect.high] - points[effect.low]
        slope[effect.column] = value / width
    index = Z @ slope  # centered, as Z is
    variance = cells.m @ index**2
    if not variance > 0:
        return 0.0
    return float((cells.m @ (index * cells.mean)) ** 2 / variance / (cells.N - 1.0))
