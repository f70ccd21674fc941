"""Who lives in each place, allowing for the sampling error of the people who tell it.

Shares of places come from a sample, and people of one household are alike, so shares are measured with error. The error is estimated
from clusters, the shares of all columns are smoothed together toward their mean (empirical Bayes), and the people of each place are
raked to the smoothed shares.

Symbols: q places; p levels of all columns, numbered through; s (q, p) shares; S (p, p) their mean sampling covariance; Sigma (p, p)
covariance of the true shares over places; E (q, p) smoothed shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from crosslevel.data.columns import Category
from crosslevel.data.place_cells import Bins, Clusters, Pairs
from crosslevel.data.places import read_by_key
from crosslevel.ecological.persons.model import level_shares
from crosslevel.errors import InputError, listed
from crosslevel.numerics.compiled import njit
from crosslevel.typing import AnyArray, BoolArray, FloatArray

BLOCK = 500_000
"""People whose levels are laid out at a time."""
NARROW, WIDE = 0.05, 4.0
"""Limits of the sampling variance of a place's share relative to the mean over places, at the same number of people."""
FLOOR, FLOOR_SHARE = 1e-3, 0.2
"""Smallest smoothed share: this, or this part of the measured one, whichever is less."""
TURNS, CLOSE = 40, 1e-3
"""Turns of raking at most, and the largest relative error of a share that ends it."""


@dataclass(frozen=True, eq=False)
class SampledShares:
    """Shares of places as the sample has them.

    Attributes
    ----------
    shares : (q, p)
    covariance : (p, p)
        Sampling covariance of a place's shares, mean over places.
    size : (q,)
        Kish's effective number of people.
    columns : tuple of (start, stop)
        Levels of each column.
    """

    shares: FloatArray
    covariance: FloatArray
    size: FloatArray
    columns: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """How far the measured shares of places can be relied on.

    Attributes
    ----------
    reliability : (n_columns,)
        One less the part of the variance of shares over places that is sampling error, between 0 and 1: the mean over the levels of a
        column, by their people.
    segregation : (n_columns,)
        Variance of the true shares over places in units of s (1 - s), likewise.
    sampling : (p, p)
        Sampling covariance of the shares of a place, times its effective number of people.
    """

    reliability: FloatArray
    segregation: FloatArray
    sampling: FloatArray


def measure_shares(
    levels: AnyArray,
    pairs: Pairs,
    total: FloatArray,
    clusters: Clusters,
    columns: Sequence[tuple[int, int]],
    squares: FloatArray,
    drawn: FloatArray | None = None,
) -> SampledShares:
    """Give the shares of places with their sampling covariance by clusters.

    With d_ic = sum over people j of cluster c of w_j (x_j - s_i) / sum_j w_j, the sampling covariance of place i, which has m_i
    clusters, is m_i / (m_i - 1) sum_c d_ic d_ic'. Places of one cluster do not tell it: the others do, by their effective sizes.

    Parameters
    ----------
    levels : (n_cells, n_columns)
        Levels of each kind of people, numbered through all columns.
    pairs : Pairs
        Everybody.
    total : (q,)
        Weight of each place's people.
    clusters : Clusters
        The same people by cluster, or a part of the clusters.
    columns : sequence of (start, stop)
    squares : (q,)
        Sum of squared weights of each place.
    drawn : (q,), optional
        People of each place, where everybody is a cluster of one; else clusters are counted.
    """
    n_places, p = pairs.n_places, columns[-1][1]
    shares = level_shares(pairs, levels, p)
    share = clusters.weight / total[clusters.place]
    between = np.zeros((p, p))  # sum_c u_c u_c' with u_c = sum_j w_j x_j / sum_j w_j of the place
    mixed, squared = np.zeros((n_places, p)), np.zeros(n_places)  # sum_c v_c u_c, sum_c v_c^2; v_c the cluster's weight
    number = np.cumsum(np.append(0, np.diff(clusters.cluster) != 0))
    if drawn is None:
        drawn = np.bincount(clusters.place[np.append(True, np.diff(number) != 0)], minlength=n_places) / clusters.kept
    several = drawn >= 2.0
    if not several.any():
        raise InputError(
            "every place has people of one cluster only, so that nothing tells the sampling error of its shares: name a smaller "
            "cluster= (the household, not the area that was sampled), give more people of each place, or GroupCounts."
        )
    wider = np.where(several, drawn / np.maximum(drawn - 1.0, 1.0), 0.0)
    cuts = np.append(0, np.searchsorted(number, number[BLOCK::BLOCK], side="left"))
    for first, last in zip(cuts, np.append(cuts[1:], len(number)), strict=True):
        if first == last:  # a cluster of more people than a block
            continue
        some = slice(first, last)
        rows, codes = number[some] - number[first], levels[clusters.cell[some]]
        values = np.repeat(share[some], codes.shape[1])
        u = sparse.csr_array((values, (np.repeat(rows, codes.shape[1]), codes.ravel())), shape=(rows[-1] + 1, p))
        v = np.bincount(rows, share[some])
        home = clusters.place[some][np.append(True, rows[1:] != rows[:-1])]
        own = wider[home]
        at_home = sparse.csr_array((own * v, (home, np.arange(len(home)))), shape=(n_places, len(home)))
        mixed += at_home @ u
        squared += np.bincount(home, own * v**2, n_places)
        between += (u.T @ (sparse.diags_array(own) @ u)).toarray()
    cross, size = mixed.T @ shares, total**2 / np.maximum(squares, 1e-300)
    covariance = (between - cross - cross.T + (shares.T * squared) @ shares) / clusters.kept
    covariance *= np.mean(1.0 / size) / np.sum(1.0 / size[several])
    return SampledShares(shares, covariance, size, tuple(columns))


