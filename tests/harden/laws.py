"""The laws of the house over every public estimator and function, on worlds that hypothesis draws and shrinks.

Rows in another order, columns in another order, places under other names and a person of weight 2 as two persons change nothing; the
kind of dataframe does not matter; estimates lie inside their bounds and parts add up to the whole. The numbers of the two answers may
differ by rounding: each world says by how much.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable

import hypothesis
import numpy as np
from hypothesis import strategies as st
from tests.harden.door import Door
from tests.harden.worlds import KINDS, TELLINGS, WORLDS, Answer, Data, World, differs, relabeled, renamed

from crosslevel.errors import CrosslevelError

__all__ = ["LAWS", "run"]

EXAMPLES = 3
"""Worlds that a law is tried on before the next law's turn."""


class BrokenLawError(AssertionError):
    """A law that does not hold."""


def _told_otherwise(telling: str) -> Callable[[World, Data, Answer, np.random.Generator], str]:
    def law(world: World, data: Data, answer: Answer, rng: np.random.Generator) -> str:
        moved = TELLINGS[telling](world, data, rng)
        if moved is None:
            return ""
        tolerance = 0.0 if telling in world.exact else world.tolerance
        return differs(answer, world.told(moved), tolerance, world.in_errors.get(telling, 0.0))

    return law


def _other_names(world: World, data: Data, answer: Answer, rng: np.random.Generator) -> str:
    moved = relabeled(world, data, rng)
    if moved is None or "key" not in answer:
        return ""
    again = renamed(world.told(moved[0]), moved[1])
    return differs(answer, again, world.tolerance, world.in_errors.get("places under other names", 0.0))


def _other_kinds(world: World, data: Data, answer: Answer, rng: np.random.Generator) -> str:
    kind = str(rng.choice([kind for kind in KINDS if kind != "arrow"]))
    problem = differs(answer, world.told(data, kind), 1e-12)
    return f"{kind}: {problem}" if problem else ""


def _by_itself(world: World, data: Data, answer: Answer, rng: np.random.Generator) -> str:
    del rng
    return world.problem(data, answer)


LAWS = {
    **{telling: _told_otherwise(telling) for telling in TELLINGS},
    "places under other names": _other_names,
    "another kind of dataframe": _other_kinds,
    "inside the bounds, parts add up": _by_itself,
}


def check(world: World, law: str, seed: int) -> bool:
    """Try one law on one world; False where the data are refused, whoever tells them."""
    rng = np.random.default_rng(seed)
    data = world.make(rng)
    try:
        answer = world.told(data)
    except CrosslevelError:
        return False
    if problem := LAWS[law](world, data, answer, rng):
        raise BrokenLawError(f"{world.name}, {law}, seed {seed}: {problem}")
    return True


def run(door: Door, rng: random.Random, until: float) -> None:
    """Try law after law on world after world."""
    pairs = [(world, law) for world in WORLDS.values() for law in LAWS]
    rng.shuffle(pairs)
    turn = 0
    while time.monotonic() < until or turn < 4:
        _try(door, *pairs[turn % len(pairs)], seed=rng.randrange(2**32))
        turn += 1
    if turn < len(pairs):
        door.notes.append(f"{door.name}: {turn} of {len(pairs)} pairs of law and world were tried")


def _try(door: Door, world: World, law: str, seed: int) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=False,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink], suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(st.integers(0, 2**32 - 1))
    def law_holds(seed: int) -> None:
        door.cases += 1
        hypothesis.assume(check(world, law, seed))

    try:
        law_holds()
    except hypothesis.errors.Unsatisfiable:
        door.notes.append(f"{world.name}, {law}: every world was refused")
    except BrokenLawError as broken:
        door.note("wrong", str(broken))
    except Exception:
        door.note("crash", f"{world.name}, {law}: {traceback.format_exc()[-400:]}")
