"""Densities of the common parts of two sets of areas: their posterior, and draws of what each part has of its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy import linalg, special
from scipy.sparse import csr_array

from crosslevel.binned.counts.curve import prior_nodes
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import find_modes
from crosslevel.data.progress import count_steps
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.kernels import distances, matern
from crosslevel.typing import FloatArray, Int64Array, Progress

DENSITY, RATE = (np.log(0.6), 0.7), (np.log(0.3), 0.7)
"""Priors of the log of s and of the white part's scale, for densities of people and for rates among people."""
LENGTH = (np.log(0.2), 0.5)
"""Prior of the log of the lengthscale, in units of the extent of the sources."""
REACH, NODES = 2.0, 4
"""Values of each scale, and how many prior standard deviations they reach."""
LEVEL = 4.0
"""Prior variance of the common log density."""
SLOPES = (0.0, 1.0)
"""Prior standard deviations of the slope, equally probable: sizes of targets may say nothing."""
KEPT = 1e-4
"""Candidates with less weight, relative to the best, are left out of the average."""
DRAWS = 2000
"""Each with its mirror image: what is odd in them leaves the mean."""
SLACK = 0.02
"""Relative error up to which the fit must meet a total. Shares are scaled to the totals afterwards, and millions of people known exactly
would leave a ridge too narrow to climb."""
EXACT = 1e-7
"""Standard error of a total, relative to it, up to which it is exact."""
WIDE = 2.0
"""Standard error of a total, relative to it, from which it is drawn from a folded normal distribution: a gamma distribution of that
spread puts nearly all of its draws next to zero."""
STEPS, MEMORY, TOLERANCE = 60, 8, 1e-8


@dataclass(frozen=True, eq=False)
class Parts:
    """Common parts of sources and targets, in order of the sources; what of a source no target covers is a part of target -1.

    Attributes
    ----------
    center : (k, 2)
    source, target : (k,)
    area : (k,)
    """

    center: FloatArray
    source: Int64Array
    target: Int64Array
    area: FloatArray

    @cached_property
    def _first(self) -> Int64Array:
        return np.flatnonzero(np.diff(self.source, prepend=-1)).astype(np.int64)

    def sums(self, values: FloatArray, axis: int = 0) -> FloatArray:
        """Sum values of parts into values of sources."""
        return np.asarray(np.add.reduceat(values, self._first, axis=axis))


