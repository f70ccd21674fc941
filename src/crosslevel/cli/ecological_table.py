"""``crosslevel ecological --table``: counts by unit in, the methods that need no people side by side out."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from crosslevel import ecological
from crosslevel.cli.console import check_folder, make_folder, quietly, read_table, write_estimates
from crosslevel.data import checks, frames
from crosslevel.ecological import UnitTables, among_voters, compare, table_from_frame, turnout
from crosslevel.ecological.tables.compare import METHODS, describe_comparison
from crosslevel.ecological.tables.composition import SLOPE_RANGE, SLOPE_SD_RANGE
from crosslevel.errors import ConvergenceError, CrosslevelError, InputError, MissingExtraError, unknown_name
from crosslevel.reports import report
from crosslevel.results import Estimates, Provenance, save

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Settings", "run", "side_by_side"]

DEFAULT: tuple[str, ...] = inspect.signature(compare).parameters["methods"].default
EVERY = "all"
REPORT, COMPARISON, VOTERS, TURNOUT = "report.html", "comparison", "among-voters", "turnout"
COLUMNS = ("estimate", "std_error", "conf_low", "conf_high", "lower", "upper", "count")


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    table: Path
    group: list[str]
    outcome: list[str]
    unit: str | None
    methods: list[str]
    weights: str
    contextual_slope: float | None
    contextual_slope_sd: float | None
    balance: str | None
    rest: str | None
    missing: str
    duplicates: str
    merge_below: float | None
    total: str | None
    abstain: list[str]
    truth: Path | None
    level: float
    seed: int
    out: Path | None
    report: bool

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Self:
        """Take from all options of the verb those that belong here; a list that was not given is empty."""
        given = {f.name: options[f.name] for f in fields(cls)}
        given |= {name: list(given[name] or ()) for name in ("group", "outcome", "methods", "abstain")}
        given["methods"] = [name.strip() for text in given["methods"] for name in text.split(",")]
        return cls(**given)


def run(settings: Settings, as_json: bool) -> None:
    """Read, answer by every method, write what was asked for, print the comparison."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    _check(settings)
    table = read_table(settings.table)
    cleaning: dict[str, Any] = {
        "balance": settings.balance,
        "missing": settings.missing,
        "duplicates": settings.duplicates,
    }
    cleaning |= {"merge_below": settings.merge_below} | ({} if settings.rest is None else {"rest": settings.rest})
    try:
        tables = table_from_frame(
            table, settings.group, settings.outcome, settings.unit, total=settings.total, **cleaning
        )
    except InputError as error:
        raise InputError(_as_typed(str(error))) from error
    _check_abstain(settings.abstain, tables)
    if settings.out is not None:
        make_folder(settings.out)
    answers, left_out = _answered(settings, tables, console)
    results = {COMPARISON: side_by_side(answers, "Share of each group with each outcome, by method", left_out)}
    if settings.truth is not None:
        results[COMPARISON] = _with_truth(results[COMPARISON], read_table(settings.truth))
    if settings.abstain:
        results |= _among_voters(answers, settings.abstain)
    files = _write(settings, results, answers)
    seconds = time.monotonic() - began
    if as_json:
        print(json.dumps(_facts(results, files, seconds), ensure_ascii=False, allow_nan=False, default=str))
        return
    _say(results, files)


def _as_typed(text: str) -> str:
    """Write the repairs that a message offers as options of the command line."""
    text = re.sub(r"unit_tables\(\.\.\., (\w+=[^)]*)\)", r"\1", text)
    return re.sub(
        r"\b(balance|rest|missing|duplicates|merge_below|total)=('[^']*'|[\w.-]+)",
        lambda found: f"--{found[1].replace('_', '-')} {shlex.quote(found[2].strip(chr(39)).rstrip('.'))}",
        text,
    )


