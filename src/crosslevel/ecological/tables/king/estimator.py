"""King's (1997) ecological inference for 2 x 2 tables: validates, fits, simulates and lays out the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from crosslevel.data import checks, frames
from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.assumptions.car_test import describe_curvature
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.king.likelihood import Prior, Problem, tomography_lines, untruncated
from crosslevel.ecological.tables.king.mode import SMALLEST_SPREAD, Mode, find_mode
from crosslevel.ecological.tables.king.simulation import ParameterDraws, draw_parameters, draw_units, expected_units
from crosslevel.ecological.tables.layout import Answer, lay_out
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.errors import ConvergenceError, InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, RandomState

POINTS = ("mode", "mean")
PRIOR = Prior(0.5, 0.5, 0.5)
FAR_FROM_MODE = 0.01  # posterior standard deviations
FEWEST_EFFECTIVE = 100
MOST_KEPT = 40_000_000
"""Largest number of unit draws kept in the answer, 320 MB."""
LITTLE_VARIATION = 0.02
"""Standard deviation of X below which the units say little about which group is which."""


@checked
def king(
    counts: Counts,
    *,
    means: Mapping[str, str | Sequence[str]] | None = None,
    prior: tuple[float, float, float] = (0.5, 0.5, 0.5),
    point: str = "mode",
    level: float = 0.95,
    n_draws: int = 1000,
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
    counts : Counts
        With two groups and two outcomes.
    means : mapping of group to column(s), optional
        Columns of the data, numbers, on which the mean share of a group depends. They are centered. With the composition itself
        among them the shares may depend on it, but then the totals say little about the shares.
    prior : (float, float, float), default (0.5, 0.5, 0.5)
        Standard deviations of three priors, 0 for none: of atanh(rho), normal; of both standard deviations, half-normal; and of both
        means, flat inside [0, 1] and falling off outside. They are ``erho``, ``esigma`` and ``ebeta`` of the R package ei.
    level : float, default 0.95
        Level of the intervals.
    n_draws : int, default 1000
        Draws from the posterior.
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
    >>> data = {"young": [10, 40, 70, 90, 20, 55, 30, 80], "old": [90, 60, 30, 10, 80, 45, 70, 20]}
    >>> data |= {"yes": [25, 37, 47, 58, 26, 44, 31, 50], "no": [75, 63, 53, 42, 74, 56, 69, 50]}
    >>> found = king(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> bool(found["estimate"][0] > found["estimate"][2])
    True
    >>> found.diagnostics["converged"]
    True
    """
    given = locals()
    tables = counts.tables
    level, seed = checks.check_level(level), checks.read_seed(random_state)
    n_draws = checks.check_whole(n_draws, "n_draws", 50, 1_000_000)
    priors = Prior(*(_check_sd(sd) for sd in prior))
    if point not in POINTS:
        raise unknown_name("point", point, POINTS, "choice")
    if (len(tables.groups), len(tables.outcomes)) != (2, 2):
        raise InputError(
            f"king answers 2 x 2 tables and these have {len(tables.groups)} groups and {len(tables.outcomes)} outcomes; call rxc or "
            "multinomial_dirichlet, or merge to two groups and two outcomes."
        )
    X, T = two_shares(tables.X, tables.T, tables.groups)
    named = means or {}
    for group in named:
        if group not in tables.groups:
            raise unknown_name("means", group, tables.groups, "group")
    (names_b, Zb, scale_b), (names_w, Zw, scale_w) = (_covariates(counts, named.get(g)) for g in tables.groups)
    found = fit_king(X, T, (Zb, Zw), (priors, point), n_draws, seed)
    failure, mode, pair = found.failure, found.mode, found.pair
    if failure and not allow_unconverged:
        raise ConvergenceError(f"{failure} Pass allow_unconverged=True to see the numbers all the same.")
    cells, district = found.district(tables.X)
    kept = 4 * pair[0].size <= MOST_KEPT
    answer = Answer(
        cells,
        method="King's truncated bivariate normal" + (", with covariates" if names_b or names_w else ""),
        level=level,
        interval="posterior quantile",
        columns=_interval_columns(district, cells.sum(axis=0) / tables.X.sum(axis=0)[:, None], level),
        unit_columns=_interval_columns(pair, four(*found.middle), level),
        draws=four(*district),
        unit_draws=four(*pair) if kept else None,
        diagnostics={
            "converged": failure is None,
            **_diagnostics(found),
            "coefficients": {
                tables.groups[0]: dict(zip(names_b, (mode.phi[5 : 5 + len(names_b)] / scale_b).tolist(), strict=True)),
                tables.groups[1]: dict(zip(names_w, (mode.phi[5 + len(names_b) :] / scale_w).tolist(), strict=True)),
            },
        },
        warnings=(
            *_warnings(tables, mode, X, kept),
            *((failure,) if failure else ()),
            *(() if names_b or names_w else describe_curvature(tables)),
        ),
        seed=seed,
    )
    return lay_out(counts, ("king", {**given, "random_state": seed}), answer)


