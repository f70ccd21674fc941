"""Hostile values at every parameter of every public estimator and function: an answer or a refusal, never anything else.

The calls are those of the contract, with one or two arguments replaced. A number, a text or None is refused with a sentence of ours. An
object of a type that the parameter does not take (a frame in place of a number) may also be refused by Python's TypeError or
ValueError, as scikit-learn does. An answer may be anything but a table whose estimate lies outside its own interval or is missing beside
finite ends.
"""

from __future__ import annotations

import random
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
from tests.harden.door import Door, Fork

from crosslevel.errors import CrosslevelError
from crosslevel.results import Estimates

__all__ = ["run"]

SECONDS = 30.0
"""A call that takes longer is stopped: a slow answer to an odd question is no failure unless it never ends."""
SLOW = {"multinomial_dirichlet", "hidden_label", "compare_places"}
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
    if isinstance(error, TypeError):  # a type that is not taken
        return False
    if not isinstance(error, ValueError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename.replace("\\", "/") if frames else ""
    theirs = any(part in last for part in ("sklearn/utils/", "sklearn/base.py"))  # checks whose sentences are its own
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
        "progress",
        "engine",
        "cleaning_options",
        "imputer",
        "statistic",
        "model",
        "models",
        "result",
        "folder",
    }
    names = (
        case.make().get_params(deep=False) if isinstance(case, Case) else {*case.variants, *case.neutral, *case.data}
    )
    return sorted(set(names) - skip)


def _batch(case: Case | FunctionCase, tries: list[dict[str, str]]) -> list[str]:
    return [_call(case, {n: VALUES[v] for n, v in given.items()}) for given in tries]


def run(door: Door, rng: random.Random, until: float) -> None:
    """Send hostile values, some calls to a fork."""
    cases = [c for c in [*CASES, *FUNCTIONS] if c.name not in SLOW]
    rng.shuffle(cases)
    turn = 0
    while time.monotonic() < until or turn < 3:
        case = cases[turn % len(cases)]
        turn += 1
        names = _parameters(case)
        tries = [
            {rng.choice(names): rng.choice(list(VALUES)) for _ in range(rng.choice([1, 1, 1, 2]))} for _ in range(8)
        ]
        fork = Fork(_batch, case, tries)
        ended = fork.wait(SECONDS)
        if ended == "hang":  # which of them is slow does not matter unless it never ends
            door.cases += 1
            continue
        door.cases += len(tries)
        if ended != "done":
            door.note("crash", f"{case.name}, one of {tries}: the process died ({fork.value})")
            continue
        for given, said in zip(tries, fork.value, strict=True):
            if said:
                door.note(said[:5], f"{case.name}({given}): {said[6:]}")
