"""One vector per bag: mean kernel values at landmarks, effective sizes, and the pooled covariance within bags.

Symbols (all of Law et al. 2018, sections 2 and 3): ``mu`` (n, d) has ``mu_il = sum_j w_ij k(x_ij, u_l) / sum_j w_ij``,
``N`` (n,) are Kish's sizes, ``Sigma`` (d, d) the covariance of ``k(x, U)`` within bags, ``m0`` (d,) the average of the bags'
means, ``K`` (d, d) the landmarks' kernel matrix. One pass over the people makes all of them for any number of bandwidths;
a block of people is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from crosslevel.data import checks
from crosslevel.data.bags import Bags
from crosslevel.errors import InputError
from crosslevel.numerics.features.maps import EIGENVALUE_CUT
from crosslevel.typing import FloatArray, IntArray, Tell

if TYPE_CHECKING:
    from crosslevel.distribution.landmarks import SecondLevel

BLOCK = 2**18
"""Numbers (people x landmarks, or people x columns) of a block: it stays in the cache."""
FEWEST_ROWS, MOST_ROWS = 64, 8192
FARTHEST = 1e150
"""Distance along a column that is as good as infinite: its square can be held."""


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """``phi(x)_l = exp(-|x/s - u_l|^2 / (2 b^2))``.

    Attributes
    ----------
    U : (d, n_columns)
        Landmarks, in units of ``scale``.
    bandwidth : float
        b.
    scale : (n_columns,)
        s, what each column is divided by.
    people : int
        How many landmarks are rows of people.
    """

    U: FloatArray
    bandwidth: float
    scale: FloatArray
    people: int = 0

    def _rows_of_people(self) -> dict[str, int]:
        return {"U": self.people}

    @property
    def K(self) -> FloatArray:
        """The landmarks' kernel matrix, (d, d)."""
        return kernel_values(squared_distances(self.U, self.U), self.bandwidth)

    def transform(self, X: npt.ArrayLike) -> FloatArray:
        """Give the kernel values of each person, (n_people, d)."""
        rows = np.asarray(X, dtype=np.float64) / self.scale
        return kernel_values(squared_distances(rows, self.U), self.bandwidth)


@dataclass(frozen=True, eq=False)
class BagFeatures:
    """What the models see of some bags.

    Attributes
    ----------
    mu : (n, d)
        Weighted mean of the kernel values of each bag's people.
    sizes : (n,)
        Kish's effective sizes N_i.
    K : (d, d)
        Kernel matrix of the landmarks.
    within : (d, d) or None
        Sigma, the covariance of one person's kernel values within bags, pooled: ``sum_i N_i C_i / sum_i (N_i - 1)`` with C_i
        the weighted covariance (denominator sum of weights) of bag i; zeros when every bag has one person.
    m0 : (d,)
        Average of the rows of ``mu``.
    map : LandmarkMap or None
        How they were made.
    second : SecondLevel or None
        The second kernel that ``mu`` holds the values of, if there is one.
    norms : (n,) or None
        Weighted mean over each bag's people of ``|k(U, x) @ whiten|^2``, the squared length of one person's embedding.
    """

    mu: FloatArray
    sizes: FloatArray
    K: FloatArray
    within: FloatArray | None
    m0: FloatArray
    map: LandmarkMap | None = None
    norms: FloatArray | None = None
    second: SecondLevel | None = None

    def __len__(self) -> int:
        return len(self.mu)

    @property
    def d(self) -> int:
        """Number of landmarks."""
        return int(self.mu.shape[1])

    @cached_property
    def whiten(self) -> FloatArray:
        """The matrix (d, r) that makes ``mu @ whiten`` coordinates in which K is the identity; see `root_inverse`."""
        return root_inverse(self.K)


