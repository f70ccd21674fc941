"""Are the baselines what their names say?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.baselines import area_weighting, uniform_spread

C = np.kron(np.eye(6), np.ones(5))


def test_uniform_and_area_weights_keep_mass():
    totals = np.array([40.0, 90, 60, 50, 20, 30])
    assert (C @ uniform_spread(C, totals) == totals).all()
    assert np.ptp(uniform_spread(C, totals)[:5]) == 0
    assert area_weighting(C.T, C.sum(axis=1), totals).sum() == pytest.approx(totals.sum())
