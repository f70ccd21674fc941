"""Do equal people have equal numbers however they are stored, and different people different ones?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.data.sketch import Hashes


def numbers(values, categorical=True, seed=0):
    batch = pa.record_batch({"c": values}) if isinstance(values, pa.Array) else values
    return Hashes(dict.fromkeys(batch.schema.names, categorical), seed)(batch)


WHOLE = [3, 0, None, -7, 3]
TEXT = ["b", "a", None, "", "b"]
HALVES = [0.5, 0.0, None, -1e300, 0.5]


@pytest.mark.parametrize(
    ("plain", "others"),
    [
        (
            pa.array(WHOLE, pa.int64()),
            [
                pa.array(WHOLE, pa.int8()),
                pa.array(WHOLE, pa.float32()),
                pa.array([3.0, -0.0, float("nan"), -7.0, 3.0]),
                pa.array(WHOLE, pa.int16()).dictionary_encode(),
                pa.DictionaryArray.from_arrays(pa.array([2, 1, 3, 0, 2], pa.int8()), pa.array([-7.0, 0.0, 3.0, None])),
                pa.array([9, *WHOLE], pa.int32())[1:],
            ],
        ),
        (
            pa.array(TEXT, pa.string()),
            [
                pa.array(TEXT, pa.large_string()),
                pa.array(TEXT).dictionary_encode(),
                pa.DictionaryArray.from_arrays(
                    pa.array([0, 3, 1, 4, 0], pa.int8()), pa.array(["b", None, "z", "a", ""])
                ),
                pa.array(pd.Categorical(TEXT)),
                pl.Series(TEXT, dtype=pl.Categorical).to_arrow(),
            ],
        ),
        (pa.array(HALVES), [pa.array([0.5, -0.0, float("nan"), -1e300, 0.5]), pa.array(HALVES).dictionary_encode()]),
        (pa.array([True, False, None, True]), [pa.array([True, False, None, True]).dictionary_encode()]),
    ],
)
def test_a_category_has_one_number_however_it_is_stored(plain, others):
    expected = numbers(plain)
    assert len(np.unique(expected)) == len(plain.unique())
    for other in others:
        np.testing.assert_array_equal(numbers(other), expected)


def test_a_number_has_one_number_however_it_is_stored():
    expected = numbers(pa.array(WHOLE, pa.float64()), categorical=False)
    assert len(np.unique(expected)) == 4
    for kind in (pa.int8(), pa.int64(), pa.float32(), pa.decimal128(21, 2)):
        np.testing.assert_array_equal(numbers(pa.array(WHOLE).cast(kind), categorical=False), expected)
    np.testing.assert_array_equal(numbers(pa.array([3, -0.0, np.nan, -7, 3]), categorical=False), expected)


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("scale", [1, 0.25, 2.0**40])
def test_different_people_have_different_numbers(categorical, scale):
    """Round numbers too, whose bits end in zeros, and exchanged columns."""
    a, b = np.meshgrid(np.arange(-150, 150) * scale, np.arange(-150, 150) * scale)
    batch = pa.record_batch({"a": a.ravel(), "b": b.ravel()})
    assert len(np.unique(numbers(batch, categorical))) == a.size
