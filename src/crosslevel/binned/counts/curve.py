"""One histogram: a curve averaged over kernels and scales, with a rough part the bins cannot show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np

from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.likelihoods import BinLikelihood, BinomialBins
from crosslevel.binned.counts.modes import Modes, find_modes, posterior_covariance
from crosslevel.errors import InputError
from crosslevel.numerics.kernels import matern
from crosslevel.typing import FloatArray, IntArray, Step

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


ROUGHNESS = (0.0, 0.07, 0.14, 0.28)
"""Standard deviations of the rough part that are weighed by their evidence."""
ROUGH_NODES = 4
"""Values of each scale while the sizes of the rough part are weighed: their evidence is wanted, not the curve."""
CHUNK = 400_000
"""Entries of the covariances that are solved at once, a few caches' worth."""


@dataclass(frozen=True)
class Curve:
    """The posterior of f, collapsed to one Gaussian.

    Attributes
    ----------
    mean : (A,)
        Mean of f over the candidates.
    within : (A, A)
        Covariance within and between the candidates, without the rough part.
    rough : (A, A)
        rho^2 x the projected rough covariance.
    rho : float
        Root of the evidence-weighted mean of rho^2.
    log_evidence : float
        Of the whole average, without the rough part.
    kernel, scale, length, weight : the candidates and their posterior weights, (n,)
    bins : (B,)
        The means of the observed bins on the scale of the link, averaged over the candidates. Bins are known far better than
        their cells, and the mean of a bin is no linear function of f, so that it is not what the mean of f gives.
    with_bins : (B, A + B)
        Covariances of ``bins`` with f, and with one another.
    hidden : (A, A) or None
        What the rough part is larger by where it is not allowed to be nothing. Bins do not show it, so that evidence hardly tells
        none from some, and of the expectation of single cells there always is some.
    """

    mean: FloatArray
    within: FloatArray
    rough: FloatArray
    rho: float
    log_evidence: float
    kernel: tuple[str, ...]
    scale: FloatArray
    length: FloatArray
    weight: FloatArray
    bins: FloatArray
    with_bins: FloatArray
    hidden: FloatArray | None = None

    @classmethod
    def normal(cls, n_cells: int, mean: FloatArray, covariance: FloatArray, log_evidence: float = np.nan) -> Curve:
        """Make a curve that is no average of candidates, of the mean and covariance of f (the first entries) and of the bins."""
        A, none = n_cells, np.zeros(0)
        within = covariance[:A, :A]
        return cls(
            mean[:A], within, np.zeros_like(within), 0.0, log_evidence, (), none, none, none, mean[A:], covariance[A:]
        )

    @property
    def covariance(self) -> FloatArray:
        """Covariance of f with the rough part, (A, A)."""
        return self.within + self.rough

    @property
    def joint(self) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of f and of the bins, (A + B,) and (A + B, A + B)."""
        across = self.with_bins[:, : len(self.mean)]
        top = np.hstack([self.covariance, across.T])
        return np.concatenate([self.mean, self.bins]), np.vstack([top, self.with_bins])

    def kernel_weights(self) -> dict[str, float]:
        """Give the posterior weight of each kernel."""
        names = np.array(self.kernel)
        return {k: float(self.weight[names == k].sum()) for k in dict.fromkeys(self.kernel)}


def flat_mean(bins: CountBins, likelihood: BinLikelihood) -> FloatArray:
    """Give mu, the f of a flat curve with the observed total, (n,)."""
    seen = likelihood.seen
    y = np.where(seen, likelihood.totals, 0.0).sum(axis=1)
    if isinstance(likelihood, BinomialBins):
        n = np.where(seen, likelihood.trials, 0.0).sum(axis=1)
        return np.asarray(np.log((y + 0.5) / (n - y + 0.5)))
    # half a person keeps an area without people finite, and is nothing in any other
    return np.asarray(np.log(np.maximum(y, 0.5) / (seen @ bins.C.sum(axis=1))))


def average_curve(
    bins: CountBins,
    likelihood: BinLikelihood,
    kernels: Sequence[str] = KERNELS,
    roughness: Sequence[float] = ROUGHNESS,
    nodes: int = 7,
    step: Step | None = None,
) -> Curve:
    """Average the curve behind one histogram over kernels and scales, weighted by evidence x prior.

    Parameters
    ----------
    likelihood : BinLikelihood
        Of one histogram.
    roughness : values of rho
        Weighed by their evidence with the rough term left unprojected; the projected one is added to the covariance, so that
        it widens the bands and leaves the mean alone.
    nodes : int
        Values of each scale.
    step : callable, optional
        Called after every portion of covariances.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> from crosslevel.binned.counts.likelihoods import PoissonBins
    >>> curve = average_curve(bins_from_edges([0, 10, 20, 30], cell=1), PoissonBins(np.array([[90.0, 60.0, 30.0]])))
    >>> bool(curve.mean[0] > curve.mean[-1]), curve.mean.shape
    (True, (30,))
    """
    prior_mean = np.full(bins.n_cells, flat_mean(bins, likelihood)[0])
    tried = candidates(bins, kernels, nodes)
    solved = solve_all(bins, likelihood, tried, prior_mean, step=step)
    weight, total = normalize(solved.log_evidence + tried.log_prior)
    seen = likelihood.seen[0]
    on_link = np.concatenate([likelihood.on_link(part.lam)[0][:, seen] for part in solved.parts])

    def covariance(i: int) -> FloatArray:
        V, (modes, row) = solved.covariance(tried.stack([i])[0], i), solved.problem(i)
        slope = (modes.J[row] * likelihood.on_link(modes.lam[row])[1][:, None])[seen]
        return with_functionals(V, slope)

    mean, joint = blend(np.hstack([solved.f, on_link]), weight, covariance)
    A = bins.n_cells
    within = joint[:A, :A]
    # in several dimensions the best few; in one a coarser grid, whose weights may move with rho
    few = tried.take(np.argsort(weight)[-6:].tolist()) if bins.n_axes > 1 else candidates(bins, kernels, ROUGH_NODES)
    rho, some = _find_rho(bins, likelihood, few, roughness, prior_mean, step)
    unit = rough_covariance(bins.keep(likelihood.seen[0])) if some > 0 else np.zeros_like(within)
    rough, hidden = rho**2 * unit, (some**2 - rho**2) * unit
    return Curve(
        mean[:A],
        within,
        rough,
        rho,
        total,
        tried.kernel,
        tried.scale,
        tried.length,
        weight,
        mean[A:],
        joint[A:],
        hidden,
    )


def with_functionals(V: FloatArray, slope: FloatArray) -> FloatArray:
    """Give the covariance of x, which is V (A, A), and of linear functions slope x (B, A) of it, (A + B, A + B).

    Examples
    --------
    >>> with_functionals(np.eye(2), np.array([[1.0, 1.0]]))
    array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 2.]])
    """
    across = slope @ V
    return np.block([[V, across.T], [across, across @ slope.T]])


@dataclass(frozen=True)
class Solutions:
    """One histogram solved under many covariances, some at a time.

    Attributes
    ----------
    f : (n, A)
    log_evidence : (n,)
    parts : the modes, ``size`` problems in each
    """

    f: FloatArray
    log_evidence: FloatArray
    parts: tuple[Modes, ...]
    size: int

    def covariance(self, K: FloatArray, i: int) -> FloatArray:
        """Give the posterior covariance under covariance i, which is K, (A, A)."""
        return posterior_covariance(self.parts[i // self.size], K, i % self.size)

    def problem(self, i: int) -> tuple[Modes, int]:
        """Give the modes that hold problem i, and its row in them."""
        return self.parts[i // self.size], i % self.size


def solve_all(
    bins: CountBins,
    likelihood: BinLikelihood,
    tried: Candidates,
    mean: FloatArray,
    extra: FloatArray | None = None,
    start: FloatArray | None = None,
    step: Step | None = None,
) -> Solutions:
    """Solve one histogram under all candidates, in portions that fit the cache; ``extra`` (A, A) is added to each."""
    size = max(1, CHUNK // bins.n_cells**2)
    parts = []
    for i in range(0, len(tried), size):
        K = tried.stack(range(i, min(i + size, len(tried))))
        K = K if extra is None else K + extra
        parts.append(find_modes(K, bins.C, likelihood, mean, None if start is None else start[i : i + size]))
        if step is not None:
            step()
    return Solutions(
        np.concatenate([p.f for p in parts]), np.concatenate([p.log_evidence for p in parts]), tuple(parts), size
    )


def normalize(log_weight: FloatArray) -> tuple[FloatArray, float]:
    """Give weights that sum to one, and the log of what they summed to.

    Examples
    --------
    >>> weight, total = normalize(np.log([1.0, 3.0]))
    >>> weight.round(6), round(total, 6) == round(np.log(4), 6)
    (array([0.25, 0.75]), np.True_)
    """
    top = float(log_weight.max())
    w = np.exp(log_weight - top)
    return w / w.sum(), top + float(np.log(w.sum()))


def blend(
    means: FloatArray, weight: FloatArray, covariance: Callable[[int], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Collapse a mixture of Gaussians to one: mean, and covariance within and between its parts.

    Examples
    --------
    >>> mean, V = blend(np.array([[0.0], [2.0]]), np.array([0.5, 0.5]), lambda i: np.eye(1))
    >>> mean.tolist(), V.tolist()
    ([1.0], [[2.0]])
    """
    mean = weight @ means
    off = means - mean
    both = (off * weight[:, None]).T @ off
    for i in np.flatnonzero(weight > 1e-7):
        both += weight[i] * covariance(int(i))
    return np.asarray(mean), np.asarray(both)


def _find_rho(
    bins: CountBins,
    likelihood: BinLikelihood,
    tried: Candidates,
    roughness: Sequence[float],
    mean: FloatArray,
    step: Step | None,
) -> tuple[float, float]:
    """Weigh the sizes of the rough part by evidence, over kernels and scales, the rough term unprojected.

    Gives the root mean square over all sizes, and over those that are not zero.
    """
    values = np.array(roughness, dtype=np.float64)
    if len(values) == 1:
        return float(values[0]), float(values[0])
    K_r = rough_covariance(bins, project=False)
    log_e, start = [], None
    for rho in values:
        solved = solve_all(bins, likelihood, tried, mean, rho**2 * K_r, start, step)
        start = solved.f
        log_e.append(normalize(solved.log_evidence + tried.log_prior)[1])
    w, _ = normalize(np.array(log_e))
    some = w * (values > 0)
    return float(np.sqrt(w @ values**2)), float(np.sqrt(some @ values**2 / max(some.sum(), 1e-300)))
