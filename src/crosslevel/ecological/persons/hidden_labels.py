"""Hide a column that is known and learn it back from its sums: totals of one half of the households, composition of the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crosslevel.data.columns import Category, Encoder
from crosslevel.data.expressions import Expression
from crosslevel.data.people import People
from crosslevel.data.place_cells import Bins, Labels, Pairs, PlaceCells, count_people
from crosslevel.data.sql import quoted
from crosslevel.ecological.persons.aggregate import fit_aggregate
from crosslevel.ecological.persons.composition import SampledShares, rake, smooth_shares
from crosslevel.ecological.persons.hidden_errors import Groups, HiddenLabel, added
from crosslevel.ecological.persons.model import Design, Kinds, effects_of, level_shares, raked, telling_columns
from crosslevel.errors import InputError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

BANDS = 4
"""Groups a column of numbers is cut in."""
MOST_LEVELS = 12
"""Categories of more levels are not cut by, unless they are asked for."""
LEAST_PLACES = 10
TELLING = 0.9
"""A column that explains this much of the label's variance leaves the features with it."""
SHARES = (0.05, 0.95)
"""Between these a label tells something about the middle of the logit scale."""


@dataclass(frozen=True)
class Label:
    """A column that is hidden.

    Attributes
    ----------
    name : str
    query : Expression
        Who has it; people of whom nothing is known are left out.
    hidden : tuple of str
        Columns that leave the features with it.
    """

    name: str
    query: Expression
    hidden: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Cut:
    """A column to compare groups by.

    Attributes
    ----------
    name : str
    column : int
        Its number among the coarsened columns.
    group : (n_levels,) int
        Group of each level.
    names : tuple of str
        Of the groups.
    """

    name: str
    column: int
    group: IntArray
    names: tuple[str, ...]


SPLIT = (
    "No cluster column was named, so people are split one by one: members of one household in both halves make the errors too "
    "small. Name the household, People(cluster=...), where there is one."
)


