"""Predictions of the Gaussian model: draws, the naive answer beside them, and the table."""

from __future__ import annotations

import numpy as np

from crosslevel.binned import baselines
from crosslevel.binned.gaussian.model import Predicted, Problem
from crosslevel.binned.region_estimator import Answer
from crosslevel.binned.regions.base import Regions
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import BoolArray, FloatArray

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


def describe_predictions(
    problem: Problem, regions: Regions, predicted: Predicted, scale: FloatArray, level: float
) -> Answer:
    """Give the columns of the table: a row per region or point."""
    sd = np.sqrt(predicted.variance)
    low, high = normal_interval(predicted.mean, sd, level)
    said = []
    if (problem.y >= 0).all() and (predicted.mean < 0).any():
        said.append(
            f"{int((predicted.mean < 0).sum())} estimate(s) are negative though nothing observed is; for counts use BinnedCountGP, "
            "which keeps them positive."
        )
    naive = area_weighting(problem, regions, scale)
    return Answer(
        dict(regions.labels()),
        {"estimate": predicted.mean, "std_error": sd, "conf_low": low, "conf_high": high},
        ~uninformed(predicted.variance, predicted.prior_variance),
        "are estimated from the prior alone: the data say nothing about them",
        {} if naive is None else {"area_weighted": naive},
        said,
    )
