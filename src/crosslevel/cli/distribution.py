"""``crosslevel distribution``: which label belongs to a group of people? Cross-validated scores, predictions, the model."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel import distribution
from crosslevel.cli.console import (
    check_folder,
    check_report,
    make_folder,
    people_bar,
    quietly,
    read_table,
    write_estimates,
)
from crosslevel.data import frames
from crosslevel.data.bags import Bags
from crosslevel.data.batches import open_batches
from crosslevel.data.checks import check_level
from crosslevel.diagnostics.bag_folds import BagValidation, cross_validate_bags
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.reports import report
from crosslevel.results import Estimates, save
from crosslevel.results.display import level_words

__all__ = ["Settings", "run", "scores_text"]

MODEL, REPORT = "model.crosslevel", "report.html"
REGRESSORS = {
    "mean_shrinkage": "MeanShrinkage",
    "bayesian_linear": "BayesianLinear",
    "rbf_network": "RBFNetwork",
    "frequentist_shrinkage": "FrequentistShrinkage",
    "full_bayes": "FullBayes",
}
CLASSIFIERS = {
    "mean_shrinkage": "MeanShrinkageClassifier",
    "bayesian_linear": "BayesianLinearClassifier",
    "full_bayes": "FullBayesClassifier",
}


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    members: Path
    labels: Path
    by: str
    label: str
    columns: list[str]
    weight: str | None
    model: str
    classify: bool
    landmarks: int | None
    folds: int
    predict: Path | None
    unmatched: str
    level: float
    seed: int
    out: Path | None
    report: bool = False


@dataclass(frozen=True)
class Answer:
    """What is printed and written."""

    checked: BagValidation
    model: Any
    predicted: Estimates | None
    """Of new groups."""
    left_out: str

    @property
    def shown(self) -> Estimates:
        """Predictions of new groups, or of each group from the others."""
        return self.checked.predictions if self.predicted is None else self.predicted

    @property
    def warnings(self) -> list[str]:
        """What the reader should know."""
        return [*([self.left_out] if self.left_out else []), *self.checked.scores.warnings, *self.shown.warnings]


def run(settings: Settings, as_json: bool) -> None:
    """Read, cross-validate, fit and predict what was asked for, print the tables."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    empty = _model(settings)
    began = time.monotonic()
    bags, y, left_out = _read(settings)
    console.print(
        f"{type(empty).__name__}: {len(bags):,} groups, {len(bags.values):,} members, {bags.shape[1]:,} columns, "
        f"{settings.folds} folds",
        markup=False,
    )
    fresh = None if settings.predict is None else _new_bags(settings, bags.columns)
    with people_bar(console, "Cross-validating", "folds") as bar:
        checked = quietly(
            lambda: cross_validate_bags(
                empty, bags, y, folds=settings.folds, level=settings.level, random_state=settings.seed, progress=bar
            )
        )
    model = predicted = None
    if settings.out is not None or fresh is not None:
        model = quietly(lambda: empty.fit(bags, y))
        if fresh is not None:
            predicted = model.estimate(fresh) if settings.classify else model.estimate(fresh, settings.level)
    console.print(f"Done in {time.monotonic() - began:,.1f} s", markup=False)
    answer = Answer(checked, model, predicted, left_out)
    files = _write(settings, answer)
    if as_json:
        facts = _facts(settings, answer, files, time.monotonic() - began)
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        return
    for text in answer.warnings:
        print(f"Warning: {text}")
    print(scores_text(checked.scores, settings.classify, settings.level))
    print(f"\n{answer.shown.summary()}")
    for name, path in files.items():
        print(f"{name:<22} {path}")


def _model(s: Settings) -> Any:
    """Make the estimator, refusing what does not go together before any file is read."""
    check_folder(s.out)
    check_report(s.report, s.out)
    check_level(s.level)
    if s.unmatched not in ("error", "drop"):
        raise unknown_name("--unmatched", s.unmatched, ["error", "drop"], "choice")
    if s.model not in REGRESSORS:
        raise unknown_name("--model", s.model, list(REGRESSORS), "model")
    if s.classify and s.model not in CLASSIFIERS:
        raise InputError(f"--model {s.model} has no classifier; with --classify use one of {', '.join(CLASSIFIERS)}.")
    if s.landmarks is not None and s.landmarks < 1:
        raise InputError(f"--landmarks {s.landmarks} is not a number of landmarks; pass at least 1.")
    cls = getattr(distribution, (CLASSIFIERS if s.classify else REGRESSORS)[s.model])
    return cls(n_landmarks="auto" if s.landmarks is None else s.landmarks, random_state=s.seed)


