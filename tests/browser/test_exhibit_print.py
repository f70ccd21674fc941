"""The exhibit on paper: printed by a real browser on Letter and A4, no table is cut and no page is empty."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

from crosslevel import Counts, ecological, report

pytestmark = pytest.mark.browser

PAPER = {"Letter": (215.9, 279.4), "A4": (210.0, 297.0)}
SIDES, ENDS = 36.0, 35.0
"""Margins of the page's style sheet, both sides together, in millimeters."""
LONG = "Wolfeschlegelsteinhausenbergerdorff-O'Shaughnessy_" * 3


@pytest.fixture(scope="module")
def exhibit():
    """Eight candidates, one of a name without end, in a contest of five groups; and a contest of two."""
    rng = np.random.default_rng(2)
    n, groups = 60, ["white", "Black", "Hispanic", "Asian and Pacific Islander", "<other> & none"]
    people = rng.dirichlet(np.full(5, 0.5), n) * rng.integers(300, 900, n)[:, None]
    people = np.rint(people)
    frame = {"unit": [f"u{i}" for i in range(n)], **{f"g{j}": people[:, j] for j in range(5)}}
    votes = np.rint(people @ rng.dirichlet(np.ones(8), 5) * 0.5)
    frame |= {f"c{k}": votes[:, k] for k in range(8)}
    names = [LONG, '<img src=x onerror="window.hit=1">', *(f"Candidate {k}" for k in range(2, 8))]
    contests = {
        "School board, at large": {name: f"c{k}" for k, name in enumerate(names)},
        "Runoff": {"Smith": "c1", "Jones": "c2"},
    }
    counts = Counts(frame, unit="unit", groups={name: f"g{j}" for j, name in enumerate(groups)})
    study = ecological.rpv(counts, contests, methods=["goodman", "rxc"])
    return report(study, template="exhibit")


@pytest.mark.parametrize("paper", list(PAPER))
def test_no_table_is_cut_and_no_page_is_empty(visit, exhibit, paper):
    from pypdf import PdfReader

    page = visit(exhibit)
    wide, high = ((size - margin) / 25.4 * 96 for size, margin in zip(PAPER[paper], (SIDES, ENDS), strict=True))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": int(wide), "height": int(high)})
    over = page.locator("table, figure, figure svg, td, th, li, p, dd, h1, h2, h3").evaluate_all(
        "(all, w) => all.filter(e => e.getBoundingClientRect().right > w + 1 || e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)"
        ".map(e => e.outerHTML.slice(0, 200))",
        wide,
    )
    assert over == []
    tall = page.locator("table.whole, figure").evaluate_all(
        "(all, h) => all.filter(e => e.offsetHeight > h).length", high
    )
    assert tall == 0
    assert page.problems == []
    assert page.asked == [page.url]
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    document = PdfReader(io.BytesIO(page.pdf(format=paper)))
    points = [float(v) / 72 * 25.4 for v in document.pages[0].mediabox[2:]]
    assert points == pytest.approx(PAPER[paper], abs=1)
    texts = [p.extract_text() for p in document.pages]
    for number, text in enumerate(texts, 1):
        said = text.replace(f"{number} of {len(texts)}", "").strip()
        assert len(said) > 40, f"page {number} of {len(texts)} is empty"
    everything = re.sub(r"\s+", "", "".join(texts))
    tables = page.locator("table").count()
    assert tables >= 8
    for k in range(1, tables + 1):
        assert f"Table{k}." in everything
    assert not re.search(r"\bhover", " ".join(texts), re.IGNORECASE)
    # every number of every table is on paper
    for cell in set(page.locator("tbody td.number").evaluate_all("all => all.map(c => c.firstChild.textContent)")):
        assert re.sub(r"\s+", "", cell) in everything


def test_a_head_is_repeated_where_a_long_table_goes_on(visit):
    from pypdf import PdfReader

    from crosslevel.reports import Exhibit
    from crosslevel.reports.document import Document
    from crosslevel.results import Estimates, Provenance
    from crosslevel.results.wide import wide_tables

    n = 150
    found = Estimates.build(
        {"group": [f"group {i}" for i in range(n)], "outcome": ["only one"] * n, "estimate": np.linspace(0, 1, n)},
        keys=["group", "outcome"], method="m", level=None, interval="none", provenance=Provenance.of(call="c"),
    )  # fmt: skip
    document = Document("Long", wide_tables(found))
    page = visit(Exhibit(document.described(), document))
    texts = [p.extract_text() for p in PdfReader(io.BytesIO(page.pdf(format="Letter"))).pages]
    assert sum("only one" in re.sub(r"\s+", " ", t) for t in texts) >= 3
