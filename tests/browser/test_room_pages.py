"""The charts of every kind of table in a real browser: offline, drawn, answering to choices, and with nasty names that stay text."""

from __future__ import annotations

import pytest
from tests import built

from crosslevel import report

pytestmark = pytest.mark.browser

HIT = '<img src=x onerror="window.hit=1">'
END = "</script><script>window.hit=1</script>"
PATH = "a.b[0]['c']\\ {{7*7}} ${window.hit=1}"
PLACES = [f"north {HIT}", f"south {END}", f"west {PATH}"]


EVIL = f" {HIT} {END} {PATH}"

GROUPS = {
    "krls": ("effects", "at_rows", "bands"),
    "distribution": ("labels", "classes", "coverage"),
    "binned": ("curve", "bins", "areas"),
    "imputation": ("imputed", "published", "slopes", "clusters"),
    "tables": ("comparison", "cells", "margin", "context"),
    "places": ("validation", "bag_sizes", "subgroups", "effects_by_place"),
}
"""Page -> the tables it shows."""


def page_of(kind, squares):
    tables = {f"{name} {EVIL}": built.KINDS[name](EVIL) for name in GROUPS[kind]}
    polygons = None
    if kind in ("binned", "places"):
        polygons = squares(PLACES, key="place")
        tables = {
            heading: built.KINDS[name](EVIL, places=PLACES)
            if name in ("areas", "subgroups", "effects_by_place")
            else table
            for (heading, table), name in zip(tables.items(), GROUPS[kind], strict=True)
        }
    return report(tables, title=f"Page {EVIL}", polygons=polygons)


@pytest.fixture(scope="module", params=GROUPS)
def kind(request):
    return request.param


_made = {}


@pytest.fixture
def made(kind, squares):
    if kind not in _made:
        _made[kind] = page_of(kind, squares)
    return _made[kind]


def charts(made):
    return [view for section in made.page["sections"] for view in section["views"]]


def test_every_chart_is_drawn_offline_and_nasty_names_stay_text(visit, drawn, made, kind):
    page = visit(made)
    views = charts(made)
    assert page.locator("figure.view").count() == len(views)
    for n, _ in enumerate(views):
        assert "could not be drawn" not in drawn(page, n).inner_text()
        marks = page.locator("figure.view").nth(n).locator("svg g[class*='mark-'] :is(path, rect, line, text)")
        assert marks.count() > 3
        assert "NaN" not in page.locator("figure.view").nth(n).inner_html()
    assert page.asked == [page.url]
    assert page.problems == []
    assert page.evaluate("window.hit") is None
    assert page.locator(".crosslevel-report img").count() == 0
    assert page.locator("section").count() == len(made.page["sections"])
    for section in made.page["sections"]:
        assert page.locator(f"#{section['name']} h2").is_visible()
    assert HIT in page.locator("main").inner_text()


def test_every_choice_changes_its_charts(visit, drawn, made, kind):
    page = visit(made)
    views = charts(made)
    for n, _ in enumerate(views):
        drawn(page, n)
    addresses = []
    for n, view in enumerate(views):
        for choice in view["choices"]:
            select = page.locator("figure.view").nth(n).locator(f"select[data-choice={choice}]")
            values = select.locator("option").evaluate_all("all => all.map(o => o.value)")
            if len(values) < 2:
                continue
            chart = page.locator(".chart").nth(n)
            before, was = chart.inner_html(), select.input_value()
            times = int(chart.get_attribute("data-drawn"))
            select.focus()
            select.select_option(next(v for v in values if v != was))
            drawn(page, n, times + 1)
            if not choice.endswith("_order"):  # another order may be the same one
                assert chart.inner_html() != before, (view["name"], choice)
            addresses.append(page.evaluate("location.hash"))
    assert len(addresses) >= 1
    assert any("=" in address for address in addresses)
    assert page.problems == []
    assert page.evaluate("window.hit") is None


def test_the_answer_is_there_without_scripts(visit, made, kind):
    page = visit(made, java_script_enabled=False)
    for section in made.page["sections"]:
        own = page.locator(f"#{section['name']}")
        assert own.locator("table.answer tbody tr").count() == len(section["rows"])
        for sentence in section["sentences"]:
            assert own.get_by_text(sentence, exact=True).is_visible()
    assert page.locator(".views").first.is_hidden()


def test_pointing_at_a_mark_shows_names_as_text(visit, drawn, squares):
    page = visit(_made.setdefault("places", page_of("places", squares)))
    views = [v["name"] for v in charts(_made["places"])]
    chart = drawn(page, views.index("map-a"))
    chart.scroll_into_view_if_needed()
    chart.locator("g.mark-shape path").nth(1).hover()
    assert PLACES[1] in page.locator(".tip").inner_text()
    assert page.locator(".tip img").count() == 0
    assert page.evaluate("window.hit") is None


def test_the_brush_keeps_colors_in_both_charts(visit, drawn, squares):
    page = visit(_made.setdefault("krls", page_of("krls", squares)))
    chart = drawn(page, [v["name"] for v in charts(_made["krls"])].index("effects"))
    chart.scroll_into_view_if_needed()

    def gray():
        fills = chart.locator("g.mark-symbol.role-mark").evaluate_all(
            "all => all.map(g => [...g.querySelectorAll('path')].map(p => p.getAttribute('fill')))"
        )
        return [sum(f in ("#C8C8C8", "#c8c8c8") for f in group) for group in fills if len(group) == 120]

    assert gray() == [0, 0]
    box = chart.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 90, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, box["y"] + 250, steps=4)
    page.mouse.up()
    for _ in range(600):
        left, right = gray()
        if left == right and left:
            break
        page.wait_for_timeout(100)
    assert 0 < left < 120
    assert left == right
