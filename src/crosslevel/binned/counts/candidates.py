"""Covariances of a log curve on a grid of cells, with the priors of their scales.

A candidate is one covariance with the log of its prior mass. In one dimension: Matern-5/2 and EQ over a grid of (s, l), and an
integrated Wiener process (second derivative white) with a linear trend over its scale. In more dimensions products over the axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np

from crosslevel.binned.counts.cells import CountBins
from crosslevel.errors import InputError
from crosslevel.numerics.kernels import matern
from crosslevel.typing import FloatArray, IntArray

KERNELS = ("matern52", "eq", "wiener")
SCALE = (np.log(0.6), 0.7)
"""Prior of log s: mean and standard deviation."""
LENGTH = (np.log(0.2), 0.5)
"""Prior of log l, l in ranges of the axis."""
WIENER = (np.log(12.6), 0.9)
"""Prior of the log of the second derivative's scale, the axis running from 0 to 1."""
AREA_SCALE = (np.log(0.3), 0.7)
"""Prior of log s of an area's departure from the shared curve."""
LEVEL = 1.0
"""Variance of the constant."""
TREND = 3.0
"""Variance of the linear trend, the axis running from -1 to 1."""
TAIL = 0.25
"""Standard deviation of a tail's rate of decline, relative to the stated one."""
MOST_CELLS = 3_000
"""Covariances of more cells would not be made a hundred times over."""
ALIKE = (0.3, 0.7, 0.95)
"""Correlations tried between the levels of an axis of categories."""


@dataclass(frozen=True)
class Candidate:
    """One covariance of the log curve, made when it is asked for.

    Attributes
    ----------
    log_prior : float
        Normalized within its kernel.
    kernel : str
    scale, length : float
        s and l (in units of the first axis; NaN for the Wiener process, whose ``scale`` is that of its second derivative).
    shape : function
        Gives the covariance of unit scale, (A, A).
    fixed : (A, A)
        What is added whatever the scale: the constant, a trend, a tail.
    """

    log_prior: float
    kernel: str
    scale: float
    length: float
    shape: Callable[[], FloatArray]
    fixed: FloatArray


class Candidates:
    """Covariances to average over.

    Attributes
    ----------
    log_prior : (n,)
        Normalized.
    kernel : n names
    scale, length : (n,)
    """

    def __init__(self, entries: Sequence[Candidate]) -> None:
        self.entries = entries
        log_prior = np.array([e.log_prior for e in entries])
        self.log_prior: FloatArray = log_prior - np.log(np.exp(log_prior).sum())
        self.kernel = tuple(e.kernel for e in entries)
        self.scale, self.length = np.array([e.scale for e in entries]), np.array([e.length for e in entries])

    def __len__(self) -> int:
        return len(self.entries)

    def stack(self, rows: Iterable[int]) -> FloatArray:
        """Make some of the covariances, (n, A, A)."""
        return np.array([e.scale**2 * e.shape() + e.fixed for e in (self.entries[i] for i in rows)])

    def take(self, rows: Sequence[int]) -> Candidates:
        """Keep some of them, their priors normalized again."""
        return Candidates([self.entries[i] for i in rows])


def correlation(distance: FloatArray, length: float, kernel: str) -> FloatArray:
    """Evaluate a stationary correlation.

    Examples
    --------
    >>> correlation(np.array([0.0, 2.0]), 2.0, "eq").round(4)
    array([1.    , 0.6065])
    """
    if kernel == "eq":
        return np.asarray(np.exp(-0.5 * (distance / length) ** 2))
    return matern(distance, length, kernel)[0]


def prior_nodes(prior: tuple[float, float], number: int, reach: float = 2.5) -> tuple[FloatArray, FloatArray]:
    """Space values evenly in the logarithm over +-reach standard deviations; give them and their log prior density."""
    z = np.linspace(-reach, reach, number)
    return np.exp(prior[0] + prior[1] * z), -0.5 * z**2


def candidates(bins: CountBins, kernels: Sequence[str] = KERNELS, nodes: int = 7) -> Candidates:
    """List the covariances of a curve on these cells with their priors.

    Parameters
    ----------
    kernels : of "matern52", "matern32", "matern12", "eq", "wiener"
        Equally probable beforehand. The Wiener process is left out in more than one dimension.
    nodes : int
        Values of each scale in one dimension.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> found = candidates(bins_from_edges([0, 5, 10], cell=1))
    >>> found.stack([0, 106]).shape, len(found), round(float(np.exp(found.log_prior).sum()), 6)
    ((2, 10, 10), 107, 1.0)
    """
    if bins.n_axes > 1:
        kernels = [k for k in kernels if k != "wiener"]
    if bins.n_cells > MOST_CELLS:
        raise InputError(f"the bins are cut into {bins.n_cells:,} cells, more than {MOST_CELLS:,}; pass a wider cell=.")
    entries = [e for k in kernels for e in (_wiener(bins, nodes + 2) if k == "wiener" else _stationary(bins, k, nodes))]
    return Candidates(entries)


