"""Landmarks are seeded, weighted, and for the published rule exactly the published people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from crosslevel.data.bags import Bags
from crosslevel.distribution import landmarks as module
from crosslevel.distribution.landmarks import (
    FeatureSettings,
    candidate_maps,
    choose_landmarks,
    median_scale,
    sample_people,
)
from crosslevel.errors import InputError


def test_the_published_rule_takes_the_first_people_of_one_permutation(world):
    bags, _ = world
    maps = candidate_maps(
        bags, FeatureSettings(n_landmarks=(5, 9), landmarks="paper", bandwidth_scale=1.0, standardize=False)
    )
    expected = np.random.RandomState(1).choice(len(bags.values), 9, replace=False)
    assert [len(m.U) for m in maps] == [5, 9]
    np.testing.assert_array_equal(maps[1].U, bags.values[expected])
    np.testing.assert_array_equal(maps[0].U, bags.values[expected[:5]])


def test_few_landmarks_are_the_first_of_many(world):
    bags, _ = world
    few, many = candidate_maps(bags, FeatureSettings(n_landmarks=(6, 20), landmarks="random", bandwidth_scale=1.0))
    np.testing.assert_array_equal(many.U[:6], few.U)
    assert len(np.unique(many.U, axis=0)) == 20


@pytest.mark.parametrize("rule", ["kmeans", "random"])
def test_the_seed_decides(world, rule):
    bags, _ = world
    one, same, other = (
        candidate_maps(bags, FeatureSettings(n_landmarks=8, landmarks=rule, bandwidth_scale=1.0, random_state=s))[0].U
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_bandwidth_is_the_root_of_half_the_median_squared_distance():
    rows = np.random.default_rng(0).normal(size=(102, 3))  # an odd number of pairs
    expected = np.sqrt(np.median(pdist(rows, "sqeuclidean")) / 2)
    assert median_scale(rows, np.ones(102), 0) == pytest.approx(expected, rel=1e-12)
    maps = candidate_maps(
        Bags(rows, [0, 50, 102]), FeatureSettings(n_landmarks=3, standardize=False, landmarks="random")
    )
    np.testing.assert_allclose([m.bandwidth for m in maps], expected * np.array([0.5, 0.75, 1.0, 1.25, 1.5]))
    assert median_scale(np.ones((4, 2)), np.ones(4), 0) == 1.0


def test_kmeans_and_weights_agree_where_people_are():
    rows = np.repeat([[0.0], [1.0], [10.0]], 50, axis=0) + np.random.default_rng(0).normal(0, 0.01, (150, 1))
    even = np.sort(choose_landmarks("kmeans", rows, np.ones(150), 3, 0).ravel())
    np.testing.assert_allclose(even, [0.0, 1.0, 10.0], atol=0.01)


def test_fewer_different_people_than_landmarks():
    rows = np.repeat([[1.0, 2.0], [3.0, 4.0]], 5, axis=0)
    for rule in ("kmeans", "random"):
        np.testing.assert_array_equal(
            np.unique(choose_landmarks(rule, rows, np.ones(10), 4, 0), axis=0), np.unique(rows, axis=0)
        )
    maps = candidate_maps(Bags(rows, [0, 5, 10]), FeatureSettings(bandwidth_scale=1.0))
    assert len(maps) == 1


def test_a_sample_follows_the_weights_and_never_takes_weight_zero():
    values = np.arange(1000.0)[:, None]
    weights = np.where(values.ravel() < 500, 3.0, 1.0)
    weights[::10] = 0.0
    bags = Bags(values, [0, 400, 1000], weights=weights)
    rows, share = sample_people(bags, 200, np.random.default_rng(0))
    assert np.array_equal(share, np.ones(len(rows)))
    assert not (rows.ravel() % 10 == 0).any()
    assert np.mean(rows < 500) == pytest.approx(0.75, abs=0.02)
    everyone, given = sample_people(bags, 1000, np.random.default_rng(0))
    assert len(everyone) == 900
    assert given.sum() == weights.sum()


def test_columns_are_scaled_by_their_weighted_deviation(world):
    bags, _ = world
    wide = Bags(
        np.column_stack([bags.values * [1.0, 1000.0], np.full(len(bags.values), 7.0)]),
        bags.offsets,
        weights=bags.weights,
    )
    found = candidate_maps(wide, FeatureSettings(n_landmarks=4, bandwidth_scale=1.0))[0].scale
    v = bags.weights / bags.weights.sum()
    sd = np.sqrt(v @ (bags.values - v @ bags.values) ** 2)
    np.testing.assert_allclose(found, [sd[0], 1000.0 * sd[1], 1.0], rtol=1e-10)


def test_given_landmarks_are_in_units_of_the_data(world):
    bags, _ = world
    given = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    maps = candidate_maps(bags, FeatureSettings(landmarks=given, bandwidth_scale=1.0, bandwidth=2.5))
    assert len(maps) == 1
    np.testing.assert_allclose(maps[0].U * maps[0].scale, given)
    assert maps[0].bandwidth == 2.5
    many = np.random.default_rng(0).normal(size=(40, 2))
    assert [len(m.U) for m in candidate_maps(bags, FeatureSettings(landmarks=many, bandwidth_scale=1.0))] == [40]
    two = candidate_maps(bags, FeatureSettings(landmarks=given, n_landmarks=2, bandwidth_scale=1.0))
    np.testing.assert_allclose(two[0].U * two[0].scale, given[:2])


@pytest.mark.parametrize(
    "setting",
    [
        {"n_landmarks": "many"},
        {"n_landmarks": 2.5},
        {"bandwidth": "mean"},
        {"bandwidth": -1.0},
        {"bandwidth_scale": "wide"},
        {"bandwidth_scale": [1.0, 0.0]},
        {"landmarks": "kmean"},
        {"landmarks": np.zeros((2, 5))},
    ],
)
def test_messages(world, setting):
    with pytest.raises(InputError):
        candidate_maps(world[0], FeatureSettings(**setting))


@pytest.mark.parametrize("limit", ["SAMPLE", "SAMPLE_VALUES"])
def test_large_data_are_sampled(monkeypatch, world, limit):
    bags, _ = world
    settings = FeatureSettings(n_landmarks=1000, landmarks="random", bandwidth_scale=1.0)
    assert len(candidate_maps(bags, settings)[0].U) == 1000
    monkeypatch.setattr(module, limit, 200)
    few = candidate_maps(bags, settings)[0]
    assert len(few.U) <= 200
    assert np.isin(np.round(few.U * few.scale, 9), np.round(bags.values, 9)).all()
