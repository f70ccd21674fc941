"""Hostile values at every parameter of every public estimator and function: an answer or a refusal, never anything else.

The calls are those of the contract with one argument replaced, every value at every parameter while there is time, then with two. A
number, a text or None is refused with a sentence of ours. An object of a type that the parameter does not take (a frame in place of a
number) may also be refused by Python's TypeError or ValueError, as scikit-learn does. An answer may be anything but a table whose
estimate lies outside its own interval or is missing beside finite ends.
"""

from __future__ import annotations

import os
import random
import resource
import time
import traceback
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from tests.contract.case import Case, FunctionCase
from tests.contract.cases import CASES, FUNCTIONS
from tests.harden.door import Door, Fork, scratch

from crosslevel.errors import CrosslevelError
from crosslevel.results import Estimates

__all__ = ["run"]

SECONDS = 60
"""Of a processor, for a batch or for one call; a value that makes a call of a second take a minute should have been refused."""
BATCH = 8
LEAST = 3
"""Batches that are tried however little time there is."""
SLOW = {"multinomial_dirichlet"}
"""Functions left to their own tests: one call takes seconds."""
VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "1": 1,
    "2.5": 2.5,
    "10**30": 10**30,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "1e308": 1e308,
    "5e-324": 5e-324,
    "empty text": "",
    "text": "nonsense",
    "bytes": b"\xff\x00",
    "complex": 1j,
    "decimal": Decimal("1.5"),
    "date": date(2020, 2, 29),
    "empty list": [],
    "list of None": [None, None],
    "ragged": [[1.0], [2.0, 3.0]],
    "deep": [[[[1]]]],
    "empty dictionary": {},
    "dictionary": {"a": [1, 2]},
    "dictionary of nan": {"a": [float("nan")]},
    "set": {1, 2},
    "object": object(),
    "class": dict,
    "function": len,
    "array": np.arange(3.0),
    "empty array": np.zeros((0, 2)),
    "array of nan": np.full(3, np.nan),
    "array of text": np.array(["a", "b"]),
    "array of objects": np.array([None, object()], dtype=object),
    "three dimensions": np.zeros((2, 2, 2)),
    "masked": np.ma.array([1.0, 2.0], mask=[True, False]),
    "frame": pd.DataFrame({"a": [1.0, np.nan]}),
    "frame without columns": pd.DataFrame(),
    "series": pd.Series([1.0, 2.0], index=["x", "x"]),
    "table": pa.table({"a": pa.array([], pa.float64())}),
    "chunks": pa.chunked_array([[1], [2]]),
    "long text": "a" * 100_000,
    "null byte": "a\0b",
    "surrogate": "a\ud800",
}
PLAIN = (int, float, str, type(None))


def _raw(error: BaseException, given: dict[str, Any]) -> bool:
    """Tell whether an error is none that a user should see."""
    if isinstance(error, CrosslevelError | MemoryError):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if not any("crosslevel/" in file.rpartition("src/")[2] for file in files):  # the case could not read its own answer
        return False
    if not isinstance(error, TypeError | ValueError):
        return True
    theirs = any(
        part in files[-1] for part in ("sklearn/utils/", "sklearn/base.py")
    )  # checks whose sentences are its own
    return not theirs and all(isinstance(value, PLAIN) for value in given.values())


def _problem(answer: Any) -> str:
    if isinstance(answer, dict):
        return next(filter(None, map(_problem, answer.values())), "")
    if not isinstance(answer, Estimates) or "estimate" not in answer.table.column_names:
        return ""
    names = answer.table.column_names
    found = np.asarray(answer["estimate"], dtype=float)
    if {"conf_low", "conf_high"} <= set(names):
        low, high = (np.asarray(answer[n], dtype=float) for n in ("conf_low", "conf_high"))
        slack = 1e-6 * (1 + np.abs(found))
        if ((found < low - slack) | (found > high + slack)).any():
            return "an estimate lies outside its own interval"
        if (np.isnan(found) & np.isfinite(low)).any():
            return "an estimate is missing inside a finite interval"
    return ""


