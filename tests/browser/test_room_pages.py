"""The pages of the rooms in a real browser: offline, drawn, answering to choices, and with nasty names that stay text."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel import Bags, report
from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals, Polygons
from crosslevel.diagnostics import cross_validate_bags
from crosslevel.distribution import BayesianLinear, BayesianLinearClassifier
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.imputation.evaluation import evaluate
from crosslevel.krls import KRLS
from crosslevel.reports.pages import binned, distribution, imputation, krls
from crosslevel.reports.shapes import read_shapes

pytestmark = pytest.mark.browser

HIT = '<img src=x onerror="window.hit=1">'
END = "</script><script>window.hit=1</script>"
PATH = "a.b[0]['c']\\ {{7*7}} ${window.hit=1}"
PLACES = [f"north {HIT}", f"south {END}", f"west {PATH}"]


def krls_page(squares):
    rng = np.random.default_rng(0)
    n = 120
    X = {
        "age": rng.normal(50, 10, n),
        f"income {PATH} {HIT}": rng.gamma(2, 10, n),
        f"treated {END}": rng.integers(0, 2, n),
        f"arm {HIT}": rng.choice(["control", f"letter {END}", f"call {PATH}"], n),
    }
    y = np.sin((X["age"] - 50) / 8) + 0.02 * X[f"income {PATH} {HIT}"] + 0.3 * rng.normal(size=n)
    polygons = squares(PLACES, key=f"place {PATH}")
    model = KRLS(penalty=0.2).fit(X, y)
    shapes = read_shapes(polygons)
    groups = {f"place {PATH}": rng.choice(PLACES, n)}
    made = krls.section(f"Effects {HIT}", model, shapes=shapes, groups=groups)
    return report(made, title=f"Effects {END}", polygons=polygons)


def distribution_page(squares):
    rng = np.random.default_rng(1)
    y = rng.uniform(1, 3, 40)
    bags = [rng.normal(0, s, size=(n, 1)) for s, n in zip(y, rng.choice([5, 60], 40), strict=True)]
    named = Bags.from_list(bags, keys=[f"{i} {HIT} {END} {PATH}" for i in range(40)])
    kind = np.where(y > 2, f"wide {HIT}", f"narrow {END}")
    found = cross_validate_bags(BayesianLinear(n_landmarks=6), named, y, folds=2)
    model = BayesianLinearClassifier(n_landmarks=6).fit(named, kind)
    classes = distribution.section(f"Classes {PATH}", model, bags=named, y=kind)
    return report({f"Labels {HIT}": found, "Classes": classes, "New": model.estimate(named)})


def binned_page(squares):
    low, high = [0, 10, 20, 40] * 2, [10, 20, 40, 60] * 2
    pool = {f"sex {PATH}": [f"women {HIT}"] * 4 + [f"men {END}"] * 4}
    counts = [21, 34, 60, 12, 12, 60, 34, 21]
    model = BinnedCountGP().fit(Intervals(low, high), counts, pool=pool)
    polygons = squares(PLACES, key=f"code {HIT}")
    areas = BinnedGP(lengthscale=100.0, noise=0.1, solver="dense").fit(
        Polygons(polygons, key=f"code {HIT}", crs="plane"), [3, 5, 9], quantity="total"
    )
    ages = binned.section(f"Ages {END}", model, new=Intervals([5, 25], [15, 30]))
    return report({"Ages": ages, f"Areas {HIT}": areas}, polygons=polygons)


def imputation_page(squares):
    rng = np.random.default_rng(3)
    n = 700
    place = np.array([f"{p:02d} {HIT}" for p in rng.integers(0, 21, n)])
    names = np.unique(place)
    age = rng.integers(0, 4, n)
    ill = (rng.random(n) < 0.2 + 0.15 * age).astype(float)
    X = {f"age {PATH}": age, f"sex {END}": rng.choice([f"m {HIT}", "w"], n)}
    means = {f"place {END}": names, f"ill {HIT}": [ill[place == p].mean() for p in names]}
    means[f"not {PATH}"] = 1 - np.array(means[f"ill {HIT}"])
    partition = {f"place {END}": place}
    link = CrossLevelImputer(n_restarts=0).fit(X, partition, means)
    clusters = CUDIA(2, method="map", n_restarts=1).fit(X, partition, means)
    scores = evaluate(X, partition, ill, {f"guess {HIT}": np.clip(0.2 + 0.15 * age, 0.01, 0.99)})
    return report({"Link": imputation.section(f"Link {HIT}", link, scores=scores), f"Clusters {PATH}": clusters})


PAGES = {"krls": krls_page, "distribution": distribution_page, "binned": binned_page, "imputation": imputation_page}


@pytest.fixture(scope="module", params=PAGES)
def kind(request):
    return request.param


_made = {}


@pytest.fixture
def made(kind, squares):
    if kind not in _made:
        _made[kind] = PAGES[kind](squares)
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
        assert page.get_by_role("heading", name=section["heading"], exact=True).last.is_visible()
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
            assert chart.inner_html() != before, (view["name"], choice)
            addresses.append(page.evaluate("location.hash"))
    assert len(addresses) >= 2
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
    page = visit(_made.setdefault("krls", PAGES["krls"](squares)))
    views = [v["name"] for v in charts(_made["krls"])]
    chart = drawn(page, views.index("groups0-map"))
    chart.scroll_into_view_if_needed()
    chart.locator("g.mark-shape path").nth(1).hover()
    assert PLACES[1] in page.locator(".tip").inner_text()
    assert page.locator(".tip img").count() == 0
    assert page.evaluate("window.hit") is None


def test_the_brush_keeps_colours_in_both_charts(visit, drawn, squares):
    page = visit(_made.setdefault("krls", PAGES["krls"](squares)))
    chart = drawn(page, 0)

    def grey():
        fills = chart.locator("g.mark-symbol.role-mark").evaluate_all(
            "all => all.map(g => [...g.querySelectorAll('path')].map(p => p.getAttribute('fill')))"
        )
        return [sum(f in ("#C8C8C8", "#c8c8c8") for f in group) for group in fills if len(group) == 120]

    assert grey() == [0, 0]
    box = chart.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 90, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, box["y"] + 250, steps=4)
    page.mouse.up()
    page.wait_for_timeout(300)
    left, right = grey()
    assert 0 < left < 120
    assert left == right
