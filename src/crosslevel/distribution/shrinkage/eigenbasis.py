"""The basis in which every bag's shrinkage is a number per coordinate.

Symbols (d landmarks, q coordinates kept):

- K : (d, d) kernel between landmarks; R0 : (d, d) shrinkage kernel between landmarks, before its scale eta;
- Sigma : (d, d) covariance of one member's features; N : (n_bags,) effective sizes;
- P : (d, q) with P'R0P = I and P'Sigma P = diag(s); delta = (mu - m0)P, alpha = P a.

Then R(R + Sigma/N)^-1 is diagonal with entries S = eta/(eta + s/N): no factorization per bag, no jitter on Sigma.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

DROPPED = 1e-9
"""Eigenvalues of the shrinkage kernel below this share of the largest carry rounding errors of K, not information."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates in which prior and sampling covariance of the embeddings are diagonal.

    Attributes
    ----------
    P : (d, q)
        From landmark weights in the basis to landmark weights: alpha = P a.
    s : (q,)
        Sampling variance of one member along each coordinate, in units of the shrinkage kernel.
    Q : (q, q) or None
        P'KP, the precision of a under the RKHS prior alpha ~ N(0, rho^2 K^-1); None stands for the identity, which it is
        when the shrinkage kernel is K itself.
    """

    P: FloatArray
    s: FloatArray
    Q: FloatArray | None

    def rotate(self, mu: FloatArray, m0: FloatArray) -> FloatArray:
        """Give the coordinates delta (n_bags, q) of embeddings mu (n_bags, d) around the prior mean m0 (d,)."""
        return np.asarray((mu - m0) @ self.P)


def eigenbasis(R0: FloatArray, Sigma: FloatArray, K: FloatArray | None = None, dropped: float = DROPPED) -> Basis:
    """Diagonalize the shrinkage kernel and the sampling covariance together (section 4.1 of the room's README).

    Parameters
    ----------
    R0 : (d, d)
        Shrinkage kernel between landmarks, positive semi-definite.
    Sigma : (d, d)
        Covariance of one member's features.
    K : (d, d), optional
        Kernel of the RKHS prior on the landmark weights; R0 when not given.
    dropped : float
        Eigenvalues of R0 below this share of the largest are left out, and with them the weights along them.

    Examples
    --------
    >>> basis = eigenbasis(np.diag([4.0, 1.0]), np.diag([4.0, 3.0]))
    >>> basis.s.tolist(), basis.Q is None
    ([1.0, 3.0], True)
    """
    w, V = linalg.eigh(R0)
    if not w[-1] > 0:
        raise InputError(
            f"the shrinkage kernel has largest eigenvalue {w[-1]:g}; it needs a positive one. Check the landmarks."
        )
    keep = w > dropped * w[-1]
    W = V[:, keep] / np.sqrt(w[keep])
    s, T = linalg.eigh(W.T @ Sigma @ W)
    P = W @ T
    return Basis(P, np.maximum(s, 0.0), None if K is None else P.T @ K @ P)


def shrink_factors(s: FloatArray, sizes: FloatArray, eta: float) -> tuple[FloatArray, FloatArray]:
    """Give S = eta/(eta + s/N), the share of each coordinate that is kept, and C = S s/N, what remains unknown.

    Parameters
    ----------
    s : (q,)
    sizes : (n_bags,)
        Effective sizes; infinity is a bag known exactly.
    eta : float
        Scale of the shrinkage kernel.

    Returns
    -------
    S, C : (n_bags, q)

    Examples
    --------
    >>> S, C = shrink_factors(np.array([2.0]), np.array([1.0, np.inf]), 2.0)
    >>> S.ravel().tolist(), C.ravel().tolist()
    ([0.5, 1.0], [1.0, 0.0])
    """
    noise = s[None, :] / sizes[:, None]
    S = eta / (eta + noise)
    return S, S * noise


def integral_kernel(U: FloatArray, bandwidth: float, measure_sd: float) -> FloatArray:
    """Give r(x, y) between landmarks for r = the integral of k(x, z)k(z, y) over a Gaussian measure, to a constant.

    exp(-|x - y|^2 / (4 l^2)) exp(-|x + y|^2 / (8 (l^2/2 + v^2))) for the Gaussian kernel of bandwidth l and the measure
    N(0, v^2 I) (Appendix A of the paper). The constant (2 pi / (2/l^2 + 1/v^2))^(D/2) is left to the learned scale eta: in
    thousands of dimensions it is not a floating-point number.

    Parameters
    ----------
    U : (d, D)
        Landmarks, relative to the center of the measure.
    bandwidth, measure_sd : float
        l and v.

    Examples
    --------
    >>> integral_kernel(np.array([[0.0], [1.0]]), 1.0, 1.0).round(4).tolist()
    [[1.0, 0.7165], [0.7165, 0.7165]]
    """
    inner = U @ U.T
    square = np.diag(inner)
    difference = np.maximum(square[:, None] + square[None, :] - 2.0 * inner, 0.0)
    total = square[:, None] + square[None, :] + 2.0 * inner
    wide = bandwidth**2 / 2.0 + measure_sd**2
    return np.asarray(np.exp(-difference / (4.0 * bandwidth**2) - total / (8.0 * wide)))
