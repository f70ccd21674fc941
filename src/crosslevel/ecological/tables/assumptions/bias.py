"""What a violated assumption does to an estimate: rates that depend on composition, and omitted variables.

Dependence on composition. Unit i has shares x_ir of the groups (adding up to one) and outcomes t_ic = sum_r x_ir rate_irc.
Let v_ir = X_ir / sum_i X_ir and write xbar_rs = sum_i v_ir x_is for the mean share of s around a person of r. The
district's rate is theta_rc = sum_i v_ir rate_irc.

*A slope all groups share.* Suppose everybody's rate of outcome c, whatever the group, changes with composition:
rate_isc = theta_sc + sum_q gamma_qc (x_iq - xbar_sq). Then t_ic = sum_s x_is [theta_sc + gamma_sc - sum_q gamma_qc xbar_sq],
exactly linear in x: no regression, and no test on margins, can tell it from constant rates B = theta + bias with

    bias_rc = gamma_rc - sum_q gamma_qc xbar_rq = sum_(q != r) (gamma_rc - gamma_qc) xbar_rq .

If no two gammas of an outcome are further apart than d, the bias is at most d (1 - xbar_rr), and gamma_rc = d alone attains
it. In unit i the rate that was taken for p_irc is then p_irc - d (1 - x_ir), limited by the unit's bounds; the other groups'
rates rise by d x_ir, so the unit's outcomes stay what they are. Summed with v this is :func:`shifted`.

*A slope of one group's own.* rate_isc = theta_sc + delta_sc (x_is - xbar_ss) makes t curved, and the regression answers
theta + K delta, K_rs = sum_i A_ri x_is (x_is - xbar_ss), A = (x'Wx)^-1 x'W: :func:`own_slope_map`.

Omitted variables. The scale of Cinelli and Hazlett (2020) and Chernozhukov and others (2024), which seine uses for
ecological inference. Weights w add up to one. The district's rate of group r is a linear functional of the regression,
with representer alpha_s from the groups' shares alone and alpha_l when an omitted variable U (with its products with
the shares) joins; g_s and g_l are the two fits of t. Then

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


def exposure(X: FloatArray) -> FloatArray:
    """Give the exposure of each group to each group: its mean share in the units of a person, (n_groups, n_groups).

    Parameters
    ----------
    X : (n_units, n_groups)

    Examples
    --------
    >>> exposure(np.array([[80.0, 20.0], [20.0, 80.0]])).round(3).tolist()
    [[0.68, 0.32], [0.32, 0.68]]
    """
    return within_group(X).T @ (X / X.sum(axis=1, keepdims=True))


def shifted(X: FloatArray, rates: FloatArray, low: FloatArray, high: FloatArray, d: float) -> FloatArray:
    """Give the district's rates when everybody's rate changes by ``d`` with the group's share, (n_groups, n_outcomes).

    Each unit's rate, first taken to its bounds where it lies outside, moves by -d (1 - x_ir) and stops at its bounds, so the
    answer lies inside the district's bounds and reaches them as d grows.

    Parameters
    ----------
    X : (n_units, n_groups)
    rates, low, high : (n_units, n_groups, n_outcomes)
        The method's rate in each unit, and its bounds.
    d : float
        Change of the rate between a unit without the group and a unit of that group alone.
    """
    x = X / X.sum(axis=1, keepdims=True)
    moved = np.clip(np.clip(rates, low, high) - d * (1 - x)[:, :, None], low, high)
    return np.einsum("ir,irc->rc", within_group(X), moved)


def slope_to_move(X: FloatArray, room: FloatArray, move: float) -> float:
    """Give the smallest slope that moves one cell by ``move``; infinite when the bounds do not let it.

    Parameters
    ----------
    X : (n_units, 2)
        People of the group, and everybody else.
    room : (n_units,)
        How far the unit's rate can go in that direction.
    move : float
        Distance of the district's rate, at least zero.

    Notes
    -----
    The distance sum_i v_i min(d (1 - x_i), room_i) is increasing, concave and piecewise linear in d, with corners at room_i
    / (1 - x_i); between them it is interpolated exactly.
    """
    v = X[:, 0] / X[:, 0].sum()
    mixed = (X[:, 1] > 0) & (v > 0) & (room > 0)
    v, apart, room = v[mixed], (X[:, 1] / X.sum(axis=1))[mixed], room[mixed]
    corner = room / apart
    order = np.argsort(corner)
    v, apart, room, corner = v[order], apart[order], room[order], corner[order]
    full = np.cumsum(v * room)
    slope = np.sum(v * apart) - np.cumsum(v * apart)
    distance = np.concatenate([[0.0], full + slope * corner])
    if move > distance[-1] + 1e-12:
        return float("inf")
    return float(np.interp(move, np.maximum.accumulate(distance), np.concatenate([[0.0], corner])))


def own_slope_map(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Give the bias of Goodman's regression per unit of each group's own slope, (n_groups, n_groups).

    Parameters
    ----------
    X : (n_units, n_groups)
    weights : (n_units,)
        Weight of each unit in the regression.
    """
    x = X / X.sum(axis=1, keepdims=True)
    curved = x * (x - np.diag(exposure(X)))
    root = np.sqrt(weights)[:, None]
    return np.linalg.lstsq(root * x, root * curved, rcond=None)[0]


def within_group(X: FloatArray) -> FloatArray:
    """Give the share of each group's people who live in each unit, (n_units, n_groups)."""
    total = X.sum(axis=0)
    return np.divide(X, total, out=np.zeros_like(X), where=total > 0)


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
        Share of each group's people who live in each unit; the covariates are centered by it, so that a group's coefficient
        is its rate in the district.
    Z : (n_units, k)
        The covariates.
    """
    short = _fit(x, t, weights)
    centered = Z[:, None, :] - (within.T @ Z)[None]
    long = _fit(np.hstack([x, (x[:, :, None] * centered).reshape(len(x), -1)]), t, weights)
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
