"""Add the features of a tile of 64 rows into the sums of the bags, when a row may belong to many bags.

Rows arrive sorted by the bags they belong to. Neighbors with equal membership form a *cell*; a cell's weighted sum is
made once and then added to each of its bags, so twenty overlapping bags cost twenty short additions per cell, not
twenty per row. Everything is float64 from the product with the weight on.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.fused.butterfly import JIT, LANES


@njit(**JIT)
def find_cells(bags, rows, cell_start):
    """Mark the runs of equal membership among the rows of a tile; returns how many there are."""
    cells = 0
    for lane in range(rows.size):
        new = lane == 0
        if not new:
            for k in range(bags.shape[1]):
                if bags[rows[lane], k] != bags[rows[lane - 1], k]:
                    new = True
                    break
        if new:
            cell_start[cells] = lane
            cells += 1
    cell_start[cells] = rows.size
    return cells


@njit(**JIT)
def find_bags(bags, rows, cell_start, cells, slot, bag_list, bag_start, bag_cells):
    """List the bags of a tile and the cells of each (compressed rows); returns how many bags there are.

    ``slot`` has one entry per bag, -1 on entry and on exit.
    """
    found = 0
    for c in range(cells):
        row = rows[cell_start[c]]
        for k in range(bags.shape[1]):
            bag = bags[row, k]
            if bag < 0:
                continue
            if slot[bag] < 0:
                slot[bag] = found
                bag_list[found] = bag
                bag_start[found + 1] = 0
                found += 1
            bag_start[slot[bag] + 1] += 1
    bag_start[0] = 0
    for i in range(found):
        bag_start[i + 1] += bag_start[i]
    for c in range(cells):
        row = rows[cell_start[c]]
        for k in range(bags.shape[1]):
            bag = bags[row, k]
            if bag >= 0:
                bag_cells[bag_start[slot[bag]]] = c
                bag_start[slot[bag]] += 1
    for i in range(found, 0, -1):
        bag_start[i] = bag_start[i - 1]
    bag_start[0] = 0
    for i in range(found):
        slot[bag_list[i]] = -1
    return found


@njit(**JIT)
def _add_weighted(total, phi, width, first, last, weights):
    """``total = sum of weights[r] * phi[r]`` over the rows first..last, four at a time to spare stores."""
    r = first
    w0, p0 = weights[r], phi[r * width : (r + 1) * width]
    for k in range(width):
        total[k] = w0 * p0[k]
    r += 1
    while r + 4 <= last:
        w0, w1, w2, w3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        p0, p1 = phi[r * width : (r + 1) * width], phi[(r + 1) * width : (r + 2) * width]
        p2, p3 = phi[(r + 2) * width : (r + 3) * width], phi[(r + 3) * width : (r + 4) * width]
        for k in range(width):
            total[k] += (w0 * p0[k] + w1 * p1[k]) + (w2 * p2[k] + w3 * p3[k])
        r += 4
    while r < last:
        w0, p0 = weights[r], phi[r * width : (r + 1) * width]
        for k in range(width):
            total[k] += w0 * p0[k]
        r += 1


@njit(**JIT)
def _add_cells(total, cell_sums, width, members):
    """``total += sum of the cells' sums``, eight at a time to spare stores."""
    w = np.uint64(width)
    i = 0
    while i + 8 <= members.size:
        a, b, c, d = w * members[i], w * members[i + 1], w * members[i + 2], w * members[i + 3]
        e, f, g, h = w * members[i + 4], w * members[i + 5], w * members[i + 6], w * members[i + 7]
        for k in range(w):
            total[k] += ((cell_sums[a + k] + cell_sums[b + k]) + (cell_sums[c + k] + cell_sums[d + k])) + (
                (cell_sums[e + k] + cell_sums[f + k]) + (cell_sums[g + k] + cell_sums[h + k])
            )
        i += 8
    while i < members.size:
        a = w * members[i]
        for k in range(w):
            total[k] += cell_sums[a + k]
        i += 1


@njit(**JIT)
def add_features(
    phi, width, used, weights, cell_start, cells, bag_list, bag_start, bag_cells, found, cell_sums, sums, column
):
    """Add ``used`` of the ``width`` features of the tile's rows to columns ``column, column + 1, ...`` of their bags."""
    for c in range(cells):
        _add_weighted(cell_sums[c * width : (c + 1) * width], phi, width, cell_start[c], cell_start[c + 1], weights)
    for i in range(found):
        members = bag_cells[bag_start[i] : bag_start[i + 1]]
        if used == width:
            _add_cells(sums[bag_list[i], column : column + width], cell_sums, width, members)
        else:
            total = sums[bag_list[i]]
            for c in members:
                for k in range(used):
                    total[column + k] += cell_sums[c * width + k]


@njit(**JIT)
def tile_weights(weights, rows, tile):
    """Copy the weights of a tile's rows; lanes without a row get 0."""
    for lane in range(LANES):
        tile[lane] = weights[rows[lane]] if lane < rows.size else np.float64(0.0)


@njit(**JIT)
def mark_bags(bags, present):
    """Set ``present[bag]`` for every bag that has a row."""
    for row in range(bags.shape[0]):
        for k in range(bags.shape[1]):
            if bags[row, k] >= 0:
                present[bags[row, k]] = True


@njit(**JIT)
def tally(bags, weights, lookup, local, count, weight, weight_squared):
    """Renumber the bags by ``lookup`` into ``local`` and add up, in row order, how many rows and weight each has."""
    for row in range(bags.shape[0]):
        w = weights[row]
        for k in range(bags.shape[1]):
            if bags[row, k] < 0:
                local[row, k] = -1
                continue
            bag = lookup[bags[row, k]]
            local[row, k] = bag
            count[bag] += 1
            weight[bag] += w
            weight_squared[bag] += w * w
