"""Sensitivity of an answer to the one assumption that margins cannot check: rates unrelated to composition."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from crosslevel.ecological.tables.answer_cells import AnsweredUnits, answered_units
from crosslevel.ecological.tables.assumptions.bias import (
    Benchmark,
    benchmark,
    bias_scale,
    own_slope_map,
    robustness_value,
    shifted,
    slope_to_move,
    within_group,
)
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.covariates import covariates_of_answer
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

SLOPE = 0.2
"""Slope that ``sens_low`` and ``sens_high`` allow for: the smallest multiple of 0.05 with which the widened intervals of goodman,
rxc_em and rxc each cover 95 % of the cells of the tables with known truth, five sources having equal weight. Leaving any
source out gives the same value; see ``docs/guide/ecological-sensitivity.md``."""

NEIGHBORHOOD_SLOPE = 0.45
"""The same for ``neighborhood``, which takes all of the dependence on composition to be a slope, and errs further (0.35 to
0.5 when a source is left out)."""

TENTHS = 10.0  # a slope of 1 is 100 points of rate per 100 points of share: 10 points per 10 points of share
MAX_CONDITION = 1e10
CURVE = np.round(np.linspace(-0.6, 0.6, 25), 3)


@dataclass(frozen=True)
class _Part:
    """The columns of one district, each (n_groups, n_outcomes), and its benchmarks."""

    columns: dict[str, FloatArray]
    bench: dict[str, Benchmark]
    own_slope: FloatArray


def sensitivity(
    result: Estimates,
    *,
    counts: Counts | None = None,
    move: float | str = 0.05,
    slope: float | None = None,
) -> Estimates:
    """Measure the sensitivity of an answer to rates that depend on composition, and widen its interval for that.

    Methods that see margins assume that a group's rate has nothing to do with who else lives in its unit. If everybody's rate
    changes with composition, whatever the group, outcomes stay exactly linear in composition and the margins look as if
    rates were constant: nothing in the data shows it, and the estimate is off by the slope times the share of others
    that the group lives among. This function asks how large a slope would change the answer.

    Parameters
    ----------
    result : Estimates
        Answer of a method of ``crosslevel.ecological``, with its units.
    counts : Counts, optional
        Its covariates are benchmarks: what would have happened had this been omitted? Matched by the names of the units.
    move : float or {"half", "others"}, default 0.05
        The change to ask about: so far in either direction; to one half; or to where the group is no different from
        everybody else.
    slope : float, optional
        Slope to allow for in ``sens_low`` and ``sens_high``: the change of rate between a unit without the group and a unit of
        that group alone. Default 0.2 (2 points per 10 points of share; 0.45 for ``neighborhood``), learned on tables of known truth.

    Returns
    -------
    Estimates
        Keys and interval of ``result``, with ``lower`` and ``upper``, the bounds, and

        - ``sens_low``, ``sens_high``: the method's interval widened by what such a slope can do, inside the bounds;
        - ``robustness``: the least slope that makes the move, in points of rate per 10 points of the group's share. Null
          where the bounds rule the move out, whatever the slope;
        - ``robustness_value``: the share of variance that an omitted variable must explain, of the outcome and of
          composition alike, to make the move in a regression;
        - ``bias_scale``: the factor of that scale, which the contour plot needs;
        - ``bench_low``, ``bench_high`` (with counts): the interval widened by the largest change that observing a covariate
          makes;
        - ``at_contextual_slope=...`` (answers of ``rxc``): the estimate under other contextual slopes.

        Diagnostics hold ``bench``, a table of what each covariate explains; ``curve``, the estimates over a range of slopes;
        and ``own_slope_map``, the bias of the regression per unit of each group's own slope, when only its own members
        depend on composition.

    See Also
    --------
    car_test : a test of what can be tested.
    bounds : assumes nothing.

    Notes
    -----
    With x_ir the group's share of unit i, the rate taken for p_irc becomes p_irc - d (1 - x_ir), truncated at the unit's
    bounds. This is the worst case over all dependences on composition that all groups share and that differ by no more
    than d between units of one group alone. Slopes that differ between groups bend the outcomes, which ``car_test`` can see.

    ``robustness_value`` follows Cinelli and Hazlett and Chernozhukov et al.; it refers to Goodman's regression on the same units.

    References
    ----------
    Chernozhukov, V., Cinelli, C., Newey, W., Sharma, A. and Syrgkanis, V. (2024). Long story short: omitted variable
    bias in causal machine learning. NBER 30302.

    McCartan, C. and Kuriwaki, S. (2025). Identification and semiparametric estimation of conditional means from
    aggregate data. arXiv:2509.20194.

    Examples
    --------
    >>> from crosslevel.ecological import goodman
    >>> data = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10], "yes": [24, 37, 47, 56], "no": [76, 63, 53, 44]}
    >>> answer = sensitivity(goodman(Counts(data, groups=["young", "old"], outcomes=["yes", "no"])))
    >>> answer["robustness"].round(2).tolist()  # points of rate per 10 points of share that make 5 points of difference
    [1.67, 1.67, 1.51, 1.51]
    """
    _check_move(move)
    allowed = _slope(result, slope)
    parts = answered_units(result)
    if counts is not None and len(parts) > 1:
        raise InputError(
            "covariates cannot be matched to a pooled answer; take one district, result.select(district=...)."
        )
    equal = result.diagnostics.get("weights") == "equal"
    blocks = None
    if counts is not None and result.units is not None:
        blocks = covariates_of_answer(counts, list(dict.fromkeys(result.units["unit"].tolist())))
    found = [_part(result, part, move, allowed, equal, blocks) for part in parts]
    columns = {name: np.full(len(result), np.nan) for name in found[0].columns}
    for part, one in zip(parts, found, strict=True):
        for name, values in one.columns.items():
            columns[name][part.rows] = values
    kept = ("estimate", "std_error", "conf_low", "conf_high", "lower", "upper", "count")
    return Estimates.build(
        {
            **{name: result.table[name] for name in (*result.keys, *kept)},
            **{name: np.where(np.isnan(result["estimate"]), np.nan, values) for name, values in columns.items()},
            **_at_other_slopes(result),
        },
        keys=result.keys,
        kind="sensitivity",
        method=f"sensitivity of: {result.method}",
        level=result.level,
        interval=result.interval,
        provenance=Provenance.of(
            call=f"crosslevel.ecological.sensitivity({result.provenance.call.removeprefix('crosslevel.ecological.')}, "
            f"move={move!r}, slope={allowed!r})",
            seed=result.provenance.seed,
            data=result.provenance.data,
        ),
        diagnostics={
            "units": sum(len(part.X) for part in parts),
            "move": move,
            "slope_allowed": allowed,
            "points_per_10_points_of_share": TENTHS * allowed,
            **(
                {"own_slope_map": found[0].own_slope, "curve": _curve(parts[0], len(result))} if len(parts) == 1 else {}
            ),
            **({"bench": _bench_table(parts[0], found[0].bench)} if blocks else {}),
        },
        warnings=(*result.warnings, *_warnings(columns["bias_scale"], result)),
        frame=result.frame,
        title="Sensitivity to rates that depend on composition",
    )


def _check_move(move: float | str) -> None:
    if isinstance(move, str):
        if move not in ("half", "others"):
            raise unknown_name("move", move, ("half", "others"), "choice")
    elif isinstance(move, bool) or not isinstance(move, Real) or not 0 < float(move) < 1:
        raise InputError(
            f"move={move!r} is not a share between 0 and 1; pass 0.05 for five points, 'half' or 'others'."
        )


def _slope(result: Estimates, slope: float | None) -> float:
    call = result.provenance.call if isinstance(result, Estimates) else ""
    if call.startswith("crosslevel.ecological.bounds("):
        raise InputError("result is the answer of bounds, which assumes nothing; there is nothing to be sensitive to.")
    if slope is None:
        return NEIGHBORHOOD_SLOPE if call.startswith("crosslevel.ecological.neighborhood(") else SLOPE
    if isinstance(slope, bool) or not isinstance(slope, Real) or not 0 <= float(slope) < np.inf:
        raise InputError(
            f"slope={slope!r} is not a number of at least 0; pass for example 0.2 (2 points of rate per 10 points of share)."
        )
    return float(slope)


def _part(
    result: Estimates,
    part: AnsweredUnits,
    move: float | str,
    slope: float,
    equal: bool,
    blocks: dict[str, FloatArray] | None,
) -> _Part:
    N = part.X.sum(axis=1)
    weights = np.ones(len(N)) if equal else N
    center = shifted(part.X, part.rates, part.low, part.high, 0.0)
    distance = _distance(center, part, move)
    shares = part.T / N[:, None]
    condition = float(np.linalg.cond(np.sqrt(weights)[:, None] * part.x))
    apart = condition < MAX_CONDITION
    scale = bias_scale(part.x, shares, weights) if apart else np.full(center.shape, np.nan)
    robust = _robustness(part, center, distance, either=not isinstance(move, str))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(np.isfinite(robust), robustness_value(scale, np.abs(distance)), np.nan)
    down = center - shifted(part.X, part.rates, part.low, part.high, slope)
    up = shifted(part.X, part.rates, part.low, part.high, -slope) - center
    low, high = _widened(result, part, center, down, up)
    columns = {
        "sens_low": low,
        "sens_high": high,
        "robustness": TENTHS * np.where(np.isfinite(robust), robust, np.nan),
        "robustness_value": value,
        "bias_scale": scale,
    }
    bench: dict[str, Benchmark] = {}
    if blocks is not None:
        if not apart:
            raise InputError("covariates need groups that can be told apart; merge groups whose shares move together.")
        bench = _benchmarks(part, shares, weights, blocks)
        most = np.max([np.abs(b.change) for b in bench.values()], axis=0)
        columns["bench_low"], columns["bench_high"] = _widened(result, part, center, most, most)
    return _Part(columns=columns, bench=bench, own_slope=own_slope_map(part.X, weights))


def _distance(center: FloatArray, part: AnsweredUnits, move: float | str) -> FloatArray:
    """Give the move asked about, signed where it has a goal."""
    if move == "half":
        return 0.5 - center
    if move == "others":
        return part.T.sum(axis=0) / part.X.sum() - center
    return np.full(center.shape, float(move))


def _robustness(part: AnsweredUnits, center: FloatArray, distance: FloatArray, either: bool) -> FloatArray:
    """Give the least slope that makes each move, infinite where the bounds rule it out."""
    found = np.full(center.shape, np.nan)
    inside = np.clip(part.rates, part.low, part.high)
    everybody = part.X.sum(axis=1)
    for r, c in np.ndindex(*center.shape):
        if not part.X[:, r].any() or not np.isfinite(distance[r, c]):
            continue
        pair = np.column_stack([part.X[:, r], everybody - part.X[:, r]])
        rooms = {-1: inside[:, r, c] - part.low[:, r, c], 1: part.high[:, r, c] - inside[:, r, c]}
        ways = (-1, 1) if either else (-1,) if distance[r, c] < 0 else (1,)
        found[r, c] = min(slope_to_move(pair, rooms[way], abs(float(distance[r, c]))) for way in ways)
    return found


def _widened(
    result: Estimates, part: AnsweredUnits, center: FloatArray, down: FloatArray, up: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Widen the method's interval (its estimate, where it has none) and keep it inside the district's bounds."""
    estimate, low, high, lower, upper = (
        result[name][part.rows] for name in ("estimate", "conf_low", "conf_high", "lower", "upper")
    )
    low, high = np.where(np.isnan(low), estimate, low), np.where(np.isnan(high), estimate, high)
    # an estimate outside the bounds is taken to the nearest rates inside every unit's bounds first
    return (
        np.clip(np.minimum(low, center) - down, lower, upper),
        np.clip(np.maximum(high, center) + up, lower, upper),
    )


