"""Shared by the tests of this room: R's numbers, small worlds, and brute-force versions of the formulas."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "krls"


@pytest.fixture
def golden():
    """Read one set of R's numbers."""

    def read(name):
        folder = GOLDEN / name
        tables = {p.stem: pd.read_csv(p) for p in folder.glob("*.csv")}
        scalars = {p.stem: json.loads(p.read_text()) for p in folder.glob("*.json")}
        train = tables.pop("train")
        return SimpleNamespace(X=train.drop(columns="y"), y=train["y"], folder=folder, **tables, **scalars)

    return read


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def mixed(rng):
    """Rows with repeats, a binary and a continuous column, and a curved outcome."""

    def make(n=60, values=7):
        X = np.column_stack([rng.integers(0, values, n) / 2.0, rng.integers(0, 2, n), rng.integers(0, 3, n) - 1.0])
        y = np.sin(X[:, 0]) + 0.7 * X[:, 1] * X[:, 2] + rng.normal(size=n)
        return X, y

    return make


@pytest.fixture
def smooth(rng):
    """Rows without repeats, one column binary."""

    def make(n=40):
        X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)])
        y = np.tanh(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)
        return X, y

    return make
