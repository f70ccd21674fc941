"""Predictions as arrays and as the one table of crosslevel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.binned import baselines
from crosslevel.binned.checks import overlap, shared_volumes, slack, uninformed
from crosslevel.binned.gaussian import GaussianFit
from crosslevel.binned.problem import Problem, scale_of
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.points import Points
from crosslevel.binned.regions.sums import Stack
from crosslevel.binned.solver import Predicted
from crosslevel.data.frames import FrameKind
from crosslevel.errors import listed
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["LeaveOneOut", "area_weighting", "default_scale", "draw", "leave_one_out", "predictions_table"]


MOST_PAIRS = 20_000_000
"""Pairs of regions asked for and observed beyond which the naive answer is left out."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Each observed region as the others foretell it, at the hyperparameters of all.

    Attributes
    ----------
    mean, std : (n,)
        Of the observation, its noise included.
    z : (n,)
        Standardised errors; of unit spread when the model is right.
    log_score : float
        Mean log density of what was observed; higher is better.
    rmse : float
    coverage : float
        Share of observations within 95 % intervals.
    """

    mean: FloatArray
    std: FloatArray
    z: FloatArray
    log_score: float
    rmse: float
    coverage: float


def leave_one_out(fit: GaussianFit) -> LeaveOneOut:
    """Score each observation by the others, in closed form."""
    left = fit.posterior.left_out()
    std = np.sqrt(left.variance)
    error = fit.problem.y - left.mean
    z = error / std
    return LeaveOneOut(
        left.mean,
        std,
        z,
        float(stats.norm.logpdf(error, scale=std).mean()),
        float(np.sqrt(np.mean(error**2))),
        float(np.mean(np.abs(z) < stats.norm.ppf(0.975))),
    )


def default_scale(regions: Regions, kind: str | None, fitted: str) -> FloatArray:
    """Give what integrals are multiplied by; without a kind, density at points and the kind of fit at regions."""
    if kind is not None:
        return scale_of(regions, kind)
    if isinstance(regions, Stack):
        return np.concatenate([default_scale(m, None, fitted) for m in regions.members])
    return scale_of(regions, "density" if isinstance(regions, Points) else fitted)


def draw(predicted: Predicted, n: int, seed: int | None) -> FloatArray:
    """Draw n times from the joint posterior, (n, m).

    Rounding leaves a covariance eigenvalues of either sign around zero; what lies below zero is set to zero.
    """
    assert predicted.covariance is not None
    w, Q = np.linalg.eigh(predicted.covariance)
    normal = np.random.default_rng(seed).standard_normal((n, len(w)))
    return predicted.mean + (normal * np.sqrt(np.maximum(w, 0.0))) @ Q.T


def area_weighting(problem: Problem, regions: Regions, scale: FloatArray) -> FloatArray | None:
    """Spread each observed total evenly over its region and sum: the naive answer. None where it is not defined.

    It is not where observed regions overlap, or where a region asked for is not covered.
    """
    if overlap(problem.regions) is not False or len(problem.y) * len(regions) > MOST_PAIRS:
        return None
    parts = shared_volumes(regions, problem.regions)
    if parts is None:
        return None
    spread = baselines.area_weighting(parts, problem.level, problem.y)
    volume = regions.volumes
    covered = parts.sum(axis=1) > (1.0 - slack(regions)) * volume
    return np.where(covered, spread * scale, np.nan)


def predictions_table(
    fit: GaussianFit,
    regions: Regions,
    predicted: Predicted,
    scale: FloatArray,
    *,
    kind: str,
    level: float,
    frame: FrameKind,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Estimates:
    """Make the table: a row per region or point."""
    sd = np.sqrt(predicted.variance)
    half = float(stats.norm.ppf(0.5 + level / 2.0)) * sd
    unknown = uninformed(predicted.variance, predicted.prior_variance)
    labels = dict(regions.labels())
    keys = list(labels)
    rows = list(zip(*(np.asarray(v).tolist() for v in labels.values()), strict=True))
    if len(set(rows)) < len(rows):
        labels, keys = {"row": np.arange(len(rows)), **labels}, ["row", *keys]
    said = list(notes)
    if unknown.any():
        names = [r[0] if len(r) == 1 else r for r, u in zip(rows, unknown, strict=True) if u]
        said.append(
            f"the data say nothing about {int(unknown.sum())} row(s) ({listed(names, 3)}): these are the prior's."
        )
    if (fit.problem.y >= 0).all() and (predicted.mean < 0).any():
        said.append(
            f"{int((predicted.mean < 0).sum())} estimate(s) are negative though nothing observed is; for counts use a likelihood that "
            "keeps them positive, such as likelihood='poisson'."
        )
    columns = {
        **labels,
        "estimate": predicted.mean,
        "std_error": sd,
        "conf_low": predicted.mean - half,
        "conf_high": predicted.mean + half,
        "informed": ~unknown,
    }
    naive = area_weighting(fit.problem, regions, scale)
    if naive is not None:
        columns["area_weighted"] = naive
    return Estimates.build(
        columns,
        keys=keys,
        method=f"Gaussian process behind regions, {kind}",
        level=level,
        interval="posterior, normal",
        provenance=provenance,
        diagnostics=diagnostics,
        warnings=said,
        frame=frame,
        title="What lies behind the bins",
    )
