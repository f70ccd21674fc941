"""Likelihoods of bins whose integral stands inside the link.

The mean of bin b is lambda_b = sum over cells of C_ba g(f_a), g = exp for counts and the logistic function for shares. Each class
gives what Laplace's approximation needs: the log probability, its first two derivatives by lambda, and the variance
function v (1 / v is the Fisher information of lambda). All arrays are (n, B): n histograms of B bins; a NaN is a bin that was not
observed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import special

from crosslevel.errors import InputError
from crosslevel.typing import BoolArray, FloatArray, IntArray

LARGEST_TOTAL = 2**53
"""The largest sum of counts: whole numbers above it are not all held by a float."""


def check_size(counts: FloatArray, argument: str) -> None:
    """Refuse totals beyond which a count and the next one are the same number."""
    if (counts > LARGEST_TOTAL).any() or counts.sum() > LARGEST_TOTAL:
        i = int(np.argmax(counts))
        raise InputError(
            f"{argument} is {counts[i]:g} in row {i}; beyond {LARGEST_TOTAL:,} in all a count cannot be told from the next one. Count in "
            "a larger unit, such as thousands."
        )


@dataclass(frozen=True)
class Slopes:
    """Derivatives of the log probability by lambda, one entry per bin; zero where nothing was observed.

    Attributes
    ----------
    value : (n,)
        Log probability of each histogram.
    first, observed : (n, B)
        d/d lambda and -d2/d lambda2.
    variance : (n, B)
        v, the variance of one observation in units of lambda; 1 where nothing was observed.
    """

    value: FloatArray
    first: FloatArray
    observed: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class BinLikelihood(ABC):
    """Independent bins, each the observation of one sum over cells; counts unless a subclass says otherwise.

    Attributes
    ----------
    totals : (n, B)
    """

    totals: FloatArray

    @property
    def seen(self) -> BoolArray:
        """Which bins were observed, (n, B)."""
        return ~np.isnan(self.totals)

    @abstractmethod
    def slopes(self, lam: FloatArray) -> Slopes:
        """Give the log probability at lambda with its derivatives."""

    def link(self, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give g(f) and its first two derivatives: exp(f) three times."""
        e = np.exp(f)
        return e, e, e

    def on_link(self, lam: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give lambda on the scale of the link, and the derivative by lambda: its logarithm."""
        safe = np.maximum(lam, 1e-300)
        return np.log(safe), 1.0 / safe

    def guess(self, size: FloatArray) -> FloatArray:
        """Give a finite first guess of f in each bin, (n, B); ``size`` (B,) sums the weights of its cells."""
        return np.log((np.where(self.seen, self.totals, np.nanmean(self.totals, -1, keepdims=True)) + 0.5) / size)

    def take(self, rows: IntArray) -> Self:
        """Keep some of the histograms."""
        return replace(self, totals=self.totals[rows])


def _zero(seen: BoolArray, *arrays: FloatArray) -> list[FloatArray]:
    return [np.where(seen, a, 0.0) for a in arrays]


@dataclass(frozen=True)
class PoissonBins(BinLikelihood):
    """Counts with mean lambda.

    Examples
    --------
    >>> PoissonBins(np.array([[2.0]])).slopes(np.array([[2.0]])).value.round(4)
    array([-1.3069])
    """

    def slopes(self, lam: FloatArray) -> Slopes:
        """Give the log probability at lambda with its derivatives."""
        seen = self.seen
        y = np.where(seen, self.totals, 0.0)
        safe = np.where(seen, np.maximum(lam, 1e-300), 1.0)
        # measured from the count itself, so that millions of people leave digits for the difference of two heights
        some = np.where(y > 0, y, 1.0)
        peak = special.xlogy(y, some) - y - special.gammaln(y + 1.0)
        value = special.xlogy(y, safe / some) - (safe - y) + peak
        value, first, observed = _zero(seen, value, y / safe - 1.0, y / safe**2)
        return Slopes(value.sum(-1), first, observed, safe)


@dataclass(frozen=True)
class BinomialBins(BinLikelihood):
    """Successes of n, the chance lambda being the mean of expit(f) over the trials of the bin.

    The rows of C must sum to one: C_ba is the share of the bin's trials that lies in cell a.

    Attributes
    ----------
    totals, trials : (n, B)

    Examples
    --------
    >>> BinomialBins(np.array([[1.0]]), np.array([[2.0]])).slopes(np.array([[0.5]])).value.round(4)
    array([-0.6931])
    """

    trials: FloatArray

    @property
    def seen(self) -> BoolArray:
        """Which bins were observed, (n, B); a bin without trials says nothing."""
        return ~(np.isnan(self.totals) | np.isnan(self.trials)) & (self.trials > 0)

    def slopes(self, lam: FloatArray) -> Slopes:
        """Give the log probability at lambda with its derivatives."""
        seen = self.seen
        y, n = np.where(seen, self.totals, 0.0), np.where(seen, self.trials, 1.0)
        p = np.where(seen, np.clip(lam, 1e-300, 1.0 - 1e-16), 0.5)
        choose = special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1)
        value = choose + special.xlogy(y, p) + special.xlog1py(n - y, -p)
        spread = p * (1.0 - p)
        curvature = y / p**2 + (n - y) / (1.0 - p) ** 2
        value, first, observed = _zero(seen, value, (y - n * p) / spread, curvature)
        return Slopes(value.sum(-1), first, observed, np.where(seen, spread / n, 1.0))

    def link(self, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give expit(f) and its derivatives."""
        p = special.expit(f)
        slope = p * special.expit(-f)
        return p, slope, slope * (1.0 - 2.0 * p)

    def on_link(self, lam: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give the logit of lambda, and its derivative."""
        p = np.clip(lam, 1e-300, 1.0 - 1e-16)
        return special.logit(p), 1.0 / (p * (1.0 - p))

    def guess(self, size: FloatArray) -> FloatArray:
        """Give the smoothed logit of the share."""
        y, n = np.where(self.seen, self.totals, 0.0), np.where(self.seen, self.trials, 0.0)
        return np.log((y + 0.5) / (n - y + 0.5))

    def take(self, rows: IntArray) -> Self:
        """Keep some of the histograms."""
        return replace(self, totals=self.totals[rows], trials=self.trials[rows])
