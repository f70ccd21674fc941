import numpy as np
import pytest
from scipy import optimize, special

from crosslevel.numerics.logit_shift import shift_to_total


def test_against_a_root_finder():
    rng = np.random.default_rng(0)
    f, w, group = rng.normal(0, 3, (3, 40)), rng.random(40), rng.integers(0, 4, 40)
    total = np.array([0.01, 0.4, 0.7, 0.999])
    found = shift_to_total(f, w, group, total)
    for s in range(3):
        for g in range(4):
            own = group == g
            c = optimize.brentq(
                lambda c, s=s, own=own, g=g: w[own] @ (special.expit(f[s, own] + c) - total[g]), -40, 40, xtol=1e-14
            )
            assert found.shift[s, g] == pytest.approx(c, abs=1e-8)
            assert w[own] @ found.rate[s, own] == pytest.approx(total[g] * w[own].sum(), rel=1e-12)


def test_unknown_totals_empty_groups_and_edges():
    f = np.zeros((1, 4))
    found = shift_to_total(f, np.ones(4), np.array([0, 0, 1, 3]), np.array([np.nan, 1.0, 0.5, 0.25]))
    np.testing.assert_allclose(found.rate[0], [0.5, 0.5, 1.0, 0.25])
    assert np.isnan(found.shift[0, :3]).all()


def test_people_who_are_not_counted_do_not_count():
    f, left = np.array([[0.0, 2.0, -1.0]]), np.array([[1.0, 0.0, 1.0]])
    a = shift_to_total(f, np.ones(3), np.zeros(3, int), np.array([0.3]), left)
    b = shift_to_total(f[:, [0, 2]], np.ones(2), np.zeros(2, int), np.array([0.3]))
    assert a.shift[0, 0] == pytest.approx(b.shift[0, 0], abs=1e-12)


def test_shifts_of_groups_of_one_of_extremes_and_of_equal_members():
    """One member has the rate itself; equal members share one shift; logits of a thousand do no harm."""
    f = np.array([[0.4, 2.0, 2.0, -1000.0, 900.0], [-3.0, 1.0, 1.0, 5.0, -700.0]])
    group, total = np.array([0, 1, 1, 2, 2]), np.array([0.2, 0.9, 0.5])
    found = shift_to_total(f, np.array([1.0, 2.0, 3.0, 1.0, 1.0]), group, total)
    np.testing.assert_allclose(found.shift[:, 0], special.logit(0.2) - f[:, 0], rtol=1e-12)
    np.testing.assert_allclose(found.shift[:, 1], special.logit(0.9) - f[:, 1], rtol=1e-12)
    np.testing.assert_allclose(found.rate[:, :3], [[0.2, 0.9, 0.9]] * 2, rtol=1e-12)
    np.testing.assert_allclose(found.rate[:, 3:].mean(axis=1), 0.5, rtol=1e-12)
    nobody = shift_to_total(f[:, :1], np.zeros(1), np.zeros(1, int), np.array([0.2]))
    np.testing.assert_allclose(nobody.rate, special.expit(f[:, :1]))
    everybody = shift_to_total(f[:, 1:3], np.ones(2), np.zeros(2, int), np.array([1.0]))
    np.testing.assert_array_equal(everybody.rate, 1.0)
    assert np.isnan(everybody.shift).all()
