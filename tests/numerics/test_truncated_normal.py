"""Are probabilities and quantiles of cut normals exact, also far out and for narrow cuts?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from crosslevel.numerics.truncated_normal import log_interval, truncated_quantile


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-1.0, 2.0),
        (0.0, 1e-6),
        (-1e-9, 3e-9),
        (5.0, 9.0),
        (37.0, 37.5),
        (-60.0, -59.0),
        (200.0, 201.0),
        (12.0, 12.0000001),
        (-3, 40),
    ],
)
def test_log_interval_is_the_integral_of_the_density(a, b):
    top = 0.0 if a < 0 < b else min(abs(a), abs(b))
    area = integrate.quad(lambda z: np.exp(0.5 * (top**2 - z**2)), a, b, epsrel=1e-13, epsabs=0)[0]
    expected = np.log(area) - 0.5 * top**2 - 0.5 * np.log(2 * np.pi)
    assert log_interval(a, b) == pytest.approx(expected, rel=1e-13, abs=1e-11)


def test_log_interval_is_symmetric_additive_and_empty_at_width_zero():
    rng = np.random.default_rng(0)
    a, w = rng.normal(0, 10, 500), rng.exponential(1, 500)
    np.testing.assert_allclose(log_interval(a, a + w), log_interval(-a - w, -a), rtol=1e-14)
    halves = np.logaddexp(log_interval(a, a + w / 2), log_interval(a + w / 2, a + w))
    np.testing.assert_allclose(halves, log_interval(a, a + w), rtol=1e-12, atol=1e-12)
    assert log_interval(2.0, 2.0) == -np.inf


def test_quantiles_invert_the_distribution():
    rng = np.random.default_rng(1)
    mean, sd, u = rng.normal(0.5, 0.6, 400), rng.uniform(0.02, 1, 400), rng.uniform(0.01, 0.99, 400)
    x = truncated_quantile(u, mean, sd, 0.0, 1.0)
    below = np.exp(log_interval(-mean / sd, (x - mean) / sd) - log_interval(-mean / sd, (1 - mean) / sd))
    # far out on the right u is the complement of a tiny number: ten digits are what doubles allow there
    np.testing.assert_allclose(below, u, rtol=1e-6)
    assert ((x >= 0) & (x <= 1)).all()


@pytest.mark.parametrize("mean", [-40.0, 3.0, 40.0])
def test_quantiles_far_from_the_cut_agree_with_scipy(mean):
    sd, u = 0.5, np.array([0.1, 0.5, 0.9])
    x = truncated_quantile(u, mean, sd, 0.0, 1.0)
    assert ((x > 0) & (x < 1)).all()
    far = 1 - x[::-1] if mean > 0 else x
    near = abs(mean) - (1 if mean > 0 else 0)
    law = stats.truncnorm.ppf(u, near / sd, (near + 1) / sd, loc=-near, scale=sd)
    np.testing.assert_allclose(far, law, rtol=1e-4)


def test_a_cut_of_one_point_gives_that_point():
    np.testing.assert_array_equal(truncated_quantile([0.1, 0.9], 0.3, 0.2, 0.7, 0.7), [0.7, 0.7])
