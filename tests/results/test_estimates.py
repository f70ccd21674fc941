from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslevel.errors import FileError, InputError
from crosslevel.results import Estimates, Provenance

FOUR = ["estimate", "std_error", "conf_low", "conf_high"]


def test_columns_come_in_one_order_and_missing_ones_are_null(build):
    est = build({"truth": [1, 2], "conf_high": [3, 4], "estimate": [1, 2], "place": ["a", "b"], "conf_low": [0, 0]})
    assert est.table.column_names == ["place", *FOUR, "truth"]
    assert [str(t) for t in est.table.schema.types] == ["string", "double", "double", "double", "double", "int64"]
    assert est.table["std_error"].to_pylist() == [None, None]
    assert len(est) == 2


def test_nan_becomes_null_and_comes_back_as_nan(build):
    est = build({"place": ["a", "b"], "estimate": np.array([0.5, np.nan])})
    assert est.table["estimate"].to_pylist() == [0.5, None]
    np.testing.assert_array_equal(est["estimate"], [0.5, np.nan])
    assert est["place"].dtype == object


def test_arrays_of_integers_and_booleans_keep_their_type_until_a_null(build):
    est = build().with_columns(n=[2**60 + 1, 1], ok=[True, False], m=[1, None], maybe=[True, None])
    assert est["n"].tolist() == [2**60 + 1, 1]
    assert est["ok"].dtype == bool
    np.testing.assert_array_equal(est["m"], [1.0, np.nan])
    assert est["maybe"].tolist() == [True, None]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"]).astype("category"),
        pl.Series(["a", "b"]),
        np.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_text_of_any_kind_is_one_type(build, values):
    est = build({"place": values, "estimate": pd.Series([1.5, None])})
    assert est.table.schema.field("place").type == pa.string()
    assert est.table["place"].to_pylist() == ["a", "b"]
    assert est.table["estimate"].to_pylist() == [1.5, None]


@pytest.mark.parametrize(
    "series", [pd.Series([2**60 + 1, None], dtype="Int64"), pl.Series([2**60 + 1, None])], ids=["pandas", "polars"]
)
def test_large_integers_with_nulls_are_exact(build, series):
    assert build().with_columns(n=series).table["n"].to_pylist() == [2**60 + 1, None]


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ({"place": ["a"], "estimate": [np.inf]}, {}),
        ({"place": ["a", "b"], "estimate": [1.0]}, {}),
        ({"place": ["a", "b", "a"], "estimate": [1, 2, 3]}, {}),
        ({"place": [None, None], "estimate": [1, 2]}, {}),
        ({"estimate": [1, 2]}, {"keys": []}),
        ({"plaec": ["a"], "estimate": [1]}, {}),
        ({"place": ["a"]}, {}),
        ({"place": ["a"], "estimate": ["x"]}, {}),
        ({"place": ["a"], "estimate": [[1.0]]}, {}),
        ({"place": ["a"], "estimate": np.ones((1, 1))}, {}),
        ({"place": "a", "estimate": [1]}, {}),
        ({"place": ["a"], "estimate": np.array(1.0)}, {}),
        ({"place": ["a", "b"], "estimate": [[1], [1, 2]]}, {}),
        ({"place": ["a"], "estimate": 1.0}, {}),
        ({"place": np.array(["2020-01-01"], "M8[D]"), "estimate": [1]}, {}),
        ({"place": np.array([2**63], "u8"), "estimate": [1]}, {}),
        ({"place": ["a", 1], "estimate": [1, 2]}, {}),
        ({"place": ["a"], "estimate": [1], 3: [1]}, {}),
        ({"estimate": [1]}, {"keys": ["estimate"]}),
        ({"place": ["a"], "estimate": [1]}, {"keys": "place"}),
        ({"place": ["a"], "estimate": [1]}, {"keys": ["place", "place"]}),
        (None, {"warnings": "be careful"}),
        (None, {"level": 95}),
        (None, {"level": None}),
        (None, {"interval": ""}),
        (None, {"interval": "none"}),
        (None, {"interval": "none", "level": None}),
        (None, {"frame": "panda"}),
        (None, {"draws": np.ones((5, 3))}),
        (None, {"draws": [[np.inf, 1.0]]}),
        (None, {"diagnostics": {"x": {"y": object()}}}),
        ({"place": ["a", "b"], "estimate": [0, 0], "conf_low": [0, 2], "conf_high": [1, 1]}, {}),
    ],
)
def test_bad_input_gets_a_sentence(build, columns, changes):
    with pytest.raises(InputError):
        build(columns, **changes)


