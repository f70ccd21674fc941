"""Run tests of a copy of the repository, and see which functions each of them reaches, and how much of the processor it takes.

Without numba's compiler most tests of kernels take a moment instead of the minute of compiling; those that take long, or do not pass
without it, run with it.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

__all__ = ["Test", "Watch", "run_tests"]

AGAIN = 5.0
"""Seconds of the processor after which a test is ended once more, where the first time it was not heard."""


@dataclass
class Test:
    """What one test did: seconds, whether it passed, and the functions that it reached."""

    __test__ = False
    name: str
    seconds: float = 0.0
    passed: bool = True
    reached: set[str] = field(default_factory=set)


class Watch:
    """A plugin of pytest: chooses tests, limits the time of each, and sees what they reach.

    Parameters
    ----------
    folder : str
        Files below are watched: which of their functions a test reaches, as ``path:function``; none where empty.
    limits : dict of str to float
        Tests to run, and the seconds after which each is ended and has failed; all, with ``limit``, where empty.
    limit : float
    budget : float
        Seconds of the processor, counted from the beginning of the process, after which no further test begins.
    """

    def __init__(self, folder: str, limits: dict[str, float], limit: float, budget: float) -> None:
        self.folder, self.limits, self.limit = folder, limits, limit
        self.budget = budget
        self.tests: list[Test] = []
        self.fixtures: dict[str, set[str]] = {}
        self.at_import: set[str] = set()
        self._now: set[str] = self.at_import
        self._asked: Sequence[str] = ()

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self.folder):
            self._now.add(f"{code.co_filename[len(self.folder) :]}:{code.co_qualname.split('.<locals>')[0]}")

    def pytest_sessionstart(self) -> None:
        if self.folder:
            threading.settrace(self._called)
            sys.settrace(self._called)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.limits:
            order = {name: i for i, name in enumerate(self.limits)}
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before, self._now = self._now, set()
        try:
            return (yield)
        finally:
            self.fixtures.setdefault(fixturedef.argname, set()).update(self._now)
            before |= self._now
            self._now = before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if time.process_time() > self.budget:
            return True  # neither passed nor failed
        self.tests.append(Test(item.nodeid, time.process_time()))
        self._now = self.tests[-1].reached
        self._asked = getattr(item, "fixturenames", ())
        return None

    def pytest_runtest_logfinish(self) -> None:
        test = self.tests[-1]
        test.seconds = time.process_time() - test.seconds
        test.reached |= self.at_import.union(*(self.fixtures.get(name, set()) for name in self._asked))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        return (yield from self._timed(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        return (yield from self._timed(item))

    def _timed(self, item: pytest.Item) -> Iterator[None]:
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, self.limits.get(item.nodeid, self.limit), AGAIN)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed and self.tests[-1].name == report.nodeid:
            self.tests[-1].passed = False  # a test that is skipped notices nothing


class TooLongError(BaseException):
    """A test that does not end."""


def _too_long(*_: object) -> None:
    raise TooLongError


def run_tests(
    root: Path, cache: Path, files: list[str], watch: Watch, compiled: bool, first: bool
) -> list[tuple[Any, ...]]:
    """Run tests in this process, which must have read nothing of crosslevel; end at the first that fails where that is enough."""
    import numba

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir(root)
    sys.dont_write_bytecode = True  # nor may bytecode of a mutant be found by the next
    taken = {str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src"), ""}
    sys.path[:] = [str(root / "src"), str(root), *(p for p in sys.path if p not in taken)]
    for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "crosslevel", "conftest")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    os.environ["CI"] = "1"  # hypothesis tries the same examples each time
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(cache)
    numba.config.DISABLE_JIT = int(not compiled)
    options = ["-q", "--tb=native", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["-m", "not slow and not data and not browser", *(["-x"] if first else [])]
    code = pytest.main([*options, *files], plugins=[watch])
    if code not in (0, 1, 5):  # nothing could be read: nobody can use such a file
        return [("reading", 0.0, False, set())]
    return [astuple(test) for test in watch.tests]
