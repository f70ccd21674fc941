"""One browser for all pages, opened from disk with no network; what a page asks for or complains of is noted."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.results import Estimates, Provenance

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
PATIENCE = 300_000.0
"""Milliseconds that a busy machine may take for what a page does in a moment."""


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE)
        yield made
        made.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Write a page and open it: ``visit(html_or_report, **options of the context)``."""
    contexts = []

    def opened(page, *, fragment="", name="report.html", **options):
        path = tmp_path / name
        path.write_text(page if isinstance(page, str) else page.html(), encoding="utf-8")
        context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        view = context.new_page()
        view.asked, view.problems = [], []
        view.on("request", lambda r: view.asked.append(r.url))
        view.on("pageerror", lambda e: view.problems.append(str(e)))
        view.on("console", lambda m: view.problems.append(m.text) if m.type == "error" else None)
        view.goto(path.as_uri() + fragment)
        return view

    yield opened
    for context in contexts:
        context.close()


CHART = """([n, times]) => {
  const hosts = [...document.querySelectorAll(".crosslevel-report")];
  const chart = hosts.flatMap((h) => [...h.shadowRoot.querySelectorAll(".chart")])[n];
  const done = Number(chart.dataset.drawn || 0) >= times && chart.querySelector("svg") !== null;
  return times > 0 ? done : [chart.dataset.drawn, chart.textContent.slice(0, 200), document.visibilityState];
}"""


@pytest.fixture
def drawn():
    """Wait until a chart has been drawn (again): ``drawn(page, n)`` for the n-th chart.

    Colors and sizes reach a page with its next frame, and a headless browser on a busy machine may stop making frames;
    a screenshot asks for one, and a window of another height has its media asked anew.
    """
    from playwright.sync_api import TimeoutError as Late

    def wait(page, n=0, times=1):
        for k in range(30):
            try:
                page.wait_for_function(CHART, arg=[n, times], polling=50, timeout=PATIENCE / 30)
            except Late:
                page.bring_to_front()
                size = page.viewport_size
                page.set_viewport_size({"width": size["width"], "height": size["height"] + (-1) ** k})
                page.screenshot()
            else:
                return page.locator(".chart").nth(n)
        pytest.fail(f"chart {n} was not drawn {times} times: {page.evaluate(CHART, [n, 0])}; {page.problems}")

    return wait


@pytest.fixture
def by_place():
    """Make estimates for each subgroup of each place: the k-th subgroup has ``(k + 1) / 10`` plus the place's number / 1000."""

    def made(places, subgroups=("men", "women", "others"), key="region", who="who", **options):
        n = len(places) * len(subgroups)
        estimate = np.array([(k + 1) / 10 + p / 1000 for p in range(len(places)) for k in range(len(subgroups))])
        columns = {
            key: np.repeat(np.array(places, dtype=object), len(subgroups)),
            who: np.tile(np.array(subgroups, dtype=object), len(places)),
            "estimate": estimate,
            "conf_low": estimate - 0.05,
            "conf_high": estimate + 0.05,
            "bound_low": np.zeros(n),
            "bound_high": np.ones(n),
            "truth": estimate + 0.02,
        }
        told = {"method": "example", "level": 0.95, "interval": "wald", "provenance": Provenance.of(call="example()")}
        return Estimates.build(columns, keys=[key, who], **(told | options))

    return made


@pytest.fixture
def squares():
    """Make a map of squares in a row."""

    def made(names, key="region", **properties):
        return {
            "type": "FeatureCollection",
            "features": [
                {
                    "type": "Feature",
                    "properties": {key: name, **{k: v[i] for k, v in properties.items()}},
                    "geometry": {
                        "type": "Polygon",
                        "coordinates": [
                            [[1000 + x, 0], [1100 + x, 0], [1100 + x, 100], [1000 + x, 100], [1000 + x, 0]]
                        ],
                    },
                }
                for i, (name, x) in enumerate(zip(names, range(0, 100 * len(names), 100), strict=True))
            ],
        }

    return made
