"""The log likelihood of counts seen through logits, with its derivatives, where digits are left at a billion trials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from crosslevel.typing import FloatArray


@dataclass(frozen=True)
class Slopes:
    """Log likelihood and its derivatives by f, one entry per observation.

    Attributes
    ----------
    value : float
        Sum of the log probabilities.
    first, curvature, third : (n,)
        d/df, -d2/df2 (never negative) and d3/df3.
    scale : (n,)
        Size of the numbers whose difference ``first`` is; its rounding error is relative to them.
    """

    value: float
    first: FloatArray
    curvature: FloatArray
    third: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class Binomial:
    """k of n with probability 1 / (1 + exp(-f)).

    Attributes
    ----------
    successes, trials : (n,)
        Counts, or weighted counts.
    """

    successes: FloatArray
    trials: FloatArray

    @cached_property
    def _most(self) -> float:
        """Log probability of these counts at their own rates."""
        return float(binomial_peak(self.successes, self.trials).sum())

    def slopes(self, f: FloatArray) -> Slopes:
        """Give the log likelihood at f with three derivatives."""
        k, n = self.successes, self.trials
        p, q = special.expit(f), special.expit(-f)
        # measured from the observed share, so that a billion trials leave digits for the difference of two heights
        share = np.log(np.where(k > 0, k, 1.0) / n), np.log(np.where(k < n, n - k, 1.0) / n)
        value = k * (special.log_expit(f) - share[0]) + (n - k) * (special.log_expit(-f) - share[1])
        W = n * p * q
        # k q - (n - k) p, not k - n p: exact where p is near 0 or 1
        yes, no = k * q, (n - k) * p
        return Slopes(self._most + float(value.sum()), yes - no, W, W * (p - q), yes + no)

    def start(self) -> FloatArray:
        """Give the smoothed logit of the share."""
        return np.log((self.successes + 0.5) / (self.trials - self.successes + 0.5))


def binomial_peak(successes: FloatArray, trials: FloatArray) -> FloatArray:
    """Give the log probability of k of n when the rate is k / n itself, with digits left at a billion trials.

    Differences of log factorials lose them; Stirling's remainders do not (Loader 2000, "Fast and accurate computation of
    binomial probabilities").

    Examples
    --------
    >>> binomial_peak(np.array([1.0, 0.0]), np.array([2.0, 9.0])).round(12)
    array([-0.69314718, 0.        ])
    """
    k, n = successes, trials
    inner = (k > 0) & (k < n)
    a, b = np.where(inner, k, 1.0), np.where(inner, n - k, 1.0)
    peak = _stirling(a + b) - _stirling(a) - _stirling(b) - 0.5 * np.log(2.0 * np.pi * a * (b / (a + b)))
    return np.where(inner, peak, 0.0)


def _stirling(x: FloatArray) -> FloatArray:
    """Give log gamma(x + 1) less Stirling's formula."""
    safe = np.maximum(x, 16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / safe**2) / safe**2) / safe**2) / safe
    direct = special.gammaln(x + 1) - (x + 0.5) * np.log(x) + x - 0.5 * np.log(2.0 * np.pi)
    return np.where(x < 16.0, direct, series)
