"""The hidden features' cluster means eta: their prior, the regression of the published means on the clusters' shares, what the data say.

    H = 1c' + ( sum_p w_p E[nbar_p nbar_p'] + lambda I )^{-1} sum_p w_p E[nbar_p] (s_p - c)',   w_p = 1 / Var(s_p)

E[nbar nbar'] holds the uncertainty of the clusters that the paper's eq 18 drops; c = 0 and w_p = N_p give that equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit, logit

from crosslevel.imputation.cudia.model import Parameters, Problem, hidden_variance, marginal_moments, moments_of
from crosslevel.typing import FloatArray

EDGE = 1e-6
"""Cluster means of shares are kept this far from 0 and 1, so that no variance vanishes and no person is certain."""
TAU_SHAPE = 1.0
"""Shape of the inverse-gamma prior of tau^2; its scale is the feature's spread. With few groups it must not be dropped."""
ROUNDS = 8
"""Alternations of eta and the variances that depend on it (an ECM step); three or four suffice."""


@dataclass(frozen=True)
class EtaPrior:
    """Prior of the cluster means.

    Attributes
    ----------
    kind : {"ridge", "logit"}
        Normal on the scale of eta (inside its bounds), or on that of logit eta for binary features.
    precision : (d_u,)
        On the scale of the kind.
    center : (d_u,)
        On the scale of eta.
    scale : (d_u,)
        Variance scale of each feature.
    """

    kind: str
    precision: FloatArray
    center: FloatArray
    scale: FloatArray

    def log_density(
        self, H: FloatArray, tau2: FloatArray, hidden: Sequence[str]
    ) -> tuple[float, FloatArray, FloatArray]:
        """Log prior of eta and tau^2, with gradients in both."""
        value, by_H, by_tau2 = 0.0, np.empty_like(H), np.zeros_like(tau2)
        for j, kind in enumerate(hidden):
            if self.logit(kind):
                away = logit(H[:, j]) - logit(self.center[j])
                by_H[:, j] = -self.precision[j] * away / (H[:, j] * (1.0 - H[:, j]))
            else:
                away = H[:, j] - self.center[j]
                by_H[:, j] = -self.precision[j] * away
            value -= 0.5 * self.precision[j] * float(away @ away)
            if kind == "gaussian":
                value -= float((TAU_SHAPE + 1.0) * np.log(tau2[j]) + self.scale[j] / tau2[j])
                by_tau2[j] = -(TAU_SHAPE + 1.0) / tau2[j] + self.scale[j] / tau2[j] ** 2
        return value, by_H, by_tau2

    def logit(self, kind: str) -> bool:
        """Whether a feature of this family has its prior on the logit."""
        return self.kind == "logit" and kind == "bernoulli"


def eta_prior(
    problem: Problem,
    ridge: float,
    target: str | float,
    kind: str = "ridge",
    logit_sd: float = 1.25,
    person_variance: FloatArray | None = None,
) -> EtaPrior:
    """Make the prior of the cluster means.

    Parameters
    ----------
    ridge : float
        In people: a cluster's mean is shrunk to the target as by this many people there.
    target : {"mean", "zero"} or float
    kind : {"ridge", "logit"}
    logit_sd : float
        Deviation of logit eta around the mean's, for kind "logit".
    person_variance : (d_u,), optional
        Variance of each feature between people, which says how much one of them weighs; the feature's spread when not given.
    """
    mean, scale = problem.centers(), problem.spreads()
    center = (
        mean if target == "mean" else np.zeros_like(mean) if target == "zero" else np.full_like(mean, float(target))
    )
    precision = ridge / (scale if person_variance is None else person_variance)
    if kind == "logit":
        for j, family in enumerate(problem.hidden):
            if family == "bernoulli":
                center = center.copy()
                center[j], precision[j] = np.clip(mean[j], EDGE, 1 - EDGE), 1.0 / logit_sd**2
    return EtaPrior(kind, precision, center, scale)


def bounds(kind: str) -> tuple[float, float]:
    """Range of a cluster mean of a feature of this family."""
    return {"bernoulli": (EDGE, 1.0 - EDGE), "gaussian": (-np.inf, np.inf)}.get(kind, (EDGE, np.inf))


