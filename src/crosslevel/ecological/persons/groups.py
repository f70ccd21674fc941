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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import linalg, special

from crosslevel.data.batches import Batches
from crosslevel.data.checks import count_jobs
from crosslevel.data.place_cells import Labels, Pairs, PlaceCells, count_people
from crosslevel.data.totals import Totals, check_people
from crosslevel.ecological.answers import Source
from crosslevel.ecological.confounding import SHIPPED, Confounding, LearnedConfounding, cutting_columns
from crosslevel.ecological.persons.group_rates import Telling, telling_columns
from crosslevel.ecological.persons.model import (
    Effects,
    PersonsModel,
    asked_next,
    cell_logits,
    number_pairs,
    observed_rate,
    rake_cells,
    shares_left,
    symmetric_root,
)
from crosslevel.ecological.persons.survey import SurveyPosterior
from crosslevel.ecological.persons.sweeps import PartSlopes, part_slopes, place_effects, probabilities
from crosslevel.ecological.subgroups import Partition, Parts, Question, Request, cut_places, labels_of
from crosslevel.typing import AnyArray, FloatArray, IntArray, Progress

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
        for name, apart in zip(model.bins.names, model.segregation.tolist(), strict=True)
    }
    return Allowance(found, shrinkage)


def kept_effects(model: PersonsModel, allowance: Allowance | None) -> FloatArray:
    """Give what is kept of each effect; of two columns together, as of the one that is shrunk more."""
    if allowance is None:
        return np.ones(len(model.effects.B))
    by_column = [allowance.shrinkage.get(name, 0.0) for name in model.bins.names]
    amounts = [*by_column, *(max(by_column[a], by_column[b]) for a, b in model.effects.pairs)]
    return np.asarray(1.0 - np.repeat(amounts, model.effects.widths))


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
class _Stage:
    """One question for everybody: effects as they are answered, place effects, and who is asked."""

    effects: FloatArray
    eta: FloatArray
    f: FloatArray
    pairs: Pairs


