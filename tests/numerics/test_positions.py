"""The quick loops over codes give what a dictionary would."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.columns import whole_numbers
from crosslevel.numerics.positions import place_codes

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
