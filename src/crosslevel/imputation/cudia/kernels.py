"""Compiled passes over the pairs: draws of the clusters, and what responsibilities say of the hidden means of places."""

from __future__ import annotations

import numpy as np

from crosslevel.numerics.compiled import njit

LEAST = 1e-300
"""A mix is never less: a step too far can bring the only cluster that a row fits to nothing, and then nothing could be divided."""


@njit()
def draw_counts(f, pi, cell, atom, count, weight, rng):  # type: ignore[no-untyped-def]
    """Draw how many people of each pair are in each cluster, given pi.

    Returns
    -------
    counts : (R, K) int, by_cell : (C, K), by_atom : (A, K)
        Draws, and their sums with the pair's weight a person.
    """
    C, K = f.shape
    counts = np.zeros((len(cell), K), dtype=np.int64)
    by_cell, by_atom = np.zeros((C, K)), np.zeros(pi.shape)
    r = np.empty(K)
    for i in range(len(cell)):
        c, a = cell[i], atom[i]
        total = 0.0
        for k in range(K):
            r[k] = max(pi[a, k], LEAST) * f[c, k]
            total += r[k]
        left = count[i]
        each = weight[i] / count[i]
        for k in range(K):
            if left == 0:
                break
            if k == K - 1:
                n = left
            elif left == 1:
                n = 1 if rng.random() * total < r[k] else 0
            else:
                share = r[k] / total if total > 0.0 else 1.0
                n = rng.binomial(left, min(max(share, 0.0), 1.0))
            total -= r[k]
            left -= n
            counts[i, k] = n
            by_cell[c, k] += n * each
            by_atom[a, k] += n * each
    return counts, by_cell, by_atom


@njit()
def mean_field(f, pi, cell, atom, weight, second):  # type: ignore[no-untyped-def]
    """Moments of the hidden mean of each atom given x: what responsibilities alone say.

    Parameters
    ----------
    second : (K, d)
        Cluster means eta.

    Returns
    -------
    mean_r : (A, K)
        Sum of weight times responsibility.
    cross : (A, d, d)
        Sum of weight times ``e e'``, e = sum_k r_k eta_k.
    """
    K, d = second.shape
    A = pi.shape[0]
    mean_r, cross = np.zeros((A, K)), np.zeros((A, d, d))
    r, e = np.empty(K), np.empty(d)
    for i in range(len(cell)):
        c, a, w = cell[i], atom[i], weight[i]
        total = 0.0
        for k in range(K):
            r[k] = max(pi[a, k], LEAST) * f[c, k]
            total += r[k]
        e[:] = 0.0
        for k in range(K):
            r[k] /= total
            mean_r[a, k] += w * r[k]
            for j in range(d):
                e[j] += r[k] * second[k, j]
        for j in range(d):
            for q in range(d):
                cross[a, j, q] += w * e[j] * e[q]
    return mean_r, cross


@njit()
def tilt(f, pi, cell, atom, weight, H, by_r, by_cross):  # type: ignore[no-untyped-def]
    """Gradient of a function of :func:`mean_field` in the logits log pi_k + log f_k.

    Parameters
    ----------
    by_r : (A, K), by_cross : (A, d, d)
        Gradient in ``mean_r`` and ``cross``.

    Returns
    -------
    by_cell : (C, K), by_atom : (A, K), by_H : (K, d)
        The last is the part of the gradient in eta that goes through ``cross``.
    """
    C, K = f.shape
    d = H.shape[1]
    by_cell, by_atom, by_H = np.zeros((C, K)), np.zeros(pi.shape), np.zeros((K, d))
    r, e, weighted, g = np.empty(K), np.empty(d), np.empty(d), np.empty(K)
    for i in range(len(cell)):
        c, a, w = cell[i], atom[i], weight[i]
        total = 0.0
        for k in range(K):
            r[k] = max(pi[a, k], LEAST) * f[c, k]
            total += r[k]
        e[:] = 0.0
        for k in range(K):
            r[k] /= total
            for j in range(d):
                e[j] += r[k] * H[k, j]
        for j in range(d):
            weighted[j] = 0.0
            for q in range(d):
                weighted[j] += (by_cross[a, j, q] + by_cross[a, q, j]) * e[q]
        mean = 0.0
        for k in range(K):
            g[k] = by_r[a, k]
            for j in range(d):
                g[k] += weighted[j] * H[k, j]
                by_H[k, j] += w * r[k] * weighted[j]
            mean += r[k] * g[k]
        for k in range(K):
            slope = w * r[k] * (g[k] - mean)
            by_cell[c, k] += slope
            by_atom[a, k] += slope
    return by_cell, by_atom, by_H
