"""Intervals of means of persons: where the probability lies, and where these persons' own share of yes lies.

The logit of the probability is normal (or Student). A share of yes among few persons is not: it can be none. Its law is a binomial
whose logit is normal, and the interval holds the values this mixture does not find too small or too large.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from crosslevel.typing import FloatArray

__all__ = ["mean_interval", "share_interval"]


NODES = 24
FEW = 60.0
"""With this many expected of yes and of no, the logit of a share is normal enough."""


def mean_interval(
    centre: FloatArray, sd: FloatArray, level: float, df: float = np.inf, *, binary: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Give the interval of an expected mean, symmetric on the scale of the link.

    Parameters
    ----------
    centre, sd : (G,)
        Mean, and its sd on the scale of the link.
    level : float
    df : float
        Degrees of freedom of Student's t.
    binary : bool

    Examples
    --------
    >>> low, high = mean_interval(np.array([0.5]), np.array([1.0]), 0.95)
    >>> low.round(3), high.round(3)
    (array([0.123]), array([0.877]))
    """
    half = _quantile(level, df) * sd
    if not binary:
        return centre - half, centre + half
    inside = np.clip(centre, 1e-300, 1.0 - 1e-16)
    f = np.log(inside) - np.log1p(-inside)
    # a mean of none or all, of people whose total is known, is sure
    sure = (centre <= 0.0) | (centre >= 1.0)
    return np.where(sure, centre, special.expit(f - half)), np.where(sure, centre, special.expit(f + half))


def share_interval(
    centre: FloatArray, model: FloatArray, chance: FloatArray, level: float, df: float = np.inf
) -> tuple[FloatArray, FloatArray]:
    """Give the interval of the share of yes among persons.

    Parameters
    ----------
    centre : (G,)
        Probability.
    model : (G,)
        Variance of its logit.
    chance : (G,)
        Variance of the logit of the share, given the probability: 1 / (n P (1 - P)) for n independent persons.
    level : float
    df : float

    Examples
    --------
    >>> low, high = share_interval(np.array([0.02]), np.array([0.0]), np.array([1 / (100 * 0.02 * 0.98)]), 0.95)
    >>> low.round(3), high.round(3)  # none to five of a hundred
    (array([0.]), array([0.051]))
    """
    low, high = mean_interval(centre, np.sqrt(model + chance), level, df)
    D = centre * (1.0 - centre)
    n = 1.0 / np.maximum(chance * D, 1e-300)
    few = (n * D < FEW) & (D > 0.0) & (chance > 1e-12)
    if few.any():
        low[few], high[few] = _mixture(centre[few], model[few], n[few], level, df)
    return low, high


def _mixture(
    centre: FloatArray, model: FloatArray, n: FloatArray, level: float, df: float
) -> tuple[FloatArray, FloatArray]:
    """Find the ends of the interval of a share, of n persons (which need not be whole), by halving."""
    u, weight = np.polynomial.legendre.leggauss(NODES)
    t = stats.t.ppf(0.5 * (u + 1.0), df) if np.isfinite(df) else special.ndtri(0.5 * (u + 1.0))
    f = (np.log(centre) - np.log1p(-centre))[:, None] + np.sqrt(model)[:, None] * t
    p, weight = special.expit(f), 0.5 * weight

    def below(k: FloatArray) -> FloatArray:
        """Probability of at most k."""
        return np.asarray(_binomial_cdf(k[:, None], n[:, None], p) @ weight)

    ends = []
    for target in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
        a, b = np.full(len(n), -1.0), n.copy()
        for _ in range(30):
            middle = 0.5 * (a + b)
            small = below(middle) < target
            a, b = np.where(small, middle, a), np.where(small, b, middle)
        ends.append(0.5 * (a + b))
    # mid-p: of the probability of y itself one half counts as below it. With all of it intervals of rare features hold too much
    return np.clip((ends[0] + 0.5) / n, 0.0, 1.0), np.clip((ends[1] + 0.5) / n, 0.0, 1.0)


def _binomial_cdf(k: FloatArray, n: FloatArray, p: FloatArray) -> FloatArray:
    """Give the probability of at most k of n, to about 0.005: Camp and Paulson's cube root, at a hundredth of the cost.

    Between whole k it interpolates smoothly, from 0 at k = -1 to 1 at k = n.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a, b = 1.0 / (9.0 * (n - k)), 1.0 / (9.0 * (k + 1.0))
        root = np.cbrt((k + 1.0) * (1.0 - p) / ((n - k) * p))
        z = ((1.0 - b) * root - (1.0 - a)) / np.sqrt(b * root**2 + a)
    return np.where(k <= -1.0, 0.0, np.where(k >= n, 1.0, special.ndtr(z)))


def _quantile(level: float, df: float) -> float:
    return float(stats.t.ppf(0.5 + 0.5 * level, df)) if np.isfinite(df) else float(special.ndtri(0.5 + 0.5 * level))
