"""A compiled loop over a column of codes: each to its position among the encoded columns.

Whole numbers come with Arrow's bitmap of what is there: bit ``first + i`` of ``valid`` is 1 where value i is; no bitmap when none
is missing.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.fused.butterfly import JIT


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
