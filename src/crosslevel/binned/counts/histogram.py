"""Fit one histogram of counts, or of shares, and draw its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from crosslevel.binned.counts.candidates import KERNELS
from crosslevel.binned.counts.cells import CountBins, difference_nested
from crosslevel.binned.counts.curve import ROUGHNESS, Curve, average_curve
from crosslevel.binned.counts.likelihoods import BinomialBins, PoissonBins
from crosslevel.binned.counts.predictive import draw_counts, draw_curves, draw_shares, match_shares, rake
from crosslevel.typing import FloatArray, Int64Array, Step

ROUNDS = 30
"""Rounds in which draws of overlapping bins are brought to their sums; what is left is far below the width of the bands."""
MISSED = 6.0
"""Standard errors of an observed share beyond which a curve does not have it."""


@dataclass(frozen=True)
class CountDraws:
    """Draws of the cells.

    Attributes
    ----------
    expected : (n_draws, A)
        Expected counts (shares, for a binomial fit).
    counts : (n_draws, A) or None
        Whole counts; None for shares and for fractional totals.
    """

    expected: FloatArray
    counts: Int64Array | None


@dataclass(frozen=True)
class CountFit:
    """The posterior of a curve behind counts.

    Attributes
    ----------
    bins : CountBins
        Observed bins; nested ones are differenced.
    totals : (B,)
    curve : Curve
        Of f, the log density of counts or the logit of a share: averaged candidates, their weights and the rough part.
    likelihood : {"poisson", "binomial"}
    preserve : bool
        Whether draws keep the totals.
    warnings : tuple of str
    """

    bins: CountBins
    totals: FloatArray
    curve: Curve
    likelihood: str
    preserve: bool
    warnings: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the totals are whole numbers, so that counts can be drawn."""
        return self.likelihood != "binomial" and bool((self.totals == np.round(self.totals)).all())

    def draws(self, n_draws: int = 1000, rng: np.random.Generator | int | None = 0) -> CountDraws:
        """Draw expected counts and counts of the cells.

        Examples
        --------
        >>> from crosslevel.binned.counts.cells import bins_from_edges
        >>> fit = fit_counts(bins_from_edges([0, 10, 20, 30], cell=1), [90, 60, 30])
        >>> fit.draws(5).counts[:, :10].sum(axis=1).tolist()
        [90, 90, 90, 90, 90]
        """
        generator = np.random.default_rng(rng)
        A = self.bins.n_cells
        if self.preserve:
            f = draw_curves(self.curve.mean, self.curve.covariance, n_draws, generator)
        else:  # what a bin's sum or share is follows its own posterior, not that of its cells
            both = draw_curves(*self.curve.joint, n_draws, generator)
            f, on_link = both[:, :A], both[:, A:]
        if self.likelihood == "binomial":
            rounds = 1 if ((self.bins.C > 0).sum(axis=0) <= 1).all() else ROUNDS
            return CountDraws(match_shares(self.bins.C, f, special.expit(on_link), rounds), None)
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
            expected = rake(parts, expected, np.exp(on_link), steps=ROUNDS, strict=False)
        return CountDraws(expected, generator.poisson(expected).astype(np.int64) if self.whole else None)

    def expected(self, n_draws: int = 1000, rng: np.random.Generator | int | None = 0) -> FloatArray:
        """Draw expected counts of the cells when totals are chance too, (n_draws, A).

        A total y is a Poisson count, whose mean is a Gamma(y + 1/2) beforehand flat in its root; the rough part is not nothing.

        Examples
        --------
        >>> from crosslevel.binned.counts.cells import bins_from_edges
        >>> fit = fit_counts(bins_from_edges([0, 10, 20, 30], cell=1), [90, 60, 30])
        >>> sums = fit.expected(4000)[:, :10].sum(axis=1)
        >>> bool(abs(sums.mean() - 90.5) < 1), bool(abs(sums.std() - 90**0.5) < 0.5)
        (True, True)
        """
        generator = np.random.default_rng(rng)
        if self.likelihood != "poisson" or not (self.preserve and self.bins.disjoint):
            return replace(self, preserve=False).draws(n_draws, generator).expected
        more = 0.0 if self.curve.hidden is None else self.curve.hidden
        f = draw_curves(self.curve.mean, self.curve.covariance + more, n_draws, generator)
        where = self.bins.bin_of
        total = generator.gamma(self.totals + 0.5, 1.0, (n_draws, len(self.totals)))
        return draw_shares(self.bins, f) * np.where(where >= 0, total[:, np.maximum(where, 0)], 1.0)


