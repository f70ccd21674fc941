"""Kernel mean shrinkage estimators: a bag's mean embedding, shrunk toward a target as far as leaving people out advises.

Muandet, Fukumizu, Sriperumbudur, Gretton & Schoelkopf (2014), "Kernel mean estimation and Stein effect" (S-KMSE), and Muandet,
Sriperumbudur & Schoelkopf (2014), "Kernel mean estimation via spectral filtering". In whitened coordinates about the target,
with rho = |mu|^2 and varrho the mean squared length of one person, n people, leave-one-out is least at

    mu -> (1 - a) mu,    a = (varrho - rho) / ((n - 2) rho + varrho / n).

A spectral filter multiplies each coordinate along an eigenvector of the second moment with eigenvalue g by a function of g and
strength / n. The second moment is pooled over bags (a bag of five has none worth decomposing), and one strength serves all bags,
chosen by the same leave-one-out score, ``sum_ik h_ik^2 (rho_ik + s_k / (n (n - 1))) - 2 h_ik (rho_ik - s_k / n)``, with s_k the variance of
coordinate k within bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.landmarks import SecondLevel, second_levels
from crosslevel.distribution.linear.model import LinearFit
from crosslevel.distribution.linear.penalty import fit_ridge
from crosslevel.distribution.predictive import Predictive
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray

FILTERS = ("simple", "tikhonov", "iterated", "landweber", "truncated")
TARGETS = ("zero", "mean")
LEAST_PEOPLE = 1.5
"""Effective size below which a bag cannot leave anyone out; the variance within other bags then takes the place of its own."""
STRENGTHS = np.geomspace(1e-8, 1e4, 121)
"""Strengths tried, times the largest eigenvalue."""


@dataclass(frozen=True, eq=False)
class Shrinker:
    """How embeddings are shrunk.

    Attributes
    ----------
    method : str
        One of ``FILTERS``.
    A : (d, r)
        Whitening.
    target : (r,)
    V : (r, r), gamma : (r,)
        Eigenvectors and eigenvalues of the pooled second moment about the target.
    spread : float
        Trace of the covariance within bags.
    strength : float
    """

    method: str
    A: FloatArray
    target: FloatArray
    V: FloatArray
    gamma: FloatArray
    spread: float
    strength: float


@dataclass(frozen=True, eq=False)
class ShrunkFit:
    """A ridge regression on shrunken embeddings.

    Attributes
    ----------
    linear : LinearFit
    shrinker : Shrinker
    second : SecondLevel or None
        The kernel between shrunken embeddings.
    chosen : int
    """

    linear: LinearFit
    shrinker: Shrinker
    second: SecondLevel | None
    chosen: int
    converged: bool = True

    def predict(self, features: BagFeatures) -> Predictive:
        """Give the distribution of the labels of bags."""
        seen = shrink(features, self.shrinker)
        return self.linear.predict(seen if self.second is None else self.second.apply(seen))

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader should know."""
        return self.linear.diagnostics() | {"filter": self.shrinker.method, "strength": self.shrinker.strength}


def simple_amount(rho: FloatArray, varrho: FloatArray, sizes: FloatArray, spread: float) -> FloatArray:
    """Compute how far each bag is shrunk to the target, (n,), between 0 (not at all) and 1.

    Parameters
    ----------
    rho : (n,)
        Squared length of the mean about the target.
    varrho : (n,)
        Mean squared length of one person about the target.
    sizes : (n,)
    spread : float
        Variance within bags, for bags of one.

    Examples
    --------
    >>> simple_amount(np.array([1.0]), np.array([3.0]), np.array([4.0]), 0.0).round(4)
    array([0.7273])
    """
    below = (sizes - 2.0) * rho + varrho / sizes
    own = (varrho - rho) / np.where(below > 0, below, np.inf)
    pooled = spread / sizes / np.where(rho > 0, rho, np.inf)
    return np.clip(np.where(sizes < LEAST_PEOPLE, pooled, own), 0.0, 1.0)


