"""Are the known tables read rightly, and does the flagship keep its error and coverage on a few of them?"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def data(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("ecological_data")


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("ecological_truth")


def test_small_options_are_merged(data):
    names, matrix = data._merge(["A", "B", "Informal Votes", "C", "A"], np.array([50.0, 2.0, 4.0, 30.0, 14.0]))
    assert names == ("A", "C", "other")
    assert (np.array([50, 2, 4, 30, 14]) @ matrix).tolist() == [64, 30, 6]
    assert data._label("ARDERN, Jacinda (Labour Party)") == "Labour Party"


@pytest.mark.data
def test_known_tables_agree_with_their_margins(real_data, data):
    for known in data.small_tables(real_data / "truth"):
        np.testing.assert_allclose(known.truth.sum(axis=1), known.X.sum(axis=0), rtol=1e-6)
        np.testing.assert_allclose(known.truth.sum(axis=0), known.T.sum(axis=0), rtol=0.03)
    districts = data.new_zealand(real_data / "truth", 2014)
    assert len(districts) == 71
    for known in districts[:10]:
        np.testing.assert_allclose(known.truth.sum(axis=1), known.X.sum(axis=0), rtol=0.02)


@pytest.mark.data
def test_ten_electorates_alone_and_pooled(real_data, data, study):
    districts = data.new_zealand(real_data / "truth", 2008)[::7]
    alone = [study.timed(k, study.ecological.rxc) for k in districts]
    assert np.mean([s.wrong for s in alone]) < 7.5
    covered = np.concatenate([s.covered for s in alone])
    assert 0.9 < covered.mean() < 0.99
    together = study.pooled(districts, symmetric=True)
    assert np.mean([s.wrong for s in together]) < 5.6
    clipped = [study.timed(k, study.clipped).wrong for k in districts]
    assert np.mean([s.wrong for s in alone]) < 0.7 * np.mean(clipped)
