"""How far a group of people lies from the places that were seen, by the mean of a vector for each person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.typing import FloatArray, IntArray

MOST_COMPARED = 3_000
"""Places from which a distance is taken; of more, some stand for all."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Mean vectors of places, (q, p), and the median distance between neighbors among them, which is the unit.

    Attributes
    ----------
    vectors : (q, p)
    unit : float
    """

    vectors: FloatArray
    unit: float

    def distance(self, M: FloatArray, sampled: FloatArray) -> FloatArray:
        """Give the distance of vectors, (m, p), from the nearest place; ``sampled``, (m,), is what chance adds to its square."""
        own = self.vectors
        square = np.einsum("ij,ij->i", M, M)[:, None] + np.einsum("ij,ij->i", own, own)[None, :] - 2.0 * M @ own.T
        return np.asarray(np.sqrt(np.maximum(square.min(axis=1) - sampled, 0.0)) / max(self.unit, 1e-12))


def some_of(n: int, most: int) -> IntArray:
    """Number some of n, evenly.

    Examples
    --------
    >>> some_of(9, 3).tolist(), some_of(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def seen_places(vectors: FloatArray) -> Seen:
    """Take the places, or some of many, and measure how far neighbors are from one another.

    Examples
    --------
    >>> seen = seen_places(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]]))
    >>> seen.unit, seen.distance(np.array([[0.0, -4.0], [1.0, 0.0]]), np.array([0.0, 1.0])).tolist()
    (2.0, [2.0, 0.0])
    """
    own = vectors[some_of(len(vectors), MOST_COMPARED)]
    if len(own) < 2:
        return Seen(own, 0.0)
    gram = own @ own.T
    size = np.diag(gram)
    square = size[:, None] + size[None, :] - 2.0 * gram
    np.fill_diagonal(square, np.inf)
    return Seen(own, float(np.median(np.sqrt(np.maximum(square.min(axis=1), 0.0)))))
