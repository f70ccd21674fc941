from __future__ import annotations

import json

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals, Polygons
from crosslevel.binned.areas import shared_estimates
from crosslevel.reports.pages import binned

EDGES = [0, 10, 20, 40, 60]
COUNTS = [21, 34, 60, 12]


@pytest.fixture(scope="module")
def counts():
    return BinnedCountGP().fit(Intervals.from_edges(EDGES), COUNTS)


@pytest.fixture(scope="module")
def gaussian():
    return BinnedGP(lengthscale=15.0, noise=1.0).fit(Intervals.from_edges(EDGES), COUNTS, quantity="total")


def squares(n, w, names=None):
    rings = [[[i * w, 0], [i * w + w, 0], [i * w + w, 1], [i * w, 1], [i * w, 0]] for i in range(n)]
    if names is None:
        return Polygons([r[:-1] for r in rings])
    features = [
        {"type": "Feature", "properties": {"place": p}, "geometry": {"type": "Polygon", "coordinates": [r]}}
        for p, r in zip(names, rings, strict=True)
    ]
    return Polygons({"type": "FeatureCollection", "features": features}, key="place", crs="plane")


@pytest.mark.parametrize("kind", ["counts", "gaussian"])
def test_bins_and_the_curve_behind_them(kind, request, page):
    model = request.getfixturevalue(kind)
    new = Intervals([5, 20], [15, 30])
    section = page.check(binned.section("Ages", model, new=new, level=0.9))
    assert [v.name for v in section.views] == ["density", "bins"]
    observed = section.tables["observed"].to_pylist()
    assert [r["height"] for r in observed] == [2.1, 3.4, 3.0, 0.6]
    assert [(r["from"], r["to"]) for r in observed] == [(0, 10), (10, 20), (20, 40), (40, 60)]
    curve = section.tables["curve"]
    est = model.estimate(curve["x"].to_numpy(), level=0.9)
    for name in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_array_equal(curve[name].to_numpy(), est[name])
    assert (curve["x"][0].as_py(), curve["x"][-1].as_py()) == (0.0, 60.0)
    wanted = model.estimate(new, level=0.9)
    np.testing.assert_array_equal(section.tables["bins"]["estimate"].to_numpy(), wanted["estimate"])
    np.testing.assert_array_equal(section.tables["bins"]["beside"].to_numpy(), wanted["area_weighted"])
    assert section.tables["bins"]["label"].to_pylist() == ["5 to 15", "20 to 30"]
    for view in section.views:
        assert "90 %" in view.caption
    top = int(np.argmax(wanted["estimate"]))
    assert f"{wanted['estimate'][top]:.3g} [{wanted['conf_low'][top]:.3g}" in section.sentences[1]
    assert "learned from 4 regions" in section.sentences[0]


def test_pooled_areas_are_a_choice(page):
    low, high = EDGES[:-1] * 2, EDGES[1:] * 2
    model = BinnedCountGP().fit(
        Intervals(low, high), COUNTS + COUNTS[::-1], pool={"sex [m.f]": ["women"] * 4 + ["men"] * 4}
    )
    section = page.check(binned.section("Ages", model, new=Intervals([5], [15])))
    (choice,) = section.choices
    code = {words: value for value, words in choice.options}
    assert set(code) == {"women", "men"}
    view = section.views[0]
    for area, totals in (("women", COUNTS), ("men", COUNTS[::-1])):
        rows = page.rows(section, view.data["observed"], area=code[area])
        assert [r["observed"] for r in rows] == totals
        est = model.estimate(np.array([30.0]), pool=area)
        shown = page.rows(section, view.data["curve"], area=code[area])
        assert shown[100]["estimate"] == pytest.approx(est["estimate"][0])
        bins = page.rows(section, section.views[1].data["rows"], area=code[area])
        assert [r["estimate"] for r in bins] == model.estimate(Intervals([5], [15]), pool=area)["estimate"].tolist()
    assert page.draw(section, view, area="a0") != page.draw(section, view, area="a1")
    assert "sex" not in json.dumps(view.spec)