def smooth_shares(sampled: SampledShares, exact: BoolArray | None = None) -> tuple[FloatArray, Measured]:
    """Shrink the shares of all columns together toward their mean, (q, p), by how well each is measured.

    E_i = m + Sigma (Sigma + S_i)^-1 (s_i - m) with Sigma = cov(s) - S, its negative eigenvalues set to zero in units of
    sqrt(m (1 - m)).

    Parameters
    ----------
    sampled : SampledShares
    exact : (p,) bool, optional
        Levels whose shares are counted, not sampled.
    """
    s, S = sampled.shares, sampled.covariance.copy()
    if exact is not None:
        S[exact, :] = S[:, exact] = 0.0
    mean = s.mean(axis=0)
    unit = np.sqrt(np.maximum(mean * (1.0 - mean), 1e-12))
    away, S_unit = (s - mean) / unit, S / np.outer(unit, unit)
    values, vectors = linalg.eigh(np.cov(away, rowvar=False) - S_unit)
    Sigma = (vectors * np.maximum(values, 0.0)) @ vectors.T
    binomial = s * (1.0 - s)
    wide = np.sqrt(np.clip(binomial / np.maximum(binomial.mean(axis=0), 1e-300), NARROW, WIDE))
    scale = (1.0 / np.mean(1.0 / sampled.size)) / sampled.size
    smoothed = np.empty_like(s)
    # noise that was scaled level by level is put back where the shares of a column add up to one: elsewhere Sigma has no inverse, and
    # what is left of a share there would be blown up
    inside = np.eye(len(mean))
    for start, stop in sampled.columns:
        own = unit[start:stop]
        inside[start:stop, start:stop] -= np.outer(own, own) / (own @ own)
    jitter = 1e-9 * max(float(np.trace(Sigma + S_unit)) / len(mean), 1e-12) * np.eye(len(mean))
    for i in range(len(s)):
        noise = scale[i] * inside @ (wide[i][:, None] * S_unit * wide[i]) @ inside
        smoothed[i] = mean + unit * (Sigma @ linalg.solve(Sigma + noise + jitter, away[i], assume_a="sym"))
    smoothed = np.maximum(smoothed, np.minimum(FLOOR, FLOOR_SHARE * s))
    for start, stop in sampled.columns:
        smoothed[:, start:stop] /= smoothed[:, start:stop].sum(axis=1, keepdims=True)
    if exact is not None:
        smoothed[:, exact] = s[:, exact]
    noise = (scale[:, None] * wide**2).mean(axis=0) * np.diag(S)
    spread = s.var(axis=0, ddof=1)
    reliability = np.clip(1.0 - noise / np.maximum(spread, 1e-300), 0.0, 1.0)
    apart = np.maximum(spread - noise, 0.0) / unit**2

    def by_column(values: FloatArray) -> FloatArray:
        return np.array([np.average(values[a:b], weights=mean[a:b]) for a, b in sampled.columns])

    of_one = sampled.covariance / float(np.mean(1.0 / sampled.size))
    return smoothed, Measured(by_column(reliability), by_column(apart), of_one)


def counted_shares(shares: FloatArray, columns: Sequence[tuple[int, int]]) -> Measured:
    """Take shares, (q, p), as they are: they were counted, not sampled."""
    mean, spread = shares.mean(axis=0), shares.var(axis=0, ddof=1)
    apart = spread / np.maximum(mean * (1.0 - mean), 1e-12)
    segregation = [np.average(apart[a:b], weights=mean[a:b]) for a, b in columns]
    return Measured(np.ones(len(columns)), np.array(segregation), np.zeros((len(mean), len(mean))))


