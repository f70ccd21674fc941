"""``crosslevel table``: counts of groups and outcomes by unit in, the methods that need no people side by side out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel import ecological
from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, from_classes, from_signature, read_pairs, spelled
from crosslevel.data import frames
from crosslevel.ecological import among_voters, compare, turnout
from crosslevel.ecological.tables.compare import METHODS, side_by_side
from crosslevel.ecological.tables.counts import Counts
from crosslevel.errors import ConvergenceError, CrosslevelError, InputError, MissingExtraError, unknown_name
from crosslevel.results import Estimates

EXAMPLES = (
    "crosslevel table precincts.csv --unit county --unit precinct --group white --group black --outcome dem --outcome rep "
    "--repair rest='did not vote' --abstain 'did not vote' --out run/ --report",
    "crosslevel table precincts.csv --group white --group black --outcome yes --outcome no --methods all --truth counted.csv",
)
FUNCTIONS: dict[str, Any] = {name: getattr(ecological, name) for name in METHODS}
DATA = ("counts", "pool")
"""What a method is given by the tables, or has no place in a comparison of one district."""
COLUMNS = dict.fromkeys(("unit", "total_groups", "total_outcomes", "covariates"), "table")
"""Arguments that name columns of the table."""
GROUPS_HELP = "Column of a group's people, or NAME=COLUMN, NAME=COLUMN+COLUMN; repeat."
OUTCOMES_HELP = "Column of the people with an outcome, or NAME=COLUMN, NAME=COLUMN+COLUMN; repeat."
EVERY = "all"
COMPARISON, VOTERS, TURNOUT = "comparison", "among-voters", "turnout"
OPTIONS = [
    Option("table", "file", f"Counts, a row for each unit: {FILE_HELP}", required=True, argument=True),
    Option("groups", help=GROUPS_HELP, several=True, required=True, panel="Counts"),
    Option("outcomes", help=OUTCOMES_HELP, several=True, required=True, panel="Counts"),
    *from_signature(Counts, "Counts", skip=("data", "groups", "outcomes"), kinds={"repair": "pairs"}, columns=COLUMNS),
    Option("methods", help=f"A method, or 'all'; repeat. One of {', '.join(METHODS)}.", several=True, panel="Answer"),
    Option(
        "abstain",
        help="Outcome of those who did not vote; repeat. Gives shares among voters, and turnout, too.",
        several=True,
        panel="Answer",
    ),
    Option("truth", "file", "Table with group, outcome and truth, to score the methods.", panel="Answer", excludes=("abstain",)),
    *from_classes(FUNCTIONS, "Methods", "methods", skip=DATA),
    *INPUT,
    *OUTPUT,
]  # fmt: skip


def run(given: Given, job: Job) -> None:
    """Read, answer by every method, write what was asked for, print the comparison."""
    names = _methods(given)
    with quiet():
        data = job.read("table")
        job.check_columns(table=data.column_names)
        counts = read_counts(data, given.of("Counts"))
        tables = counts.tables
    for name in given.get("abstain", ()):
        if name not in tables.outcomes:
            raise unknown_name("--abstain", name, tables.outcomes, "known outcome")
    job.folder()
    answers, left_out = _answered(given, job, names, counts)
    title = "Share of each group with each outcome, by method"
    results = {COMPARISON: side_by_side(answers, title, left_out)}
    if "truth" in given:
        results[COMPARISON] = _with_truth(results[COMPARISON], job.read("truth"))
    if "abstain" in given:
        results |= _among_voters(answers, given["abstain"])
    for name, found in answers.items():
        job.keep(name, found, f"{name}.crosslevel")
    job.write_answers(results, title=f"Ecological inference: {given['table'].name}")
    scores = results[COMPARISON].diagnostics.get("scores", {})
    job.print(results, max_rows=None, scores=scores)
    for name, score in scores.items() if not job.as_json else ():
        covered = "no interval" if score["coverage"] is None else f"coverage {score['coverage']:.2f}"
        print(f"{name:<24} mean absolute error {score['mae']:.4f}, {covered}")


def read_counts(data: pa.Table, given: dict[str, Any]) -> Counts:
    """Read the options that describe counts; a group (an outcome) is a column, or a name and its columns."""
    sides: dict[str, Any] = {
        side: named_columns(given[side], spelled(side)) for side in ("groups", "outcomes") if side in given
    }
    return Counts(data, **(given | sides))


def named_columns(written: list[str], option: str) -> dict[str, Any]:
    """Read columns with their names.

    Examples
    --------
    >>> named_columns(["Black=vap_black", "other=asian+native", "white"], "--group")
    {'Black': 'vap_black', 'other': ['asian', 'native'], 'white': 'white'}
    """
    pairs = read_pairs([text if "=" in text else f"{text}={text}" for text in written], option, "NAME=COLUMN")
    parts = {name: [part.strip() for part in text.split("+")] for name, text in pairs.items()}
    return {name: several if len(several) > 1 else several[0] for name, several in parts.items()}


def _methods(given: Given) -> list[str]:
    """Name the methods; refuse an option that none of them takes."""
    written = [name.strip() for text in given.get("methods", ()) for name in text.split(",")]
    for name in written:
        if name not in (*METHODS, EVERY):
            raise unknown_name("--methods", name, [*METHODS, EVERY], "method")
    default = inspect.signature(compare).parameters["methods"].default
    names = list(METHODS) if EVERY in written else list(dict.fromkeys(written)) or list(default)
    for option in given.of("Methods"):
        having = [n for n, f in FUNCTIONS.items() if option in inspect.signature(f).parameters]
        if not set(having) & set(names):
            raise InputError(
                f"{spelled(option)} is an option of {' and '.join(having)}, and of none of the methods asked for ({', '.join(names)}); "
                "add --methods or leave it out."
            )
    return names


def _answered(given: Given, job: Job, names: list[str], counts: Counts) -> tuple[dict[str, Estimates], list[str]]:
    """Answer by every method; of ``all``, those that refuse these tables are left out and said."""
    every = EVERY in given.get("methods", ())
    answers: dict[str, Estimates] = {}
    left_out: list[str] = []
    for name in names:
        known = inspect.signature(FUNCTIONS[name]).parameters
        options = {n: v for n, v in given.of("Methods").items() if n in known}
        began = job.seconds
        try:
            with job.progress(name, "draws" if name == "multinomial_dirichlet" else "fits") as bar:
                told = {"progress": bar} if "progress" in known else {}
                found = FUNCTIONS[name](counts, **options, **told)
        except (CrosslevelError, ModuleNotFoundError) as error:
            if not every:
                raise _named(name, error) from error
            left_out.append(f"{name} is left out: {_first_sentence(error)}")
            job.say(f"Note: {left_out[-1]}")
            continue
        spent = {"seconds": round(job.seconds - began, 3)}
        answers[name] = replace(found, diagnostics={**found.diagnostics, **spent})
    if not answers:
        raise InputError("no method can answer for these tables; see the notes above.")
    return answers, left_out


def _among_voters(answers: Mapping[str, Estimates], abstain: list[str]) -> dict[str, Estimates]:
    """Ask every method how those who voted chose, and who voted; methods that cannot say are left out and said."""
    voted, went, left_out = {}, {}, []
    for name, answer in answers.items():
        if name == "bounds":  # midpoints are no table; the bounds themselves stand beside every method
            continue
        try:
            voted[name], went[name] = among_voters(answer, abstain), turnout(answer, abstain)
        except InputError as error:
            left_out.append(f"{name} is left out among voters: {_first_sentence(error)}")
    if not went:
        raise InputError(
            f"--abstain needs a method whose shares add up, such as goodman or rxc; {' '.join(left_out) or 'bounds do not.'}"
        )
    title = "Share of each group's voters with each outcome, by method"
    return {
        VOTERS: side_by_side({n: voted[n] for n in went}, title, left_out),
        TURNOUT: side_by_side(went, "Share of each group that voted, by method", left_out),
    }


def _named(name: str, error: Exception) -> Exception:
    kinds = ((ConvergenceError, ConvergenceError), (ImportError, MissingExtraError), (Exception, InputError))
    made = next(to for kind, to in kinds if isinstance(error, kind))
    return made(f"--methods {name}: {error}")


def _first_sentence(error: Exception) -> str:
    return str(error).partition("; ")[0].rstrip(".") + "."


def _with_truth(found: Estimates, truth: pa.Table) -> Estimates:
    """Add the truth, by group and outcome, and every method's score."""
    frames.check_columns(truth, ["group", "outcome", "truth"], "--truth")
    values = frames.column(truth, "truth", "--truth")
    cells = [(str(g), str(o)) for g, o in zip(truth["group"].to_pylist(), truth["outcome"].to_pylist(), strict=True)]
    known = dict(zip(cells, values, strict=True))
    if len(known) < len(cells):
        group, outcome = next(cell for i, cell in enumerate(cells) if cell in cells[:i])
        raise InputError(f"--truth has several rows for group {group!r} and outcome {outcome!r}; give each cell one.")
    if (values > 1).any():
        raise InputError(f"--truth holds {values[values > 1][0]:g}, which is no share; give shares between 0 and 1.")
    wanted = list(zip(found["group"].tolist(), found["outcome"].tolist(), strict=True))
    missing = [cell for cell in wanted if cell not in known]
    if missing:
        raise InputError(f"--truth has no row for group {missing[0][0]!r} and outcome {missing[0][1]!r}; add it.")
    made = found.with_columns(truth=np.array([known[cell] for cell in wanted], dtype=float))
    scores = {name: made.select(method=name).score() for name in dict.fromkeys(made["method"].tolist())}
    return replace(made, diagnostics={**made.diagnostics, "scores": scores})
