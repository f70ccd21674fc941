"""Respondents of surveys as counts: read, checked, put together by kind and area, and spread over the places where such people live.

A respondent is kept as one of n of a kind and an area, of whom k said yes; no row of the survey is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.checks import check_counts
from crosslevel.data.columns import as_floats, check_squares, plain_array
from crosslevel.data.expressions import Expression, read_expression
from crosslevel.data.frames import column
from crosslevel.data.people import People
from crosslevel.data.place_cells import Bins, Pairs, PlaceCells
from crosslevel.data.places import PlaceTotals, Totals, chain
from crosslevel.data.sql import mask_of
from crosslevel.data.surveys import Survey
from crosslevel.ecological.claims import Claims, places_of
from crosslevel.ecological.persons.survey import SurveyRows
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import AnyArray, BoolArray, FloatArray, IntArray

EVERYWHERE = -1
"""Area of respondents of whom nothing is known."""
NO_COUNT = 1e-12


@dataclass(frozen=True, eq=False)
class Respondents:
    """Respondents who are alike, counted.

    Attributes
    ----------
    names : tuple of str
        The surveys.
    levels : (m, n_columns) int32
        Kind of people of each row.
    area : (m,) int
        Area of each row, or EVERYWHERE.
    areas : (q,) int
        Area of each place.
    successes, trials : (n_stages, m)
        Of each question; weighted respondents count as many as the effective number says.
    source : (m,) int
        Survey of each row.
    people, effective : (n_surveys,)
        Respondents with an answer, and how many their weights leave.
    notes : tuple of str
        What was left out.
    """

    names: tuple[str, ...]
    levels: AnyArray
    area: IntArray
    areas: IntArray
    successes: FloatArray
    trials: FloatArray
    source: IntArray
    people: IntArray
    effective: FloatArray
    notes: tuple[str, ...]


def count_respondents(
    surveys: Sequence[Survey],
    people: People,
    bins: Bins,
    places: PlaceTotals,
    totals: Totals,
    unmatched: str = "error",
    choice: Expression | None = None,
) -> Respondents:
    """Put respondents together who are alike: the same survey, kind of people and area.

    Parameters
    ----------
    surveys : sequence of Survey
    people : People
        Whose ``where`` holds for respondents too, as far as a survey has its columns.
    bins : Bins
        How people become kinds.
    places : PlaceTotals
    totals : Totals
        The questions.
    unmatched : {"error", "drop"}
        What to do with respondents of areas that places lacks.
    choice : Expression, optional
        Who said yes, in place of the column of the outcome.
    """
    names = tuple(one.name for one in surveys)
    area_names, areas = _areas(places, surveys[0].by)
    if len({one.by for one in surveys}) > 1:
        raise InputError(
            "surveys name different columns in by=, and respondents of one model live in areas of one kind."
        )
    parts, size_of, effective, notes = [], [], [], []
    strides = bins.strides()
    for number, one in enumerate(surveys):
        table = _kept(one.table, people)
        answers = _answers(table, one.outcome, totals) if choice is None else _chosen(table, choice)
        area = _area_of(table, one.by, area_names, unmatched)
        known = np.isfinite(answers[1][-1]) & (area > EVERYWHERE - 1)
        weight = [_weights(table, w) for w in one.weights] or [np.ones(table.num_rows)]
        known &= weight[0] > 0
        if not known.all():
            silent, lost = int((~np.isfinite(answers[1][-1])).sum()), int((area < EVERYWHERE).sum())
            notes.append(
                f"Of the survey {one.name!r} {int((~known).sum()):,} respondent(s) were left out: {silent:,} without an answer, {lost:,} "
                "of unknown areas, others of weight 0."
            )
        kept = table.filter(pa.array(known))
        n = kept.num_rows
        own = [w[known] for w in weight]
        size = _effective(own, answers[0][0][known], answers[1][0][known]) if n else 0.0
        cell = _levels(kept, bins).astype(np.int64) @ strides if n else np.zeros(0, dtype=np.int64)
        scaled = own[0] * (size / own[0].sum()) if n else own[0]
        counts = [np.nan_to_num(v[:, known]) * scaled for v in answers]
        parts.append((np.full(n, number), area[known], cell, *counts))
        size_of.append(n)
        effective.append(size)
    source, area, cell = (np.concatenate([part[j] for part in parts]) for j in range(3))
    k, asked = (np.concatenate([part[j] for part in parts], axis=1) for j in (3, 4))
    both, inverse = np.unique(np.column_stack([source, area, cell]), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    levels = (both[:, 2][:, None] // strides % np.array(bins.sizes, dtype=np.int64)).astype(np.int32)
    return Respondents(
        names,
        levels,
        both[:, 1].astype(np.intp),
        areas,
        np.array([np.bincount(inverse, row, len(both)) for row in k]).reshape(len(k), -1),
        np.array([np.bincount(inverse, row, len(both)) for row in asked]).reshape(len(k), -1),
        both[:, 0].astype(np.intp),
        np.array(size_of, dtype=np.intp),
        np.array(effective, dtype=np.float64),
        tuple(notes),
    )


def _kept(table: pa.Table, people: People) -> pa.Table:
    """Leave out respondents who are none of the people kept, where their columns tell."""
    if people.where is None or not set(people.expression(people.where, "where").columns) <= set(table.column_names):
        return table
    return table.filter(pa.array(mask_of(table, read_expression(people.where, "where", table.schema))))


def _weights(table: pa.Table, name: str) -> FloatArray:
    said = f"survey: weight={name!r}"
    w = check_counts(column(table, name, "survey: weight"), said, 1)
    check_squares(w, said)
    return w


def _effective(weights: Sequence[FloatArray], k: FloatArray, n: FloatArray) -> float:
    """Say for how many respondents weighted ones count: Kish's number, or what replicate weights say of the share of yes."""
    w = weights[0]
    kish = float(w.sum() ** 2 / (w**2).sum())
    if len(weights) == 1:
        return kish
    asked = np.nan_to_num(n) > 0
    if any(not v[asked].any() for v in weights):
        raise InputError("survey: a replicate weight is 0 for everybody who answered; leave that column out.")
    yes = np.nan_to_num(k)[asked]
    share, *again = (float(v[asked] @ yes / v[asked].sum()) for v in weights)
    spread = float(np.mean((np.array(again) - share) ** 2))
    if spread < NO_COUNT**2:  # all said the same, so that replicates tell nothing
        return kish
    return float(np.clip(share * (1.0 - share) / spread, 1.0, len(w)))


