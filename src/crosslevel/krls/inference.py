"""How sure is an effect? Weights on the observations, leave-one-out residuals, and a covariance of all effects at once.

Every effect is a weighted sum of outcomes, sum_i W_i u_i. The plug-in weights are those of the fit itself and inherit its
shrinkage, so intervals around them miss the truth. The debiased weights are exact on linear functions and use a tenth of
the penalty for the rest; with leave-one-out residuals (HC3) they cover:

    omega = G^-1 v + G^-1 H (H'G^-1 H)^-1 (ell - H'G^-1 v)      at penalty / 10, H = [1, Z]
    e_loo = (P u)_i / P_ii,  P = G^-1 - G^-1 H (H'G^-1 H)^-1 H'G^-1    at the penalty

All of it gathered by distinct row: G = M^1/2 K M^1/2 + penalty I, H, v and u multiplied by M^1/2, W = M^-1/2 omega.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from crosslevel.errors import InputError
from crosslevel.krls.collapse import Cells
from crosslevel.krls.effects import Functionals
from crosslevel.krls.spectrum import Spectrum
from crosslevel.typing import FloatArray

__all__ = [
    "SHARE_OF_PENALTY",
    "Linear",
    "Residuals",
    "Weights",
    "check_identified",
    "debiased_weights",
    "hc3",
    "homoskedastic",
    "plug_in_weights",
    "residuals",
]


SHARE_OF_PENALTY = 0.1
"""Penalty of the debiased weights, relative to the fit's: less shrinkage for more variance; .05 to .2 cover alike."""
ALONE = 1e-8
"""A row keeps less than this of its residual when it alone determines a coefficient of the linear part."""
MOST_ALONE = 0.1
"""Share of such rows beyond which debiased intervals are refused."""
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Linear:
    """The unpenalised linear functions beside the kernel, at one penalty.

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
        Sum over all rows, on the standardised scale.
    """

    W: FloatArray
    estimate: FloatArray


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
    alone: npt.NDArray[np.bool_]


def plug_in_weights(spectrum: Spectrum, cells: Cells, functionals: Functionals, penalty: float) -> Weights:
    """Give the weights of the fit itself."""
    root = np.sqrt(cells.m)
    omega = spectrum.solve(root[:, None] * functionals.V, penalty)
    return Weights(omega / root[:, None], omega.T @ (root * cells.mean))


def debiased_weights(
    spectrum: Spectrum, cells: Cells, Z: FloatArray, functionals: Functionals, penalty: float
) -> Weights:
    """Give weights that are exact on linear functions, with the kernel at this penalty for the rest."""
    root = np.sqrt(cells.m)
    linear = Linear.at(spectrum, cells.m, Z, penalty)
    Giv = spectrum.solve(root[:, None] * functionals.V, penalty)
    omega = Giv + linear.GiH @ (linear.M @ (functionals.ell - linear.H.T @ Giv))
    return Weights(omega / root[:, None], omega.T @ (root * cells.mean))


def residuals(spectrum: Spectrum, cells: Cells, penalty: float, Z: FloatArray | None = None) -> Residuals:
    """Find the residuals and leverages of the plug-in fit, or with Z of the fit with an unpenalised linear part."""
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


def check_identified(alone: int, total: int, what: str) -> None:
    """Refuse debiased intervals when too many rows (or clusters) are needed to know the linear part."""
    if alone > MOST_ALONE * total:
        raise InputError(
            f"{alone:,} of {total:,} {what} each determine a coefficient of the linear part alone, so debiased intervals "
            "cannot be made; use fewer columns, or inference='hc3' or 'classical', whose intervals ignore shrinkage."
        )


def hc3(cells: Cells, found: Residuals, weights: Weights) -> tuple[FloatArray, int]:
    """Give the covariance of all effects from squared leave-one-out residuals, (E, E), and the number of rows alone."""
    alone = int(found.alone.sum())
    check_identified(alone, len(cells.m), "distinct rows")
    u = cells.stratum
    share = cells.step / cells.m[u]
    e = np.where(found.alone, found.plain_e, found.e)[u] + cells.stratum_mean - cells.mean[u]
    kept = (1.0 - share) + share * np.where(found.alone, found.plain_keep, found.keep)[u]
    q = np.bincount(u, cells.step * (cells.ss + cells.weight * e**2) / kept**2, len(cells.m))
    return weights.W.T @ (q[:, None] * weights.W), alone


def homoskedastic(cells: Cells, weights: Weights, sigma2: float) -> FloatArray:
    """Give the covariance of all effects when errors have one variance, (E, E)."""
    return sigma2 * (weights.W.T @ (cells.m[:, None] * weights.W))
