"""What a survey moved: every level of every column without it, with it, and as simpler methods say.

Beside an answer stands what the respondents said themselves about the same subgroups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from scipy import special, stats

from crosslevel.data.batches.sources import is_text
from crosslevel.data.columns import UNKNOWN, Category, as_floats, decoded, plain_array, read_weights
from crosslevel.data.frames import as_names
from crosslevel.data.place_cells import PlaceCells
from crosslevel.data.queries import parse
from crosslevel.ecological.persons.model import PersonsModel
from crosslevel.ecological.persons.poststratification import calibrated_rates, direct_rates, mrp_rates, regress
from crosslevel.ecological.persons.respondents import Respondents, live_somewhere, open_surveys
from crosslevel.ecological.persons.survey import EffectPrior, Likelihood, SurveyPosterior, pairs_of
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

LEVEL = 0.95
Z = float(stats.norm.ppf(0.5 + LEVEL / 2))
DIRECT = "respondents"
METHODS = ("totals", "survey and totals", DIRECT, "MRP", "calibrated MRP")
"""Totals alone, both, respondents as they answered, multilevel regression with poststratification, and that shifted to the totals."""
LEAST_SHOWN = 10.0
"""Respondents below which the direct share of a level is not given: it would be the answers of single people."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A question that a survey asked, fitted.

    Attributes
    ----------
    name : str
    number : int
    model : PersonsModel
    cells : PlaceCells
    problem : Likelihood
    people : (q,)
        How many of each place are asked it.
    prior : EffectPrior
    posterior : SurveyPosterior
    respondents : Respondents or None
    """

    name: str
    number: int
    model: PersonsModel
    cells: PlaceCells
    problem: Likelihood
    people: FloatArray
    prior: EffectPrior
    posterior: SurveyPosterior
    respondents: Respondents | None

    def columns(self) -> Iterator[tuple[str, list[str], IntArray, IntArray | None]]:
        """Give name, words of the levels, level of every pair, and level of every row of respondents, of each column."""
        bins, own = self.model.bins, self.respondents
        words = bins.describe()
        for j, name in enumerate(bins.names):
            level = self.cells.codes[self.problem.pairs.cell, j].astype(np.intp)
            yield name, list(words[name]), level, None if own is None else own.levels[:, j]

    def counts(self, level: IntArray | None, n: int) -> tuple[FloatArray, FloatArray]:
        """Count the respondents of each level who said yes, and all of them."""
        own = self.respondents
        if own is None or level is None:
            return np.zeros(n), np.zeros(n)
        yes, asked = (np.bincount(level, v[self.number], n) for v in (own.successes, own.trials))
        return np.asarray(yes), np.asarray(asked)


def describe_levels(stage: Stage, compare: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Say of every level of every column what the survey moved, and what each method makes of it, over all places.

    Methods are totals, both, and respondents; with ``compare`` also MRP and calibrated MRP.
    """
    effects, problem, own = stage.model.effects, stage.problem, stage.respondents
    sets = (effects, pairs_of(effects), problem.pairs, stage.cells.codes)
    regression, areas = None, cast("tuple[IntArray, ...]", ())
    if compare and own is not None:
        areas = (own.areas,) if own.areas.max(initial=0) > 0 else ()
        regression = regress(*sets[:2], problem.rows, areas)
    zeros = np.zeros(problem.n_levels + problem.n_surveys)
    at = [problem.at(np.concatenate([t, zeros])) for t in (stage.prior.mean, stage.posterior.theta)]
    covariances = (stage.prior.root @ stage.prior.root, stage.posterior.covariance)
    moved: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    for name, words, level, of_rows in stage.columns():
        n, counts = len(words), stage.counts(of_rows, len(words))
        both = [problem.groups(one, stage.people, level, n) for one in at]
        people, found = both[0].people, [(g.rate, g.spread(C)) for g, C in zip(both, covariances, strict=True)]
        shown = counts[1] >= LEAST_SHOWN
        yes, asked = (np.where(shown, v, 0.0) for v in counts)
        direct, *ends = direct_rates(yes, asked, np.arange(n), n, Z)
        found.append((direct, (ends[1] - ends[0]) / (2.0 * Z)))
        if regression is not None:
            found += [mrp_rates(regression, *sets, stage.people, areas, level, n)]
            found += [calibrated_rates(regression, *sets, problem.rate, stage.people, level, n)]
        heads = [{"question": stage.name, "column": name, "level": word} for word in words]
        lived = np.flatnonzero(people > 0).tolist()
        moved += [heads[i] | _move(i, people, found, counts) for i in lived]
        for method, (P, sd) in zip(METHODS, found, strict=False):
            rows = {i: _interval(P[i], sd[i]) for i in lived if np.isfinite(P[i])}
            if method == DIRECT:  # of a share that may be 0 or 1, which has no logit
                rows = {i: _row(P[i], sd[i], ends[0][i], ends[1][i]) for i in rows}
            compared += [heads[i] | {"method": method} | row for i, row in rows.items()]
    return moved, compared


