"""Are numbers by place matched by name, and refused where names do not match?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crosslevel import Means, Places
from crosslevel.data.checks import align_groups
from crosslevel.data.published import Partition, read_by_key, read_means
from crosslevel.errors import InputError

KEYS = ["a", "b", "c"]
TABLE = {"town": ["c", "a", "b"], "ill": [0.3, 0.1, 0.2]}
TOWNS = Partition("town", ("a", "b", "c"))


def means(values, towns=TOWNS, labels=None, **told):
    places = {"town": list(labels or towns.labels), "ill": values} | told.pop("more", {})
    return read_means([Places(places, by="town", means=Means("ill", **told))], [towns])


def test_rows_are_matched_by_their_key():
    found, spare = read_by_key(pa.table(TABLE), KEYS[1:], "means", key="town")
    assert found["ill"].tolist() == [0.2, 0.3]
    assert spare == ("a",)


@pytest.mark.parametrize(
    "values",
    [
        {"town": ["a", "b"], "ill": [0.1, 0.2]},
        {"town": [1, 2, 3], "ill": [0.1, 0.2, 0.3]},
        {"town": ["a", "b", "b"], "ill": [0.1, 0.2, 0.3]},
        {"city": KEYS, "ill": [0.1, 0.2, 0.3]},
        {"town": KEYS},
        {"town": KEYS, "ill": ["x", "y", "z"]},
    ],
)
def test_what_does_not_match_is_refused(values):
    with pytest.raises(InputError):
        read_by_key(pa.table(values), KEYS, "means", key="town")


def test_published_means_with_errors_and_what_was_left_out():
    se = {"more": {"se": [0.01, 0.02, 0.03, 0.04]}, "se": {"ill": "se"}}
    (found,), warnings = means([0.9, 0.1, 0.2, np.nan], labels=["d", *KEYS], of="population", **se)
    np.testing.assert_array_equal(found.mean, [0.1, 0.2, np.nan])
    assert found.se.tolist() == [0.02, 0.03, 0.04]
    assert found.elsewhere
    assert len(warnings) == 1
    assert "'d'" in warnings[0]
    with pytest.raises(InputError):
        means([0.1, np.nan, np.nan])


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
    numbers = [10.0, 12.0, -999.0, 15.0, 11.0, 10.5, 13.0]
    for code in (-999.0, 9999.0, -9.0):
        with pytest.raises(InputError):
            means(np.where(np.equal(numbers, -999), code, numbers), towns)
    for values in ([1.0, 2.0, 9.0, 1.5, 1.1, 1.2, 1.3], [10.0, 20.0, 60.0, 30.0, 80.0, 40.0, 99.0]):
        assert means(values, towns)[0][0].mean.tolist() == values
    assert means([10.0, 20.0, 99.0])[0][0].mean.tolist() == [10.0, 20.0, 99.0]
