"""Run tests of a copy of the repository, and see which functions of one file each of them reaches, and how long it takes.

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
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

__all__ = ["Test", "Watch", "run_tests"]

AGAIN = 5.0
"""Seconds after which a test is ended once more, where the first time it was not heard."""


@dataclass
class Test:
    """What one test did: seconds, whether it passed, and the functions of the file that it reached."""

    __test__ = False
    name: str
    seconds: float = 0.0
    passed: bool = True
    reached: set[str] = field(default_factory=set)


class Watch:
    """A plugin of pytest: chooses tests, limits the time of each, and sees what they reach.

    Parameters
    ----------
    path : str
        File whose functions are watched; none where empty.
    limits : dict of str to float
        Tests to run, and the seconds after which each is ended and has failed; all, with ``limit``, where empty.
    limit : float
    budget : float
        Seconds after which no further test begins.
    """

    def __init__(self, path: str, limits: dict[str, float], limit: float, budget: float) -> None:
        self.path, self.limits, self.limit = path, limits, limit
        self.until = time.monotonic() + budget
        self.tests: list[Test] = []
        self.fixtures: dict[str, set[str]] = {}
        self.at_import: set[str] = set()
        self._now: set[str] = self.at_import

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code.co_filename == self.path:
            self._now.add(frame.f_code.co_qualname.split(".<locals>")[0])

    def pytest_sessionstart(self) -> None:
        if self.path:
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

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[bool]:
        if time.monotonic() > self.until:
            return True
        test = Test(item.nodeid)
        self._now = test.reached
        self.tests.append(test)
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, self.limits.get(item.nodeid, self.limit), AGAIN)
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            test.seconds = time.monotonic() - begun
            for name in getattr(item, "fixturenames", ()):
                test.reached |= self.fixtures.get(name, set())
            test.reached |= self.at_import

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed and self.tests[-1].name == report.nodeid:
            self.tests[-1].passed = False  # a test that is skipped notices nothing


class TooLongError(BaseException):
    """A test that does not end."""


def _too_long(*_: object) -> None:
    raise TooLongError


def run_tests(root: Path, cache: Path, files: list[str], watch: Watch, compiled: bool) -> list[tuple[Any, ...]]:
    """Run tests in this process, which must have read nothing of crosslevel; end at the first that fails where tests are chosen."""
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
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["-m", "not slow and not data and not browser", *(["-x"] if watch.limits else [])]
    code = pytest.main([*options, *files], plugins=[watch])
    if code not in (0, 1, 5):  # nothing could be read: nobody can use such a file
        return [("reading", 0.0, False, set())]
    return [astuple(test) for test in watch.tests]
