"""How is one column of x distributed inside a cluster? One small class per family, all with the same questions.

Parameters of a family are a (K, q) array of free (unbounded) numbers, one row per cluster: means and logs of variances, logs of
rates, logits of shares. ``X`` is the (C, d) array of distinct rows; a NaN is a missing value, whose factor is integrated out, that
is, left out. Densities are up to factors that are the same in every cluster. Each family carries a weak proper prior, so that an
empty cluster has parameters and no variance is zero (no jitter of the data is needed).

Table I of the paper gives the divergence of the Poisson law under the name "exponential"; here each has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, xlogy

from crosslevel.typing import FloatArray

__all__ = ["Categorical", "Exponential", "Family", "Gaussian", "Multinomial", "Ordinal", "Poisson"]


PSEUDO = 0.5
"""Prior observations of each level, of a rate and of a mean."""
VARIANCE_WEIGHT = 2.0
VARIANCE_SHARE = 0.1
"""The prior of a variance has the weight of 2 VARIANCE_WEIGHT observations at this share of the column's variance."""
MEAN_WEIGHT = 0.01


class Family(Protocol):
    """What is asked of a family; W is (C, K), weights of the rows in each cluster."""

    @property
    def name(self) -> str:
        """What tables call it."""

    @property
    def n_free(self) -> int:
        """Free parameters per cluster."""

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, q)."""

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """Log prior and its gradient (K, q)."""

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Most probable parameters of weighted rows."""

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Parameters drawn from their posterior given weighted rows."""

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Bregman divergence of the rows from the clusters' means, (C, K): minus log density less its value at the row."""

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Readable parameters, one array of (K,) per name."""


@dataclass(frozen=True)
class Gaussian:
    """A real number; free parameters (mean, log variance).

    Attributes
    ----------
    name : str
    column : int
        Its place in X.
    centre, variance : float
        Of the whole column, for the prior.
    """

    name: str
    column: int
    centre: float
    variance: float
    n_free: int = 2

    def _parts(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = X[:, self.column]
        seen = np.isfinite(x)
        return np.where(seen, x, 0.0), seen.astype(np.float64)

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        x, seen = self._parts(X)
        mean, log_var = free[:, 0], free[:, 1]
        squares = (x[:, None] - mean) ** 2 * np.exp(-log_var)
        return -0.5 * seen[:, None] * (squares + log_var + np.log(2 * np.pi))

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Half squared distance in standard deviations, (C, K)."""
        x, seen = self._parts(X)
        return 0.5 * seen[:, None] * (x[:, None] - free[:, 0]) ** 2 * np.exp(-free[:, 1])

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 2)."""
        x, seen = self._parts(X)
        z = x[:, None] - free[:, 0]
        precision = np.exp(-free[:, 1])
        weights = G * seen[:, None]
        by_mean = (weights * z).sum(axis=0) * precision
        by_log_var = 0.5 * ((weights * z**2).sum(axis=0) * precision - weights.sum(axis=0))
        return np.column_stack([by_mean, by_log_var])

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """Inverse-gamma penalty on the variance, and a weak pull of the mean to that of the column."""
        z, precision = free[:, 0] - self.centre, np.exp(-free[:, 1])
        b0 = VARIANCE_WEIGHT * VARIANCE_SHARE * self.variance
        away = b0 + 0.5 * MEAN_WEIGHT * z**2
        value = -VARIANCE_WEIGHT * free[:, 1] - away * precision
        slopes = np.column_stack([-MEAN_WEIGHT * z * precision, away * precision - VARIANCE_WEIGHT])
        return float(value.sum()), slopes

    def _posterior(self, W: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, seen = self._parts(X)
        weights = W * seen[:, None]
        n = weights.sum(axis=0)
        total = x @ weights
        mean = (MEAN_WEIGHT * self.centre + total) / (MEAN_WEIGHT + n)
        squares = np.einsum("ck,ck->k", weights, (x[:, None] - mean) ** 2) + MEAN_WEIGHT * (mean - self.centre) ** 2
        scale = VARIANCE_WEIGHT * VARIANCE_SHARE * self.variance + 0.5 * squares
        return n, mean, scale

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Weighted mean and variance, with the prior."""
        n, mean, scale = self._posterior(W, X)
        return np.column_stack([mean, np.log(scale / (VARIANCE_WEIGHT + 0.5 * n))])

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Variance from its inverse gamma, then the mean."""
        n, mean, scale = self._posterior(W, X)
        var = scale / rng.gamma(VARIANCE_WEIGHT + 0.5 * n - 1.5)
        return np.column_stack([mean + rng.standard_normal(len(n)) * np.sqrt(var / (MEAN_WEIGHT + n)), np.log(var)])

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Mean and standard deviation."""
        return {self.name: free[:, 0], f"{self.name} sd": np.exp(0.5 * free[:, 1])}


