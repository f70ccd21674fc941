"""The deterministic algorithm for people that do not fit into memory: passes over a stream of batches, at flat memory.

The same moves as in :mod:`hard`, person by person, for real-valued x. A person's cluster is one byte in a temporary file; memory
holds one batch and sums by cluster and group. The stream is read once to learn sizes and a start, then once per pass, always in
the same order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.hard import SETTLED, fit_hard
from crosslevel.imputation.cudia.hidden import EtaPrior, eta_prior, solve_eta
from crosslevel.imputation.cudia.posterior import Parameters
from crosslevel.imputation.cudia.problem import Problem, plain_block
from crosslevel.imputation.cudia.stages import design_of
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array

__all__ = ["StreamFit", "fit_stream"]

Batches = Callable[[], Iterable[tuple[FloatArray, Int64Array]]]

SAMPLE = 20_000
"""People drawn at random for the start."""


@dataclass(frozen=True)
class StreamFit:
    """Result of the passes.

    Attributes
    ----------
    parameters : Parameters
    problem : Problem
        Without people: families, sizes and published means, enough to impute.
    people : (P, K)
        People by group and cluster.
    path : (n_passes,)
        J after every pass; it never rises.
    converged : bool
    n : int
    """

    parameters: Parameters
    problem: Problem
    people: FloatArray
    path: FloatArray
    converged: bool
    n: int


@dataclass(frozen=True)
class _Learnt:
    """What the first pass learns: sizes, moments, a sample."""

    sizes: FloatArray
    mean: FloatArray
    var: FloatArray
    X: FloatArray
    group: Int64Array
    n: int


def fit_stream(
    batches: Batches,
    S: FloatArray,
    n_clusters: int,
    names: tuple[str, ...],
    hidden: tuple[str, ...],
    rng: np.random.Generator,
    *,
    ridge: float = 1.0,
    target: str | float = "mean",
    kind: str = "ridge",
    beta: float = 1.0,
    max_passes: int = 30,
    tolerance: float = 1e-7,
    n_restarts: int = 4,
) -> StreamFit:
    """Fit by passes over a stream.

    Parameters
    ----------
    batches : callable
        Gives the batches anew: pairs of X (n, d), NaN for missing, and group numbers (n,).
    S : (P, d_u)
        Published means.
    tolerance : float
        The passes end when J falls by less than this share of itself.
    """
    learnt = _learn(batches, len(S), rng)
    families = tuple(Gaussian(n, j, float(learnt.mean[j]), float(learnt.var[j])) for j, n in enumerate(names))
    block = plain_block(S, learnt.sizes)
    sample = _problem(learnt.X, learnt.group, families, block.S, hidden)
    prior = eta_prior(_without_people(families, block.S, learnt.sizes, hidden), ridge, target, kind)
    start = fit_hard(sample, n_clusters, prior, rng, beta=beta, n_restarts=n_restarts).parameters
    whole = _without_people(families, block.S, learnt.sizes, hidden)
    with tempfile.TemporaryDirectory() as folder:
        z = np.memmap(Path(folder) / "clusters", dtype=np.uint8, mode="w+", shape=(learnt.n,))
        fit = _passes(batches, z, whole, start, prior, learnt, beta, max_passes, tolerance)
        z._mmap.close()  # type: ignore[attr-defined]
    return fit


def _passes(
    batches: Batches,
    z: npt.NDArray[np.uint8],
    problem: Problem,
    at: Parameters,
    prior: EtaPrior,
    learnt: _Learnt,
    beta: float,
    max_passes: int,
    tolerance: float,
) -> StreamFit:
    K, d = at.n_clusters, len(problem.families)
    block = problem.blocks[0]
    seen = np.isfinite(block.S)
    lam = np.where(seen, beta * block.size[:, None] / (2 * at.tau2), 0.0)
    counts = np.zeros((block.n_groups, K))
    path: list[float] = []
    converged = False
    for number in range(max_passes):
        mean = np.column_stack([t[:, 0] for t in at.theta])
        var = np.array([np.exp(t[0, 1]) for t in at.theta])
        residual = np.where(seen, block.S - (counts / block.size[:, None]) @ at.H, 0.0)
        sums, n, squares = np.zeros((K, d)), np.zeros((K, d)), np.zeros(d)
        fit, first = 0.0, 0
        for X, group in batches():
            end = first + len(X)
            part = np.asarray(z[first:end])
            fit += _assign(
                np.ascontiguousarray(X, dtype=np.float64), group, part, number == 0, mean, var, learnt.mean, at.H,
                counts, residual, lam, block.size, sums, n, squares,
            )  # fmt: skip
            z[first:end] = part
            first = end
        if first != learnt.n:
            raise InputError(
                f"batches gave {first:,} people in pass {number + 1} and {learnt.n:,} before; the stream must be the same each time."
            )
        residual = np.where(seen, block.S - (counts / block.size[:, None]) @ at.H, 0.0)
        fit += 0.5 * float((n.sum(axis=0) * np.log(2 * np.pi * var)).sum()) + float((lam * residual**2).sum())
        fixed = tuple("poisson" if h == "gaussian" else h for h in problem.hidden)
        path.append(fit - prior.log_density(at.H, at.tau2, fixed)[0])
        at = _update(problem, at, counts, sums, n, squares, mean, learnt, prior, beta)
        if len(path) > 2 and path[-2] - path[-1] <= max(tolerance, SETTLED) * abs(path[-1]):
            converged = True
            break
    return StreamFit(at, problem, counts, np.array(path), converged, learnt.n)


def _update(
    problem: Problem,
    at: Parameters,
    counts: FloatArray,
    sums: FloatArray,
    n: FloatArray,
    squares: FloatArray,
    before: FloatArray,
    learnt: _Learnt,
    prior: EtaPrior,
    beta: float,
) -> Parameters:
    mean = np.where(n > 0, sums / np.maximum(n, 1e-300), before - learnt.mean)
    var = np.maximum((squares - (n * mean**2).sum(axis=0)) / np.maximum(n.sum(axis=0), 1e-300), 1e-6 * learnt.var)
    theta = tuple(
        np.column_stack([mean[:, j] + learnt.mean[j], np.full(len(mean), np.log(var[j]))]) for j in range(mean.shape[1])
    )
    nbar = counts / counts.sum(axis=1, keepdims=True)
    H = at.H.copy()
    for j, kind in enumerate(problem.hidden):
        design = design_of(problem, j, nbar)
        H[:, j] = solve_eta(design.D, None, design.s, beta * design.size / at.tau2[j], prior, j, kind)
    return Parameters(theta, (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True), H, at.tau2)


@njit()
def _assign(X, group, z, fresh, mean, var, centre, H, counts, residual, lam, size, sums, n, squares):  # type: ignore[no-untyped-def]
    """Move the people of a batch one by one; gives the sum of their distances, and adds to the sums."""
    K, d = mean.shape
    J = H.shape[1]
    total = 0.0
    for i in range(len(X)):
        p = group[i]
        old = -1 if fresh else z[i]
        best, to, kept = np.inf, 0, 0.0
        for k in range(K):
            away = 0.0
            for j in range(d):
                x = X[i, j]
                if not np.isnan(x):
                    away += (x - mean[k, j]) * (x - mean[k, j]) / var[j]
            away *= 0.5
            cost = away
            if old >= 0:
                for j in range(J):
                    delta = (H[k, j] - H[old, j]) / size[p]
                    cost += lam[p, j] * delta * (delta - 2.0 * residual[p, j])
            if cost < best - 1e-12:
                best, to, kept = cost, k, away
        total += kept
        if to != old:
            counts[p, to] += 1.0
            if old >= 0:
                counts[p, old] -= 1.0
                for j in range(J):
                    residual[p, j] -= (H[to, j] - H[old, j]) / size[p]
            z[i] = to
        for j in range(d):
            x = X[i, j]
            if not np.isnan(x):
                sums[to, j] += x - centre[j]
                squares[j] += (x - centre[j]) * (x - centre[j])
                n[to, j] += 1.0
    return total


def _learn(batches: Batches, n_groups: int, rng: np.random.Generator) -> _Learnt:
    """Read the stream once: people by group, moments of the columns, and a random sample (reservoir by random keys)."""
    sizes, total = np.zeros(n_groups), 0
    count = mean = m2 = keys = rows = groups = None
    for X, group in batches():
        if len(X) and group.max() >= n_groups:
            raise InputError(
                f"batches: a person is in group {int(group.max())}, and S has {n_groups} rows; pass one per group."
            )
        sizes += np.bincount(group, minlength=n_groups)
        total += len(X)
        seen = np.isfinite(X)
        n = seen.sum(axis=0)
        x0 = np.where(seen, X, 0.0)
        own = x0.sum(axis=0) / np.maximum(n, 1)
        own2 = (seen * (x0 - own) ** 2).sum(axis=0)
        u = rng.random(len(X))
        if count is None or mean is None or m2 is None or keys is None or rows is None or groups is None:
            count, mean, m2, keys, rows, groups = n.astype(float), own, own2, u, X, group
        else:
            both = count + n
            shift = own - mean
            m2 = m2 + own2 + shift**2 * count * n / np.maximum(both, 1)
            mean = mean + shift * n / np.maximum(both, 1)
            count = both
            keys, rows, groups = np.concatenate([keys, u]), np.vstack([rows, X]), np.concatenate([groups, group])
        if len(keys) > SAMPLE:
            keep = np.argpartition(keys, SAMPLE)[:SAMPLE]
            keys, rows, groups = keys[keep], rows[keep], groups[keep]
    if count is None or mean is None or m2 is None or rows is None or groups is None:
        raise InputError("batches gave no people; pass a callable that gives the batches anew each time.")
    if (sizes == 0).any():
        raise InputError(
            f"batches: group {int(np.argmax(sizes == 0))} has a published mean and no people; leave it out."
        )
    return _Learnt(sizes, mean, m2 / np.maximum(count, 1), rows, groups.astype(np.int64), total)


def _problem(
    X: FloatArray, group: Int64Array, families: tuple[Gaussian, ...], S: FloatArray, hidden: tuple[str, ...]
) -> Problem:
    """The sample as a problem; groups without people in it have no mean there."""
    sizes = np.bincount(group, minlength=len(S)).astype(float)
    block = plain_block(np.where(sizes[:, None] > 0, S, np.nan), np.maximum(sizes, 1.0))
    n = np.arange(len(X))
    # an atom without people would divide by its weight of zero; one weightless person stands in for it
    empty = np.flatnonzero(sizes == 0)
    rows = np.concatenate([n, np.zeros(len(empty), dtype=np.int64)])
    weight = np.concatenate([np.ones(len(n)), np.full(len(empty), 1e-9)])
    return Problem(
        X,
        families,
        rows,
        np.concatenate([group, empty]),
        weight,
        np.ones(len(rows), dtype=np.int64),
        len(S),
        (block,),
        hidden,
    )


def _without_people(
    families: tuple[Gaussian, ...], S: FloatArray, sizes: FloatArray, hidden: tuple[str, ...]
) -> Problem:
    none = np.zeros(0, dtype=np.int64)
    return Problem(
        np.zeros((0, len(families))), families, none, none, np.zeros(0), none, len(S), (plain_block(S, sizes),), hidden
    )
