"""Scores of counts of single years, and of bins predicted from the others of their area."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from crosslevel.binned.counts.histogram import draw_curves
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import find_modes, posterior_covariance
from crosslevel.binned.counts.pooled import PooledFit

FloatArray = npt.NDArray[np.float64]


def log_scores(truth: FloatArray, totals: FloatArray, shares: FloatArray) -> FloatArray:
    """Give the log probability of each true cell count given its bin's total, (A,): a mixture of binomials over draws.

    Parameters
    ----------
    truth : (A,)
    totals : (A,)
        Total of each cell's bin.
    shares : (n, A)
    """
    log_p = stats.binom.logpmf(truth, totals, np.clip(shares, 1e-300, 1.0))
    return np.asarray(special.logsumexp(log_p, axis=0) - np.log(len(shares)))


def randomized_pit(truth: FloatArray, totals: FloatArray, shares: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Give the randomized probability integral transform of each true cell count, (A,): uniform when the draws are right."""
    p = np.clip(shares, 0.0, 1.0)
    below = stats.binom.cdf(truth - 1, totals, p).mean(axis=0)
    at = stats.binom.pmf(truth, totals, p).mean(axis=0)
    return np.asarray(below + rng.uniform(size=len(truth)) * at)


def interval_coverage(pit: FloatArray, level: float = 0.95) -> float:
    """Give the share of truths inside the central interval of this level."""
    half = 0.5 * (1.0 - level)
    return float(np.mean((pit > half) & (pit < 1.0 - half)))


@dataclass(frozen=True)
class LeaveOneOut:
    """Bins predicted from the others.

    Attributes
    ----------
    log_density, pit : arrays of one entry per bin (areas x bins when pooled)
        Log probability of the bin left out, and its randomized probability integral transform.
    """

    log_density: FloatArray
    pit: FloatArray

    @property
    def mean_log_density(self) -> float:
        """Mean over the bins."""
        return float(np.nanmean(self.log_density))

    def coverage(self, level: float = 0.95) -> float:
        """Give the share of the bins inside their central interval."""
        return interval_coverage(self.pit[~np.isnan(self.pit)], level)


def leave_one_out_pooled(fit: PooledFit, n_draws: int = 500, seed: int = 0) -> LeaveOneOut:
    """Predict each bin of each area from the area's other bins and the shared curve, (N, B).

    The shared curve and the scales of the departures still hold the bin that is left out, one of N areas.
    """
    rng = np.random.default_rng(seed)
    score, pit = np.full(fit.totals.shape, np.nan), np.full(fit.totals.shape, np.nan)
    bins = fit.bins
    expected = np.exp(fit.shared.mean) @ bins.C.T
    for b in range(bins.n_bins):
        others = fit.totals.copy()
        others[:, b] = np.nan
        seen = ~np.isnan(others)
        size = np.maximum(np.nansum(others, axis=1), 0.5) / np.maximum(seen @ expected, 1e-300)
        mean = fit.shared.mean + np.log(size)[:, None]
        observed = PoissonBins(np.where(seen.any(axis=1, keepdims=True), others, 0.0))
        modes = find_modes(fit.K, bins.C, observed, mean, start=mean)
        for i in np.flatnonzero(~np.isnan(fit.totals[:, b]) & seen.any(axis=1)):
            V = posterior_covariance(modes, fit.K, int(i))
            score[i, b], pit[i, b] = _held_out(bins.C[b], fit.totals[i, b], modes.f[i], V, n_draws, rng)
    return LeaveOneOut(score, pit)


def _held_out(
    row: FloatArray, y: float, mean: FloatArray, covariance: FloatArray, n_draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    cells = row > 0
    f = draw_curves(mean[cells], covariance[np.ix_(cells, cells)], n_draws, rng)
    lam = np.minimum(np.exp(f), 1e300) @ row[cells]
    y = round(y)
    log_p = stats.poisson.logpmf(y, lam)
    pit = stats.poisson.cdf(y - 1, lam).mean() + rng.uniform() * np.exp(log_p).mean()
    return float(special.logsumexp(log_p) - np.log(n_draws)), float(pit)
