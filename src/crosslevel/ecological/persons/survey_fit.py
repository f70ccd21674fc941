"""Fit surveys beside the totals, question by question, and say what they moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy import special, stats

from crosslevel.data.expressions import read_expression
from crosslevel.data.frames import FrameKind, fingerprint
from crosslevel.data.people import People
from crosslevel.data.place_cells import Labels, PlaceCells, count_people
from crosslevel.data.places import PlaceTotals, Totals
from crosslevel.data.surveys import MEASURED, PublishedShares, Survey
from crosslevel.ecological.claims import Claims, read_evidence
from crosslevel.ecological.persons.fitting import design_of
from crosslevel.ecological.persons.groups import Allowance, allowance_of, kept_by
from crosslevel.ecological.persons.model import Design, Kinds, PersonsModel, observed_rate
from crosslevel.ecological.persons.respondents import (
    Respondents,
    claimed_rows,
    count_respondents,
    spread_rows,
    stack_rows,
)
from crosslevel.ecological.persons.survey import (
    SELECTION,
    Likelihood,
    SurveyPosterior,
    SurveyRows,
    effect_prior,
    fuse,
    pairs_of,
)
from crosslevel.ecological.persons.survey_levels import LEVEL, Stage, describe_levels
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

FAR_OFFSET, FAR_MOVED = 0.5, 2.5
"""An offset, and a move of a group in prior standard deviations, that are said."""


@dataclass(frozen=True, eq=False)
class SurveyFit:
    """Effects given totals and surveys, by question; None where no survey asked it.

    Attributes
    ----------
    confounding, model : tuple of SurveyPosterior or None
        With the prior that allows for confounding of what totals say, and with that of the model alone.
    """

    confounding: tuple[SurveyPosterior | None, ...]
    model: tuple[SurveyPosterior | None, ...]


@dataclass(frozen=True, eq=False)
class Selection:
    """How far the respondents of a level may differ from its people, as a standard deviation in logits.

    Attributes
    ----------
    sd : float
    origin : str
        Where it comes from, in words.
    table : pyarrow.Table or None
        The columns it was measured on.
    columns : mapping of str to float
        Standard deviation of each feature column, where it was measured; otherwise it is that of all.
    """

    sd: float
    origin: str
    table: pa.Table | None = None
    columns: Mapping[str, float] = field(default_factory=dict)

    def levels(self, names: Sequence[str], sizes: Sequence[int]) -> FloatArray:
        """Give the standard deviation of every level of these columns."""
        return np.repeat([self.columns.get(name, self.sd) for name in names], sizes)

    def by_column(self) -> str:
        """Name the columns, from the largest selection to the smallest; none where it is nil or the same for all."""
        largest = sorted(self.columns.items(), key=lambda item: -item[1]) if self.sd > 0.0 else []
        return ", ".join(f"{name} {sd:.2g}" for name, sd in largest)

    def describe(self) -> str:
        """Say it in a sentence."""
        more = f"; by column: {self.by_column()}" if self.by_column() else ""
        return f"Respondents of a group may differ from its people by {self.sd:.2g} logits (sd): {self.origin}{more}."


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What surveys and published shares say, as counts.

    Attributes
    ----------
    respondents : Respondents or None
    claims : Claims or None
    counted : PlaceCells or None
        People by the subgroups of the claims.
    fingerprint : dict of str to str
    """

    respondents: Respondents | None
    claims: Claims | None
    counted: PlaceCells | None
    fingerprint: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The surveys: those of respondents, then the sources of published shares."""
        own = [] if self.respondents is None else list(self.respondents.names)
        return own + ([] if self.claims is None else self.claims.sources)


@dataclass(frozen=True, eq=False)
class SurveySummary:
    """What surveys said beside the totals.

    Attributes
    ----------
    surveys : pyarrow.Table
        For each survey and question: ``respondents``, ``effective`` (after weights), ``offset`` and its standard error in logits,
        ``points``, ``points_low`` and ``points_high``, by which respondents are above the totals.
    selection : Selection
    moved : pyarrow.Table
        For every level of every column over all places: ``without`` and ``with_survey``, its estimates; ``moved``, in standard
        deviations of the first; ``from_survey``, the share of its prior variance that the survey removed; ``direct``, the share of
        respondents, and their ``n``.
    compared : pyarrow.Table
        Every level by ``method``, with 95 % intervals: "totals", "survey and totals" and "respondents" (as they answered); with
        ``compare=True`` also "MRP" and "calibrated MRP", shifted to the totals.
    said, loud : tuple of str
        Sentences for every result, and warnings.
    """

    surveys: pa.Table
    selection: Selection
    moved: pa.Table
    compared: pa.Table
    said: tuple[str, ...]
    loud: tuple[str, ...]

    def estimates(self, provenance: Provenance, frame: FrameKind) -> Estimates:
        """Give ``compared`` as a table of estimates."""
        return Estimates.build(
            {name: self.compared[name] for name in self.compared.column_names},
            keys=("question", "column", "level", "method"),
            method="a survey and the totals",
            level=LEVEL,
            interval="each method's own",
            provenance=provenance,
            diagnostics=self.facts(),
            warnings=(*self.loud, *self.said),
            frame=frame,
            title="What the survey moved",
            kind="surveyed",
        )

    def facts(self) -> dict[str, Any]:
        """Give what the diagnostics of every result hold."""
        out: dict[str, Any] = {"selection_sd": self.selection.sd, "selection_from": self.selection.origin}
        out["selection_by_column"] = self.selection.by_column() or "as for all"
        for row in self.surveys.to_pylist():
            first = f"{row['survey']}, {row['question']}: "
            out |= {f"{first}{name}": row[name] for name in ("respondents", "effective", "offset", "offset_error")}
        return out


def read_surveyed(
    surveys: Sequence[Survey],
    shares: PublishedShares | None,
    people: People,
    model: PersonsModel,
    places: PlaceTotals,
    unmatched: str,
    counted: bool,
    named: Mapping[str, Any],
) -> Surveyed:
    """Read surveys and published shares to counts."""
    respondents, claims, found, prints = None, None, None, {}
    if surveys:
        respondents = count_respondents(surveys, people, model.bins, places, places.totals, unmatched)
        prints["survey"] = ", ".join(fingerprint(one.table) for one in surveys)
    if shares is not None:
        claims = read_evidence(shares, places, people.schema, **named)
        texts = claims.queries.items()
        queries = tuple((name, read_expression(text, "subgroup", people.schema)) for name, text in texts)
        found = count_people(people, model.bins, places.keys, Labels(subgroups=queries), counted=counted)
        prints["evidence"] = claims.fingerprint
        both = sorted(set(claims.sources) & set(() if respondents is None else respondents.names))
        if both:
            said = f"published shares have the source {both[0]!r}, which is a survey too"
            raise InputError(f"{said}, so that its respondents would count twice; drop these rows, or rename it.")
    return Surveyed(respondents, claims, found, prints)


def default_selection(given: str | float) -> Selection:
    """Take the selection that was stated, or the one that stands until it is measured."""
    if given != MEASURED:
        return Selection(float(given), "as stated in fit")
    return Selection(SELECTION, "the default, not measured; learn_confounding(labels=[...], survey=True) measures it")


def fuse_questions(
    model: PersonsModel,
    cells: PlaceCells,
    places: PlaceTotals,
    surveyed: Surveyed,
    allowance: Allowance,
    selection: Selection,
    compare: bool = False,
) -> tuple[PersonsModel, SurveySummary]:
    """Fit the surveys beside the totals of every question.

    Parameters
    ----------
    model : PersonsModel
        Fitted to the totals.
    cells : PlaceCells
        The people it was fitted to.
    places : PlaceTotals
    surveyed : Surveyed
    allowance : Allowance
        What the prior allows for beyond the model.
    selection : Selection
    compare : bool
        Whether MRP, as it is and shifted to the totals, is to be compared with it.
    """
    fits: list[SurveyPosterior | None] = []
    plain: list[SurveyPosterior | None] = []
    totals, effects = places.totals, model.effects
    sds = selection.levels(model.bins.names, effects.sizes)
    told: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    for stage, fit in enumerate(model.fits):
        design = design_of(model, cells, totals, stage)
        rows = _rows(model, design, surveyed, places, cells, stage)
        if rows is None or not rows.trials.sum() > 0:
            fits.append(None)
            plain.append(None)
            continue
        rate, seen = observed_rate(totals, stage), (effects.B @ fit.beta, effects.B @ fit.covariance @ effects.B.T)
        alone, kinds = (Kinds(effects, cells.codes, design.pairs, crossed) for crossed in ((), pairs_of(effects)))
        prior = effect_prior(effects, *seen, kept_by(model, allowance), allowance.confounding, kinds.crossed)
        found = fuse(kinds, prior, rate, rows, sds)
        fits.append(found)
        plain.append(fuse(alone, effect_prior(effects, *seen, kept_by(model, None), None, ()), rate, rows, sds))
        problem, people = Likelihood(kinds, rate, rows), asked_people(totals, cells.total, stage)
        told += _describe_surveys(surveyed, totals, stage, problem, found)
        name = totals.questions[stage]
        asked = Stage(name, stage, model.bins, problem, people, prior, found, surveyed.respondents)
        for rows_of, more in zip((moved, compared), describe_levels(asked, compare), strict=True):
            rows_of += more
    surveys = pa.Table.from_pylist(told)
    said, loud = _sentences(surveys, moved, selection, surveyed, len(model.fits) > 1)
    tables = (pa.Table.from_pylist(moved), pa.Table.from_pylist(compared))
    summary = SurveySummary(surveys, selection, *tables, tuple(said), tuple(loud))
    if not told:
        return model, summary
    return replace(model, surveyed=SurveyFit(tuple(fits), tuple(plain))), summary


def check_measured(model: EcologicalInference, survey: object) -> None:
    """Refuse to learn anew what a survey was fitted with, where it cannot be."""
    if not isinstance(survey, bool):
        raise InputError(f"survey={survey!r} is neither True nor False; the survey is that of fit.")
    if model.survey_ is not None and not hasattr(model, "surveyed_"):
        raise InputError("a loaded model does not hold its survey; fit it again to learn the confounding with it.")
    if not survey:
        return
    surveys: tuple[Survey, ...] = getattr(model, "surveys_", ())
    if not surveys:
        raise InputError("survey=True needs the respondents of a survey; pass fit(survey=crosslevel.Survey(...)).")
    if surveys[0].selection != MEASURED:
        raise InputError(
            f"survey=True has no effect with selection={surveys[0].selection!r}, as stated in Survey; pass 'measured' there."
        )


def fuse_again(model: EcologicalInference, selection: Selection) -> None:
    """Fit the survey of a model anew, with the confounding and the selection that were learned."""
    assert model.survey_ is not None
    assert model.surveyed_ is not None
    before = {*model.survey_.said, *model.survey_.loud}
    allowance = allowance_of(model.model_, model.confounding_)
    given = (
        model.cells_,
        model.places_,
        model.surveyed_,
        allowance,
        selection,
        any(one.compare for one in model.surveys_),
    )
    model.model_, found = fuse_questions(model.model_, *given)
    model.survey_ = found
    model.warnings_ = (*(text for text in model.warnings_ if text not in before), *found.loud, *found.said)
    model.convergence_ = model.convergence_ | found.facts()


def asked_people(totals: Totals, people: FloatArray, stage: int) -> FloatArray:
    """Give how many of each place's people are asked a question, (q,)."""
    for before in range(stage):
        rate = observed_rate(totals, before)
        people = people * (rate if totals.turnout and before == 0 else 1.0 - rate)
    return people