def known_shares(margins: Any, by: str, keys: Sequence[object], bins: Bins) -> FloatArray:
    """Read counts of whole columns by place as shares, (q, p); NaN for the levels of other columns.

    Parameters
    ----------
    margins : dataframe
        A row per place: its key, and a column for every level, called ``column=level`` (``race=white``), of counts.
    by : str
        Column that names the place.
    keys : sequence
        Places, in order.
    bins : Bins
    """
    found = read_by_key(margins, keys, "margins", key=by, repair=", or leave these places out")[0]
    columns = dict(zip(bins.names, bins.encoder.columns, strict=True))
    shares: list[FloatArray] = []
    for name, size in zip(bins.names, bins.sizes, strict=True):
        column = columns[name]
        given = [n for n in found if n.split("=", 1)[0] == name and "=" in n]
        if not given:
            shares.append(np.full((len(keys), size), np.nan))
            continue
        if not isinstance(column, Category):
            raise InputError(
                f"margins has {given[0]!r}, and {name!r} is a column of numbers, which is put in bins; make a column of bands of it "
                "and use that, or leave it out of margins."
            )
        levels = column.names()
        other, missing = ([n for n in one if n not in two] for one, two in ((given, levels), (levels, given)))
        if other or missing:
            raise InputError(
                f"margins must count all levels of {name!r} and no others: {listed(missing or other)} "
                f"{'is missing' if missing else 'is no level of these people'}; the levels are {listed(levels, 12)}."
            )
        counts = np.column_stack([found[n] for n in levels])
        bad = ~np.isfinite(counts).all(axis=1) | (counts < 0).any(axis=1) | ~(counts.sum(axis=1) > 0)
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                f"margins: the counts of {name!r} in {keys[i]!r} are {counts[i].tolist()}; they must be finite, not "
                "negative and not all zero."
            )
        shares.append(counts / counts.sum(axis=1, keepdims=True))
        for n in given:
            del found[n]
    if found:
        raise InputError(
            f"margins has the column(s) {listed(found)}, which name no level of a feature; call them column=level, such as "
            f"{bins.names[0]}=..., or leave them out."
        )
    return np.hstack(shares)


def rake(levels: AnyArray, pairs: Pairs, target: FloatArray, columns: Sequence[tuple[int, int]]) -> FloatArray:
    """Find factors of the levels of each place under which its people have the given shares (iterative proportional fitting).

    Parameters
    ----------
    levels : (n_cells, n_columns)
    pairs : Pairs
    target : (q, p)
        Where a level has a share and no people, the others of its column keep their proportions.
    columns : sequence of (start, stop)

    Returns
    -------
    factors : (q, p)
        One for levels without people.
    """
    factors = np.ones_like(target)
    first, last = (np.array(side, dtype=np.int64) for side in zip(*columns, strict=True))
    _rake(pairs.start, pairs.cell, pairs.weight, np.ascontiguousarray(levels), target, first, last, factors)
    return factors


@njit(nogil=True)
def _rake(start, cell, weight, levels, target, first, last, factors):  # type: ignore[no-untyped-def]  # pragma: no cover
    n_columns, p = levels.shape[1], target.shape[1]
    now, wanted = np.zeros(p), np.zeros(p)
    own, known = np.empty(np.max(np.diff(start))), np.ones(n_columns, dtype=np.bool_)
    for i in range(len(start) - 1):
        n = start[i + 1] - start[i]
        own[:n] = weight[start[i] : start[i + 1]]
        wanted[:] = 0.0
        for j in range(n):
            for k in range(n_columns):
                level = levels[cell[start[i] + j], k]
                wanted[level] = target[i, level]
        for k in range(n_columns):
            whole = wanted[first[k] : last[k]].sum()
            # a column whose people have no share at all says nothing
            wanted[first[k] : last[k]] /= whole if whole > 0.0 else -1.0
            known[k] = whole > 0.0
        for _ in range(TURNS):
            worst = 0.0
            for k in range(n_columns):
                if not known[k]:
                    continue
                now[first[k] : last[k]] = 0.0
                for j in range(n):
                    now[levels[cell[start[i] + j], k]] += own[j]
                for at in range(first[k], last[k]):
                    if now[at] > 0.0:
                        factor = wanted[at] / now[at]
                        worst = max(worst, abs(factor - 1.0))
                        now[at] = factor
                        factors[i, at] *= factor
                for j in range(n):
                    own[j] *= now[levels[cell[start[i] + j], k]]
            if worst < CLOSE:
                break
