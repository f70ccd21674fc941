"""The fit when the kernel between all rows is too large: kernel functions around landmarks stand for those of all rows.

With landmarks z_1 .. z_r and L L' their kernel, phi(x) = L^-1 k(landmarks, x) are features whose products
k~(x, x') = phi(x)'phi(x') are the kernel of the approximate model (Nystrom). Phi' M Phi = V diag(w) V' gives its eigenvectors

    Q = M^1/2 k(rows, landmarks) T,    T = L^-T V w^-1/2,

so penalty, effects and intervals are exact for the approximate model, and one number, the trace of K that is lost,
says how near it is to the exact one. When Q is too large to hold, it is made anew, block by block, in every pass.

Landmarks come from randomly pivoted Cholesky, in blocks: one is drawn with probability proportional to what those before it
leave unexplained of each row, d_i = k(x_i, x_i) - phi_i' phi_i. Blocks of candidates are drawn together and those that the others
of their block already explain are dropped, so that the work is products of matrices (Chen, Epperly, Tropp and Webber 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from crosslevel.krls.spectrum import GaussianKernel, Spectrum
from crosslevel.typing import FloatArray, IntArray

CANDIDATES = 96
"""Candidates drawn together."""
NEW = 0.1
"""Share of the largest unexplained variance of its block below which a candidate waits for another draw."""
BLOCK = 2**17
"""Entries of the features made at once (1 MiB): they stay in the cache of a core between the steps that make them."""
HELD = 2**30
"""Bytes of eigenvectors that are kept; larger ones are made anew in every pass."""
POOL = 20_000
"""Rows drawn at random, among which the landmarks are chosen."""
REMEMBERED = 4
NOISE = 1e-14
"""Eigenvalues below this share of the largest are rounding."""
SMALLEST_PIVOT = 1e-12
"""Unexplained variance below which a row is no landmark: its functions differ from those chosen by rounding only."""


@dataclass(frozen=True)
class Landmarks:
    """Rows whose kernel functions stand for those of all rows.

    Attributes
    ----------
    index : (r,)
        The rows.
    L : (U, r)
        K is about L L'; the landmarks' own rows are lower triangular.
    left : (U,)
        Unexplained variance of each row.
    """

    index: IntArray
    L: FloatArray
    left: FloatArray


def choose_landmarks(
    kernel: GaussianKernel, most: int, tolerance: float, seed: int = 0, m: FloatArray | None = None
) -> Landmarks:
    """Choose landmarks until no row has more unexplained variance than the tolerance, or there are ``most``.

    Parameters
    ----------
    kernel : GaussianKernel
        Of U distinct rows.
    most : int
    tolerance : float
    seed : int
    m : (U,), optional
        Rows that each distinct row stands for; they are drawn more often the more they stand for.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 300)[:, None]
    >>> kernel = GaussianKernel(x, s=1.0)
    >>> found = choose_landmarks(kernel, 100, 1e-10)
    >>> len(found.index) < 40, bool(np.abs(found.L @ found.L.T - kernel.matrix()).max() < 1e-9)
    (True, True)
    """
    U = len(kernel.Z)
    most = min(most, U)
    rng = np.random.default_rng(seed)
    L = np.empty((U, most), order="F")
    left = np.ones(U)
    index: list[int] = []
    while len(index) < most:
        chances = np.where(left > tolerance, left if m is None else left * m, 0.0)
        able = int(np.count_nonzero(chances))
        if able == 0:
            break
        drawn = _draw(rng, chances, min(CANDIDATES, able))
        r = len(index)
        block = GaussianKernel(kernel.Z[drawn], kernel.s).matrix() - L[drawn, :r] @ L[drawn, :r].T
        order, root = _pivots(block, most - r)
        new = drawn[order]
        columns = GaussianKernel(kernel.Z[new], kernel.s).between(kernel.Z)
        columns[new, np.arange(len(new))] = 1.0
        columns -= L[:, :r] @ L[new, :r].T
        made = columns @ np.linalg.inv(root).T  # small and well conditioned: candidates that repeat others were dropped
        made[new] = root  # exactly triangular, where the difference of nearly equal numbers would not be
        made[index] = 0.0
        L[:, r : r + len(new)] = made
        left = np.maximum(left - np.einsum("ij,ij->i", made, made), 0.0)
        left[new] = 0.0
        index += new.tolist()
    return Landmarks(np.array(index, dtype=np.intp), L[:, : len(index)], left)


def _draw(rng: np.random.Generator, chances: FloatArray, count: int) -> IntArray:
    """Draw different rows with these chances (the largest of independent exponential clocks)."""
    with np.errstate(divide="ignore"):
        clock = rng.standard_exponential(len(chances)) / chances
    return np.argpartition(clock, count - 1)[:count].astype(np.intp)


def _pivots(block: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
    """Order candidates by pivoted Cholesky, keep those that are new, and give their factor, (b, b)."""
    limit = NEW * float(np.diag(block).max())
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(block, tol=limit, lower=1)
    keep = max(1, min(int(rank), most))
    return pivots[:keep].astype(np.intp) - 1, np.tril(factor[:keep, :keep])


@dataclass(frozen=True, kw_only=True)
class StreamedSpectrum(Spectrum):
    """Eigenvectors that are made when they are asked for.

    Attributes
    ----------
    Q : (U, 0)
        Empty.
    Z : (U, P)
        Standardized distinct rows.
    root : (U,)
        Square roots of their weights.
    centers : GaussianKernel
        Of the landmarks.
    T : (r, k)
        Q = diag(root) k(rows, landmarks) T.
    known : list
        Projections and diagonals that were asked for last: a pass over the rows is dear, and the same are asked for again.
    """

    Z: FloatArray
    root: FloatArray
    centers: GaussianKernel
    T: FloatArray
    known: list[tuple[FloatArray, FloatArray]] = field(default_factory=list, repr=False, compare=False)

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield root o k(rows, landmarks), a block of rows at a time."""
        for rows, block in self.centers.blocks(self.Z, BLOCK):
            block *= self.root[rows, None]
            yield rows, block

    def project(self, X: FloatArray) -> FloatArray:
        """Give Q' X, (k, c)."""
        return self._recall(X, self._project)

    def inverse_diagonal(self, penalty: FloatArray) -> FloatArray:
        """Give the diagonal of (B + penalty I)^-1 for every penalty, (U, n_penalties)."""
        return self._recall(penalty, super().inverse_diagonal)

    def _recall(self, X: FloatArray, make: Callable[[FloatArray], FloatArray]) -> FloatArray:
        for known, answer in self.known:
            if known.shape == X.shape and np.array_equal(known, X):
                return answer
        made = make(X)
        self.known.append((X.copy(), made))
        del self.known[:-REMEMBERED]
        return made

    def _project(self, X: FloatArray) -> FloatArray:
        total = np.zeros((len(self.T), X.shape[1]))
        for rows, block in self._blocks():
            total += block.T @ X[rows]
        return self.T.T @ total

    def expand(self, b: FloatArray) -> FloatArray:
        """Give Q b, (U, c)."""
        inner, out = self.T @ b, np.empty((len(self), b.shape[1]))
        for rows, block in self._blocks():
            out[rows] = block @ inner
        return out

    def rows(self, index: IntArray) -> FloatArray:
        """Give some rows of the eigenvectors, (..., k)."""
        flat = index.reshape(-1)
        out = np.empty((len(flat), len(self.w)))
        for rows, block in self.centers.blocks(self.Z[flat], BLOCK):
            np.matmul(block, self.T, out=out[rows])
        out *= self.root[flat, None]
        return out.reshape(*index.shape, -1)

    def passes(self, b: FloatArray, x: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield Q b and (Q o Q) x, a block of rows at a time."""
        for rows, block in self._blocks():
            Q = block @ self.T
            moved = Q @ b
            np.square(Q, out=Q)
            yield rows, moved, Q @ x


@dataclass(frozen=True)
class LandmarkKernel(GaussianKernel):
    """The kernel k~(x, x') = k(x, landmarks) T diag(w) T' k(landmarks, x') of the approximate model.

    Attributes
    ----------
    Z : (U, P)
        Standardized distinct rows.
    s : float
    landmarks : (r, P)
    T : (r, k)
    spectrum : Spectrum
    root : (U,)
    """

    landmarks: FloatArray
    T: FloatArray
    spectrum: Spectrum
    root: FloatArray

    @property
    def centers(self) -> GaussianKernel:
        """The kernel around the landmarks."""
        return GaussianKernel(self.landmarks, self.s)

    def center_coef(self, coef: FloatArray) -> FloatArray:
        """Give the coefficients at the landmarks from those at the distinct rows, (r,)."""
        inner = self.spectrum.project((coef / self.root)[:, None])[:, 0]
        return self.T @ (self.spectrum.w * inner)

    def lift(self, V: FloatArray) -> FloatArray:
        """Give values on the functions k~(., x_u), (U, E), from those on k(., landmark), (r, E)."""
        return self.spectrum.expand(self.spectrum.w[:, None] * (self.T.T @ V)) / self.root[:, None]


@dataclass(frozen=True)
class LowRank:
    """An approximate model of low rank.

    Attributes
    ----------
    spectrum : Spectrum
    kernel : LandmarkKernel
    lost : float
        Trace of M^1/2 K M^1/2 that the landmarks leave unexplained.
    """

    spectrum: Spectrum
    kernel: LandmarkKernel
    lost: float

    @property
    def rank(self) -> int:
        """Eigenvectors that are used."""
        return len(self.spectrum.w)


def nystrom(kernel: GaussianKernel, m: FloatArray, rank: int, seed: int = 0) -> LowRank:
    """Decompose the kernel that ``rank`` landmarks span, in two passes over the rows.

    Parameters
    ----------
    kernel : GaussianKernel
        Of U distinct rows.
    m : (U,)
    rank : int
        Landmarks, chosen among a random part of the rows; fewer are used when fewer suffice to rounding.
    seed : int

    Examples
    --------
    >>> x = np.linspace(-2, 2, 300)[:, None]
    >>> found = nystrom(GaussianKernel(x, 1.0), np.ones(300), rank=8)
    >>> found.rank, bool(found.lost < 0.1 * 300)
    (8, True)
    """
    rng = np.random.default_rng(seed)
    U = len(m)
    pool = np.arange(U)
    if max(POOL, 4 * rank) < U:
        pool = np.sort(rng.choice(U, max(POOL, 4 * rank), replace=False, shuffle=False))
    part = GaussianKernel(kernel.Z[pool], kernel.s)
    chosen = choose_landmarks(part, rank, SMALLEST_PIVOT, seed, m[pool])
    centers = GaussianKernel(part.Z[chosen.index], kernel.s)
    root = chosen.L[chosen.index]
    r = len(root)
    gram, weights = np.zeros((r, r)), np.sqrt(m)
    # whitened before it is multiplied with itself: the other way round squares the condition
    whiten = scipy.linalg.solve_triangular(root, np.eye(r), lower=True, trans="T")
    for rows, block in centers.blocks(kernel.Z, BLOCK):
        block *= weights[rows, None]
        phi = block @ whiten
        gram += phi.T @ phi
    return _rotate(kernel, m, centers, root, gram, float(m.sum() - np.trace(gram)))


def partial(kernel: GaussianKernel, m: FloatArray, most: int, tolerance: float, seed: int = 0) -> LowRank | None:
    """Decompose the kernel to rounding with the eigenvectors that count; None when ``most`` do not suffice.

    Parameters
    ----------
    kernel : GaussianKernel
    m : (U,)
    most : int
        Landmarks after which to give up.
    tolerance : float
        Unexplained variance allowed in a row, 1 being all of it; infinite takes what ``most`` landmarks give.
    seed : int
    """
    stop = SMALLEST_PIVOT if np.isinf(tolerance) else tolerance
    chosen = choose_landmarks(kernel, most, stop, seed, m)
    if chosen.left.max() > tolerance:
        return None
    centers = GaussianKernel(kernel.Z[chosen.index], kernel.s)
    root = chosen.L[chosen.index]
    L = chosen.L
    weighted = not bool((m == 1.0).all())
    if weighted:
        L *= np.sqrt(m)[:, None]
    return _rotate(kernel, m, centers, root, L.T @ L, float(m @ chosen.left), L)


def _rotate(
    kernel: GaussianKernel,
    m: FloatArray,
    centers: GaussianKernel,
    root: FloatArray,
    gram: FloatArray,
    lost: float,
    L: FloatArray | None = None,
) -> LowRank:
    """Turn features into eigenvectors."""
    w, V = scipy.linalg.eigh(gram, lower=True, overwrite_a=True, check_finite=False, driver="evd")
    keep = w > NOISE * w[-1]
    w, V = w[keep], V[:, keep] / np.sqrt(w[keep])
    T = scipy.linalg.solve_triangular(root, V, lower=True, trans="T", check_finite=False)
    Q = L @ V if L is not None else None
    return from_landmarks(kernel, m, centers.Z, T, w, Q, max(lost, 0.0))


def from_landmarks(
    kernel: GaussianKernel,
    m: FloatArray,
    landmarks: FloatArray,
    T: FloatArray,
    w: FloatArray,
    Q: FloatArray | None = None,
    lost: float = 0.0,
) -> LowRank:
    """Make the model from its landmarks, (r, P), and T, (r, k); the eigenvectors are held when they are given or small."""
    root, centers = np.sqrt(m), GaussianKernel(landmarks, kernel.s)
    spectrum: Spectrum = StreamedSpectrum(
        np.empty((len(m), 0)), w, complete=False, Z=kernel.Z, root=root, centers=centers, T=T
    )
    if Q is None and 8 * len(m) * len(w) <= HELD:
        Q = spectrum.rows(np.arange(len(m)))
    if Q is not None:
        spectrum = Spectrum(Q, w, complete=False)
    return LowRank(spectrum, LandmarkKernel(kernel.Z, kernel.s, landmarks, T, spectrum, root), lost)