def _check(settings: Settings) -> None:
    check_folder(settings.out)
    checks.check_level(settings.level)
    checks.check_seed(settings.seed, "--seed")
    if settings.weights not in ("population", "equal"):
        raise unknown_name("--weights", settings.weights, ["population", "equal"], "choice")
    for option, names in (("--group", settings.group), ("--outcome", settings.outcome)):
        if not names:
            raise InputError(
                f"{option} is missing; name the columns of the table, {option} NAME for each, that together hold everybody."
            )
    if settings.rest is not None and settings.balance != "none-of-the-above":
        raise InputError("--rest names the column that --balance none-of-the-above makes; pass that too.")
    for option, value, limits in (
        ("--contextual-slope", settings.contextual_slope, SLOPE_RANGE),
        ("--contextual-slope-sd", settings.contextual_slope_sd, SLOPE_SD_RANGE),
    ):
        if value is not None:
            checks.check_between(value, option, *limits)
    for name in settings.methods:
        if name not in (*METHODS, EVERY):
            raise unknown_name("--methods", name, [*METHODS, EVERY], "method")
    if settings.report and settings.out is None:
        raise InputError("--report needs a folder; name it with --out.")
    if settings.truth is not None and settings.abstain:
        raise InputError("--truth is compared with shares of the group, and --abstain asks for its voters; choose one.")


def _check_abstain(names: Sequence[str], tables: UnitTables) -> None:
    for name in names:
        if name not in tables.outcomes:
            raise unknown_name("--abstain", name, tables.outcomes, "known outcome")


def _answered(settings: Settings, tables: UnitTables, console: Console) -> tuple[dict[str, Estimates], list[str]]:
    """Answer by every method; of ``all``, those that refuse these tables are left out and said."""
    every = EVERY in settings.methods
    names = list(METHODS) if every else list(dict.fromkeys(settings.methods)) or list(DEFAULT)
    answers: dict[str, Estimates] = {}
    left_out: list[str] = []
    for name in names:
        begun = time.monotonic()
        try:
            with console.status(f"{name} ..."):
                answers[name] = quietly(lambda name=name: _run(name, tables, settings))  # type: ignore[misc]
        except (CrosslevelError, ModuleNotFoundError) as error:
            if not every:
                raise _named(name, error) from error
            left_out.append(f"{name} is left out: {_first_sentence(error)}")
            console.print(f"Note: {left_out[-1]}", markup=False, soft_wrap=True)
            continue
        answers[name] = replace(
            answers[name], diagnostics={**answers[name].diagnostics, "seconds": round(time.monotonic() - begun, 3)}
        )
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
            voted[name] = quietly(lambda a=answer: among_voters(a, abstain))  # type: ignore[misc]
            went[name] = quietly(lambda a=answer: turnout(a, abstain))  # type: ignore[misc]
        except InputError as error:
            left_out.append(f"{name} is left out among voters: {_first_sentence(error)}")
    if not went:
        raise InputError(
            f"--abstain needs a method whose shares add up, such as goodman or rxc; {' '.join(left_out) or 'bounds do not.'}"
        )
    return {
        VOTERS: side_by_side(
            {n: voted[n] for n in went}, "Share of each group's voters with each outcome, by method", left_out
        ),
        TURNOUT: side_by_side(went, "Share of each group that voted, by method", left_out),
    }


def _run(name: str, tables: UnitTables, settings: Settings) -> Estimates:
    function = getattr(ecological, name)
    given = {"level": settings.level, "random_state": settings.seed, "weights": settings.weights}
    given |= {n: v for n in ("contextual_slope", "contextual_slope_sd") if (v := getattr(settings, n)) is not None}
    known = inspect.signature(function).parameters
    answer: Estimates = function(tables, None, **{n: v for n, v in given.items() if n in known})
    return answer


def _named(name: str, error: Exception) -> Exception:
    text = f"--methods {name}: {error}"
    if isinstance(error, ConvergenceError):
        return ConvergenceError(text)
    return MissingExtraError(text) if isinstance(error, ImportError) else InputError(text)


def _first_sentence(error: Exception) -> str:
    return str(error).partition("; ")[0].rstrip(".") + "."


