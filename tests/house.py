"""Measure the house: lines of code, files a call passes, names and sizes of files. Exit 1 where a ceiling is exceeded.

``python tests/house.py`` prints the table; ``--list`` adds the files of every walk, ``--write`` puts those of the main estimator
into docs/architecture.md. Lines are counted without docstrings, comments and blanks. A call passes a file when one of the
file's functions runs during the call. A ceiling is what was reached: it is lowered with the number, and raised only with a
capability that CHANGELOG names. The goal is where it shall go; decision 16 says why it is not there.
"""

from __future__ import annotations

import ast
import collections
import io
import sys
import tokenize
import warnings
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "crosslevel"
PAGE = ROOT.parents[1] / "docs" / "architecture.md"
LONGEST = 500
CEILINGS = {  # name: (ceiling, goal)
    "code lines of src/": (57_080, 40_000),
    "modules of src/": (376, 300),
    "files passed by EcologicalInference.fit": (20, 15),
    "files passed by EcologicalInference.estimate": (21, 18),
    "files passed by CUDIA.fit": (12, 12),
    "files passed by BinnedGP.fit": (12, 12),
    "files passed by KRLS.fit": (13, 12),
    f"files over {LONGEST} lines": (0, 0),
    "file names twice in a room": (0, 0),
}
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(path: Path) -> int:
    """Count the lines of a file that hold code."""
    source = path.read_text()
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def passed(call: Callable[[], object]) -> list[str]:
    """Name the files of crosslevel that a call passes, in the order of their first function."""
    seen: dict[str, None] = {}

    def note(frame, event, arg):
        if event == "call" and frame.f_code.co_name != "<module>":
            file = frame.f_code.co_filename
            if file.startswith(str(ROOT)):
                seen.setdefault(file[len(str(ROOT)) + 1 :])

    call()  # modules and machine code are loaded on first use, which is not part of the walk
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(seen)


def walks() -> dict[str, list[str]]:
    """Trace the five calls that have a limit, on small data."""
    import numpy as np

    import crosslevel as cl
    from crosslevel.data.simulate import nation

    warnings.simplefilter("ignore")
    world = nation(40, 100, n_states=4)
    persons = cl.EcologicalInference(categorical=["sex"])
    totals = {"successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    by = np.repeat(np.arange(12), 10)
    means = np.array([X[by == g, 0].mean() for g in range(12)])
    edges = np.arange(9.0)
    return {
        "EcologicalInference.fit": passed(
            lambda: persons.fit(world.people, world.places, by="region", weight="weight", **totals)
        ),
        "EcologicalInference.estimate": passed(lambda: persons.estimate(by="sex", rollup="all", n_draws=200)),
        "CUDIA.fit": passed(lambda: cl.CUDIA(n_clusters=2, method="map").fit(X, by, means)),
        "BinnedGP.fit": passed(
            lambda: cl.BinnedGP().fit(cl.Intervals(edges[:-1], edges[1:]), np.sin(edges[1:]), quantity="mean")
        ),
        "KRLS.fit": passed(lambda: cl.KRLS().fit(X, X[:, 0] ** 2 + X[:, 1])),
    }


def same_names() -> list[str]:
    """List file names that stand twice in one room."""
    names: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if len(parts) > 1 and path.name not in ("__init__.py", "model.py", "estimator.py"):
            names[parts[0], path.name].append("/".join(parts))
    return [f"{' and '.join(found)}" for found in names.values() if len(found) > 1]


def described(found: dict[str, list[str]]) -> str:
    """Lay out the walks of the main estimator for the page on architecture."""
    lines = []
    for name in ("EcologicalInference.fit", "EcologicalInference.estimate"):
        lines += [
            f"**`{name}`** ({len(found[name])} files): " + ", ".join(f"`{file}`" for file in found[name]) + ".",
            "",
        ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the table; give 1 where a ceiling is exceeded."""
    files = sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")])
    found = walks()
    long = [p for p in files if len(p.read_text().splitlines()) > LONGEST]
    twice = same_names()
    measured = {"code lines of src/": sum(map(code_lines, files))}
    measured["modules of src/"] = sum(path.suffix == ".py" for path in files)
    measured |= {f"files passed by {name}": len(walk) for name, walk in found.items()}
    measured |= {f"files over {LONGEST} lines": len(long), "file names twice in a room": len(twice)}
    for what, number in measured.items():
        ceiling, goal = CEILINGS[what]
        print(
            f"{what:<46} {number:>7,}  (at most {ceiling:,}, goal {goal:,}){'' if number <= ceiling else '  EXCEEDED'}"
        )
    for path in long:
        print(f"  long: {path.relative_to(ROOT)}")
    for names in twice:
        print(f"  same name: {names}")
    if "--list" in arguments:
        for name, walk in found.items():
            print(f"\n{name}\n  " + "\n  ".join(walk))
    if "--write" in arguments:
        before, rest = PAGE.read_text().split("<!-- walks -->\n")
        after = rest.split("<!-- /walks -->")[1]
        PAGE.write_text(f"{before}<!-- walks -->\n{described(found)}<!-- /walks -->{after}")
    return int(any(number > CEILINGS[what][0] for what, number in measured.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
