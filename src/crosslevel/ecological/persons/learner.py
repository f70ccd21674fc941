"""Learn the constants of confounding from hidden labels, and score labels of other families with them.

tau is the one whose intervals have the least mean score over labels, which a label that is far off cannot govern: once for effects of a
normal law, which is the prior that a survey changes, and once for effects of heavy tails, which intervals from totals alone have. Eight
labels of four families also choose, by the same score, which of the columns in which places differ much are shrunk: from all of them,
the column whose change lowers the score most is changed, until none does. What labels cannot tell is kept as it is shipped: how far
effects are shrunk, omega, the doubt about how much of an effect is contextual, and the degrees of freedom of the tails.

How far respondents of a group differ from its people, measured on columns that survey and people both have.

A known column t is hidden and learned back from totals and from the survey's own answers to it, selection taken as nil. Over the groups g
of all such columns, with e_tg = logit(truth) - logit(estimate),

    K_tgc = (G_g D)_c R_c (G_g D)_c',  K_tg = sum_c K_tgc,   D = d theta / d delta,   V_tg = G_g S G_g'
    mean_t mean_g e_tg^2 / (V_tg + selection^2 K_tg) = 1

Feature column c then has a standard deviation of its own, selection exp(u_c), u_c ~ N(0, 1), at the mode of

    e_tg ~ N(0, V_tg + selection^2 sum_c exp(2 u_c) K_tgc),    each group counted as a quarter: those of a label err together
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy import optimize, special, stats

from crosslevel.data.columns import Encoder
from crosslevel.data.place_cells import Bins
from crosslevel.data.surveys import Survey
from crosslevel.ecological.confounding import Confounding, LearnedConfounding
from crosslevel.ecological.persons.groups import Allowance
from crosslevel.ecological.persons.hidden_errors import (
    LEVELS,
    Errors,
    HiddenLabel,
    errors_of,
    joined,
    reach_by_tau,
    reach_of,
)
from crosslevel.ecological.persons.hidden_labels import Label
from crosslevel.ecological.persons.model import kept_effects
from crosslevel.ecological.persons.respondents import count_respondents, spread_rows
from crosslevel.ecological.persons.survey import SELECTION, Likelihood, effect_prior, fuse, pairs_of
from crosslevel.ecological.persons.survey_fit import Selection
from crosslevel.results.scores import interval_score
from crosslevel.typing import FloatArray, Step

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

FEW = 3
"""Fewer hidden labels than this tell less than the shipped constants."""
MANY_FAMILIES = 8
"""Families from which on the normal quantile serves: each is one draw of the confounding."""
TAUS = np.arange(0.0, 1.501, 0.01)
"""Values of tau that are tried."""
SCORED = 0.95
"""Level of the intervals whose score chooses tau."""
CHOOSING_LABELS, CHOOSING_FAMILIES = 8, 4
"""Labels and families that are enough to choose which columns are shrunk."""

Halves = tuple[HiddenLabel, HiddenLabel]
Shrunk = frozenset[tuple[str, float]]


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
        How far effects are shrunk; which of them are may be chosen.
    step : callable, optional
        Called after every label that a choice of columns was tried on.
    """

    def __init__(
        self,
        labels: Sequence[Halves],
        families: Mapping[str, str],
        base: Confounding,
        shrinkage: Mapping[str, float],
        step: Step | None = None,
    ) -> None:
        self.labels = {halves[0].label: halves for halves in labels}
        self.families, self.base, self.shrinkage, self.step = dict(families), base, dict(shrinkage), step
        self._errors: dict[tuple[str, Shrunk, Sequence[str]], list[dict[str, dict[str, Errors]]]] = {}
        self._by_tau: dict[tuple[str, Shrunk, bool], FloatArray | None] = {}

    def errors(
        self, label: str, shrinkage: Mapping[str, float], levels: Sequence[str] = LEVELS
    ) -> list[dict[str, dict[str, Errors]]]:
        """Give the errors of both halves of a label at some levels, effects shrunk."""
        key = (label, _shrunk(shrinkage), tuple(levels))
        if key not in self._errors:
            self._errors[key] = [errors_of(half, shrinkage, self.base.tail, levels) for half in self.labels[label]]
        return self._errors[key]

    def others(self, label: str) -> list[str]:
        """Name the labels of other families."""
        return [name for name in self.labels if self.families[name] != self.families[label]]

    def learn(self, names: Sequence[str]) -> Allowance:
        """Find the shrinkage and the tau of the least mean interval score over labels: those far off count by how far, not by its square.

        The base's are kept where labels are too few.
        """
        n_families = len({self.families[name] for name in names})
        shrinkage, chosen = dict(self.shrinkage), ""
        if len(names) >= CHOOSING_LABELS and n_families >= CHOOSING_FAMILIES and any(shrinkage.values()):
            shrinkage, chosen = self._choose(names), ", which also chose the columns that are shrunk"
        tau = self._least(names, shrinkage, tails=False)[1]
        if np.isnan(tau):
            return Allowance(self.base, self.shrinkage)
        degrees = None if n_families >= MANY_FAMILIES else float(n_families + 1)
        said = (
            f"{len(names)} columns of {n_families} families of the people given, halves of clusters kept apart{chosen}"
        )
        tail = None
        if self.base.tail is not None and tau > 0.0:  # what is not confounded has no tails of confounding either
            tail = replace(self.base.tail, tau=self._least(names, shrinkage, tails=True)[1])
        found = replace(self.base, tau=tau, tail=tail, n_labels=len(names), degrees=degrees, learned_on=said)
        return Allowance(found, shrinkage)

    def _choose(self, names: Sequence[str]) -> dict[str, float]:
        """Choose which columns are shrunk: the change of one that lowers the score most is made, until none lowers it."""
        tails = self.base.tail is not None
        found = dict(self.shrinkage)
        score = self._least(names, found, tails)[0]
        columns = [name for name, amount in found.items() if amount]
        while True:
            changed = [found | {name: 0.0 if found[name] else self.shrinkage[name]} for name in columns]
            scores = [self._least(names, one, tails)[0] for one in changed]
            best = int(np.argmin(scores))
            if not scores[best] < score:
                return found
            found, score = changed[best], scores[best]

    def _least(self, names: Sequence[str], shrinkage: Mapping[str, float], tails: bool) -> tuple[float, float]:
        """Find the least mean score and its tau; NaN where labels are too few."""
        found = (self._scores_by_tau(name, shrinkage, tails) for name in names)
        scores = [s for s in found if s is not None]
        if len(scores) < FEW:
            return float("nan"), float("nan")
        mean = np.mean(scores, axis=0)
        least = int(np.argmin(mean))
        return float(mean[least]), float(TAUS[least])

    def _scores_by_tau(self, label: str, shrinkage: Mapping[str, float], tails: bool) -> FloatArray | None:
        """Give the mean score of a label's intervals over all places for every tau; None where no group has an error."""
        key, base = (label, _shrunk(shrinkage), tails), self.base
        if key not in self._by_tau:
            halves = [joined(list(half["nation"].values())) for half in self.errors(label, shrinkage, LEVELS[:1])]
            nation = [e for e in halves if e is not None and len(e.truth)]
            self._by_tau[key] = None
            if nation:
                constants = base if tails else replace(base, tail=None)
                self._by_tau[key] = _scores_by_tau(nation, constants)
            if self.step is not None:
                self.step()
        return self._by_tau[key]

    def scores(self, label: str, allowance: Allowance, level: float) -> dict[str, Any]:
        """Score the intervals of a label's groups: rates, so that points of a percentage are hundredths."""
        halves, constants = self.errors(label, allowance.shrinkage), allowance.confounding
        nation, crossed, places = ([e for half in halves for e in half[part].values()] for part in LEVELS)
        said = {"share": self.labels[label][0].share, **_scores(nation, constants, level)}
        said["groups"] = sum(len(e.truth) for e in halves[0]["nation"].values())
        crossings = _scores(crossed, constants, level)
        said |= {f"crossing_{n}": crossings[n] for n in ("error", "coverage", "width", "score")}
        within = _scores(places, constants, level, by_people=True)
        names = ("rmse", "neighborhood_rmse", "coverage", "width", "score")
        return said | {f"place_{n}": within[n] for n in names}


