"""How sure is an effect? Weights on the observations, leave-one-out residuals, and a covariance of all effects at once.

Every effect is a weighted sum of outcomes, sum_i W_i u_i. The plug-in weights are those of the fit itself and inherit its
shrinkage, so intervals around them miss the truth. The debiased weights are exact on linear functions and use a tenth of
the penalty for the rest; with leave-one-out residuals (HC3) they cover:

    omega = G^-1 v + G^-1 H (H'G^-1 H)^-1 (ell - H'G^-1 v)      at penalty / 10, H = [1, Z]
    e_loo = (P u)_i / P_ii,  P = G^-1 - G^-1 H (H'G^-1 H)^-1 H'G^-1    at the penalty

All of it gathered by distinct row: G = M^1/2 K M^1/2 + penalty I, H, v and u multiplied by M^1/2, W = M^-1/2 omega.

Observations in clusters: residuals of fits that have not seen the cluster (CR3).

For the pairs (distinct row, cluster) of one cluster, of weights n and mean residuals r, the fit without the cluster has
the residuals x with

    [ I - n/m + penalty M^-1/2 P M^-1/2 n ] x = r,

P restricted to the cluster's rows. The covariance is (G - 1)/G sum_g psi_g psi_g' with psi_g = sum_c W_c n_c x_c. Sandwiches
of ordinary residuals do not suffice: the fit absorbs what the members of a cluster share.

With k eigenvectors and a cluster of more pairs than that, the system is the identity less a product of rank k + P + 1,
I - A C A' n with A = M^-1/2 [Q, G^-1 H] and C = diag(w / (w + penalty), penalty M_H), and x = r + A (I - C A'n A)^-1 C A'n r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crosslevel.errors import InputError
from crosslevel.krls.effects import Functionals
from crosslevel.krls.model import Cells, Clusters
from crosslevel.krls.spectrum import Spectrum
from crosslevel.typing import BoolArray, FloatArray, IntArray

SHARE_OF_PENALTY = 0.1
"""Penalty of the debiased weights, relative to the fit's: less shrinkage for more variance; .05 to .2 cover alike."""
ALONE = 1e-8
"""A row keeps less than this of its residual when it alone determines a coefficient of the linear part."""
MOST_ALONE = 0.1
"""Share of such rows beyond which debiased intervals are refused."""
RANK_TOLERANCE = 1e-10
BLOCK = 2**21
"""Entries of the eigenvectors gathered at once."""
GATHER = 80
"""Multiplications in the time it takes to fetch one entry of a scattered row; decides whether G^-1 is made whole."""

WIDER = 1.5
"""A cluster with more pairs than this many times the eigenvectors is solved among the eigenvectors."""


@dataclass(frozen=True)
class Linear:
    """The unpenalized linear functions beside the kernel, at one penalty.

    Attributes
    ----------
    H : (U, P + 1)
        M^1/2 [1, Z].
    GiH : (U, P + 1)
    M : (P + 1, P + 1)
        Inverse of H'G^-1 H; a pseudo-inverse when columns are collinear.
    rank : int
    """

    H: FloatArray
    GiH: FloatArray
    M: FloatArray
    rank: int

    @classmethod
    def at(cls, spectrum: Spectrum, m: FloatArray, Z: FloatArray, penalty: float) -> Linear:
        """Prepare the linear part for a penalty."""
        H = np.sqrt(m)[:, None] * np.column_stack([np.ones(len(Z)), Z])
        GiH = spectrum.solve(H, penalty)
        inner = H.T @ GiH
        scale = 1.0 / np.sqrt(np.diag(inner))  # so that the rank does not depend on the units of the kernel
        M, rank = scipy.linalg.pinvh(scale[:, None] * inner * scale, rtol=RANK_TOLERANCE, return_rank=True)
        return cls(H, GiH, scale[:, None] * M * scale, int(rank))

    def without(self, X: FloatArray) -> FloatArray:
        """Take from G^-1 X what the linear functions explain: P X, given G^-1 X."""
        return X - self.GiH @ (self.M @ (self.H.T @ X))


@dataclass(frozen=True)
class Weights:
    """Effects as weighted sums of outcomes.

    Attributes
    ----------
    W : (U, E)
        Weight of one unit of each distinct row.
    estimate : (E,)
        Sum over all rows, on the standardized scale.
    """

    W: FloatArray
    estimate: FloatArray


