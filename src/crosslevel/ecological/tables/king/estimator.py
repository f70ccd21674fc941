"""King's (1997) ecological inference for 2 x 2 tables: validates, fits, simulates and lays out the table."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from crosslevel.data import checks, frames
from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.assumptions.car_test import describe_curvature
from crosslevel.ecological.tables.cleaning import check_choice
from crosslevel.ecological.tables.covariates import unit_rows
from crosslevel.ecological.tables.king.likelihood import Prior, Problem, tomography_lines, untruncated
from crosslevel.ecological.tables.king.mode import SMALLEST_SPREAD, Mode, find_mode
from crosslevel.ecological.tables.king.simulation import ParameterDraws, draw_parameters, draw_units, expected_units
from crosslevel.ecological.tables.layout import cell_estimates
from crosslevel.ecological.tables.unit_tables import UnitTables, unit_tables
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.results import Estimates
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, RandomState

POINTS = ("mode", "mean")
FAR_FROM_MODE = 0.01  # posterior standard deviations
FEWEST_EFFECTIVE = 100
MOST_KEPT = 40_000_000
"""Largest number of unit draws kept in the answer, 320 MB."""
LITTLE_VARIATION = 0.02
"""Standard deviation of X below which the units say little about which group is which."""


@checked
def king(
    groups: object,
    outcomes: object = None,
    *,
    units: Sequence[object] | None = None,
    zb: object = None,
    zw: object = None,
    level: float = 0.95,
    n_draws: int = 1000,
    erho: float = 0.5,
    esigma: float = 0.5,
    ebeta: float = 0.5,
    point: str = "mode",
    allow_unconverged: bool = False,
    random_state: RandomState = 0,
) -> Estimates:
    """Estimate 2 x 2 tables by King's (1997) truncated bivariate normal model.

    In every unit the two groups' shares with the first outcome, (b, w), are drawn from one bivariate normal distribution
    truncated to the unit square, whatever the unit's composition. The unit's totals leave only a line of the square possible;
    each answer is a draw from the distribution along that line, so it lies inside the unit's bounds and reproduces its
    totals.

    **What the intervals do not cover.** They say how far the answer may be off if the model is right, and the model takes
    the shares to be unrelated to the composition X of the unit. Margins cannot show whether they are. Where they are
    related (aggregation bias) the intervals are far too narrow: on literacy by race in the 1910 census, where the truth is
    known, R's answer by this model is 13 of its standard errors off. Read the answer beside :func:`bounds`, which hold
    regardless, and beside :func:`sensitivity`, which says how much bias would overturn it.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x 2 groups and units x 2 outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    units : sequence, optional
        Names of the units.
    zb, zw : dataframe or array, optional
        Covariates of the mean share of the first and of the second group, units x k. They are centered. With X itself
        among them the shares may depend on composition, but then the totals say little about the shares.
    level : float, default 0.95
        Level of the intervals.
    n_draws : int, default 1000
        Draws from the posterior.
    erho : float, default 0.5
        Standard deviation of the normal prior of atanh(rho); 0 for none.
    esigma : float, default 0.5
        Standard deviation of the half-normal prior of both standard deviations; 0 for none.
    ebeta : float, default 0.5
        Standard deviation of the prior of both means, flat inside [0, 1] and falling off outside; 0 for none.
    point : {"mode", "mean"}, default "mode"
        The estimate: the expectation at the most probable parameters, as in King (1997), or the mean of the posterior.
    allow_unconverged : bool, default False
        Answer, with a warning, even where the mode or the sampling failed.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the draws.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``: the share among all people of the group; standard error and interval are those of the
        draws. ``.units`` the same in every unit. ``.draws`` of both (of units up to 40 million numbers). Diagnostics hold the distribution
        before truncation, at the mode: ``mean``, ``sd`` (first group, second group), ``rho`` and ``coefficients``.

    Raises
    ------
    ConvergenceError
        When no mode is reached, or when importance sampling rests on fewer than 100 effective draws.

    See Also
    --------
    bounds : what is certain.
    rxc : more than two groups or outcomes.

    Notes
    -----
    The parameters of estimation and their priors are King's and those of the R package ei (1.3-3): (mean - 1/2) / (sd^2 +
    1/4), log sd and atanh(rho), with the three priors above as densities on this scale. Units count equally in the
    likelihood, whatever their size, and by their people in the answer.

    Where this differs from R: the probability of the square and all gradients are exact; parameters are sampled from the
    posterior by importance, in a mixture of Student t's that adapts until half the draws are effective. R proposes from a
    quarter of the covariance and accepts by one random number per batch, so its draws lie too close to the mode. On
    Matsusaka's registration data (268 counties; truth 0.550) R says 0.568 with standard error 0.024; at the most probable parameters
    0.566 is expected, while the posterior, by importance as by Metropolis, has mean 0.600 and standard deviation 0.043. In 100
    simulated worlds of 60 units the 95 % intervals of R's sampler covered 89, those of the posterior 96 (``studies/king_ei``). R
    also takes ``ebeta`` for a variance.

    References
    ----------
    King, G. (1997). A Solution to the Ecological Inference Problem. Princeton University Press.

    Examples
    --------
    >>> people = {"young": [10, 40, 70, 90, 20, 55, 30, 80], "old": [90, 60, 30, 10, 80, 45, 70, 20]}
    >>> votes = {"yes": [25, 37, 47, 58, 26, 44, 31, 50], "no": [75, 63, 53, 42, 74, 56, 69, 50]}
    >>> found = king(people, votes)
    >>> bool(found["estimate"][0] > found["estimate"][2])
    True
    >>> found.diagnostics["converged"]
    True
    """
    given = locals()
    tables = unit_tables(groups, outcomes, units)
    level, seed = checks.check_level(level), checks.read_seed(random_state)
    n_draws = checks.check_whole(n_draws, "n_draws", 50, 1_000_000)
    prior = Prior(_check_sd(erho, "erho"), _check_sd(esigma, "esigma"), _check_sd(ebeta, "ebeta"))
    check_choice("point", point, POINTS)
    X, T = _shares(tables)
    names_b, Zb, scale_b = _covariates(zb, "zb", tables, groups)
    names_w, Zw, scale_w = _covariates(zw, "zw", tables, groups)
    problem = Problem(lines=tomography_lines(X, T), Zb=Zb, Zw=Zw, prior=prior)
    if len(X) < problem.n_parameters:
        raise InputError(
            f"groups has {len(X)} unit(s) with people for the {problem.n_parameters} parameters of king; pass at least "
            f"{problem.n_parameters} units, or call bounds, which needs no model."
        )
    rng, order = np.random.default_rng(seed), np.lexsort((*Zw.T, *Zb.T, T, X))
    # one order of units for every sum: rounding can decide whether a posterior far from normal is sampled well
    ordered = Problem(lines=tomography_lines(X[order], T[order]), Zb=Zb[order], Zw=Zw[order], prior=prior)
    # factorizing 5 x 5 matrices by a pool of threads costs more than the work
    with threadpool_limits(limits=1, user_api="blas"):
        mode = find_mode(ordered)
        found = draw_parameters(ordered, mode, n_draws, rng)
    failure = _failure(mode, found, n_draws)
    if failure and not allow_unconverged:
        raise ConvergenceError(f"{failure} Pass allow_unconverged=True to see the numbers all the same.")
    pair = draw_units(problem, found.phi, rng)
    middle = expected_units(problem, mode.phi) if point == "mode" else (pair[0].mean(axis=0), pair[1].mean(axis=0))
    cells, weight = tables.X[:, :, None] * _four(*middle), tables.X / tables.X.sum(axis=0)
    district = pair[0] @ weight[:, 0], pair[1] @ weight[:, 1]
    kept = 4 * pair[0].size <= MOST_KEPT
    return cell_estimates(
        tables,
        cells,
        method="King's truncated bivariate normal" + (", with covariates" if names_b or names_w else ""),
        call=("king", {**given, "random_state": seed}),
        level=level,
        interval="posterior quantile",
        columns=_interval_columns(district, cells.sum(axis=0) / tables.X.sum(axis=0)[:, None], level),
        unit_columns=_interval_columns(pair, _four(*middle), level),
        draws=_four(*district),
        unit_draws=_four(*pair) if kept else None,
        diagnostics={
            "converged": failure is None,
            **_diagnostics(problem, mode, found),
            "coefficients": {
                "zb": dict(zip(names_b, (mode.phi[5 : 5 + len(names_b)] / scale_b).tolist(), strict=True)),
                "zw": dict(zip(names_w, (mode.phi[5 + len(names_b) :] / scale_w).tolist(), strict=True)),
            },
        },
        warnings=(
            *_warnings(tables, mode, X, kept),
            *((failure,) if failure else ()),
            *(() if names_b or names_w else describe_curvature(tables)),
        ),
        seed=seed,
    )


def _diagnostics(problem: Problem, mode: Mode, found: ParameterDraws) -> dict[str, Any]:
    """Say how the search and the sampling went, and give the distribution at the mode before truncation."""
    normal = untruncated(mode.phi[None, :], problem)
    return {
        "gradient_norm": mode.gradient_norm,
        "distance_to_mode_in_sd": mode.distance,
        "n_restarts": mode.n_restarts,
        "restarts_at_mode": mode.agreeing,
        "other_modes": len(mode.lower),
        "effective_draws": found.effective,
        "proposals": found.proposals,
        "rounds": found.rounds,
        "largest_weight": found.largest,
        "mean": [float(normal.mb.mean()), float(normal.mw.mean())],
        "sd": [float(normal.sb[0, 0]), float(normal.sw[0, 0])],
        "rho": float(normal.rho[0, 0]),
    }


def _check_sd(value: object, argument: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise InputError(f"{argument}={value!r} is not a standard deviation; pass a number > 0, or 0 for no prior.")
    return checks.check_positive(value, argument) if value else 0.0


def _shares(tables: UnitTables) -> tuple[FloatArray, FloatArray]:
    """Give X and T of every unit, or say why there is no 2 x 2 question."""
    R, C = len(tables.groups), len(tables.outcomes)
    if (R, C) != (2, 2):
        raise InputError(
            f"king answers 2 x 2 tables and these have {R} groups and {C} outcomes; call rxc or multinomial_dirichlet, or merge "
            "to two groups and two outcomes."
        )
    for name, people in zip(tables.groups, tables.X.sum(axis=0), strict=True):
        if people <= 0:
            raise InputError(f"groups[{name!r}] is zero in every unit, so there is nothing to tell apart; drop it.")
    X, T = tables.X[:, 0] / tables.X.sum(axis=1), tables.T[:, 0] / tables.T.sum(axis=1)
    if ((T <= 0) | (T >= 1)).all():
        raise InputError(
            "outcomes are unanimous in every unit, so every share is known and there is nothing to estimate; call bounds."
        )
    return X, T


def _covariates(
    given: Any, argument: str, tables: UnitTables, groups: object
) -> tuple[list[str], FloatArray, FloatArray]:
    """Read covariates: names, values centered and scaled to unit variance (n_units, k), and the scales."""
    n = len(tables.units)
    if given is None:
        return [], np.empty((n, 0)), np.empty(0)
    table = unit_rows(given, argument, tables, groups)
    names = table.column_names
    for name in names:
        if pa.types.is_dictionary(table[name].type):
            raise InputError(f"{argument}[{name!r}] holds categories; pass a 0/1 column for each but one of them.")
    columns = [checks.check_finite(frames.column(table, c, argument), f"{argument}[{c!r}]", 1) for c in names]
    Z = np.column_stack(columns)
    centered = Z - Z.mean(axis=0)
    scale = centered.std(axis=0)
    for name, spread, column in zip(names, scale, columns, strict=True):
        if spread <= 1e-12 * max(1.0, float(np.abs(column).max())):
            raise InputError(
                f"{argument}[{name!r}] is the same in every unit; drop it, the mean has a constant already."
            )
    if np.linalg.matrix_rank(centered / scale, tol=1e-8 * np.sqrt(n)) < Z.shape[1]:
        raise InputError(f"{argument} has columns that determine one another; drop one of {names}.")
    return list(names), centered / scale, scale


def _failure(mode: Mode, found: ParameterDraws, n_draws: int) -> str | None:
    """Say why the numbers should not be used, or nothing."""
    if not mode.distance < FAR_FROM_MODE:
        return (
            f"The search for the mode of king's posterior ended {mode.distance:.2g} standard deviations away from it, with "
            f"gradient {mode.gradient_norm:.2g}. The model may not suit these data: it takes shares for continuous numbers, "
            "which they are not in units of few people; rxc counts people."
        )
    fewest = min(FEWEST_EFFECTIVE, n_draws / 4)
    if found.effective < fewest:
        return (
            f"Importance sampling of king's parameters rests on {found.effective:.0f} effective draws of {found.proposals:,} "
            f"({fewest:.0f} are needed): the posterior is far from normal. Fewer covariates or a narrower prior may "
            "help, and bounds needs neither."
        )
    return None


def _warnings(tables: UnitTables, mode: Mode, X: FloatArray, kept: bool) -> list[str]:
    said = []
    for name, held in zip(tables.groups, mode.at_limit[2:4], strict=True):
        if held and mode.phi[2 + tables.groups.index(name)] < 0:
            said.append(
                f"The shares of {name!r} may be the same in every unit: its spread at the mode is the smallest tried, {SMALLEST_SPREAD:g}. "
                "Few units, or very regular ones, do this; the intervals then depend on the prior."
            )
    if mode.at_limit[[0, 1, 4]].any() or mode.at_limit[5:].any():
        said.append(
            "A parameter ran to the limit of the search: the totals do not determine it, and no prior holds it."
        )
    if mode.flat:
        said.append(
            f"The posterior is flat or curved upwards in {mode.flat} direction(s) at its mode; there the proposal's spread was set "
            "to 2 on the scale of estimation. The importance weights make up for that."
        )
    if mode.agreeing == 1:
        said.append(f"Only 1 of {mode.n_restarts} searches ended at the mode; there may be a higher one.")
    if X.std() < LITTLE_VARIATION:
        said.append(
            f"All units have nearly the same composition (the share of {tables.groups[0]!r} has standard deviation {X.std():.2g}): "
            "which group has which share is told by the priors and the bounds, hardly by the totals."
        )
    if not kept:
        said.append("The draws by unit were not kept, being too many; pass a smaller n_draws to have them.")
    return said


def _four(first: FloatArray, second: FloatArray) -> FloatArray:
    """Put shares with the first outcome, and what is left for the second, as (..., 2 groups, 2 outcomes)."""
    shares = np.stack([first, second], axis=-1)
    return np.stack([shares, 1.0 - shares], axis=-1)


def _interval_columns(pair: tuple[FloatArray, FloatArray], share: FloatArray, level: float) -> dict[str, Any]:
    """Give standard deviation and quantiles over the draws of the two groups' shares, each (..., 2, 2).

    The interval is widened to hold the estimate ``share``, which is not a draw.
    """
    low, high, spread, _ = quantile_interval(np.stack(pair, axis=-1), level)
    return {
        "std_error": np.stack([spread, spread], axis=-1),
        "conf_low": np.minimum(np.stack([low, 1.0 - high], axis=-1), share),
        "conf_high": np.maximum(np.stack([high, 1.0 - low], axis=-1), share),
    }
