"""The contextual R x C model: validates, fits, calibrates and lays out the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from crosslevel.data import checks
from crosslevel.ecological.tables.composition import SLOPE, SLOPE_SD, check_slope
from crosslevel.ecological.tables.contextual.intervals import CALIBRATION, Calibration, TablePosterior
from crosslevel.ecological.tables.contextual.pooling import District, Settings, fit_districts
from crosslevel.ecological.tables.layout import cell_estimates
from crosslevel.ecological.tables.raking import rake_units
from crosslevel.ecological.tables.unit_tables import UnitTables, rows_kept, unit_tables
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates
from crosslevel.results.intervals import critical_value
from crosslevel.typing import FloatArray, IntArray, RandomState

__all__ = ["rxc"]


TAU_ALONE, TAU_POOLED = 0.8, 0.3
TAU_MATCHED, MATCH = 0.5, 2.0  # one district whose labels tie a group to an outcome: prior mean of d on those cells
OTHER_SLOPES = (0.0, 0.35, 0.7)
"""Contextual slopes at which the answer is given in the diagnostics."""


def rxc(
    groups: object,
    outcomes: object = None,
    contextual_slope: float = SLOPE,
    contextual_slope_sd: float = SLOPE_SD,
    tau: float | str = "auto",
    pool: Sequence[object] | None = None,
    labels: Mapping[str, str] | None = None,
    symmetric: bool = False,
    *,
    units: Sequence[object] | None = None,
    level: float = 0.95,
    random_state: RandomState = 0,
    allow_unconverged: bool = False,
) -> Estimates:
    """Estimate R x C tables by a model with a contextual effect: rates change with the composition of the unit.

    Rates are not assumed constant: in a unit whose composition favors an outcome, every group has more of it, by
    ``contextual_slope``. That one number cannot be learned from margins (the likelihood always favors a larger one); its
    default was learned on tables whose inner cells were counted, and the answer at 0, 0.35 and 0.7 stands in the
    diagnostics.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    contextual_slope : float, default 0.35
        How strongly the rates of every group follow what its unit's composition predicts: 0 is Goodman's constancy, 1 is
        close to the neighborhood model. An assumption, not an estimate.
    contextual_slope_sd : float, default 0.1
        Standard deviation of that assumption; it widens the intervals.
    tau : float or "auto", default "auto"
        How far the groups may differ, as the prior sd of log rates: 0.8 alone, 0.3 pooled (around the learned means), 0.5
        around matched labels.
    pool : sequence, optional
        District of each row of ``groups`` (of each unit of checked tables). Districts are fitted together: rates of the
        same pair of labels share a mean, learned from all. The answer gains the key ``district``, and options that a
        district lacks are null.
    labels : mapping of option to label, optional
        Ties options: across districts (default: the names of the columns), or, in one district, a group to the outcome
        of the same label, which it is then expected to prefer.
    symmetric : bool, default False
        Also fit groups given outcomes, and average. Better when both sides are choices by the same people (two votes),
        much worse when groups are demographic.
    units : sequence, optional
        Names of the units.
    level : float, default 0.95
        Level of the intervals.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the posterior draws.
    allow_unconverged : bool, default False
        When the mode is not reached, answer from where the search stopped, with a warning, ``diagnostics["converged"]``
        false and no interval (the curvature there is not that of a mode), instead of raising an error. Not with ``pool``.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome`` (``district`` first when pooled); ``estimate`` is the posterior mean, raked to both
        margins. ``.units`` the same per unit, inside its bounds and without interval. ``.draws`` have the spread of the
        intervals, cell by cell.

    Raises
    ------
    ConvergenceError
        When the mode is not reached, unless ``allow_unconverged``.

    See Also
    --------
    rxc_em : multinomial expectation-maximization, for comparison.
    goodman : assumes constant rates.

    Notes
    -----
    On 349 New Zealand electorates with counted split votes (2002 to 2014) the mean share of votes in a wrong cell is
    7.0 % alone and 4.9 % pooled in both directions; Goodman's regression, clipped, has 12.2 %. Intervals are calibrated
    on those elections: they cover 95 % of cells on average over districts like these, which is no guarantee for one
    table or for other kinds of tables.

    Examples
    --------
    >>> people = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> votes = {"yes": [25, 37, 47, 55, 29, 41], "no": [75, 63, 53, 45, 71, 59]}
    >>> found = rxc(people, votes)
    >>> bool(found["estimate"][0] > found["estimate"][2])
    True
    >>> found.diagnostics["converged"]
    True
    """
    given = locals()
    tables = unit_tables(groups, outcomes, units)
    level, seed = checks.check_level(level), checks.read_seed(random_state)
    if not isinstance(symmetric, bool):
        raise InputError(f"symmetric={symmetric!r} is neither True nor False; pass one of them.")
    slope, slope_sd = check_slope(contextual_slope, contextual_slope_sd)
    if allow_unconverged and pool is not None:
        raise InputError("allow_unconverged=True has no effect with pool=, whose fits must converge; leave it out.")
    row_labels, column_labels = _label_numbers(tables, labels)
    districts_of = None if pool is None else _districts_of(tables, pool, groups)
    parts = _split(tables, districts_of)
    if pool is None and labels is not None:
        parts = [_matched(part, row_labels, column_labels) for part in parts]
    settings = Settings(
        b=slope,
        b_sd=slope_sd,
        tau=_check_tau(tau, pool is not None, labels is not None),
        row_labels=row_labels,
        column_labels=column_labels,
        pooled=pool is not None,
        symmetric=symmetric,
        seed=seed,
        allow_unconverged=allow_unconverged,
    )
    fits = {b: _fit(parts, replace(settings, b=b)) for b in dict.fromkeys((slope, *OTHER_SLOPES))}
    stopped = {b: said[0] for b, fit in fits.items() if (said := [p.failure for p in fit.values() if p.failure])}
    converged = slope not in stopped
    cells = _unit_cells(tables, parts, fits[slope])
    columns, draws = _intervals(tables, parts, fits[slope], cells, level, CALIBRATION[pool is not None, symmetric])
    if pool is None:
        columns, draws = {name: values[0] for name, values in columns.items()}, draws[:, 0]
    return cell_estimates(
        tables,
        cells,
        method=f"contextual R x C model, contextual slope {slope:g}"
        + (", pooled over districts" if pool is not None else "")
        + (", both directions" if symmetric else ""),
        call=("rxc", {**given, "random_state": seed}),
        level=level if converged else None,
        interval="Laplace with the contextual slope cut, calibrated on counted elections" if converged else "none",
        columns=columns if converged else {},
        draws=draws if converged else None,
        districts=districts_of,
        diagnostics={
            **_convergence(fits[slope], settings),
            "converged": converged,
            **_at_other_slopes(tables, parts, {b: fits[b] for b in OTHER_SLOPES}),
        },
        warnings=(
            *(
                f"Not converged at contextual slope {b:g}: the search stopped on the way. {why}"
                for b, why in stopped.items()
            ),
            *_few_units(parts, districts_of),
        ),
        seed=seed,
    )


def _fit(parts: list[District], settings: Settings) -> dict[int, TablePosterior]:
    """Fit the districts that have an inner table to ask for: at least two groups and two outcomes."""
    solved = [k for k, part in enumerate(parts) if len(part.rows) > 1 and len(part.columns) > 1]
    # many tiny factorizations: handing each to a pool of threads costs more than all of them
    with threadpool_limits(limits=1, user_api="blas"):
        return dict(zip(solved, fit_districts([parts[k] for k in solved], settings), strict=True))


def _check_tau(tau: float | str, pooled: bool, labeled: bool) -> float:
    if not isinstance(tau, str):
        return checks.check_between(tau, "tau", 1e-3, 1e3)
    if tau != "auto":
        raise InputError(f"tau={tau!r} is neither 'auto' nor a number; pass one of them.")
    return TAU_POOLED if pooled else TAU_MATCHED if labeled else TAU_ALONE


def _districts_of(tables: UnitTables, pool: Sequence[object], groups: object) -> list[object]:
    """Tell the district of every unit kept."""
    if isinstance(pool, str):
        raise InputError(f"pool={pool!r} is one string; pass the district of every unit, one per row of groups.")
    names = [getattr(d, "item", lambda d=d: d)() for d in (getattr(pool, "tolist", lambda: pool)())]
    kept = rows_kept(tables, groups, "pool", len(names))
    missing = [i for i, d in enumerate(names) if d is None or d != d]
    if missing:
        raise InputError(f"pool has {len(missing):,} missing district(s), the first in row {missing[0]}; fill or drop.")
    return [d for d, k in zip(names, kept, strict=True) if k]


def _label_numbers(tables: UnitTables, labels: Mapping[str, str] | None) -> tuple[IntArray, IntArray]:
    """Number the label of every group and outcome; equal labels have equal numbers on both sides."""
    options = list(dict.fromkeys((*tables.groups, *tables.outcomes)))
    for option in labels or {}:
        if option not in options:
            raise unknown_name("labels", option, options, "option")
    named = {o: (labels or {}).get(o, o) for o in options}
    number = {label: k for k, label in enumerate(dict.fromkeys(named.values()))}
    rows, columns = ([number[named[o]] for o in side] for side in (tables.groups, tables.outcomes))
    return np.array(rows, dtype=np.intp), np.array(columns, dtype=np.intp)


def _split(tables: UnitTables, districts_of: list[object] | None) -> list[District]:
    """Cut the table by district, keeping the options with people there."""
    where: dict[object, list[int]] = {}
    for i, name in enumerate(districts_of or [None] * len(tables.units)):
        where.setdefault(name, []).append(i)
    parts = []
    for rows_of in where.values():
        here = np.array(rows_of, dtype=np.intp)
        X, T = tables.X[here], tables.T[here]
        rows, columns = np.flatnonzero(X.sum(axis=0) > 0), np.flatnonzero(T.sum(axis=0) > 0)
        prior = np.zeros((len(rows), len(columns)))
        parts.append(District(here, rows, columns, x=X[:, rows], y=T[:, columns], prior=prior))
    return parts


def _matched(part: District, row_labels: IntArray, column_labels: IntArray) -> District:
    same = row_labels[part.rows][:, None] == column_labels[part.columns][None, :]
    if not same.any():
        raise InputError(
            "labels tie no group to an outcome; give a group and its outcome the same label, or pass pool= to tie districts."
        )
    return replace(part, prior=MATCH * same)


def _unit_cells(tables: UnitTables, parts: list[District], fits: Mapping[int, TablePosterior]) -> FloatArray:
    """Give the unit tables, (n_units, n_groups, n_outcomes); where one margin has one option they are known."""
    cells = np.zeros((len(tables.units), len(tables.groups), len(tables.outcomes)))
    for k, part in enumerate(parts):
        N = part.x.sum(axis=1)[:, None, None]
        y = part.y * (N[:, :, 0] / part.y.sum(axis=1, keepdims=True))
        found = part.x[:, :, None] * y[:, None, :] / N
        if k in fits:
            found = rake_units(fits[k].cells, fits[k].table, part.x, y)
        cells[np.ix_(part.units, part.rows, part.columns)] = found
    return cells


def _intervals(
    tables: UnitTables,
    parts: list[District],
    fits: Mapping[int, TablePosterior],
    cells: FloatArray,
    level: float,
    constants: Calibration,
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Give std_error, conf_low, conf_high (n_districts, n_groups, n_outcomes) and draws, all as shares inside the bounds."""
    shape = (len(parts), len(tables.groups), len(tables.outcomes))
    columns = {name: np.zeros(shape) for name in ("std_error", "conf_low", "conf_high")}
    n_draws = max((len(fit.draws) for fit in fits.values()), default=1)
    draws = np.zeros((n_draws, *shape))
    z, limits = critical_value(level), tables.bounds
    for k, part in enumerate(parts):
        place: tuple[Any, ...] = np.ix_(part.rows, part.columns)
        people = part.x.sum(axis=0)[:, None]
        low, high, share = (v[part.units].sum(axis=0)[place] / people for v in (limits.low, limits.high, cells))
        sd, moved = np.zeros(share.shape), np.zeros((n_draws, *share.shape))
        if k in fits:
            sd = np.sqrt(constants.variance(share, fits[k].variance / people**2))
            raw = fits[k].draws / people
            moved = (raw - raw.mean(axis=0)) * (sd / np.maximum(raw.std(axis=0), 1e-9))
        columns["std_error"][k][place] = sd
        columns["conf_low"][k][place] = np.clip(share - z * sd, low, np.minimum(share, high))
        columns["conf_high"][k][place] = np.clip(share + z * sd, np.maximum(share, low), high)
        draws[:, k][(slice(None), *place)] = np.clip(share + moved, low, high)
    return columns, draws


