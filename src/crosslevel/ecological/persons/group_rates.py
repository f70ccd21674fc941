"""Rates of groups of people, in every place and over all places, and how their logits move with the effects.

Every place is matched to its total: with P_ig the rate of group g in place i and N_i the people of i,

    P_g = sum_i N_i s_ig P_ig / N_g,    d logit P_g / d theta = sum_i N_i s_ig P_ig (1 - P_ig) / (N_g P_g (1 - P_g)) d logit P_ig / d theta
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from crosslevel.data.place_cells import Pairs
from crosslevel.ecological.persons.sweeps import part_slopes
from crosslevel.typing import AnyArray, FloatArray, IntArray

__all__ = ["GroupRates", "Parts", "parts_at", "rates_over"]

CLIPPED, TINY = 1e-9, 1e-100


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


def parts_at(
    pairs: Pairs, eta: FloatArray, f: FloatArray, codes: AnyArray, n_effects: int, group: IntArray, n: int
) -> Parts:
    """Sum the people of every place to groups, with slopes.

    Parameters
    ----------
    pairs : Pairs
    eta : (n_cells,)
        Logit of each kind of people but for its place.
    f : (q,)
        Place effects that meet the totals.
    codes : (n_cells, n_terms)
        Effects of each kind of people.
    n_effects : int
    group : (n_pairs,) int
        Group of the people of each pair.
    n : int
        Number of groups.
    """
    number, part = np.unique(pairs.place * n + group, return_inverse=True)
    place, many = number // n, np.full(len(number), np.inf)
    at = part_slopes(pairs, eta, f, codes, n_effects, part.reshape(-1), place, many)
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
