"""From checked inputs to fitted features: which means are used, what their errors are, and the values of each person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from crosslevel.data import checks
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.design import Design
from crosslevel.imputation.inputs import FEWEST_GROUPS, UNSURE, Inputs, Rows, read_range
from crosslevel.imputation.match_means import draw_bernoulli, draw_means, inverse_link, match
from crosslevel.imputation.persons.model import (
    LATENT_SD,
    Fit,
    Groups,
    Known,
    Settings,
    fit_slopes,
    sampling_variance,
)
from crosslevel.imputation.persons.uncertainty import Members, anchors_of
from crosslevel.imputation.published import Published
from crosslevel.typing import FloatArray

FAMILIES = ("bernoulli", "gaussian")
ROUNDING = 0.01
"""Shares of all classes may miss one by this much, as rounded percentages do."""
AGREE = 1e-5
"""Distance of slopes, in prior sds, up to which restarts found the same optimum."""
MOST_ROUNDS = 30
"""Fits after which slopes and shifts agree where rates are known; half a dozen are usual."""


@dataclass(frozen=True, eq=False)
class Hidden:
    """One hidden feature, fitted.

    Attributes
    ----------
    name : str
    partition : int
        The partition whose means were used.
    mean : (P,)
    variance : (P,)
        Sampling variance of the link of the mean.
    binary : bool
    unit : float
        What one logit is for a number, NaN where the sd of persons is not known.
    noise : float
        Variance of one person's number around the expected one; NaN for a binary feature, or where it is not known.
    fit : Fit
    shift : (P,)
        b_p - a: what the fit adds to the prediction of people of each group; 0 where no mean was published.
    error : (P,) or None
        Published standard errors of the means of a population, 0 where none is.
    unsure : bool
        Whether means of these very people have errors, which intervals leave out.
    """

    name: str
    partition: int
    mean: FloatArray
    variance: FloatArray
    binary: bool
    unit: float
    noise: float
    fit: Fit
    shift: FloatArray
    error: FloatArray | None = None
    unsure: bool = False

    @property
    def groups(self) -> int:
        """Number of groups with a mean."""
        return int((~np.isnan(self.mean)).sum())


def read_families(model: Any, given: Inputs) -> dict[str, str]:
    """Give the family of each hidden feature; refuse names that are none, and a scale without a number."""
    for argument, chosen in (("family", model.family), ("scale", model.scale)):
        for name in chosen if isinstance(chosen, Mapping) else ():
            if name not in given.hidden:
                raise unknown_name(argument, name, list(given.hidden), "hidden feature")
    own = model.family
    found = {n: own.get(n, "bernoulli") if isinstance(own, Mapping) else own for n in given.hidden}
    for published, (name, family) in zip(given.published, found.items(), strict=True):
        if family not in FAMILIES:
            raise unknown_name("family", family, FAMILIES, "family")
        if family == "bernoulli":
            read_range(given, published, f" For a number pass family={{{name!r}: 'gaussian'}}.")
    scaled = list(model.scale) if isinstance(model.scale, Mapping) else list(found)
    if model.scale is not None and all(found[n] == "bernoulli" for n in scaled):
        checks.refuse_idle(model, ["scale"], "on features that are yes or no; pass family='gaussian'")
    return found


def fit_hidden(
    published: Published,
    cells: Cells,
    design: Design,
    settings: Settings,
    family: str = "bernoulli",
    scale: float | None = None,
    known: Known | None = None,
) -> Hidden:
    """Fit one hidden feature.

    Parameters
    ----------
    published : Published
    cells : Cells
    design : Design
    settings : Settings
    family : {"bernoulli", "gaussian"}
    scale : float, optional
        sd of a number among persons; without it a number has no intervals and no draws.
    known : Known, optional
        Rates of subgroups of all people, met at the shifts of the groups, which are found again until both agree.
    """
    binary = family == "bernoulli"
    Z = design.matrix(cells.X)
    n = cells.sizes(published.partition, len(published.mean))[1]
    groups = _groups(published, cells, n, binary, scale)
    group, shift = cells.pair_group[:, published.partition], np.zeros(len(n))
    for number in range(1 if known is None else MOST_ROUNDS):
        before = shift
        fit = fit_slopes(Z, design.reach, groups, n, settings, known if number else None, before)
        f = (Z @ fit.beta + fit.intercept)[cells.pair_cell]
        value, shift = match(f, group, cells.weight, published.mean, binary=binary)
        if number and np.abs(shift - before).max() < 1e-7 * groups.unit:
            break
    unit, noise = (1.0 if binary else groups.unit), np.nan
    if not binary:
        if scale is None:
            # the ratio of the two scales, and so the numbers, do not depend on the unit; errors do
            fit, unit, noise = replace(fit, Sigma=np.full(fit.Sigma.shape, np.nan), t_b=np.nan), np.nan, 0.0
        else:
            average = np.average(value, weights=cells.weight)
            explained = float(np.average((value - average) ** 2, weights=cells.weight))
            noise = max((unit * LATENT_SD) ** 2 - explained, 0.05 * (unit * LATENT_SD) ** 2)
    return Hidden(
        name=published.name,
        partition=published.partition,
        mean=published.mean,
        variance=groups.variance,
        binary=binary,
        unit=unit,
        noise=noise,
        fit=fit,
        shift=shift,
        error=np.nan_to_num(published.se) * published.elsewhere,
        unsure=not published.elsewhere and bool((published.se > 0).any()),
    )


def _groups(published: Published, cells: Cells, n: FloatArray, binary: bool, scale: float | None) -> Groups:
    """Give the means of one feature as the model takes them."""
    P = len(published.mean)
    W = cells.shares(published.partition, P)
    if binary:
        return Groups(W, published.mean, sampling_variance(published.mean, n, published.se))
    between = float(np.nanstd(published.mean))
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(
            f"scale of {published.name!r} is {scale!r}; pass the standard deviation among persons, above 0."
        )
    if between == 0.0:
        raise InputError(
            f"places: the mean of {published.name!r} is the same in every group; there is nothing to learn from."
        )
    unit = between if scale is None else scale / LATENT_SD
    # a published error is that of the mean; it says nothing of the sd among persons, since nobody knows how many are behind the mean
    own = np.zeros(P) if scale is None else scale**2 / np.maximum(n, 1.0)
    variance = np.where(np.isnan(published.se), own, published.se**2)
    return Groups(W, published.mean, variance, binary=False, unit=unit)


def members_of(hidden: Hidden, design: Design, cells: Cells, fitted: Cells | None = None) -> Members:
    """Give people gathered by cell and group, with their values shifted to the means of their groups.

    Parameters
    ----------
    hidden : Hidden
    design : Design
    cells : Cells
    fitted : Cells, optional
        The people of the fit, where those of ``cells`` are others: these then get the shifts of the fit.
    """
    Z = design.matrix(cells.X)[cells.pair_cell]
    group = cells.pair_group[:, hidden.partition]
    f = Z @ hidden.fit.beta + hidden.fit.intercept
    if fitted is None:
        anchors = None
        value = match(f, group, cells.weight, hidden.mean, binary=hidden.binary)[0]
    else:
        anchors = anchors_of(members_of(hidden, design, fitted))
        value = inverse_link(f + hidden.shift[group], binary=hidden.binary)
    noise = np.nan if hidden.binary else hidden.noise
    known = ~np.isnan(hidden.mean)
    return Members(Z, group, cells.weight, cells.weight_squared, value, known, noise, hidden.error, anchors)


def person_values(hidden: Hidden, design: Design, cells: Cells, *, match_means: bool) -> FloatArray:
    """Give the value of each person, (n,): with the mean of these people equal to the published one, or with the fit's own shift."""
    if match_means:
        return members_of(hidden, design, cells).value[cells.pair]
    group = cells.pair_group[:, hidden.partition]
    f = (design.matrix(cells.X) @ hidden.fit.beta + hidden.fit.intercept)[cells.pair_cell] + hidden.shift[group]
    return inverse_link(f, binary=hidden.binary)[cells.pair]