def learn_shrinker(features: BagFeatures, method: str = "tikhonov", target: str = "zero") -> Shrinker:
    """Learn target, eigenvectors and strength from training bags with ``within``."""
    if method not in FILTERS:
        raise unknown_name("filter", method, FILTERS, "choice")
    if target not in TARGETS:
        raise unknown_name("target", target, TARGETS, "choice")
    if features.within is None:
        raise ValueError("features need within; pool them with within=True")
    A, N = features.whiten, features.sizes
    psi = features.mu @ A
    center = psi.mean(axis=0) if target == "mean" else np.zeros(psi.shape[1])
    Sigma = A.T @ features.within @ A
    away = psi - center
    second = away.T @ away / len(away) + Sigma * float(np.mean(1.0 - 1.0 / N))
    gamma, V = np.linalg.eigh((second + second.T) / 2)
    gamma = np.maximum(gamma, 0.0)
    how = Shrinker(method, A, center, V, gamma, max(float(np.trace(Sigma)), 0.0), 0.0)
    if method == "simple":
        return how
    several = N >= LEAST_PEOPLE
    if not several.any():
        return how
    n = N[several, None]
    rho, s = (away[several] @ V) ** 2, np.maximum(np.diag(V.T @ Sigma @ V), 0.0)
    a, b = rho + s / (n * (n - 1.0)), rho - s / n
    tried = STRENGTHS * max(float(gamma[-1]), 1e-300)
    scores = []
    for strength in tried:
        h = spectral(gamma, strength / N[several], method)
        scores.append(float((h**2 * a - 2.0 * h * b).sum()))
    return replace(how, strength=float(tried[int(np.argmin(scores))]))


def spectral(gamma: FloatArray, strength: FloatArray, method: str) -> FloatArray:
    """Compute the factor of each coordinate of each bag, (n, r).

    Parameters
    ----------
    gamma : (r,)
    strength : (n,)
    method : {"tikhonov", "iterated", "landweber", "truncated"}
    """
    g, lam = gamma[None, :], strength[:, None]
    if method == "truncated":
        return (g > lam).astype(np.float64)
    if method == "landweber":
        top = max(float(gamma.max(initial=0.0)), 1e-300)
        # as many steps as make the filter half open at g = strength
        steps = np.log(2.0) / -np.log1p(-np.clip(lam / top, 1e-300, 1.0 - 1e-12))
        return np.asarray(-np.expm1(steps * np.log1p(-np.minimum(g / top, 1.0 - 1e-16))))
    keep = lam / np.maximum(g + lam, 1e-300)
    return np.asarray(1.0 - keep if method == "tikhonov" else 1.0 - keep**2)


def shrink(features: BagFeatures, how: Shrinker) -> BagFeatures:
    """Shrink the embeddings; the new features are whitened coordinates, so their kernel matrix is the identity."""
    psi = features.mu @ how.A
    away = psi - how.target
    if how.method == "simple":
        if features.norms is None:
            raise ValueError("features need norms; pool them with norms=True")
        varrho = features.norms - 2.0 * psi @ how.target + how.target @ how.target
        amount = simple_amount(np.square(away).sum(axis=1), varrho, features.sizes, how.spread)
        shrunk = away * (1.0 - amount)[:, None]
    else:
        shrunk = (away @ how.V) * spectral(how.gamma, how.strength / features.sizes, how.method) @ how.V.T
    mu = how.target + shrunk
    return BagFeatures(mu, features.sizes, np.eye(mu.shape[1]), None, mu.mean(axis=0), features.map)


def fit_shrunk(
    candidates: Sequence[BagFeatures],
    y: FloatArray,
    method: str = "tikhonov",
    target: str = "zero",
    rule: str = "loo",
    *,
    second_level: str = "linear",
    seed: int = 0,
) -> ShrunkFit:
    """Shrink every candidate, fit ridge regressions, and keep the one of least left-out error."""
    shrinkers = [learn_shrinker(c, method, target) for c in candidates]
    shrunk = [shrink(c, s) for c, s in zip(candidates, shrinkers, strict=True)]
    each = [second_levels([one], second_level, seed) for one in shrunk]
    owners = np.repeat(np.arange(len(each)), [len(made) for made in each])
    seen = [one for made in each for one in made]
    fit = fit_ridge(seen, y, "rkhs", rule)
    chosen = int(owners[fit.chosen])
    return ShrunkFit(fit, shrinkers[chosen], seen[fit.chosen].second, chosen)
