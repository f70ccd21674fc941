"""Run the Python blocks of guide pages, page by page, as a reader would who pastes them one after another.

A page may set up what its blocks take as given in a comment that no reader sees::

    <!-- setup
    people = ...
    -->

A block of the language ``py`` is shown and not run (what needs another package). Each page runs in an empty folder of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))  # the benchmark is in no package
BLOCK = re.compile(r"^```python\n(.*?)^```$|^<!-- setup\n(.*?)^-->$", re.M | re.S)


def pages() -> list[Path]:
    """Return every page with a block to run, in order."""
    folders = ("start", "guide", "concepts")
    return [p for f in folders for p in sorted((DOCS / f).glob("*.md")) if BLOCK.search(p.read_text())]


def blocks(path: Path) -> Iterator[tuple[int, str]]:
    """Return the blocks of a page with the lines that they begin at."""
    text = path.read_text()
    for found in BLOCK.finditer(text):
        yield text[: found.start()].count("\n") + 2, found[1] or found[2] or ""


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(path: Path) -> str:
    """Run the blocks of one page in one namespace; return what they print, or raise with the line of the page."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from crosslevel.errors import CrosslevelWarning

    space: dict[str, object] = {"__name__": "__page__"}
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, _inside(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        for line, source in blocks(path):
            try:
                with contextlib.redirect_stdout(printed):
                    if source.lstrip().startswith(">>>"):
                        _doctest(source, space, path, line)
                    else:
                        exec(compile("\n" * (line - 1) + source, str(path), "exec"), space)
            except Exception as error:
                raise RuntimeError(f"the block at {path.name}:{line} does not run: {error!r}") from error
    pyplot.close("all")
    return printed.getvalue()


def _doctest(source: str, space: dict[str, object], path: Path, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(source, space, path.name, str(path), line)
    test.globs = space
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed = doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False).failed
    if failed:
        raise AssertionError(f"{failed} examples print something else")


def main(names: list[str]) -> int:
    """Run the pages named (all without names), print seconds, and return how many do not run."""
    wrong = 0
    for path in pages():
        if names and path.stem not in names:
            continue
        begun = time.perf_counter()
        try:
            run(path)
        except RuntimeError:
            wrong += 1
            traceback.print_exc(limit=-1)
        print(f"{path.relative_to(DOCS)!s:34s} {time.perf_counter() - begun:6.1f} s", file=sys.stderr)
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
