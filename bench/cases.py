"""The nouns of the benchmark: a case with its truth, a task, a method."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One question of known truth.

    ``unit`` is what counts as one where standard errors are taken (a label, a table, a county); several cases may share it. ``given`` is
    all that a method sees. The error is the sum of ``cost`` times absolute errors to a ``power``; widths and interval scores are
    multiplied by ``scale``: 100 where answers are shares.
    """

    unit: str
    given: Arrays
    truth: FloatArray
    cost: FloatArray | float
    scale: float = 100.0
    power: float = 1.0


@dataclass(frozen=True)
class Task:
    """Cases of one kind.

    ``kind`` is what a case gives and asks, and which methods can answer; ``unit`` what standard errors are taken over and ``error``
    what the error is, in words; ``needs`` files of ``CROSSLEVEL_DATA``; ``cases`` takes the folder of the data and whether all cases are
    wanted; differences are taken from the method ``reference``. ``seen`` says what of this truth was in sight when constants were
    chosen, ``source`` where composition, totals and truth come from.
    """

    name: str
    title: str
    kind: str
    unit: str
    error: str
    needs: tuple[str, ...]
    cases: Callable[[Path, bool], Iterable[Case]]
    reference: str
    seen: str
    source: str

    def missing(self) -> str:
        """Say what data is missing; empty where the task can be loaded."""
        if not self.needs:
            return ""
        folder = os.environ.get("CROSSLEVEL_DATA")
        if not folder:
            return "CROSSLEVEL_DATA is not set"
        absent = [name for name in self.needs if not (Path(folder) / name).exists()]
        return f"not in CROSSLEVEL_DATA: {', '.join(absent)}" if absent else ""

    def load(self, whole: bool = False) -> list[Case]:
        """Read the cases, or the part of them that the short run has."""
        if self.missing():
            raise FileNotFoundError(self.missing())
        return list(self.cases(Path(os.environ.get("CROSSLEVEL_DATA", ".")), whole))


@dataclass(frozen=True)
class Method:
    """A function that answers cases of a kind.

    ``function`` is ``module:function``, or the name of one in ``methods/peers.R``; ``environment`` where it runs: with this package when
    empty, else a peer's name, "0.2", or "R:" and a package. What is ``slow`` is left out of the short run; ``only`` names the tasks it
    can answer, where not all of its kind.
    """

    name: str
    kind: str
    function: str
    environment: str = ""
    slow: bool = False
    only: tuple[str, ...] = ()

    def answers(self, task: Task) -> bool:
        """Tell whether it can answer a task."""
        return self.kind == task.kind and (not self.only or task.name in self.only)
