"""Hide a column that is known, sum it to places, learn it back from the sums: what the model says, beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.data.batches import Batches
from crosslevel.data.columns import Category, Encoder
from crosslevel.data.place_cells import Bins, Labels, Pairs, PlaceCells, count_people
from crosslevel.data.queries import Query
from crosslevel.ecological.covariance import Hyperparameters, Terms
from crosslevel.ecological.hidden_errors import Dimension, Task
from crosslevel.ecological.persons.fitting import fit_question
from crosslevel.ecological.persons.model import Design, composition, effects_of
from crosslevel.ecological.persons.subgroup_draws import draw_effects
from crosslevel.ecological.persons.sweeps import probabilities, shifts
from crosslevel.errors import InputError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import AnyArray, FloatArray, IntArray, Progress

__all__ = ["Cut", "Label", "cuts_of", "hide"]


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
    query : Query
        Who has it; people of whom nothing is known are left out.
    hidden : tuple of str
        Columns that leave the features with it.
    """

    name: str
    query: Query
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
    stream: Batches,
    bins: Bins,
    features: Sequence[str],
    cuts: Sequence[Cut],
    label: Label,
    *,
    place: str,
    keys: Sequence[object],
    weight: str | None,
    terms: Terms,
    trials: FloatArray,
    start: Hyperparameters | None = None,
    n_draws: int = 60,
    seed: int = 0,
    n_jobs: int = 1,
    shares: tuple[float, float] = SHARES,
    interactions: Sequence[Sequence[str]] | None = None,
    contextual_variance: float = 0.0,
    progress: Progress | None = None,
) -> Task:
    """Hide a label, fit the model to its totals, and draw every group.

    Parameters
    ----------
    stream : Batches
        People.
    bins : Bins
        Of the features and of the columns to compare by.
    features : sequence of str
        Columns the model may use, but for those hidden with the label.
    cuts : sequence of Cut
    label : Label
    place, keys, weight
        As in :func:`crosslevel.data.place_cells.count_people`.
    terms : Terms
        Over the places.
    trials : (q,)
        How exactly the totals are known: as many as the real question has.
    start : Hyperparameters, optional
    shares : (float, float)
        Between which the label's share must lie.
    interactions, contextual_variance
        As in the fit whose errors are to be learned; interactions with a column that is hidden leave with it.
    """
    known = " and ".join(f"`{c}` is not null" for c in label.query.columns)
    found = count_people(
        stream.select(where=known),
        bins,
        place=place,
        keys=keys,
        weight=weight,
        labels=Labels(subgroups=((label.name, label.query),)),
        progress=progress,
    )
    lived = np.flatnonzero(found.total > 0)
    if len(lived) < LEAST_PLACES:
        raise InputError(
            f"labels: {label.name!r} is known in {len(lived)} place(s); a label needs at least {LEAST_PLACES}. Leave it out."
        )
    found = found.inhabited()
    used = [j for j, n in enumerate(bins.names) if n not in label.hidden]
    told = {bins.names[j] for j in _telling(found, used)}
    used = [j for j in used if bins.names[j] in features and bins.names[j] not in told]
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
    people = _Known.of(found, used, left)
    share = float(found.total @ people.total / found.total.sum())
    if not shares[0] <= share <= shares[1]:
        raise InputError(
            f"labels: {label.name!r} is true of {100 * share:.2g} % of people; labels need {100 * shares[0]:g} to {100 * shares[1]:g} %. "
            "Leave it out."
        )
    within = float(found.total @ (people.total * (1.0 - people.total)) / found.total.sum())
    if within < (1.0 - TELLING) * share * (1.0 - share):
        raise InputError(
            f"labels: {label.name!r} is nearly the same for all people of a place; a label must tell them apart. Leave it out."
        )
    kept = Bins(Encoder(tuple(bins.encoder.columns[j] for j in used), bins.encoder.unknown), bins.edges)
    effects = effects_of(kept, [pair for pair in interactions or () if set(pair) <= set(kept.names)])
    codes = effects.codes(people.levels)
    context = (
        np.sqrt(contextual_variance) * composition(people.pairs, found.total, codes, effects.B)
        if contextual_variance > 0
        else None
    )
    design = Design(codes, effects.B, people.pairs, context)
    where, n = terms.take(lived), trials[lived]
    fit = fit_question(design, where, Binomial(people.total * n, n), start=start, n_jobs=n_jobs)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 0)))
    drawn = draw_effects(fit, where, n_draws, rng)
    dimensions = [_Sums(people, cut, n_draws) for cut in people.cuts]
    guess = drawn.u[0]
    for k in range(n_draws):
        eta = design.eta(drawn.beta[k])
        guess = shifts(people.pairs, eta[None], people.total, drawn.u[k : k + 1] if k == 0 else guess[None], n_jobs)[0]
        p = probabilities(people.pairs, eta, guess)
        for one in dimensions:
            one.add(k, p)
    return Task(
        label.name,
        people.total,
        tuple(one.finish(found) for one in dimensions),
        fit.hyperparameters,
        share,
        tuple(sorted({*label.hidden, *told})),
    )


