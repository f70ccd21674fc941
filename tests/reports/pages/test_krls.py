from __future__ import annotations

import json
import math

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.errors import InputError
from crosslevel.krls import KRLS, KernelLogistic
from crosslevel.reports.pages import krls
from crosslevel.reports.pages.krls_people import smooth

NASTY = "income [k.] <b>"
PLACES = ["north", "south", "west"]


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(5)
    n = 160
    X = {
        "age": rng.normal(50, 10, n),
        NASTY: rng.gamma(2, 10, n),
        "treated": rng.integers(0, 2, n),
        "arm": rng.choice(["control", "letter", "call"], n),
    }
    y = np.sin((X["age"] - 50) / 8) + 0.02 * X[NASTY] * X["treated"] + 0.5 * (X["arm"] == "letter")
    return X, y + 0.3 * rng.normal(size=n), rng.choice(PLACES, n)


@pytest.fixture(scope="module")
def model(world):
    X, y, _ = world
    return KRLS(penalty=0.2, reference={"arm": "control"}).fit(X, y)


@pytest.fixture(scope="module")
def made(model, world):
    from crosslevel.reports.shapes import read_points

    shapes = read_points({p: (i, i) for i, p in enumerate(PLACES)})
    return krls.section("Effects", model, shapes=shapes, groups={"where": world[2]}, level=0.9)


def test_a_model_makes_every_chart(made, page):
    page.check(made)
    names = [v.name for v in made.views]
    assert names == ["effects", "distribution", "averages", "contrasts", "groups0-intervals", "groups0-map"]
    assert made.kind == "krls"
    assert "Hainmueller" in made.citation
    for view in made.views:
        assert ("90 %" in view.caption) == (view.name != "distribution")
    assert "no interval" in made.views[1].caption


def test_rows_are_those_of_the_model(made, model, world):
    people = made.tables["people"]
    X, _, where = world
    np.testing.assert_array_equal(people["x0"].to_numpy(), X["age"])
    np.testing.assert_array_equal(people["x1"].to_numpy(), X[NASTY])
    # columns of the matrix: age, income, treated, arm: call, arm: letter
    np.testing.assert_array_equal(people["x4"].to_numpy() == 1, X["arm"] == "letter")
    for e in range(len(model.effect_names_)):
        np.testing.assert_array_equal(people[f"e{e}"].to_numpy(), model.pointwise_effects_[:, e])
    np.testing.assert_array_equal(people["fitted"].to_numpy(), model.fitted_)
    colors = {c.name: dict(c.options) for c in made.choices}["color"]
    assert list(colors.values()) == ["fitted outcome, in fifths", "factor: arm", "group: where"]
    assert people["c1"].to_pylist() == X["arm"].tolist()
    assert people["c2"].to_pylist() == where.tolist()
    fifth = np.array([int(v[0]) for v in people["c0"].to_pylist()])
    assert np.bincount(fifth)[1:].tolist() == [32] * 5
    assert model.fitted_[fifth == 1].max() < model.fitted_[fifth == 2].min()


