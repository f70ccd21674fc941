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
import math
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.harden.door import ROOT, Door, Fork, scratch
from tests.harden.watch import Test, Watch, run_tests

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
SCORE = 0.85
SLOW = {"fused_jax", "sampled"}
ASIDE = {"experiments", "browser", "harden", "contract", "conformance", "golden"}
"""Folders of tests that are left out: they take long, or look at everything at once."""
FILES = 10
"""Files of tests that are tried for one file."""
LONG, SLOWEST, BUDGET, HANG = 4.0, 120.0, 100.0, 900.0
"""Seconds of the processor for a test uncompiled, for one compiled, for all tests of a file; and after which tests are said not to end."""
MOMENT = 10.0
"""Seconds under which only one small file is tried; and those that a test has beyond ten times what it takes."""
QUICK = 0.5
"""Seconds under which tests of all files come before the others."""
WAYS = {"init", "repr", "compare", "check_finite", "overwrite_a", "overwrite_b", "strict"}
"""Arguments by which nothing is computed: how classes print, how carefully and where LAPACK works, whether zip compares lengths."""
LEAST = 3
SAME = "the same"
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

    def function(self) -> str:
        """Name the function that is changed; empty where the change acts when the file is read."""
        tree = ast.parse(self.path.read_text())
        node = next(n for i, n in enumerate(ast.walk(tree)) if i == self.node)
        classes = [c for c in tree.body if isinstance(c, ast.ClassDef)]
        for prefix, body in [("", tree.body), *((f"{c.name}.", c.body) for c in classes)]:
            for function in body:
                inside = isinstance(function, ast.FunctionDef) and any(node in ast.walk(part) for part in function.body)
                if isinstance(function, ast.FunctionDef) and inside:
                    return f"{prefix}{function.name}"
        return ""


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
    """Give the parts of a node that are no formulas: docstrings, decorators, annotations, texts of errors, ways that change no number."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return [node]
    if isinstance(node, ast.arg | ast.AnnAssign):
        return [node.annotation] if node.annotation else []
    if isinstance(node, ast.Call):
        return [keyword for keyword in node.keywords if keyword.arg in WAYS]
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
    """Name files of tests that look at a file: those that import it, its package, or a module that uses it; its examples come first."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    room, folder = ROOT / "tests" / parts[0], ROOT.joinpath("tests", *parts[:-1])
    users = [p for p in PACKAGE.rglob("*.py") if _imports(p.read_text(), parts)]
    modules = [p.relative_to(PACKAGE).with_suffix("").parts for p in users]
    texts = {p: p.read_text() for p in sorted((ROOT / "tests").rglob("test_*.py")) if not ASIDE & set(p.parts)}
    files = [p for p, text in texts.items() if _imports(text, parts)]
    files += [p for p in texts if len(parts) > 2 and p.is_relative_to(folder)]
    files += [p for p, text in texts.items() if any(_imports(text, module) for module in modules)]
    classes = {name for p in users for name in re.findall(r"^class ([A-Z]\w+)", p.read_text(), re.MULTILINE)}
    files = files or [p for p, text in texts.items() if classes & set(re.findall(r"\w+", text))]  # by the public names
    files = [p for p in files if p.is_relative_to(room)] or files  # its room's own tests are quick, and must suffice
    return [str(p.relative_to(ROOT)) for p in dict.fromkeys([path, *files])][:FILES]


def _imports(text: str, parts: tuple[str, ...]) -> bool:
    """Tell whether a text imports a module, or a package by its ``__init__``."""
    *package, name = ("crosslevel", *(part for part in parts if part != "__init__"))
    module, above = re.escape(".".join([*package, name])), re.escape(".".join(package))
    return bool(re.search(rf"(from|import)\s+{module}\s|from {above} import [^\n]*\b{name}\b", text))


class Workshop:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "repo", folder / "cache"
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, self.root / name)
        for path in sources():  # as a mutant is written, so that nothing else is different there
            (self.root / path.relative_to(ROOT)).write_text(_rewritten(path))
        compileall.compile_dir(str(self.root), quiet=2, workers=1)
        self._known: dict[str, list[Test]] = {}
        self._compiled: dict[str, float] = {}

    def learn(self, file: str) -> list[Test]:
        """Run the tests of a file as everything is, uncompiled, and see what they reach."""
        if file not in self._known:
            watch = Watch(f"{self.root}/src/crosslevel/", {}, LONG, BUDGET)
            self._known[file] = self._run([file], watch, compiled=False, first=False)
        return self._known[file]

    def compiled(self, tests: list[Test]) -> list[Test]:
        """Run tests that do not pass uncompiled, or not in time, with the compiler: those that pass."""
        new = {t.name: SLOWEST for t in tests if t.name not in self._compiled}
        if new:
            done = self._run(files_of(new), Watch("", new, LONG, HANG), compiled=True, first=False)
            self._compiled |= dict.fromkeys(new, math.inf) | {t.name: t.seconds for t in done if t.passed}
        return [Test(t.name, s) for t in tests if (s := self._compiled[t.name]) < math.inf]

    def notices(self, mutant: Mutant) -> str:
        """Give the test that notices a mutant, or nothing: the nearest files first, uncompiled, then what must be compiled."""
        if mutant.source() == _rewritten(mutant.path):
            return SAME
        function, files = mutant.function(), tests_of(mutant.path)
        name = f"{mutant.path.relative_to(PACKAGE)}:{function}"
        others: list[Test] = []
        for some in (files[:2], *([file] for file in files[2:])):
            tests = [t for file in some for t in self.learn(file) if name in t.reached or not function]
            others += [t for t in tests if not t.passed]
            if by := self._failing(mutant, [t for t in tests if t.passed], compiled=False):
                return by
        return self._failing(mutant, self.compiled(others), compiled=True)

    def _failing(self, mutant: Mutant, tests: list[Test], compiled: bool) -> str:
        tests = sorted(tests, key=lambda t: (t.seconds > QUICK, _file(t.name), t.seconds))
        if not tests:
            return ""
        limits = {t.name: MOMENT + 10 * t.seconds for t in tests}
        inside = self.root / mutant.path.relative_to(ROOT)
        Path(importlib.util.cache_from_source(str(inside))).unlink(missing_ok=True)
        inside.write_text(mutant.source())
        try:
            done = self._run(files_of(limits), Watch("", limits, LONG, HANG), compiled, first=True)
        finally:
            inside.write_text(_rewritten(mutant.path))
        return next((t.name for t in done if not t.passed), "")

    def _run(self, files: list[str], watch: Watch, compiled: bool, first: bool) -> list[Test]:
        fork = Fork(run_tests, self.root, self.cache, files, watch, compiled, first)
        if fork.wait(HANG) == "done":
            return [Test(*test) for test in cast("list[tuple[Any, ...]]", fork.value)]
        return [Test(f"{fork.ended} {fork.value}", passed=False)]


