"""What the model says about subgroups: rates of parts of places at the effects found, and joint draws around them.

G_ig = d logit P_ig / d effects at given totals, from one pass over people; a draw of effects moves the logit of every part by its own
G_ig, and the place's level is found again so that its parts add up to the total. The same draws of effects serve every question, so
nation, places, crossings and contrasts have one covariance:

    V (the fit's), shrunk   +   tau^2 (R on every level, pairs I on every two levels)   +   (distance x effect)^2, one deviate per column

and omega^2 more for each part of each place. Each column has one scale with heavy tails that multiplies the prior of its effects and what
confounds them, but for pairs: effects of two logits and more are rare, but not as rare as a normal law says. With a survey that
covariance, its constants those of a normal law, is the prior of effects, and what is drawn is their posterior
(:mod:`crosslevel.ecological.persons.survey`). Columns that are no features have effects of their own about nothing, of variance tau^2
times the share of them that no feature tells.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from scipy import linalg, special

from crosslevel.data.columns import Category
from crosslevel.data.people import People
from crosslevel.data.place_cells import LabelKey, Labels, PlaceCells, count_people
from crosslevel.data.places import Totals, check_people
from crosslevel.ecological.answers import Drawn, Source
from crosslevel.ecological.confounding import SHIPPED, Confounding, LearnedConfounding, cutting_columns
from crosslevel.ecological.distance import seen_places
from crosslevel.ecological.persons.model import (
    Effects,
    Kinds,
    PersonsModel,
    Telling,
    asked_next,
    kept_effects,
    level_shares,
    observed_rate,
    rake_cells,
    shares_left,
    symmetric_root,
    telling_columns,
)
from crosslevel.ecological.persons.survey import SurveyPosterior
from crosslevel.ecological.persons.sweeps import PartSlopes, part_shares, part_slopes, probabilities
from crosslevel.ecological.subgroups import Partition, Parts, Question, Request, cut_places, labels_of
from crosslevel.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

CLIPPED = 1e-9
"""Totals of none or all have no logit; their parts are set when totals are matched."""
EFFECTS, CONFOUNDED, DISTANCE, PAIRS, OWN, TAIL = range(6)
SAMPLED, LOCAL, COLUMNS, PRIOR = range(7, 11)
"""First numbers of the keys of random streams: what is drawn depends on its name alone, not on what else is drawn."""


@dataclass(frozen=True)
class Allowance:
    """What answers allow for beyond the model.

    Attributes
    ----------
    confounding : Confounding
    shrinkage : mapping of column to float
        How far the effects of each column are shrunk.
    """

    confounding: Confounding
    shrinkage: Mapping[str, float]


def allowance_of(model: PersonsModel, learned: LearnedConfounding | None) -> Allowance:
    """Say how far effects are shrunk and what may confound them: as learned from hidden columns, or with the shipped constants."""
    found, known = (SHIPPED, {}) if learned is None else (learned.confounding, dict(learned.shrinkage))
    if model.surveyed is not None:  # its posterior is about normal
        found = replace(found, tail=None)
    shrinkage = {
        name: known.get(name, SHIPPED.shrinkage if apart > SHIPPED.segregated else 0.0)
        for name, apart in zip(model.bins.names, model.measured.segregation.tolist(), strict=True)
    }
    return Allowance(found, shrinkage)


def kept_by(model: PersonsModel, allowance: Allowance | None) -> FloatArray:
    """Give what is kept of each effect of a model; all of it where the model alone is asked."""
    return kept_effects(model.effects, model.bins.names, {} if allowance is None else allowance.shrinkage)


def asked_pairs(effects: Effects, asked: Sequence[int]) -> list[tuple[int, int]]:
    """Name the pairs of columns whose effects count: each column asked for with every other column."""
    n = len(effects.sizes)
    return [(a, b) for a in range(n) for b in range(a + 1, n) if a in asked or b in asked]


class Stretched:
    """Posterior covariances of coefficients whose prior is wider or narrower than that of the fit, the totals being the same.

    Parameters
    ----------
    covariance : (p, p)
        Of the fit.
    effect_variance : float
        Its prior variance of a coefficient.
    widths : sequence of int
        Coefficients of each term.
    """

    def __init__(self, covariance: FloatArray, effect_variance: float, widths: Sequence[int]) -> None:
        self.effect_variance, self.widths = effect_variance, widths
        values, vectors = linalg.eigh(linalg.inv(covariance) - np.eye(len(covariance)) / effect_variance)
        self.root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # of what the totals tell
        self.seen = self.root @ self.root

    def covariance(self, scale: FloatArray) -> FloatArray:
        """Give the covariance with the standard deviation of the prior of each term multiplied by its scale, (n_terms,)."""
        return np.asarray(linalg.inv(self._precision(scale)))

    def draw(self, scale: FloatArray, z: FloatArray, more: FloatArray) -> FloatArray:
        """Draw coefficients about those found from standard normals, (n, p) twice: the order of terms changes nothing."""
        force = z @ self.root + more / np.sqrt(self._variance(scale))
        return np.asarray(linalg.solve(self._precision(scale), force.T, assume_a="pos").T)

    def _precision(self, scale: FloatArray) -> FloatArray:
        return np.asarray(self.seen + np.diag(1.0 / self._variance(scale)))

    def _variance(self, scale: FloatArray) -> FloatArray:
        return np.asarray(self.effect_variance * np.repeat(scale, self.widths) ** 2)


@dataclass(frozen=True, eq=False)
class Stage:
    """One question: effects as they are answered, who is asked it, and draws.

    Attributes
    ----------
    model : PersonsModel
    allowance : Allowance or None
        None where the model alone is asked.
    number : int
    kinds : Kinds
        Of those who are asked.
    theta : (n_effects,)
        Effects as they are answered.
    eta, f : (n_cells,), (q,)
        Logits of kinds of people, and place effects.
    n_draws, seed : int
    """

    model: PersonsModel
    allowance: Allowance | None
    number: int
    kinds: Kinds
    theta: FloatArray
    eta: FloatArray
    f: FloatArray
    n_draws: int
    seed: int

    @property
    def posterior(self) -> SurveyPosterior | None:
        """Effects given a survey, where there is one."""
        return _posterior(self.model, self.allowance, self.number)

    @cached_property
    def effects(self) -> FloatArray:
        """Draws of effects about those found, (n_draws, n_effects), as the fit has them."""
        fit, posterior, z = self.model.fits[self.number], self.posterior, self._by_term(EFFECTS)
        if posterior is None:
            keep = kept_by(self.model, self.allowance)
            return np.asarray((z @ symmetric_root(fit.covariance) @ self.model.effects.B.T) * keep)
        return np.asarray(np.hstack([z, *self._by_pair(posterior.pairs)]) @ symmetric_root(posterior.covariance))

    @cached_property
    def shared(self) -> FloatArray:
        """Draws of the confounding of effects that all places share, (n_draws, n_effects)."""
        effects, z = self.model.effects, self._by_term(CONFOUNDED)
        for j, (a, b) in enumerate(effects.columns):
            z[:, a:b] = z[:, a:b] @ symmetric_root(effects.correlation(j))
        z[:, sum(effects.sizes) :] = 0.0  # of two columns together, pairs count
        names = effects.names(self.model.bins.names)
        xi = [self.stream(DISTANCE, name).standard_normal((self.n_draws, 1)) for name in names]
        return self._with_tails(z, np.repeat(np.hstack(xi), effects.widths, axis=1) * self.theta)

    @cached_property
    def scale(self) -> FloatArray:
        """How many times tau, omega and, with tails, distance a draw takes, (n_draws, 1): uncertain if few columns were hidden."""
        degrees = self.given.degrees
        if degrees is None:
            return np.ones((self.n_draws, 1))
        return np.asarray(np.sqrt(degrees / self.stream(TAIL).chisquare(degrees, (self.n_draws, 1))))

    @property
    def given(self) -> Confounding:
        """What intervals allow for."""
        assert self.allowance is not None
        return self.allowance.confounding

    def pairs(self, columns: Sequence[tuple[int, int]]) -> FloatArray:
        """Draw effects of pairs of levels, (n_draws, n_pairs)."""
        size = np.sqrt(self.given.pairs) * self.given.of_effects.tau * self.scale
        return np.asarray(size * np.hstack(self._by_pair(columns)))

    def stream(self, what: int, *key: int | str) -> np.random.Generator:
        """Give the random numbers that belong to a key."""
        words = tuple(zlib.crc32(k.encode()) if isinstance(k, str) else k for k in key)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(what, self.number, *words)))

    def by_place(self, what: int, number: int, place: IntArray, size: FloatArray) -> FloatArray:
        """Draw deviates of parts, the same whichever other places are asked for."""
        out = np.empty((self.n_draws, len(place)))
        order = np.argsort(place, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            if len(some):
                rng = self.stream(what, number, int(place[some[0]]))
                out[:, some] = rng.standard_normal((self.n_draws, len(some)))
        return out * size

    def _by_term(self, what: int) -> FloatArray:
        """Draw a standard normal for every effect, column by column by its name, (n_draws, n_effects)."""
        effects = self.model.effects
        named = zip(effects.names(self.model.bins.names), effects.widths, strict=True)
        return np.hstack([self.stream(what, name).standard_normal((self.n_draws, width)) for name, width in named])

    def _by_pair(self, columns: Sequence[tuple[int, int]]) -> list[FloatArray]:
        """Draw a standard normal for every pair of levels, columns by their names: (n_draws, levels x levels) each."""
        names, sizes, drawn = self.model.bins.names, self.model.effects.sizes, []
        for pair in columns:
            one, two = sorted(pair, key=lambda j: names[j])
            z = self.stream(PAIRS, names[one], names[two]).standard_normal((self.n_draws, sizes[one], sizes[two]))
            drawn.append((z if (one, two) == pair else z.transpose(0, 2, 1)).reshape(self.n_draws, -1))
        return drawn

    def _with_tails(self, z: FloatArray, away: FloatArray) -> FloatArray:
        """Add what confounds effects to what may be contextual of them; with heavy tails effects are drawn anew, their prior stretched."""
        given, scale = self.given, self.scale
        if given.tail is None:
            return given.tau * scale * z + given.distance * away
        effects, fit = self.model.effects, self.model.fits[self.number]
        scales = given.tail.scales(effects.names(self.model.bins.names))
        which = self.stream(COLUMNS).permutation(np.arange(self.n_draws) % scales.shape[1])
        stretch = scale * np.repeat(scales[:, which].T, effects.widths, axis=1)
        wider = Stretched(fit.covariance, fit.hyperparameters.effect_variance, effects.widths)
        normal, drawn = [self._by_term(what) for what in (EFFECTS, PRIOR)], np.empty_like(z)
        for number in np.unique(which):
            own = which == number
            drawn[own] = wider.draw(scales[:, number], *(values[own] for values in normal))
        drawn = (drawn @ effects.B.T) * kept_by(self.model, self.allowance)
        apart = given.tail.tau * z + given.tail.distance * away
        return np.asarray(stretch * apart + drawn - self.effects)


def _posterior(model: PersonsModel, allowance: Allowance | None, stage: int) -> SurveyPosterior | None:
    found = model.surveyed
    if found is None:
        return None
    return found.model[stage] if allowance is None else found.confounding[stage]


class GroupSource:
    """Parts of places, and draws of their logits.

    Parameters
    ----------
    model : PersonsModel
    cells : PlaceCells
        People by place, cell and label, raked as in the fit.
    parts : list of Parts
        What is asked for.
    columns : list of set of str
        Columns of people that cut each of them.
    totals : Totals
    allowance : Allowance or None
        None where the model alone is asked.
    draws : (n_draws, seed)
    """

    block = 10_000_000
    """Logits drawn at a time."""

    def __init__(
        self,
        model: PersonsModel,
        cells: PlaceCells,
        parts: list[Parts],
        columns: list[set[str]],
        totals: Totals,
        allowance: Allowance | None,
        draws: tuple[int, int],
    ) -> None:
        self.model, self.cells, self.parts, self.allowance = model, cells, parts, allowance
        self.partitions = [part.partition for part in parts]
        self.telling = [self._telling(part, own) for part, own in zip(parts, columns, strict=True)]
        self.stages = list(self._stages(totals, draws))
        self.crossed: dict[tuple[tuple[int, int], ...], Kinds] = {}
        self.levels = np.ascontiguousarray(model.effects.codes(cells.codes)[:, : len(model.effects.sizes)])
        self.seen = seen_places(level_shares(cells.pairs, self.levels, sum(model.effects.sizes)))

    def draw(self, number: int, places: slice, parts: IntArray, n_stages: int) -> Drawn:
        """Draw the first questions of parts of neighboring places: under the model, and with what it does not know."""
        part, logits, wide = self.partitions[number], [], []
        local = np.full(len(part.place) + 1, -1, dtype=np.int64)
        local[parts] = np.arange(len(parts))
        start = self.cells.pairs.start
        some = slice(int(start[places.start]), int(start[places.stop]))
        place = np.repeat(np.arange(places.start, places.stop), np.diff(start[places.start : places.stop + 1]))
        own = local[self.parts[number].of(place, self.cells.label[some])]
        for stage in self.stages[:n_stages]:
            kinds = self._kinds(number, stage)
            pairs, f = stage.kinds.pairs.take(places), stage.f[places]
            where = part.place[parts] - places.start
            sums = (own, where, part.effective[parts])
            at = part_slopes(pairs, stage.eta, f, kinds.codes, kinds.n_effects, *sums)
            drawn = at.logit + stage.effects @ at.G[:, : stage.effects.shape[1]].T
            drawn += stage.by_place(SAMPLED, number, part.place[parts], _noise(part, parts, at))
            logits.append(drawn)
            if self.allowance is not None:
                wide.append(self._confounded(number, stage, parts, drawn, at.G, kinds.crossed))
        return Drawn(logits, wide or None, self._distance(number, some, parts, own))

    def _confounded(
        self,
        number: int,
        stage: Stage,
        parts: IntArray,
        drawn: FloatArray,
        G: FloatArray,
        crossed: Sequence[tuple[int, int]],
    ) -> FloatArray:
        """Add to the logits of a partition's parts what the model does not know, (n_draws, m)."""
        part, given, posterior, wide = self.partitions[number], stage.given, stage.posterior, drawn.copy()
        if posterior is None:
            wide += stage.shared @ G[:, : stage.shared.shape[1]].T
        else:  # allows for confounding already, but of pairs of levels that the survey was not asked about
            crossed = crossed[len(posterior.pairs) :]
        if crossed:
            more = stage.pairs(crossed)
            wide += more @ G[:, G.shape[1] - more.shape[1] :].T
        if untold := self.telling[number].untold:
            z = stage.stream(OWN, number).standard_normal((stage.n_draws, part.levels.num_rows + 1))
            wide += (np.sqrt(untold) * given.tau * stage.scale * z)[:, part.level[parts]]  # the rest is the last
        if given.omega > 0:
            size = np.full(len(parts), given.omega)
            wide += stage.scale * stage.by_place(LOCAL, number, part.place[parts], size)
        return wide

    def _distance(self, number: int, some: slice, parts: IntArray, own: IntArray) -> FloatArray:
        """Say how far the shares of levels of parts lie from those of the nearest place; of what nobody asks for, nothing."""
        part, out = self.partitions[number], np.zeros(len(parts))
        asked = np.flatnonzero(part.asked[parts])
        pairs = self.cells.pairs
        inside = np.append(part.asked[parts], False)[own]
        cell, at = pairs.cell[some][inside], own[inside]
        n, n_columns = np.maximum(part.effective[parts[asked]], 1.0), len(self.model.effects.sizes)
        size = (len(parts), self.seen.vectors.shape[1])
        shares = part_shares(cell, pairs.weight[some][inside], self.levels, at, size)[asked]
        shares *= n_columns / shares.sum(axis=1, keepdims=True)
        # people of one part are as far from its mean as those of a place, and the mean of few lies too near to them
        usual = n_columns - float((self.seen.vectors**2).sum(axis=1).mean())
        spread = np.maximum(n_columns - (shares**2).sum(axis=1), 0.0) + usual / n
        out[asked] = self.seen.distance(shares, spread / n)
        return out

    def _stages(self, totals: Totals, draws: tuple[int, int]) -> Iterator[Stage]:
        """Prepare every question, each among those who are left after the one before."""
        model, pairs = self.model, self.cells.pairs
        for number, fit in enumerate(model.fits):
            posterior = _posterior(model, self.allowance, number)
            theta = kept_by(model, self.allowance) * (model.effects.B @ fit.beta)
            crossed: tuple[tuple[int, int], ...] = ()
            if posterior is not None:
                theta, crossed = posterior.theta, posterior.pairs
            kinds = Kinds(model.effects, self.cells.codes, pairs, crossed)
            inside = np.clip(observed_rate(totals, number), CLIPPED, 1.0 - CLIPPED)
            eta, f = kinds.at(theta, inside)
            yield Stage(model, self.allowance, number, kinds, theta, eta, f, *draws)
            left = asked_next(totals, number, probabilities(pairs, eta, f)) * pairs.weight
            pairs = replace(pairs, weight=shares_left(left, pairs))

    def _kinds(self, number: int, stage: Stage) -> Kinds:
        """Number the effects of every kind of people; with pairs of levels where those count, those of a survey first."""
        known, asked = tuple(stage.kinds.crossed), cast("tuple[int, ...]", ())
        if self.allowance is not None and self.allowance.confounding.pairs:
            asked = self.telling[number].columns
        crossed = (*known, *(pair for pair in asked_pairs(self.model.effects, asked) if pair not in known))
        if crossed not in self.crossed:
            self.crossed[crossed] = replace(stage.kinds, crossed=crossed)
        return self.crossed[crossed]

    def _telling(self, part: Parts, columns: set[str]) -> Telling:
        """Say which features tell what a partition is cut by: those it names, else those that other columns follow from."""
        bins, levels = self.model.bins, part.partition.levels
        sizes = dict(zip(bins.names, bins.sizes, strict=True))
        named = tuple(j for j, name in enumerate(bins.names) if name in columns)
        if columns <= set(sizes) and all(
            n not in sizes or len(levels[n].unique()) <= sizes[n] for n in levels.column_names
        ):
            return Telling(named, 0.0)
        pairs = self.cells.pairs
        weight = self.cells.total[pairs.place] * pairs.weight
        level = part.level[self.cells.label]
        level = np.where(level < 0, levels.num_rows, level)  # the rest is the last
        found = telling_columns(level, self.cells.codes[pairs.cell], bins.sizes, weight, len(columns))
        return Telling(tuple(sorted({*named, *found.columns})), found.untold)


