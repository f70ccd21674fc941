"""Learn how far subgroups are off for reasons that totals cannot show, from labels that were hidden and are known.

Effects e of levels are learned from totals; a group's rate follows from them and from the totals of its places. With
G_g = d logit P_g / d e after every place is matched to its total, the error of a group has the variance

    G_g V G_g' + sum_col (distance G_g,col e_col)^2 + tau^2 (G_g R G_g' + .3 |G_g,pairs|^2) + omega^2 L_g:

what the totals leave open, the doubt about how much of an effect is contextual, confounding of effects and of pairs of levels that
all places share, and of one group in one place. Every group of a hidden label, over all places, of crossings of two columns and
within places, has such a variance in closed form.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from crosslevel.data.place_cells import Pairs
from crosslevel.ecological.confounding import Confounding
from crosslevel.ecological.persons.sweeps import probabilities, shifts
from crosslevel.typing import AnyArray, FloatArray, IntArray

__all__ = ["Errors", "Groups", "HiddenLabel", "added", "errors_of", "variance_of"]

LEAST_PEOPLE = 100
"""Groups of places with fewer people have no truth to speak of."""
TINY = 1e-100
LEAST_FACTOR = 1e-4
"""Groups of a smaller factor are nearly everybody where they live: matched totals leave them no error to learn from, only rounding."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of one column in every place, and their truth.

    Attributes
    ----------
    name : str
    names : tuple of str
        Of the groups.
    group : (n_pairs,) int
        Group of every pair.
    weight, yes : (q, n_groups)
        Weight of everybody, and of those who have the label.
    count, effective : (q, n_groups)
        People behind it, and Kish's number of them.
    """

    name: str
    names: tuple[str, ...]
    group: IntArray
    weight: FloatArray
    yes: FloatArray
    count: FloatArray
    effective: FloatArray


@dataclass(frozen=True, eq=False)
class HiddenLabel:
    """A label learned back from totals of one half of the people, with the composition of the other half.

    Attributes
    ----------
    label : str
    pairs : Pairs
        Composition: kinds of people of each place, smoothed.
    codes : (n_cells, n_terms) int32
        Effects of each kind.
    columns : tuple of (name, first, last)
        Effects of each column.
    effects : (p,)
    covariance, prior : (p, p)
        Of the effects given the totals, and their correlation before.
    total : (q,)
        Rate of everybody in each place, which answers are matched to.
    people : (q,)
        Weight of everybody.
    dimensions : tuple of Groups
    crossings : tuple of Groups
        Of two columns at a time.
    share : float
        Of everybody.
    hidden : tuple of str
        Columns that were not among the features: the label's own, those named with it, and those that nearly determine it.
    """

    label: str
    pairs: Pairs
    codes: AnyArray
    columns: tuple[tuple[str, int, int], ...]
    effects: FloatArray
    covariance: FloatArray
    prior: FloatArray
    total: FloatArray
    people: FloatArray
    dimensions: tuple[Groups, ...]
    crossings: tuple[Groups, ...]
    share: float
    hidden: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Errors:
    """Groups of one column: estimate, truth and the parts of the variance of their difference, on the logit scale.

    Attributes
    ----------
    estimate, truth, neighborhood, people : (m,)
        Rates, and weight.
    model : (m,)
        G V G'.
    contextual : (m,)
        sum_col (G_col e_col)^2 of the effects as they are shrunk, to be multiplied with distance^2.
    shared, pairs, own : (m,)
        What tau^2, .3 tau^2 and omega^2 are multiplied with.
    noise : (m,)
        Variance of the truth itself, zero over all places.
    """

    estimate: FloatArray
    truth: FloatArray
    neighborhood: FloatArray
    people: FloatArray
    model: FloatArray
    contextual: FloatArray
    shared: FloatArray
    pairs: FloatArray
    own: FloatArray
    noise: FloatArray

    @property
    def error(self) -> FloatArray:
        """Truth less estimate, logits."""
        return np.asarray(special.logit(self.truth) - special.logit(self.estimate))


class _State:
    """A hidden label at given effects, every place matched to its total."""

    def __init__(self, hidden: HiddenLabel, shrinkage: Mapping[str, float]) -> None:
        h = self.hidden = hidden
        keep = np.ones(len(h.effects))
        for name, first, last in h.columns:
            keep[first:last] = 1.0 - shrinkage.get(name, 0.0)
        self.keep, self.place = keep, h.pairs.place
        eta = (keep * h.effects)[h.codes].sum(axis=1)
        f = shifts(h.pairs, eta[None], h.total, special.logit(h.total)[None])[0]
        self.chance = probabilities(h.pairs, eta, f)
        self.slope = h.pairs.weight * self.chance * (1.0 - self.chance)

    def rates(self, group: IntArray, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give rate, neighborhood and weight of groups over all places."""
        h = self.hidden
        weight = h.people[self.place] * h.pairs.weight
        people = added(group, weight, n)
        near = added(group, weight * h.total[self.place], n)
        return _share(added(group, weight * self.chance, n), people), _share(near, people), people

    @cached_property
    def terms(self) -> list[tuple[IntArray, int]]:
        """Effects of every pair, term by term, with the number of effects of the term: columns first, then pairs of dimensions."""
        h = self.hidden
        main = [(h.codes[:, t][h.pairs.cell].astype(np.intp), len(h.effects)) for t in range(h.codes.shape[1])]
        crossed = [
            (a.group * len(b.names) + b.group, len(a.names) * len(b.names))
            for a, b in itertools.combinations(h.dimensions, 2)
        ]
        return main + crossed

    @cached_property
    def place_slopes(self) -> list[FloatArray]:
        """D f_i / d effects, less its sign, for each term."""
        q = len(self.hidden.total)
        whole = added(self.place, self.slope, q)[:, None]
        return [added(self.place * n + code, self.slope, q * n).reshape(q, n) / whole for code, n in self.terms]

    def gradients(self, row: IntArray, n_rows: int, by_place: bool) -> tuple[FloatArray, FloatArray]:
        """Give sum of slopes over the people of a row, places matched: (n_rows, p) of effects, and squares of those of pairs, (n_rows,)."""
        h, q = self.hidden, len(self.hidden.total)
        slope = self.slope if by_place else h.people[self.place] * self.slope
        main, squares = np.zeros((n_rows, len(h.effects))), np.zeros(n_rows)
        if by_place:
            whole = added(row, slope, n_rows)[:, None]
            home = np.arange(n_rows) // (n_rows // q)
        else:
            whole = added(row * q + self.place, slope, n_rows * q).reshape(n_rows, q)
        for t, ((code, n), J) in enumerate(zip(self.terms, self.place_slopes, strict=True)):
            own = added(row * n + code, slope, n_rows * n).reshape(n_rows, n)
            own -= whole * J[home] if by_place else whole @ J
            if t < h.codes.shape[1]:
                main += own
            else:
                squares += (own**2).sum(axis=1)
        return main, squares


