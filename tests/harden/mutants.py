"""Break the code on purpose: one small change at a time in a copy of the package, and the tests of that file must go red.

``python -m tests.harden.mutants [--seconds N] [--seed N] [--all] [file ...]`` tries mutants drawn at random from ``numerics/`` and
from every ``model.py``, prints those that no test noticed, and the share that were. The cache of machine code begins empty, and its
folders are named by the kernels' sources: a changed kernel never runs old code. Survivors that are no mistakes stand with the reason in
``survivors.md``; they do not count. The tests run in forks of a process that has read the libraries beneath, never crosslevel.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import importlib
import importlib.util
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harden.door import ROOT, Door, Fork, scratch

__all__ = ["Mutant", "Tried", "mutants_of", "run", "sources", "tests_of"]

PACKAGE = ROOT / "src" / "crosslevel"
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
TIMEOUT = 150.0
"""Seconds after which tests that pass in less are said to have noticed a mutant: a loop that no longer ends."""
SCORE = 0.85
SLOW = {"fused_jax", "sampled"}
MOMENT = 10.0
"""Seconds under which only one small file is tried."""
LEAST = 3
PER_FILE = 4
"""Mutants of one file before the next file's turn."""
LISTED = Path(__file__).with_name("survivors.md")
BENEATH = ("numpy", "scipy.optimize", "scipy.linalg", "scipy.stats", "pandas", "polars", "pyarrow.parquet", "numba",
           "sklearn.base", "sklearn.utils.estimator_checks", "matplotlib.pyplot", "pytest", "narwhals")  # fmt: skip
