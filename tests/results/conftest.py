"""Estimates with everything in them."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.results import Estimates, Provenance

PROVENANCE = Provenance.of(call="example(x)", seed=7, data={"people": "sha256:00"})


def make(columns=None, **changes):
    """Build estimates, saying only what differs from a plain pair of rows."""
    given = {"place": ["a", "b"], "estimate": [0.5, 0.25], "conf_low": [0.4, 0.1], "conf_high": [0.6, 0.4]}
    options = {"keys": ["place"], "method": "example", "level": 0.95, "interval": "wald", "provenance": PROVENANCE}
    return Estimates.build(given if columns is None else columns, **(options | changes))


@pytest.fixture(name="build")
def build_fixture():
    return make


@pytest.fixture
def rich():
    """All column types with nulls, hard floats, hard text, units and draws."""
    units = make(
        {"ward": [2**53 + 1, -(2**62)], "estimate": [1 / 3, np.nan]}, keys=["ward"], level=None, interval="none"
    )
    columns = {
        "group": ["Māori", "日本\n\x00", None, ""],
        "code": np.array([2**53 + 1, -(2**63), 2**63 - 1, 0]),
        "estimate": [0.1 + 0.2, np.nan, -0.0, 5e-324],
        "std_error": [1 / 3, None, 0.0, 1e308],
        "conf_low": [0.1, np.nan, -0.0, -1e308],
        "conf_high": [0.5, np.nan, 0.0, 1e308],
        "flag": [True, None, False, True],
        "sure": [True, False, False, True],
        "name": ["x", None, "ünï", "<b>&'\""],
        "count": [2**60 + 1, None, 0, -1],
        "empty": [None, None, None, None],
    }
    draws = np.random.default_rng(0).normal(size=(3, 4))
    draws[:, 1] = np.nan
    return make(
        columns,
        keys=["group", "code"],
        units=units,
        draws=draws,
        diagnostics={"converged": True, "trace": np.array([1.0, np.nan]), "gap": np.inf, "deep": {"n": np.int64(2)}},
        warnings=["2 places have “few” people"],
        title="Everything",
        frame="polars",
        level=0.9,
        interval="posterior quantile",
    )
