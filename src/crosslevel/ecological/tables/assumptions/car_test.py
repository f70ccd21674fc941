"""A test of constant rates: are outcomes linear in composition? The part of the assumption that margins can refute.

If a group's rate is unrelated to composition (given covariates z), E[t | x, z] = sum_r x_r rate_r(z) is linear in x. The test
regresses t on x (and x times z) by weighted least squares and asks whether the residuals e still vary smoothly with x: Q =
|| Phi' W e ||^2 with Phi the features of a Gaussian kernel on x. Its distribution under the assumption is made by the wild
bootstrap (Wu 1986; Liu 1988): residuals, divided by one less their leverage, keep their place and size and get random signs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.data import checks
from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.covariates import covariates_of
from crosslevel.ecological.tables.layout import describe_call
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray, RandomState

ALL = "all outcomes"
REFUTED, FEW_DRAWS = 0.01, 199
"""p-value at which the answer of a method that assumes constant rates says that they are refuted, and draws behind it."""
LANDMARKS = 150  # more features than this add directions of next to no weight
NOTE = (
    "A small p-value says that rates depend on composition; a large one does not say that they do not: dependence that all groups "
    "share leaves outcomes linear in composition and cannot be seen (see sensitivity)."
)


@dataclass(frozen=True)
class CurvatureTest:
    """Statistic and p-value of each outcome, (n_outcomes,), and of all together.

    A statistic is Q over its mean under the assumption: about one when it holds.
    """

    statistic: FloatArray
    p_value: FloatArray
    statistic_all: float
    p_value_all: float


@checked
def car_test(
    counts: Counts, *, weights: str = "population", n_draws: int = 999, random_state: RandomState = 0
) -> Estimates:
    """Test whether outcomes are linear in composition, as they are when rates do not depend on it.

    Rates that do not depend on composition make outcomes linear in it; curved outcomes refute them. The converse fails:
    when everybody's rate depends on composition by the same slope, outcomes stay exactly linear, and no test on margins can see
    it. Use :func:`sensitivity` for that.

    Parameters
    ----------
    counts : Counts
        Rates may depend on the covariates named there, linearly and by group; composition must not matter beyond. Add squares as
        columns of their own where a line would be too stiff.
    weights : {"population", "equal"}, default "population"
        Weight of each unit.
    n_draws : int, default 999
        Draws of the wild bootstrap; the p-value is a multiple of 1 / (n_draws + 1).
    random_state : int, None, Generator or RandomState, default 0
        Seed of the draws.

    Returns
    -------
    Estimates
        Key ``outcome``, with a row for all outcomes together. ``estimate`` is the statistic over its mean under the
        assumption, so about one when it holds; ``p_value`` is the share of bootstrap draws at least as large.

    References
    ----------
    Wu, C. F. J. (1986). Jackknife, bootstrap and other resampling methods in regression analysis. Annals of Statistics 14.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> share = rng.uniform(0, 1, 100)
    >>> young = np.round(1000 * share)
    >>> data = {"young": young, "old": 1000 - young}
    >>> curved = np.round(1000 * (0.2 + 0.6 * share**2))  # the young vote yes the more, the more young there are
    >>> data |= {"yes": curved, "no": 1000 - curved}
    >>> found = car_test(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> found.select(outcome="yes")["p_value"].tolist()
    [0.001]
    """
    given = locals()
    if weights not in ("population", "equal"):
        raise unknown_name("weights", weights, ("population", "equal"), "choice")
    tables, blocks = counts.tables, covariates_of(counts)
    N, there = tables.N, tables.X.any(axis=0)
    x, t = (tables.X / N[:, None])[:, there], tables.T / N[:, None]
    n_draws, seed = checks.check_whole(n_draws, "n_draws", 99), checks.read_seed(random_state)
    w = N / N.mean() if weights == "population" else np.ones(len(N))
    design = np.hstack([x, *((x[:, :, None] * Z[:, None, :]).reshape(len(x), -1) for Z in blocks.values())])
    if design.shape[1] > len(x) // 3:
        raise InputError(
            f"groups and covariates make {design.shape[1]} terms for {len(x)} units; the test needs three times as many units. Merge "
            "groups or leave covariates out."
        )
    found = curvature_test(x, t, w, design, n_draws, seed)
    return Estimates.build(
        {
            "outcome": [*tables.outcomes, ALL],
            "estimate": [*found.statistic, found.statistic_all],
            "p_value": [*found.p_value, found.p_value_all],
        },
        keys=("outcome",),
        method="test of constant rates: are outcomes linear in composition?",
        level=None,
        interval="none",
        provenance=Provenance.of(
            call=describe_call("car_test", counts, {**given, "random_state": seed}),
            seed=seed,
            data=tables.data,
        ),
        diagnostics={"units": len(x), "terms": design.shape[1], "n_draws": n_draws, "covariates": list(blocks)},
        warnings=(NOTE,),
        frame=tables.frame,
        title="Curvature of outcomes in composition, over its mean if rates are constant",
    )


def curvature_test(
    x: FloatArray, t: FloatArray, weights: FloatArray, design: FloatArray, n_draws: int, seed: int
) -> CurvatureTest:
    """Test whether the residuals of t on the design still vary smoothly with x.

    Parameters
    ----------
    x : (n_units, n_groups)
    t : (n_units, n_outcomes)
    weights : (n_units,)
    design : (n_units, k)
        What outcomes may depend on linearly; holds x.
    n_draws, seed : int
    """
    rng = np.random.default_rng(seed)
    root = np.sqrt(weights)[:, None]
    U, singular, _ = np.linalg.svd(root * design, full_matrices=False)
    U = U[:, singular > 1e-10 * singular[0]]
    e = root * t - U @ (U.T @ (root * t))  # residuals times the root of the weights
    features = root * _features(x, rng)
    G = features - U @ (U.T @ features)
    stretched = e / np.maximum(1 - np.square(U).sum(axis=1), 1e-3)[:, None]
    Q = np.square(G.T @ e).sum(axis=0)
    signs = rng.choice([-1.0, 1.0], size=(n_draws, len(x)))
    null = np.column_stack([np.square((signs * s) @ G).sum(axis=1) for s in stretched.T])  # (n_draws, n_outcomes)
    # outcomes that the line fits to the last digit show no curvature; without this their p-value would be rounding
    exact = np.sqrt(np.mean(np.square(e), axis=0)) <= 1e-9 * np.sqrt(np.mean(weights))
    mean = np.where(exact | (null.mean(axis=0) == 0), 1.0, null.mean(axis=0))
    Q, null = np.where(exact, 0.0, Q / mean), np.where(exact, 0.0, null / mean)
    together, together_null = Q.mean(), null.mean(axis=1)
    return CurvatureTest(
        statistic=Q,
        p_value=(1 + (null >= Q).sum(axis=0)) / (n_draws + 1),
        statistic_all=float(together),
        p_value_all=float((1 + (together_null >= together).sum()) / (n_draws + 1)),
    )


def describe_curvature(tables: UnitTables) -> tuple[str, ...]:
    """Warn where outcomes are not linear in composition: of methods whose rates do not depend on it."""
    X = tables.X[:, tables.X.any(axis=0)]
    N = X.sum(axis=1)
    if not 1 < X.shape[1] <= len(X) // 3:
        return ()
    x, t = X / N[:, None], tables.T / N[:, None]
    p = curvature_test(x, t, N / N.mean(), x, FEW_DRAWS, 0).p_value_all
    if p > REFUTED:
        return ()
    return (
        f"Outcomes are not linear in composition (car_test, p = {p:.2g}), which refutes the assumption of this method that a group's rates "
        "do not depend on who else lives in the unit: do not rely on its intervals. rxc lets rates depend on composition.",
    )


def _features(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Give features of a Gaussian kernel on the shares, its width the median distance, (n_units, at most LANDMARKS)."""
    at = x if len(x) <= LANDMARKS else x[np.sort(rng.choice(len(x), LANDMARKS, replace=False))]
    between = _squared_distances(at, at)
    positive = between[between > 1e-12]
    width = np.median(positive) if len(positive) else 1.0
    values, vectors = np.linalg.eigh(np.exp(-between / width))
    kept = values > 1e-8 * values[-1]
    return np.exp(-_squared_distances(x, at) / width) @ (vectors[:, kept] / np.sqrt(values[kept]))


def _squared_distances(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.maximum(np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * a @ b.T, 0.0)
