"""Fit one histogram of counts, or of shares, and ask it for draws, new regions and skill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.binned.counts.cells import CountBins, bins_from_edges
from crosslevel.binned.counts.covariances import KERNELS
from crosslevel.binned.counts.curve import ROUGHNESS, Curve, average_curve, blend, normalise
from crosslevel.binned.counts.likelihoods import BinomialBins, NegativeBinomialBins, PoissonBins
from crosslevel.binned.counts.nested import difference_nested
from crosslevel.binned.counts.predictive import draw_counts, draw_curves, draw_shares, rake
from crosslevel.binned.counts.skill import Skill, merged_skill
from crosslevel.binned.counts.targets import cell_shares, read_regions, region_counts
from crosslevel.data.checks import as_numbers, check_counts, check_level, check_seed
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["FAMILIES", "CountDraws", "CountFit", "RegionBands", "check_totals", "fit_counts"]


ROUNDS = 30
"""Rounds in which draws of overlapping bins are brought to their sums; what is left is far below the width of the bands."""
FAMILIES = ("poisson", "negbinomial", "binomial")
SIZES = (3.0, 10.0, 30.0, 100.0, 1000.0)
"""Values of the negative binomial's r that are weighed by evidence."""


@dataclass(frozen=True)
class CountDraws:
    """Draws of the cells.

    Attributes
    ----------
    expected : (n, A)
        Expected counts (shares, for a binomial fit).
    counts : (n, A) or None
        Whole counts; None for shares and for fractional totals.
    """

    expected: FloatArray
    counts: npt.NDArray[np.int64] | None


@dataclass(frozen=True)
class RegionBands:
    """Predictions of R regions.

    Attributes
    ----------
    estimate, std_error, low, high : (R,)
        Expected count (or share) with its band.
    count_low, count_high : (R,)
        Band of the count itself; NaN where no counts are drawn.
    level : float
    """

    estimate: FloatArray
    std_error: FloatArray
    low: FloatArray
    high: FloatArray
    count_low: FloatArray
    count_high: FloatArray
    level: float


