"""The hidden features' cluster means eta: their prior, the ridge step of the paper with its missing term, and what the data say.

    H = 1c' + ( sum_p w_p E[nbar_p nbar_p'] + lambda I )^{-1} sum_p w_p E[nbar_p] (s_p - c)',   w_p = 1 / Var(s_p)

E[nbar nbar'] holds the uncertainty of the clusters that the paper's eq 18 drops; c = 0 and w_p = N_p give that equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit, logit

from crosslevel.imputation.cudia.problem import Problem
from crosslevel.typing import FloatArray

__all__ = ["EtaPrior", "Identifiability", "eta_prior", "from_free", "identifiability", "solve_eta", "to_free"]


EDGE = 1e-6
"""Cluster means of shares are kept this far from 0 and 1, so that no variance vanishes and no person is certain."""
TAU_SHAPE = 1.0
"""Shape of the inverse-gamma prior of tau^2; its scale is the feature's spread. With few groups it must not be dropped."""


@dataclass(frozen=True)
class EtaPrior:
    """Prior of the cluster means.

    Attributes
    ----------
    kind : {"ridge", "logit"}
        Normal on the scale of eta (inside its bounds), or on that of logit eta for binary features.
    precision : (d_u,)
        On the scale of the kind.
    centre : (d_u,)
        On the scale of eta.
    scale : (d_u,)
        Variance scale of each feature.
    """

    kind: str
    precision: FloatArray
    centre: FloatArray
    scale: FloatArray

    def log_density(
        self, H: FloatArray, tau2: FloatArray, hidden: Sequence[str]
    ) -> tuple[float, FloatArray, FloatArray]:
        """Log prior of eta and tau^2, with gradients in both."""
        value, by_H, by_tau2 = 0.0, np.empty_like(H), np.zeros_like(tau2)
        for j, kind in enumerate(hidden):
            if self.logit(kind):
                away = logit(H[:, j]) - logit(self.centre[j])
                by_H[:, j] = -self.precision[j] * away / (H[:, j] * (1.0 - H[:, j]))
            else:
                away = H[:, j] - self.centre[j]
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
        In people: a cluster's mean is pulled to the target as by this many people there.
    target : {"mean", "zero"} or float
    kind : {"ridge", "logit"}
    logit_sd : float
        Deviation of logit eta around the mean's, for kind "logit".
    person_variance : (d_u,), optional
        Variance of each feature between people, which says how much one of them weighs; the feature's spread when not given.
    """
    mean, scale = problem.centres(), problem.spreads()
    centre = (
        mean if target == "mean" else np.zeros_like(mean) if target == "zero" else np.full_like(mean, float(target))
    )
    precision = ridge / (scale if person_variance is None else person_variance)
    if kind == "logit":
        for j, family in enumerate(problem.hidden):
            if family == "bernoulli":
                centre = centre.copy()
                centre[j], precision[j] = np.clip(mean[j], EDGE, 1 - EDGE), 1.0 / logit_sd**2
    return EtaPrior(kind, precision, centre, scale)


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
        return _solve_logit(A, b, prior.precision[j], prior.centre[j])
    c, precision = prior.centre[j], prior.precision[j]
    eye = np.eye(len(A))
    # a design known only in part makes rows of E[nbar nbar'] sum to E[nbar], so pulling to c is shifting by c
    h = c + np.linalg.solve(A + precision * eye, b - A.sum(axis=1) * c)
    low, high = bounds(kind)
    if (h >= low).all() and (h <= high).all():
        return h
    root = np.linalg.cholesky(A + (precision + 1e-12 * np.trace(A)) * eye).T
    rhs = np.linalg.solve(root.T, b + precision * c)
    return np.clip(lsq_linear(root, rhs, bounds=(low, high), method="bvls").x, low, high)


def _solve_logit(A: FloatArray, b: FloatArray, precision: float, centre: float) -> FloatArray:
    middle = logit(centre)

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
