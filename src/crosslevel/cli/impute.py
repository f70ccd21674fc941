"""``crosslevel impute``: what was each person's hidden value? Imputed columns, completed data sets, tables with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, check_known, from_classes, read_pairs
from crosslevel.data.atomic import whole_file
from crosslevel.data.batches import Batches
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.imputation.design import MOST_LEVELS
from crosslevel.imputation.estimate import stack_means
from crosslevel.imputation.inputs import dependent_columns
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

EXAMPLES = (
    "crosslevel impute people.parquet means.csv --partition state --impute diabetes --columns age --columns bmi --weight w --out run/",
    "crosslevel impute people.parquet means.csv --partition state --impute diabetes --impute smoker --by 'age*sex' --model cudia "
    "--n-clusters 4",
)
MODELS: dict[str, Any] = {"persons": CrossLevelImputer, "cudia": CUDIA}
OPTIONS = [
    Option("people", "file", f"People: {FILE_HELP}", required=True, argument=True),
    Option("means", "file", "The published means, a row for each group.", required=True, argument=True),
    Option("partition", help="Column of both files that names the group.", required=True, column_of="people"),
    Option("impute", help="Column of means: a variable to impute; repeat.", several=True, required=True, column_of="means"),
    Option(
        "columns",
        help="A column known of each person; repeat. All but the group, weight and hidden if left out.",
        several=True,
        column_of="people",
    ),
    Option("number", help="An imputed variable that is numeric, not binary; 'name=sd' if known; repeat.", several=True),
    Option("se", help="'variable=column': standard errors of its means; repeat.", several=True),
    Option("known_rates", "file", "Known rates of subgroups, such as national rates by age: their columns and those of --impute."),
    Option("where", help="Use these people only, for example 'age >= 18'."),
    Option("weight", help="Column of survey weights.", column_of="people"),
    Option("model", help="An individual-level model, or clusters of people. Default: persons.", choices=tuple(MODELS)),
    *from_classes(MODELS, "Model", "model", skip=("family", "scale", "families")),
    Option("by", "crossings", "Means to print: 'age', or a crossing 'age*sex'; repeat.", several=True, panel="Answer"),
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
    partition, stream = given["partition"], job.open("people", given.get("where"))
    means = job.read_beside("means", "partition", stream)
    columns = _columns(given, job, stream.schema.names, means.column_names)
    others = [partition, *([given["weight"]] if "weight" in given else [])]
    table = stream.select([*columns, *others]).to_table()
    if table.num_rows == 0:
        raise InputError(f"{given['people']} has no rows{' where ' + given['where'] if 'where' in given else ''}.")
    _check_names(given, table, columns)
    columns = _independent(given, job, table, columns)
    weight = table[given["weight"]] if "weight" in given else None
    people = (table.select(columns), table.select([partition]), weight)
    job.say(f"Fitting the means of {means.num_rows:,} groups: {table.num_rows:,} people")
    with quiet():
        model = _fitted(given, job, people, means, job.read("known_rates") if "known_rates" in given else None)
        job.say(f"Fitted; {job.seconds:,.1f} s")
        answers = _answers(given, job, model, people, columns, table)
        if job.out is not None:
            _write_people(given, job, model, stream, people)
    hidden = given["impute"]
    title = f"{', '.join(hidden)} by {partition}"
    asked = [n for n in answers if n in ("levels", *map(_name, given.get("by", ())))]
    pages = {f"Means by {n}": answers[n] for n in asked}
    told = [
        *model._report_tables(given.get("level", 0.95)).values(),
        *(answers[n] for n in ("groups",) if n in answers),
    ]
    job.write_answers(answers, model=model, pages={**pages, title: told}, title=title)
    job.print({n: answers[n] for n in asked}, max_rows=None, hidden_features=list(hidden))


def _check(given: Given) -> None:
    if given.get("imputations", 0) < 0:
        raise InputError(f"--imputations {given['imputations']} is not a number of data sets; pass 0 for none, or 20.")
    for option, names in (("--number", _numbers(given)), ("--se", _errors(given))):
        for name in names:
            if name not in given["impute"]:
                raise unknown_name(option, name, given["impute"], "hidden feature (--impute)")
    for names in given.get("by", ()):
        if not all(names) or len(set(names)) < len(names):
            raise InputError(
                f"--by {'*'.join(names)!r} does not name columns, each once; write for example --by 'age*sex'."
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


def _columns(given: Given, job: Job, people: list[str], means: list[str]) -> list[str]:
    """Refuse what neither file has; give the columns of people that are used."""
    job.check_columns(people=people, means=means)
    taken = [given["partition"], *given["impute"], *([given["weight"]] if "weight" in given else [])]
    columns = list(given.get("columns", [n for n in people if n not in taken]))
    for option, names, known in (
        ("--se", _errors(given).values(), means),
        ("--categorical", given.get("categorical", ()), columns),
        ("--by", [n for ask in given.get("by", ()) for n in ask], [*columns, given["partition"]]),
    ):
        for name in names:
            if name not in known:
                raise unknown_name(option, name, known)
    for name in given.get("columns", ()):
        if name in taken:
            raise InputError(f"--columns names {name!r}, which is the partition, the weight or hidden; leave it out.")
    if not columns:
        raise InputError(
            f"{given['people']} has no column beside {', '.join(taken)}; something must be known of each person."
        )
    for name in (f"{n}_imputed" for n in given["impute"]):
        if job.out is not None and name in people:
            raise InputError(
                f"{given['people']} has a column {name!r} already, where the answer would stand; rename it."
            )
    return columns


def _check_names(given: Given, table: pa.Table, columns: list[str]) -> None:
    """Refuse names and numbers of persons among columns that nobody asked for."""
    for name in columns if "columns" not in given else ():
        kind = table[name].type
        distinct = pc.count_distinct(table[name]).as_py()
        text = not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
        if distinct > MOST_NAMES and (text or (pa.types.is_integer(kind) and distinct == table.num_rows)):
            raise InputError(
                f"{name!r} has {distinct:,} different values among {table.num_rows:,} people, as if it named them; say with "
                "--columns, repeated, which columns are known of each person."
            )


def _independent(given: Given, job: Job, table: pa.Table, columns: list[str]) -> list[str]:
    """Leave out columns nobody asked for that are a function of another; those that were asked for are refused by the fit."""
    if "columns" in given:
        return columns
    of = dependent_columns(table.select(columns), table.select([given["partition"]]), given.get("categorical"))
    for name, other in of.items():
        job.say(f"Left out: {name!r} is a function of {other!r}, and tells nobody apart that {other!r} does not")
    return [n for n in columns if n not in of]


def _fitted(given: Given, job: Job, people: Any, means: pa.Table, known_rates: pa.Table | None) -> Any:
    numbers, pairs, partition, hidden = _numbers(given), _errors(given), given["partition"], given["impute"]
    published = means.select([partition, *hidden])
    errors = pa.table({partition: means[partition], **{n: means[c] for n, c in pairs.items()}}) if pairs else None
    chosen, parameters = given.get("model", "persons"), given.of("Model")
    if chosen == "persons":
        parameters["family"] = {n: "gaussian" if n in numbers else "bernoulli" for n in hidden}
        parameters["scale"] = {n: sd for n, sd in numbers.items() if sd is not None} or None
    else:
        families = dict.fromkeys(parameters.pop("categorical", ()), "categorical") | dict.fromkeys(numbers, "gaussian")
        parameters["families"] = families or "auto"
    check_known(MODELS, chosen, parameters, "model")
    X, groups, weight = people
    known = {} if known_rates is None else {"known_rates": known_rates}
    if known and chosen != "persons":
        raise InputError("--known-rates acts with --model persons; clusters do not take rates of subgroups.")
    with job.progress("Fitting", "steps") as bar:
        told = {} if chosen == "persons" else {"progress": bar}  # persons take seconds
        return MODELS[chosen](**parameters).fit(X, groups, published, weight, errors, **known, **told)


def _answers(
    given: Given, job: Job, model: Any, people: Any, columns: list[str], table: pa.Table
) -> dict[str, Estimates]:
    """Give the means that were asked for (by default of every level of every column), and what the fit tells of itself."""
    level, persons = given.get("level", 0.95), isinstance(model, CrossLevelImputer)

    def means_by(by: list[str]) -> Estimates:
        return model.estimate(by, level=level) if persons else model.estimate(by, *people, level=level, n_draws=DRAWS)

    if "by" in given:
        answers = {_name(ask): means_by(list(ask)) for ask in given["by"]}
    else:
        shown = [c for c in columns if pc.count_distinct(table[c]).as_py() <= MOST_LEVELS] or [given["partition"]]
        answers = {"levels": stack_means([means_by([c]) for c in shown], shown)}
        # every table of clusters needs draws of its own, so that one nobody asked for is spared
        if job.out is not None and len(shown) > 1 and persons:
            answers["cells"] = means_by(shown)
    if job.out is None:
        return answers
    if persons:
        return answers | {"slopes": model.slopes(level), "groups": model.check_totals(level)}
    return answers | {"clusters": model.clusters(level)}


def _name(by: tuple[str, ...]) -> str:
    """Name the means of --by; columns may be called as a table or file that is written in any case."""
    name = "-".join(by)
    return f"by-{name}" if name in OWN else name


def _write_people(given: Given, job: Job, model: Any, stream: Batches, people: Any) -> None:
    """Write the people with the expected hidden values behind, and the completed data sets."""
    X, groups, weight = people
    out, names, m = job.folder() or Path(), model.hidden_names_, given.get("imputations", 20)
    values = model.transform(X, groups, sample_weight=weight)
    schema = pa.schema([*stream.schema, *(pa.field(f"{n}_imputed", pa.float64()) for n in names)])
    done = 0
    with whole_file(out / "imputed.parquet") as beside, pq.ParquetWriter(beside, schema) as writer:
        for batch in stream:
            own = values[done : done + batch.num_rows]
            done += batch.num_rows
            writer.write_batch(pa.record_batch([*batch.columns, *(pa.array(v) for v in own.T)], schema=schema))
    job.files["imputed"] = str(out / "imputed.parquet")
    if m and not (isinstance(model, CUDIA) or all(h.binary or np.isfinite(h.unit) for h in model.hidden_)):
        job.say(
            "No completed data sets: how far a hidden number varies among people is not known; name it with --number feature=sd, or "
            "pass --se."
        )
    elif m:
        job.say(f"Drawing {m:,} completed data sets")
        with whole_file(out / "draws.parquet") as beside:
            pq.write_table(_draws(model.sample(X, groups, m, weight), names), beside)
        job.files["draws"] = str(out / "draws.parquet")
        seen = ", ".join([*X.column_names, *names, given["partition"]])
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
