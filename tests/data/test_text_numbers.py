"""Are numbers written as 1,234 or 45 % read where that is asked for, and every other text refused with its row?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crosslevel.data.batches import open_batches
from crosslevel.data.batches.sources import read_text_numbers

from crosslevel.errors import InputError

WRITTEN = {
    "place": ["01001", "01003", "01005"],
    "votes": ["1,234", "5,678,901.5", ""],
    "share": ["45 %", "7.5%", "0.2"],
}
VOTES, SHARE = [1234.0, 5678901.5, None], [0.45, 0.075, 0.2]


def _csv(folder):
    pd.DataFrame(WRITTEN).to_csv(folder / "w.csv", index=False)
    return folder / "w.csv"


def _parquet(folder):
    pq.write_table(pa.table(WRITTEN), folder / "w.parquet", row_group_size=2)
    return folder / "w.parquet"


@pytest.mark.parametrize("source", [_csv, _parquet, lambda _: pd.DataFrame(WRITTEN), lambda _: pl.DataFrame(WRITTEN)])
def test_written_numbers_are_read_on_request_from_any_source(tmp_path, source):
    given = source(tmp_path)
    stream = open_batches(given, text_numbers=["votes", "share"])
    table = stream.to_table()
    assert table["votes"].to_pylist() == VOTES
    np.testing.assert_allclose(table["share"].to_pylist(), SHARE, rtol=1e-15)
    assert table["place"].to_pylist() == WRITTEN["place"]
    assert open_batches(given, where="votes > 2000", text_numbers=["votes"]).to_table()["place"].to_pylist() == [
        "01003"
    ]
    assert stream.select(["share"]).schema.types == [pa.float64()]


@pytest.mark.parametrize("value", ["1,5", "12,34", "oops", ".", "1.234,5", "5 % of 6", "1 234", "$5", "--3"])
def test_other_text_is_refused_with_its_row(value):
    frame = {"votes": ["7"] * 70_000 + [value]}
    with pytest.raises(InputError) as refused:
        open_batches(frame, text_numbers=["votes"]).to_table()
    assert repr(value) in str(refused.value)


def test_signs_exponents_and_blanks():
    values = pa.array([" -1,000 ", "+.5", "2e3", "1.", "0%", None, "  "])
    assert read_text_numbers(values, "x").to_pylist() == [-1000.0, 0.5, 2000.0, 1.0, 0.0, None, None]
