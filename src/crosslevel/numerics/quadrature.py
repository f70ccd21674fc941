"""Expectations over a normal logit: mean rates, predictive log densities and quantiles of shares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special, stats

__all__ = ["binomial_log_density", "logistic_mean", "share_quantiles"]

FloatArray = npt.NDArray[np.float64]

NODES = 32
LADDER = 400
"""Equal slices of the normal in a predictive quantile: an error of at most 1/800 in probability."""


def logistic_mean(mean: npt.ArrayLike, variance: npt.ArrayLike) -> FloatArray:
    """Give the mean of 1 / (1 + exp(-f)) for normal f, by Gauss-Hermite quadrature.

    Examples
    --------
    >>> logistic_mean([0.0, 2.0], [1.0, 1.0]).round(4)
    array([0.5   , 0.8418])
    """
    m, v = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    rates = special.expit(m[..., None] + np.sqrt(v)[..., None] * x)
    return np.asarray(rates @ (w / w.sum()))


def binomial_log_density(
    successes: npt.ArrayLike, trials: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike
) -> FloatArray:
    """Give the log probability of k of n when the logit is normal, by quadrature centred where the integrand is large.

    Parameters
    ----------
    successes, trials, mean, variance : (n,)

    Examples
    --------
    >>> total = np.exp(binomial_log_density(np.arange(6.0), np.full(6, 5.0), np.zeros(6), np.ones(6))).sum()
    >>> round(float(total), 10)
    1.0
    """
    k, n, m, v = (np.asarray(a, dtype=np.float64) for a in (successes, trials, mean, variance))
    v = np.maximum(v, 1e-300)
    f = np.where((k > 0) & (k < n), special.logit(np.clip((k + 0.5) / (n + 1.0), 1e-12, 1 - 1e-12)), m)
    f = (f * n * 0.25 + m / v) / (n * 0.25 + 1.0 / v)
    for _ in range(100):
        p, q = special.expit(f), special.expit(-f)
        slope = k * q - (n - k) * p - (f - m) / v
        step = slope / (n * p * q + 1.0 / v)
        f = f + np.clip(step, -2.0, 2.0)
        if np.all(np.abs(step) < 1e-10):
            break
    width = 1.0 / np.sqrt(n * special.expit(f) * special.expit(-f) + 1.0 / v)
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    z = f[..., None] + width[..., None] * x
    constant = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    inside = k[..., None] * special.log_expit(z) + (n - k)[..., None] * special.log_expit(-z)
    inside += constant[..., None] - 0.5 * (z - m[..., None]) ** 2 / v[..., None] + 0.5 * x**2
    return np.asarray(special.logsumexp(inside, b=w / np.sqrt(2 * np.pi), axis=-1) + np.log(width) - 0.5 * np.log(v))


def share_quantiles(
    trials: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, probabilities: npt.ArrayLike
) -> FloatArray:
    """Give quantiles of the share k / n when the logit is normal and k binomial, (n, n_probabilities).

    Examples
    --------
    >>> share_quantiles([10.0], [0.0], [1e-12], [0.025, 0.975])
    array([[0.2, 0.8]])
    """
    n, m, v = (np.asarray(a, dtype=np.float64) for a in (trials, mean, variance))
    rates = special.expit(m[:, None] + np.sqrt(v)[:, None] * stats.norm.ppf((np.arange(LADDER) + 0.5) / LADDER))
    whole = np.maximum(np.round(n), 1.0)
    out = np.empty((len(m), np.size(probabilities)))
    for j, probability in enumerate(np.atleast_1d(probabilities)):
        low, high = np.full(len(m), -1.0), whole.copy()
        while np.any(high - low > 1):
            middle = np.floor(0.5 * (low + high))
            enough = stats.binom.cdf(middle[:, None], whole[:, None], rates).mean(axis=1) >= probability
            done = high - low <= 1
            high, low = np.where(enough & ~done, middle, high), np.where(enough | done, low, middle)
        out[:, j] = high / whole
    return out
