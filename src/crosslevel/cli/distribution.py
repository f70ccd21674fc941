"""``crosslevel distribution``: which label belongs to a group of people? Predictions, and the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel import distribution
from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, check_known, from_classes
from crosslevel.data import checks, frames
from crosslevel.data.bags import Bags
from crosslevel.data.members import MISSING
from crosslevel.errors import InputError, listed
from crosslevel.typing import AnyArray

EXAMPLES = (
    "crosslevel distribution members.parquet labels.csv --by group --label y --weight w --columns age --columns income --out run/",
    "crosslevel distribution members.parquet labels.csv --by group --label kind --classify --predict new.parquet --json",
)
REGRESSORS: dict[str, Any] = {
    "mean_shrinkage": distribution.MeanShrinkage,
    "bayesian_linear": distribution.BayesianLinear,
    "rbf_network": distribution.RBFNetwork,
    "frequentist_shrinkage": distribution.FrequentistShrinkage,
    "full_bayes": distribution.FullBayes,
}
CLASSIFIERS: dict[str, Any] = {
    "mean_shrinkage": distribution.MeanShrinkageClassifier,
    "bayesian_linear": distribution.BayesianLinearClassifier,
    "full_bayes": distribution.FullBayesClassifier,
}
DEFAULT = "mean_shrinkage"
OPTIONS = [
    Option("members", "file", f"Members: {FILE_HELP}", required=True, argument=True),
    Option("labels", "file", "Labels, a row for each group: CSV, Parquet or Arrow file.", required=True, argument=True),
    Option("by", help="Column of both files that names the group.", required=True, column_of="members"),
    Option("label", help="Column of the labels: a number, or with --classify a class.", required=True, column_of="labels"),
    Option("columns", help="A feature of members; repeat. Default: all columns except by and weight.", several=True, column_of="members"),
    Option("weight", help="Column of members: survey weights.", column_of="members"),
    Option("categorical", help="A column of members whose numbers are codes; repeat.", several=True, column_of="members"),
    Option("missing", help="Missing values of members. Default: error.", choices=MISSING),
    Option("unmatched", help="What to do with groups that are in one file only. Default: error.", choices=("error", "drop")),
    Option("predict", "file", "Members of new groups, whose labels are to be predicted."),
    Option("level", "number", "Level of the intervals of numbers. Default: 0.95.", panel="Answer", excludes=("classify",)),
    Option("model", help=f"Default: {DEFAULT}.", choices=tuple(REGRESSORS), panel="Estimator"),
    Option("classify", "switch", "The label is a class.", panel="Estimator"),
    *from_classes(REGRESSORS, "Model", "model", kinds={"n_landmarks": "value", "bandwidth": "value", "bandwidth_scale": "value"}),
    *INPUT,
    *OUTPUT,
]  # fmt: skip


def run(given: Given, job: Job) -> None:
    """Read, fit and predict, print the tables."""
    empty = _model(given)
    bags, y, left_out = _read(given, job)
    job.say(f"{type(empty).__name__}: {len(bags):,} groups, {len(bags.values):,} members, {bags.shape[1]:,} columns")
    fresh = None
    if "predict" in given:
        table = job.read("predict")
        job.check_columns(members=table.column_names)
        fresh = Bags.from_frame(table, given["by"], weight=given.get("weight"), like=bags)
    with job.progress("Fitting all groups", "steps") as bar:
        model = empty.fit(bags, y, progress=bar)
    with quiet():
        answers = {"fitted": model.estimate(bags, y=y, **given.of("Answer"))}
        if fresh is not None:
            answers["predictions"] = model.estimate(fresh, **given.of("Answer"))
    job.write_answers(answers, model=model, title=f"{given['label']} by {given['by']}")
    hidden = ["fitted"] if fresh is not None else []
    job.print(answers, fit=model.diagnostics_, warnings=[left_out] if left_out else [], hidden=hidden)


def _model(given: Given) -> Any:
    """Make the estimator, before any file is read."""
    chosen, known = given.get("model", DEFAULT), CLASSIFIERS if "classify" in given else REGRESSORS
    if chosen not in known:
        raise InputError(f"--model {chosen} has no classifier; with --classify use one of {', '.join(CLASSIFIERS)}.")
    check_known(known, chosen, given.of("Model"), "model")
    return known[chosen](**given.of("Model"))


def _read(given: Given, job: Job) -> tuple[Bags, AnyArray, str]:
    """Read members and labels and match them; also say what was left out."""
    by, label, schema = given["by"], given["label"], job.open("members").schema
    labels = job.read_beside("labels", "by", schema)
    job.check_columns(members=schema.names, labels=labels.column_names)
    if by == label:
        raise InputError(f"--label {label} is also --by; the label must be another column.")
    checks.check_unique(labels, by, "--by")
    columns, weight = _features(given, schema), given.get("weight")
    table = job.read("members", columns=[by, *columns, *([weight] if weight else [])])
    encoded = {n: given[n] for n in ("categorical", "missing") if n in given}
    return _matched(given, Bags.from_frame(table, by, columns, weight, **encoded), labels)


def _features(given: Given, schema: pa.Schema) -> list[str]:
    """Name the columns of members that are used; all of them, if they are numbers, when none is named."""
    members, label, taken = given["members"], given["label"], (given["by"], given.get("weight"))
    for name in given.get("columns", ()):
        if name in (*taken, label):
            raise InputError(f"--columns {name} is the group, the weight or the label; leave it out.")
    if "columns" in given:
        return list(given["columns"])
    chosen = [n for n in schema.names if n not in taken]
    if label in chosen:
        raise InputError(
            f"{members} has a column {label!r} like the label, which would tell what is asked; name the columns to use with --columns."
        )
    words = [n for n in chosen if not _numeric(schema.field(n).type)]
    if words:
        raise InputError(
            f"{members} has column(s) that are no numbers ({listed(words)}); name the columns to use, text among them, with --columns."
        )
    if not chosen:
        raise InputError(
            f"{members} has no column beside the group and the weight; a bag needs something to be known by."
        )
    return chosen


def _numeric(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    )


def _matched(given: Given, bags: Bags, labels: pa.Table) -> tuple[Bags, AnyArray, str]:
    """Give the bags that have a label, and their labels in the same order."""
    values = _label_values(given, labels)
    place = {key: i for i, key in enumerate(labels[given["by"]].to_pylist())}
    keys = bags.keys.tolist()
    without = [k for k in keys if k not in place]
    nobody = sorted(set(place) - set(keys), key=list(place).index)
    said = []
    if without:
        said.append(f"{len(without):,} group(s) of {given['members']} have no label ({listed(without)})")
    if nobody:
        said.append(f"{len(nobody):,} group(s) of {given['labels']} have no member ({listed(nobody)})")
    if said and given.get("unmatched", "error") == "error":
        raise InputError(
            f"{'; '.join(said)}. Complete the files, or pass --unmatched drop to leave them out; to predict groups without "
            "a label, put their members into a file of their own for --predict."
        )
    kept = [i for i, k in enumerate(keys) if k in place]
    if len(kept) < 2:
        raise InputError(
            f"{len(kept)} group(s) stand in both files; at least 2 are needed. Is --by {given['by']} the same in both?"
        )
    return bags[kept], values[[place[keys[i]] for i in kept]], f"left out: {'; '.join(said)}." if said else ""


def _label_values(given: Given, labels: pa.Table) -> AnyArray:
    label, column = given["label"], labels[given["label"]]
    if column.null_count:
        missing = [k for k, v in zip(labels[given["by"]].to_pylist(), column.to_pylist(), strict=True) if v is None]
        raise InputError(
            f"--label {label} is missing for {len(missing):,} group(s) ({listed(missing)}); drop these rows of {given['labels']}; "
            "--predict gives their labels."
        )
    if "classify" not in given:
        if not _numeric(column.type):
            raise InputError(
                f"--label {label} is a column of {column.type}, not of numbers; for classes add --classify."
            )
        return frames.column(labels, label, "--label")
    values = column.to_pylist()
    return np.array(values) if isinstance(values[0], str | bool | int) else np.array([str(v) for v in values])
