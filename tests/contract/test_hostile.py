"""Values that once came through to a library beneath: each is refused with its name."""

from __future__ import annotations

import numpy as np
import pytest

import crosslevel as cl
from crosslevel import ecological, krls
from crosslevel.binned import areas, baselines, privacy
from crosslevel.data.batches import open_batches
from crosslevel.data.readers import read_county_votes
from crosslevel.data.simulate import nation
from crosslevel.diagnostics import conformal_interval
from crosslevel.distribution import BayesianLinear
from crosslevel.errors import InputError
from crosslevel.imputation import evaluate

SQUARES = cl.Polygons([[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(4)])
X, Y = np.arange(20.0)[:, None], np.arange(20.0)
GROUPS = {"a": [10, 40, 70], "b": [90, 60, 30]}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: krls.KRLS(reference="text").fit({"arm": list("ab") * 10}, Y), "reference"),
        (lambda: krls.cost(100, 2, low_rank=float("-inf")), "low_rank"),
        (lambda: krls.cost("many", 2), "n="),
        (lambda: ecological.rxc(GROUPS, GROUPS, symmetric=5e-324), "symmetric"),
        (lambda: ecological.car_test(GROUPS, GROUPS, n_draws=10**30), "n_draws"),
        (lambda: cl.MeanEmbedding(n_features=10**30).fit({"p": [1, 2], "x": [1.0, 2.0]}, by="p"), "n_features"),
        (lambda: nation(10**30, 5), "n_regions"),
        (lambda: BayesianLinear(bandwidth=5e-324).fit(list(X[:, None]), Y), "bandwidth"),
        (lambda: areas.area_correlations("a map"), "regions"),
        (lambda: areas.area_correlations(SQUARES, ["eq"], tolerance=1e308), "tolerance"),
        (lambda: areas.area_correlations(SQUARES, ["eq"], nodes=None), "nodes"),
        (lambda: areas.shared_estimates("a map", [1.0], SQUARES, [1.0] * 4), "large"),
        (lambda: areas.share_out(SQUARES, [4.0], [9.0] * 4, [0] * 4, correlations=[1.0]), "correlations"),
        (lambda: areas.share_out(SQUARES, [4.0], [9.0] * 4, [0] * 4, n_draws=5e-324), "n_draws"),
        (lambda: privacy.privacy_warnings([1], [2.0]), "regions"),
        (lambda: privacy.privacy_warnings(SQUARES, [2.0]), "y has 1"),
        (lambda: baselines.composite_link(np.eye(3), np.ones(3), order=float("-inf")), "order"),
        (lambda: baselines.composite_link({}, np.ones(3)), "C "),
        (lambda: conformal_interval("scale", [1.0], [1.0]), "scale"),
        (lambda: open_batches({"x": [1]}, column_types=3).to_table(), "column_types"),
        (lambda: read_county_votes("votes.csv", recode=7), "recode"),
        (lambda: evaluate({"x": Y % 3}, ["a", "b"] * 10, Y % 2, methods=1j), "methods"),
    ],
)
def test_a_hostile_value_is_refused_by_name(call, name):
    with pytest.raises(InputError, match=name):
        call()