def cuts_of(bins: Bins, chosen: Sequence[str] | None) -> list[Cut]:
    """Say which columns to compare by: categories of few levels as they are, numbers in four bands of about equal size.

    Parameters
    ----------
    bins : Bins
    chosen : sequence of str, optional
        Only these.
    """
    cuts = []
    words = bins.describe()
    for j, (column, size) in enumerate(zip(bins.encoder.columns, bins.sizes, strict=True)):
        if chosen is not None and column.name not in chosen:
            continue
        if isinstance(column, Category):
            if chosen is None and size > MOST_LEVELS:
                continue
            group = np.arange(size)
        else:
            n_bins = size - int(column.has_null)
            group = np.append(np.arange(n_bins) * min(BANDS, n_bins) // n_bins, [min(BANDS, n_bins)] * column.has_null)
        names = []
        for g in range(int(group.max()) + 1):
            inside = [words[column.name][k] for k in np.flatnonzero(group == g)]
            names.append(inside[0] if len(inside) == 1 else f"{inside[0]} .. {inside[-1]}")
        cuts.append(Cut(column.name, j, group.astype(np.intp), tuple(names)))
    return cuts


def hide(
    model: EcologicalInference,
    people: People,
    bins: Bins,
    cuts: Sequence[Cut],
    label: Label,
    shares: tuple[float, float] = SHARES,
) -> tuple[HiddenLabel, HiddenLabel]:
    """Hide a label and learn it back from its totals, twice: composition from one half of the clusters, totals from the other.

    A share that scores the model must not share noise with what the model was fitted to. People of one place are a sample: were
    composition and totals from the same people, the sampling noise of the one would tell the other. The truth is that of everybody.

    Parameters
    ----------
    model : EcologicalInference
        Fitted: its places, settings, features and clusters are used. Interactions with a column that is hidden leave with it.
    people : People
    bins : Bins
        Of the features and of the columns to compare by.
    cuts : sequence of Cut
    label : Label
    shares : (float, float)
        Between which the label's share must lie.

    Returns
    -------
    tuple of HiddenLabel
        The halves one way and the other.
    """
    known = people.expression(" and ".join(f"{quoted(c)} is not null" for c in label.query.columns), "labels")
    wanted = Labels(subgroups=((label.name, label.query),), half=model.seed_)
    found = count_people(people, bins, model.places_.keys, wanted, only=known)
    halves = _People(found)
    if len(halves.lived) < LEAST_PLACES:
        raise InputError(
            f"labels: {label.name!r} is known in {len(halves.lived)} place(s) with people in both halves; a label needs at least "
            f"{LEAST_PLACES}. Leave it out."
        )
    used = [j for j, n in enumerate(bins.names) if n not in label.hidden]
    told = {bins.names[j] for j in _telling(found, used)}
    used = [j for j in used if bins.names[j] in model.model_.bins.names and bins.names[j] not in told]
    if not used:
        raise InputError(
            f"labels: without {label.name!r} no feature is left to learn it from; name more columns in fit."
        )
    left = [c for c in cuts if c.name not in label.hidden and c.name not in told]
    left = [c for c in left if len(np.unique(c.group[found.codes[:, c.column]])) > 1]
    if not left:
        raise InputError(
            f"labels: {label.name!r} leaves no column to compare groups by; name others in by, or leave it out."
        )
    share = _check_share(halves.weight, halves.total, label.name, shares)
    hidden = tuple(sorted({*label.hidden, *told}))
    kept = Bins(Encoder(tuple(bins.encoder.columns[j] for j in used), bins.encoder.unknown), bins.edges)
    effects = effects_of(kept, [pair for pair in model.interactions or () if set(pair) <= set(kept.names)])
    sides = []
    for first in (True, False):
        levels, counted, groups = halves.kinds(used, left, first)
        pairs = replace(counted, weight=_smoothed(model, kept, levels, counted, halves.sizes(first)))
        kinds, context = Kinds(effects, levels, counted), None
        if model.model_.covariates is not None:
            context = model.model_.covariates.read(model.places_.table)[halves.lived]
        design = Design(kinds.codes, effects.B, pairs, context)
        rate, n = halves.rates(not first), halves.sizes(not first)
        where = model.model_.terms.take(halves.lived)
        fit = fit_aggregate(design, where, Binomial(rate * n, n), halves.weight)
        dimensions, crossed = (
            tuple(
                halves.groups([left[k] for k in some], [groups[k] for k in some], kinds)
                for some in itertools.combinations(range(len(left)), together)
            )
            for together in (1, 2)
        )
        sides.append(
            HiddenLabel(
                label.name,
                kept.names,
                replace(kinds, pairs=pairs),
                effects.B @ fit.beta,
                fit.covariance,
                np.clip(halves.total, 1e-6, 1.0 - 1e-6),
                halves.weight,
                dimensions,
                crossed,
                share,
                hidden,
                halves.lived,
            )
        )
    return sides[0], sides[1]


def _smoothed(model: EcologicalInference, bins: Bins, levels: AnyArray, pairs: Pairs, size: FloatArray) -> FloatArray:
    """Smooth the composition of half of the people as the model smooths that of all of them."""
    ends = np.cumsum([0, *bins.sizes])
    columns = tuple(itertools.pairwise(ends.tolist()))
    first = np.cumsum([0, *model.model_.bins.sizes])
    places = [model.model_.bins.names.index(name) for name in bins.names]
    kept = np.concatenate([np.arange(first[j], first[j + 1]) for j in places])
    covariance = model.model_.measured.sampling[np.ix_(kept, kept)] * float(np.mean(1.0 / size))
    numbered = np.ascontiguousarray(levels + ends[:-1].astype(np.int32))
    own = SampledShares(level_shares(pairs, numbered, int(ends[-1])), covariance, size, columns)
    return raked(numbered, pairs, rake(numbered, pairs, smooth_shares(own)[0], columns))


def _check_share(weight: FloatArray, total: FloatArray, name: str, shares: tuple[float, float]) -> float:
    """Give the label's share of everybody; refuse one that is rare, or nearly the same for all people of a place."""
    share = float(weight @ total / weight.sum())
    if not shares[0] <= share <= shares[1]:
        raise InputError(
            f"labels: {name!r} is true of {100 * share:.2g} % of people; labels need {100 * shares[0]:g} to {100 * shares[1]:g} %. "
            "Leave it out."
        )
    within = float(weight @ (total * (1.0 - total)) / weight.sum())
    if within < (1.0 - TELLING) * share * (1.0 - share):
        raise InputError(
            f"labels: {name!r} is nearly the same for all people of a place; a label must tell them apart. Leave it out."
        )
    return share


class _People:
    """People of whom the label is known, counted by place, kind, label and half; places with people in both halves only."""

    def __init__(self, found: PlaceCells) -> None:
        q, place = found.pairs.n_places, found.pairs.place
        weight = found.pairs.weight * found.total[place]
        self.has, self.first = _has(found, 0), _has(found, 1)
        sums = {side: added(place, weight * (self.first == side), q) for side in (True, False)}
        self.lived = np.flatnonzero((sums[True] > 0) & (sums[False] > 0))
        number = np.full(q, -1)
        number[self.lived] = np.arange(len(self.lived))
        inside = number[place] >= 0
        self.found, self.inside, self.q = found, inside, len(self.lived)
        self.place, self.cell = number[place][inside], found.pairs.cell[inside]
        self.amount, self.behind, self.square = weight[inside], found.behind[inside], found.square[inside]
        self.has, self.first = self.has[inside], self.first[inside]
        self.weight = self._sum(self.amount)
        self.total = self._sum(self.amount * self.has) / self.weight

    def _sum(self, values: FloatArray) -> FloatArray:
        return added(self.place, values, self.q)

    def rates(self, first: bool) -> FloatArray:
        """Give the rates of the places in one half."""
        own = self.amount * (self.first == first)
        return np.asarray(self._sum(own * self.has) / self._sum(own))

    def sizes(self, first: bool) -> FloatArray:
        """Give Kish's number of people of one half."""
        own = self.first == first
        return np.asarray(self._sum(self.amount * own) ** 2 / self._sum(self.square * own))

    def kinds(self, used: Sequence[int], cuts: Sequence[Cut], first: bool) -> tuple[AnyArray, Pairs, list[IntArray]]:
        """Put people of one half together who are alike in what the model may see and in the groups to compare by.

        Levels of each kind, who lives where, and the group of every pair for each cut.
        """
        codes = self.found.codes
        own = np.column_stack([codes[:, list(used)], *(c.group[codes[:, c.column]] for c in cuts)])
        distinct, dense = np.unique(own, axis=0, return_inverse=True)
        mine = self.first == first
        key = self.place[mine] * len(distinct) + dense.reshape(-1)[self.cell[mine]]
        both, inverse = np.unique(key, return_inverse=True)
        weight = added(inverse, self.amount[mine], len(both))
        place, at = both // len(distinct), (both % len(distinct)).astype(np.int32)
        start = np.searchsorted(place, np.arange(self.q + 1)).astype(np.int64)
        groups = [distinct[at, len(used) + k].astype(np.intp) for k in range(len(cuts))]
        levels = np.ascontiguousarray(distinct[:, : len(used)], dtype=np.int32)
        return levels, Pairs(start, at, weight / added(place, weight, self.q)[place]), groups

    def groups(self, cuts: Sequence[Cut], inside: Sequence[IntArray], kinds: Kinds) -> Groups:
        """Give the groups of one column, or of several crossed, with the truth of everybody."""
        group, mine, names = np.zeros(len(self.cell), dtype=np.intp), np.zeros(len(inside[0]), dtype=np.intp), [""]
        for cut, within in zip(cuts, inside, strict=True):
            mine = mine * len(cut.names) + within
            group = group * len(cut.names) + cut.group[self.found.codes[self.cell, cut.column]]
            names = [f"{a} x {b}" if a else b for a in names for b in cut.names]
        at, size = self.place * len(names) + group, self.q * len(names)
        values = (self.amount, self.amount * self.has, self.behind, self.square)
        weight, yes, count, square = (added(at, v, size).reshape(self.q, -1) for v in values)
        kish = weight**2 / np.maximum(square, 1e-300)
        name = " x ".join(c.name for c in cuts)
        of_pairs = self.weight[kinds.pairs.place] * kinds.pairs.weight
        telling = telling_columns(mine, kinds.levels[kinds.pairs.cell], kinds.effects.sizes, of_pairs, len(cuts))
        return Groups(name, tuple(names), np.asarray(mine, dtype=np.intp), telling, weight, yes, count, kish)


def _has(found: PlaceCells, number: int) -> AnyArray:
    """Tell of every pair whether its people match one of the queries."""
    return np.array([number in matched for _, matched in found.labels])[found.label]


def _telling(found: PlaceCells, used: Sequence[int]) -> list[int]:
    """Name the columns that nearly determine the label: learned from them it would be known, not inferred."""
    has = _has(found, 0)
    weight = found.pairs.weight * found.total[found.pairs.place]
    share = float(weight @ has / weight.sum())
    telling = []
    for j in used:
        code = found.codes[found.pairs.cell, j]
        w, y = (added(code, v, int(code.max()) + 1) for v in (weight, weight * has))
        p = y[w > 0] / w[w > 0]
        within = float(w[w > 0] @ (p * (1.0 - p)) / w.sum())
        if within < (1.0 - TELLING) * share * (1.0 - share):
            telling.append(j)
    return telling
