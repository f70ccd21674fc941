"""Lay results out: a table for each task, and the page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bench.cases import Task
from bench.registry import METHODS, TASKS
from bench.run import CASE_COLUMNS, RUN_COLUMNS, Run, read
from bench.scoring import Line, lines

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bench.md"
HEAD = (
    "method",
    "error",
    "less the reference's",
    "coverage",
    "width",
    "interval score",
    "less the reference's",
    "s",
    "MiB",
)


def number(value: float, digits: int = 2) -> str:
    """Write a number, and a dash where there is none."""
    return "–" if not np.isfinite(value) else f"{value:.{digits}f}"


def with_error(pair: tuple[float, float], sign: str = "") -> str:
    """Write a number with its standard error."""
    value, error = pair
    text = "–" if not np.isfinite(value) else f"{value:{sign}.2f}"
    return f"{text} ± {error:.2f}" if np.isfinite(error) else text


def row(line: Line, run: pd.Series) -> list[str]:
    """Lay one method out."""
    partly = f" ({run['answered']} of {run['asked']} cases)" if run["answered"] < run["asked"] else ""
    nothing = (float("nan"), float("nan"))
    return [
        line.method + partly,
        with_error((line.means["error"], line.errors["error"])),
        with_error(line.differences.get("error", nothing), "+"),
        number(line.means["coverage"], 3),
        number(line.means["width"], 1),
        number(line.means["score"], 1),
        with_error(line.differences.get("score", nothing), "+"),
        f"{run['seconds']:.2g}",
        f"{run['memory']:.0f}",
    ]


def table(task: Task, cases: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Lay one task out, the nearest to the truth first; methods without an answer last."""
    own = runs[runs["task"] == task.name].set_index("method")
    found = lines(cases[cases["task"] == task.name], task.reference, list(own.index))
    most = max((line.units for line in found), default=0)
    found.sort(key=lambda line: (line.units < most, line.means["error"]))
    rows = [row(line, own.loc[line.method]) for line in found]
    silent = [name for name in own.index if name not in {line.method for line in found}]
    rows += [[name, str(own.loc[name, "why"]), *[""] * (len(HEAD) - 2)] for name in silent]
    body = ["| " + " | ".join(cells) + " |" for cells in (HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows)]
    return "\n".join(body)


def about(task: Task, cases: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Say what a task is, and what is shown of it."""
    own = cases[cases["task"] == task.name]
    part = "" if (runs[runs["task"] == task.name]["run"] == "all").all() else " Part of the task (`make bench-truth`)."
    return (
        f"## {task.name.capitalize()}\n\n{task.title}. *Error*: {task.error}; mean over {own['unit'].nunique()} units, each a "
        f"{task.unit}; the reference is *{task.reference}*. *From*: {task.source}. *In sight*: {task.seen}.{part}\n\n"
        f"{table(task, cases, runs)}"
    )


def tables(found: Sequence[Run], tasks: Sequence[Task]) -> str:
    """Lay fresh results out beside the kept ones of the same tasks."""
    cases, runs = read()
    cases = pd.concat([cases, pd.DataFrame([r for run in found for r in run.rows], columns=CASE_COLUMNS)])
    runs = pd.concat([runs, pd.DataFrame([run.summary for run in found], columns=RUN_COLUMNS)])
    return "\n\n".join(about(task, cases, runs) for task in tasks if (runs["task"] == task.name).any())


def write() -> None:
    """Write the page from the results that are kept."""
    cases, runs = read()
    done = [task for task in TASKS.values() if (runs["task"] == task.name).any()]
    left = [f"{task.name} ({task.missing() or 'not run'})" for task in TASKS.values() if task not in done]
    PAGE.write_text(
        TEXT.format(
            tasks="\n\n".join(about(task, cases, runs) for task in done),
            left=f"Tasks without results here: {', '.join(left)}.\n\n" if left else "",
            methods=len({m.name for m in METHODS}),
            n=len(done),
        ),
        encoding="utf-8",
    )


TEXT = """# The benchmark of truth

*{n} tasks whose truth is known, {methods} methods, one protocol. Rows that we lose stay. Made by `make bench-truth`, or by
`make bench-truth-all` where a task does not say "part"; [add yours](guide/add-a-method.md).*

- **Truth from everybody.** What scores a method is counted or known of everybody concerned, and is in no file that the method is given:
  each method runs in a process of its own, which sees arrays and writes answers.
- **Composition and totals from different people** wherever people were sampled: households are halved, so that nothing which scores shares
  noise with what is fitted. Tables of counts are complete, and share none.
- **Constants from elsewhere.** Methods may learn constants on other families of labels, other states and other years than those they are
  scored on; nothing is tuned here. Where the shipped constants of a method were chosen with a task in sight, the task says so.
- **Scores.** *Error* is stated with every task. *Coverage* is of 95 % intervals. The *interval score* is the width plus 40 times what is
  missed, so that a narrow interval pays for what it leaves out; lower is better. *Less the reference's* is the mean paired difference, on
  the units that both answered, with its standard error over units (labels, tables, counties); negative is better. Units share people,
  states or years, so these standard errors are somewhat small.
- *s* is the processor time of a case (the median), with one thread; *MiB* the peak of the process, imports included. A dash: the method
  has no intervals. "Not installed": the package, or R, is not on the machine that made this page.

{left}{tasks}
"""
