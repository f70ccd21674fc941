"""``crosslevel ecological``: people by place and totals by place in, the behavior of any subgroup in any place out.

What is asked for: columns, crossings of columns and named subgroups, read from the texts after ``--estimate``.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import crosslevel as cl
from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, file_stem, free_name
from crosslevel.cli.options import Given, Option, check_known, from_classes, from_signature
from crosslevel.data.checks import check_level
from crosslevel.data.expressions import read_expression
from crosslevel.data.places import read_places
from crosslevel.ecological.confounding import LearnedConfounding
from crosslevel.ecological.estimate import read_interval
from crosslevel.ecological.subgroups import read_question, read_request
from crosslevel.errors import CrosslevelWarning, InputError, listed, unknown_name
from crosslevel.reports.shapes import read_shapes
from crosslevel.results import Estimates

OPERATOR = re.compile(r"[<>=!()]|\b(?:and|or|not|in|is|between|like)\b", re.IGNORECASE)
NO_NAME = re.compile(r"[<>!()'\"`\[\]]")
"""Signs that end no name of a subgroup: what stands before the first ``=`` is then part of a query."""


@dataclass(frozen=True)
class Ask:
    """One call of ``estimate``: the values of columns, or subgroups by name.

    Attributes
    ----------
    by : tuple of str
    subgroups : dict of name to query
    """

    by: tuple[str, ...] = ()
    subgroups: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What is asked, for a heading."""
        return " x ".join(self.by) if self.by else ", ".join(self.subgroups)

    def stem(self, where: str | None) -> str:
        """Name of the files, ``where`` being the key of places or roll-ups, or None for everywhere."""
        what = "-x-".join(map(file_stem, self.by)) if self.by else "subgroups"
        return f"{what}-everywhere" if where is None else f"{what}-by-{file_stem(where)}"


def read_asks(texts: Sequence[str], people: pa.Schema) -> list[Ask]:
    """Read what is asked for; all subgroups together make one ask, since they are answered in one pass.

    Parameters
    ----------
    texts : sequence of str
        A column; columns joined by ``,`` or ``*``; a query, named by its own text; or ``name=query``.
    people : pyarrow.Schema
        Columns of people.

    Examples
    --------
    >>> people = pa.schema({"sex": pa.int64(), "race": pa.string(), "age": pa.int64()})
    >>> for ask in read_asks(["sex", "sex * race", "age >= 65", "old women=sex = 2 and age >= 65"], people):
    ...     print(ask.by, ask.subgroups)
    ('sex',) {}
    ('sex', 'race') {}
    () {'age >= 65': 'age >= 65', 'old women': 'sex = 2 and age >= 65'}
    """
    columns: list[Ask] = []
    subgroups: dict[str, str] = {}
    for text in (t.strip() for t in texts):
        by = _columns(text, people.names)
        if by:
            if Ask(by) in columns:
                raise InputError(f"--estimate names {text!r} twice; ask once.")
            columns.append(Ask(by))
            continue
        name, query = _named(text)
        if not query:
            parts = [part.strip() for part in re.split(r"[,*]", text)]
            strange = next((part for part in parts if part not in people.names), text)
            raise unknown_name("--estimate", strange, people.names)
        _check_ask(text, name, query, people)
        if name in subgroups:
            raise InputError(f"--estimate names {name!r} twice; give each subgroup its own name.")
        subgroups[name] = query
    return [*columns, *([Ask(subgroups=subgroups)] if subgroups else [])]


