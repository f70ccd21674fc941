import numpy as np
import pytest

from crosslevel.errors import ConvergenceError
from crosslevel.imputation.persons.similar import paule_mandel


def test_finds_the_variance_it_was_drawn_with():
    rng = np.random.default_rng(0)
    v, K = rng.random(20_000), 0.5 + rng.random(20_000)
    e = rng.normal(size=20_000) * np.sqrt(v + 0.7 * K)
    assert paule_mandel(e, v, K) == pytest.approx(0.7, abs=0.03)


def test_solves_its_equation_with_weights_and_is_zero_where_errors_are_small():
    e, v, K, w = np.array([1.0, -2.0, 0.5]), np.full(3, 0.1), np.array([1.0, 2.0, 0.3]), np.array([1.0, 2.0, 3.0])
    t2 = paule_mandel(e, v, K, w)
    assert (w * e**2 / (v + t2 * K)).sum() == pytest.approx(w.sum(), rel=1e-10)
    assert paule_mandel(np.array([0.1, -0.1]), np.ones(2), np.ones(2)) == 0.0


def test_large_variances_are_found_and_a_search_without_an_end_is_refused():
    """One error e of variance 0 needs t^2 = e^2; where t^2 multiplies nothing no value is enough."""
    assert paule_mandel(np.array([1e5]), np.zeros(1), np.ones(1)) == pytest.approx(1e10, rel=1e-10)
    assert paule_mandel(np.array([300.0]), np.zeros(1), np.ones(1)) == pytest.approx(9e4, rel=1e-10)
    with pytest.raises(ConvergenceError):
        paule_mandel(np.array([3.0]), np.ones(1), np.zeros(1))
    with pytest.raises(ConvergenceError):
        paule_mandel(np.array([np.nan]), np.ones(1), np.ones(1))
    # exactly as large as they should be: nothing is added; a variance of zero is none
    assert paule_mandel(np.array([1.0, -1.0]), np.ones(2), np.ones(2)) == 0.0
    assert paule_mandel(np.array([0.0, 2.0]), np.array([0.0, 1.0]), np.ones(2)) == pytest.approx(1.0, rel=1e-10)