def _move(
    i: int,
    people: FloatArray,
    found: list[tuple[FloatArray, FloatArray]],
    counts: tuple[FloatArray, FloatArray],
) -> dict[str, Any]:
    """Compare a level without and with the survey, and with its respondents."""
    (before, spread), (after, left), (direct, _) = ((P[i], sd[i]) for P, sd in found[:3])
    spread, shown = max(spread, 1e-12), bool(np.isfinite(direct))
    return {
        "share": float(people[i] / people.sum()),
        "without": float(before),
        "with_survey": float(after),
        "moved": float((special.logit(after) - special.logit(before)) / spread),
        "from_survey": float(1.0 - (left / spread) ** 2),
        "direct": float(direct) if shown else None,
        "n": float(counts[1][i]) if shown else None,
        "survey_share": float(counts[1][i] / counts[1].sum()) if shown else None,
    }


def _interval(P: float, sd: float) -> dict[str, Any]:
    """Give an estimate with its interval, from the sd of its logit."""
    with np.errstate(divide="ignore"):
        low, high = (float(special.expit(special.logit(P) + side * Z * sd)) for side in (-1.0, 1.0))
    return _row(P, sd * P * (1.0 - P), low, high)


def _row(P: float, std_error: float, low: float, high: float) -> dict[str, Any]:
    return {"estimate": float(P), "std_error": float(std_error), "conf_low": float(low), "conf_high": float(high)}


def with_direct(model: EcologicalInference, found: Estimates, request: Request, question: Question) -> Estimates:
    """Add ``survey_direct``, the share of respondents of each row who said yes (by their weights), and ``survey_n``, how many they are.

    Both are missing where fewer than ten respondents are of the row. The columns are absent where they mean nothing: in contrasts, in
    shares of other people than those who were asked, for subgroups or places that the survey does not tell, and after loading.
    """
    given = getattr(model, "survey_given_", {}).get("survey")
    if given is None or question.contrast is not None or question.denominator != "voters":
        return found
    surveys = open_surveys(given, model.arguments_["survey_name"], model.arguments_["where"])
    queries = [parse(text) for text in (*request.subgroups.values(), *([request.where] if request.where else []))]
    needed = {*request.by, *(column for query in queries for column in query.columns)}
    if any(not needed <= set(table.column_names) for _, table in surveys):
        return found
    sums: dict[tuple[Any, ...], FloatArray] = {}
    try:
        for _, given_table in surveys:
            table = _coded_as_people(given_table, needed, model, found)
            areas = _areas(model, question, table)
            if areas is None:
                return found
            _add(sums, model, table, areas, request, "outcome" in found.keys)
    except InputError as error:  # a column that is no feature, of another type than in people
        return replace(
            found, warnings=(*found.warnings, f"survey_direct, the answers of respondents, is left out: {error}")
        )
    keys = list(zip(*(found.table[name].to_pylist() for name in found.keys), strict=True)) or [()] * len(found)
    said = []
    for j, name in enumerate(found.keys):
        strange = {key[j] for key in sums} - {key[j] for key in keys} - {None} if name in request.by else None
        if strange:
            said.append(
                f"survey_direct leaves out respondents whose {name!r} is {listed(sorted(strange, key=str))}, which nobody here is "
                f"among the people ({listed(dict.fromkeys(key[j] for key in keys))}); code it alike in both."
            )
    found = replace(found, warnings=(*found.warnings, *said))
    rows = np.array([sums.get(key, np.zeros(3)) for key in keys])
    with np.errstate(invalid="ignore", divide="ignore"):
        direct = np.where(rows[:, 2] >= LEAST_SHOWN, rows[:, 0] / rows[:, 1], np.nan)
    return found.with_columns(survey_direct=direct, survey_n=np.where(np.isfinite(direct), rows[:, 2], np.nan))