def _columns(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Give the columns that the text names, or nothing."""
    if text in known:
        return (text,)
    parts = tuple(part.strip() for part in re.split(r"[,*]", text))
    if not all(part in known for part in parts):
        return ()
    if len(set(parts)) < len(parts):
        raise InputError(f"--estimate {text!r} names a column twice; name each once.")
    return parts


def _named(text: str) -> tuple[str, str]:
    """Give the name of a subgroup and its query; no query when the text has no operator."""
    name, mark, query = (part.strip() for part in text.partition("="))
    if mark and name and query and not query.startswith("=") and not NO_NAME.search(name):
        return name, query
    return text, text if OPERATOR.search(text) else ""


def _check_ask(text: str, name: str, query: str, people: pa.Schema) -> None:
    try:
        read_expression(query, "estimate", people)
    except InputError as error:
        hint = (
            f" ('=' ends the name of a subgroup; to compare, write {name} == {query})" if name in people.names else ""
        )
        raise InputError(f"--estimate {text!r}: {error}{hint}") from error


EXAMPLES = (
    "crosslevel ecological people.parquet places.csv --by region --weight w --successes dem --trials votes --lon lon --lat lat "
    "--estimate sex --estimate 'sex*race' --rollup state --out run/ --report",
    "crosslevel ecological people.parquet places.csv --by region --successes dem --trials votes --spatial none --columns sex "
    "--columns age --survey poll.csv --survey-outcome voted_dem --survey-by state --rollup all "
    "--estimate 'old women=sex = 2 and age >= 65'",
    "crosslevel ecological precincts.csv --by precinct --group-counts race=white:vap_white,black:vap_black,other:vap_other "
    "--successes dem --trials votes --lon lon --lat lat --group county --estimate race --rollup all",
)
MODELS: dict[str, Any] = {"persons": cl.EcologicalInference, "regression": cl.ecological.DistributionRegression}
PLACES = ("successes", "trials", "outcomes", "population")
WHO = "People and places"
SURVEYED = [
    replace(option, name=f"survey_{option.name}", required=False, needs=("survey",))
    for option in from_signature(cl.Survey, WHO, skip=("data", "name"))
]
OPTIONS = [
    Option(
        "people",
        "file",
        f"People: {FILE_HELP} With --group-counts, the places in their place.",
        required=True,
        argument=True,
    ),
    Option("places", "file", "Places, one row each, with their totals; left out with --group-counts.", argument=True),
    Option("by", help="Column of both tables that names the place.", required=True, column_of="places"),
    Option(
        "estimate",
        help="What to estimate: a column (sex), a crossing ('sex*race'), a condition ('age >= 65') or 'name=condition'; repeat.",
        several=True,
        panel="Answer",
    ),
    Option(
        "rollup",
        help="Put places together by this column of theirs, or 'all'; repeat. Answers by place come too.",
        several=True,
        panel="Answer",
        needs=("estimate",),
    ),
    Option("lon", help="Column of places: longitude, or the first coordinate.", column_of="places", needs=("lat",)),
    Option("lat", help="Column of places: latitude, or the second coordinate.", column_of="places", needs=("lon",)),
    *from_signature(
        cl.People, WHO, skip=("data", "by"), columns=dict.fromkeys(("weight", "columns", "cluster"), "people")
    ),
    *from_signature(cl.Places, WHO, skip=("data", "by", "coords", "margins"), columns=dict.fromkeys(PLACES, "places")),
    Option("margins", "file", "Exact counts of columns of people by place, which people are raked to.", panel=WHO),
    Option(
        "group_counts",
        "pairs",
        "Counts of groups in columns of places in place of people: race=white:vap_white,black:vap_black; repeat.",
        several=True,
        panel=WHO,
        excludes=("where", "cluster", "margins"),
    ),
    Option(
        "survey",
        "file",
        "Respondents who were asked the outcome, with the columns of people.",
        panel=WHO,
        needs=("survey_outcome",),
    ),
    *SURVEYED,
    Option(
        "published_shares", "file", "Published shares of subgroups: subgroup, source, places and counts.", panel=WHO
    ),
    *from_signature(cl.EcologicalInference.fit, WHO, skip=("people", "places", "survey", "progress")),
    Option(
        "model",
        help="People one by one, or the regression on whole places. Default: persons.",
        choices=tuple(MODELS),
    ),
    *from_classes(MODELS, "Model", "model"),
    *from_signature(
        cl.EcologicalInference.estimate,
        "Answer",
        skip=("by", "subgroups", "where", "rollup", "people", "progress"),
    ),
    Option(
        "contrast",
        help="Compare the subgroups of each place or roll-up with one another.",
        choices=("difference", "ratio"),
        panel="Answer",
        needs=("estimate",),
    ),
    Option(
        "reference",
        help="The subgroup to compare with; each pair is compared otherwise.",
        panel="Answer",
        needs=("contrast",),
    ),
    Option(
        "learn_confounding",
        help="Hide a column of 0 and 1 or a condition on people to learn how far subgroups are off; repeat, or say 'auto'.",
        several=True,
        panel="Checks",
    ),
    Option(
        "measure_selection",
        "switch",
        "Measure how far respondents differ from the people of their groups, on the hidden columns that the survey has.",
        panel="Checks",
        needs=("learn_confounding", "survey"),
    ),
    Option("cross_validate", "whole", "Predict each place from the others, in so many folds.", panel="Checks"),
    Option(
        "leave_out",
        help="The same, one value of this column at a time.",
        panel="Checks",
        column_of="places",
        excludes=("cross_validate",),
    ),
    Option("polygons", "file", "GeoJSON of the places, for the maps of the report.", panel="Output", needs=("report",)),
    *INPUT,
    *OUTPUT,
]
VALIDATION, EVERYWHERE, AUTOMATIC = "cross-validation", "all", "auto"


def run(given: Given, job: Job) -> None:
    """Read, fit, answer, validate, write what was asked for, print the tables."""
    _check(given, job)
    by = given["by"]
    people: Any
    if "group_counts" in given:
        groups = read_composition(given)
        people, places = cl.GroupCounts(groups, given.get("weight")), job.read("places")
        schema = pa.schema({by: pa.string(), **dict.fromkeys(groups, pa.string())})
        job.check_columns(people=[*schema.names, *places.column_names], places=places.column_names)
    else:
        people = describe_people(given, job)
        places, schema = job.read_beside("places", "by", people.schema), people.schema
        job.check_columns(people=schema.names, places=places.column_names)
    for name in given.get("rollup", ()):
        if name not in (EVERYWHERE, *places.column_names):
            raise unknown_name("--rollup", name, places.column_names)
    asks = read_asks(given.get("estimate", ()), schema)
    _check_questions(given, asks, places)
    polygons = _read_polygons(given, job, places[by].to_pylist()) if "polygons" in given else None
    job.folder()
    model = _fitted(given, job, people, places)
    if "learn_confounding" in given:
        _learn(given["learn_confounding"], model, job, given.get("measure_selection", False))
    job.keep("model", model)
    answers = _answered(given, job, model, asks)
    if {"cross_validate", "leave_out"} & set(given):
        with job.progress("Predicting every place from the others", "folds") as bar:
            how = {"k": given.get("cross_validate", 10), "random_state": given.get("random_state", 0)}
            how = {"leave_out": given["leave_out"]} if "leave_out" in given else how
            answers[VALIDATION] = model.cross_validate(level=given.get("level", 0.95), progress=bar, **how)
    pages: dict[str, Any] = {name.replace("-", " "): found for name, found in answers.items()}
    pages = pages or {"places": model.predict_places()}
    if getattr(model, "survey_", None) is not None:
        pages |= {found.title: found for name, found in model._report_tables().items() if name == "survey"}
    job.write_answers(
        answers,
        pages=pages,
        title=f"Ecological inference: {given['places'].name}",
        polygons=polygons,
    )
    long = [n for n, a in answers.items() if n == VALIDATION or (by in a.keys and "rollup" in given)]
    scores = answers[VALIDATION].diagnostics if VALIDATION in answers else {}
    if scores and not job.as_json:
        print(f"Places predicted from others: {', '.join(f'{n} {v}' for n, v in scores.items())}")
    job.print(
        answers,
        fit=model.convergence_,
        warnings=model.warnings_,
        hidden=long if job.out is not None else (),
        scores=scores,
        confounding=_confounding(model),
        survey=_survey(model),
    )


def _check(given: Given, job: Job) -> None:
    asked = {"estimate", "cross_validate", "leave_out"} & set(given)
    if not asked and job.out is None:
        raise InputError(
            "nothing is asked; write for example --estimate sex, --estimate 'age >= 65' or --cross-validate 10, or keep the model "
            "with --out."
        )
    if "places" not in given and "group_counts" not in given:
        raise InputError(
            "PLACES is missing; name the table of places after that of people, or say with --group-counts which of its columns count "
            "people."
        )
    if "lon" not in given and given.get("spatial", "") is not None:
        raise InputError("--lon and --lat are missing; name two columns of places, or pass --spatial none.")
    if AUTOMATIC in given.get("learn_confounding", ()) and len(given["learn_confounding"]) > 1:
        raise InputError("--learn-confounding auto chooses the columns itself; leave out the others.")


def read_composition(given: Given) -> dict[str, dict[str, str]]:
    """Read ``race=white:vap_white,black:vap_black``, or the columns alone; the one file named is then that of the places."""
    if "places" in given:
        raise InputError(
            f"--group-counts says who lives in the places, and {given['people']} and {given['places']} are named; name the table of "
            "places only, or leave --group-counts out."
        )
    given["places"] = given.pop("people")
    found: dict[str, dict[str, str]] = {}
    for column, text in given["group_counts"].items():
        parts = [part.strip() for part in str(text).split(",")]
        levels = [
            (level.strip(), name.strip() or level.strip()) for level, _, name in (p.partition(":") for p in parts)
        ]
        if not all(level for level, _ in levels) or len(dict(levels)) < len(levels):
            raise InputError(
                f"--group-counts {column}={text} has an empty level or one twice; write level:column,level:column, or columns alone."
            )
        found[column] = dict(levels)
    return found


def _check_questions(given: Given, asks: list[Ask], places: Any) -> None:
    """Refuse what cannot be answered before anybody is read."""
    totals = {name: given.get(name) for name in PLACES}
    found = read_places(places, given["by"], totals.pop("successes"), totals.pop("trials"), **totals)
    known = ("model",) if given.get("model") == "regression" else ("confounding", "model")
    defaults = inspect.signature(cl.EcologicalInference.estimate).parameters
    options = {n: given.get(n, defaults[n].default) for n in ("share_of", "level", "n_draws")}
    options |= {"interval": read_interval(given.get("interval"), known), "seed": given.get("random_state", 0)}
    check_level(options["level"])
    for ask in asks:
        request = read_request(ask.by or None, ask.subgroups or None, None, given["by"])
        for rollup in (*given.get("rollup", ()), None):
            read_question(found, request, rollup=rollup, **options)
    k = given.get("cross_validate", 2)
    if not 2 <= k <= len(found):
        raise InputError(f"--cross-validate {k} is not between 2 and the {len(found):,} places.")


def describe_people(given: Given, job: Job) -> cl.People:
    """Describe the people of the file."""
    names = ("weight", "cluster", "columns", "categorical", "where")
    return cl.People(job.open("people"), by=given.get("by"), **{name: given[name] for name in names if name in given})


def _fitted(given: Given, job: Job, people: Any, places: Any) -> Any:
    chosen = given.get("model", "persons")
    check_known(MODELS, chosen, given.of("Model"), "model")
    totals = describe_places(given, job, places)
    surveys = describe_surveys(given, job)
    check_known({name: cls.fit for name, cls in MODELS.items()}, chosen, ["survey"] if surveys else [], "model")
    model = MODELS[chosen](**given.of("Model"))
    with job.progress("Fitting people and totals", "people") as bar:
        told = {"survey": surveys} if surveys else {}
        model.fit(people, totals, **told, unmatched=given.get("unmatched", "error"), progress=bar)
    said = model.convergence_
    job.say(f"Fitted {said['places']:,} places, {said['people']:,} people; {job.seconds:,.1f} s")
    return model


def describe_places(given: Given, job: Job, places: Any) -> cl.Places:
    """Describe the totals of the file."""
    coords = (given["lon"], given["lat"]) if "lon" in given else None
    margins = job.read("margins") if "margins" in given else None
    named = {n: given[n] for n in (*PLACES, "covariates") if n in given}
    return cl.Places(places, by=given["by"], coords=coords, margins=margins, **named)


def describe_surveys(given: Given, job: Job) -> list[Any]:
    """Describe the survey and the published shares of the files."""
    found: list[Any] = []
    if "survey" in given:
        named = {option.name.removeprefix("survey_"): given[option.name] for option in SURVEYED if option.name in given}
        found.append(cl.Survey(job.read("survey"), **named))
    if "published_shares" in given:
        found.append(cl.PublishedShares(job.read("published_shares")))
    return found


def _learn(labels: list[str], model: Any, job: Job, survey: bool) -> None:
    """Hide columns one after another; the model keeps what it learned."""
    with job.progress("Hiding columns", "columns") as bar, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CrosslevelWarning)
        model.learn_confounding(
            labels=AUTOMATIC if labels == [AUTOMATIC] else labels, progress=bar, **({"survey": True} if survey else {})
        )
    for text in said:
        job.say(f"Warning: {text.message}")
    job.say(f"Confounding: {_in_use(model).describe()}")


def _answered(given: Given, job: Job, model: Any, asks: list[Ask]) -> dict[str, Estimates]:
    """Answer every question, roll-ups first, each in one pass over the people, and write each as soon as it is there."""
    answers: dict[str, Estimates] = {}
    options = given.of("Answer", skip=("estimate", "rollup", "contrast", "reference"))
    for ask in asks:
        for rollup in (*given.get("rollup", ()), None):
            where = given["by"] if rollup is None else None if rollup == EVERYWHERE else rollup
            with job.progress(f"{ask.words}, {'everywhere' if where is None else f'by {where}'}") as bar:
                found = model.estimate(ask.by or None, ask.subgroups or None, rollup=rollup, progress=bar, **options)
            if "contrast" in given:
                found = found.contrast(given["contrast"], reference=given.get("reference"))
            name = free_name(ask.stem(where), answers)
            found = answers[name] = replace(found, joint=None)  # large, and of no more use
            job.write(name, found)
    return answers


def _in_use(model: Any) -> LearnedConfounding:
    """Give what was learned as intervals use it: the prior that a survey changes is normal."""
    found: LearnedConfounding = model.confounding_
    if getattr(model.model_, "surveyed", None) is None:
        return found
    return replace(found, confounding=replace(found.confounding, tail=None))


def _confounding(model: Any) -> dict[str, Any] | None:
    if model.confounding_ is None:
        return None
    found = _in_use(model)
    known = found.confounding
    return {
        "words": found.describe(),
        "tau": known.of_effects.tau,
        "omega": known.omega,
        "labels": found.table.to_pylist(),
    }


def _survey(model: Any) -> dict[str, Any] | None:
    found = getattr(model, "survey_", None)
    if found is None:
        return None
    selection = {"sd": found.selection.sd, "from": found.selection.origin, "columns": dict(found.selection.columns)}
    tables = {name: getattr(found, name).to_pylist() for name in ("surveys", "moved", "compared")}
    return {**tables, "selection": selection}


def _read_polygons(given: Given, job: Job, places: list[object]) -> dict[str, Any]:
    """Read a map that shows all of these places."""
    found = job.read_map("polygons")
    shapes = read_shapes(found)
    known = shapes.names_for(places, given["by"]) or ()
    missing = [place for place in places if str(place) not in known]
    if missing:
        raise InputError(
            f"--polygons {given['polygons']} lacks {len(missing):,} place(s) ({listed(missing)}) in every property of its features "
            f"({listed(shapes.properties)}); pass the map of these places."
        )
    return found