def _convergence(fits: Mapping[int, TablePosterior], settings: Settings) -> dict[str, Any]:
    found = list(fits.values())
    return {
        "contextual_slope": settings.b,
        "contextual_slope_sd": settings.b_sd,
        "tau": settings.tau,
        "gradient_norm": max((fit.gradient for fit in found), default=0.0),
        "distance_to_mode_in_sd": max((fit.decrement for fit in found), default=0.0),
        "iterations": sum(fit.iterations for fit in found),
        "overdispersion": float(np.median([fit.overdispersion for fit in found])) if found else 1.0,
    }


def _at_other_slopes(
    tables: UnitTables, parts: list[District], fits: Mapping[float, Mapping[int, TablePosterior]]
) -> dict[str, Any]:
    """Give the answer under other contextual slopes: shares in the order of the table's rows."""
    lines = {b: np.full((len(parts), len(tables.groups), len(tables.outcomes)), np.nan) for b in fits}
    for b, found in fits.items():
        for k, fit in found.items():
            part = parts[k]
            lines[b][k][np.ix_(part.rows, part.columns)] = fit.table / part.x.sum(axis=0)[:, None]
    ends = np.abs(lines[OTHER_SLOPES[-1]] - lines[OTHER_SLOPES[0]])
    return {
        "largest_move_from_slope_0_to_0.7": float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0,
        "sensitivity": {f"contextual_slope={b:g}": shares.ravel().tolist() for b, shares in lines.items()},
    }


def _few_units(parts: list[District], districts_of: list[object] | None) -> tuple[str, ...]:
    few = [part for part in parts if len(part.units) <= len(part.rows)]
    if not few:
        return ()
    if districts_of is None:
        return (
            f"{len(few[0].units)} unit(s) for {len(few[0].rows)} groups: the answer rests on the prior more than on the data, "
            "and its interval is not calibrated for that.",
        )
    names = [districts_of[int(part.units[0])] for part in few]
    return (f"{len(few)} district(s) have no more units than groups ({listed(names)}) and rest on the others.",)
