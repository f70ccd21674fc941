"""The arrays of a cross-level problem, its parameters, and how published means are distributed given them.

People with the same row of x in the same place are one *pair* with a count, so the cost of everything depends on pairs, not on
people. A place is an *atom*: the finest group that any published mean can tell apart. A *block* is a set of hidden features
published for one partition of the atoms; a different partition per feature, or several nested levels of one feature, are several
blocks.

Likelihood ``cudia`` (the paper's, with its covariance corrected): the people of a group are a sample from its mix pi_p,

    s_p | pi_p ~ N(mu_p, Sigma_p),  mu_p = sum_k pi_pk eta_k,
    Sigma_p = (1/N_p) [ sum_k pi_pk T_k + sum_k pi_pk (eta_k - mu_p)(eta_k - mu_p)' ].

Likelihood ``count``: the mean is that of these very people, whose clusters z are known in part from x,

    s_p | z ~ N( sum_k nbar_pk eta_k , (1/N_p) sum_k nbar_pk T_k ).

Groups made of several atoms are sampled within each: variances add up. A published standard error replaces the variance of the
first (it is the error of the mean about that of the population) and is added to that of the second (as noise of publication).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.cudia.families import Family
from crosslevel.typing import BoolArray, FloatArray, Int64Array, IntArray

HIDDEN_FAMILIES = ("gaussian", "bernoulli", "poisson", "exponential")
"""Families of a hidden feature: they fix its variance inside a cluster, T_k."""
LEAST = 1e-14
"""Added to variances: every eta of a binary feature may be at its bound."""


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

    def centers(self) -> FloatArray:
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
        center = self.centers()
        out = np.zeros(self.n_hidden)
        for j, kind in enumerate(self.hidden):
            if kind != "gaussian":
                out[j] = hidden_variance(np.full((1, 1), center[j]), (kind,), np.ones(1))[0, 0]
                continue
            for block in self.blocks:
                for column in np.flatnonzero(block.features == j):
                    seen = np.isfinite(block.S[:, column])
                    away = (block.S[seen, column] - center[j]) ** 2
                    out[j] = max(out[j], float(np.average(away, weights=block.size[seen])) if seen.any() else 0.0)
        return np.maximum(out, 1e-8 * np.maximum(1.0, center**2))


@dataclass(frozen=True)
class Parameters:
    """Everything that is estimated.

    Attributes
    ----------
    theta : tuple of (K, q)
        Free parameters of each family of x.
    pi : (A, K)
    H : (K, d_u)
    tau2 : (d_u,)
    """

    theta: tuple[FloatArray, ...]
    pi: FloatArray
    H: FloatArray
    tau2: FloatArray

    @property
    def n_clusters(self) -> int:
        """Clusters, K."""
        return self.pi.shape[1]

    def reordered(self, order: IntArray) -> Parameters:
        """The same with the clusters in another order."""
        # contiguous, so that sums come out the same to the last bit after loading
        pi = np.ascontiguousarray(self.pi[:, order])
        return Parameters(tuple(np.ascontiguousarray(t[order]) for t in self.theta), pi, self.H[order], self.tau2)


def log_density(problem: Problem, theta: Sequence[FloatArray]) -> FloatArray:
    """Log density of every distinct row in every cluster, (C, K)."""
    first, *rest = [f.log_density(t, problem.X) for f, t in zip(problem.families, theta, strict=True)]
    for other in rest:
        first = first + other
    return first


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


@dataclass(frozen=True)
class Moments:
    """Distribution of the means of a block.

    Attributes
    ----------
    mean : (Q, d)
    cov : (Q, d, d)
        With published standard errors.
    moved : (Q, d, d) bool
        Entries of ``cov`` that depend on the parameters.
    """

    mean: FloatArray
    cov: FloatArray
    moved: BoolArray


@dataclass(frozen=True)
class Slopes:
    """Gradient of the log likelihood of all blocks.

    Attributes
    ----------
    value : float
    pi : (A, K)
    H : (K, d_u)
    tau2 : (d_u,)
    """

    value: float
    pi: FloatArray
    H: FloatArray
    tau2: FloatArray


def marginal_moments(block: Block, pi: FloatArray, H: FloatArray, T: FloatArray) -> Moments:
    """Mean and covariance of a block under the paper's likelihood.

    Parameters
    ----------
    block : Block
    pi : (A, K)
    H, T : (K, d_u)

    Examples
    --------
    >>> eta = np.array([[0.0], [1.0]])
    >>> m = marginal_moments(plain_block([[0.4]], [50]), np.array([[0.6, 0.4]]), eta, eta * (1 - eta))
    >>> m.mean.tolist(), m.cov.round(6).tolist()  # a binary feature: mu (1 - mu) / N
    ([[0.4]], [[[0.0048]]])
    """
    h, t = H[:, block.features], T[:, block.features]
    mean = pi @ h
    away = h[None] - mean[:, None]
    inside = np.einsum("ak,akj,akl->ajl", pi, away, away)
    inside[:, np.arange(h.shape[1]), np.arange(h.shape[1])] += pi @ t
    return _published(block, block.gather(mean), block.gather(inside) / block.size[:, None, None], add=False)


def count_moments(block: Block, nbar: FloatArray, H: FloatArray, T: FloatArray) -> Moments:
    """Mean and covariance of a block given the shares of the clusters among its people, nbar (A, K)."""
    d = len(block.features)
    cov = np.zeros((block.n_groups, d, d))
    cov[:, np.arange(d), np.arange(d)] = block.gather(nbar @ T[:, block.features]) / block.size[:, None]
    return _published(block, block.gather(nbar @ H[:, block.features]), cov, add=True)


def _published(block: Block, mean: FloatArray, cov: FloatArray, *, add: bool) -> Moments:
    given = np.isfinite(block.se) & (block.se > 0)
    moved = np.ones(cov.shape, dtype=bool)
    if given.any():
        d = cov.shape[1]
        diagonal = np.zeros_like(cov)
        diagonal[:, np.arange(d), np.arange(d)] = np.where(given, block.se, 0.0) ** 2
        if not add:
            moved = ~(given[:, :, None] | given[:, None, :])
            cov = np.where(moved, cov, 0.0)
        cov = cov + diagonal
    return Moments(mean, cov, moved)


def moments_of(likelihood: str) -> Callable[[Block, FloatArray, FloatArray, FloatArray], Moments]:
    """Give the function that computes the moments of a block under a likelihood."""
    return marginal_moments if likelihood == "cudia" else count_moments


def log_normal(S: FloatArray, moments: Moments) -> FloatArray:
    """Log density of published means, (Q,); a mean that is missing is left out."""
    if S.shape[1] > 1:
        return score(S, moments)[0]
    var = moments.cov[:, 0, 0] + LEAST
    value = -0.5 * ((S[:, 0] - moments.mean[:, 0]) ** 2 / var + np.log(2 * np.pi * var))
    return np.where(np.isfinite(S[:, 0]), value, 0.0)


def score(S: FloatArray, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log density (Q,), and its gradient in the mean (Q, d) and in the covariance (Q, d, d)."""
    seen = np.isfinite(S)
    both = seen[:, :, None] & seen[:, None, :]
    d = S.shape[1]
    cov = np.where(both, moments.cov, np.eye(d))
    cov = cov + LEAST * np.eye(d)
    residual = np.where(seen, S, moments.mean) - moments.mean
    if d == 1:
        inverse = 1.0 / cov
        log_det = np.log(cov[:, 0, 0])
    else:
        inverse = np.linalg.inv(cov)
        log_det = np.linalg.slogdet(cov)[1]
    weighted = np.einsum("qjl,ql->qj", inverse, residual)
    value = -0.5 * ((residual * weighted).sum(axis=1) + log_det + seen.sum(axis=1) * np.log(2 * np.pi))
    by_cov = 0.5 * (weighted[:, :, None] * weighted[:, None, :] - inverse)
    return value, np.where(seen, weighted, 0.0), np.where(both & moments.moved, by_cov, 0.0)


