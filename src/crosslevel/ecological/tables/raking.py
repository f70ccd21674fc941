"""Bring tables to their margins, exactly and without negative cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray

A = FloatArray
JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""How the loops of this room are compiled."""

RAKE_ROUNDS, TABLE_ROUNDS = 50, 10


def rake_units(cells: FloatArray, table: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Bring unit tables (n, R, C) to both margins of every unit, and as near to the district's table as these allow.

    Every cell then lies inside its deterministic bounds, and so do the sums.
    """
    independent = x[:, :, None] * y[:, None, :] / x.sum(axis=1)[:, None, None]
    # a floor, since scaling cannot revive a cell that is zero
    seed = np.maximum(cells, 1e-3 * independent)
    rake(seed, np.ascontiguousarray(x), np.ascontiguousarray(y), table, RAKE_ROUNDS)
    return seed


def fit_table(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Scale a table to both margins by iterative proportional fitting, and exactly."""
    fitted = np.maximum(table, 1e-6 * np.outer(rows, columns) / rows.sum())[None]
    rake(fitted, rows[None], columns[None], fitted[0].copy(), TABLE_ROUNDS)
    return fitted[0]


@njit(**JIT)
def rake(cells: A, x: A, y: A, target: A, rounds: int) -> None:
    """Scale cells (n, R, C) in place to the margins of every unit and, while it can be done, to the summed table.

    The last step moves what is left over so that both margins hold exactly and no cell is negative (the rounding of
    Altschuler, Weed and Rigollet 2017), which puts every cell inside its deterministic bounds.
    """
    n, R, C = cells.shape
    total = np.zeros((R, C))
    for _ in range(rounds):
        total[:, :] = 0.0
        for i in range(n):
            for r in range(R):
                for c in range(C):
                    total[r, c] += cells[i, r, c]
        for i in range(n):
            for r in range(R):
                for c in range(C):
                    if total[r, c] > 0.0:
                        cells[i, r, c] *= target[r, c] / total[r, c]
        for i in range(n):
            _fit_margins(cells[i], x[i], y[i], 2)
    for i in range(n):
        _fit_margins(cells[i], x[i], y[i], 20)
        _round_to_margins(cells[i], x[i], y[i])


@njit(**JIT)
def _row_sum(cell: A, r: int) -> float:
    total = 0.0
    for c in range(cell.shape[1]):
        total += cell[r, c]
    return total


@njit(**JIT)
def _column_sum(cell: A, c: int) -> float:
    total = 0.0
    for r in range(cell.shape[0]):
        total += cell[r, c]
    return total


@njit(**JIT)
def _fit_margins(cell: A, x: A, y: A, rounds: int) -> None:
    R, C = cell.shape
    for _ in range(rounds):
        for c in range(C):
            s = _column_sum(cell, c)
            f = y[c] / s if s > 0.0 else 0.0
            for r in range(R):
                cell[r, c] *= f
        for r in range(R):
            s = _row_sum(cell, r)
            f = x[r] / s if s > 0.0 else 0.0
            for c in range(C):
                cell[r, c] *= f


@njit(**JIT)
def _round_to_margins(cell: A, x: A, y: A) -> None:
    R, C = cell.shape
    for r in range(R):
        s = _row_sum(cell, r)
        if s > x[r]:
            for c in range(C):
                cell[r, c] *= x[r] / s
    for c in range(C):
        s = _column_sum(cell, c)
        if s > y[c]:
            for r in range(R):
                cell[r, c] *= y[c] / s
    left_r, left_c = np.empty(R), np.empty(C)
    for r in range(R):
        left_r[r] = x[r]
        for c in range(C):
            left_r[r] -= cell[r, c]
        left_r[r] = max(left_r[r], 0.0)
    for c in range(C):
        left_c[c] = y[c]
        for r in range(R):
            left_c[c] -= cell[r, c]
        left_c[c] = max(left_c[c], 0.0)
    left, left_y = left_r.sum(), left_c.sum()
    if left <= 0.0 or left_y <= 0.0:
        return
    for r in range(R):
        for c in range(C):
            cell[r, c] += left_r[r] * left_c[c] / max(left, left_y)
