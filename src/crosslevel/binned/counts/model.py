"""A model of counts behind regions: one histogram, areas around a shared curve, or a share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosslevel.binned.baselines import uniform_spread
from crosslevel.binned.counts.cells import CountBins, difference_nested
from crosslevel.binned.counts.curve import Curve
from crosslevel.binned.counts.histogram import CountDraws, CountFit, fit_counts
from crosslevel.binned.counts.likelihoods import check_size
from crosslevel.binned.counts.pooled import PooledFit, pool_counts
from crosslevel.binned.counts.targets import as_pieces, cut_regions
from crosslevel.binned.privacy import privacy_warnings
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import describe_layout
from crosslevel.data.checks import check_counts, check_length, check_successes
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, Int64Array, Step


@dataclass(frozen=True, eq=False)
class CountModel:
    """Counts behind regions, fitted.

    Attributes
    ----------
    regions : Regions
        As observed, a row per count.
    y : (n,)
    fit : CountFit or PooledFit
        The latter when areas share a curve.
    codes : mapping of axis to values
        Of axes of categories.
    pool : str or None
        Name of the key of the areas.
    areas : tuple
        The areas, in order of their first row.
    warnings : tuple of str
    at_risk : (A,) or None
        Trials of each cell, those of a bin spread evenly over it: what shares are weighted by.
    """

    regions: Regions
    y: FloatArray
    fit: CountFit | PooledFit
    codes: dict[int, FloatArray]
    pool: str | None
    areas: tuple[Any, ...]
    warnings: tuple[str, ...]
    at_risk: FloatArray | None = None
    _drawn: dict[tuple[int, int, int | None], CountDraws] = field(default_factory=dict, init=False, repr=False)

    @property
    def bins(self) -> CountBins:
        """Observed bins over their cells."""
        return self.fit.bins

    @property
    def likelihood(self) -> str:
        """Likelihood of the counts."""
        return self.fit.likelihood if isinstance(self.fit, CountFit) else "poisson"

    @property
    def curve(self) -> Curve:
        """The averaged candidates; of the shared curve when areas are pooled."""
        return self.fit.shared if isinstance(self.fit, PooledFit) else self.fit.curve

    @property
    def log_evidence(self) -> float:
        """Of the counts; with pooled areas of all of them given the shared curve."""
        return float(self.fit.log_evidence.sum()) if isinstance(self.fit, PooledFit) else self.curve.log_evidence

    @property
    def distinct(self) -> Regions:
        """Regions observed, each once: rows of pooled areas repeat them."""
        return self.regions[_distinct_rows(self.regions)[0]] if self.areas else self.regions

    def totals(self, area: int | None) -> FloatArray:
        """Give the totals of one area, or of the only histogram."""
        return self.fit.totals if area is None else self.fit.totals[area]

    def one(self, area: int | None) -> CountFit:
        """Give the fit of one area, or of the only histogram."""
        return self.fit if isinstance(self.fit, CountFit) else self.fit.area(int(area or 0))

    def draws(self, area: int | None, n_draws: int, seed: int) -> CountDraws:
        """Draw the cells; the last draws are kept for the next question."""
        wanted = (n_draws, seed, area)
        if wanted not in self._drawn:
            self._drawn.clear()
            self._drawn[wanted] = self.one(area).draws(
                n_draws, np.random.default_rng(seed if area is None else [seed, area])
            )
        return self._drawn[wanted]

    def describe(self) -> str:
        """Say how the numbers are computed."""
        words = f"{self.likelihood} counts inside the log link"
        if self.likelihood == "binomial":
            words = "binomial shares inside the logit link"
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
            out |= {"area_scale": self.fit.scale, "area_lengthscale": self.fit.length}
        return out


def fit_count_model(
    regions: Regions,
    y: Any,
    *,
    kernels: Sequence[str],
    cut: Callable[[Regions], tuple[CountBins, dict[int, FloatArray]]] = cut_regions,
    trials: Any = None,
    pool: Any = None,
    preserve: bool | None = None,
    step: Step | None = None,
) -> CountModel:
    """Check counts and fit them: one histogram, areas around a shared curve, or, with trials, a share.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> model = fit_count_model(Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30], kernels=("eq",))
    >>> model.describe().split(",")[:2]
    ['poisson counts inside the log link', ' 3 bins over 90 cells']
    """
    counts = _per_region(y, "y", len(regions))
    if len(counts) < 2 or not counts.any():
        raise InputError(
            "y has one bin only, or nobody in any, which says nothing about a curve; pass at least two bins."
        )
    if ((trials is not None or preserve is not None) and pool is not None) or (
        trials is not None and preserve is not None
    ):
        raise InputError("pool, preserve and trials exclude one another: pooled areas keep their totals in any case.")
    fit: CountFit | PooledFit
    name, areas, at_risk = None, (), None
    if pool is not None:
        name, ids = _pool(pool, len(regions))
        rows, table, areas = _pivot(regions, counts, ids)
        bins, codes = cut(regions[rows])
        fit = pool_counts(bins, table, kernels, step, areas)
        said = _warnings(regions[rows], table, areas)
    else:
        bins, codes = cut(regions)
        of = None
        if trials is not None:
            of = _per_region(trials, "trials", len(counts))
            check_successes(counts, of)
        at_risk = None if of is None else _spread_trials(bins, of)
        fit = fit_counts(bins, counts, trials=of, kernels=kernels, preserve=preserve, step=step)
        said = (*fit.warnings, *_warnings(regions, counts[None], ()))
    return CountModel(regions, counts, fit, codes, name, areas, said, at_risk)


def _per_region(values: Any, argument: str, n: int) -> FloatArray:
    """Refuse what is not one count per region, (n,)."""
    counts = check_counts(values, argument, 1)
    check_length(counts, argument, n, "regions")
    check_size(counts, argument)
    return counts


def _spread_trials(bins: CountBins, trials: FloatArray) -> FloatArray:
    """Spread the trials of each bin evenly over it, (A,); cells of no bin have as many as others on average.

    Bins that hold others are taken as their rest, as counts are; a cell of bins that overlap has the mean of their densities.
    """
    rows, people = bins, trials
    if not bins.disjoint:
        with suppress(InputError):  # shares of different people, whose numbers need not add up
            rows, people = difference_nested(bins, trials) or (bins, trials)
    spread = uniform_spread(rows.C, people)
    covered = (rows.C > 0).any(axis=0)
    density = spread[covered].sum() / bins.weight[covered].sum()
    return np.where(covered, spread, density * bins.weight)


def _pool(pool: Any, n: int) -> tuple[str, list[Any]]:
    """Read the areas of the rows and the name of their key."""
    name = "area"
    if isinstance(pool, Mapping):
        if len(pool) != 1:
            raise InputError(f"pool names {len(pool)} columns; pass one, as in pool={{'ward': wards}}.")
        ((name, pool),) = pool.items()
    ids = [v.item() if isinstance(v, np.generic) else v for v in list(pool)]
    check_length(ids, "pool", n, "regions")
    # pandas.NA equals nothing, and says so by itself
    odd = next((i for i, v in enumerate(ids) if v is None or not isinstance(v, Hashable) or (v == v) is not True), None)
    if odd is not None:
        raise InputError(f"pool is {ids[odd]!r} in row {odd}; name one area for each row, as text or a number.")
    if len(set(ids)) < 2:
        raise InputError(f"pool names one area only, {ids[0]!r}; name at least two areas, or fit without pool.")
    return str(name), ids


def _distinct_rows(regions: Regions) -> tuple[Int64Array, Int64Array]:
    """Give a row of each distinct bin, (B,), and the bin of each row, (n,)."""
    pieces = as_pieces(regions)
    if not pieces.simple:
        raise InputError("pool needs Intervals or Boxes; these regions are sums of several. Fit them without pool.")
    _, first, which = np.unique(np.hstack([pieces.lower, pieces.upper]), axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.ravel()


def _pivot(regions: Regions, y: FloatArray, ids: list[Any]) -> tuple[Int64Array, FloatArray, tuple[Any, ...]]:
    """Lay long rows out as areas x bins: rows of the distinct bins, counts with NaN where an area lacks one, areas."""
    first, which = _distinct_rows(regions)
    if len(first) < 2:
        raise InputError("regions has one bin only, which says nothing about a curve; pass at least two bins.")
    areas = tuple(dict.fromkeys(ids))
    place = {a: i for i, a in enumerate(areas)}
    row = np.array([place[a] for a in ids])
    table = np.full((len(areas), len(first)), np.nan)
    cellwise = row * len(first) + which
    if len(np.unique(cellwise)) < len(cellwise):
        order = np.argsort(cellwise, kind="stable")
        i = int(order[1:][np.diff(cellwise[order]) == 0].min())
        raise InputError(f"row {i} repeats a bin of area {ids[i]!r}; add the counts up, or drop one of the rows.")
    table[row, which] = y
    return first, table, areas


def _warnings(regions: Regions, table: FloatArray, areas: tuple[Any, ...]) -> tuple[str, ...]:
    """Describe gaps, and small groups that differences reveal: of the first area that has some, and its name."""
    gaps = tuple(text for text in describe_layout(regions) if " gap(s) " in text)
    for i, row in enumerate(table):
        seen = ~np.isnan(row)
        for found in privacy_warnings(regions[seen], row[seen]):
            return (*gaps, f"{found} This is area {areas[i]!r}, the first of those." if areas else found)
    return gaps
