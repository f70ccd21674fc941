"""CUDIA in ``brfss.py``: its defaults, nothing chosen, by each method; and intervals from draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from brfss_data import COLUMNS, Hidden

from crosslevel.imputation.cudia.estimator import CUDIA

FloatArray = npt.NDArray[np.float64]

TWO_STAGES = "CUDIA, two stages"
METHODS: dict[str, str] = {
    TWO_STAGES: "two_stage",
    "CUDIA, joint: map": "map",
    "CUDIA, joint: mcem": "mcem",
    "CUDIA, hard": "hard",
}
DRAWS = 50


def cudia_methods() -> dict[str, Callable[[], Any]]:
    """Say how each CUDIA is made."""
    return {name: partial(CUDIA, method=method, allow_unconverged=True) for name, method in METHODS.items()}


def share_covered(model: CUDIA, data: Hidden, fewest: int) -> tuple[float, float, float]:
    """Cells covered by 95 % intervals from draws and their width, and levels of single columns covered."""
    draws = model.sample(data.people, n_draws=DRAWS)[:, :, 0]

    def judged(by: Sequence[str], least: int) -> tuple[Any, FloatArray]:
        codes = np.column_stack([data.X[c].to_numpy() for c in by])
        cell = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
        n = np.bincount(cell)
        low, high = np.quantile([np.bincount(cell, d) / n for d in draws], [0.025, 0.975], axis=0)
        truth = np.bincount(cell, data.y) / n
        return ((low <= truth) & (truth <= high))[n >= least], (high - low)[n >= least]

    inside, width = judged(COLUMNS, fewest)
    one_way = np.concatenate([judged([c], 1)[0] for c in COLUMNS])
    return float(inside.mean()), float(width.mean()), float(one_way.mean())
