"""From checked inputs to fitted features: which means are used, what their errors are, and the numbers of each person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from crosslevel.errors import InputError
from crosslevel.imputation.baselines import newton
from crosslevel.imputation.cells import Cells, sums
from crosslevel.imputation.inputs import Partition, Published, check_range
from crosslevel.imputation.match_means import draw_bernoulli, shift_mean
from crosslevel.imputation.persons.answers import Hidden
from crosslevel.imputation.persons.design import Design
from crosslevel.imputation.persons.model import (
    LATENT_SD,
    Groups,
    Settings,
    fit_link,
    probabilities,
    sampling_variance,
)
from crosslevel.imputation.persons.similar import Case, mean_log_likelihood
from crosslevel.imputation.persons.uncertainty import Members
from crosslevel.typing import FloatArray, IntArray

__all__ = ["case_of", "draw", "finest", "fit_hidden", "members_of", "person_values"]


@dataclass(frozen=True, eq=False)
class _Means:
    """The means of one feature on the scale of the link: groups as the model takes them, and effective people."""

    groups: Groups
    n: FloatArray


def finest(published: tuple[Published, ...]) -> tuple[Published, ...]:
    """Keep, for each hidden feature, the partition with the most means: coarser ones are sums of it."""
    best: dict[str, Published] = {}
    for p in published:
        if p.name not in best or (~np.isnan(p.mean)).sum() > (~np.isnan(best[p.name].mean)).sum():
            best[p.name] = p
    return tuple(best.values())


def fit_hidden(
    published: Published,
    partition: Partition,
    cells: Cells,
    design: Design,
    settings: Settings,
    family: str = "bernoulli",
    scale: float | None = None,
) -> Hidden:
    """Fit one hidden feature.

    Parameters
    ----------
    published : Published
    partition : Partition
        Its groups.
    cells : Cells
    design : Design
    settings : Settings
    family : {"bernoulli", "gaussian"}
    scale : float, optional
        sd of a number among persons; from the published standard errors when not given.
    """
    binary = family == "bernoulli"
    if binary:
        check_range(published, partition, 0.0, 1.0)
    Z = design.matrix(cells.X)
    means = _means(published, cells, binary, scale)
    fit = fit_link(Z, design.reach, means.groups, means.n, settings)
    f = (Z @ fit.beta + fit.intercept)[cells.pair_cell]
    group = cells.pair_group[:, published.partition]
    value, shift = probabilities(f[None], group, cells.weight, published.mean, binary=binary)
    unit, noise = (1.0 if binary else means.groups.unit), np.nan
    if not binary:
        if scale is None and np.isnan(published.se).all():
            # the ratio of the two scales, and so the numbers, do not depend on the unit; errors do
            fit, unit, noise = replace(fit, Sigma=np.full(fit.Sigma.shape, np.nan), t_b=np.nan), np.nan, 0.0
        else:
            average = np.average(value[0], weights=cells.weight)
            explained = float(np.average((value[0] - average) ** 2, weights=cells.weight))
            noise = max((unit * LATENT_SD) ** 2 - explained, 0.05 * (unit * LATENT_SD) ** 2)
    return Hidden(
        name=published.name,
        partition=published.partition,
        mean=published.mean,
        variance=means.groups.variance,
        binary=binary,
        unit=unit,
        noise=noise,
        fit=fit,
        shift=np.nan_to_num(_filled(shift[0], published.mean)),
    )


def _filled(shift: FloatArray, mean: FloatArray) -> FloatArray:
    """Give groups in which nobody or everybody has the feature a shift that says so."""
    return np.where(np.isnan(shift) & (mean <= 0), -745.0, np.where(np.isnan(shift) & (mean >= 1), 745.0, shift))


def _means(published: Published, cells: Cells, binary: bool, scale: float | None) -> _Means:
    P = len(published.mean)
    _, n = cells.sizes(published.partition, P)
    W = cells.shares(published.partition, P)
    if binary:
        return _Means(Groups(W, published.mean, sampling_variance(published.mean, n, published.se)), n)
    known = ~np.isnan(published.se)
    if scale is None and known.any():
        scale = float(np.median(published.se[known] * np.sqrt(n[known])))
    between = float(np.nanstd(published.mean))
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(
            f"scale of {published.name!r} is {scale!r}; pass the standard deviation among persons, above 0."
        )
    if between == 0.0:
        raise InputError(
            f"aggregates: the mean of {published.name!r} is the same in every group; there is nothing to learn from."
        )
    unit = between if scale is None else scale / LATENT_SD
    variance = np.zeros(P) if scale is None else np.where(known, published.se**2, scale**2 / np.maximum(n, 1.0))
    return _Means(Groups(W, published.mean, variance, binary=False, unit=unit), n)


def members_of(hidden: Hidden, design: Design, cells: Cells, mean: FloatArray | None = None) -> Members:
    """Give people gathered by cell and group, with their values shifted to the means of their groups."""
    Z = design.matrix(cells.X)[cells.pair_cell]
    group = cells.pair_group[:, hidden.partition]
    target = hidden.mean if mean is None else mean
    f = Z @ hidden.beta + hidden.fit.intercept
    value, _ = probabilities(f[None], group, cells.weight, target, binary=hidden.binary)
    noise = np.nan if hidden.binary else hidden.noise
    return Members(Z, group, cells.weight, cells.weight_squared, value[0], ~np.isnan(hidden.mean), noise)


def person_values(hidden: Hidden, design: Design, cells: Cells, *, calibrate: bool) -> FloatArray:
    """Give the value of each person, (n,): with the mean of these people equal to the published one, or with the fit's own shift."""
    if calibrate:
        return members_of(hidden, design, cells).value[cells.pair]
    f = (design.matrix(cells.X) @ hidden.beta + hidden.fit.intercept)[cells.pair_cell]
    f = f + hidden.shift[cells.pair_group[:, hidden.partition]]
    if not hidden.binary:
        return f[cells.pair]
    none = np.full(len(hidden.mean), np.nan)
    return probabilities(f[None], cells.pair_group[:, hidden.partition], cells.weight, none)[0][0][cells.pair]


