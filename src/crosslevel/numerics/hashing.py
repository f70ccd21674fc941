"""Compiled loops over columns of codes: codes to positions, a hash of what every row holds, and the weight of each hash.

Whole numbers come with Arrow's bitmap of what is there: bit ``first + i`` of ``valid`` is 1 where value i is; no bitmap when none
is missing. Hashes are 64-bit unsigned: in compiled code a signed and an unsigned number make a float.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.fused.butterfly import JIT

MISSING = np.uint64(0x5851F42D4C957F2D)
"""What stands for a missing value."""
ONE, WORD, FOLD, LOW = np.uint64(1), np.uint64(32), np.uint64(20), np.uint64(11)
MAGNITUDE, INFINITE = np.uint64(0x7FFFFFFFFFFFFFFF), np.uint64(0x7FF0000000000000)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@njit(**JIT)
def add_numbers(values, valid, first, factor, out):
    """Add ``factor`` times each whole number to ``out``; ``valid`` and ``first`` are the bitmap."""
    if valid.size == 0:
        for i in range(values.size):
            out[i] += factor * np.uint64(values[i])
        return
    for i in range(values.size):
        at = first + i
        there = np.uint64(0) - np.uint64(
            (valid[at >> 3] >> (at & 7)) & 1
        )  # all bits or none: a branch would be guessed
        out[i] += factor * (MISSING ^ ((MISSING ^ np.uint64(values[i])) & there))


@njit(**JIT)
def add_reals(bits, factor, out):
    """Add ``factor`` times the bits of each float to ``out``, NaN being missing.

    Round numbers end in fifty zeros, and so would their products: the high bits are folded onto the low ones.
    """
    for i in range(bits.size):
        b = bits[i]
        if (b & MAGNITUDE) > INFINITE:
            b = MISSING
        else:
            b ^= b >> WORD
            b ^= b >> FOLD
        out[i] += factor * b


@njit(**JIT)
def finish(out):
    """Scramble sums of products into numbers that look drawn at random (SplitMix64's last steps); none is 0."""
    for i in range(out.size):
        z = out[i]
        z = (z ^ (z >> SHIFTS[0])) * FIRST
        z = (z ^ (z >> SHIFTS[1])) * SECOND
        out[i] = max(z ^ (z >> SHIFTS[2]), ONE)


@njit(**JIT)
def leading_zeros(h):
    """Count the zeros before the first 1 of a number that is not 0."""
    count = 0
    for step in (32, 16, 8, 4, 2, 1):
        if h >> np.uint64(64 - step) == np.uint64(0):
            count += step
            h <<= np.uint64(step)
    return count


@njit(**JIT)
def _slot(h, hashes):
    """Find the slot of h, or the empty one where it belongs; the table has a power of two of slots."""
    last = np.uint64(hashes.size - 1)
    at = (h * FIRST) & last  # h itself is small when many numbers were let go
    while hashes[at] != np.uint64(0) and hashes[at] != h:
        at = (at + ONE) & last
    return at


@njit(**JIT)
def find(wanted, hashes):
    """Give the slots of numbers; an empty one for those that are not in the table."""
    out = np.empty(wanted.size, np.int64)
    for i in range(wanted.size):
        out[i] = np.int64(_slot(wanted[i], hashes))
    return out


@njit(**JIT)
def _is_needed(h, weight, most):
    """Tell whether the key -log(1 - u) / weight, with u in (0, 1) made of h, is at most that of its leading zeros."""
    u = (float(h >> LOW) + 0.5) / 9007199254740992.0
    reach = most[leading_zeros(h)] * weight
    return u <= reach and -math.log1p(-u) <= reach  # the first is quick, and nearly always enough


@njit(**JIT)
def add_weights(h, w, limit, hashes, weights, held, most):
    """Add the weights of numbers up to ``limit`` to a table that has room.

    Gives how many numbers are new, and the rows whose number is now needed and was not held: it is from now on.
    """
    out, n, new = np.empty(h.size, np.int64), 0, 0
    for i in range(h.size):
        if h[i] > limit or not w[i] > 0.0:
            continue
        at = _slot(h[i], hashes)
        if hashes[at] == np.uint64(0):
            hashes[at] = h[i]
            new += 1
        weights[at] += w[i]
        if _is_needed(h[i], weights[at], most) and not held[at]:
            held[at] = True
            out[n] = i
            n += 1
    return new, out[:n]


@njit(**JIT)
def move(hashes, weights, held, limit, new_hashes, new_weights, new_held):
    """Bring the numbers up to ``limit`` into an empty table; give how many they are."""
    n = 0
    for i in range(hashes.size):
        if hashes[i] != np.uint64(0) and hashes[i] <= limit:
            at = _slot(hashes[i], new_hashes)
            new_hashes[at], new_weights[at], new_held[at] = hashes[i], weights[i], held[i]
            n += 1
    return n


@njit(**JIT)
def let_go(hashes, weights, held, most):
    """Hold no longer what is no longer needed; give how many numbers still are."""
    n = 0
    for at in range(hashes.size):
        if held[at]:
            held[at] = _is_needed(hashes[at], weights[at], most)
            n += held[at]
    return n


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
