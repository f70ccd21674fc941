"""Shared by the tests of this room: other programs' numbers, and brute-force integrals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def golden():
    """GPy 1.15.0 and an independent reference, on two sets of bins with fixed hyperparameters."""
    return json.loads((Path(__file__).parents[1] / "golden" / "binned.json").read_text())


@pytest.fixture
def rng():
    return np.random.default_rng(7)
