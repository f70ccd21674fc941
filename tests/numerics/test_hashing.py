"""The quick loops over codes give what a dictionary would."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.columns import whole_numbers
from crosslevel.numerics.hashing import (
    MISSING,
    add_numbers,
    finish,
    place_codes,
)

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


WORDS = 2**64


def unsigned(values) -> np.ndarray:
    return np.array([v % WORDS for v in values], dtype=np.uint64)


@pytest.mark.parametrize("share_missing", [0.0, 0.3])
@pytest.mark.parametrize("cut", [slice(0, 40), slice(13, 40)])
def test_products_of_whole_numbers_are_those_of_unlimited_integers(share_missing, cut):
    rng = np.random.default_rng(1)
    array = pa.array(rng.integers(-5, 99, 40), mask=rng.random(40) < share_missing).slice(cut.start)
    factor, before = np.uint64(0x9E3779B97F4A7C15), 7
    out = np.full(len(array), before, dtype=np.uint64)
    with np.errstate(over="ignore"):
        add_numbers(*whole_numbers(array), factor, out)
    codes = [int(MISSING) if v is None else v for v in array.to_pylist()]
    np.testing.assert_array_equal(out, unsigned(before + int(factor) * code for code in codes))


def test_the_last_steps_are_those_of_splitmix64():
    """The first five numbers of SplitMix64 from the seed 1234567, as they are published with the algorithm."""
    state = unsigned(1234567 + k * 0x9E3779B97F4A7C15 for k in range(1, 6))
    with np.errstate(over="ignore"):
        finish(state)
    golden = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert state.tolist() == golden
    zero = np.zeros(1, dtype=np.uint64)
    finish(zero)
    assert zero.tolist() == [1]