@dataclass(frozen=True)
class CountFit:
    """The posterior of a curve behind counts.

    Attributes
    ----------
    bins : CountBins
        Observed bins; nested ones are differenced.
    totals : (B,)
    mean, covariance : (A,), (A, A)
        Of f: the log density of counts, or the logit of a share.
    family : {"poisson", "negbinomial", "binomial"}
    preserve : bool
        Whether draws keep the totals.
    curve : Curve
        Averaged candidates, their weights and the rough part.
    warnings : sentences the reader of the numbers should know
    """

    bins: CountBins
    totals: FloatArray
    mean: FloatArray
    covariance: FloatArray
    family: str
    preserve: bool
    curve: Curve
    warnings: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the totals are whole numbers, so that counts can be drawn."""
        return self.family != "binomial" and bool((self.totals == np.round(self.totals)).all())

    def draws(self, n: int = 1000, rng: np.random.Generator | int | None = 0) -> CountDraws:
        """Draw expected counts and counts of the cells.

        Examples
        --------
        >>> fit = fit_counts([0, 10, 20, 30], [90, 60, 30], cell=1)
        >>> fit.draws(5).counts[:, :10].sum(axis=1).tolist()
        [90, 90, 90, 90, 90]
        """
        generator = np.random.default_rng(rng)
        f = draw_curves(self.mean, self.covariance, n, generator)
        if self.family == "binomial":
            return CountDraws(special.expit(f), None)
        if self.preserve and self.bins.disjoint:
            shares = draw_shares(self.bins, f)
            where = self.bins.bin_of
            expected = shares * np.where(where >= 0, self.totals[np.maximum(where, 0)], 1.0)
            return CountDraws(expected, draw_counts(self.bins, self.totals, shares, generator) if self.whole else None)
        expected = self.bins.weight * np.exp(f)
        parts = self.bins.C / self.bins.weight
        if self.preserve:
            expected = rake(parts, expected, self.totals)
        else:
            # sums of exponentials bend upwards where cells are unsure though their bin is not; the sums follow their own slope instead
            at = self.bins.C * np.exp(self.mean)
            lam = at.sum(axis=1)
            expected = rake(parts, expected, lam * np.exp((f - self.mean) @ at.T / lam), steps=ROUNDS, strict=False)
        return CountDraws(expected, generator.poisson(expected).astype(np.int64) if self.whole else None)

    def predict(
        self, lower: Any = None, upper: Any = None, level: float = 0.95, n: int = 1000, random_state: int | None = 0
    ) -> RegionBands:
        """Predict new regions by summing draws; the cells themselves when no limits are given.

        Parameters
        ----------
        lower, upper : (R,), or (R, d) for boxes

        Examples
        --------
        >>> fit = fit_counts([0, 10, 20, 30], [90, 60, 30], cell=1)
        >>> bands = fit.predict([0, 5], [10, 25])
        >>> float(bands.estimate[0].round(6)), bool(60 < bands.estimate[1] < 120)
        (90.0, True)
        """
        half = 0.5 * (1.0 - check_level(level))
        generator = np.random.default_rng(check_seed(random_state))
        drawn = self.draws(n, generator)
        if lower is None or upper is None:
            low, high = self.bins.lower, self.bins.upper
        else:
            low, high = read_regions(self.bins, lower, upper)
        shares = cell_shares(self.bins, low, high)
        if self.family == "binomial":
            shares = shares * self.bins.weight
            shares = shares / shares.sum(axis=1, keepdims=True)
        expected = drawn.expected @ shares.T
        floor, roof = np.quantile(expected, [half, 1.0 - half], axis=0)
        band = np.full((2, len(low)), np.nan)
        if drawn.counts is not None:
            counts = region_counts(self.bins, low, high, drawn.counts, generator)
            band = np.quantile(counts, [half, 1.0 - half], axis=0, method="inverted_cdf").astype(np.float64)
        return RegionBands(expected.mean(axis=0), expected.std(axis=0, ddof=1), floor, roof, band[0], band[1], level)

    def skill(self, random_state: int | None = 0) -> Skill:
        """Measure the skill against uniform spreading and PCLM on these bins, merged in pairs and un-binned again.

        Examples
        --------
        >>> fit = fit_counts(range(0, 81, 10), [90, 80, 65, 50, 40, 20, 9, 2], cell=2)
        >>> sorted(fit.skill().skill)
        ['pclm', 'uniform']
        """
        if self.family == "binomial":
            raise InputError(
                "skill is measured on counts, and this fit is of shares; score it on data left out instead."
            )
        return merged_skill(self.bins, self.totals, random_state=random_state)


def fit_counts(
    bins: Any,
    totals: Any,
    *,
    family: str = "poisson",
    kind: str = "total",
    trials: Any = None,
    size: float | None = None,
    missing: str = "refuse",
    preserve: bool | None = None,
    kernels: Sequence[str] = KERNELS,
    roughness: Sequence[float] = ROUGHNESS,
    **cutting: Any,
) -> CountFit:
    """Learn the curve behind one histogram of counts.

    y_b ~ Poisson(integral of exp f over bin b), the integral inside the link: averaged over kernels and scales by evidence x
    prior, with a rough part that only widens the bands, and draws that keep every total.

    Parameters
    ----------
    bins : CountBins or edges
        Contiguous edges are cut into cells with ``cutting``: cell, exposure, first, last, tail (see ``bins_from_edges``).
    totals : (B,)
        Counts; fractions (weighted counts) are allowed, but then no whole counts are drawn.
    family : {"poisson", "negbinomial", "binomial"}
        "binomial" learns a share: ``totals`` of ``trials``, its chance the mean of expit(f) over the exposure of the bin.
    kind : {"total"}
    trials : (B,), for a binomial
    size : float, optional
        r of the negative binomial; by default weighed by evidence.
    missing : {"refuse", "skip"}
        Whether a NaN total is an error or a bin that was not observed.
    preserve : bool, optional
        Keep the totals in every draw; by default where bins are disjoint or nested.

    Examples
    --------
    >>> fit = fit_counts([0, 10, 20, 30], [90, 60, 30], cell=1)
    >>> fit.predict([25], [30]).estimate.round(0).shape
    (1,)
    """
    if family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES, "family")
    if kind != "total":
        raise InputError(f"kind={kind!r} is not possible for counts: they are totals of their bins. Pass kind='total'.")
    if missing not in ("refuse", "skip"):
        raise unknown_name("missing", missing, ("refuse", "skip"), "choice")
    cut = bins if isinstance(bins, CountBins) else bins_from_edges(bins, **cutting)
    y = check_totals(totals, cut, missing)
    seen = ~np.isnan(y)
    said = _warn(cut, seen)
    if family == "binomial":
        return _fit_shares(cut, y, trials, seen, kernels, roughness, said)
    if trials is not None:
        raise InputError(f"trials is given and family={family!r}; shares need family='binomial'.")
    cut, y = cut.keep(seen), y[seen]
    if not cut.disjoint:
        differenced = difference_nested(cut, y)
        if differenced is not None:
            cut, y = differenced
        else:
            said += ("some bins overlap: their counts are taken as independent, as from different people.",)
    curve = _curve(cut, y, family, size, kernels, roughness)
    keep = cut.disjoint if preserve is None else preserve
    return CountFit(cut, y, curve.mean, curve.covariance, family, keep, curve, said)


def _curve(
    bins: CountBins, y: FloatArray, family: str, size: float | None, kernels: Sequence[str], roughness: Sequence[float]
) -> Curve:
    if family == "poisson":
        return average_curve(bins, PoissonBins(y[None, :]), kernels, roughness)
    if size is not None and not size > 0:
        raise InputError(f"size={size!r} is not positive; it is the r of variance m + m^2 / r. Pass None to learn it.")
    curves = [
        average_curve(bins, NegativeBinomialBins(y[None, :], r), kernels, roughness)
        for r in (SIZES if size is None else (size,))
    ]
    weight, total = normalise(np.array([c.log_evidence for c in curves]) - np.log(len(curves)))
    mean, within = blend(np.array([c.mean for c in curves]), weight, lambda i: curves[i].within)
    best = curves[int(np.argmax(weight))]
    rough = np.einsum("i,iab->ab", weight, np.array([c.rough for c in curves]))
    rho = float(np.sqrt(weight @ np.array([c.rho**2 for c in curves])))
    return Curve(mean, within, rough, rho, total, best.kernel, best.scale, best.length, best.weight)


def _fit_shares(
    bins: CountBins,
    y: FloatArray,
    trials: Any,
    seen: npt.NDArray[np.bool_],
    kernels: Sequence[str],
    roughness: Sequence[float],
    said: tuple[str, ...],
) -> CountFit:
    """Fit successes of trials, the share being averaged over the exposure of each bin."""
    if trials is None:
        raise InputError(
            "family='binomial' needs trials, the number of which totals are the successes; pass one per bin."
        )
    n = check_counts(trials, "trials", 1)
    if n.shape != y.shape:
        raise InputError(f"trials has {len(n)} values for {len(y)} bins; pass one per bin.")
    if (y[seen] > n[seen]).any():
        i = int(np.flatnonzero(seen)[np.argmax(y[seen] > n[seen])])
        raise InputError(f"totals exceed trials in bin {i} ({y[i]:g} > {n[i]:g}); check that the two are not swapped.")
    kept = bins.keep(seen)
    averaged = kept.with_rows(kept.averages)
    curve = average_curve(averaged, BinomialBins(y[None, seen], n[None, seen]), kernels, roughness)
    return CountFit(averaged, y[seen], curve.mean, curve.covariance, "binomial", False, curve, said)


def check_totals(totals: Any, bins: CountBins, missing: str = "refuse") -> FloatArray:
    """Refuse totals that are no counts, do not fit the bins, or tell nothing, (B,)."""
    y = as_numbers(totals, "totals", 1)
    if len(y) != bins.n_bins:
        raise InputError(f"totals has {len(y)} values for {bins.n_bins} bins; pass one per bin.")
    if missing == "refuse" and np.isnan(y).any():
        raise InputError(
            f"totals has {int(np.isnan(y).sum())} missing value(s), the first in bin {int(np.argmax(np.isnan(y)))}; fill them, or "
            "pass missing='skip' to treat these bins as not observed."
        )
    check_counts(y[~np.isnan(y)], "totals", 1)
    if (~np.isnan(y)).sum() < 2:
        raise InputError(
            "totals has one observed bin only, which says nothing about a curve; pass at least two bins, or spread the total with "
            "uniform_spread."
        )
    if not np.nansum(y) > 0:
        raise InputError("totals is zero in every bin; there is nobody to place.")
    return y


def _warn(bins: CountBins, seen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    outside = ~(bins.C[seen] > 0).any(axis=0)
    if not outside.any():
        return ()
    where = bins.lower[outside].min(axis=0).tolist(), bins.upper[outside].max(axis=0).tolist()
    return (
        f"{int(outside.sum())} cells between {where[0]} and {where[1]} lie in no observed bin; they are guessed from the others.",
    )