def _rewritten(path: Path) -> str:
    return ast.unparse(ast.parse(path.read_text()))


def _file(name: str) -> str:
    return name.split("::")[0]


def files_of(names: Iterable[str]) -> list[str]:
    """Name the files of tests, each once, in their order."""
    return list(dict.fromkeys(map(_file, names)))


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
    """Read the survivors that are known, with a reason each; the change ``any`` stands for every change of a line."""
    rows = [
        line.strip().strip("|").rsplit("|", 1)[0].strip()
        for line in LISTED.read_text().splitlines()
        if line.startswith("| ")
    ]
    return {row.replace("\\|", "|") for row in rows}


def drawn(files: list[Path], seed: int, count: int) -> list[Mutant]:
    """Draw so many mutants, of every file in proportion to its mutants."""
    rng = random.Random(seed)
    every: list[Mutant] = []
    for path in files:
        some = mutants_of(path)
        rng.shuffle(some)
        every += some
    step = max(len(every) / count, 1.0)
    begin = rng.random() * step
    return [every[at] for i in range(count) if (at := int(begin + i * step)) < len(every)]


def in_turn(files: list[Path], seed: int) -> Iterator[Mutant]:
    """Give every mutant in random order, a few of one file at a time."""
    rng = random.Random(seed)
    waiting = {path: mutants_of(path) for path in files}
    for some in waiting.values():
        rng.shuffle(some)
    while left := [p for p, some in waiting.items() if some]:
        path = rng.choices(left, [len(waiting[p]) for p in left])[0]
        for _ in range(min(PER_FILE, len(waiting[path]))):
            yield waiting[path].pop()


def is_listed(mutant: Mutant, known: set[str]) -> bool:
    """Tell whether a survivor is known."""
    name = name_of(mutant)
    return name in known or f"{name.rsplit(' | ', 1)[0]} | any" in known


def try_mutants(mutants: Iterable[Mutant], until: float = math.inf, verbose: bool = False) -> Tried:
    """Try mutants until the time is over."""
    for name in BENEATH:
        importlib.import_module(name)
    known, tried = listed(), Tried(0, [], [])
    with scratch() as folder:
        shop = Workshop(folder)
        for mutant in mutants:
            if time.monotonic() > until and tried.mutants >= LEAST:
                break
            begun = time.monotonic()
            by = shop.notices(mutant)
            if by == SAME:
                continue
            tried.mutants += 1
            if not by:
                tried.alive.append(mutant)
                if is_listed(mutant, known):
                    tried.listed.append(mutant)
            if verbose or (not by and mutant not in tried.listed):
                ended = f"noticed by {by}" if by else "SURVIVED"
                print(
                    f"{ended}: | {name_of(mutant)} | line {mutant.line}, {time.monotonic() - begun:.1f} s", flush=True
                )
    return tried


def run(door: Door, rng: random.Random, until: float) -> None:
    """Try mutants for a while; below the score, each that survives is a wrong answer nobody would notice."""
    everything = "--all-mutants" in os.environ.get("HARDEN_OPTIONS", "")
    files = sources(everything) if until - time.monotonic() > MOMENT else [PACKAGE / "numerics" / "newton.py"]
    tried = try_mutants(in_turn(files, rng.randrange(2**32)), math.inf if everything else until)
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
    parser.add_argument("--sample", type=int, help="try so many, of every file in proportion, however long it takes")
    parser.add_argument("--all", action="store_true", help="try every one")
    parser.add_argument("--verbose", action="store_true", help="print those that are noticed too")
    given = parser.parse_args()
    files = [p.resolve() for p in given.files] or sources(given.all or bool(given.sample))
    if given.sample:
        tried = try_mutants(drawn(files, given.seed, given.sample), verbose=given.verbose)
    else:
        until = math.inf if given.all else time.monotonic() + given.seconds
        tried = try_mutants(in_turn(files, given.seed), until, given.verbose)
    noticed = tried.mutants - len(tried.alive)
    print(
        f"{tried.mutants} mutants tried (seed {given.seed}), {noticed} noticed, {len(tried.listed)} listed: {100 * tried.score:.0f} %"
    )


if __name__ == "__main__":
    main()
