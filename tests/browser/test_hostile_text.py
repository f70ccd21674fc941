"""Text that would like to be markup, code or a path stays text, and pages around a report leave it alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crosslevel import report
from crosslevel.results import Estimates, Provenance

pytestmark = pytest.mark.browser

HOSTILE = [
    '<img src=x onerror="window.hit=1">',
    "</script><script>window.hit=1</script>",
    "</template></style><svg onload=window.hit=1>",
    "{{7*7}} ${7*7} {% raw %}",
    "[x].y['z'].datum",
    "\"><b onclick='window.hit=1'>'",
    "javascript:window.hit=1",
    "__proto__",
    "\u2028a\u2029--><!--",
]
EVIL = " & ".join(HOSTILE)


def hostile_result():
    names = [f"{text} {i}" for i, text in enumerate(HOSTILE)]
    n = 2 * len(names)
    estimate = np.linspace(0.2, 0.8, n)
    return names, Estimates.build(
        {
            f"place {EVIL}": np.repeat(np.array(names, dtype=object), 2),
            f"who {EVIL}": np.tile(np.array([f"a {EVIL}", f"b {EVIL}"], dtype=object), len(names)),
            "estimate": estimate,
            "conf_low": estimate - 0.1,
            "conf_high": estimate + 0.1,
            f"more {EVIL}": np.arange(n) / 7,
            "bound_low": np.zeros(n),
            "bound_high": np.ones(n),
        },
        keys=[f"place {EVIL}", f"who {EVIL}"],
        method=f"method {EVIL}",
        level=0.95,
        interval=f"interval {EVIL}",
        provenance=Provenance.of(call=f"call {EVIL}", data={f"data {EVIL}": f"value {EVIL}"}),
        diagnostics={f"said {EVIL}": EVIL},
        warnings=[f"warning {EVIL}"],
        title=f"asked {EVIL}",
    )


def hostile_page(squares):
    names, found = hostile_result()
    # a map whose property names, ids and labels are as bad
    polygons = squares(names, key=f"place {EVIL}", name=[f"label {EVIL} {i}" for i in range(len(names))])
    for i, feature in enumerate(polygons["features"]):
        feature["properties"][EVIL] = EVIL
        feature["id"] = f"{EVIL} {i}"
    return report({f"heading {EVIL}": found, "__proto__": found}, title=f"title {EVIL}", polygons=polygons)


def seen(text):
    """As a browser shows it: separators of lines and runs of blanks are one blank."""
    return " ".join(text.split())


def test_no_text_becomes_markup_or_code(visit, drawn, squares):
    made = hostile_page(squares)
    page = visit(made)
    charts = page.locator(".chart")
    views = len(made.page["sections"][0]["views"])
    assert charts.count() == 2 * views
    for n in range(views):
        drawn(page, n)
    page.locator("g.mark-shape path").first.hover()
    tip = page.locator(".tip")
    assert seen(f"label {EVIL} 0") in seen(tip.inner_text())
    assert f"more {EVIL}"[:40] in tip.inner_text()
    for select, _ in itertools.product(range(page.locator("figure.view").first.locator("select").count()), range(1)):
        page.locator("figure.view").first.locator("select").nth(select).select_option(index=1)
    drawn(page, 0, 2)
    page.locator("summary").first.click()
    shown = seen(page.locator("main").inner_text())
    for part in (
        "title",
        "heading",
        "warning",
        "call",
        "data",
        "value",
        "method",
        "interval",
        "asked",
        "place",
        "who",
        "more",
        "said",
    ):
        assert seen(f"{part} {EVIL}") in shown, part
    assert seen(page.title()) == seen(f"title {EVIL}")
    assert page.evaluate("window.hit") is None
    assert page.evaluate("({}).polluted") is None
    assert page.locator("main img, main b, main script, main svg[onload]").count() == 0
    assert page.asked == [page.url.split("#")[0]]
    assert page.problems == []


def test_a_hostile_address_is_only_read(visit, drawn, squares):
    page = visit(
        hostile_page(squares),
        fragment="#s1.a=%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E&__proto__.x=1&s1.__proto__=1",
    )
    drawn(page, 0)
    assert page.evaluate("window.hit") is None
    assert page.problems == []


def test_saved_files_hold_the_text_as_it_is(visit, drawn, squares):
    import csv
    import io
    from pathlib import Path

    page = visit(hostile_page(squares))
    drawn(page, 0)
    for kind in ("csv", "svg"):
        with page.expect_download() as saving:
            page.locator("figure.view").nth(0).locator(f"[data-save={kind}]").click()
        told = Path(saving.value.path()).read_text()
        if kind == "csv":
            rows = list(csv.DictReader(io.StringIO(told, newline="")))
            assert [r["place"] for r in rows] == hostile_result()[0]
        else:
            assert "<img" not in told
            assert "<script" not in told


HOST = """<!doctype html><html><head><title>host</title><style>
div, main, section, figure, table, tbody, tr, td, p, select, label, svg, path, g { display: none !important; color: red !important; }
* { font-size: 90px !important; visibility: hidden; letter-spacing: 3em; text-transform: uppercase; }
</style></head><body>%s</body></html>"""


def test_two_reports_in_a_hostile_page_stand_each_for_itself(visit, drawn, by_place, squares):
    places = ["r0", "r1", "r2"]
    parts = [report(by_place(places), title=f"Report {i}", polygons=squares(places))._repr_html_() for i in range(2)]
    page = visit(HOST % "<hr>".join(parts))
    views = page.locator(".crosslevel-report").first.locator("figure.view").count()
    first, second = drawn(page, 0), drawn(page, views)
    for title in ("Report 0", "Report 1"):
        assert page.get_by_role("heading", name=title).is_visible()
        assert page.get_by_role("heading", name=title).evaluate("h => getComputedStyle(h).fontSize") == "27.2px"
    assert first.locator("g.mark-shape path").first.is_visible()
    assert page.locator("table.answer").first.is_visible()
    page.locator(".crosslevel-report").first.locator("select").first.select_option("others")
    drawn(page, 0, 2)
    assert second.get_attribute("data-drawn") == "1"
    assert page.locator(".crosslevel-report").nth(1).locator("select").first.input_value() == "men"
    assert page.evaluate("location.hash") == ""
    assert page.evaluate("[window.vega, window.vegaEmbed, window.vegaLite].every(x => x === undefined)")
    assert page.problems == []


def test_a_report_put_into_a_page_as_text_attaches_itself(visit, drawn, by_place, squares):
    """As notebooks do: the HTML is set as text, its scripts are made anew."""
    places = ["r0", "r1", "r2"]
    shown = report(by_place(places), title="In a notebook", polygons=squares(places))._repr_html_()
    page = visit("<!doctype html><html><body><div id=out></div></body></html>")
    page.evaluate(
        """html => {
          const out = document.getElementById("out");
          out.innerHTML = html;
          for (const old of out.querySelectorAll("script:not([type])")) {
            const fresh = document.createElement("script");
            fresh.textContent = old.textContent;
            old.replaceWith(fresh);
          }
        }""",
        shown,
    )
    drawn(page, 0)
    assert page.get_by_role("heading", name="In a notebook").is_visible()
    assert not page.get_by_text("trust this notebook").is_visible()
    assert page.problems == []
