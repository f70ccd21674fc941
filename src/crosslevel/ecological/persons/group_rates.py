"""Rates of groups of people, in every place and over all places, and how their logits move with the effects.

Every place is matched to its total: with P_ig the rate of group g in place i and N_i the people of i,

    P_g = sum_i N_i s_ig P_ig / N_g,    d logit P_g / d theta = sum_i N_i s_ig P_ig (1 - P_ig) / (N_g P_g (1 - P_g)) d logit P_ig / d theta

Groups are cut by columns that may be no features; which features tell them is said here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from crosslevel.ecological.persons.model import Kinds
from crosslevel.ecological.persons.sweeps import part_slopes
from crosslevel.typing import AnyArray, FloatArray, IntArray

CLIPPED, TINY = 1e-9, 1e-100
TOLD = 0.1
"""A feature that tells less than this share of the variance of levels does not count as telling them."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Groups of every place at given effects, matched to the totals.

    Attributes
    ----------
    place, group : (m,) int
    rate, share : (m,)
        Rate of the part, and its share of the place's people.
    slope : (m,)
        share rate (1 - rate): how much the place's total moves with the logit of the part.
    G : (m, n_effects)
        Derivative of the logit by the effects.
    """

    place: IntArray
    group: IntArray
    rate: FloatArray
    share: FloatArray
    slope: FloatArray
    G: FloatArray


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Groups over all places.

    Attributes
    ----------
    rate, people : (n_groups,)
    by_part : (n_groups, m) sparse
        Derivative of a group's logit by those of its parts.
    G : (n_groups, n_effects)
        Derivative of a group's logit by the effects.
    """

    rate: FloatArray
    people: FloatArray
    by_part: sparse.csr_array
    G: FloatArray

    def spread(self, covariance: FloatArray) -> FloatArray:
        """Give the standard deviation of the logit of every group, from the covariance of the effects."""
        return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", self.G, covariance, self.G), 0.0))


def parts_at(kinds: Kinds, eta: FloatArray, f: FloatArray, group: IntArray, n: int) -> Parts:
    """Sum the people of every place to groups, with slopes.

    Parameters
    ----------
    kinds : Kinds
    eta : (n_cells,)
        Logit of each kind of people but for its place.
    f : (q,)
        Place effects that meet the totals.
    group : (n_pairs,) int
        Group of the people of each pair.
    n : int
        Number of groups.
    """
    of_pair = kinds.pairs.place * n + group
    number = np.flatnonzero(np.bincount(of_pair))
    part = np.zeros(number.max(initial=0) + 1, dtype=np.int64)
    part[number] = np.arange(len(number))
    place, many = number // n, np.full(len(number), np.inf)
    at = part_slopes(kinds.pairs, eta, f, kinds.codes, kinds.n_effects, part[of_pair], place, many)
    rate = special.expit(at.logit)
    return Parts(place, number % n, rate, at.share, at.share * rate * (1.0 - rate), at.G)


def rates_over(parts: Parts, people: FloatArray, n: int) -> GroupRates:
    """Sum the groups of places to groups over all of them.

    Parameters
    ----------
    parts : Parts
    people : (q,)
        Weight of each place.
    n : int
        Number of groups.
    """
    weight = people[parts.place]
    whole, yes = (np.bincount(parts.group, weight * parts.share * v, n) for v in (np.ones(len(weight)), parts.rate))
    P = np.clip(yes / np.maximum(whole, 1e-300), CLIPPED, 1.0 - CLIPPED)
    slope = weight * parts.slope / np.maximum(whole * P * (1.0 - P), TINY)[parts.group]
    by_part = sparse.csr_array((slope, (parts.group, np.arange(len(slope)))), shape=(n, len(slope)))
    return GroupRates(P, np.asarray(whole), by_part, np.asarray(by_part @ parts.G))


@dataclass(frozen=True)
class Telling:
    """What the features tell of the levels that people are cut by.

    Attributes
    ----------
    columns : tuple of int
        Features that tell them.
    untold : float
        Share of the levels' variance that they leave: 0 where levels follow from features, 1 where these tell nothing.
    """

    columns: tuple[int, ...]
    untold: float


def telling_columns(level: AnyArray, codes: AnyArray, sizes: Sequence[int], weight: FloatArray, most: int) -> Telling:
    """Find the features that levels follow from, the most telling first, and what they leave untold.

    What is told is the share of the variance of the levels that lies between the people of different levels of the features
    (Goodman and Kruskal's tau).

    Parameters
    ----------
    level : (n,) int
        Level of each kind of people of each place.
    codes : (n, n_columns) int
        Their levels of the features.
    sizes : sequence of int
        Levels of each feature.
    weight : (n,)
        Number of people.
    most : int
        Features to look at together.

    Examples
    --------
    >>> age = np.array([0, 1, 2, 3])
    >>> found = telling_columns(age // 2, np.column_stack([[0, 0, 1, 0], age]), (2, 4), np.ones(4), 1)
    >>> found.columns, found.untold
    ((1,), 0.0)
    """
    n_levels, share = int(level.max()) + 1, weight / weight.sum()
    spread = 1.0 - float((np.bincount(level, share) ** 2).sum())
    chosen: tuple[int, ...] = ()
    told, kind, n_kinds = 0.0, np.zeros(len(level), dtype=np.int64), 1
    while spread > 0.0 and len(chosen) < min(most, len(sizes)):
        tried = {}
        for j in set(range(len(sizes))) - {*chosen}:
            both = np.bincount((kind * sizes[j] + codes[:, j]) * n_levels + level, share, n_kinds * sizes[j] * n_levels)
            both = both.reshape(-1, n_levels)
            whole = both.sum(axis=1)
            held = float((both[whole > 0] ** 2 / whole[whole > 0, None]).sum())
            tried[j] = 1.0 - (1.0 - held) / spread
        best = max(sorted(tried), key=lambda j: tried[j])
        if tried[best] < told + TOLD:
            break
        chosen, told = (*chosen, best), tried[best]
        kind, n_kinds = kind * sizes[best] + codes[:, best], n_kinds * sizes[best]
    return Telling(tuple(sorted(chosen)), float(np.clip(1.0 - told, 0.0, 1.0)))
