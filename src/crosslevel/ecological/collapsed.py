"""Covariance of many places: those that share location and groups are one cell, and the field over many cells stands on a few points.

r = A f + e with e ~ N(0, diag(1 / w)), w_i = 1 / (nugget + noise_i), and f ~ N(0, F) of the cells: level, Matern field, groups. With
W = A' diag(w) A and means over a cell weighted by w,

    x' C^-1 y = sum_i w_i (x_i - mean) (y_i - mean)  +  mean(x)' N^-1 mean(y),      N = F + W^-1,
    log |C| = -sum_i log w_i + sum_u log W_u + log |N|,

so that q places cost what their c cells do, and nothing is approximated. Up to ``EXACT`` cells N is a matrix, O(c^3). Beyond, the field
is carried by m points (:mod:`crosslevel.numerics.kernels`), N = n + U U' with n diagonal but for the larger grouping, whose effects are
eliminated group by group: O(c m^2). Where what has coefficients is of more columns than there are places, every place is a cell and F
holds X X' too.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from crosslevel.ecological.covariance import BIAS, Hyperparameters, Moments, Terms, square_root
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.kernels import Basis, basis_of, distances, leaves, matern, points_of
from crosslevel.typing import FloatArray, Int64Array, IntArray

EXACT = 3_500
"""Cells whose covariance is held as a matrix: seconds for each step of the scales."""
POINTS = 600
"""Points that carry the field of more cells."""
LOCATIONS = 20_000
"""Most locations of an approximated field; of more, neighbors are put together, about 30 to a point."""
EMPTY = 1e-8
"""Weight of a cell without any observed place."""
CENTERS, NEIGHBORS = 3, 700
"""Where an approximation is compared with the exact field: places around each of some."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Places that share location and groups.

    Attributes
    ----------
    index : (q,) int
        Cell of each place.
    terms : Terms
        Over the cells, without a nugget.
    n_locations : int
    level : (q,) int or None
        Level of each place that says which nugget it has.
    between, points : (c, m) and (m, m), or None
        Distances of the cells from the points that carry the field, and between those; None where nothing is approximated.
    gram : (c, c) or None
        X X', where it is part of the covariance.
    """

    index: Int64Array
    terms: Terms
    n_locations: int
    between: FloatArray | None = None
    points: FloatArray | None = None
    exact: bool = True
    level: IntArray | None = None
    gram: FloatArray | None = None

    def observed(self, places: IntArray) -> Cells:
        """Keep some places, and all cells."""
        return replace(self, index=self.index[places], level=self._levels(places))

    def take(self, places: IntArray) -> Cells:
        """Keep some places; the field stays on the same points."""
        kept, index = np.unique(self.index[places], return_inverse=True)
        between = None if self.between is None else self.between[kept]
        return replace(self, index=index, terms=self.terms.take(kept), between=between, level=self._levels(places))

    def _levels(self, places: IntArray) -> IntArray | None:
        return None if self.level is None else self.level[places]


def collapse(terms: Terms) -> Cells:
    """Put places of the same location and groups together, and choose points for the field where cells are many."""
    labels = [group for _, group in terms.groupings]
    where, n_locations = terms.coords if terms.kind is not None else None, 0
    points = None
    if where is not None:
        found, location = np.unique(where, axis=0, return_inverse=True)
        location, n_locations = location.reshape(-1), len(found)
        n_cells = len(np.unique(np.column_stack([location, *labels]), axis=0))
        if terms.inducing_points is not None or n_cells > EXACT:
            flat = points_of(found, terms.metric)
            points = found[leaves(flat, min(terms.inducing_points or POINTS, n_locations))[1]]
            if n_locations > LOCATIONS:
                leaf, middle = leaves(flat, LOCATIONS)
                found, location = found[middle], leaf[location]
        labels.append(location)
    if not labels:
        labels = [np.zeros(terms.n_places, dtype=np.intp)]
    both, first, index = np.unique(np.column_stack(labels), axis=0, return_index=True, return_inverse=True)
    coords = None if where is None else found[labels[-1][first]]
    own = replace(terms.take(first), coords=coords, nugget=False, inducing_points=None, nugget_level=None)
    exact = points is None and len(both) <= EXACT
    cells = Cells(index.reshape(-1), own, n_locations, exact=exact, level=terms.nugget_level)
    if points is None or coords is None:
        return cells
    between = distances(coords, points, terms.metric)
    return replace(cells, between=between, points=distances(points, points, terms.metric))


def separate(terms: Terms, gram: FloatArray) -> Cells:
    """Make every place a cell, whose covariance holds X X' too."""
    return Cells(np.arange(terms.n_places), replace(terms, inducing_points=None), terms.n_places, gram=gram)


