"""The functions that judge forecasts, on forecasts that are a little too narrow."""

from __future__ import annotations

import functools
import warnings

import numpy as np
from tests.contract.case import FunctionCase

from crosslevel.data.simulate import nation
from crosslevel.diagnostics import (
    calibration_table,
    conformal_interval,
    cross_validate_bags,
    fit_conformal,
    gaussian_nll,
    gaussian_pit,
    hidden_label,
    pit_uniformity,
    size_strata,
)
from crosslevel.distribution import BayesianLinear
from crosslevel.ecological import EcologicalInference
from crosslevel.errors import CrosslevelWarning

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
WORLD = nation(12, 60, n_states=3)


@functools.cache
def fitted():
    """The model whose labels are hidden, fitted when it is first asked for."""
    model = EcologicalInference(categorical=["sex"], spatial=None, n_jobs=1)
    totals = {"successes": "dem", "trials": "votes", "columns": ["sex", "race", "education"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(WORLD.people, WORLD.places, by="region", weight="weight", **totals)


@functools.wraps(hidden_label)
def hide(model, people, column, **options):
    return hidden_label(fitted(), people, column, **options)


FUNCTIONS = [
    *(
        FunctionCase(
            function,
            FORECASTS,
            np.asarray,
            variants={"truth": [TRUTH + 1, TRUTH[:5]], "mean": [MEAN + 1, MEAN[:5]], "std": [2 * STD, -STD]},
        )
        for function in (gaussian_nll, gaussian_pit)
    ),
    FunctionCase(
        pit_uniformity, {"pit": [0.1, 0.5, 0.9]}, np.asarray, variants={"pit": [[0.1, 0.2, 0.3], [2.0, 0.5, 0.1], []]}
    ),
    FunctionCase(
        hide,
        {
            "model": None,
            "people": WORLD.people,
            "column": "education == 'bachelor'",
            "by": ["race"],
            "methods": ["persons"],
            "n_draws": 50,
        },
        lambda found: found,
        variants={
            "column": ["sex == 2", "nobody == 1"],
            "by": [["sex"], "sex", ["nobody"]],
            "hidden": [["sex"]],
            "methods": [["persons", "neighborhood", "goodman"], ["nonsense"]],
            "interval": ["model", "nonsense"],
            "level": [0.8, 95],
            "n_draws": [60, 0],
        },
        neutral={"progress": "tells how many fits and answers are done"},
        data=["model", "people"],
    ),
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
