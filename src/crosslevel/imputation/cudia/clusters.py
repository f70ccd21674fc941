"""Tables of a fit: clusters, subgroups, candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslevel.errors import listed
from crosslevel.imputation.cudia.fitting import Layout
from crosslevel.imputation.cudia.impute import Crowd
from crosslevel.imputation.cudia.model import Parameters
from crosslevel.imputation.cudia.regression import bounds
from crosslevel.imputation.cudia.sampling import Draws
from crosslevel.imputation.cudia.selection import Selection
from crosslevel.imputation.estimate import naive_means
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import normal_interval, quantile_interval
from crosslevel.typing import FloatArray, IntArray

NARROW = (
    "These intervals hold under the model of clusters alone (place_sd=0); they do not allow for places that differ for other reasons, "
    "and on real data they are far too narrow (of 19 groups of survey respondents they held 1). Pass place_sd='auto'."
)


def describe_intervals(layout: Layout, place_sd: float | str, aggregates_from: str) -> tuple[str, ...]:
    """Say what the intervals of a fit's tables leave out."""
    out = [] if place_sd else [NARROW]
    errors = () if layout.errors is None or aggregates_from == "population" else layout.errors
    unsure = [name for name, e in zip(layout.hidden, errors, strict=False) if (np.nan_to_num(e) > 0).any()]
    if unsure:
        out.append(
            f"The published means of {listed(unsure)} are taken as those of these very people (aggregates_from='sample'), so intervals "
            "leave out their standard errors. Pass aggregates_from='population' where they are means of others."
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
