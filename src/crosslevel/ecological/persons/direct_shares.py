"""What the respondents of a survey said themselves, beside an answer about the same subgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.data.columns import as_floats, plain_array, read_weights
from crosslevel.data.frames import as_names
from crosslevel.data.queries import parse
from crosslevel.ecological.persons.respondents import open_surveys
from crosslevel.ecological.persons.survey_levels import LEAST_SHOWN
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.results import Estimates
from crosslevel.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

__all__ = ["with_direct"]


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