def test_curves_average_the_band_of_the_posterior(made, model, world):
    X, _, _ = world
    band = model.pointwise_bands("age", X, level=0.9)
    x = np.asarray(X[NASTY])
    rows = [r for r in made.tables["curves"].to_pylist() if r["term"] == "e0" and r["along"] == "x1"]
    ends = np.quantile(x, [0.01, 0.99])
    assert [rows[0]["x"], rows[-1]["x"]] == pytest.approx(ends.tolist())
    h = 1.06 * x.std() * len(x) ** -0.2
    for row in rows[:: len(rows) // 4]:
        w = np.array([math.exp(-0.5 * ((v - row["x"]) / h) ** 2) for v in x])
        w = w / w.sum()
        assert row["effect"] == pytest.approx(float(w @ band["estimate"]), rel=1e-9)
        assert row["low"] == pytest.approx(float(w @ band["conf_low"]), rel=1e-9)
        assert row["high"] == pytest.approx(float(w @ band["conf_high"]), rel=1e-9)
    two = [r for r in made.tables["curves"].to_pylist() if r["term"] == "e0" and r["along"] == "x2"]
    treated = np.asarray(X["treated"])
    assert [r["x"] for r in two] == [0.0, 1.0]
    means = [float(band["estimate"][treated == v].mean()) for v in (0, 1)]
    assert [r["effect"] for r in two] == pytest.approx(means)


def test_curves_weigh_rows():
    effect = np.array([[1.0], [2.0], [9.0]])
    found = smooth(np.array([0.0, 0.0, 1.0]), [effect, effect - 1, effect + 2], np.array([1.0, 3.0, 2.0]))
    assert found.middle[:, 0].tolist() == [1.75, 9.0]
    assert found.high[:, 0].tolist() == [3.75, 11.0]


def test_averages_stars_and_distribution(made, model):
    found = model.effects(0.9)
    table = made.tables["averages"]
    for name in ("estimate", "conf_low", "conf_high", "plug_in", "p_value"):
        np.testing.assert_array_equal(table[name].to_numpy(), found[name])
    np.testing.assert_allclose(table["z"].to_numpy(), found["estimate"] / found["std_error"])
    order = np.argsort(table["place"].to_numpy())
    assert (np.diff(np.abs(table["z"].to_numpy()[order])) <= 0).all()
    marks = ["***" if p < 0.001 else "**" if p < 0.01 else "*" if p < 0.05 else "" for p in found["p_value"].tolist()]
    assert made.answer["stars"].to_pylist() == marks
    assert "***" in marks
    assert "" in marks
    spread = [r for r in made.tables["spread"].to_pylist() if r["term"] == "e1"]
    own = model.pointwise_effects_[:, 1]
    assert sum(r["share"] for r in spread) == pytest.approx(1)
    counts, _ = np.histogram(own, np.linspace(own.min(), own.max(), 41))
    assert [r["share"] for r in spread] == pytest.approx((counts / len(own)).tolist())
    top = int(np.argmax(np.abs(found["estimate"] / found["std_error"])))
    assert f"The clearest effect is {found['term'][top]}: {found['estimate'][top]:.3g}" in made.sentences[1]
    assert f"{int((found['p_value'] < 0.05).sum())} of 5 have p < .05" in made.sentences[1]
    assert f"explains {100 * model.r2_:.0f} %" in made.sentences[1]
    assert "90 % (debiased, HC3)" in made.sentences[2]


def test_groups_and_their_map(made, model, world, page):
    found = model.effects(0.9, by={"where": world[2]})
    table = made.tables["groups0"]
    np.testing.assert_allclose(table["estimate"].to_numpy(), found["estimate"], rtol=1e-12)
    assert table["group"].to_pylist() == found["where"].tolist()
    view = made.views[-1]
    shown = page.rows(made, view.data["places"], term="e1")
    own = found.select(term=NASTY)
    assert [f["properties"]["a"]["estimate"] for f in shown] == pytest.approx(own["estimate"].tolist())
    largest = np.abs(own["estimate"]).max()
    assert [f["properties"]["a"]["relative"] for f in shown] == pytest.approx((own["estimate"] / largest).tolist())
    assert page.draw(made, view, term="e0") != page.draw(made, view, term="e1")
    alone = krls.section("By place", found, shapes=page.shapes)
    assert [v.name for v in page.check(alone).views] == ["averages-map", "averages-intervals"]
    assert [v.name for v in krls.section("By place", found).views] == ["averages-intervals"]


def test_choices_change_the_chart(made, page):
    view = made.views[0]
    first = page.draw(made, view)
    for change in ({"term": "e1"}, {"along": "x1"}, {"term2": "e3"}, {"along2": "x0"}, {"color": "c1"}):
        assert page.draw(made, view, **change) != first
    assert page.filled(made, view, along="x2")["datasets"]["x_name"][0]["words"] == "treated"


def test_a_users_words_stand_in_no_specification(made):
    for view in made.views:
        assert "income" not in json.dumps(view.spec)
        assert "letter" not in json.dumps(view.spec)


def test_tables_of_effects(model, page):
    assert [v.name for v in page.check(krls.section("E", model.effects())).views] == ["averages", "contrasts"]
    assert [v.name for v in page.check(krls.section("I", model.interactions())).views] == ["averages-intervals"]
    band = model.pointwise_bands(["age", "treated"])
    section = page.check(krls.section("B", band))
    assert [v.name for v in section.views] == ["bands"]
    assert f"Each dot is a row, {len(band) // 2:,} rows," in section.views[0].caption
    shown = page.rows(section, section.views[0].data["rows"], term="e1")
    assert [r["estimate"] for r in shown] == pytest.approx(band.select(term="treated")["estimate"].tolist())
    assert krls.accepts(model)
    assert krls.accepts(band)
    assert not krls.accepts(KRLS())
    assert not krls.accepts(model.heterogeneity())


def test_a_loaded_model_has_the_same_page(model, made, world, tmp_path):
    cl.save(model, tmp_path / "m.crosslevel")
    again = krls.section("Effects", cl.load(tmp_path / "m.crosslevel"), groups={"where": world[2]}, level=0.9)
    for name in ("people", "averages", "spread"):
        assert again.tables[name].equals(made.tables[name]), name
    for column in ("effect", "low", "high"):
        np.testing.assert_allclose(
            again.tables["curves"][column].to_numpy(), made.tables["curves"][column].to_numpy(), rtol=1e-5, atol=1e-8
        )


def test_log_odds_have_no_band_and_say_so(world, page):
    X, y, _ = world
    model = KernelLogistic(penalty=0.5).fit({"age": X["age"], "treated": X["treated"]}, (y > 0).astype(float))
    section = page.check(krls.section("Odds", model))
    assert "says nothing about confidence" in section.views[0].caption
    rows = [r for r in section.tables["curves"].to_pylist() if r["term"] == "e0" and r["along"] == "x1"]
    own = model.pointwise_effects_[:, 0]
    at = [np.quantile(own[np.asarray(X["treated"]) == v], [0.025, 0.975]) for v in (0, 1)]
    assert [r["low"] for r in rows] == pytest.approx([a[0] for a in at])
    assert [r["high"] for r in rows] == pytest.approx([a[1] for a in at])


def test_many_rows_are_sampled_with_a_seed(page):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(4000, 2)).astype(float)
    model = KRLS(penalty=1.0).fit(X, X[:, 0] + rng.normal(size=4000))
    section = krls.section("Many", model)
    assert section.tables["people"].num_rows == 1500
    assert "a random 1,500 of 4,000 rows (seed 0)" in section.views[0].caption
    assert section.tables["people"].equals(krls.section("Many", model).tables["people"])
    assert "all 4,000 rows" in section.views[1].caption


