"""Sums onto regions: exact, complete, and open about what did not match."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslevel.data.regions import merge_regions
from crosslevel.errors import InputError

SMALL = {"county": ["a", "a", "b", "c", "d"], "puma": [1, 2, 2, 3, 4]}
CODES = {"county": ["01001", "01003", "02013"], "puma": [1, 2, 3]}

rows = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-(2**40), 2**57)), min_size=1, max_size=30)


@given(rows, st.randoms())
def test_sums_are_exact_and_order_free(rows, random):
    regions = merge_regions(SMALL)
    expected: dict[str, int] = {}
    for key, value in rows:
        label = {"a": "a+1", "b": "a+1"}.get(key, key)
        expected[label] = expected.get(label, 0) + value
    random.shuffle(rows)
    table, report = regions.sum_left({"county": [k for k, _ in rows], "n": [v for _, v in rows]}, columns=["n"])
    assert table["n"].type == pa.int64()
    assert dict(zip(table["region"].to_pylist(), table["n"].to_pylist(), strict=True)) == {
        label: expected.get(label) for label in regions.labels
    }
    assert report.totals["n"] == sum(v for _, v in rows)
    assert report.unmatched_totals["n"] == 0


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_answers_come_back_as_the_callers_kind(make):
    votes = make({"fips": ["a", "b", "c", "d"], "dem": [1, 2, 3, 4]})
    table, _ = merge_regions(SMALL).sum_left(votes, by="fips", columns=["dem"])
    assert type(table) is type(votes)
    assert list(np.asarray(table["dem"])) == [3, 3, 4]


def test_categories_booleans_and_fractions_are_summed():
    people = {"puma": [1, 2, 3, 4], "w": [0.5, 0.25, 1.0, 2.0], "old": [True, True, False, True]}
    table, _ = merge_regions(SMALL).sum_right(people, columns=["w", "old"])
    assert table["w"].to_pylist() == [0.75, 1.0, 2.0]
    assert table["old"].to_pylist() == [2, 0, 1]
    votes = pd.DataFrame({"county": pd.Categorical(["d", "a"]), "n": [1, 2]})
    table, _ = merge_regions(SMALL).sum_left(votes, columns=["n"])
    assert table["n"].fillna(-1).tolist() == [2, -1, 1]


def test_unseen_keys_land_where_a_rule_puts_them():
    regions = merge_regions(CODES, collapse={"AK": "02*", "rest": ["01003", "01515"]})
    votes = {"county": ["01001", "01003", "01515", "02901", "02902"], "dem": [1, 2, 4, 8, 16]}
    table, report = regions.sum_left(votes, columns=["dem"])
    assert dict(zip(table["region"].to_pylist(), table["dem"].to_pylist(), strict=True)) == {
        "01001": 1,
        "rest": 6,
        "AK": 24,
    }
    assert report.collapsed == {"AK": ("02901", "02902"), "rest": ("01515",)}
    assert report.without_rows == ()


def test_a_region_without_rows_is_null_not_zero():
    table, report = merge_regions(SMALL).sum_left({"county": ["a", "c"], "dem": [0, 1]}, columns=["dem"])
    assert table["dem"].to_pylist() == [0, 1, None]
    assert report.empty_regions == ("d",)
    assert report.without_rows == ("b", "d")


def test_the_report_tells_joins_and_unmatched_rows():
    regions = merge_regions(SMALL, join=[("c", "d")])
    votes = {"county": ["a", "x", "y", "c"], "dem": [1, 10, 100, 1000], "gop": [0.5, 1.5, 2.0, 3.0]}
    table, report = regions.sum_left(votes, columns=["dem", "gop"], unmatched="report")
    assert table["dem"].to_pylist() == [1, 1000]
    assert report.unmatched == ("x", "y")
    assert report.unmatched_totals == {"dem": 110, "gop": 3.5}
    assert report.totals == {"dem": 1111, "gop": 7.0}


def test_labels_go_onto_people_row_by_row():
    regions = merge_regions(SMALL)
    people = pl.DataFrame({"puma": [4, 2, 2, 1], "age": [1, 2, 3, 4]})
    assert regions.label_right(people)["region"].to_list() == ["d", "a+1", "a+1", "a+1"]
    labeled = regions.label_left({"county": ["c", "x"]}, unmatched="report")
    assert labeled["region"].to_pylist() == ["c", None]
    with pytest.raises(InputError):
        regions.label_left({"county": ["c"], "region": [1]})
    with pytest.raises(InputError):
        regions.label_left({"county": ["c", "x"]})


def test_unmatched_keys_are_an_error_with_their_totals():
    with pytest.raises(InputError):
        merge_regions(SMALL).sum_left({"fips": ["a", "x", "y"], "dem": [1, 100, 1000]}, by="fips", columns=["dem"])
    with pytest.raises(InputError):
        merge_regions(SMALL).label_right({"puma": ["1", "2"]}, unmatched="report")
    labeled = merge_regions(SMALL).label_right({"puma": [1, 9]}, unmatched="report")
    assert labeled["region"].to_pylist() == ["a+1", None]


@pytest.mark.parametrize(
    "arguments",
    [
        {"columns": []},
        {"columns": ["demo"]},
        {"columns": ["name"]},
        {"columns": ["gap"]},
        {"columns": ["dem"], "by": ["county", "name"]},
        {"columns": ["dem"], "by": "cnty"},
        {"columns": ["dem"], "by": "bad"},
        {"columns": ["dem"], "unmatched": "drop"},
        {"columns": ["region"]},
        {"columns": ["dem"], "by": []},
    ],
)
def test_bad_arguments_get_a_sentence(arguments):
    table = {"county": ["a", "x"], "name": ["A", "X"], "dem": [1, 2], "gap": [1.0, None], "bad": [None, "a"]}
    table["region"] = [1, 2]
    with pytest.raises(InputError):
        merge_regions(SMALL).sum_left(table, **arguments)


@pytest.mark.parametrize("values", [[2**62, 2**62], [-(2**62), -(2**62) - 1], pa.array([1, 2**63], pa.uint64())])
def test_sums_that_do_not_fit_are_refused(values):
    regions = merge_regions(SMALL)
    with pytest.raises(InputError):
        regions.sum_left({"county": ["a", "b"], "n": values}, columns=["n"])
    floats = [float(v) for v in pa.array(values).to_pylist()]
    table, _ = regions.sum_left({"county": ["a", "b"], "n": floats}, columns=["n"])
    assert table["n"][0].as_py() == sum(floats)