def draw(
    hidden: Hidden,
    design: Design,
    cells: Cells,
    group: IntArray,
    weight: FloatArray | None,
    m: int,
    rng: np.random.Generator,
    *,
    values: bool = True,
) -> FloatArray:
    """Draw slopes, then the values of all persons given them and the totals, (m, n); probabilities alone without ``values``."""
    if not np.isfinite(hidden.fit.Sigma).all():
        raise InputError(
            f"draws of {hidden.name!r} need its standard deviation among persons; pass scale={{{hidden.name!r}: sd}} or aggregate_se."
        )
    Z = design.matrix(cells.X)
    root = np.linalg.cholesky(hidden.fit.Sigma)
    kappa = hidden.kappa * (np.sqrt(hidden.df / rng.chisquare(hidden.df, m)) if np.isfinite(hidden.df) else np.ones(m))
    theta = np.concatenate([[hidden.fit.intercept], hidden.beta])
    unknown = np.isnan(hidden.mean)
    out = np.empty((m, len(group)))
    for s in range(m):
        own = theta + kappa[s] * (root @ rng.standard_normal(len(theta)))
        f = (Z @ own[1:] + own[0])[cells.pair_cell]
        effect = np.where(unknown, hidden.fit.t_b * rng.standard_normal(len(unknown)), 0.0)
        pair_group = cells.pair_group[:, hidden.partition]
        f = f + effect[pair_group]
        value, _ = probabilities(f[None], pair_group, cells.weight, hidden.mean, binary=hidden.binary)
        person = value[0][cells.pair]
        if values and hidden.binary:
            person = draw_bernoulli(person, group, hidden.mean, rng, weight)
        elif values:
            noisy = person + np.sqrt(hidden.noise) * rng.standard_normal(len(person))
            person = shift_mean(noisy, group, hidden.mean, weight)
        out[s] = person
    return out


def case_of(
    name: str,
    y: FloatArray,
    weight: FloatArray | None,
    partition: int,
    cells: Cells,
    design: Design,
    settings: Settings,
    cut: IntArray,
    P: int,
) -> Case:
    """Hide a known binary column: gather it, fit it from its own group means, and score naive and full information."""
    yes = sums(cells.pair, y if weight is None else y * weight, len(cells.count))
    group = cells.pair_group[:, partition]
    mean = sums(group, yes, P) / np.maximum(sums(group, cells.weight, P), 1e-300)
    Z = design.matrix(cells.X)
    _, n = cells.sizes(partition, P)
    groups = Groups(cells.shares(partition, P), mean, sampling_variance(mean, n))
    fit = fit_link(Z, design.reach, groups, n, replace(settings, n_restarts=0))
    by_cell = [sums(cells.pair_cell, v, len(cells.X)) for v in (yes, cells.weight)]
    theta = newton(Z, *by_cell)
    full = np.asarray(special.expit(theta[0] + Z @ theta[1:]))
    members = Members(
        Z[cells.pair_cell], group, cells.weight, cells.weight_squared, np.full(len(yes), np.nan), np.ones(P, dtype=bool)
    )
    return Case(
        members,
        yes,
        mean,
        fit,
        cut,
        naive=mean_log_likelihood(mean[group], yes, cells.weight),
        full=mean_log_likelihood(full, *by_cell),
    )


def scale_of(name: str, scale: float | Mapping[str, float] | None) -> float | None:
    """Look up the sd of a hidden number."""
    if isinstance(scale, Mapping):
        return None if name not in scale else float(scale[name])
    return None if scale is None else float(scale)