def _benchmarks(
    part: AnsweredUnits, shares: FloatArray, weights: FloatArray, blocks: dict[str, FloatArray]
) -> dict[str, Benchmark]:
    """Compare the regression without and with each covariate, and with all."""
    n, R = part.X.shape
    sets = dict(blocks)
    if len(blocks) > 1:
        sets["all covariates"] = np.hstack(list(blocks.values()))
    found = {}
    for name, Z in sets.items():
        if R * (1 + Z.shape[1]) > n // 2:
            if name == "all covariates":
                continue
            raise InputError(
                f"covariates[{name!r}] makes {R * Z.shape[1]} terms for {n} units; merge its values or leave it out."
            )
        found[name] = benchmark(part.x, shares, weights, within_group(part.X), Z)
    return found


def _curve(part: AnsweredUnits, n_rows: int) -> dict[str, Any]:
    """Give the estimates of every row under a range of slopes."""
    values = np.full((n_rows, len(CURVE)), np.nan)
    for k, d in enumerate(CURVE):
        values[part.rows.ravel(), k] = shifted(part.X, part.rates, part.low, part.high, d).ravel()
    return {"points_per_10_points": TENTHS * CURVE, "estimate": values}


def _bench_table(part: AnsweredUnits, bench: dict[str, Benchmark]) -> dict[str, list[Any]]:
    """Lay the benchmarks out as columns."""
    rows = [
        (name, group, outcome, b.r2_outcome[c], b.r2_composition[r], b.change[r, c])
        for name, b in bench.items()
        for r, group in enumerate(part.groups)
        for c, outcome in enumerate(part.outcomes)
    ]
    names = ("covariate", "group", "outcome", "r2_outcome", "r2_composition", "change")
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def _at_other_slopes(result: Estimates) -> dict[str, Any]:
    """Give the answers of rxc under other contextual slopes, as columns."""
    lines = result.diagnostics.get("sensitivity", {})
    return {f"at_{name}": np.array(v, dtype=np.float64) for name, v in lines.items() if len(v) == len(result)}


def _warnings(scale: FloatArray, result: Estimates) -> tuple[str, ...]:
    if np.isfinite(scale[~np.isnan(result["estimate"])]).all():
        return ()
    return ("robustness_value is null: the groups cannot be told apart in a regression.",)