def _read(s: Settings) -> tuple[Bags, npt.NDArray[Any], str]:
    """Read members and labels and match them; also say what was left out."""
    stream = open_batches(s.members)
    names = stream.schema.names
    for option, name in (("--by", s.by), ("--weight", s.weight), *(("--columns", c) for c in s.columns)):
        if name is not None and name not in names:
            raise unknown_name(option, name, names)
    columns = _features(s, stream.schema)
    labels = _read_labels(s, stream.schema.field(s.by).type)
    table = stream.select(list(dict.fromkeys([s.by, *columns, *([s.weight] if s.weight else [])]))).to_table()
    if table.num_rows == 0:
        raise InputError(f"{s.members} has no rows.")
    bags = Bags.from_frame(table, s.by, columns, s.weight)
    return _matched(s, bags, labels)


def _features(s: Settings, schema: pa.Schema) -> list[str]:
    """Name the columns of members that are used; all of them, if they are numbers, when none is named."""
    for name in s.columns:
        if name in (s.by, s.weight, s.label):
            raise InputError(f"--columns {name} is the group, the weight or the label; leave it out.")
    if s.columns:
        return s.columns
    chosen = [n for n in schema.names if n not in (s.by, s.weight)]
    if s.label in chosen:
        raise InputError(
            f"{s.members} has a column {s.label!r} like the label, which would tell what is asked; name the columns to use with "
            "--columns."
        )
    words = [n for n in chosen if not _numeric(schema.field(n).type)]
    if words:
        raise InputError(
            f"{s.members} has column(s) that are no numbers ({listed(words)}); name the columns to use with --columns."
        )
    if not chosen:
        raise InputError(
            f"{s.members} has no column beside the group and the weight; a bag needs something to be known by."
        )
    return chosen


def _numeric(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    )