def fit_counts(
    bins: CountBins,
    totals: FloatArray | Sequence[float],
    *,
    trials: FloatArray | None = None,
    preserve: bool | None = None,
    kernels: Sequence[str] = KERNELS,
    roughness: Sequence[float] = ROUGHNESS,
    step: Step | None = None,
) -> CountFit:
    """Learn the curve behind one histogram of counts.

    y_b ~ Poisson(integral of exp f over bin b), the integral inside the link: averaged over kernels and scales by evidence x
    prior, with a rough part that only widens the bands, and draws that keep every total.

    Parameters
    ----------
    bins : CountBins
    totals : (B,)
        Counts; fractions (weighted counts) are allowed, but then no whole counts are drawn.
    trials : (B,), optional
        Learn a share: ``totals`` of these, its chance the mean of expit(f) over the bin.
    preserve : bool, optional
        Keep the totals in every draw; by default where bins are disjoint or nested.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> fit = fit_counts(bins_from_edges([0, 10, 20, 30], cell=1), [90, 60, 30])
    >>> bool(fit.curve.mean[0] > fit.curve.mean[-1])
    True
    """
    y = np.asarray(totals, dtype=np.float64)
    said: tuple[str, ...] = ()
    outside = ~(bins.C > 0).any(axis=0)
    if outside.any():
        where = bins.lower[outside].min(axis=0).tolist(), bins.upper[outside].max(axis=0).tolist()
        said = (
            f"{int(outside.sum())} cells between {where[0]} and {where[1]} lie in no observed bin; they are inferred from the others.",
        )
    if trials is not None:
        seen = trials > 0  # a bin without trials says nothing
        averaged = bins.with_rows(bins.averages[seen])
        shares = BinomialBins(y[None, seen], trials[None, seen])
        curve = average_curve(averaged, shares, kernels, roughness, step=step)
        said += _missed(np.flatnonzero(seen), y[seen] / trials[seen], special.expit(curve.bins), trials[seen])
        return CountFit(averaged, y[seen], curve, "binomial", False, said)
    if not bins.disjoint:
        differenced = difference_nested(bins, y)
        if differenced is not None:
            bins, y = differenced
        else:
            said += ("some bins overlap: their counts are taken as independent, as from different people.",)
    curve = average_curve(bins, PoissonBins(y[None, :]), kernels, roughness, step=step)
    return CountFit(bins, y, curve, "poisson", bins.disjoint if preserve is None else preserve, said)


def _missed(rows: Int64Array, share: FloatArray, fitted: FloatArray, trials: FloatArray) -> tuple[str, ...]:
    """Name the bin whose share the curve misses most, where that is beyond chance."""
    z = np.abs(share - fitted) / np.sqrt(np.maximum(fitted * (1.0 - fitted), 1.0 / trials) / trials)
    worst = int(np.argmax(z))
    if z[worst] < MISSED:
        return ()
    return (
        f"{int((z >= MISSED).sum())} bin(s) have a share that no curve as smooth as these gives, the worst in row {int(rows[worst])}: "
        f"{share[worst]:.4g} observed, {fitted[worst]:.4g} fitted. Check it, or fit bins of very different widths apart.",
    )
