"""Eight processes and thirty-two threads ask one model at the same time: all get the answer that one alone gets."""

from __future__ import annotations

import random
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.contract.case import Case
from tests.contract.cases import CASES
from tests.contract.test_parameters import differ
from tests.harden.door import PATIENCE, Door, Fork, scratch

import crosslevel as cl

__all__ = ["run"]

PROCESSES, THREADS = 8, 32
SLOW = {"CUDIA", "BinnedGP, polygons by features"}
"""Cases whose class has a quicker one."""


def _ask_together(case: Case, model: Any, alone: Any) -> list[str]:
    """Let all threads begin at once."""
    barrier = threading.Barrier(THREADS)

    def ask(number: int) -> str:
        barrier.wait(PATIENCE)
        try:
            return "wrong another answer" if differ(alone, case.answer(model)) else ""
        except Exception:
            return f"crash {traceback.format_exc()[-300:]}"

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, range(THREADS)))


def _threads(case: Case) -> list[str]:
    model = case.fit(case.make())
    return _ask_together(case, model, case.answer(model))


def _load_and_ask(case: Case, path: str, alone: Any) -> str:
    return "wrong another answer" if differ(alone, case.answer(cl.load(path))) else ""


def _processes(case: Case) -> list[str]:
    model = case.fit(case.make())
    alone = case.answer(model)
    with scratch() as folder:
        path = str(folder / "model.crosslevel")
        if case.saves:
            cl.save(model, path)
            forks = [Fork(_load_and_ask, case, path, alone) for _ in range(PROCESSES)]
        else:
            forks = [
                Fork(lambda: "wrong another answer" if differ(alone, case.answer(model)) else "")
                for _ in range(PROCESSES)
            ]
        ended = [fork.wait() for fork in forks]
    told = [f"{'hang ' if end == 'hang' else 'crash'} {fork.value}" for end, fork in zip(ended, forks, strict=True)]
    return [fork.value if end == "done" else said for end, fork, said in zip(ended, forks, told, strict=True)]


def run(door: Door, rng: random.Random, until: float) -> None:
    """Ask one model after another."""
    cases = [case for case in CASES if case.name not in SLOW]
    rng.shuffle(cases)
    asked = 0
    for case in cases:
        if asked and time.monotonic() > until:
            break
        asked += 1
        for crowd, name in ((_threads, "threads"), (_processes, "processes")):
            fork = Fork(crowd, case)  # of its own: threads end with it, those of libraries beneath too
            if fork.wait(2 * PATIENCE) != "done":
                door.note("hang" if fork.ended == "hang" else "crash", f"{case.name}, {name}: {fork.value}")
                continue
            door.cases += len(fork.value)
            for said in filter(None, fork.value):
                door.note(said[:5].strip(), f"{case.name}, {name}: {said[6:]}")
    door.notes.append(f"{door.name}: {asked} models, each asked by {THREADS} threads and {PROCESSES} processes")
