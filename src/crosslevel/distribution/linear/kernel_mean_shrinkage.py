"""Kernel mean shrinkage estimators: a bag's mean embedding, shrunk toward zero as far as leaving people out advises.

Muandet, Fukumizu, Sriperumbudur, Gretton & Schoelkopf (2014), "Kernel mean estimation and Stein effect" (S-KMSE), and Muandet,
Sriperumbudur & Schoelkopf (2014), "Kernel mean estimation via spectral filtering". In whitened coordinates, with rho = |mu|^2 and
varrho the mean squared length of one person, n people, leave-one-out is least at

    mu -> (1 - a) mu,    a = (varrho - rho) / ((n - 2) rho + varrho / n).

The spectral filter (Tikhonov's) multiplies each coordinate along an eigenvector of the second moment with eigenvalue g by
g / (g + strength / n). The second moment is pooled over bags (a bag of five has none worth decomposing), and one strength serves all
bags, chosen by the same leave-one-out score, ``sum_ik h_ik^2 (rho_ik + s_k / (n (n - 1))) - 2 h_ik (rho_ik - s_k / n)``, with s_k the
variance of coordinate k within bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear.model import LinearFit
from crosslevel.distribution.linear.penalty import fit_ridge
from crosslevel.distribution.predictive import Predictive
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray

FILTERS = ("simple", "tikhonov")
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
    V : (r, r), gamma : (r,)
        Eigenvectors and eigenvalues of the pooled second moment.
    spread : float
        Trace of the covariance within bags.
    strength : float
    """

    method: str
    A: FloatArray
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
    chosen : int
    """

    linear: LinearFit
    shrinker: Shrinker
    chosen: int
    converged: bool = True

    def predict(self, features: BagFeatures) -> Predictive:
        """Give the distribution of the labels of bags."""
        return self.linear.predict(shrink(features, self.shrinker))

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader should know."""
        return self.linear.diagnostics() | {"filter": self.shrinker.method, "strength": self.shrinker.strength}


def simple_amount(rho: FloatArray, varrho: FloatArray, sizes: FloatArray, spread: float) -> FloatArray:
    """Compute how far each bag is shrunk to zero, (n,), between 0 (not at all) and 1.

    Parameters
    ----------
    rho : (n,)
        Squared length of the mean.
    varrho : (n,)
        Mean squared length of one person.
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


def learn_shrinker(features: BagFeatures, method: str = "tikhonov") -> Shrinker:
    """Learn eigenvectors and strength from training bags with ``within``."""
    if method not in FILTERS:
        raise unknown_name("filter", method, FILTERS, "choice")
    assert features.within is not None  # for the type
    A, N = features.whiten, features.sizes
    psi = features.mu @ A
    Sigma = A.T @ features.within @ A
    second = psi.T @ psi / len(psi) + Sigma * float(np.mean(1.0 - 1.0 / N))
    gamma, V = np.linalg.eigh((second + second.T) / 2)
    gamma = np.maximum(gamma, 0.0)
    how = Shrinker(method, A, V, gamma, max(float(np.trace(Sigma)), 0.0), 0.0)
    several = N >= LEAST_PEOPLE
    if method == "simple" or not several.any():
        return how
    n = N[several, None]
    rho, s = (psi[several] @ V) ** 2, np.maximum(np.diag(V.T @ Sigma @ V), 0.0)
    a, b = rho + s / (n * (n - 1.0)), rho - s / n
    tried = STRENGTHS * max(float(gamma[-1]), 1e-300)
    scores = []
    for strength in tried:
        h = tikhonov(gamma, strength / N[several])
        scores.append(float((h**2 * a - 2.0 * h * b).sum()))
    return replace(how, strength=float(tried[int(np.argmin(scores))]))


def tikhonov(gamma: FloatArray, strength: FloatArray) -> FloatArray:
    """Compute the factor g / (g + strength) of each coordinate (r,) of each bag (n,): (n, r)."""
    g, lam = gamma[None, :], strength[:, None]
    return np.asarray(1.0 - lam / np.maximum(g + lam, 1e-300))


def shrink(features: BagFeatures, how: Shrinker) -> BagFeatures:
    """Shrink the embeddings; the new features are whitened coordinates, so their kernel matrix is the identity."""
    psi = features.mu @ how.A
    if how.method == "simple":
        assert features.norms is not None  # for the type
        amount = simple_amount(np.square(psi).sum(axis=1), features.norms, features.sizes, how.spread)
        mu = psi * (1.0 - amount)[:, None]
    else:
        mu = (psi @ how.V) * tikhonov(how.gamma, how.strength / features.sizes) @ how.V.T
    return BagFeatures(mu, features.sizes, np.eye(mu.shape[1]), None, mu.mean(axis=0), features.map)


def fit_shrunk(
    candidates: Sequence[BagFeatures], y: FloatArray, method: str = "tikhonov", rule: str = "loo"
) -> ShrunkFit:
    """Shrink every candidate, fit ridge regressions, and keep the one of least left-out error."""
    shrinkers = [learn_shrinker(c, method) for c in candidates]
    shrunk = [shrink(c, s) for c, s in zip(candidates, shrinkers, strict=True)]
    fit = fit_ridge(shrunk, y, "rkhs", rule)
    return ShrunkFit(fit, shrinkers[fit.chosen], fit.chosen)
