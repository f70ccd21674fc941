"""Intervals from draws and from standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.results import intervals
from crosslevel.results.intervals import critical_value, normal_interval, quantile_interval


@pytest.mark.parametrize("shape", [(), (3,), (4, 2, 3), (0,)])
@pytest.mark.parametrize("ddof", [0, 1])
def test_draws_of_any_shape_give_quantiles_and_standard_deviation(shape, ddof):
    draws = np.random.default_rng(0).gamma(2.0, size=(50, *shape))
    found = quantile_interval(draws, 0.8, ddof=ddof)
    low, high = np.quantile(draws, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(found.low, low, rtol=1e-14)
    np.testing.assert_allclose(found.high, high, rtol=1e-14)
    np.testing.assert_allclose(found.std_error, draws.std(axis=0, ddof=ddof), rtol=1e-13)
    assert found.finite.shape == found.low.shape == shape
    assert found.finite.all()


def test_blocks_change_nothing(monkeypatch):
    draws = np.random.default_rng(1).normal(size=(20, 31))
    draws[3, 7], draws[5, 30] = np.nan, np.inf
    whole = quantile_interval(draws, 0.95)
    monkeypatch.setattr(intervals, "BLOCK", 60)
    for one, other in zip(whole, quantile_interval(draws, 0.95), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.flatnonzero(~whole.finite).tolist() == [7, 30]
    assert np.isnan(whole.low[[7, 30]]).all()


def test_counts_have_ends_that_were_drawn():
    draws = np.random.default_rng(2).poisson(3.0, size=(41, 5)).astype(float)
    found = quantile_interval(draws, 0.9, method="inverted_cdf")
    assert set(found.low) | set(found.high) <= set(draws.ravel())


def test_critical_values_are_those_of_normal_and_student():
    for level in (0.5, 0.95, 0.999):
        assert critical_value(level) == pytest.approx(stats.norm.ppf((1 + level) / 2), rel=1e-14)
        assert critical_value(level, 7) == pytest.approx(stats.t.ppf((1 + level) / 2, 7), rel=1e-10)
    low, high = normal_interval(np.array([2.0]), np.array([0.1]), 0.95)
    assert (low + high).item() == pytest.approx(4.0)
