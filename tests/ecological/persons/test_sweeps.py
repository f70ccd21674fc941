import numpy as np
import pytest
from scipy import optimize, special

from crosslevel.ecological.persons.sweeps import (
    Pairs,
    Targets,
    hessian,
    level_rates,
    place_effects,
    shifts,
    target_sums,
    target_weights,
)


@pytest.fixture
def small():
    rng = np.random.default_rng(1)
    sizes = [3, 1, 5, 4]
    start = np.concatenate([[0], np.cumsum(sizes)])
    cell = rng.integers(0, 6, start[-1]).astype(np.int32)
    weight = np.concatenate([rng.dirichlet(np.ones(s)) for s in sizes])
    codes = np.column_stack([rng.integers(0, 2, 6), 2 + rng.integers(0, 3, 6)]).astype(np.int32)
    return Pairs(start, cell, weight), rng.normal(size=6), rng.normal(size=4), codes


def rates_of(pairs, eta, f):
    return np.array(
        [
            pairs.weight[a:b] @ special.expit(eta[pairs.cell[a:b]] + f[i])
            for i, (a, b) in enumerate(zip(pairs.start[:-1], pairs.start[1:], strict=True))
        ]
    )


def test_roots_make_the_rate_its_target(small):
    pairs, eta, f, _ = small
    target = np.array([0.02, 0.5, 0.9, 0.999])
    found = place_effects(pairs, eta, target, 10 * f)
    np.testing.assert_allclose(rates_of(pairs, eta, found), target, rtol=1e-12)
    for i in (0, 2):
        one = Pairs(
            np.array([0, pairs.start[i + 1] - pairs.start[i]]),
            *(v[pairs.start[i] : pairs.start[i + 1]] for v in (pairs.cell, pairs.weight)),
        )
        slow = optimize.brentq(
            lambda x, one=one, i=i: rates_of(one, eta, np.array([x]))[0] - target[i], -50, 50, xtol=1e-13
        )
        assert found[i] == pytest.approx(slow, abs=1e-10)


def test_a_total_of_none_or_all_has_no_finite_root(small):
    pairs, eta, _f, _ = small
    found = shifts(pairs, np.vstack([eta, 2 * eta]), np.array([0.0, 1.0, 0.5, 0.5]), np.zeros((2, 4)))
    assert (found[:, 0] == -np.inf).all()
    assert (found[:, 1] == np.inf).all()
    assert np.isfinite(found[:, 2:]).all()


def test_slopes_equal_finite_differences(small):
    pairs, eta, f, codes = small
    found = level_rates(pairs, eta, f, codes, 5)
    np.testing.assert_allclose(found.rate, rates_of(pairs, eta, f), rtol=1e-14)
    h = 1e-6
    numeric = (rates_of(pairs, eta, f + h) - rates_of(pairs, eta, f - h)) / (2 * h)
    np.testing.assert_allclose(found.slope, numeric, rtol=1e-8)
    for level in range(5):
        bump = (codes == level).sum(axis=1) * h
        numeric = (rates_of(pairs, eta + bump, f) - rates_of(pairs, eta - bump, f)) / (2 * h)
        np.testing.assert_allclose(found.by_level[:, level], numeric, rtol=1e-7, atol=1e-12)


def test_bending_is_how_place_effects_curve(small):
    """At fixed rates, d2 f_i / d effects^2 = - (1 / slope_i) times the sum for that place alone."""
    pairs, eta, f, codes = small
    target = rates_of(pairs, eta, f)
    found = level_rates(pairs, eta, f, codes, 5)
    J = found.by_level / found.slope[:, None]
    h = 1e-3

    def place_effect(effects, i):
        return place_effects(pairs, eta + effects[codes].sum(axis=1), target, f)[i]

    for i in (0, 2):
        only = np.zeros(4)
        only[i] = 1.0 / found.slope[i]
        whole = hessian(pairs, eta, f, codes, J, only)
        for a in range(5):
            for b in range(5):
                e = h * np.eye(5)
                numeric = (
                    place_effect(e[a] + e[b], i)
                    - place_effect(e[a] - e[b], i)
                    - place_effect(e[b] - e[a], i)
                    + place_effect(-e[a] - e[b], i)
                ) / (4 * h * h)
                assert -whole[a, b] == pytest.approx(numeric, abs=2e-6)


def test_threads_change_no_bit_of_a_sum_over_places():
    rng = np.random.default_rng(3)
    q, each = 60, 7
    pairs = Pairs(np.arange(0, each * q + 1, each), rng.integers(0, 9, each * q).astype(np.int32), rng.random(each * q))
    codes = np.column_stack([rng.integers(0, 2, 9), 2 + rng.integers(0, 3, 9)]).astype(np.int32)
    eta, f, J, factor = rng.normal(size=9), rng.normal(size=q), rng.normal(size=(q, 5)), rng.normal(size=q)
    alone = hessian(pairs, eta, f, codes, J, factor)
    for n_jobs in (2, 3, 4):
        np.testing.assert_array_equal(hessian(pairs, eta, f, codes, J, factor, n_jobs), alone)


def test_targets_are_sums_over_their_people_and_threads_change_no_bit(small):
    pairs, eta, f, _ = small
    label = np.arange(len(pairs.cell), dtype=np.int32) % 3
    targets = Targets(np.array([0, 2, 3, 3]), np.array([0, 1, 1], dtype=np.int32), 2)  # label 2 belongs to none
    many = np.vstack([eta, -eta])
    effects = np.vstack([f, f + 1])
    found = target_sums(pairs, label, targets, many, effects)
    place = np.repeat(np.arange(4), np.diff(pairs.start))
    for s in range(2):
        p = pairs.weight * special.expit(many[s][pairs.cell] + effects[s][place])
        for i in range(4):
            assert found[s, i, 0] == pytest.approx(p[(place == i) & (label == 0)].sum(), abs=1e-15)
            assert found[s, i, 1] == pytest.approx(p[(place == i) & (label <= 1)].sum(), abs=1e-15)
    np.testing.assert_array_equal(found, target_sums(pairs, label, targets, many, effects, n_jobs=3))
    weights = target_weights(pairs, label, targets)[0]
    np.testing.assert_allclose(weights[:, 0], np.bincount(place, weights=pairs.weight * (label == 0), minlength=4))
