"""Means, sizes and covariances of bags against plain loops, whatever the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.data.bags import Bags
from crosslevel.distribution import features as module
from crosslevel.distribution.features import LandmarkMap, pool, root_inverse, squared_distances


def maps_of(bags, d=7):
    rng = np.random.default_rng(3)
    U = rng.normal(size=(d, bags.shape[1]))
    scale = np.array([1.0, 2.0])[: bags.shape[1]]
    return [LandmarkMap(U, 1.3, scale), LandmarkMap(U, 0.6, scale), LandmarkMap(U[:4], 1.3, scale)]


def by_hand(bags: Bags, fmap: LandmarkMap):
    """Loop over bags: means, Kish sizes, pooled covariance, mean squared lengths."""
    A = root_inverse(fmap.K)
    mu, sizes, total, free, norms = [], [], 0.0, 0.0, []
    for bag in bags:
        x = bag.values / fmap.scale
        phi = np.exp(-((x[:, None, :] - fmap.U[None]) ** 2).sum(-1) / (2 * fmap.bandwidth**2))
        v = bag.weights / bag.weights.sum()
        m = v @ phi
        N = 1.0 / (v**2).sum()
        mu.append(m)
        sizes.append(N)
        total = total + N * ((phi - m).T * v) @ (phi - m)
        free += N - 1.0
        norms.append(v @ ((phi @ A) ** 2).sum(1))
    return np.array(mu), np.array(sizes), total / free, np.array(norms)


@pytest.mark.parametrize("block", [1, 300, 2**18])
def test_pooling_equals_a_loop_whatever_the_blocks(world, monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "FEWEST_ROWS", 3)
    bags, _ = world
    maps = maps_of(bags)
    for fmap, got in zip(maps, pool(bags, maps, within=True, norms=True), strict=True):
        mu, sizes, within, norms = by_hand(bags, fmap)
        np.testing.assert_allclose(got.mu, mu, atol=1e-13)
        np.testing.assert_allclose(got.sizes, sizes, rtol=1e-12)
        np.testing.assert_allclose(got.within, within, atol=1e-13)
        np.testing.assert_allclose(got.norms, norms, atol=1e-9)
        np.testing.assert_allclose(got.m0, mu.mean(axis=0), atol=1e-13)
        assert got.map is fmap
        assert got.d == len(fmap.U)


def test_unweighted_covariance_of_equal_bags_is_the_mean_of_sample_covariances():
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(60, 2)), np.arange(0, 61, 6))
    fmap = maps_of(bags)[0]
    each = [np.cov(fmap.transform(b.values), rowvar=False) for b in bags]
    np.testing.assert_allclose(pool(bags, [fmap], within=True)[0].within, np.mean(each, axis=0), atol=1e-14)


def test_weights_scale_out_and_a_weight_of_two_is_two_people_in_the_mean(world):
    bags, _ = world
    fmap = maps_of(bags)[0]
    base = pool(bags, [fmap], within=True)[0]
    tripled = Bags(bags.values, bags.offsets, weights=3.0 * bags.weights)
    again = pool(tripled, [fmap], within=True)[0]
    np.testing.assert_allclose(again.mu, base.mu, atol=1e-13)
    np.testing.assert_allclose(again.sizes, base.sizes, rtol=1e-12)
    np.testing.assert_allclose(again.within, base.within, atol=1e-13)
    times = np.random.default_rng(0).integers(1, 4, len(bags.values))
    counted = Bags(bags.values, bags.offsets, weights=times.astype(float))
    repeated = Bags(
        np.repeat(bags.values, times, axis=0), np.append(0, np.cumsum(np.add.reduceat(times, bags.offsets[:-1])))
    )
    one, two = (pool(b, [fmap])[0] for b in (counted, repeated))
    np.testing.assert_allclose(one.mu, two.mu, atol=1e-13)
    assert (one.sizes <= two.sizes + 1e-9).all()
    assert (one.sizes < 0.99 * two.sizes).any()


def test_bags_of_one_have_no_covariance_within():
    bags = Bags(np.arange(6.0).reshape(3, 2), np.arange(4))
    found = pool(bags, maps_of(bags)[:1], within=True)[0]
    assert np.array_equal(found.within, np.zeros((7, 7)))
    np.testing.assert_allclose(found.sizes, 1.0)


def test_stored_float32_people_equal_those_in_memory(world, tmp_path):
    bags, _ = world
    path = tmp_path / "people.npy"
    np.save(path, bags.values.astype(np.float32))
    stored = Bags(np.load(path, mmap_mode="r"), bags.offsets, weights=bags.weights, keys=bags.keys)
    rounded = Bags(bags.values.astype(np.float32), bags.offsets, weights=bags.weights)
    maps = maps_of(bags)
    for one, two in zip(pool(stored, maps, within=True), pool(rounded, maps, within=True), strict=True):
        np.testing.assert_allclose(one.mu, two.mu, atol=1e-14)
        np.testing.assert_allclose(one.within, two.within, atol=1e-14)
    chosen = [5, 2, 11]
    some = pool(stored[chosen][[2, 0]], maps)[0]
    np.testing.assert_allclose(some.mu, pool(rounded, maps)[0].mu[[11, 5]], atol=1e-14)
    np.testing.assert_allclose(stored.effective_sizes, bags.effective_sizes)


def test_distances_far_from_the_origin_keep_their_digits():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(5, 3)) + 1e6, rng.normal(size=(4, 3)) + 1e6
    np.testing.assert_allclose(squared_distances(X, U), ((X[:, None] - U[None]) ** 2).sum(-1), rtol=1e-8)


def test_root_inverse_whitens_and_drops_directions_that_are_none():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(6, 3))
    K = B @ B.T
    A = root_inverse(K)
    assert A.shape == (6, 3)
    np.testing.assert_allclose(A.T @ K @ A, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(A @ A.T, np.linalg.pinv(K), atol=1e-8)
