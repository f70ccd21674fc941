"""The hidden features' cluster means eta: their prior, the regression of the published means on the clusters' shares, what the data say.

    H = 1c' + ( sum_p w_p E[nbar_p nbar_p'] + lambda I )^{-1} sum_p w_p E[nbar_p] (s_p - c)',   w_p = 1 / Var(s_p)

E[nbar nbar'] holds the uncertainty of the clusters that the paper's eq 18 drops; c = 0 and w_p = N_p give that equation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit, logit

from crosslevel.imputation.cudia.mixture import EDGE
from crosslevel.imputation.cudia.model import TAU_SHAPE, Parameters, Prior, Problem, moments
from crosslevel.typing import FloatArray

DEFAULT_RIDGE = 1.0
"""People by which hidden means of numbers are shrunk to the overall mean when no ridge is given."""
LOGIT_SD = 1.25
"""Deviation of the logits of a binary feature's hidden means around that of the overall mean when no ridge is given."""
ROUNDS = 8
"""Alternations of eta and the variances that depend on it (an ECM step); three or four suffice."""


def make_prior(
    problem: Problem,
    alpha: FloatArray,
    *,
    learn: bool = False,
    ridge: float | None = None,
    unit: FloatArray | None = None,
) -> Prior:
    """Make the priors.

    Parameters
    ----------
    alpha : (K,)
    learn : bool
    ridge : float, optional
        In people: a cluster's mean is shrunk to the overall mean as by this many people there.
    unit : (d_u,), optional
        Variance of each feature between people, which says how much one of them weighs; the feature's spread when not given.
    """
    on_logit = problem.binary & (ridge is None)
    people = (DEFAULT_RIDGE if ridge is None else ridge) / (problem.spreads if unit is None else unit)
    center = np.where(on_logit, np.clip(problem.centers, EDGE, 1 - EDGE), problem.centers)
    precision = np.where(on_logit, 1.0 / LOGIT_SD**2, people)
    return Prior(alpha, learn, precision, center, on_logit, problem.spreads)


def solve_means(A: FloatArray, b: FloatArray, prior: Prior, j: int, *, binary: bool) -> FloatArray:
    """Most probable cluster means of hidden feature j, (K,): inside [0, 1] for a binary one.

    Parameters
    ----------
    A : (K, K)
        Sum of w E[nbar nbar'] over the published means.
    b : (K,)
        Sum of w E[nbar] s.

    Examples
    --------
    >>> prior = Prior(np.ones(2), False, np.array([1e-9]), np.zeros(1), np.array([False]), np.ones(1))
    >>> D = np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> solve_means(100 * D.T @ D, 100 * D.T @ D @ [1.0, 3.0], prior, 0, binary=False).round(5).tolist()
    [1.0, 3.0]
    """
    c, precision = prior.center[j], prior.precision[j]
    if prior.on_logit[j]:
        return _solve_logit(A, b, precision, c)
    eye = np.eye(len(A))
    # a design known only in part makes rows of E[nbar nbar'] sum to E[nbar], so shrinking to c is shifting by c
    h: FloatArray = c + np.linalg.solve(A + precision * eye, b - A.sum(axis=1) * c)
    if not binary or ((h >= EDGE) & (h <= 1.0 - EDGE)).all():
        return h
    root = np.linalg.cholesky(A + (precision + 1e-12 * np.trace(A)) * eye).T
    rhs = np.linalg.solve(root.T, b + precision * c)
    found = lsq_linear(root, rhs, bounds=(EDGE, 1.0 - EDGE), method="bvls").x
    return np.clip(found, EDGE, 1.0 - EDGE)


