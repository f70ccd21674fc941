"""Are numbers by group matched by name, and refused where names do not match?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.data.checks import align_groups
from crosslevel.data.published import Partition, read_by_key, read_published
from crosslevel.errors import InputError

KEYS = ["a", "b", "c"]
TABLE = {"town": ["c", "a", "b"], "ill": [0.3, 0.1, 0.2]}
TOWNS = Partition("town", ("a", "b", "c"))


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_is_matched_by_its_key(frame):
    found = read_by_key(frame(TABLE), KEYS, "means", key="town")
    assert found.columns["ill"].tolist() == [0.1, 0.2, 0.3]
    assert found.spare == ()


def test_a_series_is_matched_by_its_index():
    series = pd.Series(TABLE["ill"], index=TABLE["town"], name="ill")
    assert read_by_key(series, KEYS, "means").columns["ill"].tolist() == [0.1, 0.2, 0.3]
    with pytest.raises(InputError):
        read_by_key(series, [*KEYS, "d"], "means")


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ([1.0, 2.0, 3.0], KEYS),
        (np.array([1.0, 2.0, 3.0]), KEYS),
        (pl.Series([1.0, 2.0, 3.0]), KEYS),
        (pd.Series([1.0, 2.0, 3.0]), KEYS),
        (pd.Series([1.0, 2.0, 3.0]), [2, 7, 9]),
    ],
)
def test_values_without_names_are_taken_by_position(values, keys):
    assert read_by_key(values, keys, "y", name="y").columns["y"].tolist() == [1.0, 2.0, 3.0]


def test_numbers_as_names():
    assert read_by_key(pd.Series([1.0, 2.0], index=[9, 7]), [7, 9], "y").columns["value"].tolist() == [2.0, 1.0]
    with pytest.raises(InputError):
        read_by_key(pd.Series([1.0, 2.0], index=[9, 7]), [7, 8], "y")


@pytest.mark.parametrize(
    "values",
    [
        {"town": ["a", "b"], "ill": [0.1, 0.2]},
        {"town": [1, 2, 3], "ill": [0.1, 0.2, 0.3]},
        {"town": ["a", "b", "b"], "ill": [0.1, 0.2, 0.3]},
        {"city": KEYS, "ill": [0.1, 0.2, 0.3]},
        {"town": KEYS},
        [0.1, 0.2],
    ],
)
def test_what_does_not_match_is_refused(values):
    with pytest.raises(InputError):
        read_by_key(values, KEYS, "means", key="town")


def test_published_means_with_errors_and_what_was_left_out():
    means = {"town": ["d", *KEYS], "ill": [0.9, 0.1, 0.2, np.nan]}
    found, warnings = read_published(means, {"town": KEYS, "ill": [0.01, 0.02, 0.03]}, (TOWNS,))
    np.testing.assert_array_equal(found[0].mean, [0.1, 0.2, np.nan])
    assert found[0].se.tolist() == [0.01, 0.02, 0.03]
    assert len(warnings) == 1
    assert "'d'" in warnings[0]
    with pytest.raises(InputError):
        read_published(TABLE, {"town": KEYS, "old": [0.01, 0.02, 0.03]}, (TOWNS,))
    with pytest.raises(InputError):
        read_published({"town": KEYS, "ill": [0.1, np.nan, np.nan]}, None, (TOWNS,))


@pytest.mark.parametrize(
    ("index", "keys", "expected"),
    [
        (["c", "a", "b"], KEYS, ["y", "z", "x"]),
        ([9, 5, 7], [5, 7, 9], ["y", "z", "x"]),
        ([2, 0, 1], [0, 1, 2], ["y", "z", "x"]),
        ([4, 4, 5], [4, 4, 5], ["x", "y", "z"]),  # the same rows, one by one
        (["r", "s", "t"], [0, 1, 2], ["x", "y", "z"]),  # keys that only count are no names
        (None, KEYS, ["x", "y", "z"]),
    ],
)
def test_labels_are_put_in_the_order_of_names(index, keys, expected):
    assert np.asarray(align_groups(pd.Series(["x", "y", "z"], index=index), keys, "y")).tolist() == expected


@pytest.mark.parametrize("index", [["a", "b", "d"], ["a", "b", "c", "d"], ["a", "a", "b"], ["x", "y", "z"], [2, 0, 1]])
def test_names_that_do_not_match_are_refused(index):
    with pytest.raises(InputError):
        align_groups(pd.Series(range(len(index)), index=index), KEYS, "y")


def test_a_mean_that_is_a_code_of_missing_values_is_refused():
    towns = Partition("town", tuple("abcdefg"))
    means = [10.0, 12.0, -999.0, 15.0, 11.0, 10.5, 13.0]
    for code in (-999.0, 9999.0, -9.0):
        with pytest.raises(InputError):
            read_published(np.where(np.equal(means, -999), code, means), None, (towns,))
    for values in ([1.0, 2.0, 9.0, 1.5, 1.1, 1.2, 1.3], [10.0, 20.0, 60.0, 30.0, 80.0, 40.0, 99.0]):
        assert read_published(values, None, (towns,))[0][0].mean.tolist() == values
    assert read_published([10.0, 20.0, 99.0], None, (TOWNS,))[0][0].mean.tolist() == [10.0, 20.0, 99.0]


def test_values_without_names_of_groups_that_are_numbers_as_text_are_told_of():
    text = Partition("state", tuple(sorted(map(str, range(12)))))
    means = np.linspace(0.1, 0.6, 12)
    said = read_published(means, means / 20, (text,))[1]
    assert [s.split()[0] for s in said] == ["aggregates", "aggregate_se"]
    assert all("'1', '10'" in s for s in said)
    named = pd.Series(means, index=text.labels)
    padded = Partition("state", tuple(f"{i:02d}" for i in range(12)))
    assert read_published(named, named / 20, (text,))[1] == read_published(means, None, (padded,))[1] == ()


@pytest.mark.parametrize("key", ["partition", "town"])
def test_groups_in_the_index_of_a_frame_are_named(key):
    means = pd.DataFrame({"ill": [0.3, 0.3, 0.2]}, index=["c", "a", "b"])
    with pytest.raises(InputError):
        read_by_key(means, KEYS, "means", key=key)
    found = read_by_key(means.rename_axis(key).reset_index(), KEYS, "means", key=key)
    assert found.columns["ill"].tolist() == [0.3, 0.2, 0.3]