def side_by_side(answers: Mapping[str, Estimates], title: str, notes: Sequence[str] = ()) -> Estimates:
    """Put the answers of several methods in one table, those to one cell together.

    Parameters
    ----------
    answers : mapping of method to Estimates
        With the same keys and the same rows.
    title : str
    notes : sequence of str
        What the reader should know beside the methods' own warnings.
    """
    first = next(iter(answers.values()))
    shared = [n for n in first.table.column_names if all(n in a.table.column_names for a in answers.values())]
    columns = [n for n in (*COLUMNS, "voters", "turnout", "people") if n in shared]
    n_methods = len(answers)
    made: dict[str, Any] = {k: np.repeat(first[k], n_methods) for k in first.keys}
    made["method"] = np.tile(np.array(list(answers)), len(first))
    for name in columns:
        made[name] = np.column_stack([np.asarray(a[name], dtype=float) for a in answers.values()]).ravel()
    level = next((a.level for a in answers.values() if a.level is not None), None)
    said = [(f"{name}: {w}", w) for name, a in answers.items() for w in a.warnings]
    common = [w for w in first.warnings if all(w in a.warnings for a in answers.values())]
    return Estimates.build(
        made,
        keys=(*first.keys, "method"),
        method=describe_comparison(answers),
        level=level,
        interval="none" if level is None else "each method's own",
        provenance=Provenance.of(
            call=f"crosslevel ecological --table, methods {', '.join(answers)}",
            seed=first.provenance.seed,
            data=first.provenance.data,
        ),
        diagnostics={"by_method": {n: a.diagnostics for n, a in answers.items()}},
        warnings=[*common, *(text for text, w in said if w not in common), *notes],
        frame=first.frame,
        title=title,
    )


def _with_truth(found: Estimates, truth: pa.Table) -> Estimates:
    """Add the truth, by group and outcome, and every method's score."""
    frames.check_columns(truth, ["group", "outcome", "truth"], "--truth")
    known = {
        (str(g), str(o)): t
        for g, o, t in zip(
            truth["group"].to_pylist(),
            truth["outcome"].to_pylist(),
            frames.column(truth, "truth", "--truth"),
            strict=True,
        )
    }
    cells = list(zip(found["group"].tolist(), found["outcome"].tolist(), strict=True))
    missing = [cell for cell in dict.fromkeys(cells) if cell not in known]
    if missing:
        raise InputError(f"--truth has no row for group {missing[0][0]!r} and outcome {missing[0][1]!r}; add it.")
    made = found.with_columns(truth=np.array([known[cell] for cell in cells], dtype=float))
    scores = {name: made.select(method=name).score() for name in dict.fromkeys(made["method"].tolist())}
    return replace(made, diagnostics={**made.diagnostics, "scores": scores})


def _write(settings: Settings, results: Mapping[str, Estimates], answers: Mapping[str, Estimates]) -> dict[str, str]:
    if settings.out is None:
        return {}
    files: dict[str, str] = {}
    for name, found in results.items():
        files |= write_estimates(found, settings.out, name)
    for name, found in answers.items():
        save(found, settings.out / f"{name}.crosslevel")
        files[name] = str(settings.out / f"{name}.crosslevel")
    if settings.report:
        report(results, settings.out / REPORT, title=f"Ecological inference: {settings.table.name}")
        files["report"] = str(settings.out / REPORT)
    return files


def _facts(results: Mapping[str, Estimates], files: Mapping[str, str], seconds: float) -> dict[str, Any]:
    return {
        "answers": {
            name: {"keys": list(found.keys), "level": found.level, "rows": found.table.to_pylist()}
            for name, found in results.items()
        },
        "methods": results[COMPARISON].diagnostics["by_method"],
        "scores": results[COMPARISON].diagnostics.get("scores", {}),
        "warnings": list(dict.fromkeys(w for found in results.values() for w in found.warnings)),
        "seconds": round(seconds, 3),
        "files": dict(files),
    }


def _say(results: Mapping[str, Estimates], files: Mapping[str, str]) -> None:
    said: set[str] = set()
    for number, found in enumerate(results.values()):
        fresh = tuple(w for w in found.warnings if w not in said)
        said |= set(fresh)
        print("\n" * (number > 0) + replace(found, warnings=fresh).summary(max_rows=None))
    for name, score in results[COMPARISON].diagnostics.get("scores", {}).items():
        covered = "no interval" if score["coverage"] is None else f"coverage {score['coverage']:.2f}"
        print(f"{name:<24} mean absolute error {score['mae']:.4f}, {covered}")
    if files:
        print()
    for name, path in files.items():
        print(f"{name:<28} {path}")
