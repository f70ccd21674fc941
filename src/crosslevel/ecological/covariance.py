"""The prior over places, shared by both models: who lives there, where it is, and what neither explains.

f_r = bias + m_r . w + sum_i A_ri (s_i + g_i + e_i), with w ~ N(0, effect_variance I), s a Matern field over the places, g an effect
shared by a group of places (a state), e an effect of each place alone (the nugget). A row r is a place (A_ri = 1 for itself), a
subgroup of a place, or people of several places (A_ri = the share that lives in place i).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from scipy import linalg

from crosslevel.data.checks import read_list
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.numerics.kernels import distances, matern
from crosslevel.numerics.laplace import Mode
from crosslevel.typing import AnyArray, FloatArray, Int64Array, IntArray

BIAS = 10.0
"""Prior variance of the overall level, in squared logits: as good as flat."""
MOST_DISTANCES = 20_000
"""Places between all of which distances are held: 3 GB."""
MOST_COMPARED = 3_000
"""Places whose distances tell the usual one."""
RATIO_SD = 0.7
"""Prior standard deviation of the logarithm of a level's nugget about that of all: a factor of two."""
UNSEEN_RATIO = float(np.exp(0.5 * RATIO_SD**2))
"""Mean of that prior."""


@dataclass(frozen=True)
class Hyperparameters:
    """Scales of the prior, in squared logits; the length in the unit of the distances.

    Attributes
    ----------
    effect_variance : float
        Of the coefficients: effects of people's levels, or weights of centered features.
    spatial : float
        Variance of the Matern field; 0 when there is none.
    length : float
        Length scale of the Matern field.
    nugget : float
        Variance of the effect of each place alone; 0 when refused.
    group, second_group : float
        Variance of the effect shared by a group of places, and by those of a second grouping; 0 when there is none.
    nugget_ratios : tuple of float
        Nugget of the places of each level of ``nugget_by``, in units of ``nugget``; empty where all places have the same.
    """

    effect_variance: float
    spatial: float = 0.0
    length: float = 1.0
    nugget: float = 0.0
    group: float = 0.0
    second_group: float = 0.0
    nugget_ratios: tuple[float, ...] = ()

    def nuggets(self, level: IntArray | None) -> FloatArray:
        """Give the nugget of places of these levels, (q,) or one for all; a level that was never seen has the mean of the prior."""
        if level is None or not self.nugget_ratios:
            return np.asarray(self.nugget)
        return self.nugget * np.append(self.nugget_ratios, UNSEEN_RATIO)[level]


@dataclass(frozen=True, eq=False)
class Terms:
    """Which terms the prior has, over q places.

    Attributes
    ----------
    n_places : int
        q.
    kind : str or None
        The Matern kernel; None without a spatial term.
    coords : (q, 2) or None
    metric : {"sphere", "plane"}
    nugget : bool
    group, second_group : (q,) int or None
        Group of each place, in one grouping and in another.
    product : bool
        Whether the coefficients w vary over space (K = effect_variance <m, m'> x Matern) in place of an added field.
    inducing_points : int or None
        Points that carry the field, where it is approximated whatever the number of places.
    nugget_level : (q,) int or None
        Level of each place among ``nugget_levels``, where these have nuggets of their own; their number for another one.
    nugget_levels : tuple of str
    """

    n_places: int
    kind: str | None
    coords: FloatArray | None
    metric: str
    nugget: bool
    group: IntArray | None
    product: bool = False
    second_group: IntArray | None = None
    inducing_points: int | None = None
    nugget_level: IntArray | None = None
    nugget_levels: tuple[str, ...] = ()

    @cached_property
    def distance(self) -> FloatArray | None:
        """Distances between the places, (q, q); None without a field."""
        if self.kind is None or self.coords is None:
            return None
        return distances(self.coords, self.coords, self.metric)

    @cached_property
    def apart(self) -> FloatArray:
        """Distances between places that are not at the same point; of many places, between some."""
        few = (
            self
            if self.n_places <= MOST_COMPARED
            else self.take(np.linspace(0, self.n_places - 1, MOST_COMPARED).astype(np.intp))
        )
        found = np.ones(0) if few.distance is None else few.distance[few.distance > 0]
        return found if len(found) else np.ones(1)

    def take(self, places: IntArray) -> Terms:
        """Keep some places."""

        def some(values: AnyArray | None) -> AnyArray | None:
            return None if values is None else np.unique(values[places], return_inverse=True)[1].astype(np.intp)

        coords = None if self.coords is None else self.coords[places]
        level = None if self.nugget_level is None else self.nugget_level[places]
        groups: dict[str, Any] = {"group": some(self.group), "second_group": some(self.second_group)}
        return replace(self, n_places=len(places), coords=coords, nugget_level=level, **groups)

    @property
    def names(self) -> tuple[str, ...]:
        """Hyperparameters that are learned, in the order of the gradient."""
        spatial = () if self.kind is None else ("length",) if self.product else ("spatial", "length")
        return (
            "effect_variance",
            *spatial,
            *(("nugget",) if self.nugget else ()),
            *(() if self.group is None else ("group",)),
            *(() if self.second_group is None else ("second_group",)),
        )

    @property
    def groupings(self) -> list[tuple[str, IntArray]]:
        """Names of the variances of groups, and the groups of places."""
        both = {"group": self.group, "second_group": self.second_group}
        return [(name, group) for name, group in both.items() if group is not None]

    def unpack(self, logs: FloatArray) -> Hyperparameters:
        """Give hyperparameters from the logarithms of ``names``, then of the ratios of nuggets where they are given."""
        values, n = np.exp(logs).tolist(), len(self.names)
        return Hyperparameters(**dict(zip(self.names, values[:n], strict=True)), nugget_ratios=tuple(values[n:]))

    def pack(self, h: Hyperparameters) -> FloatArray:
        """Give the logarithms of ``names``, then of the ratios of nuggets."""
        ratios = h.nugget_ratios or (1.0,) * len(self.nugget_levels)
        return np.log([max(v, 1e-300) for v in (*(getattr(h, name) for name in self.names), *ratios)])

    @property
    def typical_distance(self) -> float:
        """Median distance between places that are apart; 1 without any."""
        return float(np.median(self.apart))


