"""What a door reports, and how a case is run where it may crash or hang: in a process of its own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Door", "child", "scratch"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Door:
    """Counts of one door.

    Attributes
    ----------
    name : str
    cases : int
        Tries made.
    wrong, crash, hang, lost : int
        Wrong answers; raw tracebacks and dead processes; tries that did not end; things that were there before and are gone.
    notes : list of str
        The first few of them, with what makes them happen again.
    seconds : float
    """

    name: str
    cases: int = 0
    wrong: int = 0
    crash: int = 0
    hang: int = 0
    lost: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failures(self) -> int:
        """All that must be zero."""
        return self.wrong + self.crash + self.hang + self.lost

    def note(self, kind: str, what: str) -> None:
        """Count a failure and keep what it was."""
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.notes) < 20:
            self.notes.append(f"{self.name}: {kind}: {what}")

    def row(self) -> str:
        """Give the line of the table."""
        return f"| {self.name} | {self.cases:,} | {self.wrong} | {self.crash} | {self.hang} | {self.lost} | {self.seconds:.0f} |"


def timed(run: Callable[[Door, random.Random, float], None], name: str, seed: int, seconds: float) -> Door:
    """Run one door for about so many seconds."""
    door, begun = Door(name), time.monotonic()
    run(door, random.Random(f"{name}-{seed}"), begun + seconds)
    door.seconds = time.monotonic() - begun
    return door


def child(code: str, *arguments: str, timeout: float = 60.0, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with this checkout's package."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV_")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), env.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env,
        check=False,
        **options,  # type: ignore[call-overload]
    )


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="crosslevel-harden-") as folder:
        yield Path(folder)
