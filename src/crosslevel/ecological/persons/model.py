"""The model of persons on arrays: effects of levels, e = B beta with beta ~ N(0, effect_variance I), who lives where, and the questions.

Groups of people, every place matched to its total: with P_ig the rate of group g in place i and N_i the people of i,

    P_g = sum_i N_i s_ig P_ig / N_g,    d logit P_g / d theta = sum_i N_i s_ig P_ig (1 - P_ig) / (N_g P_g (1 - P_g)) d logit P_ig / d theta

Groups are cut by columns that may be no features; which features tell them is said here too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse, special

from crosslevel.data.checks import read_list
from crosslevel.data.columns import Category
from crosslevel.data.place_cells import Bins, Pairs, PlaceCells
from crosslevel.data.place_columns import Covariates
from crosslevel.data.places import Totals
from crosslevel.ecological.covariance import Terms
from crosslevel.ecological.persons.sweeps import part_slopes, place_effects
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.aggregate import AggregateFit
    from crosslevel.ecological.persons.composition import Measured
    from crosslevel.ecological.persons.survey_fit import SurveyFit

INTERACTION = 0.25
"""Prior variance of an effect of two columns together, in units of that of one column."""
LARGEST = 3_000
"""Most effects: their curvature is a matrix of this size, summed over all people at every step."""
CLIPPED, TINY = 1e-9, 1e-100
TOLD = 0.1
"""A feature that tells less than this share of the variance of levels does not count as telling them."""
SAME_SHARE = 1e-6
"""Difference of two shares of the same people that is rounding, of weights in single precision too."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of levels and of pairs of levels.

    Attributes
    ----------
    first : (n_terms,) int32
        Number of the first effect of each term.
    pairs : tuple of (int, int)
        Columns of the terms that are interactions, after the columns themselves.
    sizes : tuple of int
        Levels of each column.
    B : (n_effects, n_effects)
        A square root of the effects' prior correlation.
    """

    first: AnyArray
    pairs: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]
    B: FloatArray

    @property
    def widths(self) -> list[int]:
        """Effects of each term."""
        return [*self.sizes, *(self.sizes[a] * self.sizes[b] for a, b in self.pairs)]

    @property
    def columns(self) -> list[tuple[int, int]]:
        """First effect of each column, and the one behind its last."""
        return [(int(a), int(a) + size) for a, size in zip(self.first, self.sizes, strict=False)]

    def correlation(self, column: int) -> FloatArray:
        """Give the prior correlation of the effects of a column, (n_levels, n_levels)."""
        a, b = self.columns[column]
        C = self.B[a:b] @ self.B[a:b].T
        size = np.sqrt(np.diag(C))
        return np.asarray(C / np.outer(size, size))

    def names(self, columns: Sequence[str]) -> list[str]:
        """Name the terms, from the names of the columns."""
        return [*columns, *(f"{columns[a]} x {columns[b]}" for a, b in self.pairs)]

    def codes(self, levels: AnyArray) -> AnyArray:
        """Number the effects of cells, (n_cells, n_terms), from their levels, (n_cells, n_columns)."""
        crossed = [levels[:, a] * self.sizes[b] + levels[:, b] for a, b in self.pairs]
        return np.column_stack([levels[:, : len(self.sizes)], *crossed]).astype(np.int32) + self.first


def effects_of(bins: Bins, interactions: Sequence[Sequence[str]] | None = None) -> Effects:
    """Say which effects there are.

    Effects of categories are independent; those of the bins of a number follow a trend and a smooth curve, a missing value its own.
    Those of pairs of levels are independent and smaller.

    Parameters
    ----------
    bins : Bins
    interactions : sequence of (column, column), optional
    """
    sizes, names = bins.sizes, bins.names
    pairs = []
    for pair in read_list(interactions or (), "interactions"):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise InputError(f"interactions has {pair!r}; pass pairs of two columns, interactions=[('sex', 'age')].")
        for name in pair:
            if name not in names:
                raise unknown_name("interactions", name, list(names))
        pairs.append((names.index(pair[0]), names.index(pair[1])))
    widths = [*sizes, *(sizes[a] * sizes[b] for a, b in pairs)]
    first = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    if first[-1] > LARGEST:
        raise InputError(
            f"columns and interactions have {int(first[-1]):,} effects, and {LARGEST:,} can be learned; leave out columns with many "
            "levels, or interactions."
        )
    B = np.zeros((first[-1], first[-1]))
    for j, (a, b) in enumerate(itertools.pairwise(first)):
        if j >= len(sizes):
            B[a:b, a:b] = np.sqrt(INTERACTION) * np.eye(b - a)
        else:
            column = bins.encoder.columns[j]
            B[a:b, a:b] = np.eye(b - a) if isinstance(column, Category) else _curve(int(b - a), bool(column.has_null))
    return Effects(first[:-1], tuple(pairs), sizes, B)


def _curve(n: int, missing: bool) -> FloatArray:
    """Give a square root of the prior correlation of the bins of a number."""
    block, n_bins = np.eye(n), n - missing
    if n_bins > 2:
        x = np.linspace(-1.0, 1.0, n_bins)
        smooth = np.exp(-0.5 * ((x[:, None] - x) / 0.35) ** 2)
        block[:n_bins, :n_bins] = np.linalg.cholesky(np.outer(x, x) + smooth + 1e-9 * np.eye(n_bins))
    return block


@dataclass(frozen=True, eq=False)
class Design:
    """Covariate cells and who lives where.

    Attributes
    ----------
    codes : (n_cells, n_terms) int32
        Levels of each cell, numbered over all terms.
    B : (n_levels, p)
        Effects of levels per coefficient: a square root of their prior correlation.
    pairs : Pairs
    context : (q, p') or None
        Contextual effect: what the composition of a place does to everybody in it, per coefficient of its own with the variance of
        beta; the root of the contextual variance is in it.
    """

    codes: AnyArray
    B: FloatArray
    pairs: Pairs
    context: FloatArray | None = None

    def eta(self, beta: FloatArray) -> FloatArray:
        """Give the logit of each cell but for its place: (p,) to (n_cells,), or (n_draws, p) to (n_draws, n_cells)."""
        return cell_logits(beta @ self.B.T, self.codes)

    def take(self, places: IntArray) -> Design:
        """Keep some places."""
        size = np.diff(self.pairs.start)[places]
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.arange(start[-1]) + np.repeat(self.pairs.start[:-1][places] - start[:-1], size)
        pairs = Pairs(start, self.pairs.cell[rows], self.pairs.weight[rows])
        return replace(self, pairs=pairs, context=None if self.context is None else self.context[places])


def cell_logits(effects: FloatArray, codes: AnyArray) -> FloatArray:
    """Add up the effects of cells, term by term: (..., n_effects) and (n_cells, n_terms) to (..., n_cells)."""
    out = effects[..., codes[:, 0]]
    for term in range(1, codes.shape[1]):
        out += effects[..., codes[:, term]]
    return np.asarray(out)


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds of people, where they live, and which effects they have.

    Attributes
    ----------
    effects : Effects
    levels : (n_cells, n_columns)
        Levels of each kind.
    pairs : Pairs
    crossed : sequence of (int, int)
        Columns whose pairs of levels have effects too, behind the others.
    """

    effects: Effects
    levels: AnyArray
    pairs: Pairs
    crossed: Sequence[tuple[int, int]] = ()

    @property
    def n_effects(self) -> int:
        """Number of effects, those of crossed columns included."""
        sizes = self.effects.sizes
        return len(self.effects.B) + sum(sizes[a] * sizes[b] for a, b in self.crossed)

    @cached_property
    def codes(self) -> AnyArray:
        """Effects of each kind, (n_cells, n_terms) int32."""
        return self.numbered(self.levels)

    def numbered(self, levels: AnyArray) -> AnyArray:
        """Number the effects of other kinds of people."""
        sizes, first = self.effects.sizes, len(self.effects.B)
        codes = [self.effects.codes(levels)]
        for a, b in self.crossed:
            codes.append(first + levels[:, a] * sizes[b] + levels[:, b])
            first += sizes[a] * sizes[b]
        return np.ascontiguousarray(np.column_stack(codes).astype(np.int32))

    def at(
        self, theta: FloatArray, target: FloatArray, guess: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Give the logit of each kind, (n_cells,), and the place effects that meet rates strictly between 0 and 1, (q,)."""
        eta = cell_logits(theta, self.codes)
        return eta, place_effects(self.pairs, eta, target, special.logit(target) if guess is None else guess)


def kept_effects(effects: Effects, columns: Sequence[str], shrinkage: Mapping[str, float]) -> FloatArray:
    """Give what is kept of each effect, (n_effects,); of two columns together, as of the one that is shrunk more."""
    amounts = [shrinkage.get(name, 0.0) for name in columns]
    amounts += [max(amounts[a], amounts[b]) for a, b in effects.pairs]
    return np.asarray(1.0 - np.repeat(amounts, effects.widths))


def symmetric_root(C: FloatArray) -> FloatArray:
    """Give the symmetric square root of a covariance: the order of its columns changes nothing."""
    values, vectors = linalg.eigh(C, check_finite=False)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


@dataclass(frozen=True, eq=False)
class PersonsModel:
    """A fitted model of persons.

    Attributes
    ----------
    bins : Bins
        How people become cells.
    effects : Effects
    terms : Terms
    fits : tuple of AggregateFit
        One for each question of the chain.
    raking : (q, n_levels)
        Factors of the levels of each place, by which people have its smoothed shares.
    measured : Measured
        How well the shares of places are known.
    prior_left : (n_columns,)
        What the totals leave of the prior variance of each column's effects (of the last question).
    explained : float
        R2 of the places' logits on their composition, of the last question.
    surveyed : SurveyFit or None
        Effects given a survey too.
    covariates : Covariates or None
        How columns of places are read that act on everybody there.
    people_shares : (n_levels,)
        Share of everybody's weight with each level, as people were counted.
    """

    bins: Bins
    effects: Effects
    terms: Terms
    fits: tuple[AggregateFit, ...]
    raking: FloatArray
    measured: Measured
    prior_left: FloatArray
    explained: float
    people_shares: FloatArray
    surveyed: SurveyFit | None = None
    covariates: Covariates | None = None


def asked_next(totals: Totals, stage: int, chance: FloatArray) -> FloatArray:
    """Give the probability of being asked the next question: that of voting, then of not having chosen yet."""
    return chance if totals.turnout and stage == 0 else 1.0 - chance


def observed_rate(totals: Totals, stage: int) -> FloatArray:
    """Give the rate that was counted in every place, (q,); one half where nobody was asked."""
    n = totals.trials[stage]
    return np.divide(totals.successes[stage], n, out=np.full(len(n), 0.5), where=n > 0)


def level_shares(pairs: Pairs, codes: AnyArray, n_effects: int) -> FloatArray:
    """Give the share of each place's people with every effect, (q, n_effects).

    Parameters
    ----------
    pairs : Pairs
    codes : (n_cells, n_terms)
    n_effects : int
    """
    q, place = pairs.n_places, pairs.place
    out = np.zeros((q, n_effects))
    for term in range(codes.shape[1]):
        at = place * n_effects + codes[pairs.cell, term]
        out += np.bincount(at, weights=pairs.weight, minlength=q * n_effects).reshape(q, n_effects)
    return out


def shares_left(weight: FloatArray, pairs: Pairs) -> FloatArray:
    """Scale weights to add up to one in every place; where nobody is left the people stay as they were."""
    whole = np.add.reduceat(weight, pairs.start[:-1])[pairs.place]
    return np.where(whole > 0, weight / np.where(whole > 0, whole, 1.0), pairs.weight)


def raked(levels: AnyArray, pairs: Pairs, factors: FloatArray) -> FloatArray:
    """Multiply the weights of people by the factors of their levels, and make them add up to one in every place, (n,)."""
    place, weight = pairs.place, pairs.weight.copy()
    for column in range(levels.shape[1]):
        weight *= factors[place, levels[pairs.cell, column]]
    return weight / np.bincount(place, weight, pairs.n_places)[place]


def people_shares(effects: Effects, cells: PlaceCells) -> FloatArray:
    """Give the share of everybody's weight with each level, as people were counted, (n_levels,)."""
    weight = cells.total[cells.pairs.place] * cells.pairs.weight
    levels = effects.codes(cells.codes)[:, : len(effects.sizes)]
    out = np.zeros(sum(effects.sizes))
    for column in levels.T:
        out += np.bincount(column[cells.pairs.cell], weight, len(out))
    return out / cells.total.sum()


def _check_shares(model: PersonsModel, cells: PlaceCells) -> None:
    """Refuse people of whom other shares have some level than in the fit."""
    before, now = model.people_shares, people_shares(model.effects, cells)
    i = int(np.argmax(np.abs(now - before)))
    if abs(now[i] - before[i]) > SAME_SHARE:
        named = [(column, level) for column, levels in model.bins.describe().items() for level in levels]
        column, level = named[i]
        raise InputError(
            f"people are not those of fit: the level {level!r} of the column {column!r} has {now[i]:.6f} of their weight, and "
            f"{before[i]:.6f} in fit. Pass the same people, coded as they were, or fit again."
        )


def rake_cells(model: PersonsModel, cells: PlaceCells) -> PlaceCells:
    """Give people the weights that the fit gave them, and refuse others than those of the fit."""
    _check_shares(model, cells)
    levels = model.effects.codes(cells.codes)[:, : len(model.effects.sizes)]
    return replace(cells, pairs=replace(cells.pairs, weight=raked(levels, cells.pairs, model.raking)))


@dataclass(frozen=True, eq=False)
class Parts:
    """Groups of every place at given effects, matched to the totals.

    Attributes
    ----------
    place, group : (m,) int
    rate, share : (m,)
        Rate of the part, and its share of the place's people.
    slope : (m,)
        share rate (1 - rate): how much the place's total moves with the logit of the part.
    G : (m, n_effects)
        Derivative of the logit by the effects.
    """

    place: IntArray
    group: IntArray
    rate: FloatArray
    share: FloatArray
    slope: FloatArray
    G: FloatArray


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Groups over all places.

    Attributes
    ----------
    rate, people : (n_groups,)
    by_part : (n_groups, m) sparse
        Derivative of a group's logit by those of its parts.
    G : (n_groups, n_effects)
        Derivative of a group's logit by the effects.
    """

    rate: FloatArray
    people: FloatArray
    by_part: sparse.csr_array
    G: FloatArray

    def spread(self, covariance: FloatArray) -> FloatArray:
        """Give the standard deviation of the logit of every group, from the covariance of the effects."""
        return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", self.G, covariance, self.G), 0.0))


def parts_at(kinds: Kinds, eta: FloatArray, f: FloatArray, group: IntArray, n: int) -> Parts:
    """Sum the people of every place to groups, with slopes.

    Parameters
    ----------
    kinds : Kinds
    eta : (n_cells,)
        Logit of each kind of people but for its place.
    f : (q,)
        Place effects that meet the totals.
    group : (n_pairs,) int
        Group of the people of each pair.
    n : int
        Number of groups.
    """
    of_pair = kinds.pairs.place * n + group
    number = np.flatnonzero(np.bincount(of_pair))
    part = np.zeros(number.max(initial=0) + 1, dtype=np.int64)
    part[number] = np.arange(len(number))
    place, many = number // n, np.full(len(number), np.inf)
    at = part_slopes(kinds.pairs, eta, f, kinds.codes, kinds.n_effects, part[of_pair], place, many)
    rate = special.expit(at.logit)
    return Parts(place, number % n, rate, at.share, at.share * rate * (1.0 - rate), at.G)


def rates_over(parts: Parts, people: FloatArray, n: int) -> GroupRates:
    """Sum the groups of places to groups over all of them.

    Parameters
    ----------
    parts : Parts
    people : (q,)
        Weight of each place.
    n : int
        Number of groups.
    """
    weight = people[parts.place]
    whole, yes = (np.bincount(parts.group, weight * parts.share * v, n) for v in (np.ones(len(weight)), parts.rate))
    P = np.clip(yes / np.maximum(whole, 1e-300), CLIPPED, 1.0 - CLIPPED)
    slope = weight * parts.slope / np.maximum(whole * P * (1.0 - P), TINY)[parts.group]
    by_part = sparse.csr_array((slope, (parts.group, np.arange(len(slope)))), shape=(n, len(slope)))
    return GroupRates(P, np.asarray(whole), by_part, np.asarray(by_part @ parts.G))


@dataclass(frozen=True)
class Telling:
    """What the features tell of the levels that people are cut by.

    Attributes
    ----------
    columns : tuple of int
        Features that tell them.
    untold : float
        Share of the levels' variance that they leave: 0 where levels follow from features, 1 where these tell nothing.
    """

    columns: tuple[int, ...]
    untold: float


def telling_columns(level: AnyArray, codes: AnyArray, sizes: Sequence[int], weight: FloatArray, most: int) -> Telling:
    """Find the features that levels follow from, the most telling first, and what they leave untold.

    What is told is the share of the variance of the levels that lies between the people of different levels of the features
    (Goodman and Kruskal's tau).

    Parameters
    ----------
    level : (n,) int
        Level of each kind of people of each place.
    codes : (n, n_columns) int
        Their levels of the features.
    sizes : sequence of int
        Levels of each feature.
    weight : (n,)
        Number of people.
    most : int
        Features to look at together.

    Examples
    --------
    >>> age = np.array([0, 1, 2, 3])
    >>> found = telling_columns(age // 2, np.column_stack([[0, 0, 1, 0], age]), (2, 4), np.ones(4), 1)
    >>> found.columns, found.untold
    ((1,), 0.0)
    """
    n_levels, share = int(level.max()) + 1, weight / weight.sum()
    spread = 1.0 - float((np.bincount(level, share) ** 2).sum())
    chosen: tuple[int, ...] = ()
    told, kind, n_kinds = 0.0, np.zeros(len(level), dtype=np.int64), 1
    while spread > 0.0 and len(chosen) < min(most, len(sizes)):
        tried = {}
        for j in set(range(len(sizes))) - {*chosen}:
            both = np.bincount((kind * sizes[j] + codes[:, j]) * n_levels + level, share, n_kinds * sizes[j] * n_levels)
            both = both.reshape(-1, n_levels)
            whole = both.sum(axis=1)
            held = float((both[whole > 0] ** 2 / whole[whole > 0, None]).sum())
            tried[j] = 1.0 - (1.0 - held) / spread
        best = max(sorted(tried), key=lambda j: tried[j])
        if tried[best] < told + TOLD:
            break
        chosen, told = (*chosen, best), tried[best]
        kind, n_kinds = kind * sizes[best] + codes[:, best], n_kinds * sizes[best]
    return Telling(tuple(sorted(chosen)), float(np.clip(1.0 - told, 0.0, 1.0)))