def _levels(table: pa.Table, bins: Bins) -> AnyArray:
    """Give the level of every respondent in every column; refuse what people do not have."""
    for name in bins.names:
        if name not in table.column_names:
            raise InputError(
                f"survey lacks the column {name!r}, a feature of people; add it, or leave it out of the features with "
                f"People(columns={[n for n in bins.names if n in table.column_names]})."
            )
    return bins.levels(table, "survey")


def _answers(table: pa.Table, outcome: str, totals: Totals) -> tuple[FloatArray, FloatArray]:
    """Give yes and asked for every question and respondent, (n_stages, n); NaN where the answer is not known."""
    values = plain_array(table, outcome, "survey: outcome")
    n, stages = len(values), len(totals.trials)
    k, asked = np.zeros((stages, n)), np.zeros((stages, n))
    turnout = int(totals.turnout)  # who voted is no part of it
    if len(totals.outcomes) == 1:
        y = as_floats(values, outcome)
        bad = np.isfinite(y) & (y != 0.0) & (y != 1.0) | np.isinf(y)
        if bad.any():
            first = int(np.argmax(bad))
            raise InputError(
                f"survey: outcome={outcome!r} has the value {y[first]:g} in row {first:,}; it needs 1 for {totals.outcomes[0]!r}, 0 for "
                "the rest, and nothing where the answer is not known."
            )
        k[turnout], asked[turnout] = y, np.where(np.isnan(y), np.nan, 1.0)
        return k, asked
    names = [None if v is None else str(v) for v in values.to_pylist()]
    strange = sorted({v for v in names if v is not None and v not in totals.outcomes})
    if strange and (totals.exhaustive or not set(names) & set(totals.outcomes)):
        raise InputError(
            f"survey: outcome={outcome!r} has the value {strange[0]!r}, which is none of the outcomes ({listed(totals.outcomes)}); name "
            "it as they are, or leave it missing."
        )
    number = {name: j for j, name in enumerate(totals.outcomes)}
    chosen = np.array([np.nan if v is None else number.get(v, len(number)) for v in names])
    for stage in range(turnout, stages):
        left = chosen >= stage - turnout
        asked[stage], k[stage] = left, chosen == stage - turnout
    asked[-1] = np.where(np.isnan(chosen), np.nan, asked[-1])
    return k, asked


