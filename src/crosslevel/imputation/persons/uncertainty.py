"""How sure is the mean of any group of persons?

With q = g'(f), zbar_p the q-weighted mean of z in group p, and P_g the estimate for the persons g, of total weight n_g:

    J_g = sum_{p, c in g} N_pc q_pc (z_c - zbar_p) / (n_g D_g),      var(link P_g) = kappa^2 J_g' Sigma J_g + chance
    D_g = P_g (1 - P_g), or 1 for a number

The centring by zbar_p is the shift to the published mean. *Chance* is by how much these very persons' mean differs from the mean of
their probabilities, given that every group's total is known: it vanishes for whole groups. In a group without a published mean
nothing is centred, and t_b^2 is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from crosslevel.imputation.persons.model import LinkFit
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Members", "Spread", "mean_spread"]


@dataclass(frozen=True, eq=False)
class Members:
    """Persons, or people who are alike and of one group.

    Attributes
    ----------
    Z : (M, K)
    group : (M,) int
    weight, weight_squared : (M,)
        Sums over the people each stands for.
    value : (M,)
        Their probability, shifted; or expected number.
    known : (P,) bool
        Whether the group's mean is published.
    noise : float
        Variance of one person's value around the expected one; NaN for a binary feature, whose variance is p (1 - p).
    """

    Z: FloatArray
    group: IntArray
    weight: FloatArray
    weight_squared: FloatArray
    value: FloatArray
    known: npt.NDArray[np.bool_]
    noise: float = np.nan


@dataclass(frozen=True, eq=False)
class Spread:
    """Means of groups of persons.

    Attributes
    ----------
    mean : (G,)
    people : (G,)
        Sum of weights.
    model : (G,)
        J' Sigma J, without kappa, on the scale of the link.
    chance : (G,)
        On the scale of the link.
    """

    mean: FloatArray
    people: FloatArray
    model: FloatArray
    chance: FloatArray


def mean_spread(members: Members, cut: IntArray, n_cuts: int, fit: LinkFit) -> Spread:
    """Give the mean of each group of persons and its variances.

    Parameters
    ----------
    members : Members
    cut : (M,) int
        Group of persons each member is in, 0 .. n_cuts - 1.
    n_cuts : int
    fit : LinkFit

    Examples
    --------
    >>> members = Members(np.array([[-1.0], [1.0]]), np.zeros(2, int), np.full(2, 50.0), np.full(2, 50.0), np.full(2, 0.5),
    ...                   np.array([True]))
    >>> fit = LinkFit(np.zeros(1), 0.0, np.diag([1.0, 0.04]), 0.3, 0.0, 0.0, 1, 0.0)
    >>> found = mean_spread(members, np.array([0, 1]), 2, fit)
    >>> found.model.round(3), found.chance.round(3)
    (array([0.04, 0.04]), array([0.04, 0.04]))
    """
    binary = bool(np.isnan(members.noise))
    P, M = len(members.known), len(members.value)
    q = members.value * (1.0 - members.value) if binary else np.ones(M)
    by_cut = sparse.csr_array((np.ones(M), (cut, np.arange(M))), shape=(n_cuts, M))
    by_group = sparse.csr_array((np.ones(M), (members.group, np.arange(M))), shape=(P, M))
    people = by_cut @ members.weight
    mean = (by_cut @ (members.weight * members.value)) / np.maximum(people, 1e-300)
    scale = np.maximum(people * (mean * (1.0 - mean) if binary else 1.0), 1e-300)

    A = members.weight * q
    design = np.column_stack([np.ones(M), members.Z])
    centre = (by_group @ (A[:, None] * design)) / np.maximum(by_group @ A, 1e-300)[:, None]
    centre[~members.known] = 0.0
    J = (by_cut @ (A[:, None] * (design - centre[members.group]))) / scale[:, None]
    model = np.einsum("gi,ij,gj->g", J, fit.Sigma, J)

    pair = cut.astype(np.int64) * P + members.group
    pairs, code = np.unique(pair, return_inverse=True)
    own = np.bincount(code.reshape(-1), A, len(pairs))
    free = ~members.known[pairs % P]
    model += fit.t_b**2 * np.bincount(pairs // P, free * own**2, n_cuts) / scale**2

    each = members.weight_squared * (q if binary else members.noise)
    part, whole = np.bincount(code.reshape(-1), each, len(pairs)), by_group @ each
    left = part - np.where(free, 0.0, part**2 / np.maximum(whole[pairs % P], 1e-300))
    chance = np.bincount(pairs // P, np.maximum(left, 0.0), n_cuts) / scale**2
    return Spread(mean, people, model, chance)
