"""The deterministic algorithm for people that do not fit into memory: passes over a stream of batches, at flat memory.

The same moves as in :mod:`hard`, person by person, for real-valued x. A person's cluster is one byte in a temporary file; memory
holds one batch and sums by cluster and group. The stream is read once to learn sizes and a start, then once per pass, always in
the same order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.batches import open_batches
from crosslevel.data.columns import Category, Number, decoded
from crosslevel.data.progress import follow
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cudia.families import Gaussian, Reading
from crosslevel.imputation.cudia.fitting import Fitted, Layout, hidden_families
from crosslevel.imputation.cudia.hard import cluster_means, fit_hard, given_tau2
from crosslevel.imputation.cudia.model import Parameters, Problem, plain_block
from crosslevel.imputation.cudia.posterior import MixPrior
from crosslevel.imputation.cudia.regression import EtaPrior, eta_prior, identify
from crosslevel.imputation.cudia.selection import Choices
from crosslevel.imputation.inputs import Inputs, People, Schema, read_fit
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array, Progress

Batches = Callable[[], Iterable[tuple[FloatArray, Int64Array]]]

SAMPLE = 20_000
"""People drawn at random for the start."""
MOST_PASSES = 30
TOLERANCE = 1e-7


@dataclass(frozen=True)
class StreamFit:
    """Result of the passes.

    Attributes
    ----------
    parameters : Parameters
    problem : Problem
        Without people: families, sizes and published means, enough to impute.
    prior : EtaPrior
    people : (P, K)
        People by group and cluster.
    path : (n_passes,)
        J after every pass; it never rises.
    converged : bool
    n : int
    """

    parameters: Parameters
    problem: Problem
    prior: EtaPrior
    people: FloatArray
    path: FloatArray
    converged: bool
    n: int


@dataclass(frozen=True)
class _Learned:
    """What the first pass learns: sizes, moments, a sample."""

    sizes: FloatArray
    mean: FloatArray
    var: FloatArray
    X: FloatArray
    group: Int64Array
    n: int


def fit_batches(
    people: Any,
    partition: str,
    aggregates: Any,
    columns: Sequence[str] | None,
    choices: Choices,
    families: Any,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> tuple[Inputs, Layout, Fitted]:
    """Fit a stream; see `CUDIA.fit_stream`."""
    stream = open_batches(people)
    if stream.one_shot:
        raise InputError(
            "people can be read only once, and the algorithm makes several passes; pass a file or a function."
        )
    names = stream.schema.names
    if partition not in names:
        raise unknown_name("partition", partition, names)
    chosen = [n for n in names if n != partition] if columns is None else list(columns)
    stream = open_batches(stream, columns=[*chosen, partition])
    given = _published(stream, partition, aggregates, chosen)
    labels = given.schema.partitions[0].labels
    own, kinds = hidden_families(given, families)
    if not (own == "auto" or own == "gaussian" or all(v == "gaussian" for v in dict(own).values())):
        raise InputError("a stream is fitted with gaussian columns only; pass families='auto', or fit in memory.")
    known = Category(partition, pa.array(list(labels)), has_null=False)

    def batches() -> Iterator[tuple[FloatArray, Int64Array]]:
        done = 0
        for batch in stream:
            table = pa.Table.from_batches([batch])
            X = np.column_stack([frames.column(table, n, "people") for n in chosen])
            yield X, known.codes(batch.column(partition)).astype(np.int64)
            done += len(X)
            if tell is not None:
                tell(done, stream.num_rows)

    means = [p.mean for p in given.published]
    with follow(progress, "Reading people") as tell:
        fit = fit_stream(batches, np.column_stack(means), tuple(chosen), kinds, choices, rng)
    problem = fit.problem
    layout = Layout(
        problem,
        Reading(problem.families, tuple(None for _ in chosen)),
        np.arange(len(labels))[:, None],
        given.hidden,
        tuple((0, mean) for mean in means),
        problem.blocks[0].size,
    )
    order = np.argsort(-fit.people.sum(axis=0), kind="stable")
    at = fit.parameters.reordered(order)
    shares = np.ascontiguousarray((fit.people / fit.people.sum(axis=1, keepdims=True))[:, order])
    fitted = Fitted(
        parameters=at,
        prior=fit.prior,
        mix_prior=MixPrior.dirichlet(np.ones(at.n_clusters)),
        shares=shares,
        identifiability=identify(problem, at, shares, fit.prior, "count"),
        convergence={
            "converged": fit.converged,
            "steps": len(fit.path),
            "objective": [float(v) for v in fit.path[-5:]],
            "people": fit.n,
        },
        chosen=(at.n_clusters, float(choices.ridge), choices.target),
    )
    return given, layout, fitted


def _published(stream: Any, partition: str, aggregates: Any, chosen: Sequence[str]) -> Inputs:
    """Read the published means as a fit in memory does, on one stand-in person per group."""
    seen: set[Any] = set()
    for batch in open_batches(stream, columns=[partition]):
        values = decoded(batch.column(0))
        if values.null_count:
            raise InputError(
                f"people: {values.null_count:,} person(s) have no {partition!r}; drop them or give them a group."
            )
        seen.update(pc.unique(values).to_pylist())
    stand_in = {"stand-in": np.arange(len(seen), dtype=np.float64)}
    given = read_fit(stand_in, pa.table({partition: sorted(seen)}), aggregates)
    for p in given.published:
        if p.name in chosen:
            raise InputError(
                f"aggregates has the mean of {p.name!r}, which is also a column of people; name other columns."
            )
    people = People(np.zeros((0, len(chosen))), np.zeros((0, 1), dtype=np.intp), None, "pyarrow")
    schema = Schema(tuple(Number(n) for n in chosen), given.schema.partitions, partition)
    return Inputs(people, schema, given.published, {"aggregates": given.data["partition"]}, given.warnings)


def fit_stream(
    batches: Batches,
    S: FloatArray,
    names: tuple[str, ...],
    hidden: tuple[str, ...],
    choices: Choices,
    rng: np.random.Generator,
) -> StreamFit:
    """Fit by passes over a stream, which end when J falls by less than ``TOLERANCE`` of itself.

    Parameters
    ----------
    batches : callable
        Gives the batches anew: pairs of X (n, d), NaN for missing, and group numbers (n,).
    S : (P, d_u)
        Published means.
    names, hidden : tuple of str
        Columns of X, and the family of each hidden feature.
    choices : Choices
        With numbers for clusters, ridge and target.
    """
    learned = _learn(batches, len(S), rng)
    families = tuple(Gaussian(n, j, float(learned.mean[j]), float(learned.var[j])) for j, n in enumerate(names))
    nobody = np.zeros(0, dtype=np.int64)
    block = plain_block(S, learned.sizes)
    whole = Problem(np.zeros((0, len(names))), families, nobody, nobody, np.zeros(0), nobody, len(S), (block,), hidden)
    prior = eta_prior(whole, float(choices.ridge), choices.target, choices.kind, choices.logit_sd)
    sample = _problem(learned.X, learned.group, whole)
    start = fit_hard(
        sample, int(choices.n_clusters), prior, rng, beta=choices.beta, n_restarts=choices.n_restarts
    ).parameters
    with tempfile.TemporaryDirectory() as folder:
        z = np.memmap(Path(folder) / "clusters", dtype=np.uint8, mode="w+", shape=(learned.n,))
        fit = _passes(batches, z, whole, start, prior, learned, choices.beta)
        z._mmap.close()  # type: ignore[attr-defined]
    return fit


def _passes(
    batches: Batches,
    z: npt.NDArray[np.uint8],
    problem: Problem,
    at: Parameters,
    prior: EtaPrior,
    learned: _Learned,
    beta: float,
) -> StreamFit:
    K, d = at.n_clusters, len(problem.families)
    block = problem.blocks[0]
    seen = np.isfinite(block.S)
    lam = np.where(seen, beta * block.size[:, None] / (2 * at.tau2), 0.0)
    counts = np.zeros((block.n_groups, K))
    path: list[float] = []
    converged = False
    for number in range(MOST_PASSES):
        mean = np.column_stack([t[:, 0] for t in at.theta])
        var = np.array([np.exp(t[0, 1]) for t in at.theta])
        residual = np.where(seen, block.S - (counts / block.size[:, None]) @ at.H, 0.0)
        sums, n, squares = np.zeros((K, d)), np.zeros((K, d)), np.zeros(d)
        fit, first = 0.0, 0
        for X, group in batches():
            end = first + len(X)
            part = np.asarray(z[first:end])
            fit += _assign(
                np.ascontiguousarray(X, dtype=np.float64), group, part, number == 0, mean, var, learned.mean, at.H,
                counts, residual, lam, block.size, sums, n, squares,
            )  # fmt: skip
            z[first:end] = part
            first = end
        if first != learned.n:
            raise InputError(
                f"batches gave {first:,} people in pass {number + 1} and {learned.n:,} before; the stream must be the same each time."
            )
        residual = np.where(seen, block.S - (counts / block.size[:, None]) @ at.H, 0.0)
        fit += 0.5 * float((n.sum(axis=0) * np.log(2 * np.pi * var)).sum()) + float((lam * residual**2).sum())
        path.append(fit - prior.log_density(at.H, at.tau2, given_tau2(problem.hidden))[0])
        at = _update(problem, at, counts, sums, n, squares, mean, learned, prior, beta)
        if len(path) > 2 and path[-2] - path[-1] <= TOLERANCE * abs(path[-1]):
            converged = True
            break
    return StreamFit(at, problem, prior, counts, np.array(path), converged, learned.n)


def _update(
    problem: Problem,
    at: Parameters,
    counts: FloatArray,
    sums: FloatArray,
    n: FloatArray,
    squares: FloatArray,
    before: FloatArray,
    learned: _Learned,
    prior: EtaPrior,
    beta: float,
) -> Parameters:
    mean = np.where(n > 0, sums / np.maximum(n, 1e-300), before - learned.mean)
    var = np.maximum((squares - (n * mean**2).sum(axis=0)) / np.maximum(n.sum(axis=0), 1e-300), 1e-6 * learned.var)
    theta = tuple(
        np.column_stack([mean[:, j] + learned.mean[j], np.full(len(mean), np.log(var[j]))])
        for j in range(mean.shape[1])
    )
    H = cluster_means(problem, at, counts / counts.sum(axis=1, keepdims=True), prior, beta)
    return Parameters(theta, (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True), H, at.tau2)


@njit()
def _assign(X, group, z, fresh, mean, var, center, H, counts, residual, lam, size, sums, n, squares):  # type: ignore[no-untyped-def]
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
                sums[to, j] += x - center[j]
                squares[j] += (x - center[j]) * (x - center[j])
                n[to, j] += 1.0
    return total


def _learn(batches: Batches, n_groups: int, rng: np.random.Generator) -> _Learned:
    """Read the stream once: people by group, moments of the columns, and a random sample (reservoir by random keys)."""
    sizes, total = np.zeros(n_groups), 0
    count = mean = m2 = np.zeros(0)
    keys, rows, groups = np.zeros(0), np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
    for X, group in batches():
        if len(X) and group.max() >= n_groups:
            raise InputError(
                f"batches: a person is in group {int(group.max())}, and S has {n_groups} rows; pass one per group."
            )
        if total == 0:
            count, mean, m2 = (np.zeros(X.shape[1]) for _ in range(3))
            rows = np.zeros((0, X.shape[1]))
        sizes += np.bincount(group, minlength=n_groups)
        total += len(X)
        seen = np.isfinite(X)
        n = seen.sum(axis=0)
        x0 = np.where(seen, X, 0.0)
        own = x0.sum(axis=0) / np.maximum(n, 1)
        own2 = (seen * (x0 - own) ** 2).sum(axis=0)
        both, shift = count + n, own - mean
        m2 = m2 + own2 + shift**2 * count * n / np.maximum(both, 1)
        mean = mean + shift * n / np.maximum(both, 1)
        count = both
        keys, rows = np.concatenate([keys, rng.random(len(X))]), np.vstack([rows, X])
        groups = np.concatenate([groups, group])
        if len(keys) > SAMPLE:
            keep = np.argpartition(keys, SAMPLE)[:SAMPLE]
            keys, rows, groups = keys[keep], rows[keep], groups[keep]
    if total == 0:
        raise InputError("batches gave no people; pass a callable that gives the batches anew each time.")
    if (sizes == 0).any():
        raise InputError(
            f"batches: group {int(np.argmax(sizes == 0))} has a published mean and no people; leave it out."
        )
    return _Learned(sizes, mean, m2 / np.maximum(count, 1), rows, groups, total)


def _problem(X: FloatArray, group: Int64Array, whole: Problem) -> Problem:
    """The sample as a problem; groups without people in it have no mean there."""
    sizes = np.bincount(group, minlength=whole.n_atoms).astype(float)
    block = plain_block(np.where(sizes[:, None] > 0, whole.blocks[0].S, np.nan), np.maximum(sizes, 1.0))
    # an atom without people would divide by its weight of zero; one weightless person stands in for it
    empty = np.flatnonzero(sizes == 0)
    rows = np.concatenate([np.arange(len(X)), np.zeros(len(empty), dtype=np.int64)])
    return replace(
        whole,
        X=X,
        cell=rows,
        atom=np.concatenate([group, empty]),
        weight=np.concatenate([np.ones(len(X)), np.full(len(empty), 1e-9)]),
        count=np.ones(len(rows), dtype=np.int64),
        blocks=(block,),
    )
