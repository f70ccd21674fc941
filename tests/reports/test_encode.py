from __future__ import annotations

import json

import pyarrow as pa

from crosslevel.reports.page import encode_column


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
