"""One region: the formulas of the votes, the sampling and the counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.data.simulate.map import Plan, Settings, plan_nation
from crosslevel.data.simulate.population import _systematic, draw_region


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_nation(Settings(6, 2000, 2, 0.1, None, 1.0, 0.35, 0))


def test_systematic_sampling_keeps_its_probabilities():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.02, 0.9, 40)
    hits = np.zeros(40)
    for _ in range(4000):
        hits[_systematic(chance, rng)] += 1
    error = np.sqrt(chance * (1 - chance) / 4000)
    assert (np.abs(hits / 4000 - chance) < 4.5 * error).all()


def test_a_region_does_not_depend_on_the_others(plan):
    counts, people = draw_region(plan, 4)
    for i in (0, 5, 1):
        draw_region(plan, i)
    again, same = draw_region(plan, 4)
    assert (counts == again).all()
    assert (people["weight"] == same["weight"]).all()


def test_every_region_has_a_stream_of_its_own(plan):
    def first(values: np.ndarray) -> np.ndarray:
        return np.repeat(values[:1], 6, axis=0)

    names = ("population", "race", "youth", "school", "urban", "wealth", "place")
    twins = replace(plan, **{name: first(getattr(plan, name)) for name in names})
    one, other = (draw_region(twins, i)[0][0] for i in (0, 1))
    assert (one != other).any()
    assert one.sum() == other.sum()