class _Dense:
    """N as a matrix."""

    def __init__(self, cells: Cells, h: Hyperparameters, W: FloatArray) -> None:
        self.h, self.groupings, c = h, cells.terms.groupings, cells.terms.n_places
        self.F = np.full((c, c), BIAS)
        self.parts: dict[str, tuple[float, FloatArray]] = {}
        if cells.terms.kind is not None and cells.terms.distance is not None:
            field = matern(cells.terms.distance, h.length, cells.terms.kind)
            self.parts |= {name: (h.spatial, K) for name, K in zip(("spatial", "length"), field, strict=True)}
            self.F += h.spatial * field[0]
        for name, group in self.groupings:
            self.F += getattr(h, name) * (group[:, None] == group[None, :])
        if cells.gram is not None:
            self.parts["effect_variance"] = h.effect_variance, cells.gram
            self.F += h.effect_variance * cells.gram
        self._factor(W)

    def _factor(self, W: FloatArray) -> None:
        self.W, N = W, self.F.copy()
        N[np.diag_indices_from(N)] += 1.0 / W
        self.L = _root(N)
        self.half_log_det = float(np.log(np.diag(self.L)).sum())

    def at(self, W: FloatArray) -> _Dense:
        """Give the same prior of cells of other weights."""
        other = copy.copy(self)
        other.__dict__.pop("inverse", None)
        other._factor(W)
        return other

    def solve(self, X: FloatArray) -> FloatArray:
        return np.asarray(linalg.cho_solve((self.L, True), X, check_finite=False))

    @cached_property
    def inverse(self) -> FloatArray:
        """Give N^-1, its lower triangle."""
        return np.asarray(linalg.lapack.dpotri(self.L, lower=True)[0])

    def diagonal(self) -> FloatArray:
        return np.diag(self.inverse).copy()

    def given(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give F N^-1 x, and the diagonal of F - F N^-1 F; of cells where nothing was observed without differences of large numbers."""
        solved, empty = self.solve(x), np.flatnonzero(self.W <= EMPTY)
        told, left = _given(x, solved, self.diagonal(), self.W)
        half = linalg.solve_triangular(self.L, self.F[:, empty], lower=True, check_finite=False)
        told[empty], left[empty] = self.F[empty] @ solved, np.diag(self.F)[empty] - np.einsum("ij,ij->j", half, half)
        return told, left

    def slopes(self, a: FloatArray, T: FloatArray, V: FloatArray) -> dict[str, float]:
        out: dict[str, float] = {}

        def slope(along: FloatArray, by: FloatArray, inverse: float) -> float:
            return 0.5 * float(a @ along - inverse + np.einsum("ij,ik,jk->", T, by, V, optimize=True))

        for name, (variance, K) in self.parts.items():
            both = 2.0 * float(np.vdot(self.inverse, K)) - float(np.diag(self.inverse) @ np.diag(K))
            out[name] = variance * slope(K @ a, K @ T, both)
        for name, group in self.groupings:
            sums = sparse.csr_array((np.ones(len(a)), (group, np.arange(len(a)))))
            alike = (sums @ self.inverse)[group, np.arange(len(a))].sum()
            both = 2.0 * float(alike) - float(np.trace(self.inverse))
            out[name] = getattr(self.h, name) * slope((sums @ a)[group], (sums @ T)[group], both)
        return out

    def prior(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw from N(0, F), (c, n)."""
        F = np.tril(self.L) @ np.tril(self.L).T
        F[np.diag_indices_from(F)] -= 1.0 / self.W
        return np.asarray(square_root(F) @ rng.standard_normal((len(F), n)))


class _LowRank:
    """N = n + U U', n = diag(d) + g Z Z' with Z the larger grouping; B = I + U' n^-1 U."""

    def __init__(self, cells: Cells, h: Hyperparameters, W: FloatArray) -> None:
        self.h, c = h, cells.terms.n_places
        self.basis: Basis | None = None
        columns, rest = {"level": np.full((c, 1), np.sqrt(BIAS))}, np.zeros(c)
        if cells.between is not None and cells.points is not None and cells.terms.kind is not None:
            self.basis = basis_of(cells.between, cells.points, h.length, cells.terms.kind)
            columns["spatial"], rest = np.sqrt(h.spatial) * self.basis.Phi, h.spatial * self.basis.rest
        self.rest = rest
        groupings = sorted(cells.terms.groupings, key=lambda one: -int(one[1].max()))
        self.larger, self.group = groupings[0] if groupings else ("", np.arange(c))
        self.g = getattr(h, self.larger) if groupings else 0.0
        for name, group in groupings[1:]:
            columns[name] = np.sqrt(getattr(h, name)) * (group[:, None] == np.arange(int(group.max()) + 1))
        self.column = {name: slice(0, 0) for name in columns}
        at = 0
        for name, block in columns.items():
            self.column[name], at = slice(at, at + block.shape[1]), at + block.shape[1]
        self.U = np.hstack(list(columns.values()))
        self.together = sparse.csr_array((np.ones(c), (self.group, np.arange(c))))
        self._factor(W)

    def _factor(self, W: FloatArray) -> None:
        self.W, self.d = W, 1.0 / W + self.rest
        self.seen = self.together @ (1.0 / self.d)
        self.nU = self.first(self.U)
        self.L = _root(np.eye(self.U.shape[1]) + self.U.T @ self.nU)
        apart = np.log(self.d).sum() + np.log1p(self.g * self.seen).sum()
        self.half_log_det = float(0.5 * apart + np.log(np.diag(self.L)).sum())

    def at(self, W: FloatArray) -> _LowRank:
        """Give the same prior of cells of other weights."""
        other = copy.copy(self)
        other._factor(W)
        return other

    def first(self, X: FloatArray) -> FloatArray:
        """Give n^-1 X."""
        out = X / self.d[:, None]
        if self.g > 0:
            shared = (self.together @ out) * (self.g / (1.0 + self.g * self.seen))[:, None]
            out -= shared[self.group] / self.d[:, None]
        return np.asarray(out)

    def solve(self, X: FloatArray) -> FloatArray:
        inner = linalg.cho_solve((self.L, True), self.nU.T @ X, check_finite=False)
        return np.asarray(self.first(X) - self.nU @ inner)

    def diagonal(self) -> FloatArray:
        own = 1.0 / self.d - (self.g / (1.0 + self.g * self.seen))[self.group] / self.d**2
        return own - self._against(self.nU)

    def given(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give F N^-1 x, and the diagonal of F - F N^-1 F."""
        return _given(x, self.solve(x), self.diagonal(), self.W)

    def _against(self, X: FloatArray) -> FloatArray:
        """Give the diagonal of X B^-1 X'."""
        half = linalg.solve_triangular(self.L, X.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def slopes(self, a: FloatArray, T: FloatArray, V: FloatArray) -> dict[str, float]:
        inverse = linalg.cho_solve((self.L, True), np.eye(len(self.L)), check_finite=False)
        Ua, UT = self.U.T @ a, self.U.T @ T
        by_column = 0.5 * (Ua**2 - 1.0 + np.diag(inverse) + np.einsum("ij,ij->i", UT @ V, UT))
        out = {name: float(by_column[own].sum()) for name, own in self.column.items()}
        if self.g > 0:
            ga, gT, gU = (self.together @ x for x in (a, T, self.nU))
            told = self.seen / (1.0 + self.g * self.seen) - self._against(gU)
            out[self.larger] = float(0.5 * self.g * (ga**2 - told + np.einsum("ij,ij->i", gT @ V, gT)).sum())
        if self.basis is not None:
            own = self.column["spatial"]
            M = 0.5 * (a**2 - self.diagonal() + np.einsum("ij,ij->i", T @ V, T))
            out["spatial"] += self.h.spatial * float(M @ self.basis.rest)
            E = 0.5 * (np.outer(a, Ua[own]) - self.nU @ inverse[:, own] + (T @ V) @ UT[own].T)
            E -= M[:, None] * self.U[:, own]
            out["length"] = 2.0 * float(np.sqrt(self.h.spatial)) * self.basis.slope(E)
        return out

    def prior(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw from N(0, F), (c, n)."""
        shared = np.sqrt(self.g) * rng.standard_normal((self.together.shape[0], n))[self.group]
        own = np.sqrt(self.rest)[:, None] * rng.standard_normal((len(self.d), n))
        return np.asarray(self.U @ rng.standard_normal((self.U.shape[1], n)) + shared + own)


def _factored(cells: Cells, h: Hyperparameters, W: FloatArray) -> _Dense | _LowRank:
    return _Dense(cells, h, W) if cells.exact else _LowRank(cells, h, W)


def _given(x: FloatArray, solved: FloatArray, diagonal: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give x - W^-1 N^-1 x = F N^-1 x, and the diagonal of W^-1 - W^-1 N^-1 W^-1 = F - F N^-1 F."""
    return x - solved / W[:, None], 1.0 / W - diagonal / W**2


def _root(A: FloatArray) -> FloatArray:
    try:
        return np.asarray(linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError as wrong:
        raise ConvergenceError(
            f"the covariance of places cannot be factored ({wrong}); fix hyperparameters."
        ) from wrong


class Spread:
    """Covariance C of the places' logits about what effects give them, factored.

    Parameters
    ----------
    cells : Cells
    h : Hyperparameters
    noise : (q,)
        Variance of counting.
    context : (q, k), optional
        What has coefficients of variance ``effect_variance`` beside the effects.
    like : Spread, optional
        The same cells and hyperparameters under other noise.
    """

    def __init__(
        self,
        cells: Cells,
        h: Hyperparameters,
        noise: FloatArray,
        context: FloatArray | None = None,
        like: Spread | None = None,
    ) -> None:
        self.cells, self.h, self.noise, self.nugget = cells, h, noise, h.nuggets(cells.level)
        self.w = 1.0 / (noise + self.nugget)
        q, c = len(noise), cells.terms.n_places
        whole = np.bincount(cells.index, self.w, c)
        self.W = np.maximum(whole, EMPTY)
        self.part = self.w / self.W[cells.index]
        self.means = sparse.csr_array((self.part, (cells.index, np.arange(q))), shape=(c, q))
        self.top: _Dense | _LowRank = _factored(cells, h, self.W) if like is None else like.top.at(self.W)
        logs = np.log(self.W).sum() - np.log(self.w).sum()
        self.half_log_det = self.top.half_log_det + 0.5 * float(logs)
        self.context, self.known = context if context is not None else np.zeros((q, 0)), np.zeros((0, 0))
        if self.context.shape[1]:
            self.known = self._gram(self.context) + np.eye(self.context.shape[1]) / h.effect_variance
            self.half_log_det += 0.5 * float(np.linalg.slogdet(h.effect_variance * self.known)[1])

    def _gram(self, X: FloatArray) -> FloatArray:
        mean = self.means @ X
        away = X - mean[self.cells.index]
        found = (away.T * self.w) @ away + mean.T @ self.top.solve(mean)
        return np.asarray(0.5 * (found + found.T))

    def gram(self, X: FloatArray) -> FloatArray:
        """Give X' C^-1 X, (k, k)."""
        if not self.context.shape[1]:
            return self._gram(X)
        k, found = X.shape[1], self._gram(np.hstack([X, self.context]))
        return np.asarray(found[:k, :k] - found[:k, k:] @ linalg.solve(self.known, found[k:, :k], assume_a="pos"))

    def solve(self, X: FloatArray) -> FloatArray:
        """Give C^-1 X, (q, k)."""
        if self.context.shape[1]:
            k = X.shape[1]
            told = self._gram(np.hstack([X, self.context]))[k:, :k]
            X = X - self.context @ linalg.solve(self.known, told, assume_a="pos")
        mean = self.means @ X
        return np.asarray(
            self.w[:, None] * (X - mean[self.cells.index]) + self.part[:, None] * self.top.solve(mean)[self.cells.index]
        )

    def regression(self, X: FloatArray, seen: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Give mean and covariance of coefficients of variance ``effect_variance``, and the log evidence of seen = X b + r."""
        k, variance = X.shape[1], self.h.effect_variance
        found = self.gram(np.column_stack([X, seen]))
        H = found[:k, :k] + np.eye(k) / variance
        V = linalg.inv(H)
        mean = V @ found[:k, k]
        value = -0.5 * float(found[k, k] - found[:k, k] @ mean) - self.half_log_det
        return mean, 0.5 * (V + V.T), value - 0.5 * float(np.linalg.slogdet(variance * H)[1])

    def told(self, X: FloatArray, seen: FloatArray) -> FloatArray:
        """Give (effect_variance X X' + C)^-1 seen."""
        return self.solve((seen - X @ self.regression(X, seen)[0])[:, None])[:, 0]

    def evidence(
        self, X: FloatArray, seen: FloatArray, third: FloatArray | None = None
    ) -> tuple[float, dict[str, float]]:
        """Give the log evidence of seen = X b + r, and its slopes by the logarithms of the scales.

        With ``third``, (q,), of counts whose mode and curvature gave ``seen`` and the noise, slopes are those of Laplace's evidence: the
        mode moves with the scales, and the curvature with the mode by these third derivatives (Rasmussen & Williams 2006, 5.5.1).
        """
        mean, V, value = self.regression(X, seen)
        index, e = self.cells.index, seen - X @ mean
        both = self.means @ np.column_stack([X, e])
        top = self.top.solve(both)
        T, a = top[:, :-1], top[:, -1]
        alpha = self.w * (e - both[index, -1]) + self.part * a[index]
        rows = self.w[:, None] * (X - both[index, :-1]) + self.part[:, None] * T[index]
        own = self.w * (1.0 - self.part) + self.part**2 * self.top.diagonal()[index]
        told = np.einsum("ij,ij->i", rows @ V, rows)
        square, weights = alpha**2, float((mean @ mean + np.trace(V)) / self.h.effect_variance - len(mean))
        if third is not None:
            moved = 0.5 * third * self.noise**2 * (1.0 - self.noise * (own - told))
            moved = moved - X @ (V @ (rows.T @ moved))
            mean_moved = self.means @ moved
            b = self.top.solve(mean_moved[:, None])
            u = self.w * (moved - mean_moved[index]) + self.part * b[index, 0]
            # a a' + u a' + a u' = (a + u) (a + u)' - u u'
            a, T, V = a + b[:, 0], np.hstack([T, b]), linalg.block_diag(V, -1.0)
            square, weights = (alpha + u) ** 2 - u**2, weights + 2.0 * float(u @ X @ mean)
        found = {"effect_variance": 0.5 * weights} | self.top.slopes(a, T, V)
        by_place = 0.5 * self.nugget * (square - own + told)
        found["nugget"] = float(by_place.sum())
        if self.cells.level is not None:
            by_level = np.bincount(self.cells.level, by_place, len(self.h.nugget_ratios)).tolist()
            found |= {f"nugget:{k}": slope for k, slope in enumerate(by_level)}
        return value, found

    def predict(
        self,
        X: FloatArray,
        seen: FloatArray,
        X_new: FloatArray,
        cell: IntArray,
        row: IntArray | None = None,
        level: IntArray | None = None,
    ) -> Moments:
        """Give mean and variance of X_new b + r of places, those that were seen with what they showed themselves.

        Parameters
        ----------
        X, seen : (q, k) and (q,)
        X_new : (m, k)
        cell : (m,) int
            Cell of each place asked for.
        row : (m,) int, optional
            Its row among those seen, -1 where it was not; no place asked for was seen, when not given.
        level : (m,) int, optional
            Which nugget it has, where they differ.
        """
        mean, V, _ = self.regression(X, seen)
        told, left = self.top.given(self.means @ np.column_stack([X, seen - X @ mean]))
        nugget = np.broadcast_to(self.h.nuggets(level), cell.shape)
        share, at, slope = np.zeros(len(cell)), X_new @ mean, X_new
        if row is not None and self.h.nugget > 0:  # of the nugget of a place it has shown a share
            share = np.where(row >= 0, nugget * self.w[row], 0.0)
            at = at + share * (seen - X @ mean)[row]
            slope = slope - share[:, None] * X[row]
        at = at + (1.0 - share) * told[cell, -1]
        slope = slope - (1.0 - share)[:, None] * told[cell, :-1]
        own = (1.0 - share) ** 2 * np.maximum(left, 0.0)[cell] + (1.0 - share) * nugget
        return Moments(at, own + np.einsum("ij,jk,ik->i", slope, V, slope, optimize=True))

    def draw(
        self,
        X: FloatArray,
        seen: FloatArray,
        cell: IntArray,
        row: IntArray,
        n_draws: int,
        rng: np.random.Generator,
    ) -> tuple[FloatArray, FloatArray]:
        """Draw coefficients, (n_draws, k), and r of places, (n_draws, m), jointly; arguments are those of :meth:`predict`.

        Cells by Matheron's rule given the coefficients, F N^-1 x = x - W^-1 N^-1 x; nuggets apart, place by place.
        """
        mean, V, _ = self.regression(X, seen)
        b = mean + rng.standard_normal((n_draws, len(mean))) @ square_root(V).T
        away = seen[:, None] - X @ b.T
        f = self.top.prior(n_draws, rng)
        missed = self.means @ away - f - rng.standard_normal(f.shape) / np.sqrt(self.W)[:, None]
        f += missed - self.top.solve(missed) / self.W[:, None]
        u = f[cell]
        if self.h.nugget > 0:
            share = np.where(row >= 0, self.h.nugget * self.w[row], 0.0)[:, None]
            u += share * (away[row] - u)
            u += np.sqrt((1.0 - share) * self.h.nugget) * rng.standard_normal(u.shape)
        return b, np.ascontiguousarray(u.T)


@dataclass(frozen=True)
class Approximation:
    """How far an approximated field is from the exact one, on places around some of them.

    Attributes
    ----------
    locations, points, places : int
        Different locations, points that carry the field, and places compared.
    mean : float
        Root mean square difference of posterior means of places' rates, in percentage points.
    std_error : float
        Root mean square relative difference of their standard errors.
    """

    locations: int
    points: int
    places: int
    mean: float
    std_error: float


def measure_approximation(
    terms: Terms,
    cells: Cells,
    h: Hyperparameters,
    noise: FloatArray,
    X: FloatArray,
    seen: FloatArray,
    offset: FloatArray,
) -> Approximation:
    """Compare posteriors of places with those of the exact field, given the totals of their neighbors only.

    Parameters
    ----------
    terms : Terms
        Over all places.
    cells : Cells
        Approximated.
    h, noise, X, seen
        As in :class:`Spread`.
    offset : (q,)
        Added to the linear model to give the logit.
    """
    assert terms.coords is not None
    assert cells.points is not None
    where = points_of(terms.coords, terms.metric)
    shift, error, n = 0.0, 0.0, 0
    for center in leaves(where, min(CENTERS, len(where)))[1]:
        near = np.sort(np.argsort(((where - where[center]) ** 2).sum(axis=1), kind="stable")[:NEIGHBORS])
        exact = collapse(replace(terms.take(near), inducing_points=None))
        at = []
        for own in (cells.take(near), exact):
            spread, every = Spread(own, h, noise[near]), np.arange(len(near))
            at.append(spread.predict(X[near], seen[near], X[near], own.index, every, own.level))
        rate = [1.0 / (1.0 + np.exp(-(offset[near] + one.mean))) for one in at]
        shift += float(((rate[0] - rate[1]) ** 2).sum())
        error += float(((np.sqrt(at[0].variance / at[1].variance) - 1.0) ** 2).sum())
        n += len(near)
    sizes = (cells.n_locations, len(cells.points), n)
    return Approximation(*sizes, 100.0 * float(np.sqrt(shift / n)), float(np.sqrt(error / n)))
