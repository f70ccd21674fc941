"""The binomial likelihood of logits: derivatives, and its value at any size of counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from crosslevel.numerics.laplace import Binomial, binomial_peak

FloatArray = npt.NDArray[np.float64]


def five_point(value: Callable[[float], float], h: float) -> float:
    """Richardson's two central differences: error h^4."""
    return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)


@pytest.mark.parametrize("trials", [1.0, 3.0, 50.0, 1e3, 1e5])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_derivatives(trials: float, share: float) -> None:
    h, one = 1e-3, Binomial(np.array([np.floor(share * trials)]), np.array([trials]))
    f = one.start() + 0.3
    slopes = one.slopes(f)
    assert slopes.first[0] == pytest.approx(five_point(lambda x: one.slopes(f + x).value, h), rel=1e-6, abs=1e-7)
    curvature = -five_point(lambda x: float(one.slopes(f + x).first[0]), h)
    assert slopes.curvature[0] == pytest.approx(curvature, rel=1e-8)
    third = -five_point(lambda x: float(one.slopes(f + x).curvature[0]), h)
    assert slopes.third[0] == pytest.approx(third, rel=1e-7, abs=1e-9)


def test_the_value_is_the_log_probability() -> None:
    k, n, f = np.array([0.0, 3, 7, 40]), np.array([5.0, 9, 7, 100]), np.array([-1.0, 0.2, 3, -0.5])
    expected = stats.binom.logpmf(k, n, special.expit(f)).sum()
    assert Binomial(k, n).slopes(f).value == pytest.approx(expected, rel=1e-12)


def test_peak_keeps_its_digits() -> None:
    # log C(n, k) + k log(k/n) + (n-k) log(1-k/n) with 40 digits (mpmath)
    k, n = np.array([5e8, 1.0, 123456789.0, 3.0, 15.5]), np.array([1e9, 1e9, 987654321.0, 7.0, 31.0])
    golden = [-10.587424271367933, -0.9999999995, -10.167873721314367, -1.2250086714138879, -1.9508480741246231]
    np.testing.assert_allclose(binomial_peak(k, n), golden, rtol=1e-14)
    np.testing.assert_array_equal(binomial_peak(np.array([0.0, 9.0]), np.array([9.0, 9.0])), 0.0)
