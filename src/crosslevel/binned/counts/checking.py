"""How far may a fit be trusted? Bins predicted from the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from crosslevel.binned.counts.areas import PooledFit
from crosslevel.binned.counts.curve import average_curve
from crosslevel.binned.counts.fit import CountFit
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import find_modes, posterior_covariance
from crosslevel.binned.counts.predictive import draw_curves, held_share
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["LeaveOneOut", "leave_one_out", "leave_one_out_pooled"]


@dataclass(frozen=True)
class LeaveOneOut:
    """Bins predicted from the others.

    Attributes
    ----------
    log_density, pit : arrays of one entry per bin (areas x bins when pooled)
        Log probability of the bin left out, and its randomised probability integral transform.
    """

    log_density: FloatArray
    pit: FloatArray

    @property
    def mean_log_density(self) -> float:
        """Mean over the bins."""
        return float(np.nanmean(self.log_density))

    def coverage(self, level: float = 0.95) -> float:
        """Which share of the bins the central interval holds."""
        return held_share(self.pit[~np.isnan(self.pit)], level)


def leave_one_out(fit: CountFit, n: int = 1000, random_state: int | None = 0) -> LeaveOneOut:
    """Predict each bin of a Poisson fit from the other bins; everything is learned again without it.

    Examples
    --------
    >>> from crosslevel.binned.counts.fit import fit_counts
    >>> check = leave_one_out(fit_counts([0, 10, 20, 30, 40], [90, 60, 40, 30], cell=2))
    >>> check.log_density.shape
    (4,)
    """
    if fit.family != "poisson":
        raise InputError(
            f"leave-one-out is for Poisson fits, and this one is {fit.family}; score it on merged bins instead."
        )
    rng = np.random.default_rng(random_state)
    score, pit = np.empty(len(fit.totals)), np.empty(len(fit.totals))
    for b, y in enumerate(fit.totals):
        others = np.arange(len(fit.totals)) != b
        if not fit.totals[others].sum() > 0:
            score[b], pit[b] = np.nan, np.nan
            continue
        curve = average_curve(fit.bins.keep(others), PoissonBins(fit.totals[None, others]))
        score[b], pit[b] = _held_out(fit.bins.C[b], y, curve.mean, curve.covariance, n, rng)
    return LeaveOneOut(score, pit)


def leave_one_out_pooled(fit: PooledFit, n: int = 500, random_state: int | None = 0) -> LeaveOneOut:
    """Predict each bin of each area from the area's other bins and the shared curve, (N, B).

    The shared curve and the scales of the departures still hold the bin that is left out, one of N areas.

    Examples
    --------
    >>> from crosslevel.binned.counts.areas import pool_counts
    >>> check = leave_one_out_pooled(pool_counts([0, 10, 20, 30], [[90, 60, 30], [10, 12, 3]], cell=2))
    >>> check.pit.shape
    (2, 3)
    """
    rng = np.random.default_rng(random_state)
    score, pit = np.full(fit.totals.shape, np.nan), np.full(fit.totals.shape, np.nan)
    curves, bins = fit.curves, fit.bins
    expected = np.exp(curves.shared.mean) @ bins.C.T
    for b in range(bins.n_bins):
        others = fit.totals.copy()
        others[:, b] = np.nan
        seen = ~np.isnan(others)
        size = np.maximum(np.nansum(others, axis=1), 0.5) / np.maximum(seen @ expected, 1e-300)
        mean = curves.shared.mean + np.log(size)[:, None]
        modes = find_modes(
            curves.K, bins.C, PoissonBins(np.where(seen.any(axis=1, keepdims=True), others, 0.0)), mean, start=mean
        )
        for i in np.flatnonzero(~np.isnan(fit.totals[:, b]) & seen.any(axis=1)):
            V = posterior_covariance(modes, curves.K, int(i))
            score[i, b], pit[i, b] = _held_out(bins.C[b], fit.totals[i, b], modes.f[i], V, n, rng)
    return LeaveOneOut(score, pit)


def _held_out(
    row: FloatArray, y: float, mean: FloatArray, covariance: FloatArray, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    cells = row > 0
    f = draw_curves(mean[cells], covariance[np.ix_(cells, cells)], n, rng)
    lam = np.minimum(np.exp(f), 1e300) @ row[cells]
    y = round(y)
    log_p = stats.poisson.logpmf(y, lam)
    pit = stats.poisson.cdf(y - 1, lam).mean() + rng.uniform() * np.exp(log_p).mean()
    return float(special.logsumexp(log_p) - np.log(n)), float(pit)
