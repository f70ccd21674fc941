from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.data import frames
from crosslevel.data.cells import learn_table, read_matrix
from crosslevel.data.columns import (
    MISSING,
    UNKNOWN,
    Category,
    Encoder,
    Number,
    canonical,
    is_categorical,
)
from crosslevel.errors import InputError


def category(values, has_null=False, name="c"):
    return Category(name, canonical(pa.array(values)), has_null)


def codes(column, values, unknown="error", row=0):
    encoder = Encoder((Number("x", 0.0, 1.0, False), column), unknown)
    batch = pa.table({"c": values, "x": np.zeros(len(values))})
    return encoder.encode(batch, row).codes[:, 0].tolist()


@pytest.mark.parametrize(
    "kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
)
@pytest.mark.parametrize("levels", [[3, 5, 7], [3.0, 5.0, 7.0]])
def test_whole_numbers_of_any_width_are_the_same_levels(kind, levels):
    values = pa.array([7, 3, None, 5], type=kind)
    assert codes(category(levels, True), values) == [3, 1, 4, 2]


WHOLE = [None if v == 2 else v for v in np.random.default_rng(0).integers(0, 3, 50).tolist()]
TEXT = [None if v is None else "ab"[v] for v in WHOLE]


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (pa.array(WHOLE, pa.int8()), [0, 1]),
        (pa.array(WHOLE, pa.int64()), [0, 1]),
        (pa.array(WHOLE, pa.int64()).dictionary_encode(), [0, 1]),
        (pa.array(WHOLE, pa.float32()), [0, 1]),
        (pa.array(WHOLE).cast(pa.bool_()), [False, True]),
        (pa.array(TEXT), ["a", "b"]),
        (pa.array(TEXT).dictionary_encode(), ["a", "b"]),
    ],
)
def test_a_slice_of_a_batch_is_read_from_where_it_begins(values, levels):
    expected = [3 if v is None else v + 1 for v in WHOLE]
    for start in (0, 1, 7, 8, 13, 49):
        assert codes(category(levels, True), values.slice(start, 9)) == expected[start : start + 9]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_text_of_any_kind_is_the_same_level(kind):
    assert codes(category(["a", "b"], True), pa.array(["b", None, "a"]).cast(kind)) == [2, 3, 1]


def test_dictionaries_may_have_unused_and_missing_values_in_any_order():
    values = pa.DictionaryArray.from_arrays(pa.array([3, 0, 2, None], pa.int8()), pa.array(["b", "zebra", None, "a"]))
    assert codes(category(["a", "b"], True), values) == [1, 2, 3, 3]
    whole = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array([9, 4]))
    assert codes(category([4, 9]), whole) == [2, 1, 2]


def test_booleans_decimals_dates_and_minus_zero():
    assert codes(category([False, True], True), pa.array([True, None, False])) == [2, 3, 1]
    prices = pa.array([Decimal("1.50"), Decimal("2.25")])
    assert codes(category([1.5, 2.25]), prices) == [1, 2]
    days = pa.array([datetime.date(2020, 2, 29), datetime.date(1999, 1, 1)])
    assert codes(category(["1999-01-01", "2020-02-29"]), days) == [2, 1]
    assert codes(category([0.0, 0.5]), pa.array([-0.0, 0.5])) == [1, 2]


@pytest.mark.parametrize(
    ("levels", "values"),
    [
        (["a", "b"], ["a", "c"]),
        ([1, 2], [1, 9]),
        ([1, 2], pa.array([1, 9]).dictionary_encode()),
        ([True], [True, False]),
        ([0.5, 1.5], [0.5, 2.5]),
        (["a", "b"], ["a", None]),
        ([1, 2], [1, None]),
        ([1, 2], pa.array([1, None]).dictionary_encode()),
    ],
)
def test_an_unseen_level_is_named_with_column_and_row(levels, values):
    with pytest.raises(InputError):
        codes(category(levels), pa.array(values) if isinstance(values, list) else values, row=12_345)
    ignored = codes(category(levels), pa.array(values) if isinstance(values, list) else values, "ignore")
    assert ignored == [1, -1]


