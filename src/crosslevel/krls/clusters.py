"""Robust errors when observations come in clusters: residuals of fits that have not seen the cluster (CR3).

For the pairs (distinct row, cluster) of one cluster, of weights n and mean residuals r, the fit without the cluster has
the residuals x with

    [ I - n/m + penalty M^-1/2 P M^-1/2 n ] x = r,

P restricted to the cluster's rows. The covariance is (G - 1)/G sum_g psi_g psi_g' with psi_g = sum_c W_c n_c x_c. Sandwiches
of ordinary residuals do not suffice: the fit absorbs what the members of a cluster share.

With k eigenvectors and a cluster of more pairs than that, the system is the identity less a product of rank k + P + 1,
I - A C A' n with A = M^-1/2 [Q, G^-1 H] and C = diag(w / (w + penalty), penalty M_H), and x = r + A (I - C A'n A)^-1 C A'n r.
"""

from __future__ import annotations

import numpy as np

from crosslevel.krls.collapse import Cells, Clusters
from crosslevel.krls.inference import ALONE, Residuals, Weights, check_identified
from crosslevel.krls.spectrum import Spectrum
from crosslevel.typing import FloatArray, IntArray

__all__ = ["cluster_scores", "cr3"]


BLOCK = 2**21
"""Entries of the eigenvectors gathered at once."""
GATHER = 80
"""Multiplications in the time it takes to fetch one entry of a scattered row; decides whether G^-1 is made whole."""

WIDER = 1.5
"""A cluster with more pairs than this many times the eigenvectors is solved among the eigenvectors."""


def cr3(spectrum: Spectrum, cells: Cells, found: Residuals, weights: Weights) -> tuple[FloatArray, int]:
    """Give the covariance of all effects, (E, E), and how many clusters the linear part could not do without."""
    psi, alone = cluster_scores(spectrum, cells, found, weights)
    G = len(psi)
    check_identified(alone, G, "clusters")
    return (G - 1) / G * (psi.T @ psi), alone


def cluster_scores(spectrum: Spectrum, cells: Cells, found: Residuals, weights: Weights) -> tuple[FloatArray, int]:
    """Give psi_g for every cluster, (G, E): the change in the estimates when the cluster is left out, to first order."""
    clusters = cells.clusters
    assert clusters is not None
    psi = np.empty((len(clusters), weights.W.shape[1]))
    sizes = np.diff(clusters.start)
    alone = 0
    whole = None
    k = len(spectrum.w)
    wide = np.flatnonzero(sizes > WIDER * k) if not spectrum.complete else np.empty(0, dtype=np.intp)
    for g in wide:
        pairs = np.arange(clusters.start[g], clusters.start[g + 1])
        x, unfit = _left_out_wide(spectrum, cells, clusters, found, pairs)
        alone += unfit
        psi[g] = (clusters.n[pairs] * x) @ weights.W[clusters.cell[pairs]]
    sizes = sizes.copy()
    sizes[wide] = 0
    if np.sum(sizes**2) + GATHER * np.sum(sizes) > len(spectrum) ** 2:
        whole = spectrum.inverse(found.penalty)
    for size in np.unique(sizes[sizes > 0]):
        members = np.flatnonzero(sizes == size)
        step = max(1, BLOCK // (int(size) * k))
        for start in range(0, len(members), step):
            chosen = members[start : start + step]
            pairs = clusters.start[chosen][:, None] + np.arange(size)
            u, n = clusters.cell[pairs], clusters.n[pairs]
            Gi = spectrum.inverse_blocks(u, found.penalty) if whole is None else whole[u[:, :, None], u[:, None, :]]
            x, unfit = _left_out(Gi, cells, clusters, found, pairs)
            alone += unfit
            psi[chosen] = np.einsum("bi,bie->be", n * x, weights.W[u])
    return psi, alone


def _left_out_wide(
    spectrum: Spectrum, cells: Cells, clusters: Clusters, found: Residuals, pairs: IntArray
) -> tuple[FloatArray, int]:
    """Solve for the residuals of the fit without one cluster that has more pairs than there are eigenvectors, (size,)."""
    u, n = clusters.cell[pairs], clusters.n[pairs]
    root = np.sqrt(cells.m[u])[:, None]
    apart = clusters.mean[pairs] - cells.mean[u]
    shrink = spectrum.w / (spectrum.w + found.penalty)
    A = spectrum.rows(u) * np.sqrt(shrink) / root
    plain = np.eye(A.shape[1]) - A.T @ (n[:, None] * A)
    values = np.linalg.eigvalsh(plain)
    r, S = found.plain_e[u] + apart, plain
    alone = 0
    if found.linear is not None:
        values_H, vectors = np.linalg.eigh(found.penalty * found.linear.M)
        H = found.linear.GiH[u] @ (vectors * np.sqrt(np.maximum(values_H, 0.0))) / root
        both = np.concatenate([A, H], axis=1)
        full = np.eye(both.shape[1]) - both.T @ (n[:, None] * both)
        if np.linalg.eigvalsh(full)[0] > ALONE * min(values[0], 1.0):
            A, S, r = both, full, found.e[u] + apart
        else:
            alone = 1
    return r + A @ np.linalg.solve(S, A.T @ (n * r)), alone


def _left_out(
    Gi: FloatArray, cells: Cells, clusters: Clusters, found: Residuals, pairs: IntArray
) -> tuple[FloatArray, int]:
    """Solve for the residuals of fits without each of some clusters of one size, (b, size), given G^-1 there."""
    u, n = clusters.cell[pairs], clusters.n[pairs]
    apart = clusters.mean[pairs] - cells.mean[u]
    S, r = _system(Gi, cells.m[u], n, found.penalty), found.plain_e[u] + apart
    alone = 0
    if found.linear is not None:
        B = found.linear.GiH[u]
        full = _system(Gi - (B @ found.linear.M) @ B.transpose(0, 2, 1), cells.m[u], n, found.penalty)
        known = _least(full) > ALONE * _least(S)
        S[known], r[known] = full[known], (found.e[u] + apart)[known]
        alone = int((~known).sum())
    x: FloatArray = np.linalg.solve(S, r[:, :, None])[:, :, 0].astype(np.float64, copy=False)
    return x, alone


def _system(P: FloatArray, m: FloatArray, n: FloatArray, penalty: float) -> FloatArray:
    root = np.sqrt(m)
    S = penalty * P / root[:, :, None] / root[:, None, :] * n[:, None, :]
    i = np.arange(m.shape[1])
    S[:, i, i] += 1.0 - n / m
    return S


def _least(S: FloatArray) -> FloatArray:
    """Give the smallest singular value of each system, (b,)."""
    if S.shape[1] == 1:
        return np.abs(S[:, 0, 0])
    least: FloatArray = np.linalg.svd(S, compute_uv=False)[:, -1].astype(np.float64, copy=False)
    return least
