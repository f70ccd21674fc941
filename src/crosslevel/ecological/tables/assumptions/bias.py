"""How strong an omitted variable must be to move a regression of outcomes on composition.

The scale of Cinelli and Hazlett (2020) and Chernozhukov and others (2024), which seine uses for ecological inference.
Weights w add up to one. The district's rate of group r is a linear functional of the regression, with representer alpha_s
from the groups' shares alone and alpha_l when an omitted variable U (with its products with the shares) joins; g_s and g_l are the two
fits of t. Then

    short - long = sum_i w_i (alpha_s - alpha_l) (g_l - g_s),
    |short - long| <= sigma nu sqrt( R2_outcome R2_composition / (1 - R2_composition) )

where sigma^2 = sum w (t - g_s)^2, nu^2 = sum w alpha_s^2, R2_outcome is the part of sigma^2 that U explains, and
R2_composition = 1 - nu_s^2 / nu_l^2 the part of the long representer that U makes. By Cauchy and Schwarz; equality for one
column of U.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.typing import FloatArray

__all__ = ["Benchmark", "benchmark", "bias_bound", "bias_scale", "robustness_value"]


@dataclass(frozen=True)
class Benchmark:
    """What an observed covariate would have done had it been omitted.

    Attributes
    ----------
    r2_outcome : (n_outcomes,)
        Part of the regression's residual variance that it explains.
    r2_composition : (n_groups,)
        Part of the representer of each group's rate that it makes.
    change : (n_groups, n_outcomes)
        Estimate without it, less the estimate with it.
    """

    r2_outcome: FloatArray
    r2_composition: FloatArray
    change: FloatArray


def bias_scale(x: FloatArray, t: FloatArray, weights: FloatArray) -> FloatArray:
    """Give sigma nu for every cell, (n_groups, n_outcomes).

    Parameters
    ----------
    x : (n_units, n_groups)
        Shares of the groups.
    t : (n_units, n_outcomes)
        Shares of the outcomes.
    weights : (n_units,)
    """
    fit = _fit(x, t, weights)
    return np.sqrt(fit.nu2)[:, None] * np.sqrt(fit.sigma2)


def bias_bound(scale: npt.ArrayLike, r2_outcome: npt.ArrayLike, r2_composition: npt.ArrayLike) -> FloatArray:
    """Give the largest bias that an omitted variable of these two strengths can make.

    Examples
    --------
    >>> round(float(bias_bound(0.1, 0.5, 0.5)), 4)
    0.0707
    """
    y, d = np.asarray(r2_outcome, dtype=np.float64), np.asarray(r2_composition, dtype=np.float64)
    return np.asarray(scale, dtype=np.float64) * np.sqrt(y * d / (1 - d))


def robustness_value(scale: npt.ArrayLike, move: npt.ArrayLike) -> FloatArray:
    """Give the strength that, reached in both respects, can move the estimate by ``move``.

    The q with q^2 / (1 - q) = (move / scale)^2.

    Examples
    --------
    >>> q = robustness_value(0.1, 0.05)
    >>> round(float(q), 4), round(float(bias_bound(0.1, q, q)), 6)
    (0.3904, 0.05)
    """
    f2 = np.square(np.asarray(move, dtype=np.float64) / np.asarray(scale, dtype=np.float64))
    return (np.sqrt(f2 * f2 + 4 * f2) - f2) / 2


def benchmark(x: FloatArray, t: FloatArray, weights: FloatArray, within: FloatArray, Z: FloatArray) -> Benchmark:
    """Compare the regression without and with covariates, each multiplied with every group's share.

    Parameters
    ----------
    x, t, weights
        As in :func:`bias_scale`.
    within : (n_units, n_groups)
        Share of each group's people who live in each unit; the covariates are centred by it, so that a group's coefficient
        is its rate in the district.
    Z : (n_units, k)
        The covariates.
    """
    short = _fit(x, t, weights)
    centred = Z[:, None, :] - (within.T @ Z)[None]
    long = _fit(np.hstack([x, (x[:, :, None] * centred).reshape(len(x), -1)]), t, weights)
    R = x.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        explained = np.where(short.sigma2 > 0, 1 - long.sigma2 / short.sigma2, 0.0)
    return Benchmark(
        r2_outcome=np.clip(explained, 0, 1),
        r2_composition=np.clip(1 - short.nu2 / long.nu2[:R], 0, 1),
        change=short.B - long.B[:R],
    )


@dataclass(frozen=True)
class _Fit:
    """Coefficients B (k, C), residual variances sigma2 (C,) and representers' second moments nu2 (k,)."""

    B: FloatArray
    sigma2: FloatArray
    nu2: FloatArray


def _fit(x: FloatArray, t: FloatArray, weights: FloatArray) -> _Fit:
    w = weights / weights.sum()
    root = np.sqrt(w)[:, None]
    inverse = np.linalg.pinv(root * x)
    B = inverse @ (root * t)
    return _Fit(B=B, sigma2=w @ np.square(t - x @ B), nu2=np.square(inverse).sum(axis=1))
