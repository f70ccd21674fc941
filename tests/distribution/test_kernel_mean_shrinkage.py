"""Shrunken embeddings against leaving people out one by one, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from crosslevel.data.bags import Bags
from crosslevel.distribution.features import LandmarkMap, pool
from crosslevel.distribution.linear.estimator import FrequentistShrinkage
from crosslevel.distribution.linear.kernel_mean_shrinkage import FILTERS, STRENGTHS, learn_shrinker, shrink, tikhonov


def left_out(x, transform):
    """Mean squared distance of each person from the transformed mean of the others."""
    n = len(x)
    return np.mean([np.square(transform(np.delete(x, i, axis=0).mean(axis=0)) - x[i]).sum() for i in range(n)])


def features_of(seed=0, n=40, sizes=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 30, n) if sizes is None else sizes
    y = rng.uniform(0.5, 2.0, len(sizes))
    values = rng.normal(size=(sizes.sum(), 2)) * np.repeat(y, sizes)[:, None]
    bags = Bags(values, np.append(0, np.cumsum(sizes)))
    fmap = LandmarkMap(rng.normal(size=(8, 2)), 1.0, np.ones(2))
    return bags, fmap, pool(bags, [fmap], within=True, norms=True)[0], y


def test_simple_shrinkage_of_bags_minimizes_leaving_one_out():
    bags, fmap, features, _ = features_of()
    got = shrink(features, learn_shrinker(features, "simple"))
    for i in (0, 7, 20):
        x = fmap.transform(bags[i].values) @ features.whiten
        best = minimize_scalar(
            lambda a, x=x: left_out(x, lambda m: (1 - a) * m), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
        )
        np.testing.assert_allclose(got.mu[i], (1 - best.x) * x.mean(axis=0), atol=1e-5)
    np.testing.assert_array_equal(got.K, np.eye(got.d))


def test_the_strength_of_the_filter_minimizes_leaving_one_out():
    bags, fmap, features, _ = features_of(sizes=np.array([9]))
    x = fmap.transform(bags[0].values) @ features.whiten
    how = learn_shrinker(features, "tikhonov")
    tried = STRENGTHS * how.gamma[-1]
    scores = []
    for strength in tried:
        h = tikhonov(how.gamma, np.array([strength / 9.0]))[0]
        scores.append(left_out(x, lambda m, h=h: (m @ how.V * h) @ how.V.T))
    assert how.strength == pytest.approx(tried[int(np.argmin(scores))])
    assert 1e-6 < how.strength / how.gamma[-1] < 1e3
    second = x.T @ x / len(x)
    np.testing.assert_allclose((how.V * how.gamma) @ how.V.T, second, atol=1e-8)


@pytest.mark.parametrize("method", FILTERS)
def test_shrinking_brings_small_bags_nearer_to_the_truth(method):
    rng = np.random.default_rng(1)
    sds = rng.uniform(0.5, 2.0, 60)
    fmap = LandmarkMap(rng.normal(size=(10, 2)), 1.0, np.ones(2))
    small = Bags.from_list([rng.normal(0, s, (6, 2)) for s in sds])
    large = Bags.from_list([rng.normal(0, s, (20_000, 2)) for s in sds])
    features, truth = pool(small, [fmap], within=True, norms=True)[0], pool(large, [fmap])[0]
    goal = truth.mu @ features.whiten
    plain = np.square(features.mu @ features.whiten - goal).sum(axis=1).mean()
    assert np.square(shrink(features, learn_shrinker(features, method)).mu - goal).sum(axis=1).mean() < plain


def test_the_crowd_is_hardly_shrunk_and_bags_of_one_alone_not_at_all():
    _, _, features, _ = features_of(sizes=np.array([1, 5, 20, 40_000]))
    psi = features.mu @ features.whiten
    shrunk = shrink(features, learn_shrinker(features, "simple")).mu
    kept = np.linalg.norm(shrunk, axis=1) / np.linalg.norm(psi, axis=1)
    assert kept[3] > 0.99
    assert kept[0] < kept[3]
    assert (kept <= 1.0 + 1e-12).all()
    alone = Bags(np.arange(6.0).reshape(3, 2), np.arange(4))
    single = pool(alone, [LandmarkMap(np.eye(2), 1.0, np.ones(2))], within=True, norms=True)[0]
    for method in FILTERS:
        whole = shrink(single, learn_shrinker(single, method)).mu
        np.testing.assert_allclose(whole, single.mu @ single.whiten, atol=1e-9)


def test_the_estimator_shrinks_new_bags_as_it_did_the_old():
    bags, _, _, y = features_of(n=60)
    for method in FILTERS:
        model = FrequentistShrinkage(n_landmarks=10, filter=method, bandwidth_scale=1.0).fit(bags, y)
        np.testing.assert_allclose(model.predict(bags[[5, 9]]), model.predict(bags)[[5, 9]], rtol=1e-10)
        assert model.diagnostics_["filter"] == method
