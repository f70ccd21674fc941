"""The functions that judge forecasts, on forecasts that are a little too narrow."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase

from crosslevel.diagnostics import calibration_table, size_strata

RNG = np.random.default_rng(0)
N = 300
TRUTH, MEAN, STD = RNG.normal(size=N), 0.1 * RNG.normal(size=N), RNG.uniform(0.5, 1.0, N)
SIZES = RNG.choice([5, 20, 100], N)
STRATA = size_strata(SIZES)
FORECASTS = {"truth": TRUTH, "mean": MEAN, "std": STD}

CASES = []
FUNCTIONS = [
    FunctionCase(
        size_strata, {"sizes": SIZES}, np.asarray, variants={"edges": [2, [10, 50], 0, [np.nan]]}, data=["sizes"]
    ),
    FunctionCase(
        calibration_table,
        FORECASTS,
        lambda found: found,
        variants={"stratum": [STRATA, STRATA[:5]], "level": [0.8, 95]},
        data=list(FORECASTS),
    ),
]
