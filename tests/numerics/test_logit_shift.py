import numpy as np
import pytest
from scipy import optimize, special

from crosslevel.numerics.logit_shift import logit, shift_to_total


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


def test_logit_undoes_the_logistic_function():
    x = np.linspace(-30, 30, 13)
    np.testing.assert_allclose(logit(special.expit(x)), x, rtol=1e-3)
