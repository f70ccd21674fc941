"""What the sampling of people does to the embedding of a part of a place."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from crosslevel.numerics.features.maps import EIGENVALUE_CUT
from crosslevel.typing import FloatArray

PEOPLE_PER_DIRECTION = 10
"""People behind each direction that is kept of how they vary; with one each, a direction could be traced to a person."""


@dataclass(frozen=True, eq=False)
class PeopleSpread:
    """How features vary between people: their leading directions, and the same variance in every other direction.

    Attributes
    ----------
    root : (k, p)
        Orthogonal directions, each as long as the standard deviation along it.
    rest : float
        Variance along each of the p - k directions that are left.
    """

    root: FloatArray
    rest: float

    def variance(self, w: FloatArray) -> FloatArray:
        """Give the variance of w . phi between people, (n_draws,), for the weights w (n_draws, p)."""
        along = np.square(w @ self.root.T)
        lengths = np.square(self.root).sum(axis=1)
        left = np.square(w).sum(axis=1) - (along / lengths).sum(axis=1)
        return np.asarray(along.sum(axis=1) + self.rest * left, dtype=np.float64)


def spread_of(features: FloatArray) -> PeopleSpread:
    """Summarize people's features (n_people, p) by at most one direction for every ten people.

    All directions of n people would tell them apart: features lie in their span for these people and for nobody else.

    Examples
    --------
    >>> features = np.repeat([[0.0, 0.0], [2.0, 0.0]], 10, axis=0)
    >>> spread_of(features).variance(np.array([[1.0, 5.0], [3.0, 0.0]]))
    array([1., 9.])
    """
    n, p = features.shape
    centered = features - features.mean(axis=0)
    if p <= n:
        values, vectors = np.linalg.eigh(centered.T @ centered / n)
        root = (np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1]
    else:
        values, vectors = np.linalg.eigh(centered @ centered.T / n)
        root = vectors.T[::-1] @ centered / np.sqrt(n)
    values = np.maximum(values[::-1], 0.0)
    k = min(int(np.count_nonzero(values > EIGENVALUE_CUT * values[0])), n // PEOPLE_PER_DIRECTION)
    return PeopleSpread(root[:k].copy(), float(values[k:].sum()) / max(p - k, 1))


@dataclass(frozen=True, eq=False)
class Sampling:
    """What the sampling of people does to a part's embedding.

    Attributes
    ----------
    between : (q,)
        Weight of each place in the variance between places, adding up to one.
    spread : float
        Mean squared distance of people's features from their place's mean.
    unit : bool
        Whether all features have length one, so that a part's own spread is 1 - |mu|^2.
    scatter : float
        What the sampling of people adds to the variance between places' means, as a share of that within: mean of 1 / n.
    people : PeopleSpread
        How the features of people vary; no person's own features.
    """

    between: FloatArray
    spread: float
    unit: bool = True
    scatter: float = 0.0
    people: PeopleSpread = field(default_factory=lambda: PeopleSpread(np.empty((0, 0)), 0.0))

    def variance(self, w: FloatArray, M: FloatArray) -> FloatArray:
        """Give the variance of w . phi between people of one place, (n_draws,); M (q, p) are the places' embeddings."""
        people = self.people.variance(w)
        places = w @ M.T
        mean = places @ self.between
        within = people - (places - mean[:, None]) ** 2 @ self.between
        return np.maximum(within / (1.0 - self.scatter), 0.05 * people)

    def spreads(self, M: FloatArray, effective: FloatArray) -> FloatArray:
        """Give the mean squared distance of people's features from the mean of their part, (m,).

        A mean of n people lies too near to them by 1 / n, and one person tells nothing: one of ordinary spread is added.

        Parameters
        ----------
        M : (m, p)
            Embeddings of the parts, not centered.
        effective : (m,)
        """
        if not self.unit:
            return np.full(len(M), self.spread)
        own = np.maximum(1.0 - np.einsum("ij,ij->i", M, M), 0.0)
        return own + self.spread / np.maximum(effective, 1.0)


def sampling_of(
    features: FloatArray, M: FloatArray, weight: FloatArray, effective: FloatArray | None = None
) -> Sampling:
    """Prepare the sampling error from people's features and the places' (uncentered) embeddings.

    Parameters
    ----------
    features : (n_people, p)
    M : (q, p)
    weight : (q,)
    effective : (q,), optional
        Kish's number of people behind each of M; taken as many when not given.
    """
    lengths = np.einsum("ij,ij->i", features, features)
    unit = bool(np.allclose(lengths, 1.0, atol=1e-3))
    between = weight / weight.sum()
    scatter = 0.0 if effective is None else min(float(between @ (1.0 / np.maximum(effective, 1.0))), 0.5)
    within = (1.0 if unit else float(lengths.mean())) - float(between @ np.einsum("ij,ij->i", M, M))
    return Sampling(between, max(within / (1.0 - scatter), 1e-12), unit, scatter, spread_of(features))
