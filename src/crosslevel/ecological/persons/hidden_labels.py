"""Hide a column that is known, sum it to places, learn it back from the sums: what the model says, beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslevel.data.batches import Batches
from crosslevel.data.columns import Category, Encoder
from crosslevel.data.place_cells import Bins, Labels, Pairs, PlaceCells, count_people
from crosslevel.data.queries import Query
from crosslevel.ecological.covariance import square_root
from crosslevel.ecological.hidden_errors import Dimension, Task
from crosslevel.ecological.persons.aggregate import fit_aggregate
from crosslevel.ecological.persons.fitting import fit_question
from crosslevel.ecological.persons.model import Design, composition, effects_of
from crosslevel.ecological.persons.subgroup_draws import draw_effects
from crosslevel.ecological.persons.sweeps import probabilities, shifts
from crosslevel.errors import InputError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

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
    model: EcologicalInference,
    stream: Batches,
    bins: Bins,
    cuts: Sequence[Cut],
    label: Label,
    n_draws: int = 60,
    n_jobs: int = 1,
    shares: tuple[float, float] = SHARES,
) -> Task:
    """Hide a label, fit the model to its totals as it was fitted to the real ones, and draw every group.

    Parameters
    ----------
    model : EcologicalInference
        Fitted: its places, settings, features and the size of its totals are used. Interactions with a column that is hidden leave
        with it.
    stream : Batches
        People.
    bins : Bins
        Of the features and of the columns to compare by.
    cuts : sequence of Cut
    label : Label
    shares : (float, float)
        Between which the label's share must lie.
    """
    known = " and ".join(f"`{c}` is not null" for c in label.query.columns)
    found = count_people(
        stream.select(where=known),
        bins,
        place=model.places_.by,
        keys=model.places_.keys,
        weight=model.weight_,
        labels=Labels(subgroups=((label.name, label.query),)),
    )
    lived = np.flatnonzero(found.total > 0)
    if len(lived) < LEAST_PLACES:
        raise InputError(
            f"labels: {label.name!r} is known in {len(lived)} place(s); a label needs at least {LEAST_PLACES}. Leave it out."
        )
    found = found.inhabited()
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
    people = _merge(found, used, left)
    share = _check_share(found.total, people.total, label.name, shares)
    kept = Bins(Encoder(tuple(bins.encoder.columns[j] for j in used), bins.encoder.unknown), bins.edges)
    effects = effects_of(kept, [pair for pair in model.interactions or () if set(pair) <= set(kept.names)])
    codes, context = effects.codes(people.levels), None
    if model.contextual_variance > 0:
        context = composition(people.pairs, found.total, codes, effects.B) * np.sqrt(model.contextual_variance)
    design = Design(codes, effects.B, people.pairs, context)
    where, n = model.model_.terms.take(lived), model.places_.totals.trials[0][lived]
    start = None if model.hyperparameters is not None else model.model_.fits[-1].hyperparameters
    rng = np.random.default_rng(np.random.SeedSequence(model.seed_, spawn_key=(0, 0)))
    counted = Binomial(people.total * n, n)
    if model.likelihood == "aggregate":
        found_ = fit_aggregate(design, where, counted, found.total, start=start, n_jobs=n_jobs)
        betas = found_.beta + rng.standard_normal((n_draws, len(found_.beta))) @ square_root(found_.covariance).T
        guess, h = found_.z, found_.hyperparameters
    else:
        fit = fit_question(design, where, counted, start=start, n_jobs=n_jobs)
        drawn = draw_effects(fit, where, n_draws, rng)
        betas, guess, h = drawn.beta, drawn.u[0], fit.hyperparameters
    sums = [_Sums(people, cut, group) for cut, group in zip(left, people.groups, strict=True)]
    for beta in betas:
        eta = design.eta(beta)
        guess = shifts(people.pairs, eta[None], people.total, guess[None], n_jobs)[0]
        chance = probabilities(people.pairs, eta, guess)
        for one in sums:
            one.rates.append(one.mean(people.pairs.weight * chance))
    dimensions = tuple(one.finish(found, people.truth) for one in sums)
    hidden = tuple(sorted({*label.hidden, *told}))
    return Task(label.name, people.total, dimensions, h, share, hidden)


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


@dataclass(frozen=True, eq=False)
class _Known:
    """People by place and by what the model may see, with the truth of each kind.

    Attributes
    ----------
    pairs : Pairs
    levels : (n_cells, n_used) int32
    groups : list of (n,) int
        Group of every pair, for each cut.
    truth : (n,)
        Share of the pair's people who have the label, times the pair's weight.
    total : (q,)
    """

    pairs: Pairs
    levels: AnyArray
    groups: list[IntArray]
    truth: FloatArray
    total: FloatArray


def _merge(found: PlaceCells, used: Sequence[int], cuts: Sequence[Cut]) -> _Known:
    """Put people together who are alike in what the model may see and in the groups to compare by."""
    own = np.column_stack([found.codes[:, list(used)], *(c.group[found.codes[:, c.column]] for c in cuts)])
    distinct, dense = np.unique(own, axis=0, return_inverse=True)
    key = found.pairs.place * len(distinct) + dense.reshape(-1)[found.pairs.cell]
    both, inverse = np.unique(key, return_inverse=True)
    weight, truth = (_added(inverse, found.pairs.weight * v, len(both)) for v in (1.0, _has(found)))
    start = np.searchsorted(both // len(distinct), np.arange(found.pairs.n_places + 1)).astype(np.int64)
    at = (both % len(distinct)).astype(np.int32)
    groups = [distinct[at, len(used) + k].astype(np.intp) for k in range(len(cuts))]
    levels = np.ascontiguousarray(distinct[:, : len(used)], dtype=np.int32)
    return _Known(Pairs(start, at, weight), levels, groups, truth, np.add.reduceat(truth, start[:-1]))


class _Sums:
    """Sums over the groups of one column in every place."""

    def __init__(self, people: _Known, cut: Cut, group: IntArray) -> None:
        self.cut, self.n = cut, len(cut.names)
        self.at, self.size = people.pairs.place * self.n + group, people.pairs.n_places * self.n
        weight = _added(self.at, people.pairs.weight, self.size)
        self.there = np.flatnonzero(weight > 0)
        self.weight = weight[self.there]
        self.rates: list[FloatArray] = []

    def mean(self, values: FloatArray) -> FloatArray:
        """Sum values of pairs by group, per weight of the group."""
        return _added(self.at, values, self.size)[self.there] / self.weight

    def finish(self, found: PlaceCells, truth: FloatArray) -> Dimension:
        """Put draws and truth together."""
        place, level = (v.astype(np.intp) for v in np.divmod(self.there, self.n))
        before = found.pairs.place * self.n + self.cut.group[found.codes[found.pairs.cell, self.cut.column]]
        behind = (found.behind, found.square, found.pairs.weight)
        count, square, share = (_added(before, v, self.size)[self.there] for v in behind)
        total = found.total[place]
        kish = (share * total) ** 2 / np.maximum(square, 1e-300)
        rate = np.clip(self.rates, 1e-12, 1.0 - 1e-12)
        groups = (self.cut.name, self.cut.names, place, level)
        return Dimension(*groups, self.weight, self.weight * total, count, kish, rate, self.mean(truth))


def _has(found: PlaceCells) -> AnyArray:
    """Tell of every pair whether its people have the label."""
    return np.array([bool(matched) for _, matched in found.labels])[found.label]


def _added(at: AnyArray, values: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(at, weights=values, minlength=size), dtype=np.float64)


def _telling(found: PlaceCells, used: Sequence[int]) -> list[int]:
    """Name the columns that nearly determine the label: learned from them it would be known, not inferred."""
    has = _has(found)
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
