"""Are the worlds of the CUDIA study what their descriptions say, and does its table hold the known errors?"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("cudia_simulation")


def test_the_papers_world_has_the_known_errors(study):
    worlds = [study.paper_world(seed) for seed in range(50)]
    assert np.mean([study.mse(w, w.s[w.group]) for w in worlds]) == pytest.approx(0.2367, abs=0.012)
    assert np.mean([study.mse(w, w.best) for w in worlds]) == pytest.approx(0.0866, abs=0.0015)
    assert np.mean([study.mse(w, w.inside) for w in worlds]) == pytest.approx(0.07, abs=0.0015)


def test_published_means_are_those_of_the_people(study):
    for make in study.WORLDS.values():
        world = make(0)
        assert np.bincount(world.group, world.u) / np.bincount(world.group) == pytest.approx(world.s)
        assert study.mse(world, world.best) < study.mse(world, world.s[world.group])


def test_an_interval_that_is_a_point_covers_nothing(study):
    world = study.paper_world(0)

    class Fixed:
        def sample(self, X, group, n_draws):
            return np.zeros((n_draws, len(group), 1))

    class Known(Fixed):
        def sample(self, X, group, n_draws):
            return np.repeat(world.u[None, :, None], n_draws, axis=0)

    assert study.coverage(world, Fixed()) == (0.0, 0.0)
    assert study.coverage(world, Known())[0] == 1.0
