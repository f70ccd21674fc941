import numpy as np
import pytest
from scipy import optimize, special

from crosslevel.ecological.persons.sweeps import Pairs, hessian, level_rates, place_effects


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
    found = place_effects(pairs, eta, np.array([0.0, 1.0, 0.5, 0.5]), np.zeros(4))
    assert (found[0], found[1]) == (-np.inf, np.inf)
    assert np.isfinite(found[2:]).all()


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


def test_curvature_equals_finite_differences_of_slopes(small):
    pairs, eta, f, codes = small
    factor, h = np.array([0.3, -1.0, 2.0, 0.5]), 1e-5
    found = hessian(pairs, eta, f, codes, 5, factor)
    for level in range(5):
        bump = (codes == level).sum(axis=1) * h
        up, down = (level_rates(pairs, eta + side * bump, f, codes, 5).by_level for side in (1, -1))
        np.testing.assert_allclose(found[level], factor @ (up - down) / (2 * h), atol=1e-9)
