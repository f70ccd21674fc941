"""The report in a real browser, opened from disk with no network."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from crosslevel import ecological, report

pytestmark = pytest.mark.browser
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@pytest.fixture
def page(chromium, tmp_path):
    from playwright.sync_api import sync_playwright

    found = ecological.goodman({"young": [30, 90, 50], "old": [70, 10, 50]}, {"yes": [80, 20, 60], "no": [20, 80, 40]})
    report(found, tmp_path / "report.html", title="Young and old")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        view = browser.new_page()
        view.asked, view.problems = [], []
        view.on("request", lambda r: view.asked.append(r.url))
        view.on("pageerror", lambda e: view.problems.append(str(e)))
        view.on("console", lambda m: view.problems.append(m.text) if m.type == "error" else None)
        view.goto((tmp_path / "report.html").as_uri())
        yield view
        browser.close()


def test_the_page_opens_offline_and_reads_well(page):
    assert page.title() == "Young and old"
    assert page.asked == [page.url]
    assert page.problems == []
    assert page.locator("tbody tr").count() == 4
    assert page.locator("figure svg").bounding_box()["width"] > 200
    assert "95 % intervals" in page.locator("p.method").inner_text()


def test_details_open_by_keyboard_and_the_data_can_be_saved(page):
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("dd").first.is_visible()
    with page.expect_download() as saving:
        page.locator("a[download]").click()
    rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text())))
    assert len(rows) == 4
    assert float(rows[0]["estimate"]) + float(rows[1]["estimate"]) == pytest.approx(1)
