"""Two stages: clusters from x alone, then the hidden means from a ridge regression of the published means on the clusters' shares."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslevel.imputation.cudia import laws
from crosslevel.imputation.cudia.hidden import (
    TAU_SHAPE,
    EtaPrior,
    Identifiability,
    eta_prior,
    identifiability,
    solve_eta,
)
from crosslevel.imputation.cudia.posterior import Parameters
from crosslevel.imputation.cudia.problem import Problem, hidden_variance
from crosslevel.typing import FloatArray

__all__ = ["Design", "design_of", "identify", "person_variance", "regress", "variances"]


ROUNDS = 8
"""Alternations of eta and the variances that depend on it (an ECM step); they settle after three or four."""


@dataclass(frozen=True)
class Design:
    """The published means of one hidden feature, over all partitions.

    Attributes
    ----------
    D : (E, K)
        Expected shares of the clusters.
    DD : (E, K, K) or None
        Expected products of the shares.
    s : (E,)
    size : (E,)
    place : tuple of (block, column of the block)
    """

    D: FloatArray
    DD: FloatArray | None
    s: FloatArray
    size: FloatArray
    place: tuple[tuple[int, int], ...]


def design_of(problem: Problem, j: int, shares: FloatArray, cov: FloatArray | None = None) -> Design:
    """Stack the published means of feature j.

    Parameters
    ----------
    shares : (A, K)
        Expected shares of the clusters in each atom.
    cov : (A, K, K), optional
        Covariance of the shares.
    """
    D, DD, s, size, place = [], [], [], [], []
    for b, block in enumerate(problem.blocks):
        for column in np.flatnonzero(block.features == j):
            mean = block.gather(shares)
            D.append(mean)
            s.append(block.S[:, column])
            size.append(block.size)
            place.append((b, int(column)))
            if cov is not None:
                spread = np.zeros((block.n_groups, *cov.shape[1:]))
                np.add.at(spread, block.group, cov * block.share[:, None, None] ** 2)
                DD.append(mean[:, :, None] * mean[:, None, :] + spread)
    return Design(
        np.vstack(D),
        np.concatenate(DD) if cov is not None else None,
        np.concatenate(s),
        np.concatenate(size),
        tuple(place),
    )


def variances(problem: Problem, at: Parameters, shares: FloatArray, law: str, design: Design) -> FloatArray:
    """Variance of each published mean of a feature, (E,)."""
    T = hidden_variance(at.H, problem.hidden, at.tau2)
    moments_of = laws.marginal_moments if law == "cudia" else laws.count_moments
    found = [moments_of(problem.blocks[b], shares, at.H, T).cov[:, c, c] for b, c in design.place]
    return np.maximum(np.concatenate(found), 1e-14)


def regress(
    problem: Problem,
    at: Parameters,
    shares: FloatArray,
    prior: EtaPrior,
    law: str = "cudia",
    cov: FloatArray | None = None,
    rounds: int = ROUNDS,
) -> Parameters:
    """Estimate eta and tau^2 from shares of the clusters (eq 18 corrected), recomputing the variances in between."""
    designs = [design_of(problem, j, shares, cov) for j in range(problem.n_hidden)]
    for _ in range(rounds):
        H, tau2 = at.H.copy(), at.tau2.copy()
        for j, (kind, design) in enumerate(zip(problem.hidden, designs, strict=True)):
            w = 1.0 / variances(problem, at, shares, law, design)
            H[:, j] = solve_eta(design.D, design.DD, design.s, w, prior, j, kind)
            if kind == "gaussian":
                seen = np.isfinite(design.s)
                squares = (design.s - design.D @ H[:, j]) ** 2
                if design.DD is not None:
                    extra = design.DD - design.D[:, :, None] * design.D[:, None, :]
                    squares = squares + np.einsum("k,ekl,l->e", H[:, j], extra, H[:, j])
                scatter = prior.scale[j] + 0.5 * float((design.size * squares)[seen].sum())
                tau2[j] = scatter / (TAU_SHAPE + 0.5 * seen.sum() + 1.0)
        change = np.abs(H - at.H).max() + np.abs(tau2 - at.tau2).max()
        at = replace(at, H=H, tau2=tau2)
        if change < 1e-10:
            break
    return at


def person_variance(problem: Problem, at: Parameters, shares: FloatArray) -> FloatArray:
    """Variance of each hidden feature between the people of a group, (d_u,), from a regression with almost no ridge."""
    loose = regress(problem, at, shares, eta_prior(problem, 1e-2, "mean"))
    out = problem.spreads()
    for j, kind in enumerate(problem.hidden):
        if kind == "gaussian":
            design = design_of(problem, j, shares)
            T = hidden_variance(loose.H, problem.hidden, loose.tau2)
            # a published error is no variance between people
            bare = [replace(block, se=np.full(block.se.shape, np.nan)) for block in problem.blocks]
            found = [laws.marginal_moments(bare[b], shares, loose.H, T).cov[:, c, c] for b, c in design.place]
            seen = np.isfinite(design.s)
            out[j] = max(out[j], float(np.median((np.concatenate(found) * design.size)[seen])))
    return out


def identify(
    problem: Problem, at: Parameters, shares: FloatArray, prior: EtaPrior, law: str
) -> tuple[Identifiability, ...]:
    """Say for every hidden feature which contrasts of the clusters its published means determine."""
    out = []
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, shares)
        seen = np.isfinite(design.s)
        w = 1.0 / variances(problem, at, shares, law, design)
        precision = prior.precision[j]
        if prior.logit(kind):  # at the centre of the prior, on the scale of eta
            precision = precision / (prior.centre[j] * (1.0 - prior.centre[j])) ** 2
        out.append(identifiability(design.D[seen], w[seen], float(precision)))
    return tuple(out)