def _solve_logit(A: FloatArray, b: FloatArray, precision: float, center: float) -> FloatArray:
    middle = logit(center)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        h = EDGE + (1 - 2 * EDGE) * expit(x)
        slope = (1 - 2 * EDGE) * expit(x) * expit(-x)
        value = 0.5 * h @ A @ h - b @ h + 0.5 * precision * ((x - middle) ** 2).sum()
        return float(value), (A @ h - b) * slope + precision * (x - middle)

    start, options = np.full(len(b), middle), {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(EDGE + (1 - 2 * EDGE) * expit(found.x))


@dataclass(frozen=True, eq=False)
class Design:
    """The published means of one hidden feature, without those that are missing.

    Attributes
    ----------
    D : (E, K)
        Expected shares of the clusters.
    DD : (E, K, K)
        Expected products of the shares.
    s, size, variance : (E,)
    """

    D: FloatArray
    DD: FloatArray
    s: FloatArray
    size: FloatArray
    variance: FloatArray

    def normal(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sum of w E[nbar nbar'], (K, K), and of w E[nbar] s, (K,)."""
        return np.einsum("e,ekl->kl", w, self.DD), self.D.T @ (w * self.s)


def designs_of(
    problem: Problem, at: Parameters, shares: FloatArray, cov: FloatArray | None = None
) -> tuple[Design, ...]:
    """Lay out the published means of every hidden feature.

    Parameters
    ----------
    problem : Problem
    at : Parameters
        At which the variances are.
    shares : (A, K)
        Expected shares of the clusters in each atom.
    cov : (A, K, K), optional
        Covariance of the shares.
    """
    out = {}
    for block in problem.blocks:
        D = block.gather(shares)
        DD = D[:, :, None] * D[:, None, :] + (0.0 if cov is None else block.gather(cov, power=2))
        variance = moments(problem, block, replace(at, pi=shares))[1]
        for c, j in enumerate(block.features):
            seen = np.isfinite(block.S[:, c])
            v = np.maximum(variance[seen, c, c], 1e-14)
            out[int(j)] = Design(D[seen], DD[seen], block.S[seen, c], block.size[seen], v)
    return tuple(out[j] for j in range(len(out)))


def regress(
    problem: Problem,
    prior: Prior,
    at: Parameters,
    shares: FloatArray,
    cov: FloatArray | None = None,
    rounds: int = ROUNDS,
) -> Parameters:
    """Estimate eta and tau^2 from shares of the clusters (eq 18 corrected), recomputing the variances in between."""
    for _ in range(rounds):
        H, tau2 = at.H.copy(), at.tau2.copy()
        for j, design in enumerate(designs_of(problem, at, shares, cov)):
            binary = bool(problem.binary[j])
            H[:, j] = h = solve_means(*design.normal(1.0 / design.variance), prior, j, binary=binary)
            if not binary:
                squares = (design.s - design.D @ h) ** 2
                squares = squares + np.einsum("k,ekl,l->e", h, design.DD, h) - (design.D @ h) ** 2
                scatter = prior.scale[j] + 0.5 * float((design.size * squares).sum())
                tau2[j] = scatter / (TAU_SHAPE + 0.5 * len(squares) + 1.0)
        change = np.abs(H - at.H).max() + np.abs(tau2 - at.tau2).max()
        at = replace(at, H=H, tau2=tau2)
        if change < 1e-10:
            break
    return at


def person_variance(problem: Problem, at: Parameters, shares: FloatArray) -> FloatArray:
    """Variance of each hidden feature between the people of a group, (d_u,), from a regression with almost no ridge."""
    sampled = replace(problem, likelihood="cudia")
    loose = regress(sampled, make_prior(sampled, np.ones(1), ridge=1e-2), at, shares)
    # a published error is no variance between people
    bare = tuple(replace(block, se=np.full(block.se.shape, np.nan)) for block in problem.blocks)
    designs = designs_of(replace(sampled, blocks=bare), loose, shares)
    found = np.array([np.median(d.variance * d.size) for d in designs])
    return np.where(problem.binary, problem.spreads, np.maximum(problem.spreads, found))


@dataclass(frozen=True, eq=False)
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


def identify(problem: Problem, prior: Prior, at: Parameters, shares: FloatArray) -> tuple[Identifiability, ...]:
    """Say for every hidden feature which contrasts of the clusters its published means determine."""
    c = np.where(prior.on_logit, prior.center, 0.5)
    # a prior on the logit is taken at its center, on the scale of eta
    precision = prior.precision / np.where(prior.on_logit, (c * (1.0 - c)) ** 2, 1.0)
    designs = designs_of(problem, at, shares)
    return tuple(identifiability(d.D, 1.0 / d.variance, float(p)) for d, p in zip(designs, precision, strict=True))


def leave_one_out(problem: Problem, prior: Prior, at: Parameters, shares: FloatArray) -> tuple[FloatArray, ...]:
    """Error of every published mean predicted from the others, in deviations between groups, (E,) for each hidden feature.

    It measures how well group means are predicted, not people: with few groups a small error can still go with answers that are
    worse for people than the naive group mean.
    """
    out = []
    for j, design in enumerate(designs_of(problem, at, shares)):
        w = 1.0 / design.variance
        A, b = design.normal(w)
        left = []
        for d, s, own in zip(design.D, design.s, w, strict=True):
            h = solve_means(A - own * np.outer(d, d), b - own * d * s, prior, j, binary=bool(problem.binary[j]))
            left.append(s - d @ h)
        out.append(np.array(left) / max(float(design.s.std()), 1e-12))
    return tuple(out)
