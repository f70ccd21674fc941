"""One pass over a piece of rows, from codes to sums, 64 rows at a time: maps without structure, then structured ones.

A categorical row has a few hundred ones, so ``W x`` is a sum of as many columns of ``W``. The matrix is kept in
panels of 64 outputs, ``(n_panels, d, 64)``: a panel of 3,251 columns is 0.8 MB, stays in the second-level cache and
serves all rows of the piece before the next one is touched.

Sine and cosine are in float32, written so that the compiler vectorizes them: the coefficients interpolate the functions at
Chebyshev nodes, and the error stated was measured over the whole range.

A structured map (FastFood or SORF) is

    scatter -> signs -> H -> (permute, scale, H) once or twice -> scale -> cosine and sine -> weighted sums.

Nothing wider than a tile of 64 rows is ever made, and no one-hot vector outside it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.fused.accumulate import add_features, add_lines, open_tile
from crosslevel.numerics.fused.butterfly import JIT, LANES, hadamard_gathered, hadamard_lines

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


PANEL = 64
"""Outputs computed at a time."""

_P = np.uint64(PANEL)


@njit(**JIT)
def _add_reals(panel, columns, x, z, lane):
    """Add real values times the panel's rows to four lanes of ``z``: a row of the panel is read once for all four."""
    i0 = np.uint64(lane) * _P
    i1, i2, i3 = i0 + _P, i0 + _P + _P, i0 + _P + _P + _P
    for c in range(0, x.shape[1], 2):
        # x has an even number of columns; a padded one is 0 and may point anywhere
        a, b = _P * np.uint64(columns[c]), _P * np.uint64(columns[c + 1])
        x0, x1, x2, x3 = x[0, c], x[1, c], x[2, c], x[3, c]
        y0, y1, y2, y3 = x[0, c + 1], x[1, c + 1], x[2, c + 1], x[3, c + 1]
        for k in range(_P):
            p, q = panel[a + k], panel[b + k]
            z[i0 + k] += x0 * p + y0 * q
            z[i1 + k] += x1 * p + y1 * q
            z[i2 + k] += x2 * p + y2 * q
            z[i3 + k] += x3 * p + y3 * q


@njit(**JIT)
def _products(codes, reals, columns, rows, panel, listed, quartet, z):
    """Fill ``z`` (64 x 64) with the products of a tile's rows and a panel.

    ``quartet`` holds the reals of four lanes. All lanes take the same path, those without a row with zeros: a row's
    products then do not depend on its lane.
    """
    z[:] = 0
    for lane in range(rows.size):
        count = 0
        for code in codes[rows[lane]]:
            if code >= 0:
                listed[count] = code
                count += 1
        add_lines(z[lane * PANEL : (lane + 1) * PANEL], panel, PANEL, listed[:count])
    if reals.shape[1] == 0:
        return
    quartet[:] = 0
    for lane in range(0, rows.size, 4):
        for j in range(4):
            values, held = reals[rows[min(lane + j, rows.size - 1)]], quartet[j]
            present = lane + j < rows.size
            for c in range(values.size):
                held[c] = values[c] if present else np.float32(0.0)
        _add_reals(panel, columns, quartet, z, lane)


@njit(**JIT)
def _squares(codes, reals, norms):
    """Squared lengths of all rows of a piece: the number of codes plus the squares of the reals."""
    for row in range(codes.shape[0]):
        square = 0.0
        for code in codes[row]:
            square += 1.0 if code >= 0 else 0.0
        for value in reals[row]:
            square += np.float64(value) * np.float64(value)
        norms[row] = square


@njit(**JIT)
def _gaussian(z, norms, rows, centers, gamma, value):
    """``value = exp(-gamma |x - u|^2)`` from the products in ``z`` and the squared lengths of both."""
    for lane in range(rows.size):
        for k in range(PANEL):
            i = lane * PANEL + k
            value[i] = np.exp(-gamma * max((norms[rows[lane]] + centers[k]) - 2.0 * z[i], 0.0))


