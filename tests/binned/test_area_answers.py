"""Counts of large squares shared out to small ones: totals kept, the baseline beside, areas outside refused."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import Polygons
from crosslevel.binned.areas import shared_estimates


def squares(n, width, names):
    shapes = [[[i * width, 0], [(i + 1) * width, 0], [(i + 1) * width, 1], [i * width, 1]] for i in range(n)]
    return Polygons(shapes, names=[f"{names}{i}" for i in range(n)])


def test_totals_are_kept_and_the_nested_rate_stands_beside():
    people = np.array([100.0, 300, 100, 100, 50, 150])
    found = shared_estimates(squares(3, 2, "L"), [40, 30, 20], squares(6, 1, "s"), people, nodes=3, n_draws=400)
    np.testing.assert_allclose(found["estimate"].reshape(3, 2).sum(axis=1), [40, 30, 20], rtol=1e-9)
    np.testing.assert_allclose(found["nested_rate"], [10, 30, 15, 15, 5, 15])
    assert (found["conf_low"] <= found["estimate"]).all()
    assert (found["conf_high"] >= found["estimate"]).all()
    assert (found["conf_high"] <= people).all()
    assert sum(found.diagnostics["candidates"].values()) == pytest.approx(1.0)
    assert 0 < found.diagnostics["monte_carlo_share"] < 400**-0.5
