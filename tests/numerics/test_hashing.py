"""The quick loops over codes give what a dictionary would."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.columns import whole_numbers
from crosslevel.numerics.hashing import all_seen, place_codes

KINDS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
LEVELS = [2, 3, 7, 19]
POSITIONS = np.full(18, -1, dtype=np.int32)
POSITIONS[np.array(LEVELS) - 2] = np.arange(4)


def column(kind: pa.DataType, share_missing: float) -> pa.Array:
    rng = np.random.default_rng(0)
    return pa.array(rng.integers(0, 25, 500), mask=rng.random(500) < share_missing).cast(kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("share_missing", [0.0, 0.3])
@pytest.mark.parametrize("cut", [slice(0, 500), slice(13, 314), slice(497, 500), slice(5, 5)])
def test_positions_are_those_of_a_dictionary(kind, share_missing, cut):
    array = column(kind, share_missing).slice(cut.start, cut.stop - cut.start)
    expected = [99 if v is None else {2: 40, 3: 41, 7: 42, 19: 43}.get(v, -1) for v in array.to_pylist()]
    out = np.zeros((len(array), 2), dtype=np.int32)[:, 1]
    lost = place_codes(*whole_numbers(array), 2, POSITIONS, 40, np.int32(99), out)
    assert out.tolist() == expected
    assert lost == expected.count(-1)


def test_extreme_values_are_no_levels():
    array = pa.array([-(2**63), 2**63 - 1, 2])
    out = np.zeros(3, dtype=np.int32)
    assert place_codes(*whole_numbers(array), 2, POSITIONS, 0, np.int32(-1), out) == 2
    assert out.tolist() == [-1, -1, 0]


def test_missing_is_lost_where_it_is_no_level():
    out = np.zeros(3, dtype=np.int32)
    assert place_codes(*whole_numbers(pa.array([3, None, 7])), 2, POSITIONS, 0, np.int32(-1), out) == 1
    assert out.tolist() == [1, -1, 2]


@pytest.mark.parametrize(
    ("values", "missing", "answer"),
    [
        ([2, 3, 19], False, True),
        ([2, 4], False, False),
        ([2, 1], False, False),
        ([20], False, False),
        ([2, None], False, False),
        ([2, None], True, True),
        ([-(2**63)], True, False),
        ([], False, True),
    ],
)
def test_all_seen(values, missing, answer):
    numbers = whole_numbers(pa.array(values, type=pa.int64()))
    assert all_seen(*numbers, 2, POSITIONS >= 0, missing) is answer


def test_other_types_are_left_to_the_slow_way():
    for array in (pa.array(["a"]), pa.array([1.0]), pa.array([1], type=pa.uint64()), pa.array([True])):
        assert whole_numbers(array) is None
