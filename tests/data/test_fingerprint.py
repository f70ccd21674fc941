from __future__ import annotations

import datetime as dt
import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.data.frames import fingerprint

COLUMNS = {
    "age": [30, 41, 5, None, 9],
    "income": [1.5, -2.0, None, 0.0, 1e300],
    "name": ["a", "", None, "ähm", "a"],
    "married": [True, None, False, True, True],
    "day": [dt.date(2020, 1, 1), None, dt.date(1950, 5, 5), dt.date(2020, 1, 1), dt.date(2021, 1, 1)],
    "at": [dt.datetime(2020, 1, 1, 3, 4, 5, 600), None, *[dt.datetime(1950, 5, 5)] * 3],
}
TABLE = pa.table(COLUMNS)
BASE = fingerprint(TABLE)


@hypothesis.given(cuts=st.lists(st.integers(0, 5), max_size=4))
@hypothesis.settings(deadline=None, max_examples=40)
def test_chunks_make_no_difference(cuts):
    edges = [0, *sorted(cuts), 5]
    parts = [TABLE.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    assert fingerprint(pa.concat_tables(parts)) == BASE


@pytest.mark.parametrize("kind", ["polars", "pandas", "pandas-arrow", "mapping", "duckdb"])
def test_the_kind_of_frame_makes_no_difference(kind):
    frame = {
        "polars": lambda: pl.DataFrame(COLUMNS),
        "pandas": lambda: pd.DataFrame(COLUMNS),
        "pandas-arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
        "mapping": lambda: COLUMNS,
        "duckdb": lambda: __import__("duckdb").from_arrow(TABLE),
    }[kind]()
    assert fingerprint(frame) == BASE


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("age", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float32(), pa.float64()]),
        ("name", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]),
        ("day", [pa.date64()]),
        ("at", [pa.timestamp("us"), pa.timestamp("ns")]),
    ],
)
def test_how_values_are_stored_makes_no_difference(name, kinds):
    for kind in kinds:
        column = TABLE[name].dictionary_encode() if pa.types.is_dictionary(kind) else TABLE[name].cast(kind)
        changed = TABLE.set_column(TABLE.column_names.index(name), name, column)
        assert fingerprint(changed) == BASE, kind


def test_nan_and_null_are_both_missing_and_minus_zero_is_zero():
    null = fingerprint({"x": pa.array([1.0, None, 0.0])})
    assert fingerprint({"x": np.array([1.0, np.nan, -0.0])}) == null


def rows(**changes):
    return pa.table({**COLUMNS, **changes})


@pytest.mark.parametrize(
    "changed",
    [
        rows(age=[30, 41, 5, None, 10]),
        rows(age=[30, 41, None, 5, 9]),
        rows(age=[30, 41, 5, 0, 9]),
        rows(income=[1.5, -2.0, None, 5e-324, 1e300]),
        rows(name=["a", "", None, "ähm", "b"]),
        rows(name=["a", None, "", "ähm", "a"]),
        rows(name=["", "a", None, "ähm", "a"]),
        rows(married=[True, None, True, True, True]),
        rows(day=[*COLUMNS["day"][:4], dt.date(2021, 1, 2)]),
        rows(at=[dt.datetime(2020, 1, 1, 3, 4, 5, 601), *COLUMNS["at"][1:]]),
        TABLE.rename_columns(["Age", *TABLE.column_names[1:]]),
        TABLE.select(TABLE.column_names[::-1]),
        TABLE.drop_columns("day"),
        TABLE.slice(0, 4),
        TABLE.take([1, 0, 2, 3, 4]),
        TABLE.set_column(0, "age", TABLE["age"].cast(pa.string())),
    ],
)
def test_any_change_changes_it(changed):
    assert fingerprint(changed) != BASE


def test_text_cannot_slide_between_rows():
    assert fingerprint({"x": ["ab", "c"]}) != fingerprint({"x": ["a", "bc"]})


def test_integers_beyond_floats_are_told_apart():
    seen = {fingerprint({"x": pa.array([v], pa.int64())}) for v in (2**53, 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63))}
    assert len(seen) == 5
    seen = {fingerprint({"x": pa.array([v], pa.uint64())}) for v in (2**64 - 1, 2**64 - 2, 2**63, 2**63 + 1)}
    assert len(seen) == 4
    assert fingerprint({"x": pa.array([2**60, 7])}) == fingerprint({"x": pa.array([float(2**60), 7.0])})
    swapped = [fingerprint({"x": pa.array(v)}) for v in ([2**60, 2**60 + 1], [2**60 + 1, 2**60])]
    assert swapped[0] != swapped[1]
