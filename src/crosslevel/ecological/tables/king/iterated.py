"""King's model for tables of any size, one 2 x 2 table after another: each group against the others, each outcome against the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crosslevel.data import checks
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.assumptions.car_test import describe_curvature
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.king.estimator import PRIOR, fit_king, four, two_shares
from crosslevel.ecological.tables.layout import Answer, lay_out
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.errors import ConvergenceError, InputError, listed
from crosslevel.results import Estimates
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, Progress, RandomState

OTHERS = "others"
RARE = 0.01
"""Share of all people below which an outcome has no fit of its own: King's model takes shares for continuous numbers."""


@checked
def king_iterated(
    counts: Counts,
    *,
    level: float = 0.95,
    n_draws: int = 400,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> Estimates:
    """Estimate R x C tables by King's 2 x 2 model, each group against the others and each outcome against the rest.

    This is the iterated ecological inference that courts have seen. Each cell has a fit of its own, so that a group's shares need
    not add up; they are divided by their sum, draw by draw. What :func:`king` assumes is assumed R x C times, and the draws of two
    outcomes are independent: intervals of leads are those of independent estimates.

    Parameters
    ----------
    counts : Counts
    level : float, default 0.95
        Level of the intervals.
    n_draws : int, default 400
        Draws from the posterior of each fit.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the draws.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the fits done and of all.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; no units, since the fits of one unit do not agree on its table. A group with a fit that
        did not converge is null, and named in a warning. Outcomes below 1 % of the people have no fit: each group has the share of the
        units it lives in, without standard error and interval; its draws are spread over all that the counts
        allow. ``diagnostics["sums"]`` are the sums of each group's shares before
        they were divided by them: far from one, the fits contradict each other.

    See Also
    --------
    king : one 2 x 2 table.
    rxc, multinomial_dirichlet : the whole table in one model.

    References
    ----------
    King, G. (1997). A Solution to the Ecological Inference Problem. Princeton University Press.
    Grofman, B. and Barreto, M. A. (2009). A reply to Zax's (2002) critique of Grofman and Migalski (1988): double-equation approaches to
    ecological inference when the independent variable is misspecified. Sociological Methods and Research 37.

    Examples
    --------
    >>> data = {"young": [10, 40, 70, 90, 20, 55, 30, 80], "old": [90, 60, 30, 10, 80, 45, 70, 20]}
    >>> data |= {"yes": [20, 30, 40, 48, 22, 36, 26, 42], "no": [70, 60, 47, 40, 68, 53, 64, 48], "blank": [10, 10, 13, 12, 10, 11, 10, 10]}
    >>> found = king_iterated(Counts(data, groups=["young", "old"], outcomes=["yes", "no", "blank"]), n_draws=100)
    >>> found["estimate"].reshape(2, 3).sum(axis=1).round(9).tolist()
    [1.0, 1.0]
    """
    given = locals()
    tables = counts.tables
    level, seed = checks.check_level(level), checks.read_seed(random_state)
    n_draws = checks.check_whole(n_draws, "n_draws", 50, 1_000_000)
    R, C = len(tables.groups), len(tables.outcomes)
    share, draws = np.zeros((R, C)), np.zeros((n_draws, R, C))
    failed: dict[str, str] = {}
    # two groups, or two outcomes, are told apart by one fit
    pairs = [(r, c) for r in (range(R) if R > 2 else (0,)) for c in (range(C) if C > 2 else (0,))]
    rare = (tables.T.sum(axis=0) < RARE * tables.N.sum()) if C > 2 else np.zeros(C, dtype=bool)
    like_unit = (tables.X.T @ (tables.T / tables.N[:, None])) / np.maximum(tables.X.sum(axis=0), 1e-300)[:, None]
    people = np.maximum(tables.X.sum(axis=0), 1e-300)[:, None]
    low, high = tables.bounds.low.sum(axis=0) / people, tables.bounds.high.sum(axis=0) / people
    share[:, rare] = like_unit[:, rare]
    draws[:, :, rare] = _between(like_unit, low, high, np.random.default_rng(seed).random((n_draws, 2, R, C)))[
        :, :, rare
    ]
    fitted = [(r, c) for r, c in pairs if not rare[c]]
    with count_steps(progress, "Fitting cells", len(fitted), "fits") as step:
        for r, c in fitted:
            rows, columns = ([r] if R > 2 else [0, 1]), ([c] if C > 2 else [0, 1])
            if step is not None and (r, c) != fitted[0]:
                step()
            try:
                two, two_draws = _cell(tables, r, c, n_draws, seed + 100 * r + c)
            except (ConvergenceError, InputError) as error:
                failed |= {tables.groups[k]: f"{tables.outcomes[c]}: {error}" for k in rows}
                share[rows] = np.nan
                draws[:, rows] = np.nan
                continue
            share[np.ix_(rows, columns)] += two[: len(rows), : len(columns)]
            draws[np.ix_(range(n_draws), rows, columns)] += two_draws[:, : len(rows), : len(columns)]
    if len(failed) == R:
        raise ConvergenceError(f"king_iterated has no answer for any group; {next(iter(failed.values()))}")
    few = [name for name, small in zip(tables.outcomes, rare, strict=True) if small]
    sums = share.sum(axis=1)
    share, draws = share / sums[:, None], draws / draws.sum(axis=2, keepdims=True)
    # what has no fit has no interval
    low, high, spread = (np.where(rare, np.nan, v) for v in quantile_interval(draws, level)[:3])
    answer = Answer(
        share * tables.X[:, :, None],
        method="King's truncated bivariate normal, iterated: each group and outcome against the rest",
        level=level,
        interval="posterior quantile",
        columns={"std_error": spread, "conf_low": np.minimum(low, share), "conf_high": np.maximum(high, share)},
        draws=draws,
        diagnostics={"converged": not failed, "fits": len(fitted), "sums": sums.tolist()},
        warnings=[
            *([f"No answer for {listed(failed)}: {next(iter(failed.values()))}"] if failed else []),
            *(
                [
                    f"{listed(few)} is below 1 % of people and has no fit: each group has the share of the units it lives in."
                ]
                if few
                else []
            ),
            *describe_curvature(tables),
        ],
        seed=seed,
    )
    return replace(lay_out(counts, ("king_iterated", {**given, "random_state": seed}), answer), units=None)


def _cell(tables: UnitTables, r: int, c: int, n_draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Fit one group against the others and one outcome against the rest: shares (2, 2) and their draws (n_draws, 2, 2)."""
    X, T = (np.column_stack([v[:, k], np.delete(v, k, axis=1).sum(axis=1)]) for v, k in ((tables.X, r), (tables.T, c)))
    x, t = two_shares(X, T, (tables.groups[r], OTHERS))
    none = np.empty((len(x), 0))
    found = fit_king(x, t, (none, none), (PRIOR, "mode"), n_draws, seed)
    if found.failure:
        raise ConvergenceError(found.failure)
    cells, district = found.district(X)
    return cells.sum(axis=0) / X.sum(axis=0)[:, None], four(*district)


def _between(share: FloatArray, low: FloatArray, high: FloatArray, u: FloatArray) -> FloatArray:
    """Draw shares anywhere between their bounds, on average at ``share``: what is known of an outcome without a fit.

    Below or above the share, and evenly there; ``u`` are uniform numbers (n_draws, 2, R, C).
    """
    width = np.maximum(high - low, 1e-300)
    down = u[:, 0] * width < high - share  # the side of the nearer end is drawn more often
    return np.asarray(share + u[:, 1] * np.where(down, low - share, high - share))
