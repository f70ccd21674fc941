"""What a fit says in tables and sentences: clusters, subgroups, candidates, doubts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from crosslevel.errors import listed
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.cudia import selection
from crosslevel.imputation.cudia.chain import Draws
from crosslevel.imputation.cudia.fitting import Choices, Fitted, _select
from crosslevel.imputation.cudia.hidden import bounds
from crosslevel.imputation.cudia.places import place_covariances, place_deviation
from crosslevel.imputation.cudia.posterior import Parameters
from crosslevel.imputation.cudia.problem import Problem
from crosslevel.imputation.cudia.setup import Layout
from crosslevel.imputation.inputs import Schema
from crosslevel.imputation.persons.answers import FEWEST_GROUPS, cut_by
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.imputation.cudia.estimator import CUDIA

__all__ = [
    "NARROW",
    "cluster_columns",
    "describe_convergence",
    "doubts",
    "eta_covariances",
    "few_words",
    "place_sds",
    "select",
    "selection_table",
    "subgroup_columns",
    "table",
]


NARROW = (
    "These intervals hold under the model of clusters alone (place_sd=0); they do not allow for places that differ for other reasons, "
    "and on real data they are far too narrow (of 19 groups of survey respondents they held 1). Pass place_sd='auto'."
)


def describe_convergence(convergence: Mapping[str, Any]) -> str:
    """Say in a few words what convergence rests on."""
    shown = {k: v for k, v in convergence.items() if k in ("gradient", "steps", "drift", "rhat", "modes")}
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items())


def few_words(layout: Layout) -> tuple[str, ...]:
    """Warn of few groups, or say nothing."""
    out = []
    for name, (_, mean) in zip(layout.hidden, layout.targets, strict=True):
        groups = int(np.isfinite(mean).sum())
        if groups < FEWEST_GROUPS:
            out.append(
                f"{name!r} is known for {groups} groups only; with so few, some choices of clusters and ridge are worse for people "
                "than the naive group mean, and group means cannot show which. Compare CrossLevelImputer, and trust the ranking of "
                "people more than the levels."
            )
    return tuple(out)


def place_sds(model: CUDIA) -> float | list[float]:
    """Give the logits by which groups are taken to differ for other reasons; one for each hidden feature where they differ."""
    found = [place_deviation(model.place_sd, int(np.isfinite(mean).sum())) for _, mean in model._layout.targets]
    return found[0] if len(set(found)) == 1 else found


def eta_covariances(model: CUDIA) -> tuple[FloatArray, ...]:
    """Covariances of the clusters' hidden means: of the ridge regression, or with groups that differ for other reasons."""
    if not model.place_sd:
        return tuple(r.variance for r in model.identifiability_)
    problem, at, shares = model._layout.problem, model.parameters_, model._shares
    return place_covariances(problem, at, shares, model.likelihood, model.place_sd, model.logit_sd)


def table(
    model: CUDIA,
    columns: Mapping[str, Any],
    keys: Sequence[str],
    level: float,
    interval: str,
    call: str,
    draws: FloatArray | None = None,
) -> Estimates:
    """Make a table of a fit, with what its numbers rest on."""
    settings = {"ridge": model.ridge_, "ridge_target": model.ridge_target_, "place_sd": place_sds(model)}
    return Estimates.build(
        columns,
        keys=list(keys),
        method=f"CUDIA, {model.method}, likelihood {model.likelihood}, {model.n_clusters_} clusters",
        level=level,
        interval=interval,
        provenance=model._provenance(call),
        diagnostics=model.convergence_ | settings,
        warnings=model.warnings_ if model.place_sd else (*model.warnings_, NARROW),
        frame=model._frame,
        draws=draws,
    )


def doubts(layout: Layout, fitted: Fitted, law: str, aggregates_from: str = "sample") -> tuple[str, ...]:
    """Say what the reader of the numbers should know."""
    out = list(few_words(layout))
    if aggregates_from == "population":
        for j, name in enumerate(layout.hidden):
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
    accepted = convergence.get("accepted")
    if accepted is not None and law == "cudia" and accepted < 0.02:
        out.append(
            f"only {accepted:.1%} of the moves of the mixes were accepted, so the E-step saw hardly anything; pass proposal='counts'."
        )
    return tuple(out)