@njit(**JIT)
def embed_fourier(piece, arrays, sums, work, tile):
    """Add the sums of a piece, rows in the order given; see ``embed.embed_rows`` and ``plan.Scratch`` for the shapes."""
    codes, reals, real_columns, weights, bags, order = piece
    panels, m = arrays
    chunk, listed, quartet = work
    for p in range(panels.shape[0]):
        first = p * PANEL
        used = min(PANEL, m - first)
        for start in range(0, order.size, LANES):
            rows = order[start : start + LANES]
            cells, found = open_tile(bags, weights, rows, tile)
            _products(codes, reals, real_columns, rows, panels[p], listed, quartet, chunk[0])
            sincos(chunk[0], chunk[1], chunk[2])
            for part in range(2):
                add_features(chunk[1 + part], PANEL, used, tile, cells, found, sums, first + part * m)


@njit(**JIT)
def embed_gaussian(piece, arrays, sums, work, tile):
    """Add the sums of a piece for a map of landmarks, in float64: whitening multiplies rounding errors by up to 3e4."""
    codes, reals, real_columns, weights, bags, order = piece
    panels, centers, gamma = arrays
    chunk, listed, quartet = work
    m = sums.shape[1]
    norms = np.empty(weights.size)
    _squares(codes, reals, norms)
    for p in range(panels.shape[0]):
        first = p * PANEL
        used = min(PANEL, m - first)
        for start in range(0, order.size, LANES):
            rows = order[start : start + LANES]
            cells, found = open_tile(bags, weights, rows, tile)
            _products(codes, reals, real_columns, rows, panels[p], listed, quartet, chunk[0])
            _gaussian(chunk[0], norms, rows, centers[p], gamma, chunk[1])
            add_features(chunk[1], PANEL, used, tile, cells, found, sums, first)


@njit(**JIT)
def embed_linear(piece, sums):
    """Add the weighted rows themselves: the map ``phi(x) = x``."""
    codes, reals, real_columns, weights, bags, order = piece
    for row in order:
        w = weights[row]
        for k in range(bags.shape[1]):
            bag = bags[row, k]
            if bag < 0:
                continue
            total = sums[bag]
            for c in range(codes.shape[1]):
                if codes[row, c] >= 0:
                    total[codes[row, c]] += w
            for c in range(reals.shape[1]):
                total[real_columns[c]] += w * reals[row, c]


CHUNK = 64
"""Frequencies turned into features at a time: long enough for the loops, short enough for the cache (32 is slower)."""


@njit(**JIT)
def scatter(codes, reals, real_columns, rows, signs, tile):
    """Write the signed non-zeros of a tile's rows into their lanes; codes count 1 at their column, -1 is nothing."""
    tile[: signs.size * LANES] = 0
    for lane in range(rows.size):
        row = rows[lane]
        for c in range(codes.shape[1]):
            position = codes[row, c]
            if position >= 0:
                tile[position * LANES + lane] += signs[position]
        for c in range(reals.shape[1]):
            position = real_columns[c]
            tile[position * LANES + lane] += signs[position] * reals[row, c]


@njit(**JIT)
def _bits(n):
    """Smallest number of bits that count n lines."""
    bits = 0
    while (1 << bits) < n:
        bits += 1
    return bits


@njit(**JIT)
def embed_structured(piece, arrays, sums, work, tile):
    """Add the sums of a piece, rows in the order given; see ``embed.embed_rows`` and ``plan.Scratch`` for the shapes."""
    codes, reals, real_columns, weights, bags, order = piece
    signs, perms, scales, lengths = arrays
    tile_a, tile_b, chunk = work
    n_blocks, width = signs.shape
    m = lengths.size
    bits = _bits(width)
    for start in range(0, order.size, LANES):
        rows = order[start : start + LANES]
        cells, found = open_tile(bags, weights, rows, tile)
        for b in range(n_blocks):
            outputs = min(width, m - b * width)
            scatter(codes, reals, real_columns, rows, signs[b], tile_a)
            hadamard_lines(tile_a, bits)
            here, there = tile_a, tile_b
            for s in range(perms.shape[1]):
                wanted = _bits(outputs) if s == perms.shape[1] - 1 else bits
                hadamard_gathered(here, perms[b, s], scales[b, s], width, there, wanted)
                here, there = there, here
            for k in range(0, outputs, CHUNK):
                count = min(CHUNK, outputs - k)
                first = b * width + k
                z, cosine, sine = chunk[0, : count * LANES], chunk[1, : count * LANES], chunk[2, : count * LANES]
                turn_lines(here, k, count, lengths[first : first + count], z)
                sincos(z, cosine, sine)
                add_features(cosine, count, count, tile, cells, found, sums, first)
                add_features(sine, count, count, tile, cells, found, sums, m + first)
