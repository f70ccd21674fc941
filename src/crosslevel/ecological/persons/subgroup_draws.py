"""What the model says about subgroups: draws of effects and place effects, and sums of people's own probabilities under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from scipy import linalg, special

from crosslevel.data.place_cells import Pairs, PlaceCells
from crosslevel.data.totals import Totals
from crosslevel.ecological.covariance import Terms, divide_draws, factor_places, place_covariance, square_root
from crosslevel.ecological.persons.model import PersonsFit, PersonsModel, Point, Sampled, asked_next, observed_rate
from crosslevel.ecological.persons.sweeps import Targets, probabilities, shifts, target_sums, target_weights
from crosslevel.ecological.subgroups import REST, Partition, Request, cut_places
from crosslevel.typing import AnyArray, FloatArray, IntArray

DRAWS_AT_ONCE = 50
WEIGHTS_AT_ONCE = 12_000_000
"""Weights of people held at a time where a question is asked of those who are left: 96 MB."""


@dataclass(frozen=True, eq=False)
class EffectDraws:
    """Joint draws from the posterior.

    Attributes
    ----------
    beta : (n_draws, p)
        Coefficients.
    context : (n_draws, p')
        What the composition of a place does to everybody there, per coefficient; p' is 0 where that is not modeled.
    u : (n_draws, q')
        Effects of places alone, of all places of the terms.
    rate : (n_draws, q)
        Rates of the places of the fit.
    """

    beta: FloatArray
    context: FloatArray
    u: FloatArray
    rate: FloatArray


def draw_effects(
    fit: PersonsFit, terms: Terms, n_draws: int, rng: np.random.Generator, seen: IntArray | None = None
) -> EffectDraws:
    """Draw effects and place effects jointly, scales included.

    Parameters
    ----------
    fit : PersonsFit
    terms : Terms
        Over the places of the fit, and others where ``seen`` is given.
    n_draws : int
    rng : numpy.random.Generator
    seen : (q,) int, optional
        The places of the fit among those of the terms; all of them, in their order, when not given.
    """
    at = np.arange(terms.n_places) if seen is None else seen
    context = fit.context
    if fit.sampled is not None:
        return _sampled(fit.sampled, terms, context, n_draws, rng, at)
    shares = divide_draws(np.array([point.weight for point in fit.points]), n_draws)
    parts = [_drawn(p, terms, context, int(n), rng, at) for p, n in zip(fit.points, shares, strict=True) if n]
    # mixed, so that draws of two questions are not paired by their scales
    order = rng.permutation(n_draws)
    beta, gamma, u, rate = (np.concatenate(columns)[order] for columns in zip(*parts, strict=True))
    return EffectDraws(beta, gamma, u, rate)


def _drawn(
    point: Point, terms: Terms, context: FloatArray, n: int, rng: np.random.Generator, at: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Draw under the scales of one point: effects first, then place effects by Matheron's rule."""
    h = point.hyperparameters
    Ku = place_covariance(terms, h)
    K = Ku[np.ix_(at, at)] + h.effect_variance * (context @ context.T)
    L, root_W = factor_places(K, point.W), np.sqrt(point.W)
    away = rng.standard_normal((n, len(point.beta))) @ point.root.T
    u = rng.standard_normal((n, terms.n_places)) @ square_root(Ku).T
    gamma = np.sqrt(h.effect_variance) * rng.standard_normal((n, context.shape[1]))
    toward = away @ point.J.T
    missed = root_W * (toward + u[:, at] + gamma @ context.T) + rng.standard_normal((n, len(at)))
    moved = root_W * linalg.cho_solve((L, True), missed.T, check_finite=False).T
    alpha = point.alpha - moved
    u += alpha @ Ku[at]
    gamma += h.effect_variance * (alpha @ context)
    off = toward + u[:, at] + gamma @ context.T - K @ point.alpha
    return point.beta + away, gamma, u, special.expit(point.level + point.slope * off)


def _sampled(
    found: Sampled, terms: Terms, context: FloatArray, n: int, rng: np.random.Generator, at: IntArray
) -> EffectDraws:
    """Take draws of the sampler; places it has not seen, and context apart from places, follow from them."""
    which = rng.permutation(np.arange(n) % len(found.beta))
    if n < len(found.beta):
        which = rng.choice(len(found.beta), n, replace=False)
    beta, f, rate = found.beta[which], found.f[which], found.rate[which]
    if not context.shape[1] and terms.n_places == f.shape[1]:
        return EffectDraws(beta, np.zeros((n, 0)), f, rate)
    u, gamma = np.empty((n, terms.n_places)), np.empty((n, context.shape[1]))
    for k, logs in enumerate(found.logs[which]):
        h = terms.unpack(logs)
        Ku = place_covariance(terms, h)
        K = Ku[np.ix_(at, at)] + h.effect_variance * (context @ context.T)
        u[k] = square_root(Ku) @ rng.standard_normal(terms.n_places)
        gamma[k] = np.sqrt(h.effect_variance) * rng.standard_normal(context.shape[1])
        jitter = 1e-9 * np.eye(len(K))
        alpha = linalg.solve(K + jitter, f[k] - u[k, at] - context @ gamma[k], assume_a="pos", check_finite=False)
        u[k] += Ku[:, at] @ alpha
        gamma[k] += h.effect_variance * (context.T @ alpha)
    return EffectDraws(beta, gamma, u, rate)


@dataclass(frozen=True, eq=False)
class PersonsSource:
    """Parts of places, and draws of their logits.

    Attributes
    ----------
    model : PersonsModel
    cells : PlaceCells
        People by place, cell and label.
    targets : Targets
    partitions : list of Partition
    columns : list of (m,) int
        Target of each part, or -1 for what is left of the place.
    totals : Totals
    match_totals : bool
    sampled : list of (m,) per question
        Standard deviation of a part's logit from the sampling of its people; zeros where it does not count.
    n_jobs : int
    drawn : dict
        Draws by question, once they were made.
    """

    model: PersonsModel
    cells: PlaceCells
    targets: Targets
    partitions: list[Partition]
    columns: list[IntArray]
    totals: Totals
    match_totals: bool
    sampled: list[list[FloatArray]]
    n_jobs: int
    drawn: dict[int, EffectDraws] = field(default_factory=dict, repr=False)

    block = 20_000_000
    """Logits drawn at a time: a pass over people makes all of them."""
    together = False

    def logits(self, places: slice, parts: Sequence[IntArray], n_draws: int, seed: int) -> list[list[FloatArray]]:
        """Draw the logits of parts of neighboring places, for every question of every partition, (n_draws, m) each.

        Parameters
        ----------
        places : slice
        parts : sequence of (m,) int
            Parts of every partition, all of these places.
        n_draws, seed : int
        """
        n_stages = len(self.totals.trials)
        out = [[np.empty((n_draws, len(index))) for _ in range(n_stages)] for index in parts]
        pairs = self.cells.pairs.take(places)
        some = slice(int(self.cells.pairs.start[places.start]), int(self.cells.pairs.start[places.stop]))
        label = self.cells.label[some]
        step = DRAWS_AT_ONCE if n_stages == 1 else max(1, min(DRAWS_AT_ONCE, WEIGHTS_AT_ONCE // max(len(label), 1)))
        cells = _Cells.of(pairs, self.cells.codes)
        for begin in range(0, n_draws, step):
            now = slice(begin, min(begin + step, n_draws))
            left: FloatArray | None = None
            for stage in range(n_stages):
                drawn = self._draws(stage, n_draws, seed)
                eta = self.model.eta(cells.levels, drawn.beta[now])
                y = observed_rate(self.totals, stage)[places]
                whole = np.broadcast_to(y, (len(eta), len(y)))
                if not self.match_totals:
                    whole = drawn.rate[now, places]
                f = shifts(cells.pairs, eta, whole, drawn.u[now, places], self.n_jobs, left)
                sums = target_sums(cells.pairs, label, self.targets, eta, f, self.n_jobs, left)
                below = None if left is None else target_weights(cells.pairs, label, self.targets, self.n_jobs, left)
                for number, index in enumerate(parts):
                    found = _rates(sums, below, whole, self.partitions[number], self.columns[number], index, places)
                    out[number][stage][now] = special.logit(np.clip(found, 1e-15, 1.0 - 1e-15))
                if stage + 1 < n_stages:
                    asked = asked_next(self.totals, stage, probabilities(cells.pairs, eta, f))
                    left = asked * (cells.pairs.weight if left is None else left)
                    whole = np.add.reduceat(left, cells.pairs.start[:-1], axis=1)
                    left /= np.maximum(whole, 1e-300)[:, cells.pairs.place]
        for number, index in enumerate(parts):
            for stage in range(n_stages):
                self._add_sampling(out[number][stage], number, stage, index, seed)
        return out

    def confounded(
        self, number: int, places: slice, index: IntArray, logits: Sequence[FloatArray], seed: int
    ) -> list[FloatArray] | None:
        """The parts asked for are confounded, not effects."""
        return None

    def distance(self, number: int, parts: IntArray) -> FloatArray | None:
        """Distances of vectors have no meaning here."""
        return None

    def _draws(self, stage: int, n_draws: int, seed: int) -> EffectDraws:
        if stage not in self.drawn or len(self.drawn[stage].beta) != n_draws:
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, stage)))
            self.drawn[stage] = draw_effects(self.model.fits[stage], self.model.terms, n_draws, rng)
        return self.drawn[stage]

    def _add_sampling(self, f: FloatArray, number: int, stage: int, index: IntArray, seed: int) -> None:
        """Add the sampling error of each part's people, the same whichever other places are asked for."""
        size = self.sampled[number][stage][index]
        if not size.any():
            return
        place = self.partitions[number].place[index]
        order = np.argsort(place, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            key = (2, stage, number, int(place[some[0]]))
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
            f[:, some] += size[some] * rng.standard_normal((len(f), len(some)))


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells that some pairs use, numbered anew."""

    pairs: Pairs
    levels: AnyArray

    @classmethod
    def of(cls, pairs: Pairs, levels: AnyArray) -> _Cells:
        used, cell = np.unique(pairs.cell, return_inverse=True)
        return cls(Pairs(pairs.start, cell.astype(np.int32), pairs.weight), levels[used])


def parts_of(
    model: PersonsModel,
    cells: PlaceCells,
    request: Request,
    totals: Totals,
    *,
    match_totals: bool,
    sampling: bool,
    types: Mapping[str, pa.DataType],
    n_jobs: int = 1,
) -> PersonsSource:
    """Cut places in the parts that are asked for.

    Parameters
    ----------
    cells : PlaceCells
        Counted with the labels of the request.
    sampling : bool
        Whether the sampling of a part's people counts.
    types : mapping of by column to its Arrow type
    """
    cuts = cut_places(cells, request, types)
    partitions, first = [cut.partition for cut in cuts], 0
    members: list[list[int]] = [[] for _ in cells.labels]
    columns = []
    for cut in cuts:
        for label in np.flatnonzero(cut.level != REST):
            members[label].append(first + int(cut.level[label]))
        columns.append(np.where(cut.partition.asked, cut.partition.level + first, -1))
        first += cut.partition.levels.num_rows
    start = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
    targets = Targets(start, np.array([t for m in members for t in m], dtype=np.int32), first)
    member = np.zeros((len(members), first))
    for row, own in enumerate(members):
        member[row, own] = 1.0
    sampled = [[np.zeros(len(p.place)) for _ in totals.trials] for p in partitions]
    if sampling:
        spreads = [_spreads(model, cells, member, totals, stage) for stage in range(len(totals.trials))]
        sampled = [[_noise(s, p, c) for s in spreads] for p, c in zip(partitions, columns, strict=True)]
    return PersonsSource(model, cells, targets, partitions, columns, totals, match_totals, sampled, n_jobs)


def _rates(
    sums: FloatArray,
    below: FloatArray | None,
    whole: FloatArray,
    part: Partition,
    column: IntArray,
    index: IntArray,
    places: slice,
) -> FloatArray:
    """Give the rates of parts, (n_draws, m), from sums over targets and the rates of whole places.

    Parameters
    ----------
    sums, below : (n_draws, q, n_targets)
        Sums of probabilities and, where not everybody is asked, of who is.
    whole : (n_draws, q)
    """
    target, place = column[index], part.place[index] - places.start
    asked = target >= 0
    out = np.empty((len(sums), len(index)))
    at, to = place[asked], target[asked]
    bottom = part.share[index][asked] if below is None else np.maximum(below[:, at, to], 1e-300)
    out[:, asked] = sums[:, at, to] / bottom
    if (~asked).any():
        rest = place[~asked]
        mine = np.unique(target[asked]) if asked.any() else np.empty(0, dtype=np.intp)
        taken = sums[:, :, mine].sum(axis=2)[:, rest]
        left = part.share[index][~asked]
        if below is not None:
            left = np.maximum(1.0 - below[:, :, mine].sum(axis=2)[:, rest], 1e-300)
        out[:, ~asked] = (whole[:, rest] - taken) / left
    return out


def _spreads(
    model: PersonsModel, cells: PlaceCells, member: FloatArray, totals: Totals, stage: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give sums of weight, of probabilities and of their squares by place and target, (q, n_targets + 1); the last is everybody."""
    pairs, fit = cells.pairs, model.fits[stage]
    eta = model.eta(cells.codes, fit.linear.beta)
    p = probabilities(pairs, eta, fit.linear.f)
    q, n = pairs.n_places, len(member)
    at = pairs.place * n + cells.label
    sums = [
        np.bincount(at, weights=pairs.weight * v, minlength=q * n).reshape(q, n) for v in (np.ones_like(p), p, p**2)
    ]
    weight, first, second = (np.column_stack([s @ member, s.sum(axis=1)]) for s in sums)
    return weight, first, second


def _noise(spread: tuple[FloatArray, FloatArray, FloatArray], part: Partition, column: IntArray) -> FloatArray:
    """Give the standard deviation of each part's logit that the sampling of its people makes, (m,).

    The variance between people of the part, with one person of ordinary spread added: a mean of few people lies too near to them.
    """
    weight, first, second = spread
    mine = np.unique(column[column >= 0])
    all_rate = first[:, -1] / weight[:, -1]
    usual = np.maximum(second[:, -1] / weight[:, -1] - all_rate**2, 0.0)
    place, asked = part.place, column >= 0

    def own(sums: FloatArray) -> FloatArray:
        out = np.empty(len(place))
        out[asked] = sums[place[asked], column[asked]]
        out[~asked] = sums[place[~asked], -1] - sums[place[~asked]][:, mine].sum(axis=1)
        return out

    w = np.maximum(own(weight), 1e-300)
    rate = np.clip(own(first) / w, 1e-9, 1.0 - 1e-9)
    between = np.maximum(own(second) / w - rate**2, 0.0) + usual[place] / np.maximum(part.effective, 1.0)
    # the part that is everybody has the place's total, which is counted
    open_ = np.clip(1.0 - part.share, 0.0, 1.0)
    return np.asarray(np.sqrt(open_ * between / np.maximum(part.effective, 1.0)) / (rate * (1.0 - rate)))
