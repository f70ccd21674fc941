"""The fitted process at subgroups: moments, joint draws, and how far a subgroup lies from the data.

Draws are made by Matheron's rule: a draw of the prior, moved by the covariance with the data times
(K + W^-1)^-1 (pseudo-data - that draw of the data). They are draws of (w, u), a weight per feature and a value per place, so
any number of subgroups of any places can be asked afterwards, jointly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms, place_covariance
from crosslevel.errors import InputError
from crosslevel.numerics.kernels import matern
from crosslevel.numerics.laplace import Mode
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Draws", "Moments", "draw", "draw_product", "latent", "moments"]


LARGEST = 12_000
"""Parts drawn jointly when weights vary over space: a covariance of 1.1 GiB, and as much again for its root."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Joint draws from the posterior.

    Attributes
    ----------
    w : (n_draws, p)
        Weights of the centred features.
    u : (n_draws, q)
        What belongs to the places: bias, field, group effect, nugget.
    within : (n_draws,) or None
        Variance of w . phi between people of one place, where the sampling of people counts.
    """

    w: FloatArray
    u: FloatArray
    within: FloatArray | None = None


@dataclass(frozen=True)
class Moments:
    """Mean and variance of latent values, (m,) each."""

    mean: FloatArray
    variance: FloatArray


def draw(rows: Rows, terms: Terms, h: Hyperparameters, mode: Mode, n_draws: int, rng: np.random.Generator) -> Draws:
    """Draw weights and place effects jointly from the Laplace posterior.

    Parameters
    ----------
    rows, terms, h, mode
        Of a fit.
    n_draws : int
    rng : numpy.random.Generator
    """
    p = rows.M.shape[1]
    Ku = place_covariance(terms, h)
    u = rng.standard_normal((n_draws, terms.n_places)) @ _root(Ku).T
    w = np.sqrt(h.embedding) * rng.standard_normal((n_draws, p))
    alpha = _alpha(mode, w @ rows.M.T + _to_rows(rows.A, u), rng)
    w += h.embedding * (alpha @ rows.M)
    u += _to_places(rows.A, alpha, terms.n_places) @ Ku
    return Draws(w, u)


def latent(draws: Draws, M: FloatArray, place: IntArray) -> FloatArray:
    """Evaluate draws at bags: f_r = m_r . w + u of the bag's place.

    Parameters
    ----------
    draws : Draws
    M : (m, p)
        Centred embeddings.
    place : (m,) int

    Returns
    -------
    (n_draws, m)
    """
    return draws.w @ M.T + draws.u[:, place]


def draw_product(
    rows: Rows,
    terms: Terms,
    h: Hyperparameters,
    mode: Mode,
    M: FloatArray,
    place: IntArray,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw bags jointly where weights vary over space, (n_draws, m): their covariance is formed, so m is limited.

    Parameters
    ----------
    M : (m, p)
        Centred embeddings.
    place : (m,) int
    """
    if len(M) > LARGEST:
        raise InputError(
            f"{len(M):,} parts are asked for at once; with kernel='product' at most {LARGEST:,} can be drawn jointly. Ask for "
            "fewer levels, or use kernel='sum'."
        )
    Ku = place_covariance(terms, h)
    field = np.ones_like(Ku)
    if terms.kind is not None and terms.distance is not None:
        field = matern(terms.distance, h.length, terms.kind)[0]
    C = h.embedding * (M @ rows.M.T) * _cross(rows.A, field, place) + _cross(rows.A, Ku, place)
    S = M @ M.T
    S *= h.embedding
    S *= field[np.ix_(place, place)]
    S += Ku[np.ix_(place, place)]
    V = linalg.solve_triangular(mode.L, np.sqrt(mode.curvature)[:, None] * C.T, lower=True, check_finite=False)
    S -= V.T @ V
    return np.asarray(C @ mode.alpha + rng.standard_normal((n_draws, len(M))) @ _root(S).T)


def moments(rows: Rows, terms: Terms, h: Hyperparameters, mode: Mode, M: FloatArray, place: IntArray) -> Moments:
    """Give mean and variance of the latent value of bags, in closed form.

    Parameters
    ----------
    M : (m, p)
        Centred embeddings.
    place : (m,) int
        Place of each bag among the q places; it may have been observed or not.
    """
    Ku = place_covariance(terms, h)
    C = M @ rows.M.T
    own = np.einsum("ij,ij->i", M, M)
    if terms.product and terms.kind is not None and terms.distance is not None:
        C *= _cross(rows.A, matern(terms.distance, h.length, terms.kind)[0], place)
    C *= h.embedding
    C += _cross(rows.A, Ku, place)
    V = linalg.solve_triangular(mode.L, np.sqrt(mode.curvature)[:, None] * C.T, lower=True, check_finite=False)
    prior = h.embedding * own + np.diag(Ku)[place]
    return Moments(C @ mode.alpha, np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0))


def _alpha(mode: Mode, f: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Give (K + W^-1)^-1 (z - f - noise) for draws f of the prior, (n_draws, n); z are the pseudo-data of the mode."""
    root = np.sqrt(mode.curvature)
    # W^1/2 B^-1 W^1/2 applied to f + W^-1/2 noise; rows without information (W = 0) drop out by themselves
    right = root * f + rng.standard_normal(f.shape)
    moved = root * linalg.cho_solve((mode.L, True), right.T, check_finite=False).T
    return mode.alpha - moved


def _root(K: FloatArray) -> FloatArray:
    """Give a square root of a covariance that may be singular (places that coincide)."""
    try:
        return np.asarray(linalg.cholesky(K, lower=True, check_finite=False))
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(K, check_finite=False)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _to_rows(A: npt.NDArray[Any] | None, u: FloatArray) -> FloatArray:
    if A is None:
        return u
    return np.asarray(u[:, A] if A.ndim == 1 else u @ A.T)


def _to_places(A: npt.NDArray[Any] | None, alpha: FloatArray, q: int) -> FloatArray:
    if A is None:
        return alpha
    if A.ndim == 2:
        return np.asarray(alpha @ A)
    whole = np.zeros((len(alpha), q))
    whole[:, A] = alpha
    return whole


def _cross(A: npt.NDArray[Any] | None, K: FloatArray, place: IntArray) -> FloatArray:
    """Give the covariance of bags of ``place`` with the rows, (m, n)."""
    if A is None:
        return K[place]
    return np.asarray(K[np.ix_(place, A)] if A.ndim == 1 else K[place] @ A.T)
