"""Intervals that allow for confounding: one variance on the logit scale, learnt by hiding known columns.

That a subgroup behaves alike wherever it lives cannot be checked with totals, and it is not true: groups live in special places.
The error this makes does not shrink with more people. It is modelled as one more draw: eta_ig + u_g + u_ig, u_g ~ N(0, tau^2)
shared by all places, u_ig ~ N(0, omega^2) of one place, re-shifted to the place's total, so that a group that is nearly everybody
cannot be wrong by much. Before that, estimates are pulled towards the place's own rate by a share lambda.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.accounting import summing

__all__ = ["FALLBACK", "Confounding", "Geometry", "geometry", "paule_mandel", "perturb", "shrink"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

CROSSED = 0.3
"""Variance of the effect of a crossing of two columns, in units of tau^2."""


@dataclass(frozen=True)
class Confounding:
    """How far subgroup logits may be off for reasons that totals cannot show.

    Attributes
    ----------
    tau : float
        sd shared by all places.
    omega : float
        sd of one place.
    n_labels : int
        Columns that were hidden to learn them; 0 for the fallback.
    """

    tau: float
    omega: float
    n_labels: int


FALLBACK = Confounding(0.31, 0.15, 0)
"""Learnt on twenty columns of United States microdata in 998 regions."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """How a confounding of the parts shows after totals are matched.

    Attributes
    ----------
    part : (m,)
        K_ig: var(logit p_ig) = V + (tau^2 + omega^2) K_ig.
    level : (n_levels,)
        K_g: var(logit P_g) = V + tau^2 K_g + omega^2 L_g, over all places.
    level_own : (n_levels,)
        L_g.
    """

    part: FloatArray
    level: FloatArray
    level_own: FloatArray


def shrink(f: FloatArray, place_logit: FloatArray, amount: float) -> FloatArray:
    """Pull logits towards the place's own, by a share.

    Parameters
    ----------
    f : (n_draws, m) or (m,)
    place_logit : (m,)
        Logit of the rate of each part's place.
    amount : float
        lambda, 0 for nothing and 1 for the neighbourhood.

    Examples
    --------
    >>> shrink(np.array([1.0]), np.array([0.0]), 0.3)
    array([0.7])
    """
    if amount == 0.0:
        return f
    return (1.0 - amount) * f + amount * place_logit


def perturb(
    f: FloatArray,
    effects: list[IntArray],
    confounding: Confounding,
    rng: np.random.Generator,
) -> FloatArray:
    """Add confounding to every draw: shared effects of levels, and one of each part.

    Parameters
    ----------
    f : (n_draws, m)
        Logits of parts.
    effects : list of (m,) int
        Level of each part in each column that cuts them; effects of several columns add up, with a smaller one of their crossing.
    confounding : Confounding
    rng : numpy.random.Generator
    """
    n_draws, m = f.shape
    out = f + confounding.omega * rng.standard_normal((n_draws, m))
    for codes in effects:
        own = rng.standard_normal((n_draws, int(codes.max(initial=-1)) + 1))
        out += confounding.tau * own[:, codes]
    if len(effects) > 1:
        _, crossing = np.unique(np.column_stack(effects), axis=0, return_inverse=True)
        crossing = crossing.reshape(-1)
        own = rng.standard_normal((n_draws, int(crossing.max(initial=-1)) + 1))
        out += np.sqrt(CROSSED) * confounding.tau * own[:, crossing]
    return out


def geometry(rate: FloatArray, share: FloatArray, weight: FloatArray, place: IntArray, level: IntArray) -> Geometry:
    """Say in closed form how confounding of unit variance shows in parts and in levels.

    Parameters
    ----------
    rate, share, weight : (m,)
        Of the parts of one partition; shares add up to one within a place.
    place, level : (m,) int
        Every part of the partition, the rest included as a level of its own.

    Examples
    --------
    >>> found = geometry(np.array([0.5, 0.5]), np.array([1.0 - 1e-9, 1e-9]), np.ones(2), np.zeros(2, int), np.arange(2))
    >>> found.part.round(6)
    array([0., 2.])
    """
    q, n_levels = int(place.max()) + 1, int(level.max()) + 1
    v = rate * (1.0 - rate)
    add = summing(place, q)
    w = share * v / np.maximum((add @ (share * v))[place], 1e-300)
    squares = (add @ w**2)[place] - w**2
    part = (1.0 - w) ** 2 + squares
    by_level = summing(level, n_levels)
    people = by_level @ weight
    P = (by_level @ (weight * rate)) / np.maximum(people, 1e-300)
    a = weight / np.maximum(people[level], 1e-300) * v / np.maximum((P * (1.0 - P))[level], 1e-300)
    # J_gh = sum_i a_ig (1[g = h] - w_ih): places' parts meet pairwise
    A, W = np.zeros((q, n_levels)), np.zeros((q, n_levels))
    A[place, level], W[place, level] = a, w
    J = np.diag(A.sum(axis=0)) - A.T @ W
    return Geometry(part, (J**2).sum(axis=1), by_level @ (a**2 * part))


def paule_mandel(error: FloatArray, variance: FloatArray, K: FloatArray, weight: FloatArray | None = None) -> float:
    """Find the variance t^2 >= 0 at which squared errors are as large as they should be.

    Solves sum w e^2 / (V + t^2 K) = sum w, and gives 0 where errors are already smaller than V allows.

    Examples
    --------
    >>> round(paule_mandel(np.array([2.0, -2.0]), np.zeros(2), np.ones(2)), 6)
    4.0
    """
    w = np.ones_like(error) if weight is None else weight

    def excess(t2: float) -> float:
        return float((w * error**2 / np.maximum(variance + t2 * K, 1e-300)).sum() - w.sum())

    if excess(0.0) <= 0.0 and np.all(variance > 0):
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0.0 and high < 1e6:
        high *= 4.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
