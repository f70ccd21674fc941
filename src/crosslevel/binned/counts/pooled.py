"""Fit the histograms of many areas: one shared curve from their sum, then each area's departure from it.

Two stages on purpose. The joint mode of shared curve and departures grows false bumps, because it lacks the departures' share of
the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from crosslevel.binned.counts.cells import CountBins, difference_nested, measured_in_bins
from crosslevel.binned.counts.curve import (
    AREA_SCALE,
    KERNELS,
    LENGTH,
    Curve,
    area_covariance,
    average_curve,
    with_functionals,
)
from crosslevel.binned.counts.histogram import CountFit
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import Modes, find_modes, posterior_covariance
from crosslevel.errors import ConvergenceError
from crosslevel.typing import BoolArray, FloatArray, Step

CHUNK = 2_000_000
"""Entries of J (areas x bins x cells) that are solved at once."""


@dataclass(frozen=True)
class PooledFit:
    """Curves of N areas around a shared one.

    Attributes
    ----------
    bins : CountBins
    totals : (N, B)
        NaN where an area lacks a bin.
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

    bins: CountBins
    totals: FloatArray
    shared: Curve
    f: FloatArray
    K: FloatArray
    mean: FloatArray
    scale: float
    length: float
    log_evidence: FloatArray

    def __len__(self) -> int:
        return len(self.totals)

    def area(self, i: int) -> CountFit:
        """Give the fit of one area, which draws as one histogram does.

        Examples
        --------
        >>> from crosslevel.binned.counts.cells import bins_from_edges
        >>> fit = pool_counts(bins_from_edges([0, 10, 20, 30], cell=1), np.array([[90.0, 60, 30], [10, 12, 3]]))
        >>> fit.area(1).draws(3).counts.sum(axis=1).tolist()
        [25, 25, 25]
        """
        seen = ~np.isnan(self.totals[i])
        y, at, A = PoissonBins(self.totals[[i]]), self.f[[i]], self.bins.n_cells
        modes = find_modes(self.K, self.bins.C, y, self.mean[[i]], start=at)
        on_link, steep = y.on_link(modes.lam[0, seen])
        covariance = with_functionals(posterior_covariance(modes, self.K), modes.J[0, seen] * steep[:, None])
        kept = self.bins.keep(seen)
        curve = Curve.normal(A, np.concatenate([self.f[i], on_link]), covariance)
        return CountFit(kept, self.totals[i, seen], curve, "poisson", kept.disjoint)


def pool_counts(
    bins: CountBins,
    totals: FloatArray,
    kernels: Sequence[str] = KERNELS,
    step: Step | None = None,
    areas: Sequence[object] = (),
) -> PooledFit:
    """Learn the curves behind the histograms of many areas that share their bins.

    Two stages: the shared curve from the sum of the areas, averaged over kernels and scales; then each area's departure from it,
    with one scale and length for the set by summed evidence.

    Parameters
    ----------
    bins : CountBins
    totals : (N, B)
        Counts of at least two areas; NaN where a bin is not observed.
    areas : N names, optional
        For errors; their numbers by default.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> totals = np.array([[90.0, 60.0, 30.0], [45.0, 30.0, 15.0], [10.0, 12.0, 3.0]])
    >>> pool_counts(bins_from_edges([0, 10, 20, 30], cell=1), totals).f.shape
    (3, 30)
    """
    if not bins.disjoint:
        bins, totals = difference_areas(bins, totals, areas or range(len(totals)))
    seen = ~np.isnan(totals)
    filled = np.where(seen, totals, 0.0)
    shared = average_curve(bins, PoissonBins(_summed(filled, seen)), kernels, step=step)
    expected = np.exp(shared.mean) @ bins.C.T
    size = np.maximum(filled.sum(axis=1), 0.5) / (seen @ expected)
    mean = np.log(size)[:, None] + shared.mean
    scale, length = _find_scales(bins, totals, shared, mean, step)
    K = shared.covariance + area_covariance(bins, scale, length)
    parts = _solve(bins, totals, K, mean, mean)
    f, log_evidence = (np.concatenate([getattr(p, n) for p in parts]) for n in ("f", "log_evidence"))
    return PooledFit(bins, totals, shared, f, K, mean, scale, length, log_evidence)


def difference_areas(bins: CountBins, totals: FloatArray, areas: Sequence[object]) -> tuple[CountBins, FloatArray]:
    """Replace, area by area, every bin that holds others of the area by what they leave of it.

    Areas may have different bins, so what is left differs too: the bins returned are those of all areas together, each once, and
    ``totals`` is NaN where an area lacks one. Bins of an area that overlap without one holding the other stay as they are.

    Parameters
    ----------
    totals : (N, B)
    areas : N names

    Examples
    --------
    The second area has a total, and both have its parts:

    >>> from crosslevel.binned.counts.cells import bins_from_intervals
    >>> bins = bins_from_intervals([0, 4, 0], [4, 10, 10], cell=2)
    >>> found, left = difference_areas(bins, np.array([[9.0, 21.0, np.nan], [4.0, 6.0, 10.0]]), ["a", "b"])
    >>> (found.C > 0).astype(int).tolist(), left.tolist()
    ([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], [[9.0, 21.0], [4.0, 6.0]])
    """
    rows: dict[bytes, FloatArray] = {}
    counts: list[dict[bytes, float]] = []
    for name, y in zip(areas, totals, strict=True):
        own, seen = bins.keep(~np.isnan(y)), y[~np.isnan(y)]
        found = None if own.disjoint else difference_nested(own, seen, f" of area {name!r}")
        kept, left = (own, seen) if found is None else found
        rows |= {row.tobytes(): row for row in kept.C}
        counts.append({row.tobytes(): float(value) for row, value in zip(kept.C, left, strict=True)})
    table = np.array([[of.get(key, np.nan) for key in rows] for of in counts])
    return measured_in_bins(bins.with_rows(np.array(list(rows.values())))), table


def _summed(filled: FloatArray, seen: BoolArray) -> FloatArray:
    """Sum the areas bin by bin, (1, B).

    A bin that some areas lack is raised by the size of those that have it; one seen nowhere is NaN.
    """
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


def _find_scales(
    bins: CountBins, totals: FloatArray, shared: Curve, mean: FloatArray, step: Step | None
) -> tuple[float, float]:
    """Find s and l of greatest evidence, summed over the areas, and prior."""
    center = np.array([AREA_SCALE[0], LENGTH[0] + np.log(bins.span[0])])
    spread = np.array([AREA_SCALE[1], LENGTH[1]])
    last = mean

    def loss(z: FloatArray) -> float:
        nonlocal last
        s, length = np.exp(center + spread * z)
        try:
            parts = _solve(bins, totals, shared.covariance + area_covariance(bins, s, length), mean, last)
        except ConvergenceError:
            return np.inf
        last = np.concatenate([p.f for p in parts])
        if step is not None:
            step()
        return 0.5 * float(z @ z) - sum(float(p.log_evidence.sum()) for p in parts)

    first = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.0]])
    best = optimize.minimize(
        loss,
        first[0],
        method="Nelder-Mead",
        options={"initial_simplex": first, "xatol": 0.02, "fatol": 0.02, "maxfev": 80},
    )
    s, length = np.exp(center + spread * best.x)
    return float(s), float(length)
