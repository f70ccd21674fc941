"""Expectations over a normal logit: mean rates, predictive log densities and quantiles of shares.

All sums are trapezoidal rules over analytic integrands that vanish at both ends, whose error falls exponentially with the step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.numerics.laplace import binomial_peak
from crosslevel.typing import FloatArray

NORMAL = np.linspace(-9.0, 9.0, 91)
"""Standard deviates at which a normal is cut."""
LOGISTIC = np.linspace(-40.0, 40.0, 161)
"""Logits at which a logistic variable is cut."""
BENT = np.linspace(-5.0, 5.0, 201)
"""sinh of these, in units of a peak's width, reaches tails that are far wider than the peak."""
WIDE = 2.0
"""Standard deviation beyond which a mean rate is summed over the logistic rather than the normal."""
STEPS = 200


def logistic_mean(mean: npt.ArrayLike, variance: npt.ArrayLike) -> FloatArray:
    """Give the mean of 1 / (1 + exp(-f)) for normal f, to 1e-12.

    Examples
    --------
    >>> logistic_mean([0.0, 2.0], [1.0, 1.0]).round(4)
    array([0.5   , 0.8445])
    """
    m, s = _normal(mean, variance)
    weights = np.exp(-0.5 * NORMAL**2)
    narrow = special.expit(m[..., None] + np.minimum(s, WIDE)[..., None] * NORMAL) @ (weights / weights.sum())
    # where f varies widely the rate is nearly a step: it is then the chance that a logistic variable lies below f
    density = special.expit(LOGISTIC) * special.expit(-LOGISTIC)
    wide = special.ndtr((m[..., None] - LOGISTIC) / np.maximum(s, WIDE)[..., None]) @ (density / density.sum())
    return np.asarray(np.where(s <= WIDE, narrow, wide))


def logistic_variance(mean: npt.ArrayLike, variance: npt.ArrayLike) -> FloatArray:
    """Give the variance of 1 / (1 + exp(-f)) for normal f.

    Examples
    --------
    >>> logistic_variance([0.0], [1e-6]) * 16 * 1e6
    array([0.9999995])
    """
    m, s = _normal(mean, variance)
    step = np.minimum(1.0, WIDE / np.maximum(s, WIDE))  # the rate turns within a few logits, however wide f is
    fine = int(np.ceil(1.0 / step.min())) if step.size else 1
    z = np.linspace(NORMAL[0], NORMAL[-1], fine * (len(NORMAL) - 1) + 1)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    rates = special.expit(m[..., None] + s[..., None] * z)
    return np.asarray((rates - (rates @ weights)[..., None]) ** 2 @ weights)