def check_degrees(coords: FloatArray, keys: Sequence[object]) -> None:
    """Refuse coordinates, (q, 2), that are no longitude and latitude in degrees."""
    bad = (np.abs(coords[:, 0]) > 360) | (np.abs(coords[:, 1]) > 90)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"coords of {keys[i]!r} are {coords[i].tolist()}, which is no longitude and latitude in degrees; correct them (in "
            "this order), or pass metric='plane' for other coordinates."
        )


def read_hyperparameters(given: Any, terms: Terms, questions: Sequence[str]) -> list[Hyperparameters] | None:
    """Read hyperparameters that are not to be learned: one set for all questions, or one for each."""
    if given is None:
        return None
    sets = [given] if isinstance(given, Mapping) or is_dataclass(given) else read_list(given, "hyperparameters")
    if len(sets) not in (1, len(questions)):
        raise InputError(
            f"hyperparameters are {len(sets)} sets for {len(questions)} question(s) ({listed(questions)}); pass one for all, or one "
            "for each."
        )
    read = [_read_set(one, terms) for one in sets]
    return read if len(read) == len(questions) else read * len(questions)


def _read_set(given: Any, terms: Terms) -> Hyperparameters:
    known = [f.name for f in fields(Hyperparameters) if f.name != "nugget_ratios"]
    ratios = getattr(given, "nugget_ratios", ())
    if len(ratios) != len(terms.nugget_levels):
        raise InputError(
            f"hyperparameters have the nuggets of {len(ratios)} levels, and nugget_by has {len(terms.nugget_levels)}; pass the "
            "hyperparameters_ of a fit to such places, or leave one of them out."
        )
    values = {n: getattr(given, n) for n in terms.names} if isinstance(given, Hyperparameters) else given
    if not isinstance(values, Mapping):
        raise InputError(
            f"hyperparameters={given!r} is no mapping of a name to a number; pass {{'effect_variance': 1.0, ...}}."
        )
    for name, value in values.items():
        if name not in known:
            raise unknown_name("hyperparameters", name, known, "hyperparameter")
        bad = isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)) or value < 0
        if bad or (name == "length" and value == 0):
            raise InputError(
                f"hyperparameters: {name}={value!r} is not a finite number >= 0 (a length must be positive)."
            )
        if name not in terms.names:
            raise InputError(
                f"hyperparameters: {name}={value!r} has no effect, since the prior has only {listed(terms.names)}; leave it out."
            )
    needed = [name for name in terms.names if name not in values]
    if needed:
        raise InputError(
            f"hyperparameters lack {listed(needed)}; give all of {listed(terms.names)}, or none to learn them."
        )
    return Hyperparameters(**{name: float(value) for name, value in values.items()}, nugget_ratios=ratios)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows observed.

    Attributes
    ----------
    M : (n, p)
        What multiplies the coefficients: centered embeddings, or slopes of places.
    gram : (n, n)
        M M'.
    A : (n, q) or (n,) int or None
        Share of each row's people that lives in each place; or the one place of each row, all different; None when row i
        is place i.
    """

    M: FloatArray
    gram: FloatArray
    A: AnyArray | None = None

    @classmethod
    def of(cls, M: FloatArray, A: AnyArray | None = None) -> Rows:
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
    for name, group in terms.groupings:
        K += getattr(h, name) * (group[:, None] == group[None, :])
    if terms.nugget:
        K[np.diag_indices(q)] += h.nuggets(terms.nugget_level)
    return K


def covariance(rows: Rows, terms: Terms, h: Hyperparameters) -> FloatArray:
    """Give the prior covariance of the rows, (n, n)."""
    spread = rows.gram
    if terms.product and terms.kind is not None and terms.distance is not None:
        spread = spread * _through(rows.A, matern(terms.distance, h.length, terms.kind)[0])
    return h.effect_variance * spread + _through(rows.A, place_covariance(terms, h))


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
        parts["effect_variance"] = h.effect_variance * float((GX * field[0]).sum())
        parts["length"] = h.effect_variance * float((GX * field[1]).sum())
    else:
        parts["effect_variance"] = h.effect_variance * float((G * rows.gram).sum())
        if field is not None:
            parts["spatial"] = h.spatial * float((GA * field[0]).sum())
            parts["length"] = h.spatial * float((GA * field[1]).sum())
    parts["nugget"] = h.nugget * float(np.trace(GA))
    for name, group in terms.groupings:
        sums = np.zeros((int(group.max()) + 1, len(GA)))
        np.add.at(sums, group, GA)
        parts[name] = getattr(h, name) * float(sums[group, np.arange(len(GA))].sum())
    return np.array([parts[name] for name in terms.names])


def _through(A: AnyArray | None, K: FloatArray) -> FloatArray:
    """Carry a covariance of places over to rows."""
    if A is None:
        return K
    return np.asarray(K[np.ix_(A, A)] if A.ndim == 1 else A @ K @ A.T)


def _back(A: AnyArray | None, G: FloatArray, q: int) -> FloatArray:
    """Carry a derivative by a covariance of rows back to places."""
    if A is None:
        return G
    if A.ndim == 2:
        return np.asarray(A.T @ G @ A)
    whole = np.zeros((q, q))
    whole[np.ix_(A, A)] = G
    return whole


@dataclass(frozen=True)
class Moments:
    """Mean and variance of latent values, (m,) each."""

    mean: FloatArray
    variance: FloatArray


def moments(rows: Rows, terms: Terms, h: Hyperparameters, mode: Mode, M: FloatArray, place: IntArray) -> Moments:
    """Give mean and variance of the latent value of bags, in closed form.

    Parameters
    ----------
    M : (m, p)
        As in the rows.
    place : (m,) int
        Place of each bag among the q places; it may have been observed or not.
    """
    Ku = place_covariance(terms, h)
    C = M @ rows.M.T
    own = np.einsum("ij,ij->i", M, M)
    if terms.product and terms.kind is not None and terms.distance is not None:
        C *= cross_covariance(rows.A, matern(terms.distance, h.length, terms.kind)[0], place)
    C *= h.effect_variance
    C += cross_covariance(rows.A, Ku, place)
    V = linalg.solve_triangular(mode.L, np.sqrt(mode.curvature)[:, None] * C.T, lower=True, check_finite=False)
    prior = h.effect_variance * own + np.diag(Ku)[place]
    return Moments(C @ mode.alpha, np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0))


def cross_covariance(A: AnyArray | None, K: FloatArray, place: IntArray) -> FloatArray:
    """Give the covariance of bags of ``place`` with the rows, (m, n), from that of places."""
    if A is None:
        return K[place]
    return np.asarray(K[np.ix_(place, A)] if A.ndim == 1 else K[place] @ A.T)


def square_root(K: FloatArray) -> FloatArray:
    """Give a square root of a covariance that may be singular (places that coincide)."""
    try:
        return np.asarray(linalg.cholesky(K, lower=True, check_finite=False))
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(K, check_finite=False)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def divide_draws(weights: FloatArray, n: int) -> Int64Array:
    """Divide n draws among points by their weights, n in all.

    Examples
    --------
    >>> divide_draws(np.array([0.5, 0.2, 0.3]), 7).tolist()
    [4, 1, 2]
    """
    ends = np.floor(np.cumsum(weights) * n + 0.5).astype(np.int64)
    ends[-1] = n
    return np.diff(ends, prepend=0)
