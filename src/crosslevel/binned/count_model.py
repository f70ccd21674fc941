"""Fit counts behind regions: read what the caller has, choose the model, keep what predictions need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.checks import layout_notes
from crosslevel.binned.count_regions import as_pieces, cut_regions
from crosslevel.binned.counts.areas import PooledFit, pool_counts
from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.covariances import KERNELS
from crosslevel.binned.counts.curve import Curve
from crosslevel.binned.counts.fit import CountDraws, CountFit, fit_counts
from crosslevel.binned.counts.rates import RateFit, fit_rates
from crosslevel.binned.privacy import atoms_of, privacy_notes
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.binned.regions.points import as_regions
from crosslevel.binned.regions.sums import stack
from crosslevel.data.checks import check_counts
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["FAMILIES", "CountModel", "as_kernels", "fit_count_model"]


FAMILIES = {"poisson": "poisson", "negative_binomial": "negbinomial", "binomial": "binomial"}
"""Likelihood of the estimator -> its name in `crosslevel.binned.counts`."""
KNOWN = (*KERNELS, "matern32", "matern12")


@dataclass(frozen=True, eq=False)
class CountModel:
    """Counts behind regions, fitted.

    Attributes
    ----------
    regions : Regions
        As observed, a row per count.
    y : (n,)
    likelihood : str
    fit : CountFit or PooledFit
        The latter when areas share a curve.
    rates : RateFit or None
        Numerator and denominator together, when there is an exposure.
    codes : mapping of axis to values
        Of axes of categories.
    pool : str or None
        Name of the key of the areas.
    areas : tuple
        The areas, in order of their first row.
    notes : tuple of str
    """

    regions: Regions
    y: FloatArray
    likelihood: str
    fit: CountFit | PooledFit
    rates: RateFit | None
    codes: dict[int, FloatArray]
    pool: str | None
    areas: tuple[Any, ...]
    notes: tuple[str, ...]
    drawn: dict[tuple[int, int, int | None], CountDraws] = field(default_factory=dict, repr=False)

    @property
    def bins(self) -> CountBins:
        """Observed bins over their cells."""
        return self.fit.bins

    @property
    def curve(self) -> Curve:
        """The averaged candidates; of the shared curve when areas are pooled."""
        return self.fit.curves.shared if isinstance(self.fit, PooledFit) else self.fit.curve

    @property
    def log_evidence(self) -> float:
        """Of the counts; with pooled areas of all of them given the shared curve."""
        return float(self.fit.curves.log_evidence.sum()) if isinstance(self.fit, PooledFit) else self.curve.log_evidence

    def one(self, area: int | None) -> CountFit:
        """Give the histogram of one area, or the only one."""
        if isinstance(self.fit, PooledFit):
            assert area is not None
            return self.fit.area(area)
        return self.fit

    def draws(self, area: int | None, n: int, seed: int | None) -> CountDraws:
        """Draw the cells; the last draws are kept for the next question."""
        if seed is None:
            return self.one(area).draws(n, None)
        asked = (n, seed, area)
        if asked not in self.drawn:
            self.drawn.clear()
            self.drawn[asked] = self.one(area).draws(n, np.random.default_rng(seed if area is None else [seed, area]))
        return self.drawn[asked]

    @property
    def path(self) -> str:
        """Say in words how the numbers are made."""
        words = f"{self.likelihood.replace('_', ' ')} counts inside the log link"
        if self.likelihood == "binomial":
            words = "binomial shares inside the logit link"
        elif self.rates is not None:
            words = "rates, events and people together inside the log link"
        many = "" if not self.areas else f" in {len(self.areas):,} areas around a shared curve"
        kernels = " + ".join(self.curve.kernel_weights()) or "kernels and scales"
        return (
            f"{words}, {self.bins.n_bins:,} bins{many} over {self.bins.n_cells:,} cells, Laplace's approximation averaged by evidence "
            f"over {kernels}"
        )

    def hyperparameters(self) -> dict[str, float]:
        """Give weights of kernels, posterior means of the scales, the size of the rough part, and what areas depart by."""
        c = self.curve
        out = {f"weight_{k}": w for k, w in c.kernel_weights().items()}
        smooth = np.array([k != "wiener" for k in c.kernel], dtype=bool)
        if smooth.any() and c.weight[smooth].sum() > 1e-6:
            w = c.weight[smooth] / c.weight[smooth].sum()
            out |= {"scale": float(w @ c.scale[smooth]), "lengthscale": float(w @ c.length[smooth])}
        out["rough"] = c.rho
        if isinstance(self.fit, PooledFit):
            out |= {"area_scale": self.fit.curves.scale, "area_lengthscale": self.fit.curves.length}
        return out


def as_kernels(kernel: Any, likelihood: str) -> tuple[str, ...]:
    """Read the kernels to average over: "auto" for all three of the recipe, else names joined by "+".

    Examples
    --------
    >>> as_kernels("auto", "poisson"), as_kernels("eq + matern52", "poisson")
    (('matern52', 'eq', 'wiener'), ('eq', 'matern52'))
    """
    if kernel == "auto":
        return KERNELS
    if not isinstance(kernel, str):
        raise InputError(
            f"kernel={kernel!r} is an object, and likelihood={likelihood!r} averages over kernels by name; pass one or several of "
            f"{', '.join(KNOWN)} joined by '+', or 'auto'."
        )
    names = tuple(part.strip() for part in kernel.split("+"))
    for name in names:
        if name not in KNOWN:
            raise unknown_name("kernel", name, ("auto", *KNOWN), f"kernel of likelihood={likelihood!r}")
    return names


def fit_count_model(
    regions: Regions,
    y: Any,
    *,
    kind: str,
    likelihood: str,
    kernels: Sequence[str],
    trials: Any = None,
    exposure: Any = None,
    pool: Any = None,
    cell: Any = None,
    tail: float | None = None,
    preserve: bool | None = None,
) -> CountModel:
    """Check counts and fit them: one histogram, areas around a shared curve, a share, or a rate.

    Examples
    --------
    >>> model = fit_count_model(
    ...     Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30], kind="total", likelihood="poisson", kernels=("eq",)
    ... )
    >>> model.path.split(",")[:2]
    ['poisson counts inside the log link', ' 3 bins over 90 cells']
    """
    if kind != "total":
        raise InputError(
            f"kind={kind!r} is not possible with likelihood={likelihood!r}: counts are totals of their regions. Pass kind='total'; for "
            "rates pass the events with exposure=, for shares the successes with likelihood='binomial' and trials=."
        )
    counts = _counts(regions, y)
    _check_extras(likelihood, trials, exposure, pool)
    if preserve is not None and (likelihood == "binomial" or exposure is not None or pool is not None):
        raise InputError(
            "preserve is for one histogram of counts; shares have no totals to keep, and pooled areas and rates keep theirs in any case."
        )
    if isinstance(regions, Intervals) and regions.open_ended and tail is None:
        raise InputError(
            "regions has an open end; pass tail=, the mean excess over its finite limit beforehand (about 6 years for people of 85 "
            "and over), or give the bin a finite limit beyond which there is nobody."
        )
    fitted: CountFit | PooledFit
    name, areas, rates = None, (), None
    if pool is not None:
        name, ids = _pool(pool, len(regions))
        rows, table, areas = _pivot(regions, counts, ids)
        bins, codes = cut_regions(regions[rows], cell, tail)
        fitted = pool_counts(bins, table, missing="skip", kernels=kernels)
        notes = _pooled_notes(regions[rows], table, areas)
    elif exposure is not None:
        fitted, rates, codes = _fit_rates(regions, counts, exposure, kernels, cell, tail)
        notes = _notes(regions, counts, fitted.warnings)
    else:
        bins, codes = cut_regions(regions, cell, tail)
        fitted = fit_counts(
            bins, counts, family=FAMILIES[likelihood], trials=trials, kernels=kernels, preserve=preserve
        )
        notes = _notes(regions, counts, fitted.warnings)
    return CountModel(regions, counts, likelihood, fitted, rates, codes, name, areas, notes)


def _counts(regions: Regions, y: Any) -> FloatArray:
    """Refuse what are no counts of these regions, (n,)."""
    values = np.asarray(y, dtype=np.float64) if np.ndim(y) == 1 else y
    if isinstance(values, np.ndarray) and np.isnan(values).any():
        i = int(np.argmax(np.isnan(values)))
        raise InputError(
            f"y is missing in row {i}, {int(np.isnan(values).sum()):,} in all; leave these regions out of fit (an unknown total is "
            "simply not observed) and predict them afterwards."
        )
    counts = check_counts(y, "y", 1)
    if len(counts) != len(regions):
        raise InputError(f"y has {len(counts):,} values for {len(regions):,} regions; pass one per region.")
    if len(counts) < 2:
        raise InputError(
            "y has one bin only, which says nothing about a curve; pass at least two bins, or spread the total evenly."
        )
    if not counts.any():
        raise InputError("y is zero in every region; there is nobody to place.")
    return counts


def _check_extras(likelihood: str, trials: Any, exposure: Any, pool: Any) -> None:
    if likelihood == "binomial" and trials is None:
        raise InputError(
            "likelihood='binomial' needs trials, the numbers of which y are the successes; pass one per region."
        )
    if likelihood != "binomial" and trials is not None:
        raise InputError(f"trials is given with likelihood={likelihood!r}; shares need likelihood='binomial'.")
    for argument, value in (("pool", pool), ("exposure", exposure)):
        if value is not None and likelihood != "poisson":
            raise InputError(f"{argument} is given with likelihood={likelihood!r}; it needs likelihood='poisson'.")
    if pool is not None and exposure is not None:
        raise InputError("pool and exposure are both given; fit the rates of one area at a time.")


def _pool(pool: Any, n: int) -> tuple[str, list[Any]]:
    """Read the areas of the rows and the name of their key."""
    name = "area"
    if isinstance(pool, Mapping):
        if len(pool) != 1:
            raise InputError(f"pool names {len(pool)} columns; pass one, as in pool={{'ward': wards}}.")
        ((name, pool),) = pool.items()
    ids = [v.item() if isinstance(v, np.generic) else v for v in np.asarray(pool, dtype=object).ravel()]
    if len(ids) != n:
        raise InputError(f"pool has {len(ids):,} values for {n:,} regions; pass the area of each row.")
    missing = [i for i, v in enumerate(ids) if v is None or v != v]
    if missing:
        raise InputError(f"pool is missing in row {missing[0]}; name the area of every row.")
    return str(name), ids


def _pivot(
    regions: Regions, y: FloatArray, ids: list[Any]
) -> tuple[npt.NDArray[np.int64], FloatArray, tuple[Any, ...]]:
    """Lay long rows out as areas x bins: rows of the distinct bins, counts with NaN where an area lacks one, areas."""
    pieces = as_pieces(regions)
    if not pieces.simple:
        raise InputError("pool needs Intervals or Boxes; these regions are sums of several. Fit them without pool.")
    _, first, which = np.unique(np.hstack([pieces.lower, pieces.upper]), axis=0, return_index=True, return_inverse=True)
    areas = tuple(dict.fromkeys(ids))
    place = {a: i for i, a in enumerate(areas)}
    row = np.array([place[a] for a in ids])
    table = np.full((len(areas), len(first)), np.nan)
    cellwise = row * len(first) + which.ravel()
    if len(np.unique(cellwise)) < len(cellwise):
        order = np.argsort(cellwise, kind="stable")
        i = int(order[1:][np.diff(cellwise[order]) == 0].min())
        raise InputError(f"row {i} repeats a bin of area {ids[i]!r}; add the counts up, or drop one of the rows.")
    table[row, which.ravel()] = y
    return first.astype(np.int64), table, areas


def _fit_rates(
    regions: Regions, y: FloatArray, exposure: Any, kernels: Sequence[str], cell: Any, tail: float | None
) -> tuple[CountFit, RateFit, dict[int, FloatArray]]:
    """Fit events and people together, and give the events a histogram of their own."""
    if isinstance(exposure, tuple):
        if len(exposure) != 2:
            raise InputError("exposure is a tuple of another length than 2; pass (regions, people), or people alone.")
        other, people = as_regions(exposure[0], "exposure", regions.dimension), exposure[1]
        both, codes = cut_regions(stack(regions, other), cell, tail)
        bins, below = both.keep(np.arange(len(regions))), both.keep(np.arange(len(regions), both.n_bins))
    else:
        people = exposure
        bins, codes = cut_regions(regions, cell, tail)
        below = bins
    numbers = check_counts(people, "exposure", 1)
    if len(numbers) != below.n_bins:
        raise InputError(f"exposure has {len(numbers):,} values for {below.n_bins:,} regions; pass one per region.")
    rates = fit_rates(bins, y, numbers, below, kernels)
    A = bins.n_cells
    # the log density of events is that of people plus the log rate
    V = rates.covariance
    mean, covariance = rates.mean[:A] + rates.mean[A:], V[:A, :A] + V[:A, A:] + V[A:, :A] + V[A:, A:]
    empty = np.zeros(0)
    curve = Curve(mean, covariance, np.zeros_like(covariance), 0.0, rates.log_evidence, (), empty, empty, empty)
    return CountFit(bins, y, mean, covariance, "poisson", bins.disjoint, curve), rates, codes


def _notes(regions: Regions, y: FloatArray, said: tuple[str, ...]) -> tuple[str, ...]:
    """Say what the fit said, gaps with their repair, and units that differences reveal."""
    notes = list(said)
    if isinstance(regions, Intervals):
        gaps = [n for n in layout_notes(regions) if " gap(s) " in n]
        if gaps:  # said of intervals, with the repair, rather than of cells
            notes = [n for n in notes if "lie in no observed bin" not in n] + gaps
    return (*notes, *privacy_notes(regions, y))


def _pooled_notes(distinct: Regions, table: FloatArray, areas: tuple[Any, ...]) -> tuple[str, ...]:
    """Say gaps once, and of the first area whose differences reveal somebody, its name."""
    gaps = tuple(n for n in layout_notes(distinct) if " gap(s) " in n)
    if atoms_of(distinct) is None:
        return gaps
    for area, row in zip(areas, table, strict=True):
        seen = ~np.isnan(row)
        found = privacy_notes(distinct[seen], row[seen])
        if found:
            return (*gaps, f"{found[0]} This is area {area!r}, the first of those.")
    return gaps