def marginal_slopes(problem: Problem, pi: FloatArray, H: FloatArray, tau2: FloatArray) -> Slopes:
    """Log likelihood of all published means under the paper's likelihood, with its gradient in pi, eta and tau^2."""
    T = hidden_variance(H, problem.hidden, tau2)

    def of_block(block: Block) -> tuple[FloatArray, FloatArray, FloatArray]:
        at, by_mean, by_cov = score(block.S, marginal_moments(block, pi, H, T))
        G = block.spread(by_cov / block.size[:, None, None])
        g = block.spread(by_mean) - 2.0 * np.einsum("ajl,al->aj", G, pi @ H[:, block.features])
        return at, g, G

    return _add_blocks(problem, pi, H, T, of_block)


def given_x_slopes(
    problem: Problem, mean_r: FloatArray, cross: FloatArray, H: FloatArray, tau2: FloatArray
) -> tuple[Slopes, FloatArray]:
    """Log likelihood of the published means given x, z summed out, under the likelihood ``count``.

    Each person's hidden value is independent given x, with mean e = sum_k r_k eta_k, so the mean of an atom has variance
    ``(1/N^2) sum_i [ sum_k r_ik (T_k + eta_k eta_k') - e_i e_i' ]``.

    Parameters
    ----------
    mean_r : (A, K), cross : (A, d_u, d_u)
        Means over the people of each atom: of r, and of e e'.

    Returns
    -------
    Slopes
        ``pi`` is the gradient in ``mean_r``; ``H`` lacks what goes through ``cross``.
    by_cross : (A, d_u, d_u)
    """
    T = hidden_variance(H, problem.hidden, tau2)
    by_cross = np.zeros_like(cross)

    def of_block(block: Block) -> tuple[FloatArray, FloatArray, FloatArray]:
        f = block.features
        h = H[:, f]
        inside = np.einsum("ak,kj,kl->ajl", mean_r, h, h) - cross[:, f[:, None], f]
        inside[:, np.arange(len(f)), np.arange(len(f))] += mean_r @ T[:, f]
        cov = block.gather(inside) / block.size[:, None, None]
        at, by_mean, by_cov = score(block.S, _published(block, block.gather(mean_r @ h), cov, add=True))
        G = block.spread(by_cov / block.size[:, None, None])
        by_cross[:, f[:, None], f] -= G
        return at, block.spread(by_mean), G

    return _add_blocks(problem, mean_r, H, T, of_block), by_cross


