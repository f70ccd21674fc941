"""Run methods on tasks, each in a process of its own that never sees the truth, and keep the results."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from bench import environments
from bench.cases import Arrays, Case, Method, Task
from bench.scoring import SCORES, judge

RESULTS = Path(__file__).with_name("results")
CASES, RUNS = RESULTS / "cases.csv", RESULTS / "runs.csv"
CASE_COLUMNS = ["task", "method", "unit", *SCORES]
RUN_COLUMNS = ["task", "method", "asked", "answered", "seconds", "memory", "why", "run"]


class Run(NamedTuple):
    """A method on a task: ``CASE_COLUMNS`` of every case answered, and ``RUN_COLUMNS``."""

    rows: list[list[object]]
    summary: list[object]


def ask(method: Method, task: Task, cases: Sequence[Case], limit: float, whole: bool) -> Run:
    """Ask one method every case, and judge what it answers."""
    kind = "all" if whole else "part"
    nothing = [task.name, method.name, len(cases), 0, np.nan, np.nan]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        line, why = environments.command(method.function, method.environment, folder)
        if not line:
            return Run([], [*nothing, why, kind])
        for k, case in enumerate(cases):
            if line[0] == "Rscript":
                write_texts(folder / f"{k:04}", case.given)
            else:
                np.savez(folder / f"{k:04}.npz", **case.given)
        env = environments.variables(method.environment)
        try:
            done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=limit)
        except subprocess.TimeoutExpired:
            return Run([], [*nothing, f"stopped after {limit:.0f} s", kind])
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            return Run([], [*nothing, said[-1][:160], kind])
        return _judged(method, task, cases, folder, kind)


def _judged(method: Method, task: Task, cases: Sequence[Case], folder: Path, kind: str) -> Run:
    rows, answered, why = [], [], ""
    for k, case in enumerate(cases):
        said = folder / f"{k:04}.why"
        if said.exists():
            why = why or said.read_text().splitlines()[0][:160]
            continue
        try:
            scores = judge(case, *read_answer(folder / f"{k:04}.answer"))
        except ValueError as error:
            why = why or str(error)
            continue
        answered.append(k)
        rows.append([task.name, method.name, case.unit, *(round(v, 4) for v in scores)])
    ran = json.loads((folder / "run.json").read_text())
    seconds = float(np.median(np.array(ran["seconds"])[answered])) if answered else float("nan")
    summary = [task.name, method.name, len(cases), len(rows), round(seconds, 3), round(ran["memory"]), why, kind]
    return Run(rows, summary)


def write_texts(folder: Path, given: Arrays) -> None:
    """Write a case for R: an array to a file of text."""
    folder.mkdir()
    for name, values in given.items():
        np.savetxt(folder / f"{name}.csv", np.atleast_1d(values), delimiter=",", fmt="%s")


def read_answer(stem: Path) -> list[np.ndarray]:
    """Read estimates and, where there are some, limits."""
    if stem.with_suffix(".answer.csv").exists():
        return list(np.loadtxt(stem.with_suffix(".answer.csv"), delimiter=",", ndmin=2).T)
    with np.load(stem.with_suffix(".answer.npz")) as file:
        return [file[key] for key in file.files]


def run(tasks: Sequence[Task], methods: Sequence[Method], whole: bool, limit: float) -> list[Run]:
    """Run what can be run; a task without its data is named and left out."""
    found = []
    for task in tasks:
        if task.missing():
            print(f"{task.name}: {task.missing()}", flush=True)
            continue
        asked = [m for m in methods if m.answers(task) and (whole or not m.slow)]
        cases = task.load(whole)
        print(f"{task.name}: {len(cases)} cases, {len(asked)} methods", flush=True)
        for method in asked:
            begun = time.perf_counter()
            found.append(ask(method, task, cases, limit, whole))
            _, _, asked_for, answered, *_, why, _ = found[-1].summary
            spent = time.perf_counter() - begun
            print(f"  {method.name}: {answered} of {asked_for} in {spent:.0f} s {why}", flush=True)
    return found


def read() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the results that are kept."""
    if not CASES.exists():
        return pd.DataFrame(columns=CASE_COLUMNS), pd.DataFrame(columns=RUN_COLUMNS)
    return pd.read_csv(CASES, keep_default_na=True), pd.read_csv(RUNS, keep_default_na=True)


def keep(found: Sequence[Run]) -> None:
    """Put results in the place of earlier ones of the same task and method."""
    RESULTS.mkdir(exist_ok=True)
    summary = pd.DataFrame([r.summary for r in found], columns=RUN_COLUMNS)
    rows = pd.DataFrame([row for r in found for row in r.rows], columns=CASE_COLUMNS)
    done = set(zip(summary["task"], summary["method"], strict=True))
    for path, new, old in zip((CASES, RUNS), (rows, summary), read(), strict=True):
        stays = [pair not in done for pair in zip(old["task"], old["method"], strict=True)]
        both = pd.concat([old[stays], new]) if any(stays) else new
        both.sort_values(["task", "method"], kind="stable").to_csv(path, index=False, lineterminator="\n")
