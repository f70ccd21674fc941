"""What a reader of the docs searches for stands on the page where the answer is, not in the glossary alone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {
    "contextual effect": "guide/ecological-sensitivity.md",
    "aggregation bias": "guide/ecological.md",
    "raking": "guide/ecological-regression.md",
    "shrinkage": "guide/distribution.md",
    "coverage": "bench.md",
    "cluster-robust": "guide/krls.md",
    "small area": "guide/ecological-regression.md",
    "MRP": "guide/ecological-regression.md",
    "racially polarized voting": "guide/court.md",
    "areal interpolation": "guide/areas.md",
}


@pytest.mark.parametrize(("word", "page"), PAGES.items())
def test_word_of_the_field_stands_in_the_glossary_and_where_its_answer_is(word, page):
    for path in ("guide/glossary.md", page):
        assert word.lower() in (DOCS / path).read_text().lower(), path


def _blocks():
    spec = importlib.util.spec_from_file_location("blocks", DOCS / "blocks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


QUICK = ("add-a-method", "court", "data-in", "ecological", "ecological-sensitivity", "krls", "results")


@pytest.mark.parametrize("page", QUICK)
def test_blocks_of_a_quick_page_run(page):
    _blocks().run(DOCS / "guide" / f"{page}.md")


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in _blocks().pages() if p.stem not in QUICK], ids=lambda p: p.stem)
def test_blocks_of_every_page_run(page):
    _blocks().run(page)


def test_a_block_that_does_not_run_is_named_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n<!-- setup\nx = 1\n-->\n```python\nprint(x + 1)\n```\n\n```python\nnothing\n```\n")
    with pytest.raises(RuntimeError):
        _blocks().run(page)
    page.write_text(
        "<!-- setup\nx = 1\n-->\n```python\nprint(x + 1)\n```\n```python\n>>> x\n1\n```\n```py\nnot run\n```\n"
    )
    assert _blocks().run(page) == "2\n"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(RuntimeError):
        _blocks().run(page)


def test_every_page_is_in_the_list_of_one_section():
    listed = [
        line.strip()
        for section in DOCS.glob("*.md")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", section.read_text(), re.M | re.S)
        for line in block.splitlines()
        if line.startswith("guide/")
    ]
    assert sorted(listed) == sorted(f"guide/{p.stem}" for p in (DOCS / "guide").glob("*.md"))


def _left():
    """Give the patterns that one code span may not hold together, for every name in the table of what left."""
    table = (DOCS / "upgrading.md").read_text().split("## What left")[1]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    for span in re.findall("`([^`]+)`", " ".join(cells)):
        owner, called, arguments = span.rstrip(")").partition("(")
        for argument in arguments.split(", "):
            # a value that left with a choice is named alone; KRLS shares some with others
            alone = argument and not argument.endswith("=") and not owner.startswith("KRLS")
            words = [argument] if alone else [owner + called, argument]
            yield [re.compile(rf"(?<![\w-]){re.escape(w)}" + r"(?!\w|\.py)" * w[-1].isalnum()) for w in words if w]


def test_no_page_names_what_left():
    pages = [
        p for p in DOCS.rglob("*.md") if p.name not in ("upgrading.md", "changelog.md") and "_build" not in p.parts
    ]
    spans = {span for p in (*pages, DOCS.parent / "README.md") for span in re.findall("`([^`\n]+)`", p.read_text())}
    for words in _left():
        assert not [span for span in spans if all(word.search(span) for word in words)]
