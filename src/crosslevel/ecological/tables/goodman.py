"""Goodman's ecological regression: outcome shares on group shares, no intercept.

Goodman (1953). With x_i the shares of the groups in unit i (they add up to one), t_i the shares of the outcomes and B
the share of each group with each outcome, assumed the same in every unit: t_i = x_i B + e_i. Least squares with weight
N_i (or equal weights), and a covariance that allows the errors' spread to differ between units (HC1: White's sandwich
times n / (n - R)).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize

from crosslevel.data import checks, frames
from crosslevel.data.signatures import checked
from crosslevel.ecological.quantities import goodman_fit
from crosslevel.ecological.tables.assumptions.car_test import describe_curvature
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.layout import Answer, lay_out
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.errors import listed
from crosslevel.results import Estimates
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import BoolArray, FloatArray

SUMS_WEIGHT = 1e4
"""Weight of the rows' sums in the bounded regression: they then hold to about eight digits before rows are rescaled."""


@checked
def goodman(counts: Counts, *, weights: str = "population", level: float = 0.95, bounded: bool = False) -> Estimates:
    """Estimate by Goodman's ecological regression of outcome shares on group shares, with robust standard errors.

    The share of each group with each outcome is assumed to be unrelated to the composition of its unit. Where that
    fails (aggregation bias) the estimate is biased and its interval does not cover; cells outside [0, 1] or outside the
    deterministic bounds show that it has failed. They are flagged, not hidden.

    Parameters
    ----------
    counts : Counts
    weights : {"population", "equal"} or str, default "population"
        Weight of each unit in the regression, or the column of the data that holds it. The choice can matter more than the interval is
        wide: it stands in ``method`` and ``diagnostics``.
    level : float, default 0.95
        Level of the intervals (Student t with n_units - n_groups degrees of freedom). Not with ``bounded``.
    bounded : bool, default False
        Constrain every share to [0, 1] and every group's shares to add up to one (constrained least squares). There is
        then no interval: at an edge its errors are not normal.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; ``outside`` is true where the estimate violates the bounds. ``.units`` repeats the
        regression's constant share in every unit.

    References
    ----------
    Goodman, L. A. (1953). Ecological regressions and behavior of individuals. American Sociological Review 18.

    Examples
    --------
    >>> data = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10], "yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> goodman(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))["estimate"].round(6).tolist()
    [0.6, 0.4, 0.2, 0.8]
    """
    call = ("goodman", locals())
    tables = counts.tables
    level = checks.check_level(level)
    if bounded:
        checks.refuse_idle_arguments(goodman, {"level": level}, "with bounded=True, which has no interval")
    w, said = _unit_weights(counts, weights)
    used, N = w > 0, tables.N[:, None]
    x, t = (tables.X / N)[used], (tables.T / N)[used]
    fit = goodman_fit(x, t, w[used], tables.groups)
    B = bounded_fit(x, t, w[used]) if bounded else fit.B
    dof = int(used.sum()) - len(tables.groups)
    low, high = normal_interval(B, fit.std_error, level, df=dof)
    errors = {} if bounded else {"std_error": fit.std_error, "conf_low": low, "conf_high": high}
    limits, total = tables.bounds, tables.X.sum(axis=0)[:, None]
    outside = (B * total < limits.low.sum(axis=0) - 1e-9 * total) | (B * total > limits.high.sum(axis=0) + 1e-9 * total)
    left_out = int((~used).sum())
    found = Answer(
        B * tables.X[:, :, None],
        method=f"Goodman regression, {said} weights{', constrained to [0, 1]' if bounded else ''}",
        level=None if bounded else level,
        interval="none" if bounded else f"t({dof}), HC1 robust errors",
        columns={**errors, "outside": outside},
        diagnostics={
            "weights": said,
            "condition": fit.condition,
            "cells_outside_bounds": int(outside.sum()),
            **({"bounded": True} if bounded else {}),
        },
        warnings=(
            *_outside_warning(tables, outside),
            *describe_curvature(tables),
            *((f"{left_out} unit(s) of weight zero were left out of the regression.",) if left_out else ()),
        ),
    )
    return lay_out(counts, call, found)


def bounded_fit(x: FloatArray, t: FloatArray, weights: FloatArray) -> FloatArray:
    """Fit the same regression with every coefficient at least zero and every row adding up to one, (n_groups, n_outcomes).

    Non-negative least squares on the triangular factor, with the sums as equations that weigh far more than the data.
    """
    R, C = x.shape[1], t.shape[1]
    root = np.sqrt(weights / weights.sum())[:, None]
    Q, upper = scipy.linalg.qr(root * x, mode="economic")
    design = np.kron(upper, np.eye(C))
    sums = SUMS_WEIGHT * np.kron(np.eye(R), np.ones((1, C)))
    wanted = np.concatenate([(Q.T @ (root * t)).ravel(), np.full(R, SUMS_WEIGHT)])
    B = scipy.optimize.nnls(np.vstack([design, sums]), wanted, maxiter=100 * R * C)[0].reshape(R, C)
    return B / B.sum(axis=1, keepdims=True)


def _unit_weights(counts: Counts, weights: str) -> tuple[FloatArray, str]:
    if weights in ("population", "equal"):
        N = counts.tables.N
        return N if weights == "population" else np.ones(len(N)), weights
    column = frames.column(counts.by_unit([weights], "weights"), weights, "weights")
    return checks.check_weights(column, f"weights={weights!r}"), "own"


def _outside_warning(tables: UnitTables, outside: BoolArray) -> tuple[str, ...]:
    if not outside.any():
        return ()
    cells = [f"{tables.groups[r]} × {tables.outcomes[c]}" for r, c in np.argwhere(outside)]
    return (
        f"{len(cells)} cell(s) lie outside the deterministic bounds ({listed(cells)}): the assumption of constant shares "
        "fails on these data, and the intervals do not cover.",
    )
