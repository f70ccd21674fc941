"""Fused loops of the contextual model: likelihood with gradient, expected cells, and their variance given parameters.

Arguments, everywhere: ``eta`` (R, C) = a + d, ``b``, ``phi``, ``x`` (n, R), ``y`` (n, C), ``H`` (n, C) and ``F`` (n, C), what
covariates add. Symbols as in
``model.py``. Sums run over units in order, so equal inputs give equal bits.
"""

from __future__ import annotations

import math

import numpy as np

from crosslevel.ecological.tables.raking import JIT
from crosslevel.numerics.compiled import njit
from crosslevel.numerics.small_matrices import invert
from crosslevel.typing import FloatArray

A = FloatArray
Room = tuple[A, A, A, A, A]  # p, L, inverse, e and w, in which one unit after the other is worked out
Data = tuple[A, A, A, A]  # x, y, H, F

EXTRA = 0.5
"""Added to the diagonal of the multinomial variance, so that a unit without one of the outcomes keeps a proper variance."""


@njit(**JIT)
def _shares(eta: A, b: float, H: A, F: A, i: int, p: A) -> None:
    """Fill p (R, C) with the shares of every row in unit i."""
    R, C = eta.shape
    for r in range(R):
        top = -np.inf
        for c in range(C):
            p[r, c] = eta[r, c] + b * H[i, c] + F[i, c]
            top = max(top, p[r, c])
        total = 0.0
        for c in range(C):
            p[r, c] = math.exp(p[r, c] - top)
            total += p[r, c]
        for c in range(C):
            p[r, c] /= total


@njit(**JIT)
def _solve(room: Room, x: A, y: A, i: int, phi: float) -> float:
    """Fill the inverse of S_i, its Cholesky factor L and w = S_i^-1 e; give log|S_i| (NaN when S is not definite)."""
    p, L, inverse, e, w = room
    R, C = p.shape
    k = C - 1
    for c in range(k):
        mu = 0.0
        for r in range(R):
            mu += x[i, r] * p[r, c]
        e[c] = y[i, c] - mu
        for h in range(c + 1):
            s = 0.0
            for r in range(R):
                s -= x[i, r] * p[r, c] * p[r, h]
            if h == c:
                s += mu + EXTRA
            L[c, h] = phi * s
    logdet: float = invert(L, L, inverse, k)
    if not math.isfinite(logdet):
        return logdet
    for c in range(k):
        s = 0.0
        for h in range(k):
            s += inverse[c, h] * e[h]
        w[c] = s
    w[k] = 0.0
    return logdet


@njit(**JIT)
def likelihood(eta: A, b: float, phi: float, x: A, y: A, H: A, F: A) -> tuple[float, A, float]:
    """Give log L, its gradient by eta (R, C) and by log phi."""
    n, R = x.shape
    C = y.shape[1]
    slope, g = np.zeros((R, C)), np.empty(C)
    room = _room(R, C)
    p, _, inverse, e, w = room
    value, by_phi = 0.0, 0.0
    for i in range(n):
        _shares(eta, b, H, F, i, p)
        logdet = _solve(room, x, y, i, phi)
        if not math.isfinite(logdet):
            return np.nan, slope, np.nan
        fit = 0.0
        for c in range(C - 1):
            fit += e[c] * w[c]
        value -= 0.5 * (logdet + fit)
        by_phi += 0.5 * (fit - (C - 1))
        for r in range(R):
            if x[i, r] == 0.0:
                continue
            wp = 0.0
            for c in range(C - 1):
                wp += w[c] * p[r, c]
            mean = 0.0
            for c in range(C):
                g[c] = 0.0
                if c < C - 1:
                    ip = 0.0
                    for h in range(C - 1):
                        ip += inverse[c, h] * p[r, h]
                    # w_c + G_cc - 2 (G p)_c with G = phi/2 (w w' - S^-1)
                    g[c] = w[c] + 0.5 * phi * (w[c] * w[c] - inverse[c, c]) - phi * (w[c] * wp - ip)
                mean += p[r, c] * g[c]
            for c in range(C):
                slope[r, c] += x[i, r] * p[r, c] * (g[c] - mean)
    return value, slope, by_phi


@njit(**JIT)
def _expected(eta: A, b: float, phi: float, data: Data, i: int, room: Room, cell: A) -> None:
    """Fill cell (R, C) with the expected inner table of unit i."""
    x, y, H, F = data
    p, _, _, _, w = room
    _shares(eta, b, H, F, i, p)
    _solve(room, x, y, i, phi)
    R, C = cell.shape
    for r in range(R):
        wp = 0.0
        for c in range(C):
            wp += w[c] * p[r, c]
        for c in range(C):
            cell[r, c] = x[i, r] * p[r, c] * (1.0 + phi * (w[c] - wp))


@njit(**JIT)
def _room(R: int, C: int) -> Room:
    """Make the arrays that one unit after the other is worked out in: p, L, inverse, e and w."""
    return np.empty((R, C)), np.empty((C, C)), np.zeros((C, C)), np.zeros(C), np.zeros(C)


@njit(**JIT)
def expected_cells(eta: A, b: float, phi: float, x: A, y: A, H: A, F: A, cells: A) -> None:
    """Fill cells (n, R, C) with the expected inner tables given both margins."""
    room = _room(x.shape[1], y.shape[1])
    for i in range(len(x)):
        _expected(eta, b, phi, (x, y, H, F), i, room, cells[i])


@njit(**JIT)
def expected_tables(etas: A, bs: A, phis: A, x: A, y: A, H: A, F: A) -> tuple[A, A, A]:
    """Give the summed expected table of every draw, (n_draws, R, C), and the units' sums over draws of cells and their squares."""
    n, R, C = len(x), x.shape[1], y.shape[1]
    tables, cell, room = np.zeros((len(bs), R, C)), np.empty((R, C)), _room(R, C)
    total, square = np.zeros((n, R, C)), np.zeros((n, R, C))
    for i in range(n):
        for s in range(len(bs)):
            _expected(etas[s], bs[s], phis[s], (x, y, H, F), i, room, cell)
            for r in range(R):
                for c in range(C):
                    tables[s, r, c] += cell[r, c]
                    total[i, r, c] += cell[r, c]
                    square[i, r, c] += cell[r, c] * cell[r, c]
    return tables, total, square


@njit(**JIT)
def cell_variance(eta: A, b: float, phi: float, x: A, y: A, H: A, F: A) -> A:
    """Give the variance of every unit's cells given parameters: (n, R, C), in squared counts."""
    n, R, C = len(x), x.shape[1], y.shape[1]
    found, v = np.empty((n, R, C)), np.empty(C)
    room = _room(R, C)
    p, _, inverse, _, _ = room
    for i in range(n):
        _shares(eta, b, H, F, i, p)
        _solve(room, x, y, i, phi)
        for r in range(R):
            for c in range(C):
                for h in range(C):
                    v[h] = -p[r, c] * p[r, h]
                v[c] += p[r, c]
                known = 0.0
                for h in range(C - 1):
                    for m in range(C - 1):
                        known += v[h] * inverse[h, m] * v[m]
                found[i, r, c] = phi * x[i, r] * v[c] - phi * phi * x[i, r] * x[i, r] * known
    return found