def test_totals_that_were_observed_are_exact(counts, page):
    section = page.check(binned.section("Ages", counts))
    assert "kept exactly" in section.sentences[2]


def test_shares_and_open_ends(page):
    bins = Intervals.from_edges(EDGES)
    model = BinnedCountGP("binomial").fit(bins, [2, 9, 40, 11], trials=COUNTS)
    section = page.check(binned.section("Shares", model))
    assert "observed" not in section.tables
    assert section.views[0].name == "density"
    wide = Intervals([0, 10, 20, 40], [10, 20, 40, np.inf], open_ended=True)
    model = BinnedCountGP().fit(wide, COUNTS, tail=10)
    section = page.check(binned.section("Ages", model, new=Intervals([40], [np.inf], open_ended=True)))
    assert section.tables["bins"]["label"].to_pylist() == ["40 and over"]
    assert len(section.tables["observed"]) == 3


def test_areas_are_mapped_by_mean_and_deviation(page):
    names = ["north", "south", "west"]
    model = BinnedGP(lengthscale=1.0, noise=0.1, solver="dense").fit(squares(3, 1, names), [3, 5, 9], quantity="total")
    section = page.check(binned.section("Areas", model, shapes=page.shapes))
    assert [v.name for v in section.views] == ["maps", "ranked"]
    found = model.estimate()
    shown = page.rows(section, section.views[0].data["places"])
    assert [f["properties"]["a"]["estimate"] for f in shown] == found["estimate"].tolist()
    assert [f["properties"]["a"]["std_error"] for f in shown] == found["std_error"].tolist()
    fields = [c["encoding"]["color"]["condition"]["field"] for c in section.views[0].spec["hconcat"]]
    assert fields == ["properties.a.estimate", "properties.a.std_error"]
    ranked = section.tables["ranked"]["estimate"].to_numpy()
    assert (np.diff(ranked) <= 0).all()
    assert [v.name for v in binned.section("Areas", model).views] == ["ranked"]


def test_counts_shared_out(page):
    found = shared_estimates(squares(2, 2), [40, 10], squares(4, 1), [100, 100, 50, 50], nodes=3, n_draws=100)
    section = page.check(binned.section("Small", found))
    np.testing.assert_array_equal(section.tables["areas"]["beside"].to_numpy(), found["nested_rate"])
    assert "nested_rate" in section.sentences[1]


def test_points_and_what_is_accepted(gaussian, page):
    est = gaussian.estimate(np.linspace(0, 60, 7)[::-1])
    section = page.check(binned.section("Points", est))
    assert section.tables["points"]["x"].to_pylist() == [0, 10, 20, 30, 40, 50, 60]
    np.testing.assert_array_equal(section.tables["points"]["estimate"].to_numpy(), est["estimate"][::-1])
    assert binned.accepts(gaussian)
    assert binned.accepts(est)
    assert not binned.accepts(BinnedGP())


def test_a_loaded_model_has_the_same_page(counts, tmp_path):
    cl.save(counts, tmp_path / "m.crosslevel")
    again = binned.section("Ages", cl.load(tmp_path / "m.crosslevel"))
    made = binned.section("Ages", counts)
    assert again.tables["observed"].equals(made.tables["observed"])
    np.testing.assert_allclose(
        again.tables["curve"]["estimate"].to_numpy(), made.tables["curve"]["estimate"].to_numpy()
    )


def test_narrow_bins_have_names_of_their_own(gaussian):
    section = binned.section("Ages", gaussian, new=Intervals([10.01, 10.02], [10.02, 10.03]))
    assert section.tables["bins"]["label"].to_pylist() == ["10.01 to 10.02", "10.02 to 10.03"]


def test_predictions_that_a_chart_leaves_out_are_counted(gaussian):
    points = gaussian.estimate(np.linspace(0, 60, 3100))
    section = binned.section("Ages", points)
    assert section.tables["points"].num_rows == 3000
    assert section.warnings[-1] == "the chart shows a random 3,000 of 3,100 predictions (seed 0); the table has all."
    assert not any("random" in w for w in binned.section("Ages", gaussian).warnings)