def _stationary(bins: CountBins, kernel: str, nodes: int) -> list[Candidate]:
    """Make s^2 x the product of the axes' correlations, plus a constant."""
    many = bins.n_axes > 1
    scales, scale_prior = prior_nodes(SCALE, min(nodes, 3 if many else nodes))
    axes = [_along(bins, axis, kernel, min(nodes, 3) if many else nodes) for axis in range(bins.n_axes)]
    fixed = LEVEL + _tail(bins)
    found = []
    for combination in product(*axes):
        shape = cache(partial(_product, bins.n_cells, combination))
        prior = sum(part.log_prior for part in combination)
        for s, p in zip(scales, scale_prior, strict=True):
            found.append((p + prior, s, combination[0].length, shape))
    total = np.log(np.sum(np.exp([e[0] for e in found])))
    return [Candidate(p - total, kernel, s, length, shape, fixed) for p, s, length, shape in found]


@dataclass(frozen=True)
class _Along:
    """A correlation along one axis: between its distinct places, and which of them each cell has."""

    length: float
    log_prior: float
    matrix: FloatArray
    where: IntArray


def _product(n: int, parts: Sequence[_Along]) -> FloatArray:
    """Multiply the correlations of n cells along the axes, (n, n)."""
    R = np.ones((n, n))
    for part in parts:
        R *= part.matrix[np.ix_(part.where, part.where)]
    return R


def _along(bins: CountBins, axis: int, kernel: str, nodes: int) -> list[_Along]:
    """List the correlations along one axis with their log priors."""
    x, where = np.unique(bins.places[:, axis], return_inverse=True)
    if bins.categorical[axis]:
        return [_Along(c, 0.0, c + (1.0 - c) * np.eye(len(x)), where) for c in ALIKE]
    apart = np.abs(x[:, None] - x[None, :])
    lengths, priors = prior_nodes(LENGTH, nodes, 2.5 if bins.n_axes == 1 else 1.5)
    span = float(bins.span[axis])
    return [
        _Along(span * v, p, correlation(apart, span * v, kernel), where) for v, p in zip(lengths, priors, strict=True)
    ]


def _wiener(bins: CountBins, nodes: int) -> list[Candidate]:
    """Make integrated Wiener processes with a linear trend."""
    t = bins.places[:, 0]
    t = (t - (t.min() if bins.excess.any() else bins.lower[:, 0].min())) / bins.span[0]
    low = np.minimum(t[:, None], t[None, :])
    R = low**3 / 3.0 + np.abs(t[:, None] - t[None, :]) * low**2 / 2.0
    x = 2.0 * t - 1.0
    trend = LEVEL + TREND * np.outer(x, x) + _tail(bins)
    scales, raw = prior_nodes(WIENER, nodes)
    normal = np.array(raw) - np.log(np.exp(raw).sum())
    return [Candidate(p, "wiener", s, np.nan, lambda: R, trend) for s, p in zip(scales, normal, strict=True)]


def area_covariance(bins: CountBins, scale: float, length: float) -> FloatArray:
    """Give the covariance of an area's departure from the shared curve, Matern-3/2 and a constant, (A, A)."""
    R = np.ones((bins.n_cells, bins.n_cells))
    for axis in range(bins.n_axes):
        x = bins.places[:, axis]
        apart = np.abs(x[:, None] - x[None, :])
        if bins.categorical[axis]:
            R *= 0.7 + 0.3 * (apart == 0)
        else:
            # one length for the set, measured in ranges of the first axis
            R *= correlation(apart, length * bins.span[axis] / bins.span[0], "matern32")
    return np.asarray(scale**2 * R + LEVEL + _tail(bins))


def _tail(bins: CountBins) -> FloatArray:
    """Let an open bin fall faster or slower than stated: exp(-(1 - d) x / tail), d ~ N(0, TAIL^2)."""
    return np.asarray(TAIL**2 * np.outer(bins.excess, bins.excess))


def rough_covariance(bins: CountBins, project: bool = True) -> FloatArray:
    """Give the unit covariance of what bins cannot show: Matern-3/2 of half a bin's width, its bin averages zero.

    K_r - K_r A' (A K_r A')^-1 A K_r, A averaging over the cells of each bin. With uneven bins in one dimension distances are
    measured in bins, so that each bin has its own half width.

    Parameters
    ----------
    project : bool
        False gives K_r itself.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> bins = bins_from_edges([0, 5, 10], cell=1)
    >>> float(np.abs(bins.averages @ rough_covariance(bins)).max()) < 1e-9
    True
    """
    K = np.ones((bins.n_cells, bins.n_cells))
    for axis in range(bins.n_axes):
        x = bins.warped[:, axis]
        apart = np.abs(x[:, None] - x[None, :])
        K *= (apart == 0).astype(np.float64) if bins.categorical[axis] else correlation(apart, 0.5, "matern32")
    if not project:
        return K
    A = bins.averages
    KA = K @ A.T
    # overlapping bins can repeat one another, so A K A' may be singular
    return np.asarray(K - KA @ np.linalg.pinv(A @ KA, rcond=1e-10, hermitian=True) @ KA.T)
