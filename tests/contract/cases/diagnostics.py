"""The functions that judge forecasts, on forecasts that are a little too narrow."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase

from crosslevel.diagnostics import (
    calibration_table,
    conformal_interval,
    cross_validate_bags,
    fit_conformal,
    size_strata,
)
from crosslevel.distribution import BayesianLinear

RNG = np.random.default_rng(0)
N = 300
TRUTH, MEAN, STD = RNG.normal(size=N), 0.1 * RNG.normal(size=N), RNG.uniform(0.5, 1.0, N)
SIZES = RNG.choice([5, 20, 100], N)
STRATA = size_strata(SIZES)
ENDS = np.column_stack([MEAN - 1.0, MEAN + 1.0])
LABELS = RNG.uniform(1, 3, 24)
BAGS = [RNG.normal(0, s, size=(n, 1)) for s, n in zip(LABELS, RNG.choice([5, 30], 24), strict=True)]
FORECASTS = {"truth": TRUTH, "mean": MEAN, "std": STD}


def conformal(found):
    return {"factors": np.array(list(found.factors.values())), "overall": np.array(found.overall)}


CASES = []
FUNCTIONS = [
    FunctionCase(
        size_strata, {"sizes": SIZES}, np.asarray, variants={"edges": [2, [10, 50], 0, [np.nan]]}, data=["sizes"]
    ),
    FunctionCase(
        calibration_table,
        FORECASTS,
        lambda found: found,
        variants={
            "stratum": [STRATA, STRATA[:5]],
            "level": [0.8, 95],
            "interval": [ENDS, ENDS[:, ::-1]],
            "log_density": [-np.ones(N), [0.0]],
            "pit": [np.linspace(0.01, 0.99, N), [0.5]],
        },
        data=list(FORECASTS),
    ),
    FunctionCase(
        fit_conformal,
        FORECASTS,
        conformal,
        variants={"stratum": [STRATA, STRATA[:5]], "level": [0.8, 95]},
        data=list(FORECASTS),
    ),
    FunctionCase(
        conformal_interval,
        {"scale": fit_conformal(TRUTH, MEAN, STD, STRATA), "mean": MEAN, "std": STD},
        np.asarray,
        variants={"stratum": [STRATA, ["nobody"] * N]},
        data=["scale", "mean", "std"],
    ),
    FunctionCase(
        cross_validate_bags,
        {"model": BayesianLinear(n_landmarks=5), "X": BAGS, "y": LABELS, "folds": 3},
        lambda found: {"scores": found.scores, "predictions": found.predictions},
        variants={"folds": [4, 1], "level": [0.8, 95], "edges": [1, 0], "random_state": [1, -1, 0.5]},
        neutral={"progress": "tells how many folds are done"},
        data=["model", "X", "y"],
    ),
]