def added(at: AnyArray, values: FloatArray, size: int) -> FloatArray:
    """Sum values by number, (size,)."""
    return np.asarray(np.bincount(at, weights=values, minlength=size), dtype=np.float64)


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.asarray(np.clip(part / np.maximum(whole, 1e-300), 1e-9, 1.0 - 1e-9))


def errors_of(hidden: HiddenLabel, shrinkage: Mapping[str, float]) -> dict[str, dict[str, Errors]]:
    """Compare every group with the truth: over all places, crossings of two columns, and within places.

    Parameters
    ----------
    hidden : HiddenLabel
    shrinkage : mapping of column to float
        How far effects of a column are shrunk toward zero.

    Returns
    -------
    dict
        "nation", "crossings" and "places": errors by column (or pair of columns).
    """
    state = _State(hidden, shrinkage)
    return {
        "nation": {d.name: _over_places(state, d) for d in hidden.dimensions},
        "crossings": {d.name: _over_places(state, d) for d in hidden.crossings},
        "places": {d.name: _within_places(state, d) for d in hidden.dimensions},
    }


def _over_places(state: _State, d: Groups) -> Errors:
    n, h = len(d.names), state.hidden
    P, near, people = state.rates(d.group, n)
    G, squares = state.gradients(d.group, n, by_place=False)
    scale = np.maximum(people * P * (1.0 - P), TINY)
    local = _own_factors(state, d)
    people_here = added(state.place * n + d.group, h.people[state.place] * h.pairs.weight, len(h.total) * n)
    slope = added(state.place * n + d.group, h.people[state.place] * state.slope, len(h.total) * n)
    lived = people_here > 0
    own = added(np.arange(len(slope))[lived] % n, slope[lived] ** 2 * local[lived], n) / scale**2
    weight = d.weight.sum(axis=0)
    T = (d.yes.sum(axis=0) + 0.5) / (weight + 1.0)
    parts = _parts(state, G / scale[:, None], squares / scale**2)
    kept = (weight > 0) & (people > 0) & (parts[2] >= LEAST_FACTOR)
    return Errors(*(v[kept] for v in (P, np.clip(T, 1e-9, 1 - 1e-9), near, weight, *parts, own, np.zeros(n))))