"""Libraries that every test reads: read once, before the forks."""


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the number of the node in its tree, the number of the change there, the line, what is changed."""

    path: Path
    node: int
    change: int
    line: int
    what: str

    def source(self) -> str:
        """Write the changed file."""
        tree = ast.parse(self.path.read_text())
        node = next(n for i, n in enumerate(ast.walk(tree)) if i == self.node)
        _, change = list(_changes(node))[self.change]
        change(node)
        return ast.unparse(ast.fix_missing_locations(tree))


def sources(every: bool = True) -> list[Path]:
    """List the files whose formulas are tested by mutants; those whose tests compile for minutes only where all are wanted."""
    files = [*(PACKAGE / "numerics").rglob("*.py"), *PACKAGE.rglob("model.py")]
    return sorted(p for p in set(files) if p.name != "__init__.py" and (every or not SLOW & set(p.parts)))


def mutants_of(path: Path) -> list[Mutant]:
    """List every mutant of a file."""
    tree = ast.parse(path.read_text())
    aside = {id(inner) for node in ast.walk(tree) for part in _beside(node) for inner in ast.walk(part)}
    return [
        Mutant(path, number, change, getattr(node, "lineno", 0), what)
        for number, node in enumerate(ast.walk(tree))
        for change, (what, _) in enumerate(_changes(node))
        if id(node) not in aside
    ]


def _beside(node: ast.AST) -> list[ast.AST]:
    """Give the parts of a node that are no formulas: docstrings, decorators, annotations, the texts of errors."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return [node]
    if isinstance(node, ast.arg | ast.AnnAssign):
        return [node.annotation] if node.annotation else []
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False)
    parts: list[ast.AST] = [node.body[0]] if documented else []
    return parts + list(getattr(node, "decorator_list", ()))


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield (
            f"{type(node.op).__name__} -> {SWAPS[type(node.op)].__name__}",
            lambda n: setattr(n, "op", SWAPS[type(n.op)]()),
        )
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield "comparison turned round", lambda n: n.ops.__setitem__(0, SWAPS[type(n.ops[0])]())
    elif isinstance(node, ast.BoolOp):
        yield "and <-> or", lambda n: setattr(n, "op", SWAPS[type(n.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "a minus sign left out", lambda n: setattr(n, "op", ast.UAdd())
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield f"{node.value} -> {not node.value}", lambda n: setattr(n, "value", not n.value)
        elif isinstance(node.value, float) and 1e-3 < abs(node.value) < 1e3:
            yield f"{node.value} -> {2 * node.value}", lambda n: setattr(n, "value", 2 * n.value)
        elif isinstance(node.value, int) and 0 < node.value <= 20:
            yield f"{node.value} -> {node.value + 1}", lambda n: setattr(n, "value", n.value + 1)


def tests_of(path: Path) -> list[str]:
    """Name the tests that look at a file: those of its own name, those that import it, and its examples."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    module = ".".join(("crosslevel", *parts))
    pattern = re.compile(
        rf"(from|import)\s+{re.escape(module)}\b|from {re.escape('.'.join(('crosslevel', *parts[:-1])))} import [^\n]*\b{parts[-1]}\b"
    )
    files = [p for p in sorted((ROOT / "tests").rglob("test_*.py")) if pattern.search(p.read_text())]
    files = [p for p in files if "experiments" not in p.parts and "browser" not in p.parts]
    room = ROOT / "tests" / parts[0]
    files = [p for p in files if p.is_relative_to(room)] or files  # its room's own tests are quick, and must suffice
    if not files and room.is_dir():
        files = sorted(room.rglob("test_*.py"))
    return [str(p.relative_to(ROOT)) for p in files[:6]] + [str(path.relative_to(ROOT))]


class Workshop:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "repo", folder / "cache"
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, self.root / name)
        compileall.compile_dir(str(self.root), quiet=2, workers=1)

    def passes(self, path: Path, source: str | None = None) -> bool:
        """Tell whether the tests of a file pass, with another source in its place."""
        inside = self.root / path.relative_to(ROOT)
        before = inside.read_text()
        if source is not None:
            Path(importlib.util.cache_from_source(str(inside))).unlink(missing_ok=True)
            inside.write_text(source)
        try:
            fork = Fork(self._test, tests_of(path))
            return fork.wait(TIMEOUT) == "done" and fork.value in (0, 5)
        finally:
            inside.write_text(before)

    def _test(self, tests: list[str]) -> int:
        import numba
        import pytest

        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.chdir(self.root)
        sys.dont_write_bytecode = True  # nor may bytecode of a mutant be found by the next
        taken = {str(ROOT), str(ROOT / "src"), ""}
        sys.path[:] = [str(self.root / "src"), str(self.root), *(p for p in sys.path if p not in taken)]
        for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "crosslevel", "conftest")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(self.cache)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        options += ["-m", "not slow and not data and not browser"]
        return int(pytest.main([*options, *tests]))


@dataclass
class Tried:
    """What was tried: mutants, those that nobody noticed, and those of them that are listed with a reason."""

    mutants: int
    alive: list[Mutant]
    listed: list[Mutant]

    @property
    def score(self) -> float:
        """Share of the mutants that were noticed, those listed left out."""
        counted = self.mutants - len(self.listed)
        return 1.0 - (len(self.alive) - len(self.listed)) / counted if counted else 1.0


def name_of(mutant: Mutant) -> str:
    """Name a mutant by its file, the line as it is written, and the change."""
    line = mutant.path.read_text().splitlines()[mutant.line - 1].strip() if mutant.line else ""
    return f"{mutant.path.relative_to(PACKAGE)} | `{line}` | {mutant.what}"


def listed() -> set[str]:
    """Read the survivors that are known, with a reason each."""
    rows = [
        line.strip().strip("|").rsplit("|", 1)[0].strip()
        for line in LISTED.read_text().splitlines()
        if line.startswith("| ")
    ]
    return {row.replace("\\|", "|") for row in rows}


def try_mutants(files: list[Path], seed: int, until: float, every: bool = False) -> Tried:
    """Try mutants at random until the time is over; all of them where every is set."""
    for name in BENEATH:
        importlib.import_module(name)
    rng, known = random.Random(seed), listed()
    waiting = {path: mutants_of(path) for path in files}
    for some in waiting.values():
        rng.shuffle(some)
    tried = Tried(0, [], [])
    broken: set[Path] = set()
    with scratch() as folder:
        shop = Workshop(folder)
        tested: set[Path] = set()
        while any(waiting.values()) and (every or time.monotonic() < until or tried.mutants < LEAST):
            path = rng.choice([p for p, some in waiting.items() if some])
            if path not in tested:
                tested.add(path)
                if not shop.passes(path):
                    print(f"the tests of {path.relative_to(ROOT)} do not pass as it is: {tests_of(path)}", flush=True)
                    broken.add(path)
            if path in broken:
                waiting[path].clear()
                continue
            for _ in range(min(PER_FILE, len(waiting[path]))):
                if time.monotonic() > until and not every and tried.mutants >= LEAST:
                    break
                mutant = waiting[path].pop()
                tried.mutants += 1
                if shop.passes(path, mutant.source()):
                    tried.alive.append(mutant)
                    if name_of(mutant) in known:
                        tried.listed.append(mutant)
                    else:
                        print(f"survived: | {name_of(mutant)} | (line {mutant.line})", flush=True)
    return tried


def run(door: Door, rng: random.Random, until: float) -> None:
    """Try mutants for a while; below the score, each that survives is a wrong answer nobody would notice."""
    everything = "--all-mutants" in os.environ.get("HARDEN_OPTIONS", "")
    files = sources(everything) if until - time.monotonic() > MOMENT else [PACKAGE / "numerics" / "newton.py"]
    tried = try_mutants(files, rng.randrange(2**32), until, everything)
    door.cases = tried.mutants
    for mutant in tried.alive:
        if mutant not in tried.listed and tried.score < SCORE:
            door.note("wrong", name_of(mutant))
        elif mutant not in tried.listed:
            door.notes.append(f"{door.name}: survived: {name_of(mutant)}")
    door.notes.append(
        f"{door.name}: {tried.mutants} tried, {len(tried.alive)} survived ({len(tried.listed)} listed), score {100 * tried.score:.0f} %"
    )


def main() -> None:
    """Try mutants of the files named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    files = [p.resolve() for p in given.files] or sources(given.all)
    tried = try_mutants(files, given.seed, time.monotonic() + given.seconds, given.all)
    noticed = tried.mutants - len(tried.alive)
    print(
        f"{tried.mutants} mutants tried (seed {given.seed}), {noticed} noticed, {len(tried.listed)} listed: {100 * tried.score:.0f} %"
    )


if __name__ == "__main__":
    main()
