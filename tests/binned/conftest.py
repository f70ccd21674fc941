"""Shared by the tests of this room: other programs' numbers, and brute-force integrals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from crosslevel.results.state import Reader, Writer


@pytest.fixture(scope="session")
def golden():
    """GPy 1.15.0 and an independent reference, on two sets of bins with fixed hyperparameters."""
    return json.loads((Path(__file__).parents[1] / "golden" / "binned.json").read_text())


@pytest.fixture
def saved():
    """Write an object into plain values and arrays, and read it back."""

    def again(obj):
        writer = Writer()
        form = json.loads(json.dumps(writer.form(obj, "obj")))
        return Reader(writer.arrays).value(form)

    return again


@pytest.fixture
def rng():
    return np.random.default_rng(7)