def _rows(
    model: PersonsModel,
    design: Design,
    surveyed: Surveyed,
    places: PlaceTotals,
    cells: PlaceCells,
    stage: int,
) -> SurveyRows | None:
    people, rows = asked_people(places.totals, cells.total, stage), []
    if surveyed.respondents is not None:
        own = spread_rows(surveyed.respondents, stage, design.pairs, cells.codes, people, model.bins)
        rows += [] if own is None else [own]
    if (
        surveyed.claims is not None
        and surveyed.counted is not None
        and stage >= int(places.totals.turnout)
        and len(surveyed.claims.n)
    ):
        pairs = design_of(model, surveyed.counted, places.totals, stage).pairs
        first = len(surveyed.names) - len(surveyed.claims.sources)
        rows.append(claimed_rows(surveyed.claims, replace(surveyed.counted, pairs=pairs), places, people, stage, first))
    return stack_rows(rows) if rows else None


def _describe_surveys(
    surveyed: Surveyed, totals: Totals, stage: int, problem: Likelihood, found: SurveyPosterior
) -> list[dict[str, Any]]:
    """Say how far the respondents of every survey are from the totals, in logits and in points."""
    rows, own = problem.rows, surveyed.respondents
    logit = special.logit(problem.plain(found.theta).p)
    said = []
    for number in np.unique(rows.source).tolist():
        mine = rows.source == number
        weight = rows.trials[mine] / rows.trials[mine].sum()
        at = found.offset[number] + stats.norm.ppf(0.975) * found.offset_sd[number] * np.array([0.0, -1.0, 1.0])
        points = [float(weight @ (special.expit(logit[mine] + s) - special.expit(logit[mine]))) for s in at]
        inside = own is not None and number < len(own.names)
        n = float(own.people[number]) if inside and own is not None else float(rows.trials[mine].sum())
        effective = float(own.effective[number]) if inside and own is not None else n
        entry: dict[str, Any] = {"survey": surveyed.names[number], "question": totals.questions[stage]}
        entry |= {"respondents": n, "effective": effective}
        entry |= {"offset": float(found.offset[number]), "offset_error": float(found.offset_sd[number])}
        said.append(entry | dict(zip(("points", "points_low", "points_high"), points, strict=True)))
    return said


