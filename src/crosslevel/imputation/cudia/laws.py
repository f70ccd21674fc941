"""The laws of a published mean: how is s_p distributed, given the mix of clusters in a place?

``cudia`` (the paper's, with its covariance corrected): the people of a group are a sample from its mix pi_p,

    s_p | pi_p ~ N(mu_p, Sigma_p),  mu_p = sum_k pi_pk eta_k,
    Sigma_p = (1/N_p) [ sum_k pi_pk T_k + sum_k pi_pk (eta_k - mu_p)(eta_k - mu_p)' ].

``count``: the mean is that of these very people, whose clusters z are known in part from x,

    s_p | z ~ N( sum_k nbar_pk eta_k , (1/N_p) sum_k nbar_pk T_k ).

Groups made of several atoms are sampled within each: variances add up. A published standard error replaces the variance of the
first law (it is the error of the mean about that of the population) and is added to that of the second (as noise of publication).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.cudia.problem import Block, Problem, hidden_variance
from crosslevel.typing import FloatArray

__all__ = ["Moments", "Slopes", "count_moments", "log_normal", "marginal_moments", "marginal_slopes", "score"]


LEAST = 1e-14
"""Added to variances: every eta of a binary feature may be at its bound."""


@dataclass(frozen=True)
class Moments:
    """Law of the means of a block.

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
    moved: npt.NDArray[np.bool_]


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
    """Mean and covariance of a block under the paper's law.

    Parameters
    ----------
    block : Block
    pi : (A, K)
    H, T : (K, d_u)

    Examples
    --------
    >>> from crosslevel.imputation.cudia.problem import plain_block
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
    pulled = np.einsum("qjl,ql->qj", inverse, residual)
    value = -0.5 * ((residual * pulled).sum(axis=1) + log_det + seen.sum(axis=1) * np.log(2 * np.pi))
    by_cov = 0.5 * (pulled[:, :, None] * pulled[:, None, :] - inverse)
    return value, np.where(seen, pulled, 0.0), np.where(both & moments.moved, by_cov, 0.0)


def marginal_slopes(problem: Problem, pi: FloatArray, H: FloatArray, tau2: FloatArray) -> Slopes:
    """Log likelihood of all published means under the paper's law, with its gradient in pi, eta and tau^2."""
    T = hidden_variance(H, problem.hidden, tau2)
    value = 0.0
    by_pi, by_H, by_tau2 = np.zeros_like(pi), np.zeros_like(H), np.zeros_like(tau2)
    for block in problem.blocks:
        at, by_mean, by_cov = score(block.S, marginal_moments(block, pi, H, T))
        value += float(at.sum())
        h, t = H[:, block.features], T[:, block.features]
        g = block.spread(by_mean)
        G = block.spread(by_cov / block.size[:, None, None])
        g = g - 2.0 * np.einsum("ajl,al->aj", G, pi @ h)
        spread_pi, spread_H, spread_tau2 = _chain(pi, g, G, h, t, [problem.hidden[j] for j in block.features])
        by_pi += spread_pi
        by_H[:, block.features] += spread_H
        by_tau2[block.features] += spread_tau2
    return Slopes(value, by_pi, by_H, by_tau2)


def _chain(
    mix: FloatArray, g: FloatArray, G: FloatArray, h: FloatArray, t: FloatArray, kinds: Sequence[str]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pull gradients in the atoms' means (A, d) and second moments (A, d, d) back to the mix, eta and tau^2."""
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


def given_x_slopes(
    problem: Problem, mean_r: FloatArray, cross: FloatArray, H: FloatArray, tau2: FloatArray
) -> tuple[Slopes, FloatArray]:
    """Log likelihood of the published means given x, z summed out, under the count law.

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
    value = 0.0
    by_r, by_H, by_tau2 = np.zeros_like(mean_r), np.zeros_like(H), np.zeros_like(tau2)
    by_cross = np.zeros_like(cross)
    for block in problem.blocks:
        f = block.features
        h, t = H[:, f], T[:, f]
        inside = np.einsum("ak,kj,kl->ajl", mean_r, h, h) - cross[:, f[:, None], f]
        inside[:, np.arange(len(f)), np.arange(len(f))] += mean_r @ t
        moments = _published(
            block, block.gather(mean_r @ h), block.gather(inside) / block.size[:, None, None], add=True
        )
        at, by_mean, by_cov = score(block.S, moments)
        value += float(at.sum())
        G = block.spread(by_cov / block.size[:, None, None])
        spread_r, spread_H, spread_tau2 = _chain(mean_r, block.spread(by_mean), G, h, t, [problem.hidden[j] for j in f])
        by_r += spread_r
        by_H[:, f] += spread_H
        by_tau2[f] += spread_tau2
        by_cross[:, f[:, None], f] -= G
    return Slopes(value, by_r, by_H, by_tau2), by_cross
