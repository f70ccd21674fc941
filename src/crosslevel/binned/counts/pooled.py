"""Many areas: one shared curve from their sum, then each area's departure from it.

Two stages on purpose. The joint mode of shared curve and departures grows false bumps, because it lacks the departures' share of
the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.covariances import AREA_SCALE, KERNELS, LENGTH, area_covariance
from crosslevel.binned.counts.curve import ROUGHNESS, Curve, average_curve
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import Modes, find_modes, posterior_covariance
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

__all__ = ["PooledCurves", "pool_curves"]


CHUNK = 2_000_000
"""Entries of J (areas x bins x cells) that are solved at once."""


@dataclass(frozen=True)
class PooledCurves:
    """Curves of N areas around a shared one.

    Attributes
    ----------
    shared : Curve
        Of the summed bins.
    f : (N, A)
        Mode of each area's curve.
    K : (A, A)
        Prior covariance of every area's departure, the uncertainty of the shared curve included.
    mean : (N, A)
        Prior mean of each area's curve.
    scale, length : float
        s and l of the departures, by summed evidence.
    log_evidence : (N,)
    """

    shared: Curve
    f: FloatArray
    K: FloatArray
    mean: FloatArray
    scale: float
    length: float
    log_evidence: FloatArray

    def covariance(self, bins: CountBins, totals: FloatArray, area: int) -> FloatArray:
        """Give the posterior covariance of one area's curve, (A, A)."""
        modes = find_modes(self.K, bins.C, PoissonBins(totals[[area]]), self.mean[[area]], start=self.f[[area]])
        return posterior_covariance(modes, self.K)


def pool_curves(
    bins: CountBins,
    totals: FloatArray,
    kernels: Sequence[str] = KERNELS,
    roughness: Sequence[float] = ROUGHNESS,
    scales: tuple[float, float] | None = None,
) -> PooledCurves:
    """Fit a shared curve and N areas around it.

    Parameters
    ----------
    totals : (N, B)
        Counts; NaN where a bin is not observed.
    scales : (s, l), optional
        Of the departures, instead of those of greatest summed evidence.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> totals = np.array([[90.0, 60.0, 30.0], [45.0, 30.0, 15.0], [10.0, 12.0, 3.0]])
    >>> pool_curves(bins_from_edges([0, 10, 20, 30], cell=1), totals).f.shape
    (3, 30)
    """
    # a bin that some area lacks is summed over the areas that have it, raised to all people
    seen = ~np.isnan(totals)
    filled = np.where(seen, totals, 0.0)
    shared = average_curve(bins, PoissonBins(_summed(filled, seen)), kernels, roughness)
    expected = np.exp(shared.mean) @ bins.C.T
    size = np.maximum(filled.sum(axis=1), 0.5) / (seen @ expected)
    mean = np.log(size)[:, None] + shared.mean
    found = _find_scales(bins, totals, shared, mean) if scales is None else scales
    K = shared.covariance + area_covariance(bins, *found)
    parts = _solve(bins, totals, K, mean, mean)
    f = np.concatenate([p.f for p in parts])
    return PooledCurves(shared, f, K, mean, *found, np.concatenate([p.log_evidence for p in parts]))


def _summed(filled: FloatArray, seen: npt.NDArray[np.bool_]) -> FloatArray:
    """Sum the areas bin by bin; a bin seen nowhere is NaN, one seen in some areas is raised by those areas' size, (1, B)."""
    if seen.all():
        return filled.sum(axis=0, keepdims=True)
    size = filled.sum(axis=1) / np.maximum(seen.mean(axis=1), 1e-12)
    share = (size[:, None] * seen).sum(axis=0) / max(float(size.sum()), 1e-300)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(share > 0, filled.sum(axis=0) / share, np.nan)[None, :]


def _solve(bins: CountBins, totals: FloatArray, K: FloatArray, mean: FloatArray, start: FloatArray) -> list[Modes]:
    size = max(1, CHUNK // bins.C.size)
    return [
        find_modes(K, bins.C, PoissonBins(totals[i : i + size]), mean[i : i + size], start[i : i + size])
        for i in range(0, len(totals), size)
    ]


def _find_scales(bins: CountBins, totals: FloatArray, shared: Curve, mean: FloatArray) -> tuple[float, float]:
    """Find s and l of greatest evidence, summed over the areas, and prior."""
    centre = np.array([AREA_SCALE[0], LENGTH[0] + np.log(bins.span[0])])
    spread = np.array([AREA_SCALE[1], LENGTH[1]])
    last = mean

    def loss(z: FloatArray) -> float:
        nonlocal last
        s, length = np.exp(centre + spread * z)
        try:
            parts = _solve(bins, totals, shared.covariance + area_covariance(bins, s, length), mean, last)
        except ConvergenceError:
            return np.inf
        last = np.concatenate([p.f for p in parts])
        return 0.5 * float(z @ z) - sum(float(p.log_evidence.sum()) for p in parts)

    first = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.0]])
    best = optimize.minimize(
        loss,
        first[0],
        method="Nelder-Mead",
        options={"initial_simplex": first, "xatol": 0.02, "fatol": 0.02, "maxfev": 80},
    )
    s, length = np.exp(centre + spread * best.x)
    return float(s), float(length)
