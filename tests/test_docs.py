"""What a reader of the docs searches for stands on the page where the answer is, not in the glossary alone."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {
    "contextual effect": "guide/ecological-sensitivity.md",
    "aggregation bias": "guide/ecological.md",
    "raking": "guide/ecological-regression.md",
    "shrinkage": "guide/distribution.md",
    "coverage": "guide/hidden-labels.md",
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
