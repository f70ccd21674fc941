"""One pass over a piece of rows with a structured map (FastFood or SORF): from codes to sums, 64 rows at a time.

scatter -> signs -> H -> (permute, scale, H) once or twice -> scale -> cosine and sine -> weighted sums.
Nothing wider than a tile of 64 rows is ever made, and no one-hot vector outside it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.fused.accumulate import add_features, open_tile
from crosslevel.numerics.fused.butterfly import JIT, LANES, hadamard_gathered, hadamard_lines
from crosslevel.numerics.fused.elementary import sincos, turn_lines

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
