"""Sine and cosine in float32, written so that the compiler vectorizes them.

The coefficients interpolate the functions at Chebyshev nodes; the error stated was measured over the whole range.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.fused.butterfly import JIT, LANES

_F = np.float32
# Adding and subtracting 1.5 * 2**23 rounds a float32 to the nearest integer.
_ROUND = _F(12582912.0)
_INVERSE_PI = _F(0.3183098861837907)
# pi in three parts of 8, 10 and 24 bits: n times the first two is exact in float32 while |n| < 2**14.
_PI_A, _PI_B, _PI_C = _F(3.140625), _F(0.0009670257568359375), _F(6.2771141529083251953125e-07)
_S1, _S2, _S3, _S4 = (
    _F(c) for c in (-0.1666666567325592, 0.008333242498338223, -0.00019822735339403152, 2.6347413495386718e-06)
)
_C1, _C2, _C3, _C4 = (
    _F(c) for c in (-0.49999991059303284, 0.04166566953063011, -0.0013868606183677912, 2.3475922716897912e-05)
)
_ONE = _F(1.0)


@njit(**JIT)
def sincos(x, cosine, sine):
    """Write cos(x) and sin(x) of a float32 array; absolute error below 1e-6 for ``|x| <= 10,000``.

    ``x = n pi + r`` with ``|r| <= pi / 2``, then ``(-1)**n`` times a polynomial of degree 8 or 9: one sign for both
    and no swap of sine and cosine, so there is nothing to select.
    """
    one, two = np.int32(1), np.int32(2)
    for i in range(x.size):
        n = (x[i] * _INVERSE_PI + _ROUND) - _ROUND
        r = ((x[i] - n * _PI_A) - n * _PI_B) - n * _PI_C
        q = r * r
        sign = _F(one - two * (np.int32(n) & one))
        sine[i] = sign * (r + r * q * (_S1 + q * (_S2 + q * (_S3 + q * _S4))))
        cosine[i] = sign * (_ONE + q * (_C1 + q * (_C2 + q * (_C3 + q * _C4))))


@njit(**JIT)
def turn_lines(tile, first, count, scale, rows):
    """Turn ``count`` lines from ``first`` into 64 rows of ``count`` values, multiplied by ``scale`` (one per line)."""
    for k in range(count):
        line = tile[(first + k) * LANES : (first + k + 1) * LANES]
        s = scale[k]
        for lane in range(LANES):
            rows[lane * count + k] = s * line[lane]