def _within_places(state: _State, d: Groups) -> Errors:
    h, n = state.hidden, len(d.names)
    size = len(h.total) * n
    row = state.place * n + d.group
    weight = added(row, h.pairs.weight, size)
    P = _share(added(row, h.pairs.weight * state.chance, size), weight)
    kept = np.flatnonzero((d.count.ravel() >= LEAST_PEOPLE) & (weight > 0))
    G, squares = state.gradients(row, size, by_place=True)
    scale = np.maximum(weight * P * (1.0 - P), TINY)[kept]
    parts = _parts(state, G[kept] / scale[:, None], squares[kept] / scale**2)
    effective = d.effective.ravel()[kept]
    T = np.clip((_share(d.yes, d.weight).ravel()[kept] * effective + 0.5) / (effective + 1.0), 1e-9, 1 - 1e-9)
    p = P[kept]
    share = d.weight.ravel()[kept] / h.people[kept // n]
    noise = np.clip(1.0 - share, 0.0, 1.0) / np.maximum(effective * p * (1.0 - p), 1e-9)
    found = (p, T, h.total[kept // n], d.weight.ravel()[kept], *parts, _own_factors(state, d)[kept], noise)
    telling = parts[2] >= LEAST_FACTOR
    return Errors(*(v[telling] for v in found))


def _parts(state: _State, G: FloatArray, squares: FloatArray) -> tuple[FloatArray, ...]:
    """Give G V G', sum of squares by column, G R G' and those of pairs."""
    h = state.hidden
    shrunk = G * state.keep
    model = np.einsum("ij,ij->i", shrunk @ h.covariance, shrunk)
    contextual = np.zeros(len(G))
    for _, first, last in h.columns:
        contextual += (shrunk[:, first:last] @ h.effects[first:last]) ** 2
    return model, contextual, np.einsum("ij,ij->i", G @ h.prior, G), squares


def _own_factors(state: _State, d: Groups) -> FloatArray:
    """Say how confounding of each group of each place on its own shows in its logit, (q n_groups,)."""
    q, n = len(state.hidden.total), len(d.names)
    slope = added(state.place * n + d.group, state.slope, q * n).reshape(q, n)
    w = slope / np.maximum(slope.sum(axis=1, keepdims=True), 1e-300)
    squares = (w**2).sum(axis=1, keepdims=True) - w**2
    return np.asarray((1.0 - w) ** 2 + squares).ravel()


def variance_of(errors: Errors, constants: Confounding) -> FloatArray:
    """Give the variance of the error of each group that the constants allow for."""
    e, c = errors, constants
    shared = c.tau**2 * (e.shared + c.pairs * e.pairs)
    return np.asarray(e.model + c.distance**2 * e.contextual + shared + c.omega**2 * e.own + e.noise)
