"""Families of columns with levels: one of several, ordered or not, and counts in several columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from crosslevel.typing import FloatArray, Int64Array

PSEUDO = 0.5
"""Prior observations of each level."""
ORDINAL_VARIANCE = np.array([9.0, 1.0])
"""Prior variance of the mean and of the log deviation behind ordered levels."""


class _Shares:
    """Shares of L levels; free parameters are logits. A subclass says which weight the levels have in each cluster."""

    name: str
    levels: tuple[str, ...]

    @property
    def n_free(self) -> int:
        """Levels."""
        return len(self.levels)

    def _counts(self, W: FloatArray, X: FloatArray) -> FloatArray:
        """Weight of each level in each cluster, (K, L)."""
        raise NotImplementedError

    def log_table(self, free: FloatArray) -> FloatArray:
        """Log probability of each level, (K, L)."""
        return free - logsumexp(free, axis=1, keepdims=True)

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, L)."""
        counts = self._counts(G, X)
        return counts - counts.sum(axis=1, keepdims=True) * np.exp(self.log_table(free))

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """PSEUDO observations of each level, and a prior of the logits' mean around zero that only fixes their level."""
        table = self.log_table(free)
        level = free.mean(axis=1, keepdims=True)
        slopes = PSEUDO * (1.0 - self.n_free * np.exp(table)) - level / self.n_free
        return float(PSEUDO * table.sum() - 0.5 * (level**2).sum()), slopes

    def maximize(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Shares of the levels, with the prior; logits of mean zero."""
        return _centered(np.log(self._counts(W, X) + PSEUDO))

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Shares from their Dirichlet."""
        return _centered(np.log(np.maximum(rng.gamma(self._counts(W, X) + PSEUDO + 1.0), 1e-300)))

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Share of each level."""
        shares = np.exp(self.log_table(free))
        return {f"{self.name}: {level}": shares[:, v] for v, level in enumerate(self.levels)}


@dataclass(frozen=True)
class Categorical(_Shares):
    """One of L levels, coded 0..L-1 (Bernoulli: L = 2)."""

    name: str
    column: int
    levels: tuple[str, ...]

    def _counts(self, W: FloatArray, X: FloatArray) -> FloatArray:
        return _level_weights(W, X[:, self.column], self.n_free)

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        return _look_up(self.log_table(free), X[:, self.column])

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Share of each level; of a Bernoulli column that of the second."""
        found = super().describe(free)
        return dict(list(found.items())[1:]) if self.n_free == 2 else found


@dataclass(frozen=True)
class Multinomial(_Shares):
    """Counts in L columns of x that add up to a known total."""

    name: str
    columns: tuple[int, ...]
    levels: tuple[str, ...]

    def _numbers(self, X: FloatArray) -> FloatArray:
        x = X[:, list(self.columns)]
        return np.where(np.isfinite(x).all(axis=1, keepdims=True), x, 0.0)

    def _counts(self, W: FloatArray, X: FloatArray) -> FloatArray:
        return W.T @ self._numbers(X)

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        return self._numbers(X) @ self.log_table(free).T


@dataclass(frozen=True)
class Ordinal:
    """One of L ordered levels, cut out of a normal variable; free parameters are its mean and the log of its deviation.

    The cuts are the normal quantiles of the whole column's levels, so a cluster like everybody has parameters (0, 0).
    """

    name: str
    column: int
    levels: tuple[str, ...]
    cuts: tuple[float, ...]
    n_free: int = 2

    def _edges(self, free: FloatArray) -> FloatArray:
        inner = (np.asarray(self.cuts) - free[:, :1]) * np.exp(-free[:, 1:])
        ends = np.full((len(free), 1), np.inf)
        return np.hstack([-ends, inner, ends])

    def log_table(self, free: FloatArray) -> FloatArray:
        """Log probability of each level, (K, L); the side of the normal law with more digits is used."""
        edges = self._edges(free)
        low, high = edges[:, :-1], edges[:, 1:]
        flip = low > 0
        a, b = np.where(flip, -high, low), np.where(flip, -low, high)
        return log_ndtr(b) + np.log(-np.expm1(np.minimum(log_ndtr(a) - log_ndtr(b), -1e-15)))

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        return _look_up(self.log_table(free), X[:, self.column])

    def _slopes(self, free: FloatArray, counts: FloatArray) -> FloatArray:
        edges, log_table = self._edges(free), self.log_table(free)
        density = np.exp(-0.5 * edges**2) / np.sqrt(2 * np.pi)
        weighted = np.where(np.isfinite(edges), edges, 0.0) * density
        shares = counts * np.exp(-np.maximum(log_table, -700.0))
        by_mean = -(shares * (density[:, 1:] - density[:, :-1])).sum(axis=1) * np.exp(-free[:, 1])
        by_log_sd = -(shares * (weighted[:, 1:] - weighted[:, :-1])).sum(axis=1)
        return np.column_stack([by_mean, by_log_sd])

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 2)."""
        return self._slopes(free, _level_weights(G, X[:, self.column], len(self.levels)))

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """Normal, of deviations 3 and 1."""
        return float(-0.5 * (free**2 / ORDINAL_VARIANCE).sum()), -free / ORDINAL_VARIANCE

    def _posterior(self, W: FloatArray, X: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Weights of the levels, and the log posterior of each cluster as a function of its parameters."""
        counts = _level_weights(W, X[:, self.column], len(self.levels))
        return (
            counts,
            lambda at: (counts * self.log_table(at)).sum(axis=1) - 0.5 * (at**2 / ORDINAL_VARIANCE).sum(axis=1),
        )

    def maximize(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """A few scoring steps from the parameters before; each is halved until the posterior rises."""
        counts, value = self._posterior(W, X)
        now = np.zeros((W.shape[1], 2)) if free is None else free
        n = counts.sum(axis=1)[:, None]
        for _ in range(12 if free is None else 4):
            slope = self._slopes(now, counts) - now / ORDINAL_VARIANCE
            curvature = n * np.column_stack([np.exp(-2 * now[:, 1]), np.full(len(now), 2.0)]) + 1 / ORDINAL_VARIANCE
            step, best = np.clip(slope / curvature, -0.5, 0.5), value(now)
            for _ in range(20):
                worse = value(now + step) < best
                if not worse.any():
                    break
                step[worse] *= 0.5
            step[value(now + step) < best] = 0.0
            now = now + step
        return now

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A few Metropolis steps from the parameters before."""
        counts, value = self._posterior(W, X)
        width = 1.0 / np.sqrt(counts.sum(axis=1)[:, None] * 0.5 + 1 / ORDINAL_VARIANCE)
        now, height = free, value(free)
        for _ in range(8):
            tried = now + width * rng.standard_normal(now.shape)
            there = value(tried)
            taken = np.log(rng.random(len(now))) < there - height
            now, height = np.where(taken[:, None], tried, now), np.where(taken, there, height)
        return now

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Mean level, counted from 0, and the share of each level."""
        shares = np.exp(self.log_table(free))
        mean = {f"{self.name} (mean level)": shares @ np.arange(len(self.levels), dtype=np.float64)}
        return mean | {f"{self.name}: {level}": shares[:, v] for v, level in enumerate(self.levels)}


def ordinal_cuts(shares: FloatArray) -> tuple[float, ...]:
    """Normal quantiles of the cumulated shares of the levels, without the last.

    Examples
    --------
    >>> ordinal_cuts(np.array([0.5, 0.5]))
    (0.0,)
    """
    cumulated = np.cumsum(shares)[:-1] / np.sum(shares)
    return tuple(float(c) for c in ndtri(np.clip(cumulated, ndtr(-6.0), ndtr(6.0))))


def _codes(x: FloatArray, n_levels: int) -> Int64Array:
    return np.where(np.isfinite(x), x, n_levels).astype(np.int64)


def _level_weights(W: FloatArray, x: FloatArray, n_levels: int) -> FloatArray:
    """Weight of each level in each cluster, (K, L)."""
    codes = _codes(x, n_levels)
    return np.stack([np.bincount(codes, w, n_levels + 1)[:n_levels] for w in W.T])


def _look_up(log_table: FloatArray, x: FloatArray) -> FloatArray:
    """Log probability of the level of each row, (C, K); 0 where it is missing."""
    table = np.vstack([log_table.T, np.zeros((1, len(log_table)))])
    return np.asarray(table[_codes(x, log_table.shape[1])])


def _centered(logits: FloatArray) -> FloatArray:
    return logits - logits.mean(axis=1, keepdims=True)
