from __future__ import annotations

import json

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.imputation.evaluation import evaluate
from crosslevel.reports.pages import imputation

SEX = "sex [m.f] <i>"


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(3)
    n = 900
    place = rng.integers(0, 22, n)
    shift = rng.normal(size=22)
    age = np.clip(np.round(2 + shift[place] + rng.normal(size=n)), 0, 4).astype(int)
    X = {"age": age, SEX: rng.choice(["m", "w"], n)}
    ill = (rng.random(n) < 1 / (1 + np.exp(2 - 0.7 * age))).astype(float)
    smoke = (rng.random(n) < 0.3).astype(float)
    people = np.bincount(place)
    means = {
        "place": np.arange(22),
        "ill": np.bincount(place, ill) / people,
        "smoke": np.bincount(place, smoke) / people,
    }
    return X, {"place": place}, means, ill


@pytest.fixture(scope="module")
def link(world):
    X, place, means, _ = world
    return CrossLevelImputer(n_restarts=0).fit(X, place, means)


@pytest.fixture(scope="module")
def clusters(world):
    X, place, means, _ = world
    return CUDIA(2, method="map", n_restarts=1, n_draws=30).fit(X, place, means)


@pytest.fixture(scope="module")
def scores(world):
    X, place, means, ill = world
    one = CrossLevelImputer(n_restarts=0).fit(X, place, {"place": means["place"], "ill": means["ill"]})
    return evaluate(X, place, ill, {"the link": one})


def test_the_page_of_a_link(link, scores, page):
    section = page.check(imputation.section("Link", link, scores=scores, level=0.9))
    assert [v.name for v in section.views] == ["means", "groups", "slopes", "gains", "calibration"]
    features = {words: value for value, words in section.choices[0].options}
    by = {words: value for value, words in section.choices[1].options}
    assert set(by) == {"age", SEX}
    for column in by:
        found = link.estimate(column, level=0.9).select(feature="smoke")
        rows = page.rows(section, section.views[0].data["rows"], feature=features["smoke"], by=by[column])
        assert [r["label"] for r in rows] == [str(v) for v in found[column].tolist()]
        for name in ("estimate", "conf_low", "conf_high", "naive", "people"):
            assert [r[name] for r in rows] == pytest.approx(found[name].tolist(), rel=1e-12)
    ends = page.rows(section, section.views[0].data["ends"], feature=features["ill"])
    naive = np.concatenate([link.estimate(c).select(feature="ill")["naive"] for c in by])
    assert [e["end"] for e in ends] == pytest.approx([naive.min(), naive.max()])
    groups = link.check_totals(0.9)
    table = section.tables["groups"]
    np.testing.assert_allclose(table["estimate"].to_numpy(), groups["estimate"])
    held = (groups["conf_low"] <= groups["published"]) & (groups["published"] <= groups["conf_high"])
    assert [h == "held" for h in table["held"].to_pylist()] == held.tolist()
    assert f"90 % intervals hold {100 * held.mean():.0f} %" in section.sentences[2]
    assert "says little about persons" in section.sentences[2]
    np.testing.assert_array_equal(section.tables["slopes"]["kept"].to_numpy(), link.slopes(0.9)["kept"])
    for view in section.views[:3]:
        assert "90 %" in view.caption
        assert SEX not in json.dumps(view.spec)
    assert page.draw(section, section.views[0]) != page.draw(section, section.views[0], by=by[SEX])


def test_a_loaded_link_has_the_same_page(link, tmp_path, page):
    cl.save(link, tmp_path / "m.crosslevel")
    again = page.check(imputation.section("Link", cl.load(tmp_path / "m.crosslevel")))
    made = imputation.section("Link", link)
    for name in ("means", "groups", "slopes"):
        assert again.tables[name].column_names == made.tables[name].column_names
        np.testing.assert_allclose(
            again.tables[name]["estimate"].to_numpy(), made.tables[name]["estimate"].to_numpy(), rtol=1e-8
        )


