"""Whole-number codes to positions, and whether all are known: the two loops over every value of a coded column.

Both read Arrow's own buffers, touch each value once and let other threads run meanwhile.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from crosslevel.numerics.fused.butterfly import JIT

__all__ = ["WholeNumbers", "all_seen", "place_codes", "whole_numbers"]


class WholeNumbers(NamedTuple):
    """A column of integers as the loops want it.

    Attributes
    ----------
    values : (n,) int64
        Anything where missing.
    valid : uint8 bitmap
        Arrow's: bit ``first + i`` is 1 where value i is there; empty when none is missing.
    first : int
    """

    values: npt.NDArray[np.int64]
    valid: npt.NDArray[np.uint8]
    first: int


def whole_numbers(array: pa.Array) -> WholeNumbers | None:
    """Look at a column of signed integers (or unsigned ones that fit) without copying its bitmap; None for others."""
    kind = array.type
    if not pa.types.is_integer(kind) or kind == pa.uint64():
        return None
    valid, data = array.buffers()
    raw = np.frombuffer(data, dtype=kind.to_pandas_dtype(), count=len(array) + array.offset)[array.offset :]
    bits = np.zeros(0, np.uint8) if not array.null_count or valid is None else np.frombuffer(valid, np.uint8)
    return WholeNumbers(raw.astype(np.int64), bits, array.offset)


@njit(**JIT)
def _is_missing(valid, at):
    return valid.size > 0 and (valid[at >> 3] >> (at & 7)) & 1 == 0


@njit(**JIT)
def place_codes(values, valid, first, low, positions, offset, missing, out):
    """Write ``offset`` + the position of each value, ``missing`` where there is none; count those without a position.

    ``positions[v - low]`` is the position of the value v, -1 if it is no level; ``missing`` is -1 if missing is none.
    """
    lost = 0
    for i in range(values.size):
        at = values[i] - low
        code = np.int32(-1)
        if _is_missing(valid, first + i):
            code = missing
        elif at >= 0 and at < positions.size and positions[at] >= 0:
            code = np.int32(positions[at] + offset)
        if code < 0:
            lost += 1
        out[i] = code
    return lost


@njit(**JIT)
def all_seen(values, valid, first, low, seen, missing):
    """Tell whether ``seen[v - low]`` holds for every value v, and ``missing`` if one is missing."""
    for i in range(values.size):
        if _is_missing(valid, first + i):
            if not missing:
                return False
            continue
        at = values[i] - low
        if at < 0 or at >= seen.size or not seen[at]:
            return False
    return True
