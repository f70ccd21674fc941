from __future__ import annotations

import numpy as np
import pytest

from crosslevel.reports.pages import section_for, table
from crosslevel.reports.pages.places import place_key
from crosslevel.reports.pages.table import MOST_LINES, cells_of
from crosslevel.reports.pages.words import is_share, number, percent, plain, points
from crosslevel.reports.shapes import read_points, read_shapes
from crosslevel.reports.views import Features
from crosslevel.results import Estimates, Provenance


def made(columns, keys, **options):
    told = {"method": "m", "level": None, "interval": "none"} | options
    return Estimates.build(columns, keys=keys, provenance=Provenance.of(call="c"), **told)


def grid(a, b, **options):
    n = a * b
    return made(
        {
            "first": np.repeat([f"a{i}" for i in range(a)], b),
            "second": np.tile(np.arange(b), a),
            "estimate": np.linspace(0, 50, n),
            "a.b[0]": np.arange(n) * 1.0,
        },
        ["first", "second"],
        **options,
    )


def test_columns_get_names_of_ours_and_keep_the_users_as_labels():
    cells = cells_of(grid(2, 3))
    assert cells.keys == {"first": "k0", "second": "k1"}
    assert set(cells.table.column_names) == {"k0", "k1", "estimate", "x0", "position"}
    assert cells.labels["x0"] == "a.b[0]"
    assert cells.levels("second") == ["0", "1", "2"]
    assert cells.label(4) == "a1 · 1"


def test_bounds_are_found_under_either_name():
    cells = cells_of(made({"g": ["a"], "estimate": [0.5], "lower": [0.1], "upper": [0.9]}, ["g"]))
    assert cells.labels["bound_low"] == "lower"


def test_a_short_result_is_drawn_line_by_line_and_can_be_narrowed():
    shown = section_for("h", grid(3, 4))
    assert shown.kind == "table"
    (view,) = shown.views
    assert view.spec["height"] == {"step": 22}
    assert [c.label for c in shown.choices] == ["first", "sorted by"]
    assert shown.choices[0].options[0] == ("", "all")
    assert view.data["rows"].joined == {"label": ["k0", "k1"]}


def test_a_long_result_gets_a_list_for_the_key_with_most_values():
    shown = section_for("h", grid(80, 3))
    (view,) = shown.views
    assert view.data["rows"].where == {"k0": "k0"}
    assert len(shown.choices[0].options) == 80
    assert view.data["rows"].joined == {"label": ["k1"]}


def test_very_many_rows_of_one_key_are_drawn_by_rank():
    n = MOST_LINES + 1
    shown = section_for("h", made({"g": [f"g{i}" for i in range(n)], "estimate": np.arange(n) / n}, ["g"]))
    assert shown.views[0].spec["transform"][-1]["window"][0]["as"] == "rank"
    assert shown.choices == []


def test_three_sentences_tell_what_was_asked_found_and_how_sure():
    found = made(
        {
            "g": ["a", "b"],
            "estimate": [0.2, 0.6],
            "conf_low": [0.1, 0.5],
            "conf_high": [0.3, 0.7],
            "truth": [0.25, 0.9],
        },
        ["g"],
        level=0.9,
        interval="wald",
        title="Who did it",
    )
    asked, told, sure = table.section("h", found).sentences
    assert asked == "Asked: Who did it."
    assert told == "Found: 2 estimates, from 20.0 % (a) to 60.0 % (b)."
    assert (
        sure
        == "How sure: 90 % intervals (wald); the middle one is 20.0 points wide. 1 of 2 contain the truth, which is known here."
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"g": ["a"], "estimate": [12.5]}, "Found: 12.5 for a."),
        ({"g": ["a", "b"], "estimate": [None, None]}, "Found: 2 rows, none with an estimate."),
        ({"g": ["a", "b"], "estimate": [-1.0, 3.0]}, "Found: 2 estimates, from -1 (a) to 3 (b)."),
    ],
)
def test_odd_answers_are_told_too(columns, words):
    asked, told, sure = table.section("h", made(columns, ["g"])).sentences
    assert asked == "Asked: an estimate for each g."
    assert told == words
    assert "gives no interval" in sure


