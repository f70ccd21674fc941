from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.diagnostics import calibration_table, cross_validate_bags
from crosslevel.distribution import BayesianLinear, BayesianLinearClassifier
from crosslevel.errors import InputError
from crosslevel.reports.pages import distribution
from crosslevel.results import Estimates, Provenance


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(2)
    y = rng.uniform(1, 3, 50)
    return [rng.normal(0, s, size=(n, 1)) for s, n in zip(y, rng.choice([5, 60], 50), strict=True)], y


@pytest.fixture(scope="module")
def checked(world):
    return cross_validate_bags(BayesianLinear(n_landmarks=6), *world, folds=3, level=0.9)


@pytest.fixture(scope="module")
def model(world):
    return BayesianLinear(n_landmarks=6).fit(*world)


def test_cross_validation_shows_both(checked, page):
    section = page.check(distribution.section("CV", checked))
    assert [v.name for v in section.views] == ["predicted", "calibration"]
    found = checked.predictions
    bags = section.tables["bags"]
    for name in ("estimate", "conf_low", "conf_high", "truth", "size"):
        np.testing.assert_array_equal(bags[name].to_numpy(), found[name])
    assert bags["stratum"].to_pylist() == found["stratum"].tolist()
    strata = section.tables["strata"]
    for name in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_array_equal(strata[name].to_numpy(), checked.scores[name])
    np.testing.assert_array_equal(strata["baseline"].to_numpy(), checked.scores["baseline_coverage"])
    assert section.answer.equals(checked.scores.table)
    assert f"off by {checked.scores['rmse'][0]:.3g}" in section.sentences[1]
    held = ((found["conf_low"] <= found["truth"]) & (found["truth"] <= found["conf_high"])).mean()
    assert f"90 % intervals held {100 * held:.0f} % of labels" in section.sentences[2]
    assert "90 % interval" in section.views[0].caption
    assert "95 % Wilson" in section.views[1].caption
    assert "90 %." in section.views[1].caption


def test_the_colour_can_be_chosen(checked, page):
    section = distribution.section("CV", checked)
    view = section.views[0]
    first = page.rows(section, view.data["rows"])
    assert [r["shade"] for r in first] == checked.predictions["std_error"].tolist()
    assert [r["shade"] for r in page.rows(section, view.data["rows"], color="size")] == checked.predictions[
        "size"
    ].tolist()
    assert page.draw(section, view) != page.draw(section, view, color="size")


def test_a_model_with_bags_is_scored_by_size(model, world, page):
    bags, y = world
    section = page.check(distribution.section("Model", model, bags=bags, y=y, level=0.8))
    found = model.estimate(bags, 0.8, y=y)
    held = (found["conf_low"] <= y) & (y <= found["conf_high"])
    small = np.array([len(b) == 5 for b in bags])
    rows = {r["label"]: r for r in section.tables["strata"].to_pylist()}
    for label, keep in (("all (50 bags)", np.ones(50, bool)), (f"5 ({small.sum()} bags)", small)):
        wilson = stats.binomtest(int(held[keep].sum()), int(keep.sum())).proportion_ci(0.95, method="wilson")
        assert rows[label]["estimate"] == pytest.approx(held[keep].mean())
        assert rows[label]["conf_low"] == pytest.approx(wilson.low)
        assert rows[label]["conf_high"] == pytest.approx(wilson.high)


def test_bags_without_labels_are_ranked(model, world, page):
    section = page.check(distribution.section("New", model, bags=world[0]))
    assert [v.name for v in section.views] == ["ranked"]
    shown = section.tables["bags"]["estimate"].to_numpy()
    assert (np.diff(shown) <= 0).all()
    assert shown[0] == model.predict(world[0]).max()
    assert "not known" in section.warnings[-1]


def test_a_model_alone_says_that_it_keeps_no_bags(model, page):
    section = page.check(distribution.section("Alone", model))
    assert "keeps no bags" in section.sentences[1]
    assert section.views == ()
    with pytest.raises(InputError, match="y is given without bags"):
        distribution.section("Alone", model, y=[1.0])


