"""Do simulated surveys answer as they should, and are they scored as intervals are?"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special


@pytest.fixture
def study(experiment):
    return experiment("survey")


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
