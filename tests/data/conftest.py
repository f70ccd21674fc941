"""People of every kind of column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest


def make_people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    race = rng.choice(["asian", "black", "white"], n, p=[0.1, 0.3, 0.6]).astype(object)
    race[rng.random(n) < 0.1] = None
    age = rng.integers(18, 95, n).astype(float)
    return pa.table(
        {
            "region": rng.choice(["r1", "r2", "r3", "r4", "r5"], n, p=[0.4, 0.3, 0.2, 0.07, 0.03]),
            "sex": pa.array(rng.integers(1, 3, n), pa.int8()),
            "race": pa.array(race, pa.string()),
            "veteran": pa.array(rng.random(n) < 0.2),
            "age": pa.array(age, mask=rng.random(n) < 0.05),
            "income": pa.array(np.round(np.exp(rng.normal(10, 1, n))), pa.float64()),
            "hours": pa.array(rng.integers(0, 60, n), pa.int16()),
            "w": np.round(rng.gamma(2.0, 50.0, n), 3),
        }
    )


@pytest.fixture(scope="session")
def people():
    return make_people()
