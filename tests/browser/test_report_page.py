"""The report in a real browser, opened from disk with no network."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological, report
from crosslevel.results import Estimates, Provenance

pytestmark = pytest.mark.browser
PLACES = [f"r{i}" for i in range(6)]
NAMES = ["First subgroup", "Second subgroup", "Difference: the first less the second"]


@pytest.fixture
def votes(by_place, squares):
    found = by_place(PLACES, warnings=["Mind the gap."], title="Share voting yes")
    return report({"By region": found}, title="Votes", polygons=squares(PLACES))


def fills(chart):
    return chart.locator("g.mark-shape path").evaluate_all("all => all.map(p => p.getAttribute('fill'))")


def hover(page, chart, k):
    chart.locator("g.mark-shape path").nth(k).hover()
    return page.locator(".tip").inner_text()


def test_the_page_opens_offline_and_every_chart_is_drawn(visit, drawn, votes):
    page = visit(votes)
    for n in range(len(votes.page["sections"][0]["views"])):
        drawn(page, n)
    assert page.title() == "Votes"
    assert page.asked == [page.url]
    assert page.problems == []
    # the page by structure: what stands where, and how many marks
    told = page.locator("figure.view").evaluate_all(
        "all => all.map(f => [f.querySelector('h3').textContent, f.querySelectorAll('g.mark-shape path').length])"
    )
    assert told == [
        *([name, 6] for name in NAMES),
        ["Places in order", 0],
        ["What else is known of each place", 6],
        ["Subgroups of one place", 0],
    ]
    assert page.locator("figure.view").nth(3).locator("g.mark-rule line").count() >= 6
    assert page.locator("table.answer tbody tr").count() == 18
    assert page.locator(".sentences li").count() == 3
    assert page.get_by_text("Mind the gap.").is_visible()
    boxes = [page.locator("figure.view").nth(n).bounding_box() for n in range(3)]
    assert len({round(b["y"]) for b in boxes}) == 1
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


def test_another_subgroup_changes_the_numbers_and_the_maps(visit, drawn, votes):
    page = visit(votes)
    first, second, apart = (drawn(page, n) for n in range(3))
    before = fills(first), fills(second), fills(apart)
    assert len(set(before[0])) > 1
    said = hover(page, first, 4)
    assert "r4" in said
    assert "10.4 %" in said
    assert "5.4 %" in said
    assert "-10.0 points" in hover(page, apart, 0)
    page.locator("figure.view").nth(0).locator("select").select_option("others")
    drawn(page, 0, 2)
    drawn(page, 2, 2)
    assert "30.4 %" in hover(page, first, 4)
    assert "10.0 points" in hover(page, apart, 0)
    assert fills(first) != before[0]
    assert fills(second) == before[1]
    assert fills(apart) != before[2]
    # the same list stands above other charts and follows
    assert page.locator("figure.view").nth(3).locator("select").input_value() == "others"


def test_lists_answer_to_the_keyboard_and_the_address_keeps_the_view(visit, drawn, votes):
    page = visit(votes)
    drawn(page, 0)
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.querySelector('.crosslevel-report').shadowRoot.activeElement?.tagName") == "SELECT":
            break
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => location.hash === '#s1.a=women'", polling=50)
    drawn(page, 0, 2)
    page.reload()
    first = drawn(page, 0)
    assert page.locator("figure.view").nth(0).locator("select").input_value() == "women"
    assert "20.4 %" in hover(page, first, 4)
    page.evaluate("location.hash = '#s1.a=others&s1.b=%E0%A4%A&x'")
    drawn(page, 0, 2)
    assert "30.4 %" in hover(page, first, 4)
    assert page.problems == []
    # a chart can be reached too, and says what it is
    assert first.get_attribute("tabindex") == "0"
    assert first.get_attribute("aria-label") == NAMES[0]


def test_a_linked_view_opens_as_it_was(visit, drawn, votes):
    page = visit(votes, fragment="#s1.a=others&s1.k0=r3")
    assert "30.2 %" in hover(page, drawn(page, 0), 2)
    assert page.locator("figure.view").nth(5).locator("select").first.input_value() == "r3"


def test_charts_and_data_can_be_saved(visit, drawn, votes):
    page = visit(votes)
    drawn(page, 0)

    def saved(kind):
        with page.expect_download() as saving:
            page.locator("figure.view").nth(0).locator(f"[data-save={kind}]").click()
        assert saving.value.suggested_filename == f"s1-map-a.{kind}"
        return Path(saving.value.path()).read_bytes()

    assert saved("svg").startswith(b"<svg")
    assert saved("png").startswith(b"\x89PNG\r\n")
    rows = list(csv.DictReader(io.StringIO(saved("csv").decode())))
    assert [r["place"] for r in rows] == PLACES
    assert [float(r["a.estimate"]) for r in rows] == pytest.approx([0.1 + i / 1000 for i in range(6)])
    with page.expect_download() as saving:
        page.locator("a[download]").click()
    rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text())))
    assert len(rows) == 18
    assert page.problems == []


def test_a_long_table_is_saved_as_a_whole(visit, drawn, by_place):
    found = by_place([f"r, {i}" for i in range(1700)])
    page = visit(report(found))
    drawn(page, 0)
    assert page.locator("table.answer tbody tr").count() == 2000
    with page.expect_download() as saving:
        page.locator("[data-save=answer]").click()
    rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text())))
    assert [r["region"] for r in rows] == found["region"].tolist()
    assert [float(r["estimate"]) for r in rows] == pytest.approx(found["estimate"].tolist(), abs=1e-6)
    assert [float(r["conf_low"]) for r in rows] == pytest.approx(found["conf_low"].tolist(), abs=1e-6)


def test_the_table_is_sorted_by_a_click(visit, votes):
    page = visit(votes)
    head = page.locator("table.answer thead th").nth(2)
    for order, expected in (("ascending", "0.1000"), ("descending", "0.3050")):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        assert page.locator("table.answer tbody tr").first.locator("td").nth(2).inner_text() == expected


def test_without_javascript_the_answer_is_there(visit, votes):
    page = visit(votes, java_script_enabled=False)
    for words in ("By region", "Asked: Share voting yes.", "Mind the gap."):
        assert page.get_by_text(words).first.is_visible(), words
    assert page.locator("noscript p").is_visible()
    assert page.get_by_role("cell", name="women").first.is_visible()
    assert page.locator("table.answer tbody tr").count() == 18
    assert not page.locator("figure.view").first.is_visible()
    page.locator("summary").last.click()
    assert page.get_by_text("example()").is_visible()


def test_without_the_extra_the_page_is_a_picture_and_a_table(visit, by_place, monkeypatch):
    monkeypatch.setattr("crosslevel.reports.vega.available", lambda: False)
    page = visit(report(by_place(PLACES)))
    assert page.locator("figure.picture svg").bounding_box()["width"] > 200
    assert page.locator("table.answer tbody tr").count() == 18
    assert page.get_by_text("crosslevel[report]").is_visible()
    assert page.problems == []


def test_dark_and_light(visit, drawn, votes):
    page = visit(votes, color_scheme="dark")
    label = drawn(page, 3).locator("g.role-axis-title text").first
    paper = page.locator("main").evaluate("m => getComputedStyle(m).backgroundColor")
    assert paper == "rgb(20, 24, 29)"
    assert label.get_attribute("fill") == "#e7ebf0"
    page.emulate_media(color_scheme="light")
    drawn(page, 3, 2)
    assert page.locator("main").evaluate("m => getComputedStyle(m).backgroundColor") == "rgb(255, 255, 255)"
    assert label.get_attribute("fill") == "#1c2430"


def test_a_print_shows_every_chart_and_the_notes(visit, drawn, votes):
    page = visit(votes)
    drawn(page, 0)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for n in range(6):
        drawn(page, n)
    page.emulate_media(media="print")
    assert page.get_by_text("example()").is_visible()
    assert not page.locator("[data-save=svg]").first.is_visible()
    assert page.pdf()[:4] == b"%PDF"


def test_places_without_polygons_are_dots(visit, drawn, by_place):
    found = by_place(PLACES)
    page = visit(report(found, coords={name: (10 + i, 50 + i) for i, name in enumerate(PLACES)}))
    chart = drawn(page, 0)
    assert chart.locator("g.mark-shape path").count() == 6
    assert "10.0 %" in hover(page, chart, 0)


def test_methods_stand_side_by_side(visit, drawn):
    people, votes = {"young": [30, 90, 50], "old": [70, 10, 50]}, {"yes": [80, 20, 60], "no": [20, 80, 40]}
    found = ecological.compare(counted(people, votes), ["goodman", "rxc_em", "bounds"])
    page = visit(report(found))
    chart = drawn(page, 0)
    assert chart.locator("g.mark-symbol.role-mark path").count() == len(found.select(method=["goodman", "rxc_em"]))
    assert "goodman" in chart.inner_text()
    assert page.problems == []


def test_an_address_that_leaves_a_choice_out_means_the_start(visit, drawn, votes):
    page = visit(votes, fragment="#s1.b=others")
    chosen = page.locator("figure.view").nth(1).locator("select")
    drawn(page, 1)
    assert chosen.input_value() == "others"
    page.evaluate("location.hash = '#s1.a=women&s1.b=nobody'")
    drawn(page, 1, 2)
    assert chosen.input_value() == "women"
    assert page.locator("figure.view").nth(0).locator("select").input_value() == "women"
    assert page.problems == []


def test_hovering_tells_small_and_large_numbers_as_they_are(visit, drawn, squares):
    columns = {
        "region": PLACES,
        "estimate": [-0.00012345, 2.0, 3.0, 4.0, 5.0, 6.0],
        "people": [1234567, 1, 2, 3, 4, 5],
        "chance": [0.5, 0.25, 0.1, 0.2, 0.3, 0.4],
    }
    found = Estimates.build(
        columns, keys=["region"], method="m", level=None, interval="none", provenance=Provenance.of(call="c")
    )
    page = visit(report(found, polygons=squares(PLACES)))
    said = hover(page, drawn(page, 0), 0)
    assert "-0.0001235" in said
    assert "1,234,567" in said
    assert page.problems == []


def test_rows_with_the_same_joined_words_or_without_a_word_are_all_there(visit, drawn):
    columns = {
        "p": np.array(["a · b", "a", "–", None], dtype=object),
        "q": np.array(["c", "b · c", "z", "z"], dtype=object),
        "estimate": [1.0, 2.0, 3.0, 4.0],
    }
    found = Estimates.build(
        columns, keys=["p", "q"], method="m", level=None, interval="none", provenance=Provenance.of(call="c")
    )
    page = visit(report(found))
    chart = drawn(page, 0)
    labels = chart.locator("g.role-axis-label text").all_text_contents()
    assert {"a · b · c", "a · b · c (2)", "– · z", "– · z (2)"} <= set(labels)
    heights = chart.locator("g.mark-symbol.role-mark path").evaluate_all(
        "all => all.map(p => p.getAttribute('transform'))"
    )
    assert len({h.split(",")[1] for h in heights}) == 4
    assert page.problems == []


@pytest.mark.parametrize("list_first", [False, True])
def test_lists_are_followed_while_the_colors_change(visit, drawn, votes, list_first):
    page = visit(votes)
    first = drawn(page, 0)
    choose = page.locator("figure.view").nth(0).locator("select")
    if list_first:  # both in one go: the list waits for its drawing when the colors change
        choose.evaluate(
            "list => { list.value = 'others'; list.dispatchEvent(new Event('change', { bubbles: true })); }"
        )
        page.emulate_media(color_scheme="dark")
    else:
        page.emulate_media(color_scheme="dark")
        choose.select_option("others")
    drawn(page, 0, 3)
    assert first.locator("g.mark-shape path").count() == 6
    assert "30.4 %" in hover(page, first, 4)
    assert page.problems == []


def test_rows_without_a_key_are_found_under_a_dash(visit, drawn):
    first = np.repeat(np.array([*(f"a{i}" for i in range(60)), None], dtype=object), 2)
    columns = {"first": first, "second": ["x", "y"] * 61, "estimate": np.arange(122) * 1.0}
    found = Estimates.build(
        columns, keys=["first", "second"], method="m", level=None, interval="none", provenance=Provenance.of(call="c")
    )
    page = visit(report(found))
    chart = drawn(page, 0)
    page.locator("figure.view select").first.select_option("–")
    drawn(page, 0, 2)
    assert chart.locator("g.mark-symbol.role-mark path").count() == 2
    with page.expect_download() as saving:
        page.locator("figure.view [data-save=csv]").click()
    rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text())))
    assert [float(r["estimate"]) for r in rows] == [120, 121]
