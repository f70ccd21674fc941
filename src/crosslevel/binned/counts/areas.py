"""Fit the histograms of many areas around a shared curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.binned.counts.cells import CountBins, bins_from_edges
from crosslevel.binned.counts.covariances import KERNELS
from crosslevel.binned.counts.curve import ROUGHNESS
from crosslevel.binned.counts.fit import CountFit, RegionBands
from crosslevel.binned.counts.nested import difference_nested
from crosslevel.binned.counts.pooled import PooledCurves, pool_curves
from crosslevel.data.checks import as_numbers, check_counts, check_seed
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["PooledFit", "pool_counts"]


@dataclass(frozen=True)
class PooledFit:
    """Curves of N areas.

    Attributes
    ----------
    bins : CountBins
    totals : (N, B)
    curves : PooledCurves
        The shared curve, and each area's.
    """

    bins: CountBins
    totals: FloatArray
    curves: PooledCurves

    def __len__(self) -> int:
        return len(self.totals)

    def area(self, i: int) -> CountFit:
        """Give the fit of one area, which draws and predicts as one histogram does.

        Examples
        --------
        >>> fit = pool_counts([0, 10, 20, 30], [[90, 60, 30], [10, 12, 3]], cell=1)
        >>> fit.area(1).draws(3).counts.sum(axis=1).tolist()
        [25, 25, 25]
        """
        seen = ~np.isnan(self.totals[i])
        covariance = self.curves.covariance(self.bins, self.totals, i)
        kept = self.bins.keep(seen)
        return CountFit(
            kept, self.totals[i, seen], self.curves.f[i], covariance, "poisson", kept.disjoint, self.curves.shared
        )

    def predict(
        self, lower: Any = None, upper: Any = None, level: float = 0.95, n: int = 1000, random_state: int | None = 0
    ) -> list[RegionBands]:
        """Predict the same regions in every area."""
        seeds = np.random.SeedSequence(check_seed(random_state)).generate_state(len(self))
        return [self.area(i).predict(lower, upper, level, n, int(s)) for i, s in enumerate(seeds)]


def pool_counts(
    bins: Any,
    totals: Any,
    *,
    missing: str = "refuse",
    kernels: Sequence[str] = KERNELS,
    roughness: Sequence[float] = ROUGHNESS,
    scales: tuple[float, float] | None = None,
    **cutting: Any,
) -> PooledFit:
    """Learn the curves behind the histograms of many areas that share their bins.

    Two stages: the shared curve from the sum of the areas, averaged over kernels and scales; then each area's departure from it,
    with one scale and length for the set by summed evidence.

    Parameters
    ----------
    bins : CountBins or edges
    totals : (N, B)
    missing : {"refuse", "skip"}
    scales : (s, l), optional
        Of the departures, instead of learned ones.

    Examples
    --------
    >>> fit = pool_counts([0, 10, 20, 30], [[90, 60, 30], [10, 12, 3]], cell=1)
    >>> len(fit), fit.curves.f.shape
    (2, (2, 30))
    """
    cut = bins if isinstance(bins, CountBins) else bins_from_edges(bins, **cutting)
    y = as_numbers(totals, "totals", 2)
    if y.shape[1] != cut.n_bins:
        raise InputError(
            f"totals has {y.shape[1]} columns for {cut.n_bins} bins; pass one row per area, one column per bin."
        )
    if len(y) < 2:
        raise InputError("totals has one row; pooling needs at least two areas. Fit one histogram with fit_counts.")
    if missing != "skip" and np.isnan(y).any():
        row, column = (int(v) for v in np.argwhere(np.isnan(y))[0])
        raise InputError(
            f"totals has {int(np.isnan(y).sum())} missing value(s), the first in area {row}, bin {column}; fill them, or pass "
            "missing='skip' to treat these bins as not observed."
        )
    check_counts(np.nan_to_num(y), "totals", 2)
    seen = ~np.isnan(y)
    if not seen.any(axis=1).all():
        raise InputError(f"area {int(np.argmin(seen.any(axis=1)))} has no observed bin; drop this row of totals.")
    if cut.n_bins < 2:
        raise InputError("there is one bin only, which says nothing about a curve; pass at least two bins.")
    if not np.nansum(y) > 0:
        raise InputError("totals is zero in every area; there is nobody to place.")
    if not cut.disjoint and seen.all():
        apart = [difference_nested(cut, row) for row in y]
        found = [a for a in apart if a is not None]
        if len(found) == len(apart):
            cut, y = found[0][0], np.array([totals for _, totals in found])
    return PooledFit(cut, y, pool_curves(cut, y, kernels, roughness, scales))
