"""``crosslevel impute``: what was each person's hidden value? Imputed columns, completed data sets, tables with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, check_known, from_classes, from_signature, read_pairs
from crosslevel.data.atomic import whole_file
from crosslevel.data.people import People
from crosslevel.data.places import Means, Places
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.imputation.estimate import stack_means
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

EXAMPLES = (
    "crosslevel impute people.parquet places.csv --by state --means diabetes --columns age --columns bmi --weight w --out run/",
    "crosslevel impute people.parquet places.csv --by state --means diabetes --means smoker --estimate 'age*sex' --model cudia "
    "--n-clusters 4",
)
MODELS: dict[str, Any] = {"persons": CrossLevelImputer, "cudia": CUDIA}
WHO = "People and places"
OPTIONS = [
    Option("people", "file", f"People: {FILE_HELP}", required=True, argument=True),
    Option("places", "file", "Places, one row each, with the published means.", required=True, argument=True),
    Option("by", help="Column of both files that names the place.", required=True, column_of="people"),
    Option("means", help="Column of places: the means of a hidden variable; repeat.", several=True, required=True, column_of="places"),
    *from_signature(People, WHO, skip=("data", "by"), columns=dict.fromkeys(("weight", "columns", "cluster"), "people")),
    Option("number", help="A hidden variable that is numeric, not binary; 'name=sd' if known; repeat.", several=True, panel=WHO),
    Option("se", help="'variable=column': standard errors of its means; repeat.", several=True, panel=WHO),
    Option("of", help="Whose means: of these people, or of others. Default: sample.", choices=("sample", "population"), panel=WHO),
    Option("known_rates", "file", "Known rates of subgroups, such as national rates by age, with the columns of --means.", panel=WHO),
    Option("model", help="An individual-level model, or clusters of people. Default: persons.", choices=tuple(MODELS)),
    *from_classes(MODELS, "Model", "model", skip=("family", "scale", "families")),
    Option("estimate", "crossings", "Means to print: 'age', or a crossing 'age*sex'; repeat.", several=True, panel="Answer"),
    Option("level", "number", "Level of the intervals. Default: 0.95.", panel="Answer"),
    Option(
        "imputations",
        "whole",
        "Completed data sets to write; 0 for none. Default: 20. What an analysis of them uses, its outcome too, must be in --columns.",
        panel="Answer",
    ),
    *INPUT,
    *OUTPUT,
]  # fmt: skip
DRAWS = 100
"""Draws behind an interval of ``cudia``."""
OWN = ("levels", "cells", "slopes", "groups", "clusters", "model", "report", "imputed", "draws")
"""Names of the tables and files that are written beside the means asked for."""
MOST_NAMES = 100
"""A column of text with more values than this is taken for a name of persons, unless it was asked for."""


def run(given: Given, job: Job) -> None:
    """Read, fit, write what was asked for, print the tables."""
    _check(given)
    schema = job.open("people").schema
    table = job.read_beside("places", "by", schema)
    job.check_columns(people=schema.names, places=table.column_names)
    people = People(job.read("people"), by=given["by"], **given.of(WHO, skip=("number", "se", "of", "known_rates")))
    n = _check_names(given, job, people)
    job.say(f"Fitting the means of {table.num_rows:,} places: {n:,} people")
    with quiet():
        model = _fitted(given, job, people, _places(given, job, table))
        job.say(f"Fitted; {job.seconds:,.1f} s")
        answers = _answers(given, job, model)
        if job.out is not None:
            _write_people(given, job, model, people)
    hidden = given["means"]
    title = f"{', '.join(hidden)} by {given['by']}"
    asked = [n for n in answers if n in ("levels", *map(_name, given.get("estimate", ())))]
    told = [
        *model._report_tables(given.get("level", 0.95)).values(),
        *(answers[n] for n in ("groups",) if n in answers),
    ]
    job.write_answers(
        answers, model=model, pages={f"Means by {n}": answers[n] for n in asked} | {title: told}, title=title
    )
    job.print({n: answers[n] for n in asked}, max_rows=None, hidden_features=list(hidden))


def _check(given: Given) -> None:
    if given.get("imputations", 0) < 0:
        raise InputError(f"--imputations {given['imputations']} is not a number of data sets; pass 0 for none, or 20.")
    for option, names in (("--number", _numbers(given)), ("--se", _errors(given))):
        for name in names:
            if name not in given["means"]:
                raise unknown_name(option, name, given["means"], "hidden feature (--means)")
    for names in given.get("estimate", ()):
        if not all(names) or len(set(names)) < len(names):
            raise InputError(
                f"--estimate {'*'.join(names)!r} does not name columns, each once; write for example --estimate 'age*sex'."
            )


def _numbers(given: Given) -> dict[str, float | None]:
    """Read hidden features that are numbers, with the standard deviation among persons where it is known."""
    found: dict[str, float | None] = {}
    for text in given.get("number", ()):
        name, mark, sd = (part.strip() for part in text.partition("="))
        try:
            found[name] = float(sd) if mark else None
        except ValueError:
            raise InputError(
                f"--number {text!r}: {sd!r} is not a standard deviation; write for example --number bmi=5.5, or --number bmi."
            ) from None
    return found


def _errors(given: Given) -> dict[str, str]:
    return read_pairs(given.get("se", ()), "--se", "feature=column")


def _places(given: Given, job: Job, table: pa.Table) -> Places:
    rates = job.read("known_rates") if "known_rates" in given else None
    means = Means(given["means"], se=_errors(given) or None, known_rates=rates, of=given.get("of", "sample"))
    return Places(table, by=given["by"], means=means)


def _check_names(given: Given, job: Job, people: People) -> int:
    """Refuse names of persons among columns that nobody asked for, and columns that stand where the answer would; count people."""
    table = people.answer("select * from people")
    if not table.num_rows:
        raise InputError(f"{given['people']} has no rows where {people.where}.")
    for name in people.features if people.columns is None else ():
        kind, distinct = table[name].type, pc.count_distinct(table[name]).as_py()
        text = not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
        if distinct > MOST_NAMES and (text or (pa.types.is_integer(kind) and distinct == table.num_rows)):
            raise InputError(
                f"{name!r} has {distinct:,} different values among {table.num_rows:,} people, as if it named them; say with "
                "--columns, repeated, which columns are known of each person."
            )
    for name in (f"{n}_imputed" for n in given["means"]):
        if job.out is not None and name in people.schema.names:
            raise InputError(
                f"{given['people']} has a column {name!r} already, where the answer would stand; rename it."
            )
    return table.num_rows


def _fitted(given: Given, job: Job, people: People, places: Places) -> Any:
    numbers, hidden = _numbers(given), given["means"]
    chosen, parameters = given.get("model", "persons"), given.of("Model")
    if chosen == "persons":
        parameters["family"] = {n: "gaussian" if n in numbers else "bernoulli" for n in hidden}
        parameters["scale"] = {n: sd for n, sd in numbers.items() if sd is not None} or None
    else:
        parameters["families"] = dict.fromkeys(numbers, "gaussian") or "auto"
    check_known(MODELS, chosen, parameters, "model")
    with job.progress("Fitting", "steps") as bar:
        told = {} if chosen == "persons" else {"progress": bar}  # persons take seconds
        return MODELS[chosen](**parameters).fit(people, places, **told)


def _answers(given: Given, job: Job, model: Any) -> dict[str, Estimates]:
    """Give the means that were asked for (by default of every level of every column), and what the fit tells of itself."""
    level, persons = given.get("level", 0.95), isinstance(model, CrossLevelImputer)
    more = {} if persons else {"n_draws": DRAWS}
    if "estimate" in given:
        answers = {_name(ask): model.estimate(list(ask), level=level, **more) for ask in given["estimate"]}
    else:
        shown = list(model._shown)
        answers = {"levels": stack_means([model.estimate([c], level=level, **more) for c in shown], shown)}
        # every table of clusters needs draws of its own, so that one nobody asked for is spared
        if job.out is not None and len(shown) > 1 and persons:
            answers["cells"] = model.estimate(shown, level=level)
    if job.out is None:
        return answers
    if persons:
        return answers | {"slopes": model.slopes(level), "groups": model.check_totals(level)}
    return answers | {"clusters": model.clusters(level)}


def _name(by: tuple[str, ...]) -> str:
    """Name the means of --estimate; columns may be called as a table or file that is written in any case."""
    name = "-".join(by)
    return f"by-{name}" if name in OWN else name


def _write_people(given: Given, job: Job, model: Any, people: People) -> None:
    """Write the people with the expected hidden values behind, and the completed data sets."""
    everybody = people.answer("select * from people")
    out, names, m = job.folder() or Path(), model.hidden_names_, given.get("imputations", 20)
    imputed = model.transform(people)
    for name in names:
        everybody = everybody.append_column(f"{name}_imputed", imputed[name])
    with whole_file(out / "imputed.parquet") as beside:
        pq.write_table(everybody, beside)
    job.files["imputed"] = str(out / "imputed.parquet")
    if m and not (isinstance(model, CUDIA) or all(h.binary or np.isfinite(h.unit) for h in model.hidden_)):
        job.say(
            "No completed data sets: how far a hidden number varies among people is not known; name it with --number feature=sd."
        )
    elif m:
        job.say(f"Drawing {m:,} completed data sets")
        with whole_file(out / "draws.parquet") as beside:
            pq.write_table(_draws(model.sample(people, m), names), beside)
        job.files["draws"] = str(out / "draws.parquet")
        seen = ", ".join([*model.schema_.names, *names, given["by"]])
        job.say(
            f"An analysis of the completed data sets may use {seen}; coefficients on any other column, or of another outcome, are drawn to "
            "zero: name it with --columns and impute again"
        )


def _draws(draws: FloatArray, features: tuple[str, ...]) -> pa.Table:
    """Lay out completed data sets (m, n, features), a column each; yes and no as small whole numbers."""
    width = len(str(len(draws)))
    columns = {}
    for j, name in enumerate(features):
        whole = bool(np.isin(draws[:, :, j], (0.0, 1.0)).all())
        for i, values in enumerate(draws[:, :, j]):
            columns[f"{name}_{i + 1:0{width}d}"] = pa.array(values.astype(np.int8) if whole else values)
    return pa.table(columns)
