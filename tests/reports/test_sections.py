"""Does a section say what was asked, found and how sure, and show the charts of its tables?"""

from __future__ import annotations

import numpy as np
import pytest
from tests import built
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.charts.cells import cells_of
from crosslevel.charts.chart import Places
from crosslevel.charts.intervals import MOST_LINES
from crosslevel.charts.map_charts import place_key
from crosslevel.errors import InputError
from crosslevel.reports.sections import section_of
from crosslevel.reports.sentences import citation_of, sentences_of
from crosslevel.reports.shapes import read_points, read_shapes
from crosslevel.reports.vega import spec_of
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
    shown = section_of("h", grid(3, 4))
    assert shown.parts[0].kind == "estimates"
    (view,) = shown.charts
    assert spec_of(view)["height"] == {"step": 22}
    assert [c.label for c in shown.choices.values()] == ["first", "sorted by"]
    assert next(iter(shown.choices.values())).options[0] == ("", "all")
    assert view.data["rows"].joined == {"label": ["k0", "k1"]}


def test_a_long_result_gets_a_list_for_the_key_with_most_values():
    shown = section_of("h", grid(80, 3))
    (view,) = shown.charts
    assert view.data["rows"].where == {"k0": "k0"}
    assert len(next(iter(shown.choices.values())).options) == 80
    assert view.data["rows"].joined == {"label": ["k1"]}


def test_very_many_rows_of_one_key_are_drawn_by_rank():
    n = MOST_LINES + 1
    shown = section_of("h", made({"g": [f"g{i}" for i in range(n)], "estimate": np.arange(n) / n}, ["g"]))
    assert spec_of(shown.charts[0])["transform"][-1]["window"][0]["as"] == "rank"
    assert shown.choices == {}


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
    asked, told, sure = section_of("h", found).sentences
    assert asked == "Asked: Who did it."
    assert told == "Found: 2 estimates, from 20.0 % (a) to 60.0 % (b)."
    assert (
        sure
        == "How sure: 90 % intervals (wald); the median width is 20.0 points. 1 of 2 contain the truth, which is known here."
    )


def test_places_on_the_map_are_mapped():
    shown = section_of("h", grid(3, 2), shapes=read_points({f"a{i}": (i, i) for i in range(3)}))
    maps = [v for v in shown.charts if any(isinstance(d, Places) for d in v.data.values())]
    assert [v.name for v in maps] == ["map-a", "map-b", "map-difference", "map-column"]
    assert shown.choices["a"].options[0] == ("second 0", "second 0")


def test_without_intervals_no_caption_and_no_title_speaks_of_any():
    shapes = read_points({f"a{i}": (i, i) for i in range(3)})
    for shown in (section_of("h", grid(3, 2)), section_of("h", grid(3, 2), shapes=shapes)):
        for view in shown.charts:
            assert "with its interval" not in view.title
            assert "the no interval" not in view.caption
            assert "are no interval" not in view.caption


@pytest.mark.parametrize(("low", "high"), [("lower", "upper"), ("bound_low", "bound_high")])
def test_bounds_say_how_sure_where_there_is_no_interval(low, high):
    shown = section_of("h", made({"g": ["a", "b"], "estimate": [0.5, 0.4], low: [0.1, 0.2], high: [0.9, 0.5]}, ["g"]))
    assert shown.sentences[2].endswith("bounds that hold whatever people did; their median width is 55.0 points.")
    assert shown.charts[0].title == "Every row with its bounds"


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
    shown = section_of("h", found)
    values = [value for value, _ in next(iter(shown.choices.values())).options]
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
    shown = section_of("h", found, shapes=read_points({"a0": (0, 0), "a1": (1, 1)}))
    assert shown.tables["cells"]["subgroup"].to_pylist() == ["a · b · c", "a · b · c (2)"] * 2


PLACES = ["p0", "p1", "p2", "p3"]


@pytest.fixture
def shapes(squares):
    return read_shapes(squares(PLACES))


def views(shown):
    return {v.name: v for v in shown.charts}


