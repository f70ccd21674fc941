"""Columns of the tables of a fit: means of subgroups, slopes, and every group's mean predicted from the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from crosslevel.imputation.cells import Cells
from crosslevel.imputation.design import Design
from crosslevel.imputation.estimate import naive_means
from crosslevel.imputation.inputs import Schema
from crosslevel.imputation.persons.hidden import Hidden
from crosslevel.imputation.persons.model import Groups, Settings, fit_slopes, mean_slopes
from crosslevel.imputation.persons.uncertainty import Members, mean_interval, mean_spread, share_interval
from crosslevel.typing import FloatArray, IntArray


def mean_columns(
    hidden: Hidden, members: Members, cut: IntArray, n_cuts: int, level: float, *, sampling: bool
) -> dict[str, FloatArray]:
    """Give the columns of a table of means: estimate, error, interval, people, and the naive answer."""
    found = mean_spread(members, cut, n_cuts, hidden.fit)
    model = found.model + found.published
    chance = found.chance if sampling else np.zeros(n_cuts)
    sd = np.sqrt(model + chance)
    std_error = sd
    if hidden.binary:
        # the interval's own asymmetry stays in the interval; this is the sd of the delta method
        std_error = sd * found.mean * (1.0 - found.mean)
    if hidden.binary and sampling:
        low, high = share_interval(found.mean, model, chance, level)
    else:
        low, high = mean_interval(found.mean, sd, level, binary=hidden.binary)
    return {
        "estimate": found.mean,
        "std_error": std_error,
        "conf_low": np.minimum(low, found.mean),
        "conf_high": np.maximum(high, found.mean),
        "naive": naive_means(hidden.mean, members.group, members.weight, cut, n_cuts),
        "people": found.people,
    }


def slope_columns(hidden: Hidden, design: Design, cells: Cells, settings: Settings, level: float) -> dict[str, Any]:
    """Say what group means taught about every slope."""
    known = ~np.isnan(hidden.mean)
    scores = cells.shares(hidden.partition, len(hidden.mean)) @ design.matrix(cells.X)
    between = scores[known].std(axis=0)
    # with d the ridge is on slopes of d z, whose between-group sd is d times as large
    information = (between * design.reach) ** 2
    sd = np.sqrt(np.diag(hidden.fit.Sigma))[1:]
    low, high = mean_interval(hidden.fit.beta, sd, level, binary=False)
    unit = 1.0 if hidden.binary else hidden.unit
    return {
        "feature": [hidden.name] * len(design.terms),
        "column": [design.features[j].name for j in design.owner],
        "term": list(design.terms),
        "estimate": hidden.fit.beta,
        "std_error": sd,
        "conf_low": low,
        "conf_high": high,
        "prior_sd": settings.slope_sd * design.reach * unit,
        "between_sd": between,
        "kept": information / (information + 1.0 / settings.shrinkage_groups),
    }


def totals_columns(
    hidden: Hidden, schema: Schema, cells: Cells, design: Design, settings: Settings, level: float
) -> dict[str, Any]:
    """Leave every group out in turn; give predicted means with intervals beside the published ones."""
    P = len(hidden.mean)
    Z = design.matrix(cells.X)
    W = cells.shares(hidden.partition, P)
    _, n = cells.sizes(hidden.partition, P)
    unit = hidden.unit if np.isfinite(hidden.unit) else float(np.nanstd(hidden.mean))
    once = replace(settings, n_restarts=0)
    mean, sd = np.full(P, np.nan), np.full(P, np.nan)
    for p in np.flatnonzero(~np.isnan(hidden.mean)):
        others = hidden.mean.copy()
        others[p] = np.nan
        fit = fit_slopes(Z, design.reach, Groups(W, others, hidden.variance, hidden.binary, unit), n, once)
        f = Z @ fit.beta + fit.intercept
        row = W[[p]]
        value = special.expit(f) if hidden.binary else f
        mean[p] = (row @ value)[0]
        J = mean_slopes(row, np.column_stack([np.ones(len(Z)), Z]), value, binary=hidden.binary)[0]
        sd[p] = np.sqrt(J @ fit.Sigma @ J + fit.t_b**2 + hidden.variance[p])
    if not np.isfinite(hidden.unit):
        sd[:] = np.nan
    low, high = mean_interval(mean, sd, level, binary=hidden.binary)
    return {
        "feature": [hidden.name] * P,
        "group": [str(v) for v in schema.partitions[hidden.partition].labels],
        "estimate": mean,
        "std_error": sd * (mean * (1.0 - mean) if hidden.binary else 1.0),
        "conf_low": low,
        "conf_high": high,
        "published": hidden.mean,
    }
