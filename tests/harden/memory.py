"""A thousand fits and answers of every estimator: memory stays where it was after the first hundred."""

from __future__ import annotations

import gc
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from tests.contract.case import Case
from tests.contract.cases import CASES
from tests.harden.door import PATIENCE, Door, Fork

__all__ = ["run"]

CYCLES, WARM = 1000, 100
ALLOWED = 8 * 2**20
"""Bytes that memory may grow by over all cycles after the warm ones: 9 kilobytes a cycle, less than any fit's own arrays."""
QUICK: dict[str, dict[str, Any]] = {
    "MeanShrinkage": {"n_restarts": 0, "n_landmarks": 3},
    "MeanShrinkageClassifier": {"n_restarts": 0, "n_landmarks": 3},
    "BinnedGP": {"n_restarts": 0, "noise": 0.1},
    "FullBayes": {"n_draws": 20, "n_warmup": 2},
    "FullBayesClassifier": {"n_draws": 20, "n_warmup": 2},
}


def estimators() -> dict[str, Case]:
    """Give the first case of every class."""
    cases: dict[str, Case] = {}
    for case in CASES:
        cases.setdefault(type(case.make()).__name__, case)
    return cases


def resident() -> int:
    """Bytes of this process that lie in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _ask(model: Any, case: Case) -> None:
    """Ask for the cheapest answer: predictions where there are some, else what the case reads."""
    if case.name.startswith("CUDIA"):
        model.clusters()
    else:
        case.answer(model)


def cycles(name: str, until: float) -> tuple[int, list[int]]:
    """Fit and answer again and again; give the number of cycles and the memory after every tenth."""
    case = estimators()[name]
    made = case.make(**QUICK.get(name, {}))
    seen, count = [], 0
    while count < CYCLES and (count <= 2 or time.monotonic() < until):
        _ask(case.fit(clone(made)), case)
        count += 1
        if count % 10 == 0:
            seen.append(resident())
    return count, seen


def grows(seen: list[int], allowed: float = ALLOWED) -> float:
    """Give the growth in bytes over all cycles that a line through the later half shows, or zero where it is no trend."""
    later = np.array(seen[min(len(seen) // 2, WARM // 10) :], dtype=float)
    if len(later) < 8:
        return 0.0
    third = len(later) // 3
    growth = float(np.median(later[-third:]) - np.median(later[:third])) * 1.5
    return growth if growth > allowed else 0.0


def run(door: Door, rng: random.Random, until: float) -> None:
    """Give every estimator its share of the time, each in a fork of its own."""
    names = list(estimators())
    rng.shuffle(names)
    if until - time.monotonic() < len(names):
        names = names[:3]
    told = []
    for number, name in enumerate(names):
        left = max(0.3, (until - time.monotonic()) / (len(names) - number))
        fork = Fork(cycles, name, time.monotonic() + left)
        ended = fork.wait(left + PATIENCE)
        if ended != "done":
            door.note("hang" if ended == "hang" else "crash", f"{name}: {fork.value}")
            continue
        count, seen = fork.value
        door.cases += count
        told.append(f"{count:,} {name}")
        if growth := grows(seen):
            door.note("lost", f"{name}: memory grew by {growth / 2**20:.1f} MiB in {count:,} fits")
    door.notes.append(f"{door.name}: {', '.join(told)}")