def _sentences(
    surveys: pa.Table, moved: list[dict[str, Any]], selection: Selection, surveyed: Surveyed, several: bool
) -> tuple[list[str], list[str]]:
    """Say it for the reader of every result, and warn."""
    notes = [*(surveyed.respondents.notes if surveyed.respondents is not None else ())]
    notes += [] if surveyed.claims is None else list(surveyed.claims.notes)
    if not surveys.num_rows:
        return [], [*notes, "No respondent gave an answer: the estimates are those of the totals alone."]
    said, loud = [], notes
    for row in surveys.to_pylist():
        about = f" (question {row['question']!r})" if several else ""
        kish = f" ({row['effective']:,.0f} after weights)" if row["effective"] < 0.999 * row["respondents"] else ""
        points = [100.0 * row[name] for name in ("points", "points_low", "points_high")]
        side = "above" if points[0] >= 0 else "below"
        said.append(
            f"{row['respondents']:,.0f} respondents{kish} of {row['survey']!r}{about} are {abs(points[0]):.1f} points {side} the totals "
            f"(95 % interval of the difference {points[1]:+.1f} to {points[2]:+.1f}); an offset takes that up."
        )
        if abs(row["offset"]) > FAR_OFFSET:
            loud.append(
                f"The offset of {row['survey']!r}{about} is {row['offset']:.2f} logits: check that the survey asked what the totals count, "
                "of the same people."
            )
    said.append(selection.describe())
    far = [row for row in moved if abs(row["moved"]) > FAR_MOVED]
    if far:
        names = ", ".join(f"{row['column']} {row['level']} ({row['moved']:+.1f})" for row in far[:5])
        loud.append(
            f"The survey moves {len(far)} group(s) by more than {FAR_MOVED} standard deviations of what the totals say: {names}. Codes "
            "that differ between survey and people do that too."
        )
    return said, loud
