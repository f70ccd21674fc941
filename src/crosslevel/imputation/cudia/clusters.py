"""What a fit says in tables and sentences: clusters, candidates, convergence, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslevel.errors import listed
from crosslevel.imputation.cudia.fitting import Fitted, Layout
from crosslevel.imputation.cudia.impute import Crowd
from crosslevel.imputation.cudia.model import Parameters
from crosslevel.imputation.cudia.regression import bounds
from crosslevel.imputation.cudia.sampling import Draws
from crosslevel.imputation.cudia.selection import Selection
from crosslevel.imputation.estimate import FEWEST_GROUPS, naive_means
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import normal_interval, quantile_interval
from crosslevel.typing import FloatArray, IntArray

__all__ = [
    "NARROW",
    "cluster_columns",
    "describe_convergence",
    "describe_doubts",
    "describe_few_groups",
    "selection_table",
    "subgroup_columns",
]

NARROW = (
    "These intervals hold under the model of clusters alone (place_sd=0); they do not allow for places that differ for other reasons, "
    "and on real data they are far too narrow (of 19 groups of survey respondents they held 1). Pass place_sd='auto'."
)


def describe_convergence(convergence: Mapping[str, Any]) -> str:
    """Say in a few words what convergence rests on."""
    shown = {k: v for k, v in convergence.items() if k in ("gradient", "steps", "drift", "rhat", "modes")}
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items())


def describe_few_groups(layout: Layout) -> tuple[str, ...]:
    """Warn of few groups, or say nothing."""
    counts = [int(np.isfinite(mean).sum()) for _, mean in layout.targets]
    return tuple(
        f"{name!r} is known for {groups} groups only; with so few, some choices of clusters and ridge are worse for people "
        "than the naive group mean, and group means cannot show which. Compare CrossLevelImputer, and rely on the ranking of "
        "people more than on the levels."
        for name, groups in zip(layout.hidden, counts, strict=True)
        if groups < FEWEST_GROUPS
    )


def describe_doubts(layout: Layout, fitted: Fitted, likelihood: str, aggregates_from: str) -> tuple[str, ...]:
    """Say what the reader of the numbers should know."""
    out = list(describe_few_groups(layout))
    for j, name in enumerate(layout.hidden if aggregates_from == "population" else ()):
        errors = [b.se[:, b.features == j][np.isfinite(b.S[:, b.features == j])] for b in layout.problem.blocks]
        if not np.isfinite(np.concatenate(errors)).all():
            out.append(
                f"the means of {name!r} come from the population without standard errors; they are taken to rest on as many people as "
                "are here. Pass aggregate_se."
            )
    K = fitted.parameters.n_clusters
    for name, report in zip(layout.hidden, fitted.identifiability, strict=True):
        if report.n_groups < K:
            out.append(
                f"{name!r}: {report.n_groups} published means for {K} clusters; about {report.effective_df:.1f} contrasts of clusters "
                "come from the data and the rest from the prior (see identifiability_)."
            )
    convergence = fitted.convergence
    if not convergence["converged"]:
        out.append(f"the fit did not converge ({describe_convergence(convergence)}); do not rely on these numbers.")
    if likelihood == "cudia" and convergence.get("accepted", 1.0) < 0.02:
        out.append(
            f"only {convergence['accepted']:.1%} of the moves of the mixes were accepted, so the E-step saw hardly anything; pass "
            "method='map'."
        )
    return tuple(out)


def cluster_columns(
    layout: Layout, at: Parameters, shares: FloatArray, spread: Sequence[FloatArray], draws: Draws | None, level: float
) -> list[dict[str, Any]]:
    """Columns of the table of clusters, for every hidden feature; intervals from draws of eta, or from their covariance."""
    problem, K = layout.problem, at.n_clusters
    size = layout.atom_weight @ shares
    theta: dict[str, FloatArray] = {}
    for family, t in zip(problem.families, at.theta, strict=True):
        theta |= family.describe(t)
    parts = []
    for j, name in enumerate(layout.hidden):
        eta = at.H[:, j]
        if draws is not None:
            low, high, error, _ = quantile_interval(draws.H[:, :, j], level)
        else:
            error = np.sqrt(np.diag(spread[j]))
            low, high = normal_interval(eta, error, level)
        ends = bounds(problem.hidden[j])
        parts.append(
            {
                "feature": [name] * K,
                "cluster": list(range(1, K + 1)),
                "estimate": eta,
                "std_error": error,
                "conf_low": np.minimum(np.clip(low, *ends), eta),
                "conf_high": np.maximum(np.clip(high, *ends), eta),
                "share": size / size.sum(),
            }
            | theta
        )
    return parts


def subgroup_columns(
    layout: Layout,
    crowd: Crowd,
    cut: IntArray,
    keys: Mapping[str, list[Any]],
    point: FloatArray,
    values: Iterable[FloatArray],
    level: float,
) -> tuple[list[dict[str, Any]], FloatArray]:
    """Columns of a table of subgroup means for every hidden feature, and the draws of all rows, (n_draws, rows).

    Parameters
    ----------
    cut : (n,) int
        Subgroup of each person.
    keys : mapping of str to list
        Keys of each subgroup.
    point : (n, d_u)
        Expected values.
    values : iterable of (n, d_u)
        Draws.
    """
    n_cuts = int(cut.max()) + 1
    w = np.ones(len(cut)) if crowd.weight is None else crowd.weight
    total = np.maximum(np.bincount(cut, w, n_cuts), 1e-300)

    def means(people: FloatArray) -> FloatArray:
        return np.array([np.bincount(cut, w * v, n_cuts) / total for v in people.T])

    draws, estimate = np.stack([means(v) for v in values]), means(point)
    found = quantile_interval(draws, level)
    parts = [
        {
            "feature": [name] * n_cuts,
            **keys,
            "estimate": estimate[j],
            "std_error": found.std_error[j],
            "conf_low": np.minimum(found.low[j], estimate[j]),
            "conf_high": np.maximum(found.high[j], estimate[j]),
            "naive": naive_means(mean, crowd.group[:, p], w, cut, n_cuts),
            "people": np.bincount(cut, minlength=n_cuts),
        }
        for j, (name, (p, mean)) in enumerate(zip(layout.hidden, layout.targets, strict=True))
    ]
    return parts, draws.reshape(len(draws), -1)


def selection_table(found: Selection, provenance: Provenance, frame: Any, warnings: Sequence[str] = ()) -> Estimates:
    """Make the table of candidates, best first."""
    ranked = sorted(found.candidates, key=lambda c: c.error)
    lowest = found.lowest
    return Estimates.build(
        {
            "clusters": [c.n_clusters for c in ranked],
            "ridge": [c.ridge for c in ranked],
            "target": [str(c.target) for c in ranked],
            "estimate": [c.error for c in ranked],
            "std_error": [c.std_error for c in ranked],
            "naive": [found.naive] * len(ranked),
            "effective_df": [c.effective_df for c in ranked],
            "taken": [c == found.best for c in ranked],
        },
        keys=["clusters", "ridge", "target"],
        method="leaving out one published mean at a time",
        level=None,
        interval="none",
        provenance=provenance,
        diagnostics={"lowest": listed([lowest.n_clusters, lowest.ridge, lowest.target])},
        warnings=tuple(warnings),
        frame=frame,
        title="Error of a mean predicted from the others, in standard deviations between groups",
    )
