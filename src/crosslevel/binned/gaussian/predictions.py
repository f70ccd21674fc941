"""Predictions of the Gaussian model: draws, the naive answer beside them, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.binned import baselines
from crosslevel.binned.gaussian.fit import GaussianFit
from crosslevel.binned.gaussian.model import Predicted, Problem
from crosslevel.binned.regions.base import Regions, distinct_labels
from crosslevel.errors import listed
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import BoolArray, FloatArray

__all__ = ["area_weighting", "draw", "predictions_table", "uninformed"]


MOST_PAIRS = 20_000_000
"""Pairs of predicted and observed regions beyond which the naive answer is left out."""
UNKNOWN = 0.05
"""Share of the prior variance that the data must remove for a region to count as informed."""


def draw(predicted: Predicted, n_draws: int, seed: int) -> FloatArray:
    """Draw from the joint posterior, (n_draws, m).

    Rounding leaves a covariance eigenvalues of either sign around zero; what lies below zero is set to zero.
    """
    assert predicted.covariance is not None
    w, Q = np.linalg.eigh(predicted.covariance)
    normal = np.random.default_rng(seed).standard_normal((n_draws, len(w)))
    return predicted.mean + (normal * np.sqrt(np.maximum(w, 0.0))) @ Q.T


def uninformed(variance: FloatArray, prior_variance: FloatArray) -> BoolArray:
    """Tell which predictions the data hardly changed: less than 5 % of the prior variance is gone.

    Examples
    --------
    >>> uninformed(np.array([0.99, 0.2]), np.ones(2))
    array([ True, False])
    """
    return np.asarray(variance > (1.0 - UNKNOWN) * prior_variance)


def area_weighting(problem: Problem, regions: Regions, scale: FloatArray) -> FloatArray | None:
    """Spread each observed total evenly over its region and sum: the naive answer.

    None where observed regions overlap; nan for a region that they do not cover.
    """
    if baselines.overlap(problem.regions) is not False or len(problem.y) * len(regions) > MOST_PAIRS:
        return None
    parts = baselines.shared_volumes(regions, problem.regions)
    if parts is None:
        return None
    spread = baselines.area_weighting(parts, problem.level, problem.y)
    covered = parts.sum(axis=1) > (1.0 - baselines.slack(regions)) * regions.volumes
    return np.where(covered, spread * scale, np.nan)


def predictions_table(
    fit: GaussianFit,
    regions: Regions,
    predicted: Predicted,
    scale: FloatArray,
    *,
    quantity: str,
    level: float,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
    warnings: tuple[str, ...],
) -> Estimates:
    """Make the table: a row per region or point."""
    sd = np.sqrt(predicted.variance)
    half = float(stats.norm.ppf(0.5 + level / 2.0)) * sd
    unknown = uninformed(predicted.variance, predicted.prior_variance)
    labels, names = distinct_labels(regions.labels())
    said = list(warnings)
    if unknown.any():
        which = listed([n for n, u in zip(names, unknown, strict=True) if u], 3)
        said.append(
            f"the data say nothing about {int(unknown.sum())} row(s) ({which}): their estimates are those of the prior."
        )
    if (fit.problem.y >= 0).all() and (predicted.mean < 0).any():
        said.append(
            f"{int((predicted.mean < 0).sum())} estimate(s) are negative though nothing observed is; for counts use BinnedCountGP, "
            "which keeps them positive."
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
        keys=list(labels),
        method=f"Gaussian process behind regions, {quantity}",
        level=level,
        interval="posterior, normal",
        provenance=provenance,
        diagnostics=diagnostics,
        warnings=said,
        title="What lies behind the bins",
    )