@dataclass(frozen=True, eq=False)
class _Known:
    """People by place and by what the model may see, with the truth of each kind.

    Attributes
    ----------
    pairs : Pairs
    levels : (n_cells, n_used) int32
    cuts : list of Cut
    groups : list of (n,) int
        Group of every pair, for each cut.
    truth : (n,)
        Share of the pair's people who have the label, times the pair's weight.
    total : (q,)
    """

    pairs: Pairs
    levels: AnyArray
    cuts: list[Cut]
    groups: list[IntArray]
    truth: FloatArray
    total: FloatArray

    @classmethod
    def of(cls, found: PlaceCells, used: Sequence[int], cuts: list[Cut]) -> _Known:
        own = np.column_stack([found.codes[:, list(used)], *(c.group[found.codes[:, c.column]] for c in cuts)])
        distinct, dense = np.unique(own, axis=0, return_inverse=True)
        cell = dense.reshape(-1)[found.pairs.cell]
        key = found.pairs.place * len(distinct) + cell
        both, inverse = np.unique(key, return_inverse=True)
        weight = _added(inverse, found.pairs.weight, len(both))
        has = np.array([bool(matched) for _, matched in found.labels])[found.label]
        truth = _added(inverse, found.pairs.weight * has, len(both))
        q = found.pairs.n_places
        start = np.searchsorted(both // len(distinct), np.arange(q + 1)).astype(np.int64)
        at = (both % len(distinct)).astype(np.int32)
        pairs = Pairs(start, at, weight)
        groups = [distinct[at, len(used) + k].astype(np.intp) for k in range(len(cuts))]
        return cls(
            pairs,
            np.ascontiguousarray(distinct[:, : len(used)], dtype=np.int32),
            cuts,
            groups,
            truth,
            np.add.reduceat(truth, start[:-1]),
        )


class _Sums:
    """Sums of probabilities over the groups of one column in every place."""

    def __init__(self, people: _Known, cut: Cut, n_draws: int) -> None:
        self.people, self.cut = people, cut
        number = next(k for k, c in enumerate(people.cuts) if c is cut)
        self.n = len(cut.names)
        self.at = people.pairs.place * self.n + people.groups[number]
        q = people.pairs.n_places
        self.size = q * self.n
        self.weight = self._sum(people.pairs.weight)
        self.there = np.flatnonzero(self.weight > 0)
        self.rate = np.empty((n_draws, len(self.there)))

    def _sum(self, values: FloatArray) -> FloatArray:
        return _added(self.at, values, self.size)

    def add(self, k: int, p: FloatArray) -> None:
        """Take in the k-th draw."""
        summed = self._sum(self.people.pairs.weight * p)
        self.rate[k] = summed[self.there] / self.weight[self.there]

    def finish(self, found: PlaceCells) -> Dimension:
        """Put draws and truth together."""
        there = self.there
        place, level = there // self.n, there % self.n
        group = self.cut.group[found.codes[found.pairs.cell, self.cut.column]]
        return Dimension(
            self.cut.name,
            self.cut.names,
            place.astype(np.intp),
            level.astype(np.intp),
            self.weight[there],
            self.weight[there] * found.total[place],
            *_behind(found, group, self.n, there),
            np.clip(self.rate, 1e-12, 1.0 - 1e-12),
            self._sum(self.people.truth)[there] / self.weight[there],
        )


def _behind(found: PlaceCells, group: IntArray, n: int, there: IntArray) -> tuple[FloatArray, FloatArray]:
    """Give how many people are behind each group of a place, and Kish's number of them."""
    at = found.pairs.place * n + group
    q = found.pairs.n_places
    count, square, share = (_added(at, v, q * n)[there] for v in (found.behind, found.square, found.pairs.weight))
    return count, (share * found.total[there // n]) ** 2 / np.maximum(square, 1e-300)


def _added(at: AnyArray, values: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(at, weights=values, minlength=size), dtype=np.float64)


def _telling(found: PlaceCells, used: Sequence[int]) -> list[int]:
    """Name the columns that nearly determine the label: learned from them it would be known, not inferred."""
    has = np.array([bool(matched) for _, matched in found.labels])[found.label]
    weight = found.pairs.weight * found.total[found.pairs.place]
    share = float(weight @ has / weight.sum())
    telling = []
    for j in used:
        code = found.codes[found.pairs.cell, j]
        w, y = (_added(code, v, int(code.max()) + 1) for v in (weight, weight * has))
        p = y[w > 0] / w[w > 0]
        within = float(w[w > 0] @ (p * (1.0 - p)) / w.sum())
        if within < (1.0 - TELLING) * share * (1.0 - share):
            telling.append(j)
    return telling
