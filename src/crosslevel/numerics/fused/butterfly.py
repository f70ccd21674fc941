"""The Walsh–Hadamard transform of 64 rows at once, interleaved.

A *line* is 64 floats: one coordinate of the 64 rows of a tile. A tile of width ``D`` is ``D`` lines on end, so every
butterfly works on whole lines and vectorizes whatever its stride. Twelve stages over 1 MB would be twelve trips
through the second-level cache; instead six stages at a time run on blocks of 64 lines (16 kB, first-level cache):
two trips for ``D = 4096``.

Offsets are unsigned and constant after inlining: the compiler then proves that the lines do not overlap and needs
neither wrap-around nor overlap checks. Signed or variable offsets make this several times slower.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np

from crosslevel.numerics.compiled import njit

LANES = 64
"""Rows in a tile."""
BLOCK_BITS = 6
"""Stages done at a time: 64 lines of 64 floats are 16 kB."""

_LINE = np.uint64(LANES)
_EIGHT = np.uint64(8 * LANES)
_U0, _U1, _U2, _U4, _U8 = (np.uint64(k) for k in (0, 1, 2, 4, 8))

JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
"""How every kernel is compiled. Only contraction (a*b+c in one rounding) is allowed: reassociation would let the
compiler reorder sums and undo the range reduction of the sine."""


@njit(**JIT)
def _radix2(b, start, n, step):
    for lane in range(n):
        i0 = start + lane
        i1 = i0 + step
        a0, a1 = b[i0], b[i1]
        b[i0] = a0 + a1
        b[i1] = a0 - a1


@njit(**JIT)
def _radix4(b, start, n, step):
    for lane in range(n):
        i0 = start + lane
        i1 = i0 + step
        i2 = i1 + step
        i3 = i2 + step
        a0, a1, a2, a3 = b[i0], b[i1], b[i2], b[i3]
        c0, c1, c2, c3 = a0 + a1, a0 - a1, a2 + a3, a2 - a3
        b[i0] = c0 + c2
        b[i2] = c0 - c2
        b[i1] = c1 + c3
        b[i3] = c1 - c3


@njit(**JIT)
def _radix8(b, start, n, step):
    for lane in range(n):
        i0 = start + lane
        i1 = i0 + step
        i2 = i1 + step
        i3 = i2 + step
        i4 = i3 + step
        i5 = i4 + step
        i6 = i5 + step
        i7 = i6 + step
        a0, a1, a2, a3, a4, a5, a6, a7 = b[i0], b[i1], b[i2], b[i3], b[i4], b[i5], b[i6], b[i7]
        c0, c1, c2, c3 = a0 + a1, a0 - a1, a2 + a3, a2 - a3
        c4, c5, c6, c7 = a4 + a5, a4 - a5, a6 + a7, a6 - a7
        d0, d1, d2, d3 = c0 + c2, c1 + c3, c0 - c2, c1 - c3
        d4, d5, d6, d7 = c4 + c6, c5 + c7, c4 - c6, c5 - c7
        b[i0] = d0 + d4
        b[i1] = d1 + d5
        b[i2] = d2 + d6
        b[i3] = d3 + d7
        b[i4] = d0 - d4
        b[i5] = d1 - d5
        b[i6] = d2 - d6
        b[i7] = d3 - d7


@njit(**JIT)
def hadamard_block(b, start, bits):
    """Transform ``2 ** bits`` (at most 64) neighboring lines that begin at float ``start`` (uint64), in place."""
    if bits == 1:
        _radix2(b, start, _LINE, _LINE)
    elif bits == 2:
        _radix4(b, start, _LINE, _LINE)
    elif bits == 3:
        _radix8(b, start, _LINE, _LINE)
    elif bits == 4:
        for k in range(_U2):
            _radix8(b, start + k * _EIGHT, _LINE, _LINE)
        _radix2(b, start, _EIGHT, _EIGHT)
    elif bits == 5:
        for k in range(_U4):
            _radix8(b, start + k * _EIGHT, _LINE, _LINE)
        _radix4(b, start, _EIGHT, _EIGHT)
    elif bits == 6:
        for k in range(_U8):
            _radix8(b, start + k * _EIGHT, _LINE, _LINE)
        _radix8(b, start, _EIGHT, _EIGHT)


@njit(**JIT)
def hadamard_upper(b, bits):
    """Do the stages above the first six in place, three at a time: long runs, so memory streams."""
    done = BLOCK_BITS
    while done < bits:
        run, left = np.uint64(LANES << done), bits - done
        if left >= 3:
            for k in range(1 << (left - 3)):
                _radix8(b, np.uint64(k) * _U8 * run, run, run)
            done += 3
        elif left == 2:
            _radix4(b, _U0, run, run)
            done += 2
        else:
            _radix2(b, _U0, run, run)
            done += 1


@njit(**JIT)
def hadamard_lines(b, bits):
    """Transform a whole tile of ``2 ** bits`` lines in place: the interleaved twin of ``hadamard.fwht``."""
    low = min(BLOCK_BITS, bits)
    for k in range(1 << (bits - low)):
        hadamard_block(b, np.uint64(k << low) * _LINE, low)
    hadamard_upper(b, bits)


@njit(**JIT)
def _scale(target, source, factor):
    for lane in range(target.size):
        target[lane] = factor * source[lane]


@njit(**JIT)
def _add_scaled(target, source, factor):
    for lane in range(target.size):
        target[lane] += factor * source[lane]


@njit(**JIT)
def hadamard_gathered(source, order, scale, width, target, bits):
    """Scale, permute and transform: the first ``2 ** bits`` rows of ``H diag(scale) P`` applied to ``source``.

    ``source`` has ``width`` lines, ``target`` gets ``2 ** bits``. Row ``r < M = 2 ** bits`` of the Sylvester matrix
    depends on column ``c`` only through ``c mod M``, so when fewer outputs than inputs are wanted the inputs are
    folded first and a smaller transform does the rest.
    """
    size = 1 << bits
    low = min(BLOCK_BITS, bits)
    for k in range(1 << (bits - low)):
        for line in range(k << low, (k + 1) << low):
            out = target[np.uint64(line) * _LINE : np.uint64(line + 1) * _LINE]
            i = np.uint64(order[line]) * _LINE
            _scale(out, source[i : i + _LINE], scale[line])
            for more in range(line + size, width, size):
                i = np.uint64(order[more]) * _LINE
                _add_scaled(out, source[i : i + _LINE], scale[more])
        hadamard_block(target, np.uint64(k << low) * _LINE, low)
    hadamard_upper(target, bits)