def _read_labels(s: Settings, kind: pa.DataType) -> pa.Table:
    """Read labels; the groups of a CSV file as the type they have in members, so that 1001 and '1001' are the same."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    found = open_batches(s.labels)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    delimited = s.labels.name.removesuffix(".gz").endswith((".csv", ".tsv"))
    if text and delimited and s.by in found.schema.names and pa.types.is_integer(found.schema.field(s.by).type):
        found = open_batches(s.labels, column_types={s.by: pa.string()})
    for option, name in (("--by", s.by), ("--label", s.label)):
        if name not in found.schema.names:
            raise unknown_name(f"{option} (in {s.labels})", name, found.schema.names)
    if s.by == s.label:
        raise InputError(f"--label {s.label} is also --by; the label must be another column.")
    table = found.select([s.by, s.label]).to_table()
    frames.check_unique(table, s.by, "--by")
    return table


def _matched(s: Settings, bags: Bags, labels: pa.Table) -> tuple[Bags, npt.NDArray[Any], str]:
    """Give the bags that have a label, and their labels in the same order."""
    values = _label_values(s, labels)
    place = {key: i for i, key in enumerate(labels[s.by].to_pylist())}
    keys = bags.keys.tolist()
    without = [k for k in keys if k not in place]
    here = set(keys)
    nobody = [k for k in place if k not in here]
    said = []
    if without:
        said.append(f"{len(without):,} group(s) of {s.members} have no label ({listed(without)})")
    if nobody:
        said.append(f"{len(nobody):,} group(s) of {s.labels} have no member ({listed(nobody)})")
    if said and s.unmatched == "error":
        raise InputError(
            f"{'; '.join(said)}. Complete the files, or pass --unmatched drop to leave them out; to predict groups without "
            "a label, put their members into a file of their own for --predict."
        )
    kept = [i for i, k in enumerate(keys) if k in place]
    if len(kept) < 2:
        raise InputError(
            f"{len(kept)} group(s) stand in both files; at least 2 are needed. Is --by {s.by} the same in both?"
        )
    y = values[[place[keys[i]] for i in kept]]
    return bags[kept], y, f"left out: {'; '.join(said)}." if said else ""


def _label_values(s: Settings, labels: pa.Table) -> npt.NDArray[Any]:
    column = labels[s.label]
    if column.null_count:
        missing = [k for k, v in zip(labels[s.by].to_pylist(), column.to_pylist(), strict=True) if v is None]
        raise InputError(
            f"--label {s.label} is missing for {len(missing):,} group(s) ({listed(missing)}); drop these rows of {s.labels}; "
            "--predict tells their labels."
        )
    if not s.classify:
        kind = column.type
        if not _numeric(kind):
            raise InputError(f"--label {s.label} is a column of {kind}, not of numbers; for classes add --classify.")
        return frames.column(labels, s.label, "--label")
    values = column.to_pylist()
    return np.array(values) if isinstance(values[0], str | bool | int) else np.array([str(v) for v in values])


def _new_bags(s: Settings, columns: Sequence[str]) -> Bags:
    assert s.predict is not None
    table = read_table(s.predict)
    if table.num_rows == 0:
        raise InputError(f"{s.predict} has no rows; nobody is there to predict from.")
    for option, name in (("--by", s.by), ("--weight", s.weight), *(("--columns", c) for c in columns)):
        if name is not None and name not in table.column_names:
            raise unknown_name(f"{option} (in {s.predict})", name, table.column_names)
    return Bags.from_frame(table, s.by, columns, s.weight)


def scores_text(scores: Estimates, classify: bool, level: float) -> str:
    """Write the scores as a table, the forecast without members beside."""
    if classify:
        head = ["bags of size", "n", "accuracy", "baseline", "log loss", "baseline"]
        names = [("estimate", ".3f"), ("baseline_accuracy", ".3f"), ("log_loss", ".3f"), ("baseline_log_loss", ".3f")]
        base = "Baseline: the shares of the classes among the other groups."
    else:
        head = [
            "bags of size",
            "n",
            "MSE",
            "baseline",
            "NLL",
            "baseline",
            level_words(level).replace("interval", "held"),
        ]
        head.append("width")
        names = [("mse", ".4g"), ("baseline_mse", ".4g"), ("nll", ".3f"), ("baseline_nll", ".3f"), ("estimate", ".3f")]
        names.append(("mean_width", ".4g"))
        base = "Baseline: mean and spread of the other groups' labels."
    rows = [[str(s), f"{int(n):,}"] for s, n in zip(scores["stratum"], scores["n"], strict=True)]
    for name, form in names:
        for row, value in zip(rows, scores[name], strict=True):
            row.append(format(float(value), form))
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True)))
        for r in [head, *rows]
    ]
    return "\n".join([f"{scores.title}: {scores.method}", *(line.rstrip() for line in lines), base])


def _write(s: Settings, answer: Answer) -> dict[str, str]:
    if s.out is None:
        return {}
    make_folder(s.out)
    files = write_estimates(answer.checked.scores, s.out, "scores")
    files |= write_estimates(answer.checked.predictions, s.out, "cross-validated")
    if answer.predicted is not None:
        files |= write_estimates(answer.predicted, s.out, "predictions")
    save(answer.model, s.out / MODEL)
    pages: dict[str, Any] = {"Cross-validation": answer.checked}
    if answer.predicted is not None:
        pages["Predictions of new groups"] = answer.predicted
    report(pages, s.out / REPORT, title=f"{s.label} by {s.by}", figures=_pictures(s, answer))
    return files | {"model": str(s.out / MODEL), "report": str(s.out / REPORT)}


def _pictures(s: Settings, answer: Answer) -> dict[str, Any] | None:
    """Draw predictions against labels, and how often intervals held; classes keep the default pictures."""
    if s.classify:
        return None
    from matplotlib.figure import Figure

    from crosslevel.charts import bag_calibration, predicted_bags

    left = Figure(figsize=(6.6, 5.2), layout="constrained").add_subplot()
    right = Figure(figsize=(6.4, 3.2), layout="constrained").add_subplot()
    return {
        "Each group predicted from the others": predicted_bags(answer.checked.predictions, left),
        "How often intervals held the label": bag_calibration(answer.checked.scores, right),
    }


def _facts(s: Settings, answer: Answer, files: dict[str, str], seconds: float) -> dict[str, Any]:
    return {
        "model": s.model,
        "folds": s.folds,
        "scores": answer.checked.scores.table.to_pylist(),
        "predictions": answer.shown.table.to_pylist(),
        "keys": list(answer.shown.keys),
        "new_groups": answer.predicted is not None,
        "level": answer.shown.level,
        "interval": answer.shown.interval,
        "fit": {} if answer.model is None else answer.model.diagnostics_,
        "warnings": answer.warnings,
        "seconds": round(seconds, 3),
        "files": files,
    }
