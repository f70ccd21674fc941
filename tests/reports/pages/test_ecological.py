from __future__ import annotations

import numpy as np
import pytest

from crosslevel import ecological
from crosslevel.reports.pages import section_for
from crosslevel.reports.pages.ecological import accepts
from crosslevel.reports.shapes import read_points, read_shapes
from crosslevel.results import Estimates, Provenance

PLACES = ["p0", "p1", "p2", "p3"]


@pytest.fixture
def shapes(squares):
    return read_shapes(squares(PLACES))


def views(shown):
    return {v.name: v for v in shown.views}


def test_two_maps_stand_side_by_side_with_their_difference(by_place, shapes):
    found = by_place(PLACES)
    shown = section_for("h", found, shapes=shapes)
    drawn = views(shown)
    assert list(drawn) == ["map-a", "map-b", "map-difference", "places", "map-column", "intervals"]
    first, second, apart = (drawn[n] for n in ("map-a", "map-b", "map-difference"))
    assert first.data["places"].sides == {"a": {"subgroup": "a"}}
    assert second.data["places"].sides == {"b": {"subgroup": "b"}}
    assert apart.data["places"].sides == {"a": {"subgroup": "a"}, "b": {"subgroup": "b"}}
    starts = {c.name: c.options[c.start][0] for c in shown.choices}
    assert (starts["a"], starts["b"]) == ("men", "women")
    # both maps have the same colours, and the difference the same on both sides of nothing
    domains = [v.spec["encoding"]["color"]["condition"]["scale"]["domain"] for v in (first, second, apart)]
    assert domains[0] == domains[1]
    assert domains[2][0] == -domains[2][1]
    assert domains[0][0] < domains[0][1]
    assert {t["title"] for t in first.spec["usermeta"]["tips"]} >= {
        "estimate",
        "interval, low",
        "bound, high",
        "Goodman regression",
    }


def test_the_difference_reaches_as_far_as_the_subgroups_are_apart(shapes):
    found = Estimates.build(
        {
            "region": np.repeat(PLACES, 2),
            "sex": [1, 2] * 4,
            "estimate": [0.1, 0.4, 0.2, 0.3, 0.5, 0.9, 0.0, 0.1],
            "goodman": [0.1] * 8,
        },
        keys=["region", "sex"],
        method="m",
        level=None,
        interval="none",
        provenance=Provenance.of(call="c"),
    )
    shown = section_for("h", found, shapes=shapes)
    scale = views(shown)["map-difference"].spec["encoding"]["color"]["condition"]["scale"]
    assert scale["domain"] == [-0.39, 0.39]
    assert [o[0] for o in next(c for c in shown.choices if c.name == "a").options] == ["sex 1", "sex 2"]


def test_estimates_beyond_the_colours_are_counted(by_place, shapes):
    found = by_place(PLACES)
    assert "beyond the ends" not in views(section_for("h", found, shapes=shapes))["map-a"].caption
    many = Estimates.build(
        {"region": np.repeat(PLACES, 50), "age": list(range(50)) * 4, "estimate": [9.0, *np.linspace(0.2, 0.6, 199)]},
        keys=["region", "age"],
        method="m",
        level=None,
        interval="none",
        provenance=Provenance.of(call="c"),
    )
    assert (
        "1 estimate beyond the ends of the scale has" in views(section_for("h", many, shapes=shapes))["map-a"].caption
    )


def test_places_missing_on_the_map_are_counted(by_place, shapes):
    shown = section_for("h", by_place([*PLACES, "elsewhere"]), shapes=shapes)
    assert "1 place of the results is not on the map" in views(shown)["map-a"].caption
    assert "not on the map" not in views(section_for("h", by_place(PLACES), shapes=shapes))["map-a"].caption


def test_one_subgroup_is_one_wide_map(by_place, shapes):
    shown = section_for("h", by_place(PLACES, subgroups=["all"]), shapes=shapes)
    assert views(shown)["map-a"].size == "full"
    assert "map-b" not in views(shown)


def test_outcomes_have_a_list_of_their_own(shapes):
    n = len(PLACES)
    found = Estimates.build(
        {
            "place": np.repeat(PLACES, 4),
            "group": np.tile(["g", "g", "h", "h"], n),
            "outcome": np.tile(["yes", "no"], 2 * n),
            "estimate": np.linspace(0, 1, 4 * n),
        },
        keys=["place", "group", "outcome"],
        method="m",
        level=None,
        interval="none",
        provenance=Provenance.of(call="c"),
    )
    shown = section_for("h", found, shapes=shapes)
    assert views(shown)["map-a"].data["places"].sides == {"a": {"k2": "k2", "subgroup": "a"}}
    assert [c.label for c in shown.choices][:1] == ["outcome"]


def test_without_a_map_every_subgroup_has_its_line(by_place):
    shown = section_for("h", by_place(PLACES))
    assert list(views(shown)) == ["intervals"]
    drawn = {layer["encoding"]["x"]["field"] for layer in shown.views[0].spec["layer"] if "encoding" in layer}
    assert drawn == {"bound_low", "conf_low", "estimate", "neighborhood", "goodman"}


def test_methods_are_compared_cell_by_cell():
    found = ecological.compare(
        {"a": [30, 90, 50], "b": [70, 10, 50]}, {"y": [80, 20, 60], "n": [20, 80, 40]}, ["goodman", "lp"]
    )
    shown = section_for("h", found)
    (view,) = shown.views
    assert view.name == "methods"
    assert set(view.data["rows"].joined) == {"cell", "method"}
    drawn = [layer["encoding"]["x"]["field"] for layer in view.spec["layer"]]
    assert drawn == ["bound_low", "conf_low", "estimate"]
    assert "possible at all (bounds)" in view.caption
    assert "Goodman (1953)" in shown.citation


def test_places_predicted_from_others_are_drawn_against_what_was_seen():
    found = Estimates.build(
        {"region": PLACES, "estimate": [0.4, 0.5, 0.6, 0.7], "conf_low": [0.3] * 4, "conf_high": [0.8] * 4,
         "truth": [0.5] * 4, "log_density": [1.0] * 4},
        keys=["region"], method="distribution regression", level=0.95, interval="wald",
        provenance=Provenance.of(call="c"), diagnostics={"coverage": 0.75},
    )  # fmt: skip
    shown = section_for("h", found)
    assert [v.name for v in shown.views] == ["validation"]
    assert "75 % of the intervals contain" in shown.views[0].caption
    assert "Flaxman" in shown.citation


def test_what_it_shows_and_what_not(by_place):
    assert accepts(by_place(PLACES))
    assert not accepts(3)
    assert not accepts(ecological)


def test_of_a_model_the_places_are_shown(monkeypatch, shapes):
    rates = Estimates.build(
        {"region": PLACES, "estimate": [0.4, 0.5, 0.6, 0.7]}, keys=["region"], method="m", level=None, interval="none",
        provenance=Provenance.of(call="c"), title="Rate of dem in each place",
    )  # fmt: skip
    model = ecological.EcologicalInference()
    assert not accepts(model)
    monkeypatch.setattr(ecological.EcologicalInference, "predict_places", lambda self: rates)
    model.model_ = "fitted"
    shown = section_for("h", model, shapes=shapes)
    assert shown.answer is rates.table
    assert list(views(shown)) == ["map-a", "places"]


def test_dots_are_drawn_larger(by_place):
    shown = section_for("h", by_place(PLACES), shapes=read_points({p: (i, i) for i, p in enumerate(PLACES)}))
    assert views(shown)["map-a"].spec["projection"]["pointRadius"] == 4
