"""Fused loops of the approximation by moments: its likelihood with gradient, and betas moved to the outcomes seen.

Arguments: ``alpha`` (R, C), ``factor`` (n, C), ``x`` (n, R), ``t`` (n, C), ``N`` (n,). Symbols as in ``approximation.py``. Sums run over
units in order, so equal inputs give equal bits.
"""

from __future__ import annotations

import math

import numpy as np

from crosslevel.ecological.tables.raking import JIT
from crosslevel.numerics.compiled import njit
from crosslevel.numerics.small_matrices import invert
from crosslevel.typing import FloatArray

A = FloatArray


@njit(**JIT)
def _moments(alpha: A, factor: A, x: A, N: float, mu: A, size: A, scale: A, theta: A, S: A) -> None:
    """Fill mu (R, C), A (R,), the weights of V_r in S over A_r + 1 (R,), theta (C,) and S (C, C) of one unit."""
    R, C = alpha.shape
    many = max(N, 1.0)
    theta[:] = 0.0
    for r in range(R):
        total = 0.0
        for c in range(C):
            mu[r, c] = alpha[r, c] * factor[c]
            total += mu[r, c]
        size[r] = total
        scale[r] = x[r] * x[r] * (1.0 - 1.0 / many) / (total + 1.0)
        for c in range(C):
            mu[r, c] /= total
            theta[c] += x[r] * mu[r, c]
    for c in range(C):
        for h in range(c + 1):
            s = -theta[c] * theta[h] / many
            for r in range(R):
                s -= scale[r] * mu[r, c] * mu[r, h]
            if h == c:
                s += theta[c] / many + 1e-12
                for r in range(R):
                    s += scale[r] * mu[r, c]
            S[c, h] = s
            S[h, c] = s


@njit(**JIT)
def likelihood(alpha: A, factor: A, x: A, t: A, N: A) -> tuple[float, A]:
    """Give the log likelihood and its gradient by log alpha, (R, C)."""
    n = len(x)
    R, C = alpha.shape
    mu, by_mu = np.empty((R, C)), np.empty(C)
    size, scale, theta, w = np.empty(R), np.empty(R), np.empty(C), np.zeros(C)
    S, L, inverse, G = np.empty((C, C)), np.zeros((C, C)), np.zeros((C, C)), np.zeros((C, C))
    by_theta, along = np.empty(C), np.empty(C)
    slope, value = np.zeros((R, C)), 0.0
    for i in range(n):
        _moments(alpha, factor[i], x[i], N[i], mu, size, scale, theta, S)
        logdet = invert(S, L, inverse, C - 1)
        if not math.isfinite(logdet):
            return -np.inf, np.zeros((R, C))
        fit = 0.0
        for c in range(C - 1):
            w[c] = 0.0
            for h in range(C - 1):
                w[c] += inverse[c, h] * (t[i, h] - theta[h])
            fit += w[c] * (t[i, c] - theta[c])
        value -= 0.5 * (logdet + fit)
        for c in range(C - 1):
            for h in range(C - 1):
                G[c, h] = 0.5 * (w[c] * w[h] - inverse[c, h])
        for c in range(C):
            s = 0.0
            for h in range(C):
                s += G[c, h] * theta[h]
            by_theta[c] = w[c] + (G[c, c] - 2.0 * s) / max(N[i], 1.0)
        for r in range(R):
            mean, spread = 0.0, 0.0
            for c in range(C):
                along[c] = 0.0
                for h in range(C):
                    along[c] += mu[r, h] * G[h, c]
                by_mu[c] = x[i, r] * by_theta[c] + scale[r] * (G[c, c] - 2.0 * along[c])
                mean += mu[r, c] * by_mu[c]
                spread += mu[r, c] * (G[c, c] - along[c])
            by_size = -scale[r] / (size[r] + 1.0) * spread
            for c in range(C):
                slope[r, c] += mu[r, c] * (by_mu[c] - mean) + mu[r, c] * size[r] * by_size
    return value, slope


@njit(**JIT)
def move_betas(alpha: A, factor: A, x: A, t: A, N: A, beta: A, z: A, least: float) -> None:
    """Move betas (n, R, C), given as gamma numbers, to the outcomes seen; z (n, C) are normal numbers."""
    n, R, C = beta.shape
    mu, size, scale, theta = np.empty((R, C)), np.empty(R), np.empty(R), np.empty(C)
    S, L, inverse = np.empty((C, C)), np.zeros((C, C)), np.zeros((C, C))
    drawn, seen, gap = np.empty(C), np.empty(C), np.zeros(C)
    for i in range(n):
        _moments(alpha, factor[i], x[i], N[i], mu, size, scale, theta, S)
        invert(S, L, inverse, C - 1)
        drawn[:] = 0.0
        for r in range(R):
            total = 0.0
            for c in range(C):
                beta[i, r, c] = max(beta[i, r, c], 1e-300)
                total += beta[i, r, c]
            for c in range(C):
                beta[i, r, c] /= total
                drawn[c] += x[i, r] * beta[i, r, c]
        total = 0.0
        for c in range(C):
            seen[c] = drawn[c] + math.sqrt(drawn[c] / max(N[i], 1.0)) * z[i, c]
            total += seen[c]
        for c in range(C):
            seen[c] += drawn[c] * (1.0 - total)
        for c in range(C - 1):
            gap[c] = 0.0
            for h in range(C - 1):
                gap[c] += inverse[c, h] * (t[i, h] - seen[h])
        for r in range(R):
            mean, total = 0.0, 0.0
            for c in range(C):
                mean += mu[r, c] * gap[c]
            for c in range(C):
                # V_r gap without forming V_r = (diag mu_r - mu_r mu_r') / (A_r + 1)
                beta[i, r, c] += x[i, r] / (size[r] + 1.0) * mu[r, c] * (gap[c] - mean)
                beta[i, r, c] = max(beta[i, r, c], least)
                total += beta[i, r, c]
            for c in range(C):
                beta[i, r, c] /= total
