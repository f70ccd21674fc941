"""Do intervals hold in worlds drawn from what they say they allow for?"""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def worlds(experiment):
    return experiment("worlds")


@pytest.mark.parametrize("kind", ["stated", "plain"])
def test_what_groups_did_adds_up_to_the_totals(worlds, kind):
    rng = np.random.default_rng(0)
    world = worlds.make(kind, 12, 50, rng)
    assert world.people.num_rows == 12 * 50
    np.testing.assert_allclose(world.places["yes"].to_numpy() / worlds.POPULATION, world.total)
    for column, name in enumerate(worlds.SIZES):
        rates = worlds.rates(world, kind, column, dict.fromkeys(worlds.SIZES, 0.45), rng)
        levels = worlds.CODES[:, column, None] == np.arange(worlds.SIZES[name])
        share = (world.count @ levels).sum(axis=0) / world.count.sum()
        assert share @ rates == pytest.approx(world.total.mean(), abs=1e-8)


def test_intervals_hold_in_a_few_worlds_of_the_stated_kind(worlds):
    assert worlds.study("stated", 40, 400, range(8))["coverage"] >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [400, 2_600])
def test_intervals_hold_in_worlds_of_the_stated_kind(worlds, sampled):
    """A hundred and twenty worlds measure it to .005, the standard error of worlds."""
    found = worlds.study("stated", 40, sampled, range(120))
    print(found)
    assert 0.93 <= found["coverage"] <= 0.97


@pytest.mark.slow
def test_intervals_nearly_hold_where_effects_are_larger_and_people_s_own(worlds):
    """A stress test: shrinking is wrong there, and effects vary twice as much as intervals allow for."""
    found = worlds.study("plain", 40, 400, range(40))
    print(found)
    assert 0.90 <= found["coverage"] <= 0.97
