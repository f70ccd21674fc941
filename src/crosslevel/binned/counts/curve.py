"""One histogram: a curve averaged over kernels and scales, with a rough part the bins cannot show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.binned.counts.candidates import KERNELS, Candidates, candidates, rough_covariance
from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.likelihoods import BinLikelihood, BinomialBins
from crosslevel.binned.counts.modes import Modes, find_modes, posterior_covariance
from crosslevel.typing import FloatArray, Step

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
