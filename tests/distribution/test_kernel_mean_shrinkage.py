"""Shrunken embeddings against leaving people out one by one, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from crosslevel.data.bags import Bags
from crosslevel.distribution.features import BagFeatures, LandmarkMap, pool
from crosslevel.distribution.linear.estimator import FrequentistShrinkage
from crosslevel.distribution.linear.kernel_mean_shrinkage import (
    FILTERS,
    STRENGTHS,
    Shrinker,
    learn_shrinker,
    shrink,
    simple_amount,
    spectral,
)
from crosslevel.errors import InputError


def left_out(x, transform):
    """Mean squared distance of each person from the transformed mean of the others."""
    n = len(x)
    return np.mean([np.square(transform(np.delete(x, i, axis=0).mean(axis=0)) - x[i]).sum() for i in range(n)])


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_simple_amount_minimises_leaving_one_out(n):
    x = np.random.default_rng(n).normal(size=(n, 4)) + 0.8
    rho, varrho = np.square(x.mean(axis=0)).sum(), np.square(x).sum(axis=1).mean()
    amount = simple_amount(np.array([rho]), np.array([varrho]), np.array([float(n)]), 0.0)[0]
    best = minimize_scalar(
        lambda a: left_out(x, lambda m: (1 - a) * m), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
    )
    assert amount == pytest.approx(best.x, abs=1e-6)


def features_of(seed=0, n=40, sizes=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 30, n) if sizes is None else sizes
    y = rng.uniform(0.5, 2.0, len(sizes))
    values = rng.normal(size=(sizes.sum(), 2)) * np.repeat(y, sizes)[:, None]
    bags = Bags(values, np.append(0, np.cumsum(sizes)))
    fmap = LandmarkMap(rng.normal(size=(8, 2)), 1.0, np.ones(2))
    return bags, fmap, pool(bags, [fmap], within=True, norms=True)[0], y


@pytest.mark.parametrize("target", ["zero", "mean"])
def test_simple_shrinkage_of_bags_is_that_of_their_people(target):
    bags, fmap, features, _ = features_of()
    how = learn_shrinker(features, "simple", target)
    center = (features.mu @ features.whiten).mean(axis=0) if target == "mean" else 0.0
    got = shrink(features, how)
    for i in (0, 7, 20):
        x = fmap.transform(bags[i].values) @ features.whiten - center
        best = minimize_scalar(
            lambda a, x=x: left_out(x, lambda m: (1 - a) * m), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
        )
        np.testing.assert_allclose(got.mu[i], center + (1 - best.x) * x.mean(axis=0), atol=1e-5)
    np.testing.assert_array_equal(got.K, np.eye(got.d))


def test_the_strength_of_a_filter_minimises_leaving_one_out():
    bags, fmap, features, _ = features_of(sizes=np.array([9]))
    x = fmap.transform(bags[0].values) @ features.whiten
    how = learn_shrinker(features, "tikhonov", "zero")
    tried = STRENGTHS * how.gamma[-1]
    scores = []
    for strength in tried:
        h = spectral(how.gamma, np.array([strength / 9.0]), "tikhonov")[0]
        scores.append(left_out(x, lambda m, h=h: (m @ how.V * h) @ how.V.T))
    assert how.strength == pytest.approx(tried[int(np.argmin(scores))])
    assert 1e-6 < how.strength / how.gamma[-1] < 1e3
    second = x.T @ x / len(x)
    np.testing.assert_allclose((how.V * how.gamma) @ how.V.T, second, atol=1e-8)


def test_filters_are_open_for_large_and_closed_for_small_eigenvalues():
    gamma = np.array([1e-6, 1.0])
    for method in FILTERS[1:]:
        h = spectral(gamma, np.array([1e-3]), method)[0]
        assert h[0] < 0.01
        assert h[1] > 0.99
    assert spectral(np.array([0.5, 1.0]), np.array([0.5]), "landweber")[0, 0] == pytest.approx(0.5)
    assert spectral(np.array([1.0]), np.array([1.0]), "iterated")[0, 0] == pytest.approx(0.75)
    assert spectral(np.array([1.0]), np.array([1.0]), "tikhonov")[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("method", FILTERS)
@pytest.mark.parametrize("target", ["zero", "mean"])
def test_shrinking_brings_small_bags_nearer_to_the_truth(method, target):
    rng = np.random.default_rng(1)
    sds = rng.uniform(0.5, 2.0, 60)
    fmap = LandmarkMap(rng.normal(size=(10, 2)), 1.0, np.ones(2))
    small = Bags.from_list([rng.normal(0, s, (6, 2)) for s in sds])
    large = Bags.from_list([rng.normal(0, s, (20_000, 2)) for s in sds])
    features, truth = pool(small, [fmap], within=True, norms=True)[0], pool(large, [fmap])[0]
    goal = truth.mu @ features.whiten
    plain = np.square(features.mu @ features.whiten - goal).sum(axis=1).mean()
    shrunk = np.square(shrink(features, learn_shrinker(features, method, target)).mu - goal).sum(axis=1).mean()
    assert shrunk < (0.8 if target == "mean" else 1.0) * plain


def test_a_bag_of_one_is_shrunk_by_what_others_vary_and_the_crowd_hardly():
    _, _, features, _ = features_of(sizes=np.array([1, 5, 20, 40_000]))
    how = learn_shrinker(features, "simple", "mean")
    psi = features.mu @ features.whiten
    kept = np.linalg.norm(shrink(features, how).mu - how.target, axis=1) / np.linalg.norm(psi - how.target, axis=1)
    assert kept[0] < 0.5
    assert kept[3] > 0.99
    assert (kept <= 1.0 + 1e-12).all()
    alone = Bags(np.arange(6.0).reshape(3, 2), np.arange(4))
    single = pool(alone, [LandmarkMap(np.eye(2), 1.0, np.ones(2))], within=True, norms=True)[0]
    for method in FILTERS:
        np.testing.assert_allclose(
            shrink(single, learn_shrinker(single, method)).mu, single.mu @ single.whiten, atol=1e-9
        )


def test_the_estimator_shrinks_new_bags_as_it_did_the_old():
    bags, _, _, y = features_of(n=60)
    for method in ("simple", "landweber"):
        model = FrequentistShrinkage(n_landmarks=10, filter=method, bandwidth_scale=1.0).fit(bags, y)
        np.testing.assert_allclose(model.predict(bags[[5, 9]]), model.predict(bags)[[5, 9]], rtol=1e-10)
        assert model.diagnostics_["filter"] == method


def test_messages():
    _, _, features, _ = features_of()
    with pytest.raises(InputError, match="filter="):
        learn_shrinker(features, "tikonov")
    with pytest.raises(InputError, match="target="):
        learn_shrinker(features, "simple", "median")
    bare = BagFeatures(features.mu, features.sizes, features.K, None, features.m0)
    with pytest.raises(ValueError):
        learn_shrinker(bare)
    with pytest.raises(ValueError):
        shrink(bare, learn_shrinker(features, "simple"))
    assert isinstance(learn_shrinker(features), Shrinker)