@dataclass(frozen=True, eq=False)
class GroupSource:
    """Parts of places, and draws of their logits.

    Attributes
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
    n_jobs : int
    """

    model: PersonsModel
    cells: PlaceCells
    parts: list[Parts]
    columns: list[set[str]]
    totals: Totals
    allowance: Allowance | None
    n_jobs: int
    kept: dict[object, object] = field(default_factory=dict, repr=False)

    block = 10_000_000
    """Logits drawn at a time."""

    @property
    def partitions(self) -> list[Partition]:
        """The parts of places, a partition for each thing asked."""
        return [part.partition for part in self.parts]

    def logits(self, places: slice, parts: Sequence[IntArray], n_draws: int, seed: int) -> list[list[FloatArray]]:
        """Draw the logits of parts of neighboring places under the model: by partition, then by question, (n_draws, m) each."""
        out = []
        for number, index in enumerate(parts):
            found = []
            for stage in range(len(self.totals.trials)):
                at = self._slopes(number, stage, places, index)
                drawn = self._effect_draws(stage, n_draws, seed)
                f = at.logit + drawn @ at.G[:, : drawn.shape[1]].T
                place = self.partitions[number].place[index]
                f += self._by_place((SAMPLED, stage, number), place, self._noise(number, index, at), n_draws, seed)
                found.append(f)
            out.append(found)
        return out

    def confounded(
        self, number: int, places: slice, index: IntArray, logits: Sequence[FloatArray], seed: int
    ) -> list[FloatArray]:
        """Add to the logits of a partition's parts what the model does not know: by question, (n_draws, m)."""
        assert self.allowance is not None
        given = self.allowance.confounding
        part = self.partitions[number]
        place, level = part.place[index], part.level[index]
        out = []
        for stage, f in enumerate(logits):
            n_draws = len(f)
            at, scale = self._slopes(number, stage, places, index), self._scale(stage, n_draws, seed)
            posterior = self._posterior(stage)
            wide, pairs = f.copy(), self._codes(number, stage)[1]
            if posterior is None:
                shared = self._shared_draws(stage, n_draws, seed)
                wide += shared @ at.G[:, : shared.shape[1]].T
            else:  # allows for confounding already, but of pairs of levels that the survey was not asked about
                pairs = pairs[len(posterior.pairs) :]
            if pairs:
                more = self._pair_draws(stage, pairs, n_draws, seed)
                wide += more @ at.G[:, at.G.shape[1] - more.shape[1] :].T
            if untold := self._telling(number).untold:
                rng = _stream(seed, OWN, stage, number)
                own = np.sqrt(untold) * given.tau * scale * rng.standard_normal((n_draws, part.levels.num_rows + 1))
                wide += own[:, level]  # the rest is the last
            if given.omega > 0:
                size = np.full(len(place), given.omega)
                wide += scale * self._by_place((LOCAL, stage, number), place, size, n_draws, seed)
            out.append(wide)
        return out

    def distance(self, number: int, parts: IntArray) -> FloatArray | None:
        """Distances of vectors have no meaning here."""
        return None

    def _stages(self) -> list[_Stage]:
        """Prepare every question, each among those who are left after the one before."""
        if "stages" in self.kept:
            return self.kept["stages"]  # type: ignore[return-value]
        model, pairs, stages = self.model, self.cells.pairs, []
        codes = model.effects.codes(self.cells.codes)
        for stage, fit in enumerate(model.fits[: len(self.totals.trials)]):
            posterior, own = self._posterior(stage), codes
            if posterior is None:
                effects = kept_effects(model, self.allowance) * (model.effects.B @ fit.beta)
            else:
                effects, own = posterior.theta, number_pairs(model.effects, codes, posterior.pairs)
            eta = cell_logits(effects, own)
            inside = np.clip(observed_rate(self.totals, stage), CLIPPED, 1.0 - CLIPPED)
            f = place_effects(pairs, eta, inside, special.logit(inside), self.n_jobs)
            stages.append(_Stage(effects, eta, f, pairs))
            left = asked_next(self.totals, stage, probabilities(pairs, eta, f)) * pairs.weight
            pairs = Pairs(pairs.start, pairs.cell, shares_left(left, pairs))
        self.kept["stages"] = stages
        return stages

    def _slopes(self, number: int, stage: int, places: slice, index: IntArray) -> PartSlopes:
        """Sum the people of neighboring places to parts; kept until others are asked for."""
        if self.kept.get("places") != places:
            for key in [k for k in self.kept if isinstance(k, tuple) and k[0] == "slopes"]:
                del self.kept[key]
            self.kept["places"] = places
        key = ("slopes", number, stage)
        if key not in self.kept:
            at, part = self._stages()[stage], self.partitions[number]
            some = slice(int(at.pairs.start[places.start]), int(at.pairs.start[places.stop]))
            pairs, (codes, columns) = at.pairs.take(places), self._codes(number, stage)
            local = np.full(len(part.place) + 1, -1, dtype=np.int64)
            local[index] = np.arange(len(index))
            n_effects = len(self.model.effects.B) + sum(
                self.model.effects.sizes[a] * self.model.effects.sizes[b] for a, b in columns
            )
            own = local[self.parts[number].of(pairs.place + places.start, self.cells.label[some])]
            where, effective = part.place[index] - places.start, part.effective[index]
            self.kept[key] = part_slopes(pairs, at.eta, at.f[places], codes, n_effects, own, where, effective)
        return self.kept[key]  # type: ignore[return-value]

    def _posterior(self, stage: int) -> SurveyPosterior | None:
        """Give the effects of a question given a survey, where there is one."""
        found = self.model.surveyed
        if found is None:
            return None
        return found.model[stage] if self.allowance is None else found.confounding[stage]

    def _codes(self, number: int, stage: int) -> tuple[AnyArray, list[tuple[int, int]]]:
        """Number the effects of every kind of people; with pairs of levels where those count, those of a survey first."""
        posterior = self._posterior(stage)
        asked: tuple[int, ...] = ()
        if self.allowance is not None and self.allowance.confounding.pairs:
            asked = self._telling(number).columns
        known = () if posterior is None else posterior.pairs
        key = ("codes", asked, known)
        if key not in self.kept:
            effects = self.model.effects
            columns = [*known, *(pair for pair in asked_pairs(effects, asked) if pair not in known)]
            self.kept[key] = number_pairs(effects, effects.codes(self.cells.codes), columns), columns
        return self.kept[key]  # type: ignore[return-value]

    def _telling(self, number: int) -> Telling:
        """Say which features tell what a partition is cut by: those it names, else those that other columns follow from."""
        key = ("telling", number)
        if key not in self.kept:
            bins, levels = self.model.bins, self.partitions[number].levels
            sizes = dict(zip(bins.names, bins.sizes, strict=True))
            named = tuple(j for j, name in enumerate(bins.names) if name in self.columns[number])
            fine = any(n in sizes and len(levels[n].unique()) > sizes[n] for n in levels.column_names)
            found = Telling(named, 0.0)
            if fine or not self.columns[number] <= set(sizes):
                pairs = self.cells.pairs
                weight = self.cells.total[pairs.place] * pairs.weight
                level = self.parts[number].level[self.cells.label]
                level = np.where(level < 0, levels.num_rows, level)  # the rest is the last
                codes = self.cells.codes[pairs.cell]
                found = telling_columns(level, codes, bins.sizes, weight, len(self.columns[number]))
                found = Telling(tuple(sorted({*named, *found.columns})), found.untold)
            self.kept[key] = found
        return self.kept[key]  # type: ignore[return-value]

    def _effect_draws(self, stage: int, n_draws: int, seed: int) -> FloatArray:
        """Draw effects about those found, (n_draws, n_effects), as the fit has them."""
        key = ("effects", stage, n_draws, seed)
        if key not in self.kept:
            fit, posterior = self.model.fits[stage], self._posterior(stage)
            z = self._by_term(EFFECTS, stage, n_draws, seed)
            if posterior is None:
                keep = kept_effects(self.model, self.allowance)
                self.kept[key] = (z @ symmetric_root(fit.covariance) @ self.model.effects.B.T) * keep
            else:
                z = np.hstack([z, *self._by_pair(stage, posterior.pairs, n_draws, seed)])
                self.kept[key] = z @ symmetric_root(posterior.covariance)
        return self.kept[key]  # type: ignore[return-value]

    def _by_term(self, what: int, stage: int, n_draws: int, seed: int) -> FloatArray:
        """Draw a standard normal for every effect, column by column by its name, (n_draws, n_effects)."""
        names = self.model.effects.names(self.model.bins.names)
        widths = self.model.effects.widths
        drawn = [
            _stream(seed, what, stage, name).standard_normal((n_draws, width))
            for name, width in zip(names, widths, strict=True)
        ]
        return np.hstack(drawn)

    def _scale(self, stage: int, n_draws: int, seed: int) -> FloatArray:
        """Give how many times tau, omega and, with tails, distance a draw takes, (n_draws, 1): uncertain if few columns were hidden."""
        assert self.allowance is not None
        degrees = self.allowance.confounding.degrees
        if degrees is None:
            return np.ones((n_draws, 1))
        return np.asarray(np.sqrt(degrees / _stream(seed, TAIL, stage).chisquare(degrees, (n_draws, 1))))

    def _shared_draws(self, stage: int, n_draws: int, seed: int) -> FloatArray:
        """Draw the confounding of effects that all places share, (n_draws, n_effects)."""
        key = ("shared", stage, n_draws, seed)
        if key not in self.kept:
            effects = self.model.effects
            z = self._by_term(CONFOUNDED, stage, n_draws, seed)
            for j, (a, b) in enumerate(effects.columns):
                z[:, a:b] = z[:, a:b] @ symmetric_root(effects.correlation(j))
            z[:, sum(effects.sizes) :] = 0.0  # of two columns together, pairs count
            names = effects.names(self.model.bins.names)
            xi = [_stream(seed, DISTANCE, stage, name).standard_normal((n_draws, 1)) for name in names]
            away = np.repeat(np.hstack(xi), effects.widths, axis=1) * self._stages()[stage].effects
            self.kept[key] = self._with_tails(stage, z, away, n_draws, seed)
        return self.kept[key]  # type: ignore[return-value]

    def _with_tails(self, stage: int, z: FloatArray, away: FloatArray, n_draws: int, seed: int) -> FloatArray:
        """Add what confounds effects to what may be contextual of them; with heavy tails effects are drawn anew, their prior stretched."""
        assert self.allowance is not None
        given, scale = self.allowance.confounding, self._scale(stage, n_draws, seed)
        if given.tail is None:
            return given.tau * scale * z + given.distance * away
        effects, fit = self.model.effects, self.model.fits[stage]
        names = effects.names(self.model.bins.names)
        scales = given.tail.scales(names)
        which = _stream(seed, COLUMNS, stage).permutation(np.arange(n_draws) % scales.shape[1])
        stretch = scale * np.repeat(scales[:, which].T, effects.widths, axis=1)
        wider = Stretched(fit.covariance, fit.hyperparameters.effect_variance, effects.widths)
        normal = [self._by_term(what, stage, n_draws, seed) for what in (EFFECTS, PRIOR)]
        drawn = np.empty_like(z)
        for number in np.unique(which):
            own = which == number
            drawn[own] = wider.draw(scales[:, number], *(values[own] for values in normal))
        drawn = (drawn @ effects.B.T) * kept_effects(self.model, self.allowance)
        apart = given.tail.tau * z + given.tail.distance * away
        return np.asarray(stretch * apart + drawn - self._effect_draws(stage, n_draws, seed))

    def _pair_draws(self, stage: int, columns: list[tuple[int, int]], n_draws: int, seed: int) -> FloatArray:
        """Draw effects of pairs of levels, (n_draws, n_pairs)."""
        assert self.allowance is not None
        given = self.allowance.confounding
        size = np.sqrt(given.pairs) * given.of_effects.tau * self._scale(stage, n_draws, seed)
        return np.asarray(size * np.hstack(self._by_pair(stage, columns, n_draws, seed)))

    def _by_pair(self, stage: int, columns: Sequence[tuple[int, int]], n_draws: int, seed: int) -> list[FloatArray]:
        """Draw a standard normal for every pair of levels, columns by their names: (n_draws, levels x levels) each."""
        names, sizes, drawn = self.model.bins.names, self.model.effects.sizes, []
        for pair in columns:
            one, two = sorted(pair, key=lambda j: names[j])
            rng = _stream(seed, PAIRS, stage, names[one], names[two])
            z = rng.standard_normal((n_draws, sizes[one], sizes[two]))
            drawn.append((z if (one, two) == pair else z.transpose(0, 2, 1)).reshape(n_draws, -1))
        return drawn

    def _noise(self, number: int, index: IntArray, at: PartSlopes) -> FloatArray:
        """Give the standard deviation of each part's logit that the sampling of its people makes, (m,)."""
        part, P = self.partitions[number], special.expit(at.logit)
        # the part that is everybody has the place's total, which is counted
        open_ = np.clip(1.0 - part.share[index], 0.0, 1.0)
        return np.asarray(np.sqrt(open_ * at.within / np.maximum(part.effective[index], 1.0)) / (P * (1.0 - P)))

    @staticmethod
    def _by_place(key: tuple[int, ...], place: IntArray, size: FloatArray, n_draws: int, seed: int) -> FloatArray:
        """Draw deviates of parts, the same whichever other places are asked for."""
        out = np.empty((n_draws, len(place)))
        order = np.argsort(place, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            if len(some):
                out[:, some] = _stream(seed, *key, int(place[some[0]])).standard_normal((n_draws, len(some)))
        return out * size


def count_again(
    model: EcologicalInference, people: Batches, labels: Labels | None = None, progress: Progress | None = None
) -> PlaceCells:
    """Count the people of the fit again, with the weights that it gave them; refuse others."""
    places = model.places_
    found = count_people(
        people,
        model.model_.bins,
        place=places.by,
        keys=places.keys,
        weight=model.weight_,
        labels=labels,
        counted=model._counted,
        progress=progress,
        engine=None if model._counted or model.engine == "local" else model._cluster,
    )
    check_people(places.keys, found.total, places, model.place_weight_)
    return rake_cells(model.model_, found)


def source_of(
    model: EcologicalInference, request: Request, question: Question, people: Batches, progress: Progress | None
) -> Source:
    """Go over the people once and cut places in the parts asked for."""
    places = model.places_
    found = count_again(model, people, labels_of(request, people.schema), progress)
    kinds = {name: people.schema.field(name).type for name in request.by}
    types = {n: t.value_type if pa.types.is_dictionary(t) else t for n, t in kinds.items()}
    allowance = allowance_of(model.model_, model.confounding_) if question.interval == "confounding" else None
    parts, columns = cut_places(found, request, types), cutting_columns(request)
    return GroupSource(model.model_, found, parts, columns, places.totals, allowance, count_jobs(model.n_jobs))


def _stream(seed: int, *key: int | str) -> np.random.Generator:
    """Give the random numbers that belong to a key."""
    words = tuple(zlib.crc32(k.encode()) if isinstance(k, str) else k for k in key)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