def test_numbers_are_centered_scaled_and_marked():
    encoder = Encoder((Number("x", 10.0, 4.0, True),))
    for kind in (pa.float64(), pa.float32(), pa.int64(), pa.decimal128(25, 2)):
        found = encoder.encode(pa.table({"x": pa.array([12, None, 2]).cast(kind)}))
        assert found.reals.ravel().tolist() == [0.5, 0.0, -2.0]
        assert found.codes.ravel().tolist() == [-1, 1, -1]
    nan = encoder.encode(pa.table({"x": [float("nan"), 14.0]}))
    assert nan.dense(2).tolist() == [[0, 1], [1, 0]]


def test_types_tell_categories_from_numbers():
    categories = [pa.string(), pa.large_string(), pa.bool_(), pa.null(), pa.dictionary(pa.int8(), pa.string())]
    categories += [pa.dictionary(pa.int8(), pa.int64())]  # a pandas Categorical of codes
    numbers = [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(5, 2)]
    assert all(is_categorical(kind, "c") for kind in categories)
    assert not any(is_categorical(kind, "c") for kind in numbers)
    with pytest.raises(InputError):
        is_categorical(pa.date32(), "day")
    with pytest.raises(InputError):
        is_categorical(pa.dictionary(pa.int8(), pa.date32()), "day")


@pytest.mark.parametrize("frame", [pa.table, pd.DataFrame, pl.DataFrame])
def test_a_matrix_of_numbers_and_codes_is_the_same_for_every_kind_of_frame(frame):
    data = {"age": [30.0, 41.0, 55.0], "sex": ["m", "f", "m"], "race": [3, 1, 3], "voted": [True, False, True]}
    table = frames.to_arrow(frame(data), "X")
    columns = learn_table(table, ["race"])
    assert [getattr(c, "labels", None) for c in columns] == [None, ("f", "m"), (1, 3), None]
    expected = [[30, 1, 1, 1], [41, 0, 0, 0], [55, 1, 1, 1]]
    assert read_matrix(table, columns).tolist() == expected
    later = frames.to_arrow(frame({**data, "sex": pd.Series(data["sex"], dtype="category")}), "X")
    assert read_matrix(later, columns).tolist() == expected


def test_levels_follow_a_categorical_type_where_asked():
    arm = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int8()), pa.array(["low", "unused", "high"]))
    table = pa.table({"arm": pa.chunked_array([arm, arm])})
    assert learn_table(table)[0].labels == ("high", "low")
    assert learn_table(table, order="given")[0].labels == ("low", "high")


def test_missing_values_of_a_matrix_are_refused_or_nan():
    table = pa.table({"x": [1.0, None, 3.0], "c": ["a", "b", None]})
    columns = learn_table(table)
    assert np.isnan(read_matrix(table, columns, missing="allow")).tolist() == [[0, 0], [1, 0], [0, 1]]
    with pytest.raises(InputError):
        read_matrix(table, columns)
    with pytest.raises(InputError):
        read_matrix(pa.table({"x": [1.0], "c": pa.array([None], pa.string())}), columns, missing="allow")
    with pytest.raises(InputError):
        read_matrix(pa.table({"x": [np.inf], "c": ["a"]}), columns)


def test_an_unknown_level_of_a_matrix_is_named():
    columns = learn_table(pa.table({"c": ["a", "b"]}))
    with pytest.raises(InputError):
        read_matrix(pa.table({"c": ["a", "z"]}), columns)
    assert columns[0].codes(pa.array(["b", "z", None])).tolist() == [1, UNKNOWN, MISSING]
    with pytest.raises(InputError, match="categorical="):
        learn_table(pa.table({"c": [1]}), "c")
    with pytest.raises(InputError, match="categorical="):
        learn_table(pa.table({"c": [1]}), ["d"])
