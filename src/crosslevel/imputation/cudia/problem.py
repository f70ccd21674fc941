"""The arrays of a cross-level problem: who is alike, who lives where, and which means were published.

People with the same row of x in the same place are one *pair* with a count, so the cost of everything depends on pairs, not on
people. A place is an *atom*: the finest group that any published mean can tell apart. A *block* is a set of hidden features
published for one partition of the atoms; a different partition per feature, or several nested levels of one feature, are several
blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.cudia.families import Family
from crosslevel.typing import FloatArray, Int64Array

__all__ = ["VARIANCES", "Block", "Problem", "hidden_variance", "plain_block"]


VARIANCES = ("gaussian", "bernoulli", "poisson", "exponential")
"""Families of a hidden feature: they fix its variance inside a cluster, T_k."""


@dataclass(frozen=True)
class Block:
    """Published means of some hidden features in one partition.

    Attributes
    ----------
    features : (d,) int
        Places of these features among the hidden ones.
    group : (A,) int
        Group of each atom.
    share : (A,)
        Weight of the atom in its group; adds up to one in each group.
    S : (Q, d)
        Published means; NaN where none was.
    size : (Q,)
        People behind each mean: for survey weights (sum w)^2 / sum w^2.
    se : (Q, d)
        Published standard errors; NaN where none.
    """

    features: Int64Array
    group: Int64Array
    share: FloatArray
    S: FloatArray
    size: FloatArray
    se: FloatArray

    @property
    def n_groups(self) -> int:
        """Groups, Q."""
        return len(self.S)

    @cached_property
    def plain(self) -> bool:
        """Whether atoms are groups, in the same order."""
        return len(self.group) == len(self.S) and bool((self.group == np.arange(len(self.S))).all())

    @cached_property
    def simple(self) -> bool:
        """Whether every atom is a group by itself."""
        return len(self.group) == len(self.S) and bool((np.bincount(self.group, minlength=len(self.S)) == 1).all())

    def gather(self, per_atom: FloatArray) -> FloatArray:
        """Average (A, ...) over the atoms of each group: (Q, ...)."""
        if self.plain:
            return per_atom
        out = np.zeros((self.n_groups, *per_atom.shape[1:]))
        np.add.at(out, self.group, per_atom * self.share.reshape(-1, *[1] * (per_atom.ndim - 1)))
        return out

    def spread(self, per_group: FloatArray) -> FloatArray:
        """The transpose of :meth:`gather`: (Q, ...) to (A, ...)."""
        if self.plain:
            return per_group
        return per_group[self.group] * self.share.reshape(-1, *[1] * (per_group.ndim - 1))


@dataclass(frozen=True)
class Problem:
    """People in pairs of (distinct row, atom), and the published means.

    Attributes
    ----------
    X : (C, d_x)
        Distinct rows of x; categorical columns are coded 0..L-1, NaN is missing.
    families : tuple of Family
    cell, atom : (R,) int
        Row and place of each pair.
    weight : (R,)
        People of the pair, or their survey weights scaled to one a person on average.
    count : (R,) int
        People of the pair.
    n_atoms : int
    blocks : tuple of Block
    hidden : tuple of str
        Family of each hidden feature.
    """

    X: FloatArray
    families: tuple[Family, ...]
    cell: Int64Array
    atom: Int64Array
    weight: FloatArray
    count: Int64Array
    n_atoms: int
    blocks: tuple[Block, ...]
    hidden: tuple[str, ...]

    @property
    def n_hidden(self) -> int:
        """Hidden features, d_u."""
        return len(self.hidden)

    @property
    def atom_weight(self) -> FloatArray:
        """People of each atom, (A,)."""
        return np.bincount(self.atom, self.weight, self.n_atoms).astype(np.float64)

    def centres(self) -> FloatArray:
        """Mean of the published means of each hidden feature, weighted by people, (d_u,)."""
        total, weight = np.zeros(self.n_hidden), np.zeros(self.n_hidden)
        for block in self.blocks:
            seen = np.isfinite(block.S)
            total[block.features] += (np.where(seen, block.S, 0.0) * block.size[:, None]).sum(axis=0)
            weight[block.features] += (seen * block.size[:, None]).sum(axis=0)
        return total / np.maximum(weight, 1e-300)

    def spreads(self) -> FloatArray:
        """A scale of the variance inside clusters for each hidden feature, (d_u,).

        Binary, count and waiting-time features have it from their mean; for real ones it is the variance of the published means
        between groups, the only thing in the data with the right units.
        """
        centre = self.centres()
        out = np.zeros(self.n_hidden)
        for j, kind in enumerate(self.hidden):
            if kind != "gaussian":
                out[j] = hidden_variance(np.full((1, 1), centre[j]), (kind,), np.ones(1))[0, 0]
                continue
            for block in self.blocks:
                for column in np.flatnonzero(block.features == j):
                    seen = np.isfinite(block.S[:, column])
                    away = (block.S[seen, column] - centre[j]) ** 2
                    out[j] = max(out[j], float(np.average(away, weights=block.size[seen])) if seen.any() else 0.0)
        return np.maximum(out, 1e-8 * np.maximum(1.0, centre**2))


def hidden_variance(H: FloatArray, hidden: Sequence[str], tau2: FloatArray) -> FloatArray:
    """Variance of the hidden features inside each cluster, T (K, d_u).

    Parameters
    ----------
    H : (K, d_u)
        Cluster means eta.
    hidden : sequence of str
    tau2 : (d_u,)
        Variance of the real-valued features, shared by the clusters.

    Examples
    --------
    >>> hidden_variance(np.array([[0.5, 2.0]]), ["bernoulli", "gaussian"], np.array([1.0, 9.0])).tolist()
    [[0.25, 9.0]]
    """
    T = np.empty_like(H)
    for j, kind in enumerate(hidden):
        if kind == "bernoulli":
            T[:, j] = H[:, j] * (1.0 - H[:, j])
        elif kind == "poisson":
            T[:, j] = H[:, j]
        elif kind == "exponential":
            T[:, j] = H[:, j] ** 2
        else:
            T[:, j] = tau2[j]
    return T


def plain_block(
    S: npt.ArrayLike, sizes: npt.ArrayLike, se: npt.ArrayLike | None = None, features: Sequence[int] | None = None
) -> Block:
    """Make the block of means published for every atom.

    Examples
    --------
    >>> plain_block([[0.1], [0.2]], [30, 40]).simple
    True
    """
    means = np.asarray(S, dtype=np.float64)
    errors = np.full(means.shape, np.nan) if se is None else np.asarray(se, dtype=np.float64)
    places = np.arange(means.shape[1]) if features is None else np.asarray(features)
    atoms = np.arange(len(means))
    return Block(places, atoms, np.ones(len(means)), means, np.asarray(sizes, dtype=np.float64), errors)