def test_an_estimate_may_lie_outside_its_interval(build):
    est = build({"place": ["a"], "estimate": [5.0], "conf_low": [0.0], "conf_high": [1.0]})
    assert est["estimate"][0] > est["conf_high"][0]


@pytest.mark.parametrize(("kind", "type_"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)])
def test_frames_come_back_as_the_callers_kind(build, kind, type_):
    est = build(frame=kind)
    assert isinstance(est.to_frame(), type_)
    assert isinstance(build().to_frame(kind), type_)
    assert np.asarray(est.to_frame()["estimate"]).tolist() == [0.5, 0.25]


def test_what_is_handed_in_and_out_cannot_change_the_estimates(build):
    columns = {"place": np.array([1, 2]), "estimate": np.array([0.5, 0.25]), "word": np.array(["a", "b"], object)}
    diagnostics, draws = {"trace": [1]}, np.zeros((1, 2))
    est = build(columns, diagnostics=diagnostics, draws=draws)
    diagnostics["trace"].append(2)
    for array in (columns["place"], columns["estimate"], draws, est["estimate"], est["place"]):
        array[...] = 99
    columns["word"][0] = "changed"
    assert est.diagnostics == {"trace": [1]}
    assert est.table.select(["place", "estimate", "word"]).to_pylist() == [
        {"place": 1, "estimate": 0.5, "word": "a"},
        {"place": 2, "estimate": 0.25, "word": "b"},
    ]
    assert est.draws.tolist() == [[0, 0]]
    with pytest.raises(AttributeError):
        est.method = "other"


def test_truth_is_matched_by_key_not_by_row(build):
    truth = pd.DataFrame({"place": ["b", "a"], "share": [0.2, 0.5], "other": [1, 2]})
    assert build().with_truth(truth, "share")["truth"].tolist() == [0.5, 0.2]


def test_truth_is_matched_by_all_keys(build):
    columns = {"g": ["x", "x", "y", "y"], "o": [1, 2, 1, 2], "estimate": [1, 2, 3, 4]}
    est = build(columns, keys=["g", "o"], level=None, interval="none")
    truth = {"o": [2, 2, 1, 1], "g": ["y", "x", "y", "x"], "truth": [40.0, 20.0, 30.0, None]}
    np.testing.assert_array_equal(est.with_truth(truth)["truth"], [np.nan, 20, 30, 40])


@pytest.mark.parametrize(
    "truth",
    [
        {"place": ["a"], "truth": [1.0]},
        {"place": ["a", "b", "c"], "truth": [1.0, 2, 3]},
        {"place": ["a", "b", "a"], "truth": [1.0, 2, 3]},
        {"place": [1, 2], "truth": [1.0, 2]},
        {"places": ["a", "b"], "truth": [1.0, 2]},
        {"place": ["a", "b"], "tru": [1.0, 2]},
        {"place": ["a", "b"], "truth": ["x", "y"]},
    ],
)
def test_truth_that_does_not_match_is_refused(build, truth):
    with pytest.raises(InputError):
        build().with_truth(truth)


def test_score_of_known_numbers(build):
    est = build().with_columns(truth=[0.5, 0.45])
    score = est.score()
    assert score["n"] == 2
    assert score["mae"] == pytest.approx(0.1)
    assert score["bias"] == pytest.approx(-0.1)
    assert score["rmse"] == pytest.approx(np.sqrt(0.04 / 2))
    assert score["coverage"] == 0.5
    assert score["coverage_std_error"] == pytest.approx(np.sqrt(0.25 / 2))


def test_columns_are_replaced_in_place_and_keys_are_not(build):
    est = build().with_columns(estimate=[1.0, 2.0], extra=["x", None])
    assert est.table.column_names == ["place", *FOUR, "extra"]
    assert est["estimate"].tolist() == [1, 2]
    with pytest.raises(InputError):
        est.with_columns(place=["x", "y"])
    with pytest.raises(InputError):
        est.with_columns(conf_low=[9, 9])


