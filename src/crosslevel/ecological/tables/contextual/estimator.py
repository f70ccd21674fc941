"""The contextual R x C model: validates, fits, calibrates and lays out the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from crosslevel.data import checks
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.assumptions.car_test import curvature_test
from crosslevel.ecological.tables.contextual.adjustments import extrapolated, with_covariates
from crosslevel.ecological.tables.contextual.doubts import (
    HiddenContext,
    describe_doubts,
    describe_few_units,
    describe_looks_like_votes,
    hidden_context,
)
from crosslevel.ecological.tables.contextual.intervals import (
    DEMOGRAPHIC_KIND,
    SYMMETRIC,
    Constants,
    TablePosterior,
    choose_constants,
    joint_draws,
)
from crosslevel.ecological.tables.contextual.pooling import District, Settings, fit_districts
from crosslevel.ecological.tables.contextual_effect import read_slope
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.covariates import covariates_of
from crosslevel.ecological.tables.group_counts import membership_variance
from crosslevel.ecological.tables.layout import INTERVAL, Answer, lay_out
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.ecological.tables.raking import rake_units
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.results.intervals import critical_value
from crosslevel.typing import FloatArray, Progress, RandomState

MATCH = 2.0  # one district whose labels tie a group to an outcome: prior mean of d on those cells
ENDS = (0.0, 0.7)
"""Contextual slopes at which the answer is given in the diagnostics, beside the one assumed."""
CAR_DRAWS = 199
UNUSED = "Covariates changed nothing: leaving units out prefers none of the covariates."


@checked
def rxc(
    counts: Counts,
    *,
    kind: str | None = None,
    pool: str | None = None,
    labels: Mapping[str, str] | None = None,
    contextual_slope: float | tuple[float, float] | str = "auto",
    level: float = 0.95,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> Estimates:
    """Estimate R x C tables by a model with a contextual effect: rates change with the composition of the unit.

    Rates are not assumed constant: in a unit whose composition favors an outcome, every group has more of it, by
    ``contextual_slope``. That one number cannot be learned from margins (the likelihood always favors a larger one). It is assumed,
    with the other constants, by kind of table: each was learned on tables of that kind whose inner cells were counted. The answer
    says which were used and what they were learned on; the answer at slopes 0 and 0.7 stands in the diagnostics.

    Parameters
    ----------
    counts : Counts
        Outcomes are regressed on composition and the covariates named there with a ridge penalty, chosen by leaving units out, and every
        group's rates follow half of the covariates' effect. The interval allows for what that moves. Not with ``pool``.
    kind : {"demographic", "votes", "symmetric votes"}, optional
        What the table is: what groups of people (by race, age, education) do or have, or two choices of the same people, such as votes
        for a party and for a candidate. "symmetric votes" also fits groups given outcomes, and averages, which is better when both
        sides are choices by the same people, and much worse when groups are demographic. Not given: votes with ``pool`` or ``labels``,
        and demographic without.
    pool : str, optional
        Column of the data with the district of each unit. Districts are fitted together: rates of the
        same pair of labels share a mean, learned from all. The answer gains the key ``district``, and options that a
        district lacks are null.
    labels : mapping of option to label, optional
        Ties options: across districts (default: the names of the columns), or, in one district, a group to the outcome
        of the same label, which it is then expected to prefer. Where the names of candidates mean nothing in other districts, give
        their parties.
    contextual_slope : float, (float, float) or "auto", default "auto"
        How strongly the rates of every group follow what its unit's composition predicts: 0 is Goodman's constancy, 1 is
        close to the neighborhood model. An assumption, not an estimate; 0.35 for votes, 0.4 for demographic groups. The second number is
        the standard deviation of that assumption, which widens the intervals; 0.1 for votes, 0.2 for demographic groups.
    level : float, default 0.95
        Level of the intervals.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the posterior draws.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the fits done and of all, one for each contextual slope.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome`` (``district`` first when pooled); ``estimate`` is the posterior mean, raked to both
        margins. ``.units`` the same per unit, inside its bounds. ``.draws`` have the spread of the intervals; in
        every draw the outcomes of a group add up to one.
        Diagnostics hold the ``kind`` and its constants, the leverage of ``hidden_context`` (see below) and ``car_test_p``, the p-value
        of :func:`car_test`.

    Raises
    ------
    ConvergenceError
        When the mode is not reached.

    See Also
    --------
    rxc_em : multinomial expectation-maximization, for comparison.
    goodman : assumes constant rates.

    Notes
    -----
    On 349 New Zealand electorates with counted split votes (2002 to 2014) the mean share of votes in a wrong cell is
    7.0 % alone and 4.9 % pooled in both directions; Goodman's regression, clipped, has 12.2 %. On 285 tables of demographic groups
    (fifteen pairings of columns of the American Community Survey 2024 in 19 states) it is 3.9 %, intervals cover 97 % of the cells, and
    95 % with rho learned on other states.

    Intervals cover 95 % of cells on average over tables like these, which is no guarantee for one table. Two signs of a table that
    will not be answered well are warned of. The leverage of hidden context: outcomes scatter around what composition predicts, and if
    the causes of the scatter go along with composition, rates are off by their correlation times this number, however many units there are.
    And cells at the edge of their deterministic bounds.

    Examples
    --------
    >>> data = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> data |= {"yes": [25, 37, 47, 55, 29, 41], "no": [75, 63, 53, 45, 71, 59]}
    >>> found = rxc(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> bool(found["estimate"][0] > found["estimate"][2])
    True
    >>> found.diagnostics["converged"], found.diagnostics["kind"]
    (True, 'demographic')
    """
    given, tables = locals(), counts.tables
    level, seed = checks.check_level(level), checks.read_seed(random_state)
    pooled = pool is not None
    chosen, constants = choose_constants(kind, pool=pooled, labels=labels is not None)
    settings = Settings(*_slope(contextual_slope, constants), constants.tau, pooled, chosen == SYMMETRIC, seed)
    if pooled and (tables.membership is not None or counts.covariates):
        raise InputError("pool= has no place with covariates or membership probabilities; fit each district alone.")
    if settings.symmetric and counts.covariates:
        raise InputError(
            f"kind={kind!r} has no place with covariates; fit in one direction, or leave them out of counts."
        )
    districts_of = None if pool is None else _districts_of(counts, pool)
    parts = _labeled(tables, _split(tables, districts_of), labels, pooled)
    effects: dict[str, Any] = {}
    if counts.covariates:
        parts, effects = with_covariates(parts[0], covariates_of(counts))
    slopes, fits = dict.fromkeys((settings.b, ENDS[0], constants.slope, ENDS[1])), {}
    with count_steps(progress, "Fitting slopes", len(slopes), "fits") as step:
        for b in slopes:
            fits[b] = _fit(parts, replace(settings, b=b))
            if step is not None:
                step()
    found, move = fits[settings.b], np.zeros(())
    used = parts[0].moved is not None
    if used and 0 in found:
        plain = _fit([replace(parts[0], moved=None)], settings)[0]
        move = (found[0].table - plain.table) / parts[0].x.sum(axis=0)[:, None]
    moved = np.zeros((len(parts[0].rows), len(parts[0].columns)))
    if effects:
        effects["move"] = (moved + move).ravel().tolist()
    if tables.membership is not None and 0 in found:
        V = tables.membership[1][np.ix_(parts[0].units, parts[0].rows, parts[0].rows)]
        back, moved, chance = extrapolated(parts[0], found[0], V, lambda p: _fit([p], settings)[0], seed)
        move = np.sqrt(move**2 + moved**2 + chance)
        found = {0: back}
    context = [hidden_context(part.x, part.y) if k in found else None for k, part in enumerate(parts)]
    answer = _answer(tables, parts, found, context, constants, level, seed, move)
    same = (settings.b, settings.b_sd) == (constants.slope, constants.slope_sd)
    answered = Answer(
        answer.cells,
        method=f"contextual R x C model of {'demographic groups' if chosen == DEMOGRAPHIC_KIND else 'votes'}, "
        f"contextual slope {settings.b:g}"
        + (", pooled over districts" if pooled else "")
        + (", both directions" if settings.symmetric else "")
        + (", with covariates" if used else ""),
        level=level,
        interval=f"Laplace with the contextual slope cut, calibrated on {constants.learned_on}{'' if same else ', with other constants'}",
        columns={name: values if pooled else values[0] for name, values in answer.columns.items()},
        unit_columns=answer.unit_columns,
        draws=answer.draws if pooled else answer.draws[:, 0],
        districts=districts_of,
        diagnostics={
            "kind": chosen,
            "constants": {"k": constants.k, "s0": constants.s0, "rho": constants.rho},
            "constants_learned_on": constants.learned_on,
            **_convergence(found, settings),
            "converged": True,
            **_at_other_slopes(tables, parts, {b: fits[b] for b in (ENDS[0], constants.slope, ENDS[1])}),
            **_assumptions(parts, context, seed),
            **({"covariates": effects} if effects else {}),
            **({"membership_move": moved.ravel().tolist()} if tables.membership is not None else {}),
        },
        warnings=(
            *([UNUSED] if effects and not used else ()),
            *describe_few_units(parts, districts_of),
            *describe_doubts(tables, parts, context, answer.cells, districts_of),
            *(describe_looks_like_votes(context[0]) if kind is None and chosen == DEMOGRAPHIC_KIND else ()),
        ),
        seed=seed,
    )
    return lay_out(counts, ("rxc", {**given, "random_state": seed}), answered)


def _slope(given: float | tuple[float, float] | str, constants: Constants) -> tuple[float, float]:
    """Read the contextual slope and its standard deviation; "auto" are the constants of the kind of table."""
    return (constants.slope, constants.slope_sd) if given == "auto" else read_slope(given, constants.slope_sd)


def _fit(parts: list[District], settings: Settings) -> dict[int, TablePosterior]:
    """Fit the districts that have an inner table to ask for: at least two groups and two outcomes."""
    solved = [k for k, part in enumerate(parts) if len(part.rows) > 1 and len(part.columns) > 1]
    # many tiny factorizations: handing each to a pool of threads costs more than all of them
    with threadpool_limits(limits=1, user_api="blas"):
        return dict(zip(solved, fit_districts([parts[k] for k in solved], settings), strict=True))


def _districts_of(counts: Counts, pool: str) -> list[object]:
    """Tell the district of every unit kept."""
    names: list[object] = counts.by_unit([pool], "pool")[pool].to_pylist()
    missing = [counts.tables.units[i] for i, d in enumerate(names) if d is None or d != d]
    if missing:
        raise InputError(
            f"pool={pool!r} has {len(missing):,} missing district(s), the first of {missing[0]!r}; fill or drop."
        )
    return names


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
        parts.append(District(here, rows, columns, X[:, rows], T[:, columns], prior, rows, columns))
    return parts


def _labeled(
    tables: UnitTables, parts: list[District], labels: Mapping[str, str] | None, pooled: bool
) -> list[District]:
    """Number the labels of options, which are their names or as stated; in one district, expect groups to prefer their label's outcome."""
    if labels is not None and not isinstance(labels, Mapping):
        raise InputError(f"labels={labels!r} is not a mapping of options to labels.")
    stated = labels or {}
    options = list(dict.fromkeys((*tables.groups, *tables.outcomes)))
    for option in stated:
        if option not in options:
            raise unknown_name("labels", option, options, "option")
    named = {o: stated.get(o, o) for o in options}
    names = list(dict.fromkeys(named.values()))
    rows, columns = (
        np.array([names.index(named[o]) for o in side], dtype=np.intp) for side in (tables.groups, tables.outcomes)
    )
    parts = [replace(p, row_labels=rows[p.rows], column_labels=columns[p.columns]) for p in parts]
    if pooled or labels is None:
        return parts
    same = rows[parts[0].rows][:, None] == columns[parts[0].columns][None, :]
    if not same.any():
        raise InputError(
            "labels tie no group to an outcome; give a group and its outcome the same label, or pass pool= to tie districts."
        )
    return [replace(parts[0], prior=MATCH * same)]


@dataclass(frozen=True)
class _Answer:
    """Tables of all districts, with zeros where a district lacks an option.

    Attributes
    ----------
    cells : (n_units, n_groups, n_outcomes)
        Counts, raked to both margins of every unit.
    columns : std_error, conf_low and conf_high of shares, each (n_districts, n_groups, n_outcomes).
    unit_columns : the same, (n_units, n_groups, n_outcomes).
    draws : (n_draws, n_districts, n_groups, n_outcomes)
    """

    cells: FloatArray
    columns: dict[str, FloatArray]
    unit_columns: dict[str, FloatArray]
    draws: FloatArray


def _answer(
    tables: UnitTables,
    parts: list[District],
    fits: Mapping[int, TablePosterior],
    context: Sequence[HiddenContext | None],
    constants: Constants,
    level: float,
    seed: int,
    move: FloatArray,
) -> _Answer:
    """Rake the units, and give intervals inside the bounds; where one margin has one option the table is known."""
    R, C, z = len(tables.groups), len(tables.outcomes), critical_value(level)
    n_draws = max((len(fit.draws) for fit in fits.values()), default=1)
    cells, draws = np.zeros((len(tables.units), R, C)), np.zeros((n_draws, len(parts), R, C))
    columns, unit_columns = ({n: np.zeros((k, R, C)) for n in INTERVAL} for k in (len(parts), len(tables.units)))
    for k, part in enumerate(parts):
        here: tuple[Any, ...] = np.ix_(part.units, part.rows, part.columns)
        N = part.x.sum(axis=1, keepdims=True)
        y = part.y * (N / part.y.sum(axis=1, keepdims=True))
        found, fit, ctx = part.x[:, :, None] * (y / N)[:, None, :], fits.get(k), context[k]
        people, of_unit = part.x.sum(axis=0)[:, None], np.where(part.x > 0, part.x, 1.0)[:, :, None]
        variance, unit_variance = np.zeros(()), np.zeros(())
        if fit is not None and ctx is not None:
            found = rake_units(fit.cells, fit.table, part.x, y)
            variance = constants.variance(found.sum(axis=0) / people, fit.variance / people**2, ctx.h)
            unit_variance = constants.variance(found / of_unit, fit.cell_variance / of_unit**2, ctx.h)
            if tables.membership is not None:
                # of the district the error that all people of a unit share is in move already
                own, both = (
                    v[np.ix_(part.units, part.rows, part.rows)]
                    for v in (tables.membership[0], tables.membership.sum(axis=0))
                )
                variance = variance + membership_variance(found, part.x, y, own, seed)[0]
                unit_variance = unit_variance + membership_variance(found, part.x, y, both, seed)[1]
            variance, unit_variance = variance + move**2, unit_variance + move**2
        cells[here] = found
        by_unit = np.stack([found, tables.bounds.low[here], tables.bounds.high[here]])
        whole = by_unit.sum(axis=1) / people
        _fill(columns, (k, *here[1:]), whole, variance, z)
        _fill(unit_columns, here, by_unit / of_unit, unit_variance, z)
        drawn = whole[0] if fit is None else joint_draws(fit.draws / people, np.sqrt(variance), whole)
        draws[:, k][:, part.rows[:, None], part.columns] = drawn
    return _Answer(cells, columns, unit_columns, draws)


def _fill(
    columns: dict[str, FloatArray], place: tuple[Any, ...], shares: FloatArray, variance: FloatArray, z: float
) -> None:
    """Fill in standard errors and intervals of shares, given with their bounds as (share, lower, upper)."""
    share, low, high = shares
    sd = np.sqrt(np.broadcast_to(variance, share.shape))
    columns["std_error"][place] = sd
    columns["conf_low"][place] = np.clip(share - z * sd, low, np.minimum(share, high))
    columns["conf_high"][place] = np.clip(share + z * sd, np.maximum(share, low), high)


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
    ends = np.abs(lines[ENDS[1]] - lines[ENDS[0]])
    return {
        "largest_move_from_slope_0_to_0.7": float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0,
        "sensitivity": {f"contextual_slope={b:g}": shares.ravel().tolist() for b, shares in lines.items()},
    }


def _assumptions(parts: list[District], context: Sequence[HiddenContext | None], seed: int) -> dict[str, Any]:
    """Give the leverage of hidden context (of every district, where there are several), and the p-value of ``car_test``."""
    leverage = [None if c is None else c.leverage for c in context]
    if len(parts) > 1 or leverage[0] is None:
        return {"hidden_context": leverage if len(parts) > 1 else 0.0}
    N = parts[0].x.sum(axis=1)
    x, t = parts[0].x / N[:, None], parts[0].y / N[:, None]
    p = curvature_test(x, t, N / N.mean(), x, CAR_DRAWS, seed).p_value_all if x.shape[1] <= len(x) // 3 else None
    return {"hidden_context": leverage[0], "car_test_p": p}