def binomial_log_density(
    successes: npt.ArrayLike, trials: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike
) -> FloatArray:
    """Give the log probability of k of n when the logit is normal, by quadrature centered where the integrand is large.

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
    v = np.maximum(v, 1e-280)
    d = _peak(k, n, m, v)
    width = 1.0 / np.sqrt(n * special.expit(m + d) * special.expit(-m - d) + 1.0 / v)
    # distances from the prior mean, not logits: a narrow prior leaves no digits in their difference
    z = d[..., None] + width[..., None] * np.sinh(BENT)
    f = m[..., None] + z
    share = np.log(np.where(k > 0, k, 1.0) / n), np.log(np.where(k < n, n - k, 1.0) / n)
    inside = k[..., None] * (special.log_expit(f) - share[0][..., None])
    inside += (n - k)[..., None] * (special.log_expit(-f) - share[1][..., None])
    inside -= 0.5 * (z / np.sqrt(v)[..., None]) ** 2
    inside += np.log(np.cosh(BENT) * (BENT[1] - BENT[0]) / np.sqrt(2.0 * np.pi))
    area = special.logsumexp(inside, axis=-1)
    return np.asarray(area + binomial_peak(k, n) + np.log(width) - 0.5 * np.log(v))


def _peak(k: FloatArray, n: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
    """Find where log p(k | n, m + d) - d^2 / 2v is largest, by Newton steps inside a bracket."""
    inner = (k > 0) & (k < n)
    far = np.log(np.where(inner, k, 1.0) / np.where(inner, n - k, 1.0)) - m
    far = np.where(inner, far, np.where(k > 0, n, -n) * v)  # the slope by f is never more than n
    low, high = np.minimum(far, 0.0), np.maximum(far, 0.0)
    d = np.clip(0.0, low, high)
    for _ in range(STEPS):
        p, q = special.expit(m + d), special.expit(-m - d)
        slope = k * q - (n - k) * p - d / v
        low, high = np.where(slope > 0, d, low), np.where(slope < 0, d, high)
        step = slope / (n * p * q + 1.0 / v)
        new = d + np.clip(step, -2.0, 2.0)
        new = np.where((new < low) | (new > high), 0.5 * (low + high), new)
        moved = np.abs(new - d)
        d = new
        if np.all(moved <= 1e-9 * (np.abs(d) + np.sqrt(v))):
            break
    return np.asarray(d)


def share_quantiles(
    trials: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, probabilities: npt.ArrayLike
) -> FloatArray:
    """Give quantiles of the share k / n when the logit is normal and k binomial, (n, n_probabilities).

    Examples
    --------
    >>> share_quantiles([10.0], [0.0], [1e-12], [0.025, 0.975])
    array([[0.2, 0.8]])
    """
    n, (m, s) = np.asarray(trials, dtype=np.float64), _normal(mean, variance)
    whole = np.maximum(np.round(n), 1.0)
    out = np.empty((len(m), np.size(probabilities)))
    for j, probability in enumerate(np.atleast_1d(probabilities)):
        low, high = np.full(len(m), -1.0), whole.copy()
        while (open_ := high - low > 1).any():
            middle = np.floor(0.5 * (low + high))[open_]
            enough = _count_cdf(middle, whole[open_], m[open_], s[open_]) >= probability
            high[open_], low[open_] = np.where(enough, middle, high[open_]), np.where(enough, low[open_], middle)
        out[:, j] = high / whole
    return out


def _count_cdf(k: FloatArray, n: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
    """Give P(K <= k), 0 <= k < n, for a binomial K with normal logit.

    At most k successes come when the logit lies below that of a Beta(k + 1, n - k) variable. The narrower of the two is summed over,
    since over it the other's distribution function is smooth.
    """
    a, b = k + 1.0, n - k
    width = np.sqrt(1.0 / a + 1.0 / b)
    out = np.empty(len(k))
    for narrow in (True, False):
        i = np.flatnonzero((s < width) == narrow)
        if narrow:
            weights = np.exp(-0.5 * NORMAL**2)
            q = special.expit(-(m[i, None] + s[i, None] * NORMAL))
            out[i] = special.betainc(b[i, None], a[i, None], q) @ (weights / weights.sum())
        else:
            away = width[i, None] * np.sinh(BENT)
            x = np.log(a[i] / b[i])[:, None] + away
            log_density = _beta_fall(away, a[i, None], b[i, None]) + np.log(np.cosh(BENT))
            weights = np.exp(log_density - log_density.max(axis=1, keepdims=True))
            out[i] = (weights * special.ndtr((x - m[i, None]) / s[i, None])).sum(axis=1) / weights.sum(axis=1)
    return out


def _beta_fall(away: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Give the log density of the logit of a Beta(a, b) variable at a distance from its peak, relative to the peak."""
    x = np.log(a / b)
    return a * (special.log_expit(x + away) - special.log_expit(x)) + b * (
        special.log_expit(-x - away) - special.log_expit(-x)
    )


def _normal(mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    return np.asarray(mean, dtype=np.float64), np.sqrt(np.asarray(variance, dtype=np.float64))
