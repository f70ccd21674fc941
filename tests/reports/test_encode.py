from __future__ import annotations

import base64
import json

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.reports.page import MISSING, _packed, encode_column


def encoded(**columns):
    table = pa.table(columns)
    return {name: encode_column(table[name]) for name in table.column_names}


def test_words_are_written_once_and_numbers_to_six_digits():
    made = encoded(a=["x", None, "x"], b=[1 / 3, None, 1e-9 / 3], c=[1, 2**53, None], d=[True, False, None])
    assert made["a"] == {"levels": ["x"], "codes": [0, None, 0]}
    assert made["b"]["numbers"] == [0.333333, None, 3.33333e-10]
    assert made["c"]["numbers"] == [1, 2**53, None]
    assert made["d"] == {"levels": ["yes", "no"], "codes": [0, 1, None]}
    json.dumps(made, allow_nan=False)


def test_codes_that_a_browser_would_change_are_words():
    made = encoded(a=[2**60, 2**60 + 1, None], b=[-(2**53) - 1, 0, 1])
    assert made["a"] == {"levels": [str(2**60), str(2**60 + 1)], "codes": [0, 1, None]}
    assert made["b"]["levels"] == [str(-(2**53) - 1), "0", "1"]


def test_numbers_that_are_none_are_missing():
    made = encoded(a=[float("nan"), float("inf"), 2.0], d=pa.array([0, 1, None], pa.date32()))
    assert made["a"]["numbers"] == [None, None, 2]
    assert made["d"]["levels"] == ["1970-01-01", "1970-01-02"]


def unpacked(column):
    """What the page's script reads, written once more."""
    if "start" in column:
        return column["start"] + column["by"] * np.arange(column["n"])
    if "floats" in column:
        return np.frombuffer(base64.b64decode(column["floats"]), "<f4").astype(float)
    three = np.frombuffer(base64.b64decode(column["steps"]), np.uint8).reshape(-1, 3).astype(int)
    k = three @ [1, 256, 65536]
    return np.where(k == MISSING, np.nan, column["low"] + k * column["step"])


@pytest.mark.parametrize(
    ("values", "kind", "error"),
    [
        (np.random.default_rng(0).uniform(0.1, 0.9, 999), "steps", 3e-8),
        (np.random.default_rng(0).integers(0, 10**6, 999), "steps", 0),
        (10.0 ** np.linspace(-9, 9, 999), "floats", 100),
        (-np.arange(999), "start", 0),
        (np.full(999, 0.25), "start", 0),
    ],
)
def test_packed_numbers_come_back(values, kind, error):
    told = values.tolist()
    column = _packed({"numbers": told})
    assert kind in column
    back = unpacked(column)
    assert np.abs(back - values).max() <= error
    np.testing.assert_allclose(back[values != 0], values[values != 0], rtol=1e-4)


def test_a_missing_number_stays_missing_and_short_columns_stay_readable():
    values = [None if i % 7 == 0 else i / 900 + 0.1 for i in range(900)]
    back = unpacked(_packed({"numbers": values}))
    np.testing.assert_array_equal(np.isnan(back), [v is None for v in values])
    short = {"numbers": values[:20]}
    assert _packed(short) is short
    words = {"levels": ["a"], "codes": [0] * 900}
    assert _packed(words) is words
    wide = {"numbers": [1, *(2**40 * i for i in range(900))]}
    assert _packed(wide) is wide
