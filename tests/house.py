"""Measure the house: tokens by folder, wide signatures, files a call passes, lines of tests. Exit 1 where a ceiling is exceeded.

``python tests/house.py`` prints the table; ``--list`` adds the files of every walk, ``--write`` puts those of the main estimator
into docs/architecture.md. Tokens are names, numbers, operators and strings (one for every eight characters) without docstrings
and comments; scripts, styles and templates count a quarter of their characters. A call passes a file when one of the file's
functions runs during the call. A ceiling is what was reached: it is lowered with the number and never raised.
"""

from __future__ import annotations

import ast
import collections
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ROOT = PROJECT / "src" / "crosslevel"
PAGE = PROJECT / "docs" / "architecture.md"
TOKENS = {  # folder: (ceiling, budget)
    "(top)": (816, 1_000),
    "binned": (51_382, 40_000),
    "charts": (37_341, 16_000),
    "cli": (25_904, 14_000),
    "data": (56_684, 40_000),
    "diagnostics": (1_265, 2_500),
    "distribution": (25_212, 18_000),
    "ecological": (76_433, 66_000),
    "ecological/court": (15_882, 10_000),
    "ecological/tables": (50_435, 36_000),
    "embedding": (8_500, 8_500),
    "imputation": (42_056, 38_000),
    "krls": (29_514, 26_000),
    "numerics": (32_720, 33_000),
    "reports": (32_768, 12_000),
    "results": (22_398, 14_000),
}
OTHERS = {
    "functions over 8 parameters, dataclasses over 12 fields": (25, 22),
    "modules of src/": (317, 190),
    "files over 350 code lines": (2, 0),
    "file names twice in a room": (0, 0),
    "lines of tests/": (45_042, 32_000),
    "lines of experiments/, studies/, benchmarks/, bench/": (13_926, 8_000),
    "patterns of messages in tests/": (28, 0),
    "files passed by EcologicalInference.fit": (20, 15),
    "files passed by EcologicalInference.estimate": (21, 18),
    "files passed by CUDIA.fit": (19, 12),
    "files passed by BinnedGP.fit": (12, 12),
    "files passed by KRLS.fit": (12, 12),
}
SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MOST_CODE_LINES, MOST_PARAMETERS, MOST_FIELDS = 350, 8, 12


