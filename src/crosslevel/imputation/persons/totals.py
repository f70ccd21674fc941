"""Predict each group's mean from the other groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from crosslevel.imputation.cells import Cells
from crosslevel.imputation.inputs import Schema
from crosslevel.imputation.persons.answers import Hidden
from crosslevel.imputation.persons.design import Design
from crosslevel.imputation.persons.intervals import mean_interval
from crosslevel.imputation.persons.model import Groups, Settings, fit_link

__all__ = ["totals_columns"]


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
        fit = fit_link(Z, design.reach, Groups(W, others, hidden.variance, hidden.binary, unit), n, once)
        f = Z @ fit.beta + fit.intercept
        row = W[[p]]
        value = special.expit(f) if hidden.binary else f
        mean[p] = (row @ value)[0]
        q = value * (1.0 - value) if hidden.binary else np.ones(len(f))
        J = (row @ (q[:, None] * np.column_stack([np.ones(len(Z)), Z])))[0]
        J = J / (mean[p] * (1.0 - mean[p]) if hidden.binary else 1.0)
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