@dataclass(frozen=True)
class Categorical:
    """One of L levels, coded 0..L-1; free parameters are logits (Bernoulli: L = 2)."""

    name: str
    column: int
    levels: tuple[str, ...]

    @property
    def n_free(self) -> int:
        """Levels."""
        return len(self.levels)

    def _codes(self, X: FloatArray) -> npt.NDArray[np.int64]:
        return np.where(np.isfinite(X[:, self.column]), X[:, self.column], self.n_free).astype(np.int64)

    def _counts(self, W: FloatArray, X: FloatArray) -> FloatArray:
        """Weight of each level in each cluster, (K, L)."""
        codes = self._codes(X)
        return np.stack([np.bincount(codes, w, self.n_free + 1)[: self.n_free] for w in W.T])

    def log_table(self, free: FloatArray) -> FloatArray:
        """Log probability of each level, (K, L)."""
        return free - logsumexp(free, axis=1, keepdims=True)

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        table = np.vstack([self.log_table(free).T, np.zeros((1, len(free)))])
        return table[self._codes(X)]

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Minus log probability of the level (the multinomial divergence of a single draw), (C, K)."""
        return -self.log_density(free, X)

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, L)."""
        counts = self._counts(G, X)
        return counts - counts.sum(axis=1, keepdims=True) * np.exp(self.log_table(free))

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """PSEUDO observations of each level, and a pull of the logits' mean to zero that only fixes their level."""
        table = self.log_table(free)
        level = free.mean(axis=1, keepdims=True)
        slopes = PSEUDO * (1.0 - self.n_free * np.exp(table)) - level / self.n_free
        return float(PSEUDO * table.sum() - 0.5 * (level**2).sum()), slopes

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Shares of the levels, with the prior; logits of mean zero."""
        return _centred(np.log(self._counts(W, X) + PSEUDO))

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Shares from their Dirichlet."""
        return _centred(_log_gamma_draw(self._counts(W, X) + PSEUDO + 1.0, rng))

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Share of each level; of a Bernoulli column that of the second."""
        shares = np.exp(self.log_table(free))
        chosen = range(1, 2) if self.n_free == 2 else range(self.n_free)
        return {f"{self.name}: {self.levels[v]}": shares[:, v] for v in chosen}


@dataclass(frozen=True)
class Multinomial:
    """Counts in L columns of x that add up to a known total; free parameters are logits of the shares."""

    name: str
    columns: tuple[int, ...]
    levels: tuple[str, ...]

    @property
    def n_free(self) -> int:
        """Levels."""
        return len(self.levels)

    def _counts(self, X: FloatArray) -> FloatArray:
        x = X[:, list(self.columns)]
        return np.where(np.isfinite(x).all(axis=1, keepdims=True), x, 0.0)

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        return self._counts(X) @ (free - logsumexp(free, axis=1, keepdims=True)).T

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """sum_j x_j log(x_j / (M m_j)), (C, K)."""
        x = self._counts(X)
        own = (xlogy(x, x) - xlogy(x, x.sum(axis=1, keepdims=True))).sum(axis=1)
        return own[:, None] - self.log_density(free, X)

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, L)."""
        counts = G.T @ self._counts(X)
        return counts - counts.sum(axis=1, keepdims=True) * np.exp(free - logsumexp(free, axis=1, keepdims=True))

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """As that of a categorical column."""
        return Categorical(self.name, 0, self.levels).log_prior(free)

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Shares of the columns, with the prior."""
        return _centred(np.log(W.T @ self._counts(X) + PSEUDO))

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Shares from their Dirichlet."""
        return _centred(_log_gamma_draw(W.T @ self._counts(X) + PSEUDO + 1.0, rng))

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Share of each column."""
        shares = np.exp(free - logsumexp(free, axis=1, keepdims=True))
        return {f"{self.name}: {level}": shares[:, v] for v, level in enumerate(self.levels)}


@dataclass(frozen=True)
class Poisson:
    """A count; the free parameter is the log of its mean."""

    name: str
    column: int
    centre: float
    n_free: int = 1

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, without log x!, (C, K)."""
        x, seen = _seen(X, self.column)
        return seen[:, None] * (x[:, None] * free[:, 0] - np.exp(free[:, 0]))

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """X log(x/m) - (x - m), (C, K)."""
        x, seen = _seen(X, self.column)
        return seen[:, None] * (xlogy(x, x) - x)[:, None] - self.log_density(free, X)

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 1)."""
        n, total = self._sums(G, X)
        return (total - n * np.exp(free[:, 0]))[:, None]

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """PSEUDO observations at the column's mean."""
        value = PSEUDO * (self.centre * free[:, 0] - np.exp(free[:, 0]))
        return float(value.sum()), PSEUDO * (self.centre - np.exp(free))

    def _sums(self, W: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        x, seen = _seen(X, self.column)
        return seen @ W, x @ W

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Weighted mean, with the prior."""
        n, total = self._sums(W, X)
        return np.log((total + PSEUDO * self.centre) / (n + PSEUDO))[:, None]

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mean from its gamma."""
        n, total = self._sums(W, X)
        return np.log(rng.gamma(total + PSEUDO * self.centre + 0.5) / (n + PSEUDO))[:, None]

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Its mean."""
        return {self.name: np.exp(free[:, 0])}


@dataclass(frozen=True)
class Exponential:
    """A positive number with exponential law; the free parameter is the log of its mean."""

    name: str
    column: int
    centre: float
    n_free: int = 1

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        x, seen = _seen(X, self.column)
        return -seen[:, None] * (x[:, None] * np.exp(-free[:, 0]) + free[:, 0])

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """X/m - log(x/m) - 1, (C, K)."""
        x, seen = _seen(X, self.column)
        own = np.where(seen > 0, np.log(np.where(seen > 0, np.maximum(x, np.finfo(float).tiny), 1.0)) + 1.0, 0.0)
        return -own[:, None] - self.log_density(free, X)

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 1)."""
        x, seen = _seen(X, self.column)
        return ((x @ G) * np.exp(-free[:, 0]) - seen @ G)[:, None]

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """PSEUDO observations at the column's mean."""
        value = -PSEUDO * (self.centre * np.exp(-free) + free)
        return float(value.sum()), PSEUDO * (self.centre * np.exp(-free) - 1.0)

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Weighted mean, with the prior."""
        x, seen = _seen(X, self.column)
        return np.log((x @ W + PSEUDO * self.centre) / (seen @ W + PSEUDO))[:, None]

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mean from its inverse gamma."""
        x, seen = _seen(X, self.column)
        return np.log((x @ W + PSEUDO * self.centre) / rng.gamma(seen @ W + PSEUDO))[:, None]

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Its mean."""
        return {self.name: np.exp(free[:, 0])}


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

    def _table(self) -> Categorical:
        return Categorical(self.name, self.column, self.levels)

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
        table = np.vstack([self.log_table(free).T, np.zeros((1, len(free)))])
        return table[self._table()._codes(X)]

    def divergence(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Minus log probability of the level, (C, K)."""
        return -self.log_density(free, X)

    def _pull(self, free: FloatArray, counts: FloatArray) -> FloatArray:
        edges, log_table = self._edges(free), self.log_table(free)
        density = np.exp(-0.5 * edges**2) / np.sqrt(2 * np.pi)
        leaned = np.where(np.isfinite(edges), edges, 0.0) * density
        shares = counts * np.exp(-np.maximum(log_table, -700.0))
        by_mean = -(shares * (density[:, 1:] - density[:, :-1])).sum(axis=1) * np.exp(-free[:, 1])
        by_log_sd = -(shares * (leaned[:, 1:] - leaned[:, :-1])).sum(axis=1)
        return np.column_stack([by_mean, by_log_sd])

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 2)."""
        return self._pull(free, self._table()._counts(G, X))

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """Normal, of deviations 3 and 1."""
        spread = np.array([9.0, 1.0])
        return float(-0.5 * (free**2 / spread).sum()), -free / spread

    def maximise(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """A few scoring steps from the parameters before; each is halved until the posterior rises."""
        counts = self._table()._counts(W, X)
        now = np.zeros((W.shape[1], 2)) if free is None else free
        n = counts.sum(axis=1)[:, None]
        spread = np.array([9.0, 1.0])

        def value(at: FloatArray) -> FloatArray:
            return (counts * self.log_table(at)).sum(axis=1) - 0.5 * (at**2 / spread).sum(axis=1)

        for _ in range(12 if free is None else 4):
            slope = self._pull(now, counts) - now / spread
            curvature = n * np.column_stack([np.exp(-2 * now[:, 1]), np.full(len(now), 2.0)]) + 1 / spread
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
        counts = self._table()._counts(W, X)
        spread = np.array([9.0, 1.0])
        width = 1.0 / np.sqrt(counts.sum(axis=1)[:, None] * 0.5 + 1 / spread)

        def value(at: FloatArray) -> FloatArray:
            return (counts * self.log_table(at)).sum(axis=1) - 0.5 * (at**2 / spread).sum(axis=1)

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


def _seen(X: FloatArray, column: int) -> tuple[FloatArray, FloatArray]:
    x = X[:, column]
    seen = np.isfinite(x)
    return np.where(seen, x, 0.0), seen.astype(np.float64)


def _centred(logits: FloatArray) -> FloatArray:
    return logits - logits.mean(axis=1, keepdims=True)


def _log_gamma_draw(shape: FloatArray, rng: np.random.Generator) -> FloatArray:
    return np.log(np.maximum(rng.gamma(shape), 1e-300))