def _call(case: Case | FunctionCase, given: dict[str, Any]) -> str:
    """Make one call; give "", or what was wrong, with "crash" or "wrong" before it."""
    try:
        if isinstance(case, Case):
            answer = case.answer(case.fit(case.make(**given)))
        else:
            answer = case.answer(case.function(**{**case.arguments, **given}))
    except Exception as error:
        if _raw(error, given):
            where = traceback.extract_tb(error.__traceback__)[-1]
            inside = next(
                (f for f in reversed(traceback.extract_tb(error.__traceback__)) if "crosslevel/" in f.filename), where
            )
            at = f"{inside.filename.rsplit('src/', 1)[-1]}:{inside.lineno}"
            return f"crash {type(error).__name__}: {str(error)[:150]} at {at}"
        return ""
    problem = _problem(answer)
    return f"wrong {problem}" if problem else ""


def _parameters(case: Case | FunctionCase) -> list[str]:
    skip = {
        "n_jobs",
        "engine",
        "cleaning_options",
        "imputer",
        "statistic",
        "model",
        "models",
        "result",
        "folder",
        "options",
    }
    names = (
        case.make().get_params(deep=False) if isinstance(case, Case) else {*case.variants, *case.neutral, *case.data}
    )
    return sorted(set(names) - skip)


def _singles(
    cases: list[Case | FunctionCase], rng: random.Random
) -> list[tuple[Case | FunctionCase, list[dict[str, str]]]]:
    """Every value at every parameter of every case, in batches of one case, the batches in a random order."""
    batches = []
    for case in cases:
        tries = [{name: value} for name in _parameters(case) for value in VALUES]
        rng.shuffle(tries)
        batches += [(case, tries[start : start + BATCH]) for start in range(0, len(tries), BATCH)]
    rng.shuffle(batches)
    return batches


def _pairs(case: Case | FunctionCase, rng: random.Random) -> list[dict[str, str]]:
    """Two values at two parameters of a case."""
    names = _parameters(case)
    chosen = [rng.sample(names, min(2, len(names))) for _ in range(BATCH)]
    return [{name: rng.choice(list(VALUES)) for name in two} for two in chosen]


def _batch(case: Case | FunctionCase, tries: list[dict[str, str]]) -> list[str]:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, 2 * SECONDS))
    with scratch() as folder:
        os.chdir(folder)  # a text may be taken for the name of a file
        return [_call(case, {n: VALUES[v] for n, v in given.items()}) for given in tries]


def _try(door: Door, case: Case | FunctionCase, tries: list[dict[str, str]]) -> None:
    """Send a batch to a fork; where it dies or does not end, each of its calls to a fork of its own."""
    fork = Fork(_batch, case, tries)
    ended = fork.wait()
    if ended != "done" and len(tries) > 1:
        for given in tries:
            _try(door, case, [given])
        return
    door.cases += len(tries)
    if ended == "done":
        for given, said in zip(tries, fork.value, strict=True):
            if said:
                door.note(said[:5], f"{case.name}({given}): {said[6:]}")
    elif ended == "hang":
        door.note("hang", f"{case.name}({tries[0]}): no answer in {SECONDS} seconds")
    else:
        door.note("crash", f"{case.name}({tries[0]}): the process died ({fork.value})")


def run(door: Door, rng: random.Random, until: float) -> None:
    """Try every single replacement while there is time, then pairs."""
    cases = [c for c in [*CASES, *FUNCTIONS] if c.name not in SLOW]
    singles = _singles(cases, rng)
    for turn, (case, tries) in enumerate(singles):
        if time.monotonic() > until and turn >= LEAST:
            tried = sum(len(t) for _, t in singles[:turn])
            every = sum(len(t) for _, t in singles)
            door.notes.append(f"{door.name}: {tried:,} of {every:,} values at parameters were tried")
            return
        _try(door, case, tries)
    while time.monotonic() < until:
        case = rng.choice(cases)
        _try(door, case, _pairs(case, rng))
