"""Feature maps: Fourier maps of the Gaussian kernel, kernels with landmarks (whitened or not) and the identity.

Frequencies are independent and written out, or made of Hadamard transforms.

Frequencies that are products of Hadamard and diagonal matrices cost O(m log d) a row instead of O(m d). Both such maps work on
blocks of D = 2^ceil(log2 d) inputs (zero-padded) and D frequencies; blocks repeat until m frequencies are reached, and of the last
only as many are used as are needed. H is the ±1 Hadamard matrix, H H = D I.
The fast Walsh–Hadamard transform here is plain and readable: the reference for the interleaved kernel in ``fused``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.numerics.features.base import FeatureMap, FourierMap, gaussian_kernel
from crosslevel.typing import FloatArray


def next_power_of_two(n: int) -> int:
    """Round up to a power of two: the padded width ``D`` of a structured map over ``n`` inputs.

    Examples
    --------
    >>> [next_power_of_two(n) for n in (1, 2, 3, 100, 3251)]
    [1, 2, 4, 128, 4096]
    """
    if n < 1:
        raise InputError(f"n={n!r} is not a positive width; pass at least 1.")
    return 1 << (int(n) - 1).bit_length()


def fwht(x: npt.ArrayLike) -> FloatArray:
    """Multiply the last axis by the Sylvester-ordered ±1 Hadamard matrix, without normalizing.

    Parameters
    ----------
    x : array (..., D), D a power of two
        Anything numeric; the leading axes are a batch.

    Returns
    -------
    array (..., D) of float64
        ``x @ H`` with ``H[i, j] = (-1) ** popcount(i & j)``. ``H`` is symmetric and ``H @ H = D I``,
        so applying the transform twice multiplies by ``D``.

    Examples
    --------
    >>> fwht([1.0, 2.0, 3.0, 4.0])
    array([10., -2., -4.,  0.])
    >>> fwht(fwht([1.0, 2.0, 3.0, 4.0])) / 4
    array([1., 2., 3., 4.])
    """
    y = np.array(x, dtype=np.float64)
    width = y.shape[-1] if y.ndim else 0
    if width < 1 or width & (width - 1):
        raise InputError(
            f"x has {width} entries along its last axis; the Hadamard transform needs a power of two. Pad it with zeros."
        )
    shape = y.shape
    half = 1
    while half < width:
        pairs = y.reshape(-1, width // (2 * half), 2, half)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        half *= 2
    return y.reshape(shape)


@dataclass(frozen=True, eq=False, repr=False)
class DenseFourier(FourierMap):
    """A Fourier map that stores its frequencies.

    Attributes
    ----------
    W : array (m, n_inputs)
        The frequencies, bandwidth included.
    """

    W: FloatArray

    def project(self, X: FloatArray) -> FloatArray:
        """Multiply rows by the frequencies: ``X @ W.T``, (n, m)."""
        return X @ self.W.T

    def frequencies(self) -> FloatArray:
        """Give a copy of W, (m, n_inputs)."""
        return self.W.copy()


def draw_rff(d: int, m: int, rng: np.random.Generator) -> FloatArray:
    """Draw m independent standard normal rows (Rahimi & Recht, 2007)."""
    return rng.standard_normal((m, d))


Signs = npt.NDArray[np.int8]
Indices = npt.NDArray[np.int32]


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Signs:
    return (2 * rng.integers(0, 2, size=shape, dtype=np.int8) - 1).astype(np.int8)


@dataclass(frozen=True, eq=False)
class Diagonals:
    """What stands between the Hadamard transforms of a map, in the order in which it meets x.

    Attributes
    ----------
    signs : (n_blocks, D)
        Before the first transform.
    order : (n_blocks, D) or None
        A permutation after it: ``(P v)[k] = v[order[k]]``.
    middle : (n_blocks, s, D)
        Before each of the s transforms that follow.
    lengths : (n_blocks, D)
        After the last one, bandwidth and powers of D included.
    """

    signs: Signs
    order: Indices | None
    middle: npt.NDArray[Any]
    lengths: FloatArray


class HadamardMap(FourierMap):
    """A Fourier map whose frequencies are products of Hadamard and diagonal matrices."""

    @property
    @abstractmethod
    def diagonals(self) -> Diagonals:
        """The diagonals of all blocks."""

    def project(self, X: FloatArray) -> FloatArray:
        """Multiply rows by the frequencies: ``X @ W.T``, (n, m)."""
        of = self.diagonals
        width = of.signs.shape[1]
        padded = np.pad(X, ((0, 0), (0, width - X.shape[1])))
        blocks = []
        for b, signs in enumerate(of.signs):
            y = fwht(padded * signs)
            y = y if of.order is None else y[:, of.order[b]]
            for diagonal in of.middle[b]:
                y = fwht(y * diagonal)
            blocks.append(y * of.lengths[b])
        return np.hstack(blocks)[:, : self.n_frequencies]


@dataclass(frozen=True, eq=False, repr=False)
class FastFood(HadamardMap):
    """FastFood (Le, Sarlós & Smola, 2013): each block of frequencies is ``S H G P H B / (b sqrt(D))``.

    Attributes
    ----------
    B : array (n_blocks, D) of int8
        Random signs.
    P : array (n_blocks, D) of int32
        A permutation: ``(P v)[k] = v[P[k]]``.
    G : array (n_blocks, D)
        Standard normals.
    S : array (n_blocks, D)
        ``chi_D draws / |G|``: the rows of a block then have chi_D lengths over b, as Gaussian rows would.
    """

    B: Signs
    P: Indices
    G: FloatArray
    S: FloatArray

    @property
    def diagonals(self) -> Diagonals:
        """B, P, G and S with its factor."""
        scale = self.bandwidth * np.sqrt(self.B.shape[1])
        return Diagonals(self.B, self.P, self.G[:, None], self.S / scale)


@dataclass(frozen=True, eq=False, repr=False)
class StructuredOrthogonal(HadamardMap):
    """SORF (Yu et al., 2016) with chi row lengths: a block is ``L H D1 H D2 H D3 / (b D^(3/2))``.

    Without L the rows all have length sqrt(D) / b and the kernel is biased at small d.

    Attributes
    ----------
    signs : array (n_blocks, 3, D) of int8
        D1, D2, D3; D3 meets x first.
    lengths : array (n_blocks, D)
        L, chi_D draws.
    """

    signs: Signs
    lengths: FloatArray

    @property
    def diagonals(self) -> Diagonals:
        """D3, then D2 and D1, and L with its factor."""
        scale = self.bandwidth * self.lengths.shape[1] ** 1.5
        return Diagonals(self.signs[:, 2], None, self.signs[:, 1::-1], self.lengths / scale)


def _blocks(d: int, m: int) -> tuple[int, int]:
    width = next_power_of_two(d)
    return -(-m // width), width


def draw_fastfood(d: int, m: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.generic]]:
    """Draw B, P, G and S for m frequencies over d inputs."""
    n_blocks, width = _blocks(d, m)
    G = rng.standard_normal((n_blocks, width))
    chi = np.sqrt(rng.chisquare(width, size=(n_blocks, width)))
    return {
        "B": _signs(rng, (n_blocks, width)),
        "P": np.stack([rng.permutation(width) for _ in range(n_blocks)]).astype(np.int32),
        "G": G,
        "S": chi / np.linalg.norm(G, axis=1, keepdims=True),
    }


def draw_sorf(d: int, m: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.generic]]:
    """Draw the signs and lengths for m frequencies over d inputs."""
    n_blocks, width = _blocks(d, m)
    return {
        "signs": _signs(rng, (n_blocks, 3, width)),
        "lengths": np.sqrt(rng.chisquare(width, size=(n_blocks, width))),
    }


EIGENVALUE_CUT = 1e-9
"""Eigenvalues of the landmarks' kernel matrix below this share of the largest count as zero: at float64 precision
their eigenvectors are noise, and 1/sqrt would amplify it more than thirty-thousand-fold."""


def whitening(K: FloatArray) -> FloatArray:
    """Compute the symmetric ``K^(-1/2)`` on the eigenvectors kept by ``EIGENVALUE_CUT``, zero on the others.

    Examples
    --------
    >>> K = np.array([[4.0, 0.0], [0.0, 1.0]])
    >>> whitening(K).round(6)
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > EIGENVALUE_CUT * values[-1]
    scaled = vectors[:, keep] / np.sqrt(values[keep])
    return np.asarray(scaled @ vectors[:, keep].T, dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Landmarks(FeatureMap):
    """An RBF network's layer: ``phi(x)_l = k(x, u_l)``, not whitened.

    Attributes
    ----------
    U : array (n_features, n_inputs)
        The landmarks.
    """

    U: FloatArray

    def _rows_of_people(self) -> dict[str, int]:
        return {"U": len(self.U)}

    def _features(self, X: FloatArray) -> FloatArray:
        return gaussian_kernel(X, self.U, self.bandwidth)

    def kernel(self, X: npt.ArrayLike, Y: npt.ArrayLike) -> FloatArray:
        """Compute the kernel these features induce, ``sum_l k(x, u_l) k(y, u_l)``: it is matched exactly."""
        return self.transform(X) @ self.transform(Y).T


@dataclass(frozen=True, eq=False, repr=False)
class Nystrom(FeatureMap):
    """Nyström features ``phi(x) = K^(-1/2) k(U, x)``: exact on the landmarks (Williams & Seeger, 2001).

    Attributes
    ----------
    U : array (n_features, n_inputs)
        The landmarks.
    whiten : array (n_features, n_features)
        ``K^(-1/2)`` of the landmarks' kernel matrix K; see ``EIGENVALUE_CUT``.
    """

    U: FloatArray
    whiten: FloatArray

    def _rows_of_people(self) -> dict[str, int]:
        return {"U": len(self.U)}

    def _features(self, X: FloatArray) -> FloatArray:
        return gaussian_kernel(X, self.U, self.bandwidth) @ self.whiten

    def finish(self, raw: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Whiten means of kernel values."""
        return np.matmul(raw, self.whiten, out=out)


@dataclass(frozen=True, eq=False, repr=False)
class Linear(FeatureMap):
    """The map ``phi(x) = x``: mean embeddings are weighted means and shares."""

    def _features(self, X: FloatArray) -> FloatArray:
        return X.copy()

    def kernel(self, X: npt.ArrayLike, Y: npt.ArrayLike) -> FloatArray:
        """Compute the inner products ``x @ y``, matched exactly."""
        return self._rows(X, "X") @ self._rows(Y, "Y").T
