"""Add the features of a tile of 64 rows into the sums of the bags, when a row may belong to many bags.

Rows arrive sorted by the bags they belong to. Neighbors with equal membership form a *cell*; a cell's weighted sum is
made once and then added to each of its bags, so twenty overlapping bags cost twenty short additions per cell, not
twenty per row. Everything is float64 from the product with the weight on.

The working memory of a tile is one tuple, made by ``plan.Scratch``: the sums of its cells, the weights of its lanes, where
its cells start, a slot for every bag of the piece, the tile's bags, where the cells of each start, and those cells.
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
def add_lines(total, lines, width, which):
    """``total += sum of the lines`` named by ``which`` (uint64), each ``width`` long, eight at a time to spare stores."""
    w = np.uint64(width)
    i = 0
    while i + 8 <= which.size:
        a, b, c, d = w * which[i], w * which[i + 1], w * which[i + 2], w * which[i + 3]
        e, f, g, h = w * which[i + 4], w * which[i + 5], w * which[i + 6], w * which[i + 7]
        for k in range(w):
            total[k] += ((lines[a + k] + lines[b + k]) + (lines[c + k] + lines[d + k])) + (
                (lines[e + k] + lines[f + k]) + (lines[g + k] + lines[h + k])
            )
        i += 8
    while i < which.size:
        a = w * which[i]
        for k in range(w):
            total[k] += lines[a + k]
        i += 1


@njit(**JIT)
def open_tile(bags, weights, rows, tile):
    """Find the cells and the bags of a tile's rows and copy their weights; returns how many cells and bags there are."""
    _, lane_weights, cell_start, slot, bag_list, bag_start, bag_cells = tile
    for lane in range(LANES):
        lane_weights[lane] = weights[rows[lane]] if lane < rows.size else np.float64(0.0)
    cells = find_cells(bags, rows, cell_start)
    return cells, find_bags(bags, rows, cell_start, cells, slot, bag_list, bag_start, bag_cells)


@njit(**JIT)
def add_features(phi, width, used, tile, cells, found, sums, column):
    """Add ``used`` of the ``width`` features of the tile's rows to columns ``column, column + 1, ...`` of their bags."""
    cell_sums, weights, cell_start, _, bag_list, bag_start, bag_cells = tile
    for c in range(cells):
        _add_weighted(cell_sums[c * width : (c + 1) * width], phi, width, cell_start[c], cell_start[c + 1], weights)
    for i in range(found):
        members = bag_cells[bag_start[i] : bag_start[i + 1]]
        if used == width:
            add_lines(sums[bag_list[i], column : column + width], cell_sums, width, members)
        else:
            total = sums[bag_list[i]]
            for c in members:
                for k in range(used):
                    total[column + k] += cell_sums[c * width + k]


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
