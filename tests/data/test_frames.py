from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.data import frames
from crosslevel.errors import InputError

TABLE = pa.table({"region": ["a", None, "ü"], "age": [30, 41, 50], "income": [1.5, None, 0.1]})


class Stream:
    """Something that only speaks the Arrow stream protocol."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_pandas(),
        lambda: pl.from_arrow(TABLE),
        lambda: pl.from_arrow(TABLE).lazy(),
        lambda: duckdb.from_arrow(TABLE),
        lambda: Stream(),
        lambda: {name: TABLE[name].to_pylist() for name in TABLE.column_names},
        lambda: TABLE.combine_chunks().to_batches()[0],
    ],
    ids=["arrow", "pandas", "polars", "polars-lazy", "duckdb", "stream", "mapping", "batch"],
)
def test_every_kind_of_frame_says_the_same(make):
    frame = make()
    assert frames.is_frame(frame)
    out = frames.to_arrow(frame)
    assert out.column_names == TABLE.column_names
    assert out["region"].to_pylist() == ["a", None, "ü"]
    assert out["age"].to_pylist() == [30, 41, 50]
    np.testing.assert_array_equal(frames.column(out, "income", "x"), [1.5, np.nan, 0.1])


@pytest.mark.parametrize("kind", frames.KINDS)
def test_answers_come_back_as_the_callers_kind_exactly(kind):
    there = frames.from_arrow(TABLE, kind)
    assert frames.frame_kind(there) == kind
    back = frames.to_arrow(there)
    assert back["region"].to_pylist() == TABLE["region"].to_pylist()
    assert back["age"].to_pylist() == TABLE["age"].to_pylist()
    np.testing.assert_array_equal(frames.column(back, "income", "x"), frames.column(TABLE, "income", "x"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: frames.to_arrow(np.zeros((2, 2)), "people"),
        lambda: frames.to_arrow({"a": [1], "b": [1, 2]}, "people"),
        lambda: frames.to_arrow({"a": [1, "x"]}, "people"),
        lambda: frames.to_arrow(pd.DataFrame({"a": [1, "x", {}]}), "people"),
        lambda: frames.to_arrow(pa.table([[1], [2]], names=["a", "a"]), "people"),
        lambda: frames.column(TABLE, "incme", "weight"),
        lambda: frames.column(TABLE, "region", "weight"),
        lambda: frames.from_arrow(TABLE, "panda"),
        lambda: frames.to_arrow(pl.Series([1.0]), "people"),
        lambda: frames.to_arrow(pd.DataFrame({"a": [1 + 2j]}), "people"),
        lambda: frames.to_arrow({1: [1], "1": [2]}, "people"),
        lambda: frames.to_arrow({"a": "text"}, "people"),
        lambda: frames.to_arrow({"a": [2**70]}, "people"),
    ],
)
def test_bad_frames_get_a_sentence(make):
    with pytest.raises(InputError):
        make()


def test_numbers_are_read_from_every_numeric_type():
    import decimal

    table = pa.table(
        {
            "int": pa.array([1, None], pa.int8()),
            "bool": [True, False],
            "dec": [decimal.Decimal("1.25"), None],
            "dict": pa.array([3, 4]).dictionary_encode(),
            "null": pa.nulls(2),
        }
    )
    expected = {"int": [1, np.nan], "bool": [1, 0], "dec": [1.25, np.nan], "dict": [3, 4], "null": [np.nan] * 2}
    for name, values in expected.items():
        np.testing.assert_array_equal(frames.column(table, name, "x"), values)


def test_a_pandas_index_is_never_data():
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]})
    kept = frames.to_arrow(frame[frame.a > 2])
    assert kept.column_names == ["a", "b"]
    named = frame.set_index("a")
    assert frames.to_arrow(named).column_names == ["b"]
    with pytest.raises(InputError, match="by="):
        frames.check_columns(frames.to_arrow(named), ["a"], "by")


@pytest.mark.parametrize("values", [["a", np.nan, "b"], np.array(["a", np.nan, "b"], dtype=object), ["a", pd.NA, "b"]])
def test_nan_among_text_is_missing(values):
    table = frames.to_arrow({"group": values}, "partition")
    assert table["group"].to_pylist() == ["a", None, "b"]
    with pytest.raises(InputError):
        frames.group_rows(table, "group", "partition")
