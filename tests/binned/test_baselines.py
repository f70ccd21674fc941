"""Are the baselines what their names say?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.baselines import area_weighting, composite_link, uniform_spread

C = np.kron(np.eye(6), np.ones(5))


def test_a_stiff_composite_link_is_log_linear_with_exact_moments():
    """With an endless penalty of second differences only a line is free: total and mean position are then fitted exactly."""
    totals = np.array([40.0, 90, 60, 50, 20, 30])
    fit = composite_link(C, totals, penalties=np.array([1e9]))
    assert np.abs(np.diff(fit.f, 2)).max() < 1e-5
    assert fit.effective == pytest.approx(2.0, abs=0.01)
    cells = np.exp(fit.f)
    assert cells.sum() == pytest.approx(totals.sum(), rel=1e-5)
    # the score of the slope: sum over bins of (y / lambda - 1) x the slope of lambda
    lam, x = C @ cells, np.arange(30) + 0.5
    assert abs((totals / lam - 1) @ (C @ (cells * x))) < 1e-2 * totals.sum()


def test_third_order_leaves_a_parabola():
    x = np.linspace(-1, 1, 30)
    truth = np.exp(5 + 0.5 * x - 1.2 * x**2)
    fit = composite_link(C, C @ truth, penalties=np.array([1e8]), order=3)
    assert np.abs(fit.f - np.log(truth)).max() < 1e-3


def test_a_loose_composite_link_keeps_the_totals_and_aic_chooses():
    rng = np.random.default_rng(0)
    truth = 200 * np.exp(np.sin(np.arange(30) / 4))
    totals = rng.poisson(C @ truth).astype(float)
    loose = composite_link(C, totals, penalties=np.array([1e-3]))
    assert np.allclose(C @ np.exp(loose.f), totals, rtol=1e-3)
    chosen = composite_link(C, totals)
    assert chosen.aic <= min(composite_link(C, totals, penalties=np.array([p])).aic for p in (1e-2, 1.0, 1e3)) + 1e-6
    assert np.linalg.eigvalsh(chosen.covariance).min() > -1e-10


def test_empty_bins_do_not_stop_it():
    fit = composite_link(C, np.array([0.0, 0, 5, 9, 0, 0]))
    assert np.isfinite(fit.f).all()
    assert np.exp(fit.f)[15] > np.exp(fit.f)[0]


def test_uniform_and_area_weights_keep_mass():
    totals = np.array([40.0, 90, 60, 50, 20, 30])
    assert (C @ uniform_spread(C, totals) == totals).all()
    assert np.ptp(uniform_spread(C, totals)[:5]) == 0
    assert area_weighting(C.T, C.sum(axis=1), totals).sum() == pytest.approx(totals.sum())