def to_free(H: FloatArray, hidden: Sequence[str], scale: FloatArray) -> FloatArray:
    """Unbounded coordinates of the cluster means: logits, logs, or units of the feature's spread."""
    out = np.empty_like(H)
    for j, kind in enumerate(hidden):
        inside = np.clip(H[:, j], *bounds(kind))
        out[:, j] = logit(inside) if kind == "bernoulli" else H[:, j] / np.sqrt(scale[j])
        if kind in ("poisson", "exponential"):
            out[:, j] = np.log(inside)
    return out


def from_free(free: FloatArray, hidden: Sequence[str], scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cluster means, and their derivative in the free coordinates."""
    H, slope = np.empty_like(free), np.empty_like(free)
    for j, kind in enumerate(hidden):
        if kind == "bernoulli":
            p = expit(free[:, j])
            H[:, j] = EDGE + (1 - 2 * EDGE) * p
            slope[:, j] = (1 - 2 * EDGE) * p * (1 - p)
        elif kind == "gaussian":
            H[:, j], slope[:, j] = free[:, j] * np.sqrt(scale[j]), np.sqrt(scale[j])
        else:
            H[:, j] = slope[:, j] = np.exp(np.clip(free[:, j], -300, 300))
    return H, slope


def solve_eta(
    D: FloatArray, DD: FloatArray | None, s: FloatArray, w: FloatArray, prior: EtaPrior, j: int, kind: str
) -> FloatArray:
    """Most probable cluster means of one hidden feature, (K,).

    Parameters
    ----------
    D : (E, K)
        Mean design E[nbar] of every published mean of the feature.
    DD : (E, K, K) or None
        E[nbar nbar']; None when the design is known.
    s, w : (E,)
        Published means and the inverse of their variances.
    prior : EtaPrior
    j : int
        The feature.
    kind : str
        Its family; binary features stay inside [0, 1].

    Examples
    --------
    >>> prior = EtaPrior("ridge", np.array([1e-9]), np.zeros(1), np.ones(1))
    >>> D = np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> solve_eta(D, None, D @ [1.0, 3.0], np.full(2, 100.0), prior, 0, "gaussian").round(5).tolist()
    [1.0, 3.0]
    """
    seen = np.isfinite(s)
    D, s, w = D[seen], s[seen], w[seen]
    A = np.einsum("e,ekl->kl", w, DD[seen]) if DD is not None else (D * w[:, None]).T @ D
    b = D.T @ (w * s)
    if prior.logit(kind):
        return _solve_logit(A, b, prior.precision[j], prior.center[j])
    c, precision = prior.center[j], prior.precision[j]
    eye = np.eye(len(A))
    # a design known only in part makes rows of E[nbar nbar'] sum to E[nbar], so shrinking to c is shifting by c
    h = c + np.linalg.solve(A + precision * eye, b - A.sum(axis=1) * c)
    low, high = bounds(kind)
    if (h >= low).all() and (h <= high).all():
        return h
    root = np.linalg.cholesky(A + (precision + 1e-12 * np.trace(A)) * eye).T
    rhs = np.linalg.solve(root.T, b + precision * c)
    return np.clip(lsq_linear(root, rhs, bounds=(low, high), method="bvls").x, low, high)


def _solve_logit(A: FloatArray, b: FloatArray, precision: float, center: float) -> FloatArray:
    middle = logit(center)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        h = EDGE + (1 - 2 * EDGE) * expit(x)
        slope = (1 - 2 * EDGE) * expit(x) * expit(-x)
        residual = A @ h - b
        value = 0.5 * h @ A @ h - b @ h + 0.5 * precision * ((x - middle) ** 2).sum()
        return float(value), residual * slope + precision * (x - middle)

    start = np.full(len(b), middle)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9})
    return EDGE + (1 - 2 * EDGE) * expit(found.x)


@dataclass(frozen=True)
class MeanDesign:
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


def design_of(problem: Problem, j: int, shares: FloatArray, cov: FloatArray | None = None) -> MeanDesign:
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
    return MeanDesign(
        np.vstack(D),
        np.concatenate(DD) if cov is not None else None,
        np.concatenate(s),
        np.concatenate(size),
        tuple(place),
    )


def variances(problem: Problem, at: Parameters, shares: FloatArray, likelihood: str, design: MeanDesign) -> FloatArray:
    """Variance of each published mean of a feature, (E,)."""
    T = hidden_variance(at.H, problem.hidden, at.tau2)
    moments = moments_of(likelihood)
    found = [moments(problem.blocks[b], shares, at.H, T).cov[:, c, c] for b, c in design.place]
    return np.maximum(np.concatenate(found), 1e-14)


def regress(
    problem: Problem,
    at: Parameters,
    shares: FloatArray,
    prior: EtaPrior,
    likelihood: str = "cudia",
    cov: FloatArray | None = None,
    rounds: int = ROUNDS,
) -> Parameters:
    """Estimate eta and tau^2 from shares of the clusters (eq 18 corrected), recomputing the variances in between."""
    designs = [design_of(problem, j, shares, cov) for j in range(problem.n_hidden)]
    for _ in range(rounds):
        H, tau2 = at.H.copy(), at.tau2.copy()
        for j, (kind, design) in enumerate(zip(problem.hidden, designs, strict=True)):
            w = 1.0 / variances(problem, at, shares, likelihood, design)
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
            found = [marginal_moments(bare[b], shares, loose.H, T).cov[:, c, c] for b, c in design.place]
            seen = np.isfinite(design.s)
            out[j] = max(out[j], float(np.median((np.concatenate(found) * design.size)[seen])))
    return out


@dataclass(frozen=True)
class Identifiability:
    """What the published means say about the cluster means of one hidden feature.

    Attributes
    ----------
    singular_values : (min(P, K),)
        Of W^{1/2} R, the design weighted by precision.
    effective_df : float
        Cluster contrasts fixed by the data rather than by the prior, of K.
    share : (K,)
        Share of each contrast (columns of ``contrasts``) that comes from the data.
    contrasts : (K, K)
        Orthonormal combinations of the clusters, best known first.
    variance : (K, K)
        Posterior covariance of the cluster means on the scale of eta.
    n_groups : int
    """

    singular_values: FloatArray
    effective_df: float
    share: FloatArray
    contrasts: FloatArray
    variance: FloatArray
    n_groups: int


def identifiability(D: FloatArray, w: FloatArray, precision: float) -> Identifiability:
    """Say which contrasts of eta the published means determine.

    Parameters
    ----------
    D : (E, K)
        Design: mean responsibilities of the groups.
    w : (E,)
        Inverse variances of the means.
    precision : float
        Of the prior.

    Examples
    --------
    >>> found = identifiability(np.array([[0.5, 0.5], [0.5, 0.5]]), np.ones(2), 1e-3)
    >>> round(found.effective_df, 2)  # two clusters that nothing tells apart
    1.0
    """
    _, d, Vt = np.linalg.svd(np.sqrt(w)[:, None] * D, full_matrices=True)
    squares = np.zeros(D.shape[1])
    squares[: len(d)] = d**2
    share = squares / np.maximum(squares + precision, 1e-300)
    variance = (Vt.T / np.maximum(squares + precision, 1e-12 * max(squares.max(), 1e-300))) @ Vt
    return Identifiability(d, float(share.sum()), share, Vt.T, variance, len(D))


def identify(
    problem: Problem, at: Parameters, shares: FloatArray, prior: EtaPrior, likelihood: str
) -> tuple[Identifiability, ...]:
    """Say for every hidden feature which contrasts of the clusters its published means determine."""
    out = []
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, shares)
        seen = np.isfinite(design.s)
        w = 1.0 / variances(problem, at, shares, likelihood, design)
        precision = prior.precision[j]
        if prior.logit(kind):  # at the center of the prior, on the scale of eta
            precision = precision / (prior.center[j] * (1.0 - prior.center[j])) ** 2
        out.append(identifiability(design.D[seen], w[seen], float(precision)))
    return tuple(out)
