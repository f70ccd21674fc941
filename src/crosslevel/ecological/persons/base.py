"""What a fitted model of persons is asked by the answers and predictions that both models share.

What the respondents of a survey said themselves, beside an answer about the same subgroups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.data.batches import Batches
from crosslevel.data.columns import as_floats, plain_array, read_weights
from crosslevel.data.engines import OnEngine
from crosslevel.data.frames import as_names
from crosslevel.data.place_cells import PlaceCells
from crosslevel.data.place_columns import count_groups
from crosslevel.data.queries import parse
from crosslevel.ecological.answers import Source
from crosslevel.ecological.confounding import Confounding, describe_allowance
from crosslevel.ecological.covariance import Moments, Terms
from crosslevel.ecological.estimate import PlaceEstimator
from crosslevel.ecological.persons.groups import allowance_of, source_of
from crosslevel.ecological.persons.model import PersonsModel
from crosslevel.ecological.persons.respondents import open_surveys
from crosslevel.ecological.persons.survey_levels import LEAST_SHOWN
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import BoolArray, FloatArray, IntArray, Progress

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

__all__ = ["PersonsEstimator", "with_direct"]


class PersonsEstimator(OnEngine, PlaceEstimator):
    """Base of :class:`crosslevel.EcologicalInference`: sources of draws, and moments of places."""

    model_: PersonsModel
    cells_: PlaceCells
    likelihood: str
    survey_: Any

    _method = "ecological inference of persons"
    _intervals = ("confounding", "model")
    _unsaved = (*PlaceEstimator._unsaved, "surveyed_", "survey_given_")

    def _source(
        self, request: Request, question: Question, people: Batches, progress: Progress | None
    ) -> tuple[Source, list[str]]:
        return source_of(self, request, question, people, progress), []

    def _beside(self, found: Estimates, request: Request, question: Question) -> Estimates:
        return found if self.survey_ is None else with_direct(self, found, request, question)

    def _confounding(self, request: Request) -> tuple[Confounding, tuple[float, ...], str, dict[str, Any]]:
        if self.likelihood == "exact":
            return super()._confounding(request)
        given = allowance_of(self.model_, self.confounding_)
        sentence, facts = describe_allowance(self.confounding_, given.confounding, given.shrinkage)
        return given.confounding, (0.0,) * max(len(request.subgroups), 1), sentence, facts

    @property
    def _counted(self) -> bool:
        """Whether people are counts of groups in the table of places."""
        return self.arguments_.get("composition") is not None

    def _open_people(self, people: Any, places: pa.Table | None = None) -> Batches:
        if people is None and self._counted:
            made, told = self.places_.table if places is None else places, self.arguments_
            people = count_groups(made, self.places_.by, told["composition"], told["weight"])
        return super()._open_people(people)

    def _fitted_moments(self, stage: int) -> Moments:
        from crosslevel.ecological.persons.prediction import fitted_rates

        return fitted_rates(self.model_, stage)

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: Batches, table: pa.Table) -> Moments:
        from crosslevel.ecological.persons.prediction import new_places

        if stage:
            raise InputError(
                "new places are predicted for one question only; leave out population and name one outcome in fit."
            )
        return new_places(self, terms, new, people, table)

    def _held_out_moments(self, stage: int, folds: Sequence[IntArray]) -> Moments:
        from crosslevel.ecological.persons.prediction import held_out_places

        if getattr(self, "cells_", None) is None:
            raise InputError("a loaded model does not hold its people; fit it again to cross-validate.")
        return held_out_places(self, stage, folds)


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
    for _, table in surveys:
        areas = _areas(model, question, table)
        if areas is None:
            return found
        _add(sums, model, table, areas, request, "outcome" in found.keys)
    keys = list(zip(*(found.table[name].to_pylist() for name in found.keys), strict=True)) or [()] * len(found)
    rows = np.array([sums.get(key, np.zeros(3)) for key in keys])
    with np.errstate(invalid="ignore", divide="ignore"):
        direct = np.where(rows[:, 2] >= LEAST_SHOWN, rows[:, 0] / rows[:, 1], np.nan)
    return found.with_columns(survey_direct=direct, survey_n=np.where(np.isfinite(direct), rows[:, 2], np.nan))


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