def test_groups_that_do_not_fit(model, world):
    with pytest.raises(InputError, match="groups has 3 rows and the model 160"):
        krls.section("E", model, groups=["a", "b", "c"])
    names = [f"g{i}" for i in range(160)]
    section = krls.section("E", model, groups={"one": ["x"] * 160, "name": names})
    assert "'one' has 1 levels" in section.warnings[-1]
    assert len(set(section.tables["people"]["c3"].to_pylist())) == 12


def test_groups_that_are_not_known_are_one_more(model, world):
    where = [None if i % 4 == 0 else v for i, v in enumerate(world[2].tolist())]
    section = krls.section("E", model, groups={"where": where})
    assert set(section.tables["groups0"]["group"].to_pylist()) == {*PLACES, "missing"}
    assert section.tables["people"]["c2"].to_pylist()[0] is None


def test_a_smooth_curve_weighs_rows_too():
    rng = np.random.default_rng(1)
    x, effect, weight = rng.normal(size=60), rng.normal(size=(60, 1)), rng.random(60)
    found = smooth(x, [effect, effect, effect], weight, grid=9)
    centre = weight @ x / weight.sum()
    h = 1.06 * math.sqrt(weight @ (x - centre) ** 2 / weight.sum()) * 60**-0.2
    for at, middle in zip(found.at, found.middle[:, 0], strict=True):
        w = weight * np.exp(-0.5 * ((x - at) / h) ** 2)
        assert middle == pytest.approx(float(w @ effect[:, 0] / w.sum()))


def test_stars():
    assert [krls.stars(p) for p in (0.05, 0.0499, 0.01, 0.0099, 0.001, 0.00099, None)] == [
        "",
        "*",
        "*",
        "**",
        "**",
        "***",
        "",
    ]
