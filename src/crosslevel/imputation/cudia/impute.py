"""Hidden values of people: expectations, and draws that keep every published mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from scipy.special import expit, logit

from crosslevel.imputation import match_means
from crosslevel.imputation.cudia.families import Family
from crosslevel.imputation.cudia.kernels import LEAST
from crosslevel.imputation.cudia.model import Parameters, hidden_variance
from crosslevel.imputation.cudia.places import OpenSlopes
from crosslevel.imputation.cudia.regression import bounds
from crosslevel.typing import FloatArray, Int64Array, IntArray, Step


@dataclass(frozen=True, eq=False)
class Crowd:
    """People to impute, gathered into pairs.

    Attributes
    ----------
    X : (C, d)
        Distinct rows.
    cell, atom : (R,) int
        Row and atom of each pair; atom A is a combination of groups that the fit did not have.
    pair : (n,) int
        Pair of each person.
    group : (n, L) int
    weight : (n,) or None
    """

    X: FloatArray
    cell: IntArray
    atom: Int64Array
    pair: IntArray
    group: IntArray
    weight: FloatArray | None


def probabilities(families: Sequence[Family], at: Parameters, crowd: Crowd) -> FloatArray:
    """Probability of each cluster for each pair, (R, K)."""
    log_f = sum(f.log_density(t, crowd.X) for f, t in zip(families, at.theta, strict=True))
    f = np.exp(log_f - np.max(log_f, axis=1, keepdims=True))
    pi = np.vstack([at.pi, at.pi.mean(axis=0)])
    r = np.maximum(pi, LEAST)[crowd.atom] * f[crowd.cell]
    return r / r.sum(axis=1, keepdims=True)


def expected_values(families: Sequence[Family], draws: Sequence[Parameters], crowd: Crowd) -> FloatArray:
    """Expected hidden values of each pair, (R, d_u), averaged over parameters (eq 25)."""
    total = sum(probabilities(families, at, crowd) @ at.H for at in draws)
    return np.asarray(total) / len(draws)


def matched(
    values: FloatArray,
    kinds: Sequence[str],
    targets: Sequence[tuple[int, FloatArray]],
    group: IntArray,
    weight: FloatArray | None,
) -> FloatArray:
    """Shift expected values (n, d_u) so that every published mean holds: logits, factors or constants, by family."""
    out = values.copy()
    for j, (kind, (partition, mean)) in enumerate(zip(kinds, targets, strict=True)):
        adjust = {"bernoulli": match_means.shift_logit, "gaussian": match_means.shift_mean}
        out[:, j] = adjust.get(kind, match_means.scale_mean)(values[:, j], group[:, partition], mean, weight)
    return out


def with_constants(
    values: FloatArray,
    kinds: Sequence[str],
    targets: Sequence[tuple[int, FloatArray]],
    group: IntArray,
    constants: Sequence[FloatArray],
) -> FloatArray:
    """Change expected values (n, d_u) of other people by the constants their groups got in the fit."""
    return np.column_stack(
        [
            match_means.apply_constants(values[:, j], group[:, partition], own, kind)
            for j, (kind, (partition, _), own) in enumerate(zip(kinds, targets, constants, strict=True))
        ]
    )


def draw_values(
    families: Sequence[Family],
    kinds: Sequence[str],
    targets: Sequence[tuple[int, FloatArray]],
    draws: Sequence[Parameters],
    crowd: Crowd,
    rng: np.random.Generator,
    slopes: OpenSlopes | None = None,
    step: Step | None = None,
    errors: Sequence[FloatArray | None] | None = None,
    constants: Sequence[FloatArray] | None = None,
) -> Iterator[FloatArray]:
    """Draw hidden values (n, d_u), once for each of the given parameters; slopes in x may be added to what the clusters say.

    Binary features are drawn with z summed out, given their total (conditional Bernoulli). Real ones are drawn given z; adding
    the same constant to all people of a group is then the exact conditional law, since the clusters share a variance. Counts given
    z are multinomial given their total.

    ``errors``, (P,) each, are standard errors of the published means, by which the means that are kept move in every draw. With
    ``constants``, (P,) each, people are others than those whose means were published: they get these constants and keep no mean.
    """
    errors = [None] * len(kinds) if errors is None else errors
    tilts = (
        slopes.draws(crowd.X, len(draws), rng) if slopes is not None else repeat(np.zeros((len(crowd.X), len(kinds))))
    )
    for at, tilt in zip(draws, tilts, strict=False):
        r = probabilities(families, at, crowd)
        more = tilt[crowd.cell]
        out = np.empty((len(crowd.pair), at.H.shape[1]))
        z = _draw_clusters(r, crowd.pair, rng) if any(k != "bernoulli" for k in kinds) else None
        T = hidden_variance(at.H, kinds, at.tau2)
        for j, (kind, (partition, mean)) in enumerate(zip(kinds, targets, strict=True)):
            group = crowd.group[:, partition]
            if constants is not None:
                out[:, j] = _draw_others(kind, r, at, more[:, j], z, T, crowd, group, constants[j], j, rng)
                continue
            mean = match_means.draw_means(mean, errors[j], rng, kind)
            if kind == "bernoulli" or z is None:
                p = expit(logit(r @ at.H[:, j]) + more[:, j])[crowd.pair]
                out[:, j] = match_means.draw_bernoulli(p, group, mean, rng, crowd.weight)
                continue
            center = np.clip(at.H[z, j] + more[crowd.pair, j], *bounds(kind))
            if kind == "gaussian":
                raw = center + rng.standard_normal(len(z)) * np.sqrt(T[z, j])
                out[:, j] = match_means.shift_mean(raw, group, mean, crowd.weight)
            elif kind == "poisson":
                out[:, j] = _draw_counts(center, group, mean, crowd.weight, rng)
            else:
                out[:, j] = match_means.scale_mean(rng.exponential(center), group, mean, crowd.weight)
        if step is not None:
            step()
        yield out


def _draw_others(
    kind: str,
    r: FloatArray,
    at: Parameters,
    more: FloatArray,
    z: Int64Array | None,
    T: FloatArray,
    crowd: Crowd,
    group: IntArray,
    constant: FloatArray,
    j: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw one hidden feature of people who keep no mean, (n,)."""
    if kind == "bernoulli" or z is None:
        p = expit(logit(r @ at.H[:, j]) + more)[crowd.pair]
        return (rng.random(len(p)) < match_means.apply_constants(p, group, constant, kind)).astype(np.float64)
    center = np.clip(at.H[z, j] + more[crowd.pair], *bounds(kind))
    center = match_means.apply_constants(center, group, constant, kind)
    if kind == "gaussian":
        return center + rng.standard_normal(len(z)) * np.sqrt(T[z, j])
    return rng.poisson(center).astype(np.float64) if kind == "poisson" else rng.exponential(center)


def _draw_clusters(r: FloatArray, pair: IntArray, rng: np.random.Generator) -> Int64Array:
    cumulated = np.cumsum(r, axis=1)
    u = rng.random(len(pair)) * cumulated[pair, -1]
    return (u[:, None] > cumulated[pair]).sum(axis=1).clip(0, r.shape[1] - 1)


def _draw_counts(
    center: FloatArray, group: IntArray, mean: FloatArray, weight: FloatArray | None, rng: np.random.Generator
) -> FloatArray:
    """Counts given their total; a total that is not whole is reached by scaling, and so are weighted means."""
    out = rng.poisson(center).astype(np.float64)
    n = np.bincount(group, minlength=len(mean))
    total = np.where(np.isnan(mean), 0.0, mean) * n
    whole = np.abs(total - np.rint(total)) <= match_means.WHOLE * np.maximum(total, 1.0)
    if weight is None:
        for p in np.flatnonzero(whole & ~np.isnan(mean) & (n > 0)):
            members = np.flatnonzero(group == p)
            out[members] = rng.multinomial(int(np.rint(total[p])), center[members] / center[members].sum())
    return match_means.scale_mean(out, group, mean, weight)
