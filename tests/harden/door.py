"""What a door reports, and how a case is run where it may crash or hang: in a process of its own."""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Door", "Fork", "child", "forked", "scratch", "timed"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0
"""Seconds after which a case that takes a moment is said to hang, also on a machine that is busy with other things."""
KINDS = ("wrong", "crash", "hang", "lost")


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
        The first few of them, with what makes them happen again; and what else a reader of the table should know.
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
        return sum(getattr(self, kind) for kind in KINDS)

    def note(self, kind: str, what: str) -> None:
        """Count a failure and keep what it was."""
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.notes) < 60:
            self.notes.append(f"{self.name}: {kind}: {what}")

    def row(self) -> str:
        """Give the line of the table."""
        return f"| {self.name} | {self.cases:,} | {self.wrong} | {self.crash} | {self.hang} | {self.lost} |"

    def facts(self) -> dict[str, Any]:
        """Give everything as plain values."""
        return asdict(self)


def timed(run: Callable[[Door, random.Random, float], None], name: str, seed: int, seconds: float) -> Door:
    """Run one door for about so many seconds."""
    door, begun = Door(name), time.monotonic()
    run(door, random.Random(f"{name}-{seed}"), begun + seconds)
    door.seconds = time.monotonic() - begun
    return door


def child(code: str, *arguments: str, timeout: float = 60.0, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in an interpreter of its own, with this checkout's package."""
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


class Fork:
    """A function that runs in a fork of this process: started at once, killed or waited for.

    Attributes
    ----------
    pid : int
    ended : str
        After :meth:`wait`: ``"done"``, ``"raised"``, ``"died"`` or ``"hang"``.
    value : object
        What the function gave; the name of the exception, its text and its traceback where it raised.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.ended, self.value = "", None
        sys.stdout.flush()
        sys.stderr.flush()
        self._reader, writer = os.pipe()
        # a Ctrl-C before the fork can answer for it would unwind this process's own frames in the fork
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.pid = os.fork()
        if self.pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(writer)
            return
        code = 70
        try:
            os.close(self._reader)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # also where this process ignores it
            said: tuple[str, Any] | None = None
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                said = ("done", function(*arguments))
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            except BaseException as error:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                said = said or ("raised", (type(error).__name__, str(error), traceback.format_exc()))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(pickle.dumps(said))
            code = 0
        finally:
            os._exit(code)

    def kill(self, sign: int = signal.SIGKILL) -> None:
        """Send a signal; a process that has ended is left alone."""
        os.kill(self.pid, sign)  # not waited for yet: the number is still its own

    def wait(self, timeout: float = PATIENCE) -> str:
        """Wait for the end, and read what was given."""
        data, until = b"", time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                self.kill()
                self.ended = "hang"
                break
            if not (more := os.read(self._reader, 1 << 16)):
                break
            data += more
        os.close(self._reader)
        status = os.waitpid(self.pid, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            self.ended = "hang"
        if not self.ended:
            self.ended, self.value = pickle.loads(data) if data else ("died", None)
        return self.ended


def forked(function: Callable[..., Any], *arguments: Any, timeout: float = PATIENCE) -> Fork:
    """Run a function in a fork to its end."""
    fork = Fork(function, *arguments)
    fork.wait(timeout)
    return fork


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="crosslevel-harden-") as folder:
        yield Path(folder)
