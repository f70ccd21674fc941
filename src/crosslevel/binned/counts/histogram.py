"""Fit one histogram of counts, or of shares, and draw its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.binned.counts.cells import CountBins, difference_nested
from crosslevel.binned.counts.curve import KERNELS, ROUGHNESS, Curve, average_curve
from crosslevel.binned.counts.likelihoods import BinomialBins, PoissonBins
from crosslevel.errors import InputError
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.typing import FloatArray, Int64Array, Step


def draw_curves(mean: FloatArray, covariance: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw curves from a Gaussian whose covariance may be singular, (n, A).

    Examples
    --------
    >>> draw_curves(np.zeros(2), np.zeros((2, 2)), 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean + rng.standard_normal((n, len(mean))) @ root.T)


def draw_shares(bins: CountBins, f: FloatArray) -> FloatArray:
    """Give each cell's share of its bin under each curve, (n, A): weight exp(f) over its sum in the bin.

    Cells of no bin get their expected counts instead.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> draw_shares(bins_from_edges([0, 2], cell=1), np.log([[1.0, 3.0]])).round(6)
    array([[0.25, 0.75]])
    """
    where = bins.bin_of
    inside = where >= 0
    member = (bins.C > 0).astype(np.float64)
    # the largest f of each bin is taken out first: shares of far tails neither overflow nor vanish
    top = np.stack([np.where(row > 0, f, -np.inf).max(axis=1) for row in member], axis=1)
    e = bins.weight * np.exp(f - np.where(inside, top[:, np.maximum(where, 0)], 0.0))
    total = (e * inside) @ member.T
    return np.where(inside, e / total[:, np.maximum(where, 0)], e)


def draw_counts(
    bins: CountBins, totals: FloatArray, shares: FloatArray, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw whole counts that keep every total: multinomial in each bin, Poisson in cells of no bin, (n, A).

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> bins = bins_from_edges([0, 2, 4], cell=1)
    >>> counts = draw_counts(bins, np.array([7.0, 0.0]), np.full((5, 4), 0.5), np.random.default_rng(0))
    >>> counts.sum(axis=1).tolist(), counts[:, 2:].max()
    ([7, 7, 7, 7, 7], np.int64(0))
    """
    out = np.zeros(shares.shape, dtype=np.int64)
    for b, row in enumerate(bins.C > 0):
        cells = np.flatnonzero(row)
        p = shares[:, cells]
        out[:, cells] = rng.multinomial(int(totals[b]), p / p.sum(axis=1, keepdims=True))
    outside = bins.bin_of < 0
    if outside.any():
        out[:, outside] = rng.poisson(np.minimum(shares[:, outside], 1e15))
    return out


def rake(C: FloatArray, expected: FloatArray, totals: FloatArray, steps: int = 500, strict: bool = True) -> FloatArray:
    """Scale expected cells until the sums of overlapping bins are the totals, (n, A): iterative proportional fitting.

    Parameters
    ----------
    C : (B, A)
        Share of each cell in each bin, between 0 and 1.
    expected : (n, A)
    totals : (B,) or (n, B)
    steps : int
        Rounds at most.
    strict : bool
        Refuse totals that no cells add up to; False gives the cells of the last round.

    Examples
    --------
    >>> C = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    >>> (rake(C, np.array([[2.0, 1.0, 2.0]]), np.array([6.0, 9.0])) @ C.T).round(6)
    array([[6., 9.]])
    """
    e = expected.copy()
    wanted = np.broadcast_to(totals, (len(e), len(C)))
    for _ in range(steps):
        for row, y in zip(C, wanted.T, strict=True):
            now = e @ row
            # a cell that lies in the bin by a part moves by that part of the way
            e *= np.where(now > 0, y / np.maximum(now, 1e-300), 1.0)[:, None] ** row
        off = np.abs(e @ C.T - wanted).max() / max(1.0, float(wanted.max()))
        if off < 1e-10:
            return e
    if not strict:
        return e
    raise InputError(
        f"no cells add up to all of these totals (off by {off:.1e} of the largest after {steps} rounds); the overlapping bins "
        "contradict one another. Correct the totals, or do not ask for them to be kept."
    )


def match_shares(averages: FloatArray, f: FloatArray, shares: FloatArray, rounds: int) -> FloatArray:
    """Shift the logits of each bin's cells together until their mean is the share drawn for the bin; give the cells' shares, (n, A).

    Parameters
    ----------
    averages : (B, A)
        Weights of the cells in each bin, which sum to 1.
    f : (n, A)
    shares : (n, B)
        Between 0 and 1.
    rounds : int
        How often all bins are gone through; once suffices where they lie apart.

    Examples
    --------
    >>> p = match_shares(np.array([[0.5, 0.5]]), np.array([[0.0, 2.0]]), np.array([[0.3]]), 1)
    >>> round(float(p.mean()), 12)
    0.3
    """
    out, n = f.copy(), len(f)
    targets = np.clip(shares, 1e-300, 1.0 - 1e-16)
    for _ in range(rounds):
        for row, target in zip(averages, targets.T, strict=True):
            cells = np.flatnonzero(row > 0)
            draw = np.repeat(np.arange(n), len(cells))
            found = shift_to_total(out[:, cells].reshape(1, -1), np.tile(row[cells], n), draw, target)
            out[:, cells] += found.shift.reshape(-1, 1)
    return np.asarray(special.expit(out))


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
    if outside.any() and bins.n_axes > 1:  # gaps of one axis are named by their limits
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