def test_a_result_without_keys_or_rows_is_shown():
    asked, told, _ = table.section("h", made({"estimate": [7.0]}, [])).sentences
    assert (asked, told) == ("Asked: an estimate for everything.", "Found: 7 for everything.")
    assert (
        table.section("h", made({"g": [], "estimate": []}, ["g"])).sentences[1]
        == "Found: 0 rows, none with an estimate."
    )


def test_places_on_the_map_are_mapped():
    shown = section_for("h", grid(3, 2), shapes=read_points({f"a{i}": (i, i) for i in range(3)}))
    maps = [v for v in shown.views if any(isinstance(d, Features) for d in v.data.values())]
    assert [v.name for v in maps] == ["map-a", "map-b", "map-difference", "map-column"]
    assert next(c for c in shown.choices if c.name == "a").options[0] == ("second 0", "second 0")


def test_numbers_in_words():
    assert number(float("nan")) == "–"
    assert plain(np.float64("nan")) == "–"
    assert plain([1, 2.5]) == "1, 2.5000"
    assert plain(np.bool_(True)) == "yes"
    assert not is_share(grid(2, 2))
    assert number(999.7) == "1,000"
    assert number(-999.7) == "-1,000"
    assert percent(-0.0004) == "0.0 %"
    assert points(-0.0001) == "0.0 points"


def test_without_intervals_no_caption_and_no_title_speaks_of_any():
    shapes = read_points({f"a{i}": (i, i) for i in range(3)})
    for shown in (section_for("h", grid(3, 2)), section_for("h", grid(3, 2), shapes=shapes)):
        for view in shown.views:
            assert "with its interval" not in view.title
            assert "the no interval" not in view.caption
            assert "are no interval" not in view.caption


@pytest.mark.parametrize(("low", "high"), [("lower", "upper"), ("bound_low", "bound_high")])
def test_bounds_say_how_sure_where_there_is_no_interval(low, high):
    shown = table.section(
        "h", made({"g": ["a", "b"], "estimate": [0.5, 0.4], low: [0.1, 0.2], high: [0.9, 0.5]}, ["g"])
    )
    assert shown.sentences[2].endswith("bounds that hold whatever people did; the middle one is 55.0 points wide.")
    assert shown.views[0].title == "Every row with its bounds"


def test_a_question_is_not_ended_twice():
    found = made({"g": ["a"], "estimate": [1.0]}, ["g"], title="Who did it?")
    assert table.section("h", found).sentences[0] == "Asked: Who did it?"


def test_rows_without_a_key_and_with_an_empty_one_can_be_chosen():
    n = MOST_LINES
    first = ["", None, *(f"a{i}" for i in range(n))]
    found = made(
        {
            "first": np.repeat(np.array(first, dtype=object), 2),
            "second": ["x", "y"] * (n + 2),
            "estimate": range(2 * n + 4),
        },
        ["first", "second"],
    )
    shown = section_for("h", found)
    values = [value for value, _ in shown.choices[0].options]
    assert values[0] == "(empty)"
    assert values[-1] == "–"
    assert "" not in values


def test_the_key_of_places_is_the_one_with_most_values_or_of_the_maps_own_name():
    columns = {"sex": np.tile([1, 2], 5), "region": np.repeat(np.arange(1, 6), 2), "estimate": np.arange(10) / 10}
    found = made(columns, ["sex", "region"])
    shapes = read_points({i: (i, i) for i in range(1, 6)})
    assert place_key(cells_of(found), shapes) == "region"
    named = read_shapes(
        {
            "type": "FeatureCollection",
            "features": [
                {"id": i, "properties": {"sex": i}, "geometry": {"type": "Point", "coordinates": [i, i]}}
                for i in range(1, 6)
            ],
        }
    )
    assert place_key(cells_of(found), named) == "sex"


def test_subgroups_whose_joined_words_are_the_same_stay_two():
    columns = {
        "place": ["a0", "a0", "a1", "a1"],
        "p": ["a · b", "a"] * 2,
        "q": ["c", "b · c"] * 2,
        "estimate": [1.0, 2.0, 3.0, 4.0],
    }
    found = made(columns, ["place", "p", "q"])
    shown = section_for("h", found, shapes=read_points({"a0": (0, 0), "a1": (1, 1)}))
    assert shown.tables["cells"]["subgroup"].to_pylist() == ["a · b · c", "a · b · c (2)"] * 2