@dataclass(frozen=True)
class KingFit:
    """What King's model says of one 2 x 2 table.

    Attributes
    ----------
    problem : Problem
    mode : Mode
    drawn : ParameterDraws
    pair : two of (n_draws, n_units)
        Draws of both groups' shares with the first outcome.
    middle : two of (n_units,)
        Their point estimates.
    failure : str or None
        Why the numbers should not be used.
    """

    problem: Problem
    mode: Mode
    drawn: ParameterDraws
    pair: tuple[FloatArray, FloatArray]
    middle: tuple[FloatArray, FloatArray]
    failure: str | None

    def district(self, X: FloatArray) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
        """Give the cells (n_units, 2, 2) for people X (n_units, 2), and draws of both groups' shares in the district."""
        weight = X / X.sum(axis=0)
        return X[:, :, None] * four(*self.middle), (self.pair[0] @ weight[:, 0], self.pair[1] @ weight[:, 1])


def fit_king(
    X: FloatArray,
    T: FloatArray,
    Z: tuple[FloatArray, FloatArray],
    model: tuple[Prior, str],
    n_draws: int,
    seed: int,
) -> KingFit:
    """Fit shares T (n_units,) with the first outcome to shares X (n_units,) of the first group; ``model`` is the prior and the point."""
    prior, point = model
    problem = Problem(lines=tomography_lines(X, T), Zb=Z[0], Zw=Z[1], prior=prior)
    if len(X) < problem.n_parameters:
        raise InputError(
            f"groups has {len(X)} unit(s) with people for the {problem.n_parameters} parameters of king; pass at least "
            f"{problem.n_parameters} units, or call bounds, which needs no model."
        )
    rng, order = np.random.default_rng(seed), np.lexsort((*Z[1].T, *Z[0].T, T, X))
    # one order of units for every sum: rounding can decide whether a posterior far from normal is sampled well
    lines = tomography_lines(X[order], T[order])
    ordered = Problem(lines=lines, Zb=Z[0][order], Zw=Z[1][order], prior=prior)
    # factorizing 5 x 5 matrices by a pool of threads costs more than the work
    with threadpool_limits(limits=1, user_api="blas"):
        mode = find_mode(ordered)
        drawn = draw_parameters(ordered, mode, n_draws, rng)
    pair = draw_units(problem, drawn.phi, rng)
    middle = expected_units(problem, mode.phi) if point == "mode" else (pair[0].mean(axis=0), pair[1].mean(axis=0))
    return KingFit(problem, mode, drawn, pair, middle, _failure(mode, drawn, n_draws))


def _diagnostics(fit: KingFit) -> dict[str, Any]:
    """Say how the search and the sampling went, and give the distribution at the mode before truncation."""
    mode, found = fit.mode, fit.drawn
    normal = untruncated(mode.phi[None, :], fit.problem)
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


def _check_sd(value: float) -> float:
    return checks.check_positive(value, "prior") if value else 0.0


def two_shares(X: FloatArray, T: FloatArray, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Give the shares of the first group and of the first outcome in every unit, or say why there is no 2 x 2 question."""
    for name, people in zip(names, X.sum(axis=0), strict=True):
        if people <= 0:
            raise InputError(f"groups[{name!r}] is zero in every unit, so there is nothing to tell apart; drop it.")
    x, t = X[:, 0] / X.sum(axis=1), T[:, 0] / T.sum(axis=1)
    if ((t <= 0) | (t >= 1)).all():
        raise InputError(
            "outcomes are unanimous in every unit, so every share is known and there is nothing to estimate; call bounds."
        )
    return x, t


def _covariates(counts: Counts, names: str | Sequence[str] | None) -> tuple[list[str], FloatArray, FloatArray]:
    """Read covariates: names, values centered and scaled to unit variance (n_units, k), and the scales."""
    n, argument = len(counts.tables.units), "means"
    if not names:
        return [], np.empty((n, 0)), np.empty(0)
    table = counts.by_unit(frames.as_names(names, argument), argument)
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


def four(first: FloatArray, second: FloatArray) -> FloatArray:
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
