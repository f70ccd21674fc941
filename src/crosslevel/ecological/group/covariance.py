"""The prior of the latent values: who lives there, where it is, and what neither explains.

f_r = bias + m_r . w + sum_i A_ri (s_i + g_i + e_i), with w ~ N(0, sx2 I) on centred embeddings m, s a Matern field over the
places, g an effect shared by a group of places (a state), e an effect of each place alone (the nugget). A row r is a place
(A_ri = 1 for itself), a subgroup of a place, or people of several places (A_ri = the share that lives in place i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.kernels import matern
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Hyperparameters", "Rows", "Terms", "covariance", "place_covariance", "slopes"]


BIAS = 10.0
"""Prior variance of the overall level, in squared logits: as good as flat."""


@dataclass(frozen=True)
class Hyperparameters:
    """Scales of the prior, in squared logits; the length in the unit of the distances.

    Attributes
    ----------
    embedding : float
        sx2, of the weights of centred features.
    spatial : float
        ss2 of the Matern field; 0 when there is none.
    length : float
        l of the Matern field.
    nugget : float
        t2, the effect of each place alone; 0 when refused.
    group : float
        Variance of the effect shared by a group of places; 0 when there is none.
    """

    embedding: float
    spatial: float = 0.0
    length: float = 1.0
    nugget: float = 0.0
    group: float = 0.0


@dataclass(frozen=True, eq=False)
class Terms:
    """Which terms the prior has, over q places.

    Attributes
    ----------
    n_places : int
        q.
    kind : str or None
        The Matern kernel; None without a spatial term.
    distance : (q, q) or None
    nugget : bool
    group : (q,) int or None
        Group of each place.
    product : bool
        Whether the weights w vary over space (K = sx2 <m, m'> x Matern) in place of an added field.
    """

    n_places: int
    kind: str | None
    distance: FloatArray | None
    nugget: bool
    group: IntArray | None
    product: bool = False

    def take(self, places: IntArray) -> Terms:
        """Keep some places."""
        distance = None if self.distance is None else self.distance[np.ix_(places, places)]
        group = None if self.group is None else np.unique(self.group[places], return_inverse=True)[1].astype(np.intp)
        return Terms(len(places), self.kind, distance, self.nugget, group, self.product)

    @property
    def names(self) -> tuple[str, ...]:
        """Hyperparameters that are learnt, in the order of the gradient."""
        spatial = () if self.kind is None else ("length",) if self.product else ("spatial", "length")
        return (
            "embedding",
            *spatial,
            *(("nugget",) if self.nugget else ()),
            *(() if self.group is None else ("group",)),
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows observed.

    Attributes
    ----------
    M : (n, p)
        Centred embeddings.
    gram : (n, n)
        M M'.
    A : (n, q) or (n,) int or None
        Share of each row's people that lives in each place; or the one place of each row, all different; None when row i
        is place i.
    """

    M: FloatArray
    gram: FloatArray
    A: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, M: FloatArray, A: npt.NDArray[Any] | None = None) -> Rows:
        """Make rows, with their Gram matrix."""
        return cls(M, M @ M.T, A)

    def take(self, rows: IntArray) -> Rows:
        """Keep some rows; they stay tied to the same places."""
        A = np.asarray(rows, dtype=np.intp) if self.A is None else self.A[rows]
        return Rows(self.M[rows], self.gram[np.ix_(rows, rows)], A)


def place_covariance(terms: Terms, h: Hyperparameters) -> FloatArray:
    """Give the prior covariance of what belongs to places, (q, q): field, group effect, nugget and bias."""
    q = terms.n_places
    K = np.full((q, q), BIAS)
    if terms.kind is not None and not terms.product and terms.distance is not None:
        K += h.spatial * matern(terms.distance, h.length, terms.kind)[0]
    if terms.group is not None:
        K += h.group * (terms.group[:, None] == terms.group[None, :])
    if terms.nugget:
        K[np.diag_indices(q)] += h.nugget
    return K


def covariance(rows: Rows, terms: Terms, h: Hyperparameters) -> FloatArray:
    """Give the prior covariance of the rows, (n, n)."""
    spread = rows.gram
    if terms.product and terms.kind is not None and terms.distance is not None:
        spread = spread * _through(rows.A, matern(terms.distance, h.length, terms.kind)[0])
    return h.embedding * spread + _through(rows.A, place_covariance(terms, h))


def slopes(rows: Rows, terms: Terms, h: Hyperparameters, G: FloatArray) -> FloatArray:
    """Give sum(G * dK) for the logarithm of each hyperparameter in ``terms.names``.

    Parameters
    ----------
    G : (n, n)
        Derivative of the evidence by K.
    """
    GA = _back(rows.A, G, terms.n_places)
    parts: dict[str, float] = {}
    field = None if terms.kind is None or terms.distance is None else matern(terms.distance, h.length, terms.kind)
    if terms.product and field is not None:
        GX = _back(rows.A, G * rows.gram, terms.n_places)
        parts["embedding"] = h.embedding * float((GX * field[0]).sum())
        parts["length"] = h.embedding * float((GX * field[1]).sum())
    else:
        parts["embedding"] = h.embedding * float((G * rows.gram).sum())
        if field is not None:
            parts["spatial"] = h.spatial * float((GA * field[0]).sum())
            parts["length"] = h.spatial * float((GA * field[1]).sum())
    parts["nugget"] = h.nugget * float(np.trace(GA))
    if terms.group is not None:
        n_groups = int(terms.group.max()) + 1
        sums = np.zeros((n_groups, len(GA)))
        np.add.at(sums, terms.group, GA)
        parts["group"] = h.group * float(sums[terms.group, np.arange(len(GA))].sum())
    return np.array([parts[name] for name in terms.names])


def _through(A: npt.NDArray[Any] | None, K: FloatArray) -> FloatArray:
    """Carry a covariance of places over to rows."""
    if A is None:
        return K
    return np.asarray(K[np.ix_(A, A)] if A.ndim == 1 else A @ K @ A.T)


def _back(A: npt.NDArray[Any] | None, G: FloatArray, q: int) -> FloatArray:
    """Carry a derivative by a covariance of rows back to places."""
    if A is None:
        return G
    if A.ndim == 2:
        return np.asarray(A.T @ G @ A)
    whole = np.zeros((q, q))
    whole[np.ix_(A, A)] = G
    return whole