def root_inverse(K: FloatArray) -> FloatArray:
    """Compute V w^(-1/2), (d, r), of the eigenvalues w of K above 1e-9 of the largest: ``A.T K A = I``.

    Below, eigenvectors are rounding noise that the root would blow up more than thirty-thousand-fold.

    Examples
    --------
    >>> A = root_inverse(np.array([[4.0, 0.0], [0.0, 1.0]]))
    >>> np.abs(A.T @ np.diag([4.0, 1.0]) @ A).round(12)
    array([[1., 0.],
           [0., 1.]])
    """
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > EIGENVALUE_CUT * values[-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1]


def squared_distances(X: FloatArray, U: FloatArray) -> FloatArray:
    """Measure |x - u|^2 for every pair, (n, d); centered at the mean landmark, so that far origins cost no digits."""
    center = U.mean(axis=0)
    A, B = np.clip(X - center, -FARTHEST, FARTHEST), U - center
    out = A @ (-2.0 * B.T)
    out += np.einsum("ij,ij->i", A, A)[:, None]
    out += np.einsum("ij,ij->i", B, B)
    return np.maximum(out, 0.0, out=out)


def kernel_values(square: FloatArray, bandwidth: float, out: FloatArray | None = None) -> FloatArray:
    """Compute exp(-square / (2 b^2))."""
    out = np.multiply(square, -0.5 / bandwidth**2, out=out)
    return np.exp(out, out=out)


def blocks(bags: Bags, rows: int) -> Iterator[tuple[FloatArray, slice, IntArray, IntArray]]:
    """Cut the people into blocks: values (m, n_columns) as float64, which people, where bags begin in it, and which bags."""
    offsets = np.asarray(bags.offsets)
    for start in range(0, int(offsets[-1]), rows):
        stop = min(start + rows, int(offsets[-1]))
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        begins = np.maximum(offsets[first:last], start) - start
        values = checks.check_finite(bags.values[start:stop], "X")
        yield values, slice(start, stop), begins, np.arange(first, last)


