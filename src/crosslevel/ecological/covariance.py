"""The prior over places, shared by both models: who lives there, where it is, and what neither explains.

f_r = bias + m_r . w + s_i + g_i + e_i of a place i or a subgroup r of it, with w ~ N(0, effect_variance I), s a Matern field over the
places, g an effect shared by a group of places (a state), e an effect of each place alone (the nugget).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from crosslevel.data import checks
from crosslevel.data.checks import read_list
from crosslevel.errors import InputError, listed
from crosslevel.numerics.kernels import distances, matern
from crosslevel.typing import AnyArray, FloatArray, IntArray

BIAS = 10.0
"""Prior variance of the overall level, in squared logits: as good as flat."""
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
        return (
            "effect_variance",
            *(() if self.kind is None else ("spatial", "length")),
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
    ratios = getattr(given, "nugget_ratios", ())
    if len(ratios) != len(terms.nugget_levels):
        raise InputError(
            f"hyperparameters have the nuggets of {len(ratios)} levels, and nugget_by has {len(terms.nugget_levels)}; pass the "
            "hyperparameters_ of a fit to such places, or leave one of them out."
        )
    values = {n: getattr(given, n) for n in terms.names} if isinstance(given, Hyperparameters) else given
    if not isinstance(values, Mapping) or set(values) != set(terms.names):
        raise InputError(
            f"hyperparameters={given!r} are not those of the prior; give a number for each of {listed(terms.names)} and for no other, or "
            "leave them out to learn them."
        )
    read = {name: checks.check_between(v, f"hyperparameters: {name}", 0.0, 1e100) for name, v in values.items()}
    if "length" in read:
        checks.check_positive(read["length"], "hyperparameters: length")
    return Hyperparameters(**read, nugget_ratios=ratios)


def place_covariance(terms: Terms, h: Hyperparameters) -> FloatArray:
    """Give the prior covariance of what belongs to places, (q, q): field, group effect, nugget and bias."""
    q = terms.n_places
    K = np.full((q, q), BIAS)
    if terms.kind is not None and terms.distance is not None:
        K += h.spatial * matern(terms.distance, h.length, terms.kind)[0]
    for name, group in terms.groupings:
        K += getattr(h, name) * (group[:, None] == group[None, :])
    if terms.nugget:
        K[np.diag_indices(q)] += h.nuggets(terms.nugget_level)
    return K


@dataclass(frozen=True)
class Moments:
    """Mean and variance of latent values, (m,) each."""

    mean: FloatArray
    variance: FloatArray


def square_root(K: FloatArray) -> FloatArray:
    """Give a square root of a covariance that may be singular (places that coincide)."""
    try:
        return np.asarray(linalg.cholesky(K, lower=True, check_finite=False))
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(K, check_finite=False)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
