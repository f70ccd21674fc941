"""Learn how far subgroups are off for reasons that totals cannot show, from labels that were hidden and are known.

Effects e of levels are learned from totals; a group's rate follows from them and from the totals of its places. With
G_g = d logit P_g / d e after every place is matched to its total, the error of a group has the variance

    G_g V G_g' + sum_col (kd G_g,col e_col)^2 + tau^2 (G_g R G_g' + .3 |G_g,pairs|^2) + omega^2 L_g:

what the totals leave open, the doubt about how much of an effect is contextual, confounding of effects and of pairs of levels that
all places share, and of one group in one place. Every group of a hidden label, over all places, of crossings of two columns and
within places, has such a variance in closed form. tau is the one whose intervals have the least mean score over labels, which a label
that is far off cannot govern; omega is the one at which squared errors within places are as large as they should be.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special, stats

from crosslevel.data.place_cells import Pairs
from crosslevel.ecological.confounding import Confounding, LearnedConfounding
from crosslevel.ecological.persons.sweeps import probabilities, shifts
from crosslevel.numerics.excess_variance import paule_mandel
from crosslevel.results.scores import interval_score
from crosslevel.typing import AnyArray, FloatArray, IntArray

__all__ = [
    "Errors",
    "Groups",
    "Halves",
    "HiddenLabel",
    "Learner",
    "errors_of",
    "learn_confounding",
    "quantile",
    "variance_of",
]

FEW = 3
"""Fewer hidden labels than this tell less than the shipped constants."""
ENOUGH, ENOUGH_FAMILIES = 8, 4
"""Labels and families from which on the columns that are shrunk are chosen."""
MANY_FAMILIES = 8
"""Families from which on the normal quantile serves: each is one draw of the confounding."""
TAUS = np.arange(0.0, 1.501, 0.01)
"""Values of tau that are tried."""
SCORED = 0.95
"""Level of the intervals whose score chooses tau."""

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
        sum_col (G_col e_col)^2, to be multiplied with kd^2.
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
        people = _added(group, weight, n)
        near = _added(group, weight * h.total[self.place], n)
        return _share(_added(group, weight * self.chance, n), people), _share(near, people), people

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
        whole = _added(self.place, self.slope, q)[:, None]
        return [_added(self.place * n + code, self.slope, q * n).reshape(q, n) / whole for code, n in self.terms]

    def gradients(self, row: IntArray, n_rows: int, by_place: bool) -> tuple[FloatArray, FloatArray]:
        """Give sum of slopes over the people of a row, places matched: (n_rows, p) of effects, and squares of those of pairs, (n_rows,)."""
        h, q = self.hidden, len(self.hidden.total)
        slope = self.slope if by_place else h.people[self.place] * self.slope
        main, squares = np.zeros((n_rows, len(h.effects))), np.zeros(n_rows)
        if by_place:
            whole = _added(row, slope, n_rows)[:, None]
            home = np.arange(n_rows) // (n_rows // q)
        else:
            whole = _added(row * q + self.place, slope, n_rows * q).reshape(n_rows, q)
        for t, ((code, n), J) in enumerate(zip(self.terms, self.place_slopes, strict=True)):
            own = _added(row * n + code, slope, n_rows * n).reshape(n_rows, n)
            own -= whole * J[home] if by_place else whole @ J
            if t < h.codes.shape[1]:
                main += own
            else:
                squares += (own**2).sum(axis=1)
        return main, squares


def _added(at: AnyArray, values: FloatArray, size: int) -> FloatArray:
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
    people_here = _added(state.place * n + d.group, h.people[state.place] * h.pairs.weight, len(h.total) * n)
    slope = _added(state.place * n + d.group, h.people[state.place] * state.slope, len(h.total) * n)
    lived = people_here > 0
    own = _added(np.arange(len(slope))[lived] % n, slope[lived] ** 2 * local[lived], n) / scale**2
    weight = d.weight.sum(axis=0)
    T = (d.yes.sum(axis=0) + 0.5) / (weight + 1.0)
    parts = _parts(state, G / scale[:, None], squares / scale**2)
    kept = (weight > 0) & (people > 0) & (parts[2] >= LEAST_FACTOR)
    return Errors(*(v[kept] for v in (P, np.clip(T, 1e-9, 1 - 1e-9), near, weight, *parts, own, np.zeros(n))))


def _within_places(state: _State, d: Groups) -> Errors:
    h, n = state.hidden, len(d.names)
    size = len(h.total) * n
    row = state.place * n + d.group
    weight = _added(row, h.pairs.weight, size)
    P = _share(_added(row, h.pairs.weight * state.chance, size), weight)
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
        contextual += (G[:, first:last] @ h.effects[first:last]) ** 2
    return model, contextual, np.einsum("ij,ij->i", G @ h.prior, G), squares


def _own_factors(state: _State, d: Groups) -> FloatArray:
    """Say how confounding of each group of each place on its own shows in its logit, (q n_groups,)."""
    q, n = len(state.hidden.total), len(d.names)
    slope = _added(state.place * n + d.group, state.slope, q * n).reshape(q, n)
    w = slope / np.maximum(slope.sum(axis=1, keepdims=True), 1e-300)
    squares = (w**2).sum(axis=1, keepdims=True) - w**2
    return np.asarray((1.0 - w) ** 2 + squares).ravel()


def variance_of(errors: Errors, constants: Confounding) -> FloatArray:
    """Give the variance of the error of each group that the constants allow for."""
    e, c = errors, constants
    shared = c.tau**2 * (e.shared + c.pairs * e.pairs)
    return np.asarray(e.model + c.distance**2 * e.contextual + shared + c.omega**2 * e.own + e.noise)


Halves = tuple[HiddenLabel, HiddenLabel]


class Learner:
    """Learn constants from some hidden labels, and score others with them.

    Parameters
    ----------
    labels : sequence of pairs of HiddenLabel
        The halves of each label.
    families : mapping of label to family
        Labels of one family are left out together.
    base : Confounding
        Constants that are not learned.
    shrinkage : mapping of column to float
        How far effects are shrunk where labels are too few to choose it.
    """

    def __init__(
        self,
        labels: Sequence[Halves],
        families: Mapping[str, str],
        base: Confounding,
        shrinkage: Mapping[str, float],
    ) -> None:
        self.labels = {halves[0].label: halves for halves in labels}
        self.families, self.base, self.shrinkage = dict(families), base, dict(shrinkage)
        self._errors: dict[tuple[str, tuple[tuple[str, float], ...]], list[dict[str, dict[str, Errors]]]] = {}
        self._by_tau: dict[tuple[str, tuple[tuple[str, float], ...]], FloatArray | None] = {}
        self._misses: dict[tuple[str, tuple[tuple[str, float], ...]], float] = {}

    def errors(self, label: str, shrinkage: Mapping[str, float]) -> list[dict[str, dict[str, Errors]]]:
        """Give the errors of both halves of a label."""
        key = label, tuple(sorted(shrinkage.items()))
        if key not in self._errors:
            self._errors[key] = [errors_of(half, shrinkage) for half in self.labels[label]]
        return self._errors[key]

    def miss(self, label: str, shrinkage: Mapping[str, float]) -> float:
        """Give the mean distance of a label's groups over all places from the truth."""
        key = label, tuple(sorted(shrinkage.items()))
        if key not in self._misses:
            self._misses[key] = float(np.mean([_mean_miss(half, shrinkage) for half in self.labels[label]]))
        return self._misses[key]

    def others(self, label: str) -> list[str]:
        """Name the labels of other families."""
        return [name for name in self.labels if self.families[name] != self.families[label]]

    def learn(self, names: Sequence[str]) -> tuple[Confounding, dict[str, float]]:
        """Learn tau, omega and which columns are shrunk; the base's where labels are too few."""
        n_families = len({self.families[name] for name in names})
        if len(names) < FEW:
            return self.base, self.shrinkage
        shrinkage = self.shrinkage
        if len(names) >= ENOUGH and n_families >= ENOUGH_FAMILIES:
            shrinkage = self._choose(names)
        found = [half for name in names for half in self.errors(name, shrinkage)]
        tau, omega = self._least_score(names, shrinkage), self.base.omega
        places = [e for half in found for e in half["places"].values() if len(e.truth)]
        if places:
            known = replace(self.base, tau=tau, omega=0.0)
            omega = float(
                np.sqrt(
                    paule_mandel(
                        _stacked([e.error for e in places]),
                        _stacked([variance_of(e, known) for e in places]),
                        _stacked([e.own for e in places]),
                        _stacked([e.people / e.people.sum() for e in places]),
                    )
                )
            )
        degrees = None if n_families >= MANY_FAMILIES else float(n_families + 1)
        said = f"{len(names)} columns of {n_families} families of the people given, halves of clusters kept apart"
        learned = replace(self.base, tau=tau, omega=omega, n_labels=len(names), degrees=degrees, learned_on=said)
        return learned, shrinkage

    def _least_score(self, names: Sequence[str], shrinkage: Mapping[str, float]) -> float:
        """Find the tau of the least mean interval score: labels far off count by how far, not by its square."""
        scores = [s for s in (self._scores_by_tau(name, shrinkage) for name in names) if s is not None]
        return float(TAUS[int(np.argmin(np.mean(scores, axis=0)))]) if scores else self.base.tau

    def _scores_by_tau(self, label: str, shrinkage: Mapping[str, float]) -> FloatArray | None:
        """Give the mean score of a label's intervals over all places for every tau; None where no group has an error."""
        key = label, tuple(sorted(shrinkage.items()))
        if key not in self._by_tau:
            nation = [e for half in self.errors(label, shrinkage) for e in half["nation"].values() if len(e.truth)]
            self._by_tau[key] = None
            if nation:
                plain = replace(self.base, tau=0.0)
                fixed, shared = (
                    _stacked([variance_of(e, plain) for e in nation]),
                    _stacked([e.shared + self.base.pairs * e.pairs for e in nation]),
                )
                P, T = (_stacked([getattr(e, n) for e in nation]) for n in ("estimate", "truth"))
                spread = float(stats.norm.ppf(0.5 * (1.0 + SCORED))) * np.sqrt(fixed + TAUS[:, None] ** 2 * shared)
                low, high = special.expit(special.logit(P) - spread), special.expit(special.logit(P) + spread)
                missed = np.maximum(low - T, 0.0) + np.maximum(T - high, 0.0)
                self._by_tau[key] = np.mean(high - low + 2.0 / (1.0 - SCORED) * missed, axis=1)
        return self._by_tau[key]

    def _choose(self, names: Sequence[str]) -> dict[str, float]:
        """Choose for every column whether its effects are shrunk: what is nearer to the truth over labels."""
        columns = dict.fromkeys(column for name in names for column, _, _ in self.labels[name][0].columns)
        chosen = dict(self.shrinkage)
        for column in columns:
            with_it = [name for name in names if any(c == column for c, _, _ in self.labels[name][0].columns)]
            options = [{**self.shrinkage, column: amount} for amount in (0.0, self.base.shrinkage)]
            losses = [np.mean([self.miss(name, option) for name in with_it]) for option in options]
            chosen[column] = options[int(np.argmin(losses))][column]
        return chosen

    def scores(
        self, label: str, constants: Confounding, shrinkage: Mapping[str, float], level: float
    ) -> dict[str, Any]:
        """Score the intervals of a label's groups: rates, so that points of a percentage are hundredths."""
        halves = self.errors(label, shrinkage)
        z = quantile(constants, level)
        nation, crossed, places = (
            [e for half in halves for e in half[part].values()] for part in ("nation", "crossings", "places")
        )
        said = {"share": self.labels[label][0].share, **_scores(nation, constants, z, level)}
        said["groups"] = sum(len(e.truth) for e in halves[0]["nation"].values())
        crossings = _scores(crossed, constants, z, level)
        said |= {f"crossing_{n}": crossings[n] for n in ("error", "coverage", "width", "score")}
        within = _scores(places, constants, z, level, by_people=True)
        names = ("rmse", "neighborhood_rmse", "coverage", "width", "score")
        return said | {f"place_{n}": within[n] for n in names}


