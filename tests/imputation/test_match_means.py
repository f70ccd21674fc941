import itertools

import numpy as np
import pytest
from scipy import special

from crosslevel.imputation.match_means import draw_bernoulli, match, whole_totals


def group_means(values, group, n_groups, weight=None):
    """Give the weighted mean of each group."""
    w = np.ones(len(group)) if weight is None else weight
    rows = np.array([np.bincount(group, w * row, n_groups) for row in np.atleast_2d(values)])
    return (rows / np.bincount(group, w, n_groups)).reshape(*np.shape(values)[:-1], n_groups)


def shift_logit(p, group, s, weight=None):
    w = np.ones(len(group)) if weight is None else weight
    return match(special.logit(p), group, w, s)[0]


def shift_mean(values, group, s, weight=None):
    w = np.ones(len(group)) if weight is None else weight
    return match(values, group, w, s, binary=False)[0]


def many(n, p, group, s, rng, weight=None):
    """Draw yes and no n times."""
    return np.array([draw_bernoulli(special.logit(p), group, s, rng, weight) for _ in range(n)])


def _setting(n=600, P=5, seed=0):
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.arange(P), rng.integers(0, P, n - P)])
    p = rng.beta(1, 4, n)
    y = (rng.random(n) < p).astype(float)
    return group, p, group_means(y, group, P), rng.random(n) + 0.1, rng


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("how", [shift_mean, shift_logit])
def test_means_are_exact(how, weighted):
    group, p, s, w, rng = _setting()
    w = w if weighted else None
    for values in (p, rng.random(len(p))):
        np.testing.assert_allclose(group_means(how(values, group, s, w), group, 5, w), s, atol=1e-12)


def test_logit_shift_keeps_ratios_of_odds_within_groups():
    group, p, s, _, _ = _setting()
    moved = special.logit(shift_logit(p, group, s)) - special.logit(p)
    for g in range(5):
        assert np.ptp(moved[group == g]) < 1e-9


@pytest.mark.parametrize("how", [shift_mean, shift_logit])
def test_a_missing_target_leaves_its_group_alone(how):
    group, p, s, _, _ = _setting()
    s = s.copy()
    s[2] = np.nan
    found = how(p, group, s)
    np.testing.assert_allclose(found[group == 2], p[group == 2], rtol=1e-12)
    assert not np.allclose(found[group == 1], p[group == 1])


def test_none_and_all():
    group, p, s, _, rng = _setting()
    s = s.copy()
    s[0], s[1] = 0.0, 1.0
    for found in (shift_logit(p, group, s), many(1, p, group, s, rng)[0]):
        assert (found[group == 0] == 0).all()
        assert (found[group == 1] == 1).all()


def test_every_draw_has_the_exact_mean():
    group, p, s, _, rng = _setting()
    draws = many(20, p, group, s, rng)
    assert set(np.unique(draws)) == {0.0, 1.0}
    np.testing.assert_allclose(group_means(draws, group, 5), np.tile(s, (20, 1)), atol=1e-10)
    assert len({tuple(d) for d in draws}) == 20


def test_conditional_bernoulli_has_the_right_law():
    # all 4-person outcomes with two yes, by enumeration
    p = np.array([0.1, 0.3, 0.6, 0.8])
    rng = np.random.default_rng(3)
    draws = many(20_000, p, np.zeros(4, int), np.array([0.5]), rng)
    odds = p / (1 - p)
    chosen = list(itertools.combinations(range(4), 2))
    weight = np.array([odds[a] * odds[b] for a, b in chosen])
    for (a, b), exact in zip(chosen, weight / weight.sum(), strict=True):
        found = np.mean((draws[:, a] == 1) & (draws[:, b] == 1))
        assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_weighted_draws_keep_probabilities_and_come_within_one_weight():
    rng = np.random.default_rng(4)
    w, group = np.array([1.0, 2.0, 0.5, 3.0, 1.5, 0.7]), np.zeros(6, int)
    p0 = np.array([0.2, 0.7, 0.4, 0.5, 0.9, 0.3])
    target = np.array([0.45])
    p = shift_logit(p0, group, target, w)
    draws = many(20_000, p0, group, target, rng, w)
    assert set(np.unique(draws)) == {0.0, 1.0}
    np.testing.assert_allclose(draws.mean(axis=0), p, atol=0.015)
    assert np.abs(draws @ w - 0.45 * w.sum()).max() <= w.max()
    # independent draws would scatter by sqrt(sum w^2 p (1 - p))
    assert (draws @ w).std() < 0.6 * np.sqrt((w**2 * p * (1 - p)).sum())


def test_totals_that_are_not_whole_are_rounded_without_bias():
    rng = np.random.default_rng(0)
    totals = [whole_totals(np.zeros(10, int), np.array([0.23]), rng) for _ in range(4000)]
    assert {int(t[0]) for t in totals} == {2, 3}
    assert np.mean([t[0] for t in totals]) == pytest.approx(2.3, abs=0.03)


def test_an_unknown_target_draws_independently():
    rng = np.random.default_rng(0)
    draws = many(3000, np.full(4, 0.3), np.zeros(4, int), np.array([np.nan]), rng)
    assert draws.mean() == pytest.approx(0.3, abs=0.02)
    assert len(np.unique(draws.sum(axis=1))) == 5


def test_the_shift_that_was_found_moves_other_people_alike():
    group, p, s, w, _ = _setting()
    f, s = special.logit(p), np.where(np.arange(5) == 1, np.nan, np.where(np.arange(5) == 3, 0.0, s))
    for binary in (True, False):
        value, shift = match(f, group, w, s, binary=binary)
        moved = f + shift[group]
        np.testing.assert_allclose(special.expit(moved) if binary else moved, value, atol=1e-9)
        assert shift[1] == 0