def _chosen(table: pa.Table, choice: Expression) -> tuple[FloatArray, FloatArray]:
    """Tell of every respondent whether a query is true of them; NaN where its columns are missing."""
    known = np.ones(table.num_rows)
    for name in choice.columns:
        known[pc.is_null(plain_array(table, name, "survey")).to_numpy(zero_copy_only=False)] = np.nan
    yes = mask_of(table, read_expression(choice.text, "labels", table.schema))
    return yes[None].astype(np.float64), known[None]


def _areas(places: PlaceTotals, by: str | None) -> tuple[list[object], IntArray]:
    """Name the areas, and number that of every place."""
    if by is None:
        return [], np.zeros(len(places), dtype=np.intp)
    if by not in places.table.column_names:
        raise unknown_name("survey: by", by, places.table.column_names)
    values = places.keys if by == places.by else places.column(by, "survey: by")
    names = list(dict.fromkeys(values))
    number = {v: i for i, v in enumerate(names)}
    return names, np.array([number[v] for v in values], dtype=np.intp)


def _area_of(table: pa.Table, by: str | None, names: Sequence[object], unmatched: str) -> IntArray:
    """Number the area of every respondent: EVERYWHERE where it is not known, below that where places lacks it."""
    if by is None:
        return np.full(table.num_rows, EVERYWHERE, dtype=np.intp)
    column = plain_array(table, by, "survey: by")
    values, number = column.to_pylist(), {v: i for i, v in enumerate(names)}
    nested = pa.types.is_nested(column.type)
    strange = values if nested else [v for v in dict.fromkeys(values) if v is not None and v not in number]
    if strange and (nested or unmatched == "error"):
        raise InputError(
            f"survey: by={by!r} names areas that no place has ({listed(strange)}; places have {listed(names)}). Name areas alike in both, "
            "leave them missing, or pass unmatched='drop'."
        )
    found = [EVERYWHERE if v is None else number.get(v, EVERYWHERE - 1) for v in values]
    return np.array(found, dtype=np.intp)


