"""Everything that a paper has is a call that exists or a study that exists."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "concepts" / "papers.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| what the paper has")
]
SPANS = list(dict.fromkeys(span for row in ROWS for span in re.findall(r"`([^`]+)`", row[1])))
CALLS = [span for span in SPANS if span.startswith("cl.")]
STUDIES = [span for span in SPANS if not span.startswith("cl.")]


def resolve(name: str) -> object:
    """Find what a dotted name stands for; of an attribute that a fit sets, the class whose docstring lists it."""
    found = pydoc.locate(name)
    if found is None and name.endswith("_"):
        owner, _, attribute = name.rpartition(".")
        found = pydoc.locate(owner)
        listed = inspect.getdoc(found) or ""
        assert re.search(rf"^(?:\w+, )*{attribute}\b", listed.partition("Attributes")[2], re.MULTILINE), name
    assert found is not None, name
    return found


def source() -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / "src" / "crosslevel").rglob("*.py")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_row_has_a_call_or_a_study(row):
    assert len(row) == 3
    assert re.search(r"`(cl\.|studies/|experiments/|benchmarks/|bench/)", row[1])


@pytest.mark.parametrize("call", CALLS)
def test_every_call_resolves(call):
    name, _, arguments = call.removesuffix(")").partition("(")
    found = resolve(name.replace("cl.", "crosslevel.", 1))
    if arguments:
        assert set(re.findall(r"(\w+)=", arguments)) <= set(inspect.signature(found).parameters)
    for value in re.findall(r'"[^"]+"', arguments):
        assert value in source(), f"{value} is no choice of anything"


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_exists(study):
    assert study.startswith(("studies/", "experiments/", "benchmarks/", "bench/"))
    assert (ROOT / study).exists()
