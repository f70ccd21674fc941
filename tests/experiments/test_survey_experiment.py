"""Do simulated surveys answer as they should, and are they scored as intervals are?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("survey")


@pytest.fixture
def asked(study):
    """Two places, two kinds of people, of whom half have the label; the first kind has no degree."""
    levels = np.array([[0, 0], [1, 0]])
    kinds = SimpleNamespace(sizes=(2, 1))
    place, kind, has = (v.ravel() for v in np.meshgrid([0, 1], [0, 1], [True, False], indexing="ij"))
    half = SimpleNamespace(total=np.full(2, 0.5))
    return study.Asked(half, levels, kinds, place, kind, has, np.ones(8), kind == 0, np.zeros(2, dtype=int))


@pytest.mark.parametrize(
    ("how", "expected"), [("a", (0.5, 0.5)), ("b1", (special.expit(0.3),) * 2), ("b2", (special.expit(0.3), 0.5))]
)
def test_respondents_answer_as_they_should(study, asked, how, expected):
    found = study.draw(asked, how, 400_000, np.random.default_rng(0))
    assert found.trials.sum() == 400_000
    for kind in (0, 1):
        mine = found.levels[:, 0] == kind
        assert found.successes[0, mine].sum() / found.trials[0, mine].sum() == pytest.approx(expected[kind], abs=0.005)


def test_levels_answer_as_they_like(study, asked):
    shares = [study.draw(asked, "b3", 400_000, np.random.default_rng(seed)) for seed in range(3)]
    found = [s.successes.sum() / s.trials.sum() for s in shares]
    assert len({round(f, 3) for f in found}) == 3
    assert np.mean(found) == pytest.approx(special.expit(0.2), abs=0.06)


def test_intervals_are_scored(study):
    logit, sd = special.logit(np.array([0.5, 0.2])), np.array([0.1, 0.1])
    groups = (logit, sd, np.array([0.5, 0.6]), np.zeros((2, 3)))
    apart = study.contrasts((*groups[:3], np.eye(2, 3)), np.diag([0.01, 0.01, 0.0]))
    assert apart[0] == pytest.approx(0.3)
    assert apart[1] == pytest.approx(0.1 * np.hypot(0.25, 0.16))
    assert apart[2] == pytest.approx(-0.1)
    places = (np.array([0.1, -0.3]), np.array([3.0, 1.0]))
    found = study.scored({"nation": groups, "crossings": groups, "contrasts": apart, "places": places})
    assert found["contrast_cover"] == 0.0
    assert found["error"] == pytest.approx(20.0)
    assert found["cover"] == 0.5
    assert found["place_rmse"] == pytest.approx(100 * np.sqrt((3 * 0.01 + 0.09) / 4))
    assert found["score"] > found["width"] + 20 * 30
