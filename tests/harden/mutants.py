"""Break the code on purpose: one small change at a time in a copy of the package, and the tests of that file must go red.

``python -m tests.harden.mutants [--seconds N] [--seed N] [file ...]`` tries mutants drawn at random from ``numerics/`` and
from every ``model.py``, prints those that no test noticed, and the share that were. The machine code of kernels is never
shared between mutants: each runs with a cache folder of its own.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.harden.door import ROOT, Door, scratch

__all__ = ["Mutant", "mutants_of", "run", "sources", "tests_of"]

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
TIMEOUT = 240.0


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the line, what was changed, and the changed source."""

    path: Path
    line: int
    what: str
    source: str


def sources() -> list[Path]:
    """List the files whose formulas are tested by mutants."""
    files = [*(PACKAGE / "numerics").rglob("*.py"), *PACKAGE.rglob("model.py")]
    return sorted(p for p in set(files) if p.name != "__init__.py")


def mutants_of(path: Path) -> list[Mutant]:
    """List every mutant of a file."""
    source = path.read_text()
    tree = ast.parse(source)
    documented = {id(n.body[0].value) for n in ast.walk(tree) if _has_docstring(n)}
    found = []
    for number, node in enumerate(ast.walk(tree)):
        for what, change in _changes(node, documented):
            other = copy.deepcopy(tree)
            change(next(n for i, n in enumerate(ast.walk(other)) if i == number))
            found.append(Mutant(path, getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(other))))
    return found


def _has_docstring(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


def _changes(node: ast.AST, documented: set[int]) -> Iterator[tuple[str, object]]:
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
    elif isinstance(node, ast.Constant) and id(node) not in documented:
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
    if not files and room.is_dir():
        files = sorted(room.rglob("test_*.py"))
    return [str(p.relative_to(ROOT)) for p in files[:8]] + [str(path.relative_to(ROOT))]


def survives(mutant: Mutant) -> bool:
    """Tell whether all tests pass although the code is broken."""
    with scratch() as folder:
        copied = folder / "repo"
        shutil.copytree(ROOT / "src", copied / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "tests", copied / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, copied / name)
        (copied / mutant.path.relative_to(ROOT)).write_text(mutant.source)
        env = dict(
            os.environ, PYTHONPATH=str(copied / "src"), NUMBA_CACHE_DIR=str(folder / "cache"), OMP_NUM_THREADS="1"
        )
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow and not data and not browser",
        ]
        try:
            done = subprocess.run(
                [*command, *tests_of(mutant.path)],
                cwd=copied,
                env=env,
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False  # a loop that no longer ends is noticed
        return done.returncode in (0, 5)


def try_mutants(files: list[Path], seed: int, until: float) -> tuple[int, list[Mutant]]:
    """Try mutants at random, two at a time, until the time is over; give how many and those that survived."""
    rng = random.Random(seed)
    waiting = [mutant for path in files for mutant in mutants_of(path)]
    rng.shuffle(waiting)
    tried, alive = 0, []
    with ThreadPoolExecutor(2) as pool:
        while waiting and time.monotonic() < until:
            some = [waiting.pop() for _ in range(min(2, len(waiting)))]
            for mutant, survived in zip(some, pool.map(survives, some), strict=True):
                tried += 1
                if survived:
                    alive.append(mutant)
                    print(f"survived: {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.what}", flush=True)
    return tried, alive


def run(door: Door, rng: random.Random, until: float) -> None:
    """Try mutants for a while; each that survives counts as a wrong answer nobody would notice."""
    door.cases, alive = try_mutants(sources(), rng.randrange(2**32), until)
    for mutant in alive:
        door.notes.append(f"mutant survived: {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.what}")


def main() -> None:
    """Try mutants of the files named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    files = [p.resolve() for p in given.files] or sources()
    tried, alive = try_mutants(files, given.seed, time.monotonic() + given.seconds)
    share = 1.0 - len(alive) / tried if tried else float("nan")
    print(f"{tried} mutants tried (seed {given.seed}), {tried - len(alive)} noticed: {100 * share:.0f} %")


if __name__ == "__main__":
    main()