@dataclass(frozen=True, eq=False)
class Counted:
    """What the sources say of the log densities of parts: counts of as many events as they are known by.

    Attributes
    ----------
    parts : Parts
    y : (b,)
        Events.
    weight : (k,)
        Of each part in its source, in events.
    mean : float
        Prior mean of the log density.
    """

    parts: Parts
    y: FloatArray
    weight: FloatArray
    mean: float

    @cached_property
    def _J(self) -> csr_array:
        k = len(self.weight)
        return csr_array((self.weight, (self.parts.source, np.arange(k))), shape=(len(self.y), k))

    def around(self, K: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Give lambda by part (k,), lambda (b,), J K (b, k) and the factor L of S = J K J' + diag(lambda), (b, b)."""
        own, J = self.weight * np.exp(f), self._J
        J.data = own
        lam, JK = self.parts.sums(own), J @ K
        S = J @ JK.T
        S[np.diag_indices_from(S)] += lam
        L, failed = linalg.lapack.dpotrf(S, lower=1)
        if failed:
            raise linalg.LinAlgError
        return own, lam, JK, L

    def climb(self, K: FloatArray, f: FloatArray) -> tuple[FloatArray, float]:
        """Find the mode of f under the covariance K from a guess, and its log evidence.

        Fisher scoring creeps where a source's mass may lie anywhere in it, so that its steps are mixed (Anderson 1965); where a mixed step
        falls, the plain one is taken, halved until it does not.
        """
        k, height = len(f), -np.inf
        at = np.concatenate([f, np.zeros(k)])  # f and K^-1 (f - mean)
        moves: list[FloatArray] = []
        turns: list[FloatArray] = []
        for _ in range(STEPS):
            f = at[:k]
            try:
                own, lam, JK, L = self.around(K, f)
            except linalg.LinAlgError:
                break
            z = self.y - lam + self.parts.sums(own * (f - self.mean))
            x = linalg.lapack.dpotrs(L, z, lower=1)[0]
            step = np.concatenate([self.mean + x @ JK, own * x[self.parts.source]]) - at
            if np.abs(step[:k]).max() < TOLERANCE * (1.0 + np.abs(f).max()):
                return f, height - float(np.log(np.diag(L)).sum() - 0.5 * np.log(lam).sum())
            if moves:
                turns[-1] = step - turns[-1]
                R = np.array(turns)[:, :k]
                mixed = at + step - np.linalg.lstsq(R.T, step[:k])[0] @ (np.array(moves) + np.array(turns))
                if (there := self._height(mixed)) < height:
                    moves, turns = [], []
            if not moves:
                length = 1.0
                # the first f need not lie in the range of K, so it has no height to compare with
                while (there := self._height(at + length * step)) < height - 1e-11 * abs(height) and length > 1e-12:
                    length *= 0.5
                mixed = at + length * step
            if np.isfinite(height):
                moves, turns = [*moves[-MEMORY:], mixed - at], [*turns[-MEMORY:], step]
            at, height = mixed, there
        C = np.zeros((len(self.y), len(f)))
        C[self.parts.source, np.arange(len(f))] = self.weight
        modes = find_modes(K, C, PoissonBins(self.y[None]), np.full_like(f, self.mean), f[None])
        return modes.f[0], float(modes.log_evidence[0] + special.gammaln(self.y + 1.0).sum())

    def _height(self, at: FloatArray) -> float:
        """Give the log posterior up to a constant."""
        f, beta = np.split(at, 2)
        lam = np.maximum(self.parts.sums(self.weight * np.exp(f)), 1e-300)
        height = float(self.y @ np.log(lam) - lam.sum() - 0.5 * beta @ (f - self.mean))
        return height if np.isfinite(height) else -np.inf

    def draw(self, K: FloatArray, f: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
        """Draw f around its mode, (number, k), each with its mirror image."""
        *_, JK, L = self.around(K, f)
        half = linalg.solve_triangular(L, JK, lower=True, check_finite=False)
        root = np.linalg.cholesky(K - half.T @ half + 1e-10 * np.eye(len(f)))
        normal = rng.standard_normal(((number + 1) // 2, len(f)))
        return f + np.concatenate([normal, -normal])[:number] @ root.T


def draw_shares(
    parts: Parts,
    y: FloatArray,
    error: FloatArray,
    weight: FloatArray,
    x: FloatArray,
    prior: tuple[float, float],
    progress: Progress | None,
) -> tuple[FloatArray, dict[str, float]]:
    """Draw the share of each part in its source, (DRAWS, k), and say which scales the evidence prefers."""
    apart = distances(parts.center, parts.center, "plane")
    extent = float(np.ptp(parts.center, axis=0).max()) or 1.0
    lengths, length_prior = prior_nodes(LENGTH, NODES, REACH)
    scales, scale_prior = prior_nodes(prior, NODES, REACH)
    # a total with variance v says as much as y^2 / v events
    some = np.maximum(y, 1.0)
    events = some / (some + error**2 + (SLACK * some) ** 2)
    mean = float(np.log((y.sum() + 0.5) / weight.sum()))
    counted = Counted(parts, y * events, weight * events[parts.source], mean)
    slopes = np.array(SLOPES if x.any() else SLOPES[:1])
    R = [matern(apart, float(length) * extent, "matern32")[0] for length in lengths]
    grid = np.array(list(product(range(NODES), range(NODES), range(NODES), range(len(slopes)))))

    def covariance(row: int) -> FloatArray:
        r, i, j, k = grid[row]
        K = scales[i] ** 2 * R[r] + (LEVEL + slopes[k] ** 2 * np.outer(x, x) if slopes[k] else LEVEL)
        K[np.diag_indices_from(K)] += scales[j] ** 2
        return K

    modes, evidence = np.empty((len(grid), len(weight))), np.full(len(grid), -np.inf)
    failed: list[Exception] = []
    start = np.log((counted.y + 0.5) / parts.sums(counted.weight))[parts.source]
    with count_steps(progress, "Weighing scales", len(grid), "fits") as step:
        for row, (r, i, j, _) in enumerate(grid):
            try:
                start, found = counted.climb(covariance(row), start)
                evidence[row] = found + length_prior[r] + scale_prior[i] + scale_prior[j]
            except ConvergenceError as missed:  # the other candidates are averaged
                failed.append(missed)
            modes[row] = start
            if step is not None:
                step()
    if len(failed) > len(grid) // 2:
        raise failed[0]
    likely = np.exp(evidence - evidence.max())
    likely = np.where(likely >= KEPT, likely, 0.0) / likely[likely >= KEPT].sum()
    rng = np.random.default_rng(0)
    # their weights times the number of draws, rounded up or down by one common chance
    ends = np.floor(np.append(0.0, np.cumsum(likely)) * DRAWS + rng.uniform())
    allotted = np.diff(ends).astype(np.int64)
    draws = [
        counted.draw(covariance(row), modes[row], int(allotted[row]), rng) for row in np.flatnonzero(allotted).tolist()
    ]
    f = np.concatenate(draws)
    raw = weight * np.exp(f - f.max(axis=1, keepdims=True))
    axes = (("lengthscale", lengths * extent), ("smooth", scales), ("white", scales))
    used = {name: float(np.exp(likely @ np.log(v[grid[:, axis]]))) for axis, (name, v) in enumerate(axes)}
    used["slope"] = float(likely @ (slopes[grid[:, 3]] > 0))
    return raw / parts.sums(raw, axis=1)[:, parts.source], used


def draw_counts(parts: Parts, y: FloatArray, error: FloatArray, shares: FloatArray, whole: bool) -> FloatArray:
    """Draw the count of every part, (n_draws, k): a total of its distribution, and who of a finite number is where."""
    rng = np.random.default_rng([0, 1])
    total = np.tile(y, (len(shares), 1))
    known = (error > EXACT * y) & (error <= WIDE * y)
    shape, scale = (y[known] / error[known]) ** 2, error[known] ** 2 / y[known]
    total[:, known] = rng.gamma(shape, scale, (len(shares), int(known.sum())))
    wide = (error > 0) & (error > WIDE * y)
    total[:, wide] = np.abs(y[wide] + rng.standard_normal((len(shares), int(wide.sum()))) * error[wide])
    total = total[:, parts.source]
    if not whole:
        return shares * total
    # the beta of given mean and size has the variance of a binomial share
    drawn = (rng.standard_gamma(np.maximum(shares * total, 1e-8)) + 1e-300) * (shares > 0)
    return np.asarray(drawn / parts.sums(drawn, axis=1)[:, parts.source] * total)