def class_probabilities(hidden: tuple[Hidden, ...], design: Design, cells: Cells, X: FloatArray) -> FloatArray:
    """Give the probability of each class of people of any group, (n, n_classes): no and yes, or the shares of one whole."""
    names = listed([h.name for h in hidden])
    if not all(h.binary for h in hidden):
        raise InputError(f"predict_proba: of {names} one is a number, which has no classes; use transform.")
    p = np.column_stack([_unseen(h, design, cells, X) for h in hidden])
    if len(hidden) == 1:
        return np.column_stack([1.0 - p, p])
    total = sum((h.mean for h in hidden), np.zeros(1)) if len({h.partition for h in hidden}) == 1 else np.zeros(1)
    if not (np.abs(total[~np.isnan(total)] - 1.0) <= ROUNDING).all():
        raise InputError(
            f"predict_proba: the means of {names} do not sum to one in every group, so they are no classes of one feature; fit one of "
            "them, or the shares of all classes."
        )
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _unseen(hidden: Hidden, design: Design, cells: Cells, X: FloatArray) -> FloatArray:
    """Give the posterior mean of the probability of people of any group (MacKay 1992), (n,).

    One constant makes the mean over all people of the fit that of the published means: who is of no group of theirs is of an average one.
    """

    def scores(rows: FloatArray) -> FloatArray:
        A = np.column_stack([np.ones(len(rows)), design.matrix(rows)])
        spread = np.einsum("ij,ij->i", A @ hidden.fit.Sigma, A)
        return np.asarray(A @ np.append(hidden.fit.intercept, hidden.fit.beta) / np.sqrt(1.0 + np.pi * spread / 8.0))

    mean = hidden.mean[cells.pair_group[:, hidden.partition]]
    here = ~np.isnan(mean)
    weight, f = cells.weight[here], scores(cells.X)[cells.pair_cell[here]]
    average = np.average(mean[here], weights=weight)
    _, shift = match(f, np.zeros(len(f), dtype=np.intp), weight, np.array([average]))
    return np.asarray(special.expit(scores(X) + shift))


