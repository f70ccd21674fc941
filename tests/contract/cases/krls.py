"""KRLS on a hundred rows, one of them with a missing value."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.contract.case import Case, With

from crosslevel.krls import KRLS


def _rows() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "age": rng.normal(50, 15, 60).round(1),
            "treated": rng.integers(0, 2, 60),
            "arm": rng.choice(["a", "b", "c"], 60),
            "code": rng.integers(1, 4, 60),
        }
    )
    y = 0.03 * X["age"] + X["treated"] * (X["arm"] == "b") + 0.5 * rng.normal(size=60)
    again = rng.integers(0, 60, 100)
    X, y = X.iloc[again].reset_index(drop=True), y.to_numpy()[again] + 0.2 * rng.normal(size=100)
    X.loc[7, "age"] = np.nan
    return X, y, rng.integers(1, 3, 100).astype(float)


X, Y, COUNTS = _rows()


def _answer(model):
    found = {"effects": model.effects(), "path": [model.path_], "fitted": model.fitted_}
    return found | {"rows": model.effects_at(X.iloc[:5])}


CASES = [
    Case(
        name="KRLS",
        people=dict(X),
        make=lambda **given: KRLS(**{"missing": "drop"} | given),
        fit=lambda model: model.fit(X, Y, sample_weight=COUNTS),
        answer=lambda model: _answer(model) | {"predicted": model.predict(X.iloc[:5])},
        variants={
            "penalty": [0.5, -1.0],
            "bandwidth": ["maxvar", 2.0, "P"],
            "rule": ["krls", "cv", With("krls", penalty=1.0)],
            "inference": ["hc3", "krls", "bigkrls"],
            "method": ["partial", "nystrom", "collapse"],
            "contrast": ["dummy"],
            "categorical": [["code"]],
            "reference": [{"arm": "b"}],
            "first_differences": [False],
            "missing": ["error"],
            "rank": [With(10, method="nystrom"), With(10, method="partial"), With(10, method="exact"), 10],
            "backend": [With("jax", method="nystrom"), "gpu"],
            "random_state": [With(3, method="nystrom", rank=8), With(3, method="exact"), -1],
        },
    ),
]
FUNCTIONS = []