def test_two_maps_stand_side_by_side_with_their_difference(by_place, shapes):
    found = by_place(PLACES)
    shown = section_of("h", found, shapes=shapes)
    drawn = views(shown)
    assert list(drawn) == ["map-a", "map-b", "map-difference", "places", "map-column", "intervals"]
    first, second, apart = (drawn[n] for n in ("map-a", "map-b", "map-difference"))
    assert first.data["places"].sides == {"a": {"subgroup": "a"}}
    assert second.data["places"].sides == {"b": {"subgroup": "b"}}
    assert apart.data["places"].sides == {"a": {"subgroup": "a"}, "b": {"subgroup": "b"}}
    starts = {c.name: c.options[c.start][0] for c in shown.choices.values()}
    assert (starts["a"], starts["b"]) == ("men", "women")
    # both maps have the same colors, and the difference the same on both sides of nothing
    domains = [spec_of(v, shapes)["encoding"]["color"]["condition"]["scale"]["domain"] for v in (first, second, apart)]
    assert domains[0] == domains[1]
    assert domains[2][0] == -domains[2][1]
    assert domains[0][0] < domains[0][1]
    assert {t["title"] for t in spec_of(first, shapes)["usermeta"]["tips"]} >= {
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
    shown = section_of("h", found, shapes=shapes)
    scale = spec_of(views(shown)["map-difference"], shapes)["encoding"]["color"]["condition"]["scale"]
    assert scale["domain"] == [-0.39, 0.39]
    assert [o[0] for o in shown.choices["a"].options] == ["sex 1", "sex 2"]


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
    shown = section_of("h", found, shapes=shapes)
    assert views(shown)["map-a"].data["places"].sides == {"a": {"k2": "k2", "subgroup": "a"}}
    assert [c.label for c in shown.choices.values()][:1] == ["outcome"]


def test_without_a_map_every_subgroup_has_its_line(by_place):
    shown = section_of("h", by_place(PLACES))
    assert list(views(shown)) == ["intervals"]
    drawn = {layer["encoding"]["x"]["field"] for layer in spec_of(shown.charts[0])["layer"] if "x" in layer["encoding"]}
    assert drawn == {"bound_low", "conf_low", "estimate", "neighborhood", "goodman"}


def test_methods_are_compared_cell_by_cell():
    people, votes = {"a": [30, 90, 50], "b": [70, 10, 50]}, {"y": [80, 20, 60], "n": [20, 80, 40]}
    found = ecological.compare(counted(people, votes), ["goodman", "rxc_em"])
    shown = section_of("h", found)
    (view,) = shown.charts
    assert view.name == "methods"
    assert set(view.data["rows"].joined) == {"cell", "method"}
    drawn = [layer["encoding"]["x"]["field"] for layer in spec_of(view)["layer"] if "x" in layer["encoding"]]
    # Goodman leaves 0 to 1: its interval is cut there, and arrows stand at the ends
    assert drawn == ["bound_low", "shown_low", "shown", "below", "above"]
    assert "possible at all (bounds)" in view.caption
    assert "Goodman (1953)" in citation_of(found)


def test_places_predicted_from_others_are_drawn_against_what_was_seen():
    found = Estimates.build(
        {"region": PLACES, "estimate": [0.4, 0.5, 0.6, 0.7], "conf_low": [0.3] * 4, "conf_high": [0.8] * 4,
         "truth": [0.5] * 4, "log_density": [1.0] * 4},
        keys=["region"], method="distribution regression", level=0.95, interval="wald",
        kind="held_out", provenance=Provenance.of(call="c"), diagnostics={"coverage": 0.75},
    )  # fmt: skip
    shown = section_of("h", found)
    assert [v.name for v in shown.charts] == ["validation"]
    assert "75 % of the intervals contain" in shown.charts[0].caption
    assert "Flaxman" in citation_of(found)


@pytest.mark.parametrize("name", built.KINDS)
def test_every_kind_has_three_sentences(name):
    estimates = built.KINDS[name]()
    said = sentences_of(estimates)
    assert len(said) == 3
    for sentence in said:
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith((".", "?"))
        assert "nan" not in sentence.split()
    if estimates.kind not in ("estimates", "margins", "cells", "comparison", "contextual_variance"):
        assert citation_of(estimates)


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        (
            "effects",
            1,
            "The fit explains 50 % of the variance. The clearest effect is age: 0.4 [0.2, 0.6]; 2 of 3 have p < .05.",
        ),
        (
            "coverage",
            2,
            "95 % intervals held 90 % of labels (95 % Wilson interval 85 to 95 %); least often for 5: 80 %.",
        ),
        ("classes", 1, "The likeliest class is wide for 15, narrow for 15 of 30 bags; it was right for 90 %."),
        ("imputed", 1, "They miss the truth by 0.0167 on average, the group means by 0.0567."),
        ("published", 1, "Of 40 published means, each held out and predicted from the others, predictions are off by"),
        ("bag_sizes", 1, "There are 8 to 45 effective people in a bag, 80 people in all."),
        ("bins", 1, "On average they differ by 2 from the naive answer (area_weighted)."),
        ("validation", 2, "12 of 12 contain the truth, which is known here."),
    ],
)
def test_sentences_say_the_numbers_of_the_table(name, row, words):
    assert words in sentences_of(built.KINDS[name]())[row]


def test_effects_have_stars_and_the_usual_columns_first():
    answer = section_of("h", built.effects()).answer
    assert answer.column_names[:7] == ["term", "estimate", "std_error", "conf_low", "conf_high", "p_value", "stars"]
    assert answer["stars"].to_pylist() == ["***", "*", ""]


class Fitted:
    """A model as a report sees it: it gives its tables, and would fail if it were fitted."""

    def _report_tables(self, level=0.95):
        return {"effects": built.effects(), "rows": built.at_rows()}

    def fit(self, *args):
        raise AssertionError("a report fits nothing")


def test_of_a_model_the_tables_it_reports_are_shown():
    shown = section_of("h", Fitted())
    assert [v.name for v in shown.charts] == ["averages", "contrasts", "effects", "distribution"]
    with pytest.raises(InputError):
        section_of("h", Fitted)


def test_reports_and_charts_call_no_fit():
    import ast
    import inspect
    from pathlib import Path

    from crosslevel import charts, reports

    for package in (charts, reports):
        for path in sorted(Path(inspect.getfile(package)).parent.glob("*.py")):
            calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            names = {f.attr for f in calls if isinstance(f, ast.Attribute)}
            assert not names & {"fit", "fit_transform", "cross_validate", "effects", "estimate", "estimates"}, path.name


def test_the_answer_holds_no_midpoints_of_bounds():
    found = ecological.bounds(counted({"a": [30, 90], "b": [70, 10]}, {"y": [80, 20], "n": [20, 80]}))
    answer = section_of("h", found).answer
    assert answer.column_names == found.table.column_names
    for name in {"estimate", "count"} & set(answer.column_names):
        assert answer[name].null_count == len(found)
    assert answer["lower"].to_pylist() == found["lower"].tolist()
