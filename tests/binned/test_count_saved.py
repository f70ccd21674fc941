"""A saved model of counts answers as it did."""

from __future__ import annotations

import json

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.binned import BinnedGP, Boxes, Intervals

AGES = Intervals.from_edges([0, 10, 20, 30, 40, 50])
Y = np.array([30.0, 50, 60, 40, 10])
SEX = Boxes([[0, 1], [10, 1], [0, 2], [10, 2]], [[10, 1], [30, 1], [10, 2], [30, 2]], point_axes=[1])


def fit(regions=AGES, y=Y, likelihood="poisson", **extras):
    return BinnedGP(likelihood=likelihood, random_state=3).fit(regions, y, kind="total", **extras)


@pytest.mark.parametrize(
    "model",
    [
        lambda: fit(),
        lambda: fit(likelihood="negative_binomial"),
        lambda: fit(likelihood="binomial", trials=2 * Y),
        lambda: fit(exposure=10 * Y),
        lambda: fit(SEX, [10.0, 20, 15, 30]),
        lambda: fit(
            Intervals([0, 10, 20] * 2, [10, 20, 30] * 2), [9.0, 5, 3, 4, 9, 2], pool={"ward": ["a"] * 3 + ["b"] * 3}
        ),
        lambda: fit(Intervals([0, 10, 20], [10, 20, np.inf], open_ended=True), [9.0, 5, 3], tail=5.0),
    ],
)
def test_the_same_answers(model):
    gp = model()
    meta, arrays = gp.to_payload()
    again = BinnedGP.from_payload(json.loads(json.dumps(meta)), arrays)
    assert again.estimates().equals(gp.estimates())
    assert again.path_ == gp.path_
    assert again.areas_ == gp.areas_
    assert again.hyperparameters_ == gp.hyperparameters_
    if gp._counts.rates is not None:
        assert again.estimates(kind="rate").equals(gp.estimates(kind="rate"))


def test_files(tmp_path):
    gp = fit(Intervals([0, 10, 20] * 2, [10, 20, 30] * 2), [9.0, 5, 3, 4, 9, 2], pool=[1, 1, 1, 2, 2, 2])
    cl.save(gp, tmp_path / "model.crosslevel")
    assert cl.load(tmp_path / "model.crosslevel").estimates(pool=2).equals(gp.estimates(pool=2))