def _noise(part: Partition, parts: IntArray, at: PartSlopes) -> FloatArray:
    """Give the standard deviation of each part's logit that the sampling of its people makes, (m,)."""
    P = special.expit(at.logit)
    # the part that is everybody has the place's total, which is counted
    open_ = np.clip(1.0 - part.share[parts], 0.0, 1.0)
    return np.asarray(np.sqrt(open_ * at.within / np.maximum(part.effective[parts], 1.0)) / (P * (1.0 - P)))


def count_again(model: EcologicalInference, people: People, labels: Labels | None = None) -> PlaceCells:
    """Count the people of the fit again, with the weights that it gave them; refuse others."""
    places = model.places_
    found = count_people(people, model.model_.bins, places.keys, labels, counted=model.counted_)
    check_people(places.keys, found.total, places, model.place_weight_)
    return rake_cells(model.model_, found)


def told_by_features(model: EcologicalInference, request: Request) -> PlaceCells | None:
    """Label the people of the fit by features that are asked for; None where only people themselves can tell."""
    bins, cells = model.model_.bins, model.cells_
    known = {column.name: (j, column) for j, column in enumerate(bins.encoder.columns)}
    asked = [known.get(name) for name in request.by]
    codes, levels = [], []
    for at in asked:
        if at is None or not isinstance(at[1], Category) or at[1].has_null:
            return None
        if not pa.types.is_integer(at[1].levels.type) and not pa.types.is_string(at[1].levels.type):
            return None
        codes.append(cells.codes[:, at[0]])
        levels.append(at[1].labels)
    if not codes or request.subgroups or request.where is not None:
        return None
    distinct, kind = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    label = kind.reshape(-1)[cells.pairs.cell].astype(np.int32)
    labels: list[LabelKey] = [
        (tuple(own[i] for own, i in zip(levels, row, strict=True)), ()) for row in distinct.tolist()
    ]
    return rake_cells(model.model_, replace(cells, label=label, labels=labels))


def source_of(model: EcologicalInference, request: Request, question: Question, people: People) -> Source:
    """Cut places in the parts asked for, going over the people once where features do not tell them."""
    places = model.places_
    found = told_by_features(model, request) if people is getattr(model, "people_", None) else None
    if found is None:
        found = count_again(model, people, labels_of(request, people.schema))
    types = {name: people.schema.field(name).type for name in request.by}
    allowance = allowance_of(model.model_, model.confounding_) if question.interval == "confounding" else None
    parts, columns = cut_places(found, request, types, people.table.orders), cutting_columns(request, people.schema)
    return GroupSource(model.model_, found, parts, columns, places.totals, allowance, (question.n_draws, question.seed))
