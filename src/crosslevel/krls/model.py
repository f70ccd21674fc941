"""The fit on arrays: standardise, decompose, choose the penalty, solve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.krls.collapse import Cells, collapse
from crosslevel.krls.kernel import GaussianKernel, Scaling, max_variance_bandwidth, standardise
from crosslevel.krls.paths import METHODS, find_path
from crosslevel.krls.penalty import Choice, choose_penalty
from crosslevel.krls.spectrum import Spectrum
from crosslevel.typing import FloatArray

__all__ = ["METHODS", "Fit", "Solution", "bandwidth_of", "fit", "solution_at"]


@dataclass(frozen=True)
class Solution:
    """The fit at one penalty, for the standardised outcome.

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
        With the standardised outcome.
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

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict at rows in the units of the data."""
        coef = self.kernel.centre_coef(self.solution.coef)[:, None]
        f = self.kernel.centres.apply(coef, self.scaling.apply(X))[:, 0]
        return f * self.y_sd + self.y_mean

    def row_coefficients(self, y: FloatArray) -> FloatArray:
        """Give the coefficient c of each row of the data, (n,): those of R."""
        u, cells = self.cells.row, self.cells
        own = (y - self.y_mean) / self.y_sd - cells.mean[u]
        return own / self.penalty + (self.solution.coef / cells.m)[u]


def fit(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray | None = None,
    cluster: npt.NDArray[np.intp] | None = None,
    *,
    penalty: float | None = None,
    bandwidth: str | float = "P",
    rule: str = "loo",
    method: str = "auto",
    survey: bool = False,
    rank: int | None = None,
    backend: str = "numpy",
    seed: int = 0,
) -> Fit:
    """Fit by kernel regularised least squares.

    Parameters
    ----------
    X : (n, P)
        Without constant columns.
    y : (n,)
        Not constant.
    weights, cluster : (n,), optional
    penalty : float, optional
        Chosen by ``rule`` when not given.
    bandwidth : "P", "maxvar" or float
    rule, method, survey, rank, backend, seed
        See `KRLS`.

    Examples
    --------
    >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> found = fit(x, x[:, 0] ** 2)
    >>> float(found.predict(np.array([[0.5]])).round(3)[0])
    0.25
    """
    cells = collapse(X, y, weights, cluster, survey=survey, merge=method != "exact")
    scaling = standardise(cells.X, cells.m)
    N = cells.N
    y_mean = float(cells.m @ cells.mean / N)
    squares = cells.ss.sum() + cells.weight @ np.square(cells.stratum_mean - y_mean)
    y_sd = float(np.sqrt(squares / (N - 1.0)))
    cells = cells.rescaled(y_mean, y_sd)
    Z = scaling.apply(cells.X)
    s = bandwidth_of(bandwidth, Z, cells.m)
    path = find_path(GaussianKernel(Z, s), cells.m, len(y), method, rank=rank, backend=backend, seed=seed)
    spectrum = path.spectrum
    given = None if penalty is None else Choice(float(penalty), np.empty((0, 2)))
    choice = given or choose_penalty(spectrum, cells, rule)
    solution = solution_at(spectrum, cells, choice.penalty)
    return Fit(
        cells=cells,
        scaling=scaling,
        y_mean=y_mean,
        y_sd=y_sd,
        kernel=path.kernel,
        spectrum=spectrum,
        choice=choice,
        solution=solution,
        path=path.words,
        lost=path.lost,
        approximate=path.approximate,
    )


def bandwidth_of(bandwidth: str | float, Z: FloatArray, m: FloatArray) -> float:
    """Give the bandwidth as a number, for standardised distinct rows that stand for m rows each."""
    if isinstance(bandwidth, str):
        return float(Z.shape[1]) if bandwidth == "P" else max_variance_bandwidth(Z, m)
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
