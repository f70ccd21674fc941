"""Score a fit of counts on its own data: bins predicted from the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from crosslevel.binned.counts.curve import average_curve
from crosslevel.binned.counts.histogram import CountFit
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.model import CountModel
from crosslevel.binned.counts.modes import find_modes, posterior_covariance
from crosslevel.binned.counts.pooled import PooledFit
from crosslevel.binned.counts.predictive import draw_curves, interval_coverage
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, Step


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


def score_left_out(model: CountModel, step: Step | None = None) -> LeaveOneOut:
    """Predict each bin of a model from the others; ``step`` is called after each."""
    if isinstance(model.fit, CountFit):
        return leave_one_out(model.fit, step=step)
    return leave_one_out_pooled(model.fit, step=step)


def leave_one_out(fit: CountFit, n_draws: int = 1000, seed: int = 0, step: Step | None = None) -> LeaveOneOut:
    """Predict each bin of a Poisson fit from the other bins; everything is learned again without it.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> from crosslevel.binned.counts.histogram import fit_counts
    >>> check = leave_one_out(fit_counts(bins_from_edges([0, 10, 20, 30, 40], cell=2), [90, 60, 40, 30]))
    >>> check.log_density.shape
    (4,)
    """
    if fit.likelihood != "poisson":
        raise InputError(
            f"leave-one-out is for Poisson fits, and this one is {fit.likelihood}; score it on data that were left out."
        )
    rng = np.random.default_rng(seed)
    score, pit = np.empty(len(fit.totals)), np.empty(len(fit.totals))
    for b, y in enumerate(fit.totals):
        if step is not None and b:
            step()
        others = np.arange(len(fit.totals)) != b
        if not fit.totals[others].sum() > 0:
            score[b], pit[b] = np.nan, np.nan
            continue
        curve = average_curve(fit.bins.keep(others), PoissonBins(fit.totals[None, others]))
        score[b], pit[b] = _held_out(fit.bins.C[b], y, curve.mean, curve.covariance, n_draws, rng)
    return LeaveOneOut(score, pit)


def leave_one_out_pooled(fit: PooledFit, n_draws: int = 500, seed: int = 0, step: Step | None = None) -> LeaveOneOut:
    """Predict each bin of each area from the area's other bins and the shared curve, (N, B).

    The shared curve and the scales of the departures still hold the bin that is left out, one of N areas.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> from crosslevel.binned.counts.pooled import pool_counts
    >>> fit = pool_counts(bins_from_edges([0, 10, 20, 30], cell=2), np.array([[90.0, 60, 30], [10, 12, 3]]))
    >>> leave_one_out_pooled(fit).pit.shape
    (2, 3)
    """
    rng = np.random.default_rng(seed)
    score, pit = np.full(fit.totals.shape, np.nan), np.full(fit.totals.shape, np.nan)
    bins = fit.bins
    expected = np.exp(fit.shared.mean) @ bins.C.T
    for b in range(bins.n_bins):
        if step is not None and b:
            step()
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
