"""Fused loops of the contextual model: likelihood with gradient, expected cells, and their variance given parameters.

Arguments, everywhere: ``eta`` (R, C) = a + d, ``b``, ``phi``, ``x`` (n, R), ``y`` (n, C), ``H`` (n, C). Symbols as in
``contextual.py``. Sums run over units in order, so equal inputs give equal bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.compiled import njit

A = npt.NDArray[np.float64]
JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

EXTRA = 0.5
"""Added to the diagonal of the multinomial variance, so that a unit without one of the outcomes keeps a proper variance."""


@njit(**JIT)
def _shares(eta: A, b: float, H: A, i: int, p: A) -> None:
    """Fill p (R, C) with the shares of every row in unit i."""
    R, C = eta.shape
    for r in range(R):
        top = -np.inf
        for c in range(C):
            p[r, c] = eta[r, c] + b * H[i, c]
            top = max(top, p[r, c])
        total = 0.0
        for c in range(C):
            p[r, c] = math.exp(p[r, c] - top)
            total += p[r, c]
        for c in range(C):
            p[r, c] /= total


@njit(**JIT)
def _solve(p: A, x: A, y: A, i: int, phi: float, L: A, inverse: A, e: A, w: A) -> float:
    """Fill the inverse of S_i, its Cholesky factor L and w = S_i^-1 e; give log|S_i| (NaN when S is not definite)."""
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
    logdet = 0.0
    for c in range(k):
        for h in range(c + 1):
            s = L[c, h]
            for m in range(h):
                s -= L[c, m] * L[h, m]
            if h == c:
                if not s > 0.0:
                    return np.nan
                L[c, c] = math.sqrt(s)
                logdet += math.log(s)
            else:
                L[c, h] = s / L[h, h]
    # inverse: columns of L^-1 first (upper part of `inverse` serves as scratch), then L^-T L^-1
    for c in range(k):
        for h in range(c, k):
            s = 1.0 if h == c else 0.0
            for m in range(c, h):
                s -= L[h, m] * inverse[c, m]
            inverse[c, h] = s / L[h, h]
    for c in range(k):
        for h in range(c, k):
            s = 0.0
            for m in range(h, k):
                s += inverse[c, m] * inverse[h, m]
            L[h, c] = s  # L is no longer needed
    for c in range(k):
        for h in range(c + 1):
            inverse[c, h] = L[c, h]
            inverse[h, c] = L[c, h]
    for c in range(k):
        s = 0.0
        for h in range(k):
            s += inverse[c, h] * e[h]
        w[c] = s
    w[k] = 0.0
    return logdet


@njit(**JIT)
def likelihood(eta: A, b: float, phi: float, x: A, y: A, H: A) -> tuple[float, A, float]:
    """Give log L, its gradient by eta (R, C) and by log phi."""
    n, R = x.shape
    C = y.shape[1]
    p, slope = np.empty((R, C)), np.zeros((R, C))
    L, inverse = np.empty((C, C)), np.zeros((C, C))
    e, w, g = np.zeros(C), np.zeros(C), np.empty(C)
    value, by_phi = 0.0, 0.0
    for i in range(n):
        _shares(eta, b, H, i, p)
        logdet = _solve(p, x, y, i, phi, L, inverse, e, w)
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
def expected_cells(eta: A, b: float, phi: float, x: A, y: A, H: A, cells: A) -> None:
    """Fill cells (n, R, C) with the expected inner tables given both margins."""
    n, R = x.shape
    C = y.shape[1]
    p, L, inverse = np.empty((R, C)), np.empty((C, C)), np.zeros((C, C))
    e, w = np.zeros(C), np.zeros(C)
    for i in range(n):
        _shares(eta, b, H, i, p)
        _solve(p, x, y, i, phi, L, inverse, e, w)
        for r in range(R):
            wp = 0.0
            for c in range(C):
                wp += w[c] * p[r, c]
            for c in range(C):
                cells[i, r, c] = x[i, r] * p[r, c] * (1.0 + phi * (w[c] - wp))


@njit(**JIT)
def expected_tables(etas: A, bs: A, phis: A, x: A, y: A, H: A) -> A:
    """Give the summed expected table of every draw: (n_draws, R, C)."""
    n, R = x.shape
    C = y.shape[1]
    tables = np.zeros((len(bs), R, C))
    p, L, inverse = np.empty((R, C)), np.empty((C, C)), np.zeros((C, C))
    e, w = np.zeros(C), np.zeros(C)
    for s in range(len(bs)):
        for i in range(n):
            _shares(etas[s], bs[s], H, i, p)
            _solve(p, x, y, i, phis[s], L, inverse, e, w)
            for r in range(R):
                wp = 0.0
                for c in range(C):
                    wp += w[c] * p[r, c]
                for c in range(C):
                    tables[s, r, c] += x[i, r] * p[r, c] * (1.0 + phis[s] * (w[c] - wp))
    return tables


@njit(**JIT)
def cell_variance(eta: A, b: float, phi: float, x: A, y: A, H: A) -> A:
    """Give the variance of the summed table given parameters: (R, C), in squared counts."""
    n, R = x.shape
    C = y.shape[1]
    total = np.zeros((R, C))
    p, L, inverse = np.empty((R, C)), np.empty((C, C)), np.zeros((C, C))
    e, w, v = np.zeros(C), np.zeros(C), np.empty(C)
    for i in range(n):
        _shares(eta, b, H, i, p)
        _solve(p, x, y, i, phi, L, inverse, e, w)
        for r in range(R):
            for c in range(C):
                for h in range(C):
                    v[h] = -p[r, c] * p[r, h]
                v[c] += p[r, c]
                known = 0.0
                for h in range(C - 1):
                    for m in range(C - 1):
                        known += v[h] * inverse[h, m] * v[m]
                total[r, c] += phi * x[i, r] * v[c] - phi * phi * x[i, r] * x[i, r] * known
    return total


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
def _fit_margins(cell: A, x: A, y: A, rounds: int) -> None:
    R, C = cell.shape
    for _ in range(rounds):
        for c in range(C):
            s = 0.0
            for r in range(R):
                s += cell[r, c]
            f = y[c] / s if s > 0.0 else 0.0
            for r in range(R):
                cell[r, c] *= f
        for r in range(R):
            s = 0.0
            for c in range(C):
                s += cell[r, c]
            f = x[r] / s if s > 0.0 else 0.0
            for c in range(C):
                cell[r, c] *= f


@njit(**JIT)
def _round_to_margins(cell: A, x: A, y: A) -> None:
    R, C = cell.shape
    for r in range(R):
        s = 0.0
        for c in range(C):
            s += cell[r, c]
        if s > x[r]:
            for c in range(C):
                cell[r, c] *= x[r] / s
    for c in range(C):
        s = 0.0
        for r in range(R):
            s += cell[r, c]
        if s > y[c]:
            for r in range(R):
                cell[r, c] *= y[c] / s
    left_r, left_c = np.empty(R), np.empty(C)
    left = 0.0
    for r in range(R):
        s = x[r]
        for c in range(C):
            s -= cell[r, c]
        left_r[r] = max(s, 0.0)
        left += left_r[r]
    left_y = 0.0
    for c in range(C):
        s = y[c]
        for r in range(R):
            s -= cell[r, c]
        left_c[c] = max(s, 0.0)
        left_y += left_c[c]
    if left <= 0.0 or left_y <= 0.0:
        return
    for r in range(R):
        for c in range(C):
            cell[r, c] += left_r[r] * left_c[c] / max(left, left_y)