def draw(
    hidden: Hidden,
    design: Design,
    people: tuple[Rows, Cells],
    n_draws: int,
    rng: np.random.Generator,
    *,
    values: bool = True,
    fitted: Cells | None = None,
) -> FloatArray:
    """Draw slopes and true means of groups, then the values of all persons given both, (n_draws, n); only probabilities without ``values``.

    With ``fitted``, the people of the fit, ``people`` are others: they get the shifts of the fit, and their totals are open.
    """
    if not np.isfinite(hidden.fit.Sigma).all():
        raise InputError(
            f"draws of {hidden.name!r} need its standard deviation among persons; pass scale={{{hidden.name!r}: sd}}."
        )
    rows, cells = people
    home = cells if fitted is None else fitted
    Z, Z_home = design.matrix(cells.X), design.matrix(home.X)
    root = np.linalg.cholesky(hidden.fit.Sigma)
    theta = np.concatenate([[hidden.fit.intercept], hidden.fit.beta])
    unknown, binary = np.isnan(hidden.mean), hidden.binary
    pair_group, home_group = (c.pair_group[:, hidden.partition] for c in (cells, home))
    group = rows.group[:, hidden.partition]
    out = np.empty((n_draws, len(group)))
    for s in range(n_draws):
        own = theta + root @ rng.standard_normal(len(theta))
        effect = np.where(unknown, hidden.fit.t_b * rng.standard_normal(len(unknown)), 0.0)
        mean = draw_means(hidden.mean, hidden.error, rng, binary=binary)
        at_home = (Z_home @ own[1:] + own[0])[home.pair_cell]
        _, shift = match(at_home, home_group, home.weight, mean, binary=binary)
        f = ((Z @ own[1:] + own[0])[cells.pair_cell] + (effect + shift)[pair_group])[cells.pair]
        target = mean if fitted is None else np.full(len(mean), np.nan)
        person = inverse_link(f, binary=binary)
        if values and binary:
            person = draw_bernoulli(f, group, target, rng, rows.weight)
        elif values:
            noisy = person + np.sqrt(hidden.noise) * rng.standard_normal(len(person))
            person = match(noisy, group, rows.each, target, binary=False)[0]
        out[s] = person
    return out


def describe_warnings(hidden: Hidden) -> list[str]:
    """Say what the reader of a feature's numbers should know."""
    out = []
    if hidden.groups < FEWEST_GROUPS:
        out.append(
            f"{hidden.name!r} is known for {hidden.groups} groups only: expect about half of the gain over the group mean that fifty "
            "groups give, and rely on the ranking of persons more than on the levels."
        )
    if hidden.fit.apart > AGREE:
        out.append(
            f"{hidden.name!r}: fits from other starts ended {hidden.fit.apart:.2g} prior sds away, so there is more than one "
            "optimum; the best was taken. A smaller shrinkage_groups holds the slopes more strongly."
        )
    if not hidden.binary and np.isnan(hidden.unit):
        out.append(
            f"{hidden.name!r} is a number whose standard deviation among persons is not known, so it has estimates without "
            "intervals and no draws; pass scale=, the standard deviation among persons (se= of Means is the error of the means)."
        )
    if hidden.unsure:
        out.append(UNSURE.format(repr(hidden.name)))
    return out