def _add_blocks(
    problem: Problem,
    mix: FloatArray,
    H: FloatArray,
    T: FloatArray,
    of_block: Callable[[Block], tuple[FloatArray, FloatArray, FloatArray]],
) -> Slopes:
    """Add up the log likelihoods of the blocks and their gradients in the mix, eta and tau^2.

    Parameters
    ----------
    of_block : callable
        Gives log densities (Q,), and gradients in the atoms' means (A, d) and second moments (A, d, d).
    """
    value, by_mix, by_H, by_tau2 = 0.0, np.zeros_like(mix), np.zeros_like(H), np.zeros(problem.n_hidden)
    for block in problem.blocks:
        f = block.features
        at, g, G = of_block(block)
        value += float(at.sum())
        own_mix, own_H, own_tau2 = _chain(mix, g, G, H[:, f], T[:, f], [problem.hidden[j] for j in f])
        by_mix += own_mix
        by_H[:, f] += own_H
        by_tau2[f] += own_tau2
    return Slopes(value, by_mix, by_H, by_tau2)


def _chain(
    mix: FloatArray, g: FloatArray, G: FloatArray, h: FloatArray, t: FloatArray, kinds: Sequence[str]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Carry gradients in the atoms' means (A, d) and second moments (A, d, d) back to the mix, eta and tau^2."""
    diagonal = np.einsum("ajj->aj", G)
    by_mix = g @ h.T + diagonal @ t.T + np.einsum("kj,ajl,kl->ak", h, G, h)
    by_h = mix.T @ g + 2.0 * np.einsum("ak,ajl,kl->kj", mix, G, h)
    through_t = mix.T @ diagonal
    by_tau2 = np.zeros(h.shape[1])
    for j, kind in enumerate(kinds):
        if kind == "gaussian":
            by_tau2[j] = through_t[:, j].sum()
        else:
            slope = {"bernoulli": 1.0 - 2.0 * h[:, j], "poisson": np.ones(len(h)), "exponential": 2.0 * h[:, j]}[kind]
            by_h[:, j] += through_t[:, j] * slope
    return by_mix, by_h, by_tau2
