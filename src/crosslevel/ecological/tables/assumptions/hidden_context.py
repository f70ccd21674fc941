"""Hidden context: how far a group's rate is off if what moves outcomes beside composition goes along with composition.

Outcomes of units scatter around what composition predicts, by e_c beyond sampling noise. If the causes of the scatter are correlated
by rho with composition, a group's rate is off by about rho e_c / q_r, however many units there are; q_r says how far the units'
compositions reach toward a unit of group r alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.typing import FloatArray

__all__ = ["TOO_LITTLE", "HiddenContext", "at_a_bound", "hidden_context"]

LARGEST = 2.0  # of h: twice the range of a share
TOO_LITTLE = 0.6
"""Leverage beyond which composition varies too little against the rest for an answer to be relied upon."""
NEAR, MANY = 0.02, 0.25  # of the width of a cell's bounds; of the cells


@dataclass(frozen=True)
class HiddenContext:
    """What both margins say of it.

    Attributes
    ----------
    h : (n_groups, n_outcomes)
        Bias of a share per unit of correlation between composition and what else moves the outcome.
    leverage : float
        Half the sum of h over outcomes, on average over people: one number per table.
    residual_share : float
        Variance of outcomes that composition and sampling noise do not explain, of the variance of a person's outcome.
    """

    h: FloatArray
    leverage: float
    residual_share: float


def hidden_context(X: FloatArray, T: FloatArray) -> HiddenContext:
    """Measure the leverage of hidden context from the two margins.

    Parameters
    ----------
    X : (n_units, n_groups)
        People; at least two groups have some.
    T : (n_units, n_outcomes)

    Examples
    --------
    >>> X = np.array([[90.0, 10], [50, 50], [10, 90]])
    >>> linear, scattered = np.array([[58.0, 42], [50, 50], [42, 58]]), np.array([[80.0, 20], [10, 90], [60, 40]])
    >>> [round(hidden_context(X, T).leverage, 2) for T in (linear, scattered)]
    [0.0, 0.43]
    """
    N = X.sum(axis=1)
    w = N / N.sum()
    x, t = X / N[:, None], T / T.sum(axis=1, keepdims=True)
    xbar, ybar = w @ x, w @ t
    root = np.sqrt(w)[:, None]
    residual = w @ np.square(t - x @ np.linalg.lstsq(root * x, root * t, rcond=None)[0])
    one_person = ybar * (1 - ybar)
    noise = len(N) / N.sum()
    e = np.sqrt(np.maximum(residual - noise * one_person, 0.0))
    reach = np.sqrt(w @ np.square(x - xbar)) / np.maximum(1 - xbar, 1e-12)
    ratio = np.divide(e, reach[:, None], out=np.full((len(xbar), len(ybar)), LARGEST), where=reach[:, None] > 1e-12)
    h = np.minimum(ratio, LARGEST)
    return HiddenContext(
        h=h,
        leverage=float(0.5 * xbar @ h.sum(axis=1)),
        residual_share=float(residual.sum() / max(one_person.sum(), 1e-300) - noise),
    )


def at_a_bound(share: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Tell whether more than a quarter of the cells that are not certain lie next to one of their bounds."""
    width = high - low
    open_cells = width > 1e-9
    near = np.minimum(share - low, high - share) <= NEAR * width
    return bool(open_cells.any() and near[open_cells].mean() > MANY)
