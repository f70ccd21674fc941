"""What a dependence of rates on composition does to an estimate that assumes none.

Unit i has shares x_ir of the groups (adding up to one) and outcomes t_ic = sum_r x_ir rate_irc. Let v_ir = X_ir / sum_i X_ir
and write xbar_rs = sum_i v_ir x_is for the share of s that a person of r meets at home. The district's rate is theta_rc =
sum_i v_ir rate_irc.

*A slope all groups share.* Suppose everybody's rate of outcome c, whatever the group, changes with composition:
rate_isc = theta_sc + sum_q gamma_qc (x_iq - xbar_sq). Then t_ic = sum_s x_is [theta_sc + gamma_sc - sum_q gamma_qc xbar_sq],
exactly linear in x: no regression, and no test on margins, can tell it from constant rates B = theta + bias with

    bias_rc = gamma_rc - sum_q gamma_qc xbar_rq = sum_(q != r) (gamma_rc - gamma_qc) xbar_rq .

If no two gammas of an outcome are further apart than d, the bias is at most d (1 - xbar_rr), and gamma_rc = d alone attains
it. In unit i the rate that was taken for p_irc is then p_irc - d (1 - x_ir), limited by the unit's bounds; the other groups'
rates rise by d x_ir, so the unit's outcomes stay what they are. Summed with v this is :func:`shifted`.

*A slope of one group's own.* rate_isc = theta_sc + delta_sc (x_is - xbar_ss) makes t curved, and the regression answers
theta + K delta, K_rs = sum_i A_ri x_is (x_is - xbar_ss), A = (x'Wx)^-1 x'W: :func:`own_slope_map`.
"""

from __future__ import annotations

import numpy as np

from crosslevel.typing import FloatArray

__all__ = ["exposure", "own_slope_map", "shifted", "slope_to_move"]


def exposure(X: FloatArray) -> FloatArray:
    """Tell the share of each group that a person of each group meets in the own unit, (n_groups, n_groups).

    Parameters
    ----------
    X : (n_units, n_groups)

    Examples
    --------
    >>> exposure(np.array([[80.0, 20.0], [20.0, 80.0]])).round(3).tolist()
    [[0.68, 0.32], [0.32, 0.68]]
    """
    return _within(X).T @ (X / X.sum(axis=1, keepdims=True))


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
    return np.einsum("ir,irc->rc", _within(X), moved)


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


def _within(X: FloatArray) -> FloatArray:
    """Give the share of each group's people who live in each unit, (n_units, n_groups)."""
    total = X.sum(axis=0)
    return np.divide(X, total, out=np.zeros_like(X), where=total > 0)