def _lines_of_docs(tree: ast.Module) -> set[int]:
    """List the lines of docstrings, and of strings that stand as statements."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def _weight(token: tokenize.TokenInfo) -> int:
    is_string = "STRING" in tokenize.tok_name[token.type]
    return max(1, len(token.string) // 8) if is_string else 1


def _wide(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if sum(a.arg not in ("self", "cls") for a in arguments) > MOST_PARAMETERS:
                yield node.name
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
            fields = sum(isinstance(field, ast.AnnAssign) for field in node.body)
            yield from [node.name] * (fields > MOST_FIELDS)


def sizes(path: Path) -> tuple[int, int, list[str]]:
    """Count tokens and code lines of one file and name its wide signatures."""
    source = path.read_text()
    if path.suffix != ".py":
        return len(source) // 4, 0, []
    tree = ast.parse(source)
    docs = _lines_of_docs(tree)
    tokens, lines = 0, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT and token.start[0] not in docs:
            tokens += _weight(token)
            lines.update(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines), list(_wide(tree))


def folder_of(path: Path) -> str:
    """Name the folder of the table of budgets that a file of the package counts in."""
    parts = path.relative_to(ROOT).parts
    if parts[:2] in (("ecological", "tables"), ("ecological", "court")):
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "(top)"


def passed(call: Callable[[], object]) -> list[str]:
    """Name the files of crosslevel that a call passes, in the order of their first function."""
    files: dict[str, None] = {}

    def note(frame, event, arg):
        if event == "call" and frame.f_code.co_name != "<module>":
            file = frame.f_code.co_filename
            if file.startswith(str(ROOT)):
                files.setdefault(file[len(str(ROOT)) + 1 :])

    call()  # modules and machine code are loaded on first use, which is not part of the walk
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(files)


def walks() -> dict[str, list[str]]:
    """Trace the five calls that have a limit, on small data."""
    import numpy as np

    import crosslevel as cl
    from crosslevel.data.simulate import nation

    warnings.simplefilter("ignore")
    world = nation(40, 100, n_states=4)
    people = cl.People(world.people, by="region", weight="weight", categorical=["sex"])
    places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    persons = cl.EcologicalInference()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    by = np.repeat(np.arange(12), 10)
    means = {"g": np.arange(12), "u": [X[by == g, 0].mean() for g in range(12)]}
    hidden = cl.People({"x": X[:, 0], "z": X[:, 1], "g": by}, by="g"), cl.Places(means, by="g", means="u")
    edges = np.arange(9.0)
    return {
        "EcologicalInference.fit": passed(lambda: persons.fit(people, places)),
        "EcologicalInference.estimate": passed(lambda: persons.estimate(by="sex", rollup="all", n_draws=200)),
        "CUDIA.fit": passed(lambda: cl.CUDIA(n_clusters=2, method="map").fit(*hidden)),
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
    return [" and ".join(paths) for paths in names.values() if len(paths) > 1]


def described(traced: dict[str, list[str]]) -> str:
    """Lay out the walks of the main estimator for the page on architecture."""
    lines = []
    for name in ("EcologicalInference.fit", "EcologicalInference.estimate"):
        files = ", ".join(f"`{file}`" for file in traced[name])
        lines += [f"**`{name}`** ({len(traced[name])} files): {files}.", ""]
    return "\n".join(lines)


def raw_lines(*folders: str) -> int:
    """Count the lines of the Python and R files of some folders of the project."""
    files = [p for folder in folders for p in (PROJECT / folder).rglob("*") if p.suffix in (".py", ".R")]
    return sum(len(path.read_text().splitlines()) for path in files)


def measured(traced: dict[str, list[str]]) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Measure tokens by folder, everything else that has a ceiling, and name what is too long or twice."""
    tokens: collections.Counter[str] = collections.Counter()
    wide, long = 0, []
    files = [p for p in sorted(ROOT.rglob("*")) if p.suffix in (".py", ".js", ".css", ".html")]
    for path in files:
        size, lines, names = sizes(path)
        tokens[folder_of(path)] += size
        wide += len(names)
        long += [f"long: {path.relative_to(ROOT)} ({lines})"] if lines > MOST_CODE_LINES else []
    twice = [f"same name: {names}" for names in same_names()]
    pattern = re.compile(r"match=")
    others = {
        "functions over 8 parameters, dataclasses over 12 fields": wide,
        "modules of src/": sum(path.suffix == ".py" for path in files),
        "files over 350 code lines": len(long),
        "file names twice in a room": len(twice),
        "lines of tests/": raw_lines("tests"),
        "lines of experiments/, studies/, benchmarks/, bench/": raw_lines(
            "experiments", "studies", "benchmarks", "bench"
        ),
        "patterns of messages in tests/": sum(
            len(pattern.findall(path.read_text())) for path in (PROJECT / "tests").rglob("test_*.py")
        ),
    }
    others |= {f"files passed by {name}": len(walk) for name, walk in traced.items()}
    return dict(tokens), others, long + twice


def main(arguments: list[str]) -> int:
    """Print the table; give 1 where a ceiling is exceeded."""
    traced = walks()
    tokens, others, complaints = measured(traced)
    exceeded = False
    for numbers, ceilings, unit in ((tokens, TOKENS, " tokens"), (others, OTHERS, "")):
        for name, number in numbers.items():
            ceiling, budget = ceilings.get(name, (0, 0))
            exceeded |= number > ceiling
            mark = "  EXCEEDED" if number > ceiling else "  lower the ceiling" if number < ceiling else ""
            print(f"{name:<56} {number:>8,}{unit}  (at most {ceiling:,}, budget {budget:,}){mark}")
    total = sum(tokens.values())
    print(f"{'all of src/':<56} {total:>8,} tokens  (budget 375,000)")
    for complaint in complaints:
        print(f"  {complaint}")
    if "--list" in arguments:
        for name, walk in traced.items():
            print(f"\n{name}\n  " + "\n  ".join(walk))
    if "--write" in arguments:
        before, rest = PAGE.read_text().split("<!-- walks -->\n")
        after = rest.split("<!-- /walks -->")[1]
        PAGE.write_text(f"{before}<!-- walks -->\n{described(traced)}<!-- /walks -->{after}")
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