def test_the_honest_table(scores, page):
    section = page.check(imputation.section("Scores", scores))
    rows = {r["label"]: r for r in section.tables["scores"].to_pylist()}
    assert rows["naive group mean"]["gain"] == 0
    for i, method in enumerate(scores["method"].tolist()):
        row = rows[method]
        assert row["gain"] == pytest.approx(scores["estimate"][i] - scores["estimate"][0])
        assert row["gain_high"] - row["gain"] == pytest.approx(1.96 * scores["gain_error"][i])
        assert row["gain"] - row["gain_low"] == pytest.approx(1.96 * scores["gain_error"][i])
        assert row["source"] == ("uses the truth" if scores["uses_truth"][i] else "can be had without it")
    free = [m for m, u in zip(scores["method"].tolist(), scores["uses_truth"].tolist(), strict=True) if not u]
    best = max(free, key=lambda m: rows[m]["gain"])
    assert f"the best is {best}" in section.sentences[1]
    assert f"{100 * rows[best]['lift']:.0f} % of the way" in section.sentences[1]
    assert section.answer.equals(scores.table)


def test_clusters_are_profiles(clusters, world, page):
    section = page.check(imputation.section("Clusters", clusters))
    assert [v.name for v in section.views] == ["profiles", "clusters"]
    assert "keeps no people" in section.warnings[-1]
    found = clusters.clusters()
    first = found.select(feature="ill")
    rows = [r for r in section.tables["profiles"].to_pylist() if r["column"] == "ill"]
    assert [r["value"] for r in rows] == first["estimate"].tolist()
    assert {r["hidden"] for r in rows} == {"hidden mean"}
    share = first["share"]
    centre = share @ first["estimate"]
    sd = np.sqrt(share @ (first["estimate"] - centre) ** 2)
    assert [r["score"] for r in rows] == pytest.approx(((first["estimate"] - centre) / sd).tolist())
    shown = page.rows(section, section.views[1].data["rows"], feature="f1")
    assert [r["estimate"] for r in shown] == found.select(feature="smoke")["estimate"].tolist()
    X, place, _, _ = world
    both = page.check(imputation.section("Clusters", clusters, X=X, partition=place))
    assert [v.name for v in both.views] == ["means", "profiles", "clusters"]
    wanted = clusters.estimate("age", X, place, n_draws=100).select(feature="ill")
    rows = page.rows(both, both.views[0].data["rows"])
    assert [r["estimate"] for r in rows] == pytest.approx(wanted["estimate"].tolist())


def test_means_by_place_are_mapped_and_the_truth_is_shown(link, world, page):
    from crosslevel.reports.shapes import read_points

    X, _, _, ill = world
    shapes = read_points({i: (i, i * i) for i in range(22)})
    section = page.check(imputation.section("Places", link.estimate("place"), shapes=shapes))
    assert [v.name for v in section.views] == ["means", "map"]
    assert "by 0 " not in section.sentences[1]
    est = link.estimate("age").select(feature="ill")
    truth = [float(ill[np.asarray(X["age"]) == a].mean()) for a in est["age"].tolist()]
    section = page.check(imputation.section("Truth", est.with_columns(truth=truth)))
    missed = np.abs(est["estimate"] - truth).mean()
    assert f"miss the truth by {missed:.3g} on average" in section.sentences[1]
    assert "Crosses are the truth" in section.views[0].caption


def test_what_is_accepted(link, clusters, scores):
    for result in (
        link,
        clusters,
        scores,
        link.estimate("age"),
        link.slopes(),
        link.check_totals(),
        clusters.clusters(),
    ):
        assert imputation.accepts(result)
    assert not imputation.accepts(CrossLevelImputer())
    assert not imputation.accepts(CUDIA())


def test_narrow_intervals_miss_on_both_sides(link, page):
    groups = link.check_totals(0.2)
    section = page.check(imputation.section("Totals", groups))
    shown = section.tables["groups"]["held"].to_pylist()
    above, below = groups["published"] > groups["conf_high"], groups["published"] < groups["conf_low"]
    assert above.any()
    assert below.any()
    assert [h == "missed" for h in shown] == (above | below).tolist()