def _stacked(values: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate(values) if values else np.zeros(0)


def _mean_miss(half: HiddenLabel, shrinkage: Mapping[str, float]) -> float:
    state = _State(half, shrinkage)
    missed = []
    for d in half.dimensions:
        weight = d.weight.sum(axis=0)
        P, _, people = state.rates(d.group, len(d.names))
        there = (weight > 0) & (people > 0)
        missed.append(np.abs(P - d.yes.sum(axis=0) / np.maximum(weight, 1e-300))[there])
    return float(np.mean(np.concatenate(missed)))


def quantile(constants: Confounding, level: float) -> float:
    """Give the quantile that intervals of a level take: Student's where few families were hidden."""
    tail = 0.5 * (1.0 + level)
    return float(stats.norm.ppf(tail) if constants.degrees is None else stats.t.ppf(tail, constants.degrees))


def _scores(
    found: Sequence[Errors], constants: Confounding, z: float, level: float, by_people: bool = False
) -> dict[str, float]:
    """Score intervals; every group counts alike, or by its people."""
    names = ("error", "neighborhood_error", "rmse", "neighborhood_rmse", "coverage", "width", "score")
    if not any(len(e.truth) for e in found):
        return dict.fromkeys(names, float("nan"))
    P, T, near, people = (
        _stacked([getattr(e, n) for e in found]) for n in ("estimate", "truth", "neighborhood", "people")
    )
    spread = z * np.sqrt(_stacked([variance_of(e, constants) for e in found]))
    low, high = special.expit(special.logit(P) - spread), special.expit(special.logit(P) + spread)
    w = people / people.sum() if by_people else np.full(len(P), 1.0 / len(P))
    values = (
        w @ np.abs(P - T),
        w @ np.abs(near - T),
        np.sqrt(w @ (P - T) ** 2),
        np.sqrt(w @ (near - T) ** 2),
        w @ ((low <= T) & (high >= T)),
        w @ (high - low),
        interval_score(low, high, T, level, w),
    )
    return dict(zip(names, map(float, values), strict=True))


def learn_confounding(learner: Learner, level: float = 0.95) -> LearnedConfounding:
    """Learn from all labels, and check it leaving out one family at a time.

    Parameters
    ----------
    learner : Learner
    level : float
        Level of the intervals that are checked.
    """
    rows = []
    for label in learner.labels:
        constants, shrinkage = learner.learn(learner.others(label))
        rows.append(
            {"label": label, "family": learner.families[label]} | learner.scores(label, constants, shrinkage, level)
        )
    table = pa.Table.from_pylist(rows)
    constants, shrinkage = learner.learn(list(learner.labels))
    means = [_mean([row[name] for row in rows]) for name in ("coverage", "place_coverage")]
    return LearnedConfounding(constants, shrinkage, tuple(learner.labels), *means, table, level)


def _mean(values: Sequence[float]) -> float:
    """Average what there is, NaN where there is nothing."""
    there = [v for v in values if np.isfinite(v)]
    return float(np.mean(there)) if there else float("nan")
