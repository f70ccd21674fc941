from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from crosslevel.charts.style import CYCLE, style


def test_settings_come_back_after_an_error():
    before = dict(mpl.rcParams)
    with pytest.raises(RuntimeError), style("y"):
        assert mpl.rcParams["axes.grid.axis"] == "y"
        raise RuntimeError
    assert dict(mpl.rcParams) == before


def test_colors_differ_for_people_who_see_no_red():
    """Machado et al. (2009), table 1, severity 1: what a protanope sees of each color; no two may coincide."""
    protan = np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    )
    seen = [protan @ np.array(to_rgb(c)) ** 2.2 for c in CYCLE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.1
