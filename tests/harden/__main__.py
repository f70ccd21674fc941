"""Knock at every door: ``make harden`` or ``python -m tests.harden [--minutes 30] [--seed 0] [--door NAME ...] [--page FILE]``.

Every door runs in a process of its own, two at a time, for its share of the minutes. The table counts cases and what must be zero:
wrong answers, crashes, hangs, and things lost. The exit code is 1 where anything is not zero.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.harden.door import ROOT, Door, timed

__all__ = ["DOORS", "main"]


@dataclass(frozen=True)
class Knock:
    """Where a door's function is, and its share of the time."""

    module: str
    function: str
    share: float


DOORS = {
    "mutants": Knock("mutants", "run", 0.26),
    "memory": Knock("memory", "run", 0.18),
    "laws": Knock("laws", "run", 0.12),
    "arguments": Knock("arguments", "run", 0.08),
    "killed": Knock("writing", "run_killed", 0.08),
    "orders and threads": Knock("orders", "run", 0.07),
    "files": Knock("readers", "run", 0.05),
    "crowds": Knock("crowds", "run", 0.04),
    "interrupted": Knock("writing", "run_interrupted", 0.03),
    "pages": Knock("pages", "run", 0.03),
    "queries": Knock("queries", "run", 0.02),
    "full disk": Knock("writing", "run_full_disk", 0.02),
    "permissions": Knock("writing", "run_permissions", 0.01),
    "two writers": Knock("writing", "run_two_writers", 0.01),
}
HEAD = "| door | cases | wrong | crash | hang | lost |\n|---|---|---|---|---|---|"
WORKERS = 2
PATIENCE = 900.0
"""Seconds that a door may take beyond its share, to read, compile and end its last case."""


def knock(name: str, seed: int, seconds: float) -> Door:
    """Run one door in this process."""
    how = DOORS[name]
    warnings.simplefilter("ignore")
    return timed(getattr(importlib.import_module(f"tests.harden.{how.module}"), how.function), name, seed, seconds)


def _apart(name: str, seed: int, seconds: float, options: Sequence[str]) -> Door:
    """Run one door in a process of its own; one that dies or does not end is a failure of that door."""
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    env["HARDEN_OPTIONS"] = " ".join(options)
    env.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "tests.harden", "--one", name, "--answer", file.name]
        command += ["--seed", str(seed), "--seconds", str(seconds)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=seconds + PATIENCE, check=False,
            )  # fmt: skip
            text = Path(file.name).read_text()
        except subprocess.TimeoutExpired:
            return Door(name, hang=1, notes=[f"{name}: hang: not done {PATIENCE:.0f} seconds after its time"])
    if not text:
        return Door(name, crash=1, notes=[f"{name}: crash: exit {done.returncode}: {done.stdout[-1500:]}"])
    return Door(**json.loads(text))


def table(doors: Sequence[Door]) -> str:
    """Print the counts of all doors."""
    total = Door("all", sum(d.cases for d in doors))
    for kind in ("wrong", "crash", "hang", "lost"):
        setattr(total, kind, sum(getattr(d, kind) for d in doors))
    return "\n".join([HEAD, *(d.row() for d in doors), total.row()])


def write_page(path: Path, text: str) -> None:
    """Put the table between the two marks of a page."""
    before, rest = path.read_text().split("<!-- table -->", 1)
    after = rest.split("<!-- end -->", 1)[1]
    path.write_text(f"{before}<!-- table -->\n{text}\n<!-- end -->{after}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.harden", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="wall-clock minutes on two cores (30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all doors (0)")
    parser.add_argument("--door", action="append", choices=list(DOORS), help="this door only; repeat for several")
    parser.add_argument("--page", type=Path, help="a page whose table is replaced, such as docs/reliability.md")
    parser.add_argument("--all-mutants", action="store_true", help="try every mutant, however long it takes")
    parser.add_argument("--one", choices=list(DOORS), help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run the doors that were asked for and print the table."""
    given = _arguments()
    if given.one:
        door = knock(given.one, given.seed, given.seconds)
        given.answer.write_text(json.dumps(door.facts()))
        return 0
    names = given.door or list(DOORS)
    budget = WORKERS * 60.0 * given.minutes / sum(DOORS[name].share for name in names)
    seconds = {name: min(budget * DOORS[name].share, 60.0 * given.minutes) for name in names}
    if given.all_mutants:
        seconds["mutants"] = 1e6
    print(f"seed {given.seed}, {given.minutes:g} minutes, {len(names)} doors", flush=True)

    def run(name: str) -> Door:
        door = _apart(name, given.seed, seconds[name], ["--all-mutants"] if given.all_mutants else [])
        print(f"{name}: {door.cases:,} cases in {door.seconds:.0f} seconds, {door.failures} failures", flush=True)
        return door

    with ThreadPoolExecutor(WORKERS) as pool:
        doors = list(pool.map(run, names))
    told = [note for door in doors for note in door.notes]
    print("\n".join([*told, table(doors)]))
    if given.page:
        version = re.search(r'__version__ = "(.+)"', (ROOT / "src" / "crosslevel" / "__init__.py").read_text())
        about = f"Version {version[1] if version else '?'}, seed {given.seed}, {given.minutes:g} minutes on two cores."
        write_page(given.page, "\n".join([about, "", table(doors), "", *(f"- {note}" for note in told)]))
    return int(any(door.failures for door in doors))


if __name__ == "__main__":
    sys.exit(main())