def test_classes_and_whether_probabilities_keep_their_word(world, page):
    bags, y = world
    kind = np.where(y > 2, "wide", "narrow")
    model = BayesianLinearClassifier(n_landmarks=6).fit(bags, kind)
    section = page.check(distribution.section("Classes", model, bags=bags, y=kind))
    p = model.predict_proba(bags)[:, 1]
    right = (p > 0.5) == (kind == "wide")
    assert f"it was right for {100 * right.mean():.0f} %" in section.sentences[1]
    rows = page.rows(section, section.views[0].data["rows"], **{"class": "k1"})
    for row in rows:
        tenth = np.minimum((p * 10).astype(int), 9)
        own = tenth == int(row["predicted"] * 10)
        assert row["n"] == own.sum()
        assert row["share"] == pytest.approx((kind[own] == "wide").mean())
        assert row["predicted"] == pytest.approx(p[own].mean())
    assert sum(r["n"] for r in rows) == 50
    new = page.check(distribution.section("Classes", model, bags=bags))
    assert [v.name for v in new.views] == ["ranked"]
    both = page.check(
        distribution.section("CV", cross_validate_bags(BayesianLinearClassifier(n_landmarks=6), bags, kind))
    )
    assert [v.name for v in both.views] == ["reliability", "calibration"]
    assert "a guess that knows no members" in both.sentences[1]


def test_tables_that_are_accepted(checked, model):
    assert distribution.accepts(checked)
    assert distribution.accepts(checked.scores)
    assert distribution.accepts(checked.predictions)
    assert distribution.accepts(model)
    assert not distribution.accepts(BayesianLinear())
    table = calibration_table(np.zeros(20), np.zeros(20), np.ones(20))
    assert distribution.accepts(table)
    other = Estimates.build(
        {"bag": ["a"], "estimate": [1.0]},
        keys=["bag"],
        method="m",
        level=None,
        interval="none",
        provenance=Provenance.of(call="m()"),
    )
    assert not distribution.accepts(other)


def test_many_bags_are_sampled(page):
    n = 3500
    found = Estimates.build(
        {
            "bag": np.arange(n),
            "estimate": np.linspace(0, 1, n),
            "std_error": np.full(n, 0.1),
            "conf_low": np.linspace(0, 1, n) - 0.2,
            "conf_high": np.linspace(0, 1, n) + 0.2,
            "size": np.full(n, 5.0),
            "truth": np.linspace(0, 1, n),
        },
        keys=["bag"],
        method="m",
        level=0.95,
        interval="predictive",
        provenance=Provenance.of(call="m()"),
    )
    section = distribution.section("Many", found)
    assert section.tables["bags"].num_rows == 3000
    assert "a random 3,000 of 3,500 bags (seed 0)" in section.views[0].caption
    assert section.tables["strata"]["n"].to_pylist() == [3500, 3500]


def test_intervals_are_scored_as_they_are_not_as_normal_ones():
    found = Estimates.build(
        {
            "bag": ["a", "b"],
            "estimate": [0.0, 0.0],
            "std_error": [1.0, 1.0],
            "conf_low": [-0.1, -0.1],
            "conf_high": [3.0, 3.0],
            "size": [5.0, 5.0],
            "truth": [-1.0, -1.2],
        },
        keys=["bag"],
        method="m",
        level=0.9,
        interval="predictive",
        provenance=Provenance.of(call="m()"),
    )
    assert distribution.section("Skewed", found).tables["strata"]["estimate"].to_pylist() == [0.0, 0.0]


def labelled(n, truth):
    rng = np.random.default_rng(3)
    estimate = rng.permutation(n).astype(float)
    columns = {"bag": np.arange(n), "estimate": estimate, "std_error": np.ones(n), "size": np.full(n, 9)}
    columns |= {"conf_low": estimate - 2, "conf_high": estimate + 2} | ({} if truth is None else {"truth": truth})
    return Estimates.build(
        columns, keys=["bag"], method="m", level=0.9, interval="posterior", provenance=Provenance.of(call="c")
    )


def test_the_largest_are_the_largest_of_all_bags():
    n = 4000
    section = distribution.section("Labels", labelled(n, None))
    assert section.tables["bags"]["estimate"].to_pylist() == list(range(n - 1, n - 61, -1))
    assert "the 60 largest of 4,000 predictions" in section.views[0].caption


def test_bags_without_a_label_are_not_called_a_sample():
    truth = np.array([1.0, np.nan, 2.0, np.nan, 3.0])
    section = distribution.section("Labels", labelled(5, truth))
    assert section.tables["bags"].num_rows == 3
    assert "3 bags" in section.views[0].caption
    assert "random" not in section.views[0].caption
    many = distribution.section("Labels", labelled(5000, np.where(np.arange(5000) % 5, 1.0, np.nan)))
    assert "a random 3,000 of 4,000 bags (seed 0)" in many.views[0].caption