@dataclass(frozen=True)
class Covariance:
    """How sure effects are.

    Attributes
    ----------
    matrix : (E, E)
    dof : float
        Of Student's t; infinite for the normal.
    kind : str
        How it was made, in words.
    warnings : tuple of str
        What the reader should know.
    """

    matrix: FloatArray
    dof: float
    kind: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Residuals:
    """Residuals of the fit whose errors the intervals use.

    Attributes
    ----------
    e : (U,)
        Mean outcome less fit.
    keep : (U,)
        penalty [P]_uu: the share of its residual that a row of one observation keeps.
    plain_e, plain_keep : (U,)
        The same for the fit without linear part.
    penalty : float
    linear : Linear or None
        The linear part of the fit; None for the plug-in fit.
    alone : (U,) bool
        Rows that alone determine a coefficient of the linear part. Without them it is not known, so the fit without the
        linear part stands in.
    """

    e: FloatArray
    keep: FloatArray
    plain_e: FloatArray
    plain_keep: FloatArray
    penalty: float
    linear: Linear | None
    alone: BoolArray


def effect_weights(
    spectrum: Spectrum, cells: Cells, functionals: Functionals, penalty: float, Z: FloatArray | None = None
) -> Weights:
    """Give the weights of the fit at a penalty, or with Z weights that are exact on linear functions, the kernel for the rest."""
    root = np.sqrt(cells.m)
    omega = spectrum.solve(root[:, None] * functionals.V, penalty)
    if Z is not None:
        linear = Linear.at(spectrum, cells.m, Z, penalty)
        omega = omega + linear.GiH @ (linear.M @ (functionals.ell - linear.H.T @ omega))
    return Weights(omega / root[:, None], omega.T @ (root * cells.mean))


def residuals(spectrum: Spectrum, cells: Cells, penalty: float, Z: FloatArray | None = None) -> Residuals:
    """Find the residuals and leverages of the plug-in fit, or with Z of the fit with an unpenalized linear part."""
    root = np.sqrt(cells.m)
    Gi_diagonal = spectrum.inverse_diagonal(np.array([penalty]))[:, 0]
    Giu = spectrum.solve((root * cells.mean)[:, None], penalty)
    plain_e, plain_keep = penalty * Giu[:, 0] / root, penalty * Gi_diagonal
    if Z is None:
        return Residuals(plain_e, plain_keep, plain_e, plain_keep, penalty, None, np.zeros(len(root), dtype=bool))
    linear = Linear.at(spectrum, cells.m, Z, penalty)
    P_diagonal = Gi_diagonal - np.einsum("ij,ij->i", linear.GiH @ linear.M, linear.GiH)
    one_observation = np.zeros(len(root), dtype=bool)
    one_observation[cells.stratum[cells.step >= cells.m[cells.stratum] * (1 - 1e-12)]] = True
    alone = one_observation & (P_diagonal < ALONE * Gi_diagonal)
    e = penalty * linear.without(Giu)[:, 0] / root
    return Residuals(e, penalty * P_diagonal, plain_e, plain_keep, penalty, linear, alone)


def robust(spectrum: Spectrum, cells: Cells, found: Residuals, weights: Weights) -> Covariance:
    """Give the covariance of all effects from deleted residuals, by row (HC3) or by cluster (CR3)."""
    if cells.clusters is None:
        what, total, kind, dof = "row", len(cells.m), "HC3", np.inf
        covariance, alone = _hc3(cells, found, weights)
    else:
        psi, alone = _cluster_scores(spectrum, cells, found, weights)
        G = len(psi)
        what, total, kind, dof = "cluster", G, f"CR3, {G:,} clusters, t({G - 1:,})", G - 1.0
        covariance = (G - 1) / G * (psi.T @ psi)
    if alone > MOST_ALONE * total:
        raise InputError(
            f"{alone:,} of {total:,} {'distinct row' if what == 'row' else what}s each determine a coefficient of the linear part "
            "alone, so debiased intervals cannot be made; use fewer columns, or inference='hc3', whose intervals ignore "
            "shrinkage."
        )
    said = f"{alone:,} {what}(s) alone determine a coefficient of the linear part; their residuals come from the fit without it."
    return Covariance(covariance, dof, kind, (said,) if alone else ())


def _hc3(cells: Cells, found: Residuals, weights: Weights) -> tuple[FloatArray, int]:
    """Give the covariance of all effects from squared leave-one-out residuals, (E, E), and the number of rows alone."""
    u = cells.stratum
    share = cells.step / cells.m[u]
    e = np.where(found.alone, found.plain_e, found.e)[u] + cells.stratum_mean - cells.mean[u]
    kept = (1.0 - share) + share * np.where(found.alone, found.plain_keep, found.keep)[u]
    q = np.bincount(u, cells.step * (cells.ss + cells.weight * e**2) / kept**2, len(cells.m))
    return weights.W.T @ (q[:, None] * weights.W), int(found.alone.sum())


def _cluster_scores(spectrum: Spectrum, cells: Cells, found: Residuals, weights: Weights) -> tuple[FloatArray, int]:
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