def _shrunk(shrinkage: Mapping[str, float]) -> Shrunk:
    """Name what is shrunk, and how far."""
    return frozenset((name, amount) for name, amount in shrinkage.items() if amount)


def _stacked(values: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate(values) if values else np.zeros(0)


def widened(constants: Confounding, level: float) -> float:
    """Say how much longer intervals of a level are where few families were hidden: by Student's quantile over the normal one."""
    if constants.degrees is None:
        return 1.0
    tail = 0.5 * (1.0 + level)
    return float(stats.t.ppf(tail, constants.degrees) / stats.norm.ppf(tail))


def _scores(found: Sequence[Errors], constants: Confounding, level: float, by_people: bool = False) -> dict[str, float]:
    """Score intervals; every group counts alike, or by its people."""
    names = ("error", "neighborhood_error", "rmse", "neighborhood_rmse", "coverage", "width", "score")
    if not any(len(e.truth) for e in found):
        return dict.fromkeys(names, float("nan"))
    P, T, near, people = (
        _stacked([getattr(e, n) for e in found]) for n in ("estimate", "truth", "neighborhood", "people")
    )
    spread = widened(constants, level) * _stacked([reach_of(e, constants, level) for e in found])
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


def _scores_by_tau(found: Sequence[Errors], constants: Confounding) -> FloatArray:
    """Give the mean score of the intervals of some groups, each counting alike, for every tau of effects."""
    P, T = (_stacked([getattr(e, name) for e in found]) for name in ("estimate", "truth"))
    reach = np.hstack([reach_by_tau(e, constants, SCORED, TAUS) for e in found]) * widened(constants, SCORED)
    low, high = (special.expit(special.logit(P) + side * reach) for side in (-1.0, 1.0))
    return np.array([interval_score(a, b, T, SCORED) for a, b in zip(low, high, strict=True)])


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
        allowed = learner.learn(learner.others(label))
        rows.append({"label": label, "family": learner.families[label]} | learner.scores(label, allowed, level))
    table = pa.Table.from_pylist(rows)
    allowed = learner.learn(list(learner.labels))
    nation, within = (_mean([row[name] for row in rows]) for name in ("coverage", "place_coverage"))
    labels = tuple(learner.labels)
    return LearnedConfounding(allowed.confounding, allowed.shrinkage, labels, nation, within, table, level)


def _mean(values: Sequence[float]) -> float:
    """Average what there is, NaN where there is nothing."""
    there = [v for v in values if np.isfinite(v)]
    return float(np.mean(there)) if there else float("nan")


LEAST_RESPONDENTS = 1_000
"""Fewer respondents tell less of their selection than the default does."""
MOST = 2.0
LEAST_FACTOR = 1e-4
RATIO_SD, COUNTED = 1.0, 0.25
"""sd of the logarithm of a column's selection over the pooled one, and what a group counts; both were set before they were tried."""
FARTHEST = 5.0


def measure_selection(
    model: EcologicalInference, found: Sequence[Halves], labels: Sequence[Label], learned: LearnedConfounding
) -> Selection:
    """Measure selection on the hidden columns that the survey has too; the default where they are too few.

    Parameters
    ----------
    model : EcologicalInference
        Fitted with a survey.
    found : sequence of pairs of HiddenLabel
    labels : sequence of Label
        What was hidden.
    learned : LearnedConfounding
        The confounding that the prior allows for.
    """
    surveys = model.surveys_
    shared = [label for label in labels if all(set(label.query.columns) <= set(s.table.column_names) for s in surveys)]
    halves = {pair[0].label: pair for pair in found}
    shared = [label for label in shared if label.name in halves]
    n = sum(one.table.num_rows for one in surveys)
    if len(shared) < FEW or n < LEAST_RESPONDENTS:
        what = f"{len(shared)} hidden column(s) are in the survey, and at least {FEW} are needed"
        if len(shared) >= FEW:
            what = f"{n:,} respondents are too few to measure it, {LEAST_RESPONDENTS:,} are needed"
        return Selection(SELECTION, f"the default; {what}")
    rows, parts, names = [], [], model.model_.bins.names
    for label in shared:
        both = [_errors(model, half, label, surveys, learned) for half in halves[label.name]]
        e, V, K = (np.concatenate(values) for values in zip(*both, strict=True))
        parts.append((e, V, K))
        rows.append({"label": label.name, "groups": len(e), "selection": solve_selection([(e, V, K.sum(axis=1))])})
    sd = solve_selection([(e, V, K.sum(axis=1)) for e, V, K in parts])
    e, V, K = (np.concatenate(values) for values in zip(*parts, strict=True))
    by_column = solve_columns(e, V, K, sd, COUNTED / 2.0)  # the groups of a label's two halves meet the same answers
    wider = 1.0 if len(shared) >= MANY_FAMILIES else stats.t.ppf(0.975, len(shared) + 1) / stats.norm.ppf(0.975)
    origin = f"measured on {len(shared)} columns that survey and people both have"
    columns = dict(zip(names, (wider * by_column).tolist(), strict=True))
    return Selection(float(wider * sd), origin, pa.Table.from_pylist(rows), columns)


def solve_selection(parts: Sequence[tuple[FloatArray, FloatArray, FloatArray]]) -> float:
    """Find the selection at which squared errors are as large as they should be, each label counting alike; 0 if they are not larger.

    Parameters
    ----------
    parts : sequence of (error, variance, factor), (m,) each
        The groups of every label: e, V and K.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> V, K = np.full(4000, 0.01), np.full(4000, 1.0)
    >>> e = rng.normal(size=4000) * np.sqrt(V + 0.2**2 * K)
    >>> round(solve_selection([(e, V, K)]), 1)
    0.2
    """

    def excess(sd: float) -> float:
        return float(np.mean([np.mean(e**2 / (V + sd**2 * K)) for e, V, K in parts])) - 1.0

    if excess(0.0) <= 0.0:
        return 0.0
    return MOST if excess(MOST) >= 0.0 else float(optimize.brentq(excess, 0.0, MOST, xtol=1e-4))


def solve_columns(e: FloatArray, V: FloatArray, K: FloatArray, sd: float, counted: float = COUNTED) -> FloatArray:
    """Give every column a selection of its own, shrunk to the pooled one; that of a column of which no group tells is the pooled one.

    Parameters
    ----------
    e, V : (m,)
        Errors of the groups of all labels, and their variances without selection.
    K : (m, n_columns)
        The variance that each column's selection adds, per square of its standard deviation.
    sd : float
        The pooled selection.
    counted : float
        What a group counts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> V, K = np.full(400, 0.01), rng.uniform(0.5, 1.0, (400, 2)) * [[1.0, 0.0]]
    >>> e = rng.normal(size=400) * np.sqrt(V + 0.2**2 * K[:, 0])
    >>> solve_columns(e, V, K, 0.1).round(1)
    array([0.2, 0.1])
    """

    def cost(u: FloatArray) -> tuple[float, FloatArray]:
        part = sd**2 * np.exp(2.0 * u) * K
        W = V + part.sum(axis=1)
        slope = counted * ((1.0 - e**2 / W) / W) @ part + u / RATIO_SD**2
        return 0.5 * float(counted * np.sum(np.log(W) + e**2 / W) + np.sum((u / RATIO_SD) ** 2)), slope

    start, bounds = np.zeros(K.shape[1]), [(-FARTHEST, FARTHEST)] * K.shape[1]
    options = {"ftol": 1e-14, "gtol": 1e-7}
    found = optimize.minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(sd * np.exp(found.x))


def _errors(
    model: EcologicalInference,
    half: HiddenLabel,
    label: Label,
    surveys: Sequence[Survey],
    learned: LearnedConfounding,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Learn a hidden column from totals and survey, and give e, V and K of its groups, K for every feature column of the model."""
    bins, effects = model.model_.bins, half.structure
    read = {column.name: column for column in bins.encoder.columns}
    kept = Bins(Encoder(tuple(read[name] for name in half.columns), bins.encoder.unknown), bins.edges)
    places = model.places_.take(half.places)
    asked = count_respondents(surveys, model.people_, kept, places, places.totals, "drop", label.query)
    rows = spread_rows(asked, 0, half.kinds.pairs, half.kinds.levels, half.people, kept)
    if rows is None:
        return np.zeros(0), np.zeros(0), np.zeros((0, len(bins.names)))
    at_column = [bins.names.index(name) for name in half.columns]  # what tells the label has left the features
    kinds = replace(half.kinds, crossed=pairs_of(effects))
    keep = kept_effects(effects, half.columns, learned.shrinkage)
    prior = effect_prior(effects, half.effects, half.effect_covariance, keep, learned.confounding, kinds.crossed)
    posterior = fuse(kinds, prior, half.total, rows, 0.0)
    problem = Likelihood(kinds, half.total, rows)
    at = problem.plain(posterior.theta)
    out = []
    for groups in half.dimensions:
        found = problem.groups(at, half.people, groups.group, len(groups.names))
        weight, yes = groups.weight.sum(axis=0), groups.yes.sum(axis=0)
        T = np.clip((yes + 0.5) / (weight + 1.0), 1e-9, 1.0 - 1e-9)
        bias, before = (found.G @ root for root in (posterior.by_delta @ prior.selection, prior.root))
        telling = (weight > 0) & ((before**2).sum(axis=1) > LEAST_FACTOR)
        e = special.logit(T) - special.logit(found.rate)
        V, K = found.spread(posterior.covariance) ** 2, np.zeros((len(e), len(bins.names)))
        K[:, at_column] = np.add.reduceat(bias**2, effects.first[: len(effects.sizes)], axis=1)
        out.append((e[telling], V[telling], K[telling]))
    e, V, K = (np.concatenate(values) for values in zip(*out, strict=True))
    return e, V, K
