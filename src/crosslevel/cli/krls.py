"""``crosslevel krls``: how does y respond to each x? A table of average effects, the model, a report."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, from_signature, read_pairs
from crosslevel.data import frames
from crosslevel.errors import InputError
from crosslevel.krls import KRLS

EXAMPLES = (
    "crosslevel krls data.csv --y voted --x treatment --x age --cluster household --out answer/",
    "crosslevel krls data.parquet --y voted --x treatment --x age --x sex --categorical sex --reference treatment=control "
    "--where 'age >= 18' --by sex --differences",
)
OPTIONS = [
    Option("data", "file", FILE_HELP, required=True, argument=True),
    Option("y", help="Column of the outcome.", required=True, column_of="data"),
    Option("x", help="Column of a covariate; repeat. Text is a factor.", several=True, required=True, column_of="data"),
    Option("cluster", help="Column of clusters, within which errors may be correlated.", column_of="data"),
    Option("weight", help="Column of survey weights.", column_of="data"),
    Option("where", help="Keep these rows only, for example 'age >= 18'."),
    Option(
        "by", help="Column of subgroups; repeat to cross them.", several=True, column_of="data", excludes=("subgroup",)
    ),
    Option("subgroup", help="'name=condition' on covariates, for example 'old=age >= 65'; repeat.", several=True),
    *from_signature(KRLS, "Model"),
    *from_signature(KRLS.effects, "Answer", skip=("by",)),
    *INPUT,
    *OUTPUT,
]


def run(given: Given, job: Job) -> None:
    """Read, fit, write what was asked for, print the table."""
    y, x, by = given["y"], list(given["x"]), given.get("by", [])
    if y in x:
        raise InputError(f"--x {y} is the outcome; a covariate must be another column.")
    subgroups = read_pairs(given.get("subgroup", ()), "--subgroup", "name=condition")
    job.check_columns(data=job.open("data").schema.names)
    columns = [y, *x, *by, *(given[n] for n in ("cluster", "weight") if n in given)]
    table = job.read("data", given.get("where"), columns)
    job.say(f"Fitting {table.num_rows:,} rows, {len(x):,} covariates")
    parameters = given.of("Model")
    if "reference" in parameters:
        parameters["reference"] = _typed(parameters["reference"], table)
    weight = frames.column(table, given["weight"], "--weight") if "weight" in given else None
    cluster = table[given["cluster"]] if "cluster" in given else None
    outcome = frames.column(table, y, "--y")
    with job.progress("Fitting rows", "steps") as bar:
        model = KRLS(**parameters).fit(table.select(x), outcome, weight, cluster, progress=bar)
    with quiet():
        groups: Any = subgroups or (table.select(by) if by else None)
        found = model.effects(by=groups, **given.of("Answer"))
    job.say(f"{model.path_[0].upper()}{model.path_[1:]}; {job.seconds:,.1f} s")
    name = f"Effects on {y}"
    answers = {"effects": found}
    job.write_answers(answers, model=model, pages={found.title: found, name: model}, title=name)
    job.print(answers, max_rows=None)


def _typed(references: dict[str, Any], table: pa.Table) -> dict[str, Any]:
    """Give levels of columns of text as text, and those of numbers as numbers."""
    frames.check_columns(table, list(references), "--reference")
    out = {}
    for name, level in references.items():
        number = pa.types.is_integer(table[name].type) or pa.types.is_floating(table[name].type)
        if number and isinstance(level, str):
            raise InputError(f"--reference {name}={level}: {name!r} is a column of numbers; name one of them.")
        out[name] = level if number else str(level)
    return out
