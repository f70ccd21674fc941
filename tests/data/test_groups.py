from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslevel.data.checks import check_unique
from crosslevel.data.frames import as_names, group_rows, keys_of
from crosslevel.errors import InputError


@given(st.lists(st.tuples(st.sampled_from("cab"), st.integers(-3, 3)), min_size=1, max_size=40))
def test_groups_are_the_sorted_distinct_keys(rows):
    table = pa.table({"s": [r[0] for r in rows], "i": [r[1] for r in rows]})
    groups = group_rows(table, ["s", "i"])
    expected = sorted(set(rows))
    assert keys_of(groups.keys).tolist() == expected
    assert [expected[c] for c in groups.codes] == rows


def test_many_key_columns_do_not_overflow():
    rng = np.random.default_rng(0)
    table = pa.table({f"k{j}": rng.integers(0, 10_000, 50_000) for j in range(8)})
    groups = group_rows(table, table.column_names)
    assert len(groups) == len(set(zip(*(c.to_pylist() for c in table.columns), strict=True)))


def test_dictionary_keys_compare_by_value():
    table = pa.chunked_array([pa.array(["b", "a"]).dictionary_encode(), pa.array(["a", "c"]).dictionary_encode()])
    groups = group_rows(pa.table({"s": table}), "s")
    assert groups.codes.tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: group_rows(pa.table({"s": ["a", None]}), "s"),
        lambda: group_rows(pa.table({"s": [1.0, np.nan]}), "s"),
        lambda: group_rows(pa.table({"s": ["a"]}), "S"),
        lambda: as_names([], "by"),
        lambda: as_names(["a", "a"], "by"),
        lambda: check_unique(pa.table({"s": ["a", "a", "b"]}), "s", "by"),
    ],
)
def test_bad_keys_get_a_sentence(make):
    with pytest.raises(InputError):
        make()


def test_whole_numbers_that_answers_cannot_hold_are_no_keys():
    table = pa.table({"k": pa.array([1, 2**63 - 1, 2**63 + 7], pa.uint64())})
    assert keys_of(group_rows(table.slice(0, 2), "k").keys).tolist() == [1, 2**63 - 1]
    with pytest.raises(InputError, match="by="):
        group_rows(table, "k")