def pool(
    bags: Bags,
    maps: Sequence[LandmarkMap],
    *,
    within: bool = False,
    norms: bool = False,
    tell: Tell | None = None,
) -> list[BagFeatures]:
    """Average the kernel values of each bag's people, for every map, in one pass.

    Parameters
    ----------
    bags : Bags
    maps : sequence of LandmarkMap
        Maps that share landmarks (the first few of another's, or other bandwidths) share the work of measuring distances.
    within : bool
        Also find the covariance within bags.
    norms : bool
        Also find the mean squared length of each bag's people.
    tell : callable, optional
        Called with the people done and all of them.

    Examples
    --------
    >>> from crosslevel.data.bags import Bags
    >>> bags = Bags([[0.0], [1.0], [1.0]], offsets=[0, 2, 3])
    >>> lone = LandmarkMap(U=np.zeros((1, 1)), bandwidth=1.0, scale=np.ones(1))
    >>> pool(bags, [lone])[0].mu.round(4).ravel().tolist()
    [0.8033, 0.6065]
    """
    if any(m.U.shape[1] != bags.values.shape[1] for m in maps):
        raise InputError(
            f"X has {bags.values.shape[1]:,} columns; the landmarks have {maps[0].U.shape[1]:,}. Pass the columns of fit."
        )
    sums = [_Sums(m, len(bags.offsets) - 1, within, norms) for m in maps]
    sizes = bags.effective_sizes
    groups = _shared(maps)
    width = max(bags.values.shape[1], *(m.U.shape[0] for m in maps))
    totals = np.add.reduceat(bags.weights, bags.offsets[:-1])
    for values, people, begins, which in blocks(bags, int(np.clip(BLOCK // width, FEWEST_ROWS, MOST_ROWS))):
        count = np.diff(np.append(begins, len(values)))
        share = bags.weights[people] / np.repeat(totals[which], count)
        for leader, members in groups:
            square = squared_distances(values / maps[leader].scale, maps[leader].U)
            for i, owners in members:
                phi = kernel_values(square, maps[i].bandwidth)
                for j in (i, *owners) if norms else ():
                    sums[j].add_norms(phi, share, begins, which)
                sums[i].add(phi, share, np.repeat(sizes[which], count) if within else None, begins, which)
                for j in owners:
                    sums[j].source = sums[i]
        if tell is not None:
            tell(people.stop, len(bags.values))
    return [s.finish(m, sizes) for m, s in zip(maps, sums, strict=True)]


class _Sums:
    """Running sums of one map; another map with the first few of the same landmarks reads a corner of them."""

    def __init__(self, fmap: LandmarkMap, n_bags: int, within: bool, norms: bool) -> None:
        self.d = len(fmap.U)
        self.n_bags, self.within = n_bags, within
        self.source: _Sums | None = None
        self.A = root_inverse(fmap.K) if norms else None
        self.norms = np.zeros(n_bags) if norms else None
        self.mu: FloatArray | None = None
        self.square: FloatArray | None = None
        self.pilot: FloatArray | None = None

    def add(
        self,
        phi: FloatArray,
        share: FloatArray,
        size: FloatArray | None,
        begins: IntArray,
        which: IntArray,
    ) -> None:
        if self.mu is None:
            self.mu = np.zeros((self.n_bags, phi.shape[1]))
            # second moments about a point amid the data: about zero, small eigenvalues of Sigma would drown
            self.pilot = phi.mean(axis=0)
            self.square = np.zeros((phi.shape[1], phi.shape[1]))
        if size is not None and self.pilot is not None and self.square is not None:
            away = (phi - self.pilot) * np.sqrt(share * size)[:, None]
            self.square += away.T @ away
        phi *= share[:, None]
        self.mu[which] += np.add.reduceat(phi, begins, axis=0)

    def add_norms(self, phi: FloatArray, share: FloatArray, begins: IntArray, which: IntArray) -> None:
        assert self.A is not None and self.norms is not None  # noqa: PT018 - for the types
        white = phi[:, : self.d] @ self.A
        self.norms[which] += np.add.reduceat(np.einsum("ij,ij->i", white, white) * share, begins)

    def finish(self, fmap: LandmarkMap, sizes: FloatArray) -> BagFeatures:
        home = self if self.source is None else self.source
        assert home.mu is not None and home.square is not None and home.pilot is not None  # noqa: PT018 - for the types
        d = self.d
        mu = np.ascontiguousarray(home.mu[:, :d])
        within = None
        if self.within:
            away = mu - home.pilot[:d]
            free = float((sizes - 1.0).sum())
            total = home.square[:d, :d] - (away * sizes[:, None]).T @ away
            alone = free <= 1e-9 * len(sizes)
            within = np.zeros((d, d)) if alone else (total + total.T) / (2.0 * free)
        return BagFeatures(mu, sizes, fmap.K, within, mu.mean(axis=0), fmap, self.norms)


def _shared(maps: Sequence[LandmarkMap]) -> list[tuple[int, list[tuple[int, list[int]]]]]:
    """Group maps by landmarks: (leader, [(map to compute, maps that are corners of it)])."""
    order = sorted(range(len(maps)), key=lambda i: -len(maps[i].U))
    groups: list[tuple[int, dict[float, list[int]]]] = []
    for i in order:
        for leader, by_bandwidth in groups:
            whole = maps[leader]
            same = np.array_equal(whole.U[: len(maps[i].U)], maps[i].U) and np.array_equal(whole.scale, maps[i].scale)
            if same:
                by_bandwidth.setdefault(maps[i].bandwidth, []).append(i)
                break
        else:
            groups.append((i, {maps[i].bandwidth: [i]}))
    # the largest map of a bandwidth comes first; one that is smaller than the leader wastes a little work
    return [(leader, [(found[0], found[1:]) for found in by.values()]) for leader, by in groups]