def test_select_keeps_rows_units_and_draws_together(rich):
    some = rich.select(group="Māori")
    assert len(some) == 1
    np.testing.assert_array_equal(some.draws, rich.draws[:, :1])
    assert some.units.equals(rich.units)
    ends = rich.select(group=["Māori", ""])
    assert ends["code"].tolist() == [2**53 + 1, 0]
    np.testing.assert_array_equal(ends.draws, rich.draws[:, [0, 3]])
    with pytest.raises(InputError, match="group="):
        rich.select(group="Maori")


def test_json_round_trip_is_exact(rich):
    back = Estimates.from_json(rich.to_json())
    assert back.equals(rich)
    assert rich.equals(back)
    assert np.signbit(back["estimate"][2])
    assert back.units["ward"].tolist() == [2**53 + 1, -(2**62)]
    assert back.diagnostics == {"converged": True, "trace": [1.0, None], "gap": "inf", "deep": {"n": 2}}


def test_json_is_strict_and_versioned(rich):
    document = json.loads(rich.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert document["schema_version"] == 2
    assert document["format"] == "crosslevel.estimates"
    assert json.loads(rich.to_json(draws=False))["draws"] is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text(), st.floats(allow_infinity=False), st.integers(-(2**63), 2**63 - 1)), max_size=8))
def test_json_round_trip_of_anything(rows):
    columns = {
        "row": list(range(len(rows))),
        "estimate": [r[1] for r in rows],
        "word": pa.array([r[0] for r in rows], pa.string()),
        "n": pa.array([r[2] for r in rows], pa.int64()),
    }
    est = Estimates.build(
        columns, keys=["row"], method="m", level=None, interval="none", provenance=Provenance.of(call="c")
    )
    assert Estimates.from_json(est.to_json()).equals(est)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema_version=3),
        lambda d: d.update(format="other"),
        lambda d: d.pop("columns"),
        lambda d: d["columns"][0].update(type="object"),
        lambda d: d["columns"][1]["values"].append(1),
        lambda d: d.update(level=2),
        lambda d: d.update(provenance={"what": 1}),
    ],
)
def test_json_that_is_not_whole_is_refused(build, change):
    document = json.loads(build().to_json())
    change(document)
    with pytest.raises(FileError):
        Estimates.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        {"method": "other"},
        {"level": 0.9},
        {"warnings": ["w"]},
        {"title": "t"},
        {"frame": "pandas"},
        {"diagnostics": {"n": 1}},
        {"draws": np.zeros((1, 2))},
        {"provenance": Provenance.of(call="other")},
    ],
    ids=lambda c: next(iter(c)),
)
def test_equals_sees_every_difference(build, change):
    assert build().equals(build())
    assert not build().equals(build(**change))
    assert not build(**change).equals(build())


def test_equals_sees_bits_types_and_units(build):
    plain = {"place": ["a", "b"], "estimate": [0.0, 1.0]}
    assert not build(plain).equals(build({**plain, "estimate": [-0.0, 1.0]}))
    assert not build(plain).equals(build({**plain, "estimate": [5e-324, 1.0]}))
    assert not build().with_columns(n=[1, 2]).equals(build().with_columns(n=[1.0, 2.0]))
    assert not build(units=build()).equals(build())
    assert not build(units=build()).equals(build(units=build(title="t")))
    assert not build().equals("estimates")


def test_results_bring_in_no_heavy_library():
    heavy = "matplotlib", "pandas", "polars", "numba", "jax", "xarray", "sklearn"
    code = f"import sys, crosslevel.results, crosslevel.charts; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_further_column_is_matched_by_keys_or_numbers_of_rows(build):
    found = build({"group": ["women", "men"], "estimate": [0.5, 0.4]}, keys=["group"], level=None, interval="none")
    for index in (["men", "women"], [1, 0]):
        assert found.with_columns(truth=pd.Series([0.41, 0.51], index=index))["truth"].tolist() == [0.51, 0.41]
    with pytest.raises(InputError):
        found.with_columns(truth=pd.Series([0.41, 0.51], index=["men", "girls"]))
    several = {"place": [7, 7], "group": ["women", "men"], "estimate": [0.5, 0.4]}
    found = build(several, keys=["place", "group"], level=None, interval="none")
    truth = pd.DataFrame(several).set_index(["place", "group"])["estimate"].sort_index()
    assert found.with_columns(truth=truth)["truth"].tolist() == [0.5, 0.4]
    assert len(found.select(group=pd.Series(["men"]))) == 1
