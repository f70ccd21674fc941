"""Composition: shares with their sampling error by clusters, smoothed and raked, against plain formulas."""

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.data.place_cells import Clusters, Pairs
from crosslevel.ecological.persons import composition
from crosslevel.ecological.persons.composition import SampledShares, measure_shares, rake, smooth_shares
from crosslevel.ecological.persons.model import raked
from crosslevel.errors import InputError

COLUMNS = ((0, 2), (2, 5))


def sample(q=12, people=60, seed=0, household=2):
    """Draw people of two columns; the people of a household are alike in the second."""
    rng = np.random.default_rng(seed)
    n = q * people
    place = np.repeat(np.arange(q), people)
    cluster = np.arange(n) // household
    sex = rng.integers(0, 2, n)
    odds = rng.dirichlet([2, 3, 4], q)
    race = np.array([rng.choice(3, p=odds[i]) for i in place])[cluster * household]
    weight = rng.uniform(0.5, 2.0, n)
    cell = sex * 3 + race
    levels = np.array([[s, 2 + r] for s in range(2) for r in range(3)], dtype=np.int32)
    total = np.bincount(place, weight)
    both, inverse = np.unique(place * 6 + cell, return_inverse=True)
    start = np.searchsorted(both // 6, np.arange(q + 1)).astype(np.int64)
    pairs = Pairs(start, (both % 6).astype(np.int32), np.bincount(inverse, weight) / total[both // 6])
    clusters = Clusters(place, cell.astype(np.int32), cluster, weight)
    squares = np.bincount(place, weight**2)
    return levels, pairs, total, clusters, squares


def dense(levels, clusters, total, shares):
    """Sum m / (m - 1) d_ic d_ic' over the m clusters, place by place."""
    p, out = shares.shape[1], []
    x = np.zeros((len(clusters.cell), p))
    for column in range(levels.shape[1]):
        x[np.arange(len(x)), levels[clusters.cell, column]] = 1.0
    for i in range(len(total)):
        S, own = np.zeros((p, p)), np.unique(clusters.cluster[clusters.place == i])
        for c in own:
            mine = clusters.cluster == c
            d = clusters.weight[mine] @ (x[mine] - shares[i]) / total[i]
            S += np.outer(d, d) * len(own) / (len(own) - 1)
        out.append(S)
    return np.array(out)


def test_shares_and_covariance_are_those_of_the_formula(monkeypatch):
    monkeypatch.setattr(composition, "BLOCK", 97)  # cuts between and inside households
    levels, pairs, total, clusters, squares = sample()
    found = measure_shares(levels, pairs, total, clusters, COLUMNS, squares)
    np.testing.assert_allclose(found.shares[:, :2].sum(axis=1), 1.0)
    first = pairs.weight[: pairs.start[1]] @ (levels[pairs.cell[: pairs.start[1]], 1] == 3)
    assert found.shares[0, 3] == pytest.approx(first)
    np.testing.assert_allclose(found.covariance, dense(levels, clusters, total, found.shares).mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(found.size, total**2 / squares)


@pytest.mark.parametrize("people", [2, 3, 10])
def test_the_sampling_error_of_few_people_is_not_understated(people):
    """A column that is alike in all places: what shares differ by is sampling, and is found so from two people on."""
    rng, q = np.random.default_rng(0), 4000
    place = np.repeat(np.arange(q), people)
    cell = (rng.random(len(place)) < 0.3).astype(np.int32)
    levels, weight = np.array([[0], [1]]), np.full(len(place), 1.0 / people)
    pairs = Pairs(np.arange(q + 1, dtype=np.int64) * people, cell, weight)
    alone = Clusters(place, cell, np.arange(len(place)), np.ones(len(place)))
    total = np.full(q, float(people))
    found = measure_shares(levels, pairs, total, alone, ((0, 2),), total)
    assert found.covariance[1, 1] == pytest.approx(0.21 / people, rel=0.05)
    given = measure_shares(levels, pairs, total, alone, ((0, 2),), total, np.full(q, float(people)))
    np.testing.assert_allclose(given.covariance, found.covariance)


def test_places_of_one_cluster_are_told_by_the_others():
    levels, pairs, total, clusters, squares = sample(q=30, people=60, seed=4)
    found = measure_shares(levels, pairs, total, clusters, COLUMNS, squares)
    lone = replace(clusters, cluster=np.where(clusters.place < 10, -1 - clusters.place, clusters.cluster))
    order = np.lexsort([lone.cluster, lone.place])
    lone = Clusters(*(v[order] for v in (lone.place, lone.cell, lone.cluster, lone.weight)))
    some = measure_shares(levels, pairs, total, lone, COLUMNS, squares)
    assert np.diag(some.covariance) == pytest.approx(np.diag(found.covariance), rel=0.35)
    every = replace(clusters, cluster=clusters.place.astype(np.int64))
    with pytest.raises(InputError, match="cluster="):
        measure_shares(levels, pairs, total, every, COLUMNS, squares)


def test_people_alike_in_a_household_make_shares_less_sure():
    levels, pairs, total, clusters, squares = sample(q=30, people=200, seed=1)
    found = measure_shares(levels, pairs, total, clusters, COLUMNS, squares)
    alone = Clusters(clusters.place, clusters.cell, np.arange(len(clusters.cell)), clusters.weight)
    kish = measure_shares(levels, pairs, total, alone, COLUMNS, squares)
    ratio = np.diag(found.covariance) / np.diag(kish.covariance)
    assert ratio[2:].min() > 1.6  # race is one for the household
    assert ratio[:2] == pytest.approx(1.0, abs=0.1)  # sex is not


def test_smoothed_shares_are_those_of_the_formula_place_by_place():
    levels, pairs, total, clusters, squares = sample(q=20, seed=2)
    sampled = measure_shares(levels, pairs, total, clusters, COLUMNS, squares)
    found, _ = smooth_shares(sampled)
    s, S, mean = sampled.shares, sampled.covariance, sampled.shares.mean(axis=0)
    unit = np.sqrt(mean * (1 - mean))
    values, vectors = np.linalg.eigh((np.cov(s.T) - S) / np.outer(unit, unit))
    Sigma = (vectors * np.maximum(values, 0)) @ vectors.T * np.outer(unit, unit)
    n, b = sampled.size, s * (1 - s)
    # shares of a column add up to one, and so must their noise
    inside = np.eye(5)
    for a, z in COLUMNS:
        inside[a:z, a:z] -= np.outer(unit[a:z], unit[a:z]) / (unit[a:z] @ unit[a:z])
    inside = inside * unit[:, None] / unit
    for i in (0, 7):
        width = np.sqrt(np.clip(b[i] / b.mean(axis=0), 0.05, 4.0))
        own = inside @ (S * np.outer(width, width)) @ inside.T / n[i] / np.mean(1 / n)
        wanted = mean + Sigma @ np.linalg.pinv(Sigma + own, rcond=1e-7) @ (s[i] - mean)
        wanted = np.maximum(wanted, np.minimum(1e-3, 0.2 * s[i]))
        for a, z in COLUMNS:
            np.testing.assert_allclose(found[i, a:z], wanted[a:z] / wanted[a:z].sum(), atol=2e-6)


def test_noise_is_smoothed_away_and_true_differences_stay():
    levels, pairs, total, clusters, squares = sample(q=80, people=100, seed=3)
    smoothed, found = smooth_shares(measure_shares(levels, pairs, total, clusters, COLUMNS, squares))
    assert found.reliability[0] < 0.3 < 0.7 < found.reliability[1]
    assert found.segregation[0] < 0.003 < 0.02 < found.segregation[1]
    assert smoothed[:, 0].std() < 0.02 < smoothed[:, 2].std()


def test_smoothing_never_spreads_shares():
    """A column without differences between places, beside one that has them: its noise must not be blown up."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        q, people = 40, 150
        race = np.array([rng.multinomial(people, p) for p in rng.dirichlet([2, 1.5, 1], q)]) / people
        age = rng.multinomial(people, [0.2, 0.3, 0.5], q) / people
        sampled = SampledShares(np.hstack([age, race]), np.zeros((6, 6)), np.full(q, float(people)), ((0, 3), (3, 6)))
        S = np.zeros((6, 6))
        for a, z in sampled.columns:
            s = sampled.shares[:, a:z]
            S[a:z, a:z] = np.mean([np.diag(x) - np.outer(x, x) for x in s], axis=0) / people
        found = smooth_shares(SampledShares(sampled.shares, S, sampled.size, sampled.columns))[0]
        assert (found.std(axis=0) < 1.02 * sampled.shares.std(axis=0)).all()
        assert (found[:, :3].std(axis=0) < 0.8 * sampled.shares[:, :3].std(axis=0)).all()
        assert np.abs(found[:, 3:] - sampled.shares[:, 3:]).max() < 0.06


def test_exact_shares_stay():
    rng = np.random.default_rng(0)
    shares = np.hstack([rng.dirichlet([5, 5], 15), rng.dirichlet([2, 3, 4], 15)])
    sampled = SampledShares(shares, 0.01 * np.eye(5), np.full(15, 50.0), COLUMNS)
    exact = np.array([True, True, False, False, False])
    smoothed, found = smooth_shares(sampled, exact)
    np.testing.assert_array_equal(smoothed[:, :2], shares[:, :2])
    assert found.reliability[0] == 1.0


def test_raking_is_iterative_proportional_fitting():
    levels, pairs, _, _, _ = sample(q=9, seed=4)
    rng = np.random.default_rng(5)
    target = np.hstack([rng.dirichlet([9, 9], 9), rng.dirichlet([4, 5, 6], 9)])
    factors = rake(levels, pairs, target, COLUMNS)
    w = raked(levels, pairs, factors)
    place = pairs.place
    plain = pairs.weight.copy()
    for _ in range(200):
        for column in range(2):
            level = levels[pairs.cell, column]
            now = np.bincount(place * 5 + level, plain, 45).reshape(9, 5)
            plain *= (target / np.where(now > 0, now, 1.0))[place, level]
    np.testing.assert_allclose(w, plain, rtol=5e-3)
    got = np.bincount(place * 5 + levels[pairs.cell, 1], w, 45).reshape(9, 5)
    np.testing.assert_allclose(got[:, 2:], target[:, 2:], rtol=2e-3)
    np.testing.assert_allclose(np.bincount(place, w), 1.0)
