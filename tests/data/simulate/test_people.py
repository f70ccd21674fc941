"""One region: the formulas of the votes, the sampling and the counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.data.simulate.nation import check_settings
from crosslevel.data.simulate.people import AGE_EFFECT, AGES, _ages, _spread, _systematic, draw_region
from crosslevel.data.simulate.places import Plan, plan_nation


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_nation(check_settings(6, 2000, 2, 0.1, None, 1.0, 0.35, 0.15, 0))


def test_chances_have_the_asked_mean_and_stay_below_one():
    relative = np.random.default_rng(0).uniform(0.8, 1.5, 1000)
    for rate in (0.01, 0.3, 0.9, 1.0):
        chance = _spread(rate, relative)
        assert chance.mean() == pytest.approx(rate)
        assert chance.max() <= 1.0
        assert chance.min() > 0.0


def test_systematic_sampling_keeps_its_probabilities():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.02, 0.9, 40)
    hits = np.zeros(40)
    for _ in range(4000):
        hits[_systematic(chance, rng)] += 1
    error = np.sqrt(chance * (1 - chance) / 4000)
    assert (np.abs(hits / 4000 - chance) < 4.5 * error).all()


def test_age_acts_non_monotonely_and_differs_by_sex():
    for effect in AGE_EFFECT:
        lowest = AGES[effect.argmin()]
        assert 40 < lowest < 60
        assert effect[0] > effect.min() + 0.5
        assert effect[50] > effect.min() + 0.5
    assert AGE_EFFECT[1, 0] - AGE_EFFECT[0, 0] == pytest.approx(0.7)


def test_a_place_effect_moves_every_cell(plan):
    before = draw_region(plan, 0)
    pushed = draw_region(replace(plan, place=plan.place + 1.0), 0)
    assert (pushed.population == before.population).all()  # the same people ...
    assert (pushed.successes >= before.successes).all()  # ... vote dem more often
    assert pushed.successes.sum() > before.successes.sum() * 1.1


def test_context_pulls_the_majority_most(plan):
    base = replace(plan, minority=np.full(6, 0.35), school=np.zeros(6))
    pulled = replace(base, minority=np.full(6, 0.85))
    before, after = draw_region(base, 1), draw_region(pulled, 1)
    rates = [d.successes.sum(axis=(0, 2, 3, 4)) / d.population.sum(axis=(0, 2, 3, 4)) for d in (before, after)]
    drop = np.log(rates[0] / (1 - rates[0])) - np.log(rates[1] / (1 - rates[1]))
    # Log odds of averages move a little less than 1.2 * 0.5 and 0.5 * 0.5.
    assert 0.45 < drop[0] < 0.6
    assert 0.12 < drop[1:3].mean() < 0.3


def test_a_region_does_not_depend_on_the_others(plan):
    alone = draw_region(plan, 4)
    for i in (0, 5, 1):
        draw_region(plan, i)
    again = draw_region(plan, 4)
    assert (alone.weight == again.weight).all()
    assert (alone.successes == again.successes).all()


def test_every_region_has_a_stream_of_its_own(plan):
    def first(values: np.ndarray) -> np.ndarray:
        return np.repeat(values[:1], 6, axis=0)

    names = ("population", "race", "minority", "youth", "school", "urban", "wealth", "place")
    twins = replace(plan, **{name: first(getattr(plan, name)) for name in names})
    one, other = draw_region(twins, 0), draw_region(twins, 1)
    assert (one.population != other.population).any()
    assert one.population.sum() == other.population.sum()


def test_the_oldest_are_89_even_where_single_precision_rounds_up():
    class Edge:
        def random(self, shape: tuple[int, int], dtype: type) -> np.ndarray:
            return np.full(shape, 1 - 2.0**-24, dtype)

    tilt, race = np.array([0.5, 1.0, 1.25, 2.0]), np.arange(4, dtype=np.int16)
    assert _ages(Edge(), tilt, 0.3, race).tolist() == [71] * 4
    assert _ages(Edge(), tilt, 1.0, race).tolist() == [46] * 4  # the middle of life ends at 64