def cluster_columns(
    layout: Layout,
    at: Parameters,
    shares: FloatArray,
    spread: Sequence[FloatArray],
    draws: Draws | None,
    level: float,
) -> dict[str, Any]:
    """Columns of the table of clusters."""
    problem, K = layout.problem, at.n_clusters
    size = layout.atom_weight @ shares
    z = float(ndtri(0.5 + level / 2))
    theta: dict[str, FloatArray] = {}
    for family, t in zip(problem.families, at.theta, strict=True):
        theta |= family.describe(t)
    rows: dict[str, list[Any]] = {
        n: [] for n in ("feature", "cluster", "estimate", "std_error", "conf_low", "conf_high", "share")
    }
    for j, name in enumerate(layout.hidden):
        low_end, high_end = bounds(problem.hidden[j])
        if draws is not None:
            own = draws.H[:, :, j]
            se, low, high = own.std(axis=0), *np.quantile(own, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        else:
            se = np.sqrt(np.diag(spread[j]))
            low, high = at.H[:, j] - z * se, at.H[:, j] + z * se
        rows["feature"] += [name] * K
        rows["cluster"] += list(range(1, K + 1))
        rows["estimate"] += at.H[:, j].tolist()
        rows["std_error"] += se.tolist()
        rows["conf_low"] += np.minimum(np.clip(low, low_end, high_end), at.H[:, j]).tolist()
        rows["conf_high"] += np.maximum(np.clip(high, low_end, high_end), at.H[:, j]).tolist()
        rows["share"] += (size / size.sum()).tolist()
    return rows | {n: np.tile(v, len(layout.hidden)).tolist() for n, v in theta.items()}


def subgroup_columns(
    by: str | Sequence[str],
    cells: Cells,
    schema: Schema,
    point: FloatArray,
    draws: Iterable[FloatArray],
    group: npt.NDArray[np.intp],
    weight: FloatArray | None,
    hidden: Sequence[str],
    targets: Sequence[tuple[int, FloatArray]],
    level: float,
) -> tuple[dict[str, Any], list[str], FloatArray]:
    """Columns of a table of subgroup means, their keys, and the draws (m, rows)."""
    cut, keys = cut_by(by, cells, schema.columns, schema.partitions)
    member = cut[cells.pair]
    n_cuts = int(cut.max()) + 1
    w = np.ones(len(member)) if weight is None else weight
    total = np.maximum(np.bincount(member, w, n_cuts), 1e-300)

    def means(values: FloatArray) -> FloatArray:
        return np.concatenate([np.bincount(member, w * v, n_cuts) / total for v in values.T])

    kept = np.stack([means(v) for v in draws])
    estimate = means(point)
    low, high = np.quantile(kept, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    naive = np.concatenate([_naive(mean, group[:, p], member, w, n_cuts) for p, mean in targets])
    d = len(hidden)
    columns: dict[str, Any] = {"feature": [n for n in hidden for _ in range(n_cuts)]}
    columns |= {n: list(v) * d for n, v in keys.items()}
    columns |= {
        "estimate": estimate,
        "std_error": kept.std(axis=0),
        "conf_low": np.minimum(low, estimate),
        "conf_high": np.maximum(high, estimate),
        "naive": naive,
        "people": np.tile(np.bincount(member, minlength=n_cuts), d),
    }
    return columns, list(keys), kept


def _naive(
    mean: FloatArray, group: npt.NDArray[np.intp], member: npt.NDArray[np.intp], w: FloatArray, n_cuts: int
) -> FloatArray:
    known = np.isfinite(mean)[group] * w
    total = np.bincount(member, known, n_cuts)
    sums = np.bincount(member, known * np.where(np.isfinite(mean), mean, 0.0)[group], n_cuts)
    return np.divide(sums, total, out=np.full(n_cuts, np.nan), where=total > 0)


def select(problem: Problem, choices: Choices, rng: np.random.Generator) -> selection.Selection:
    """Score all candidates of the choices."""
    return _select(problem, replace(choices, n_clusters="auto", ridge="auto", target="auto"), int(rng.integers(2**63)))


def selection_table(
    found: selection.Selection, provenance: Provenance, frame: Any, words: Sequence[str] = ()
) -> Estimates:
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
        warnings=tuple(words),
        frame=frame,
        title="Error of a mean predicted from the others, in standard deviations between groups",
    )