def spread_rows(
    found: Respondents, stage: int, pairs: Pairs, levels: AnyArray, people: FloatArray, bins: Bins
) -> SurveyRows | None:
    """Say where the respondents of every row live, by who lives there; None where nobody was asked the question.

    People of a kind that nobody in the area was counted of live where people of the area do.

    Parameters
    ----------
    found : Respondents
    stage : int
        The question.
    pairs : Pairs
        Who lives where, of those who are asked it.
    levels : (n_cells, n_columns)
    people : (q,)
        How many are asked it.
    bins : Bins
    """
    kept = np.flatnonzero(found.trials[stage] > NO_COUNT)
    if not len(kept):
        return None
    strides, place = bins.strides(), pairs.place
    weight = people[place] * pairs.weight
    kinds, of_kind = np.unique(found.levels[kept].astype(np.int64) @ strides, return_inverse=True)
    of_kind, cells = of_kind.reshape(-1), levels.astype(np.int64) @ strides
    at = np.searchsorted(kinds, cells).clip(max=len(kinds) - 1)
    kind = np.where(kinds[at] == cells, at, -1)[pairs.cell]
    n_areas, area = int(found.areas.max()) + 1, found.area[kept]
    entries = [np.zeros((0, 3), dtype=np.int64)]
    shares = [np.zeros(0)]
    for everywhere in (False, True):
        rows = np.flatnonzero((area == EVERYWHERE) == everywhere)
        mine = np.zeros(len(place), dtype=np.int64) if everywhere else found.areas[place]
        key = np.where(kind >= 0, kind * n_areas + mine, -1)
        order = np.argsort(key, kind="stable")
        wanted = of_kind[rows] * n_areas + (0 if everywhere else area[rows])
        first, last = (np.searchsorted(key[order], wanted, side=side) for side in ("left", "right"))
        seen = last > first
        inside = [order[a:b] for a, b in zip(first[seen], last[seen], strict=True)]
        which = np.repeat(rows[seen], (last - first)[seen])
        chosen = np.concatenate(inside) if inside else np.zeros(0, dtype=np.intp)
        entries.append(np.column_stack([which, of_kind[which], place[chosen]]))
        shares.append(weight[chosen])
        for row in rows[~seen]:
            here = np.arange(len(people)) if everywhere else np.flatnonzero(found.areas == area[row])
            entries.append(np.column_stack([np.full(len(here), row), np.full(len(here), of_kind[row]), here]))
            shares.append(people[here])
    entry, share = np.vstack(entries), np.concatenate(shares)
    order = np.lexsort((entry[:, 2], entry[:, 0]))
    entry, share = entry[order], share[order]
    start = np.searchsorted(entry[:, 0], np.arange(len(kept) + 1)).astype(np.int64)
    whole = np.bincount(entry[:, 0], share, len(kept))
    return SurveyRows(
        (kinds[:, None] // strides % np.array(bins.sizes, dtype=np.int64)).astype(np.int32),
        start,
        entry[:, 1],
        entry[:, 2],
        share / whole[entry[:, 0]],
        found.successes[stage][kept],
        found.trials[stage][kept],
        found.source[kept],
    )


def claimed_rows(
    claims: Claims, found: PlaceCells, places: PlaceTotals, people: FloatArray, stage: int, first: int
) -> SurveyRows:
    """Write published shares of subgroups as rows: all people of the subgroup, wherever they live.

    Crosstabs of one source ask the same people again, so their numbers are divided by the root of how many each person stands in.

    Parameters
    ----------
    claims : Claims
    found : PlaceCells
        Raked, with the queries of the claims as labels.
    places : PlaceTotals
    people : (q,)
        How many are asked the question.
    stage : int
    first : int
        Number of the first source.
    """
    place = found.pairs.place
    weight = people[place] * found.pairs.weight
    names = list(claims.queries)
    has = np.zeros((len(names) + 1, len(found.labels)), dtype=bool)
    has[-1] = True  # everybody
    for label, (_, matched) in enumerate(found.labels):
        has[list(matched), label] = True
    masks: list[BoolArray] = []
    for r, name in enumerate(claims.subgroup):
        own = has[names.index(name) if name in claims.queries else -1]
        masks.append(own[found.label] & places_of(claims, r, places)[place])
        if not weight[masks[-1]].sum() > 0:
            raise InputError(
                f"evidence row {claims.rows[r]}: nobody among the people is {claims.label(r)}, so the row cannot be used; correct the "
                "query or the place, or drop the row."
            )
    source = np.array([first + claims.sources.index(s) for s in claims.source], dtype=np.intp)
    k, n = chain(claims.parts, claims.n, places.totals.exhaustive)
    k, n = (v[stage - int(places.totals.turnout)] for v in (k, n))
    for number in np.unique(source):
        mine = np.flatnonzero(source == number)
        times = np.sum([masks[r] for r in mine], axis=0)
        thinner = np.sqrt(float(weight @ times**2) / float(weight @ times))
        k, n = (np.where(source == number, v / thinner, v) for v in (k, n))
    entries = [np.flatnonzero(mask) for mask in masks]
    start = np.concatenate([[0], np.cumsum([len(e) for e in entries])]).astype(np.int64)
    chosen = np.concatenate(entries)
    share = weight[chosen] / np.repeat([weight[e].sum() for e in entries], np.diff(start))
    where = (found.pairs.cell[chosen].astype(np.intp), place[chosen])
    return SurveyRows(found.codes, start, *where, share, k, n, source)


def stack_rows(several: Sequence[SurveyRows]) -> SurveyRows:
    """Put rows of several kinds one after another."""
    if len(several) == 1:
        return several[0]
    shift = np.cumsum([0, *(len(one.levels) for one in several)])
    ends = np.cumsum([0, *(int(one.start[-1]) for one in several)])
    names = ("place", "share", "successes", "trials", "source")
    return SurveyRows(
        np.vstack([one.levels for one in several]),
        np.concatenate([[0], *(one.start[1:] + end for one, end in zip(several, ends, strict=False))]).astype(np.int64),
        np.concatenate([one.kind + s for one, s in zip(several, shift, strict=False)]),
        *(np.concatenate([getattr(one, name) for one in several]) for name in names),
    )