def _coded_as_people(table: pa.Table, needed: set[str], model: EcologicalInference, found: Estimates) -> pa.Table:
    """Take levels of people, as the fit does, for codes that are text in one of survey and people and numbers in the other."""
    columns = {name: Category(name, found.table[name].combine_chunks().unique(), False) for name in found.keys}
    columns |= {c.name: c for c in model.model_.bins.encoder.columns if isinstance(c, Category)}
    for name in sorted(needed & set(columns)):
        values, levels = decoded(plain_array(table, name, "survey")), columns[name].levels
        if is_text(values.type) != is_text(levels.type):
            code = columns[name].codes(values)
            if (code == UNKNOWN).any():
                columns[name].refuse(values, code == UNKNOWN, 0, "survey", "code it as in people")
            own = levels.take(pa.array(code, mask=code < 0))
            table = table.set_column(table.column_names.index(name), name, own)
    return table


def _areas(model: EcologicalInference, question: Question, table: pa.Table) -> list[Any] | None:
    """Say to which row of the answer each respondent belongs by where they live; None where the survey cannot tell."""
    name, places, by = question.rollup.name, model.places_, model.arguments_["survey_by"]
    if name is None:
        return [()] * table.num_rows
    if by not in (name, places.by):
        return None
    values = plain_array(table, by, "survey_by").to_pylist()
    if by == name:
        return [(value,) for value in values]
    label = {key: question.rollup.labels[i] for key, i in zip(places.keys, question.rollup.member, strict=True)}
    return [(label.get(value),) for value in values]


def _add(
    sums: dict[tuple[Any, ...], FloatArray],
    model: EcologicalInference,
    table: pa.Table,
    areas: list[Any],
    request: Request,
    several: bool,
) -> None:
    """Sum weighted yes, weights and respondents by the keys of the answer."""
    said = plain_array(table, model.arguments_["survey_outcome"], "survey_outcome")
    weights = model.arguments_["survey_weight"]
    w = np.ones(table.num_rows)
    if weights is not None:
        w = read_weights(table.combine_chunks(), as_names(weights, "survey_weight")[0], 0)
    batches = table.combine_chunks().to_batches()

    def of(text: str) -> BoolArray:
        return np.concatenate([parse(text).mask(batch) for batch in batches]) if batches else np.zeros(0, dtype=bool)

    outcomes = model.places_.totals.outcomes
    if len(outcomes) == 1:
        y = as_floats(said, "survey_outcome")[None]
    else:
        names = [None if v is None else str(v) for v in said.to_pylist()]
        y = np.array([[np.nan if v is None else float(v == one) for v in names] for one in outcomes])
    inside = np.isfinite(y[0]) & (w > 0) & (of(request.where) if request.where else True)
    inside &= live_somewhere(table, model.arguments_["survey_by"], model.places_)
    levels = list(zip(*(plain_array(table, name, "survey").to_pylist() for name in request.by), strict=True))
    levels = levels or [()] * table.num_rows
    groups = [((), inside)] if request.by else [((str(request.where),), inside)]
    if request.subgroups:
        groups = [((name,), inside & of(text)) for name, text in request.subgroups.items()]
    for name, mine in groups:
        for i in np.flatnonzero(mine):
            for one, yes in zip(outcomes, y[:, i], strict=True):
                key = (*areas[i], *levels[i], *name, *((one,) if several else ()))
                sums.setdefault(key, np.zeros(3))
                sums[key] += (w[i] * yes, w[i], 1.0)
