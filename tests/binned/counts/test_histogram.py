"""Do fits of counts keep their totals, cover the truth, and learn what they should?"""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crosslevel.binned import BinnedCountGP, Intervals
from crosslevel.binned.baselines import uniform_spread
from crosslevel.binned.counts import curve as curve_module
from crosslevel.binned.counts.cells import bins_from_edges, bins_from_intervals
from crosslevel.binned.counts.curve import average_curve, candidates, rough_covariance
from crosslevel.binned.counts.histogram import draw_shares, fit_counts
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import find_modes, posterior_covariance
from crosslevel.binned.counts.pooled import pool_counts
from crosslevel.binned.counts.targets import cell_shares, region_counts

EDGES = np.arange(0, 61, 10.0)
AGES = Intervals.from_edges(EDGES)


@pytest.fixture
def scores(monkeypatch):
    """The scores of the study of ages."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "experiments")
    return importlib.import_module("count_scores")


def cut(edges=EDGES, cell=1.0, **options):
    return bins_from_edges(edges, cell, **options)


def expected(fit, low=None, high=None, n_draws=1000):
    """Draw the expected counts of intervals, of the cells when there are none, (n_draws, R)."""
    draws = fit.draws(n_draws).expected
    if low is None:
        return draws
    return draws @ cell_shares(fit.bins, np.array(low, float)[:, None], np.array(high, float)[:, None]).T


def world(rng, n=1500, cells=60):
    """Draw a curve of the stated prior (Matern-5/2, l = L / 5) and its counts."""
    x = np.arange(cells) + 0.5
    t = np.sqrt(5.0) * np.abs(x[:, None] - x[None, :]) / (cells / 5)
    K = 0.36 * (1 + t + t**2 / 3) * np.exp(-t)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(cells)) @ rng.standard_normal(cells)
    lam = n * np.exp(f) / np.exp(f).sum()
    return lam, rng.poisson(lam)


@pytest.fixture(scope="module")
def one():
    rng = np.random.default_rng(4)
    lam, counts = world(rng)
    totals = counts.reshape(6, 10).sum(axis=1)
    return lam, counts, totals, fit_counts(cut(), totals)


def test_people_of_a_cut_cell_fall_on_one_side_or_the_other():
    bins = bins_from_edges([0, 4], cell=2)
    counts = np.array([[900, 5], [0, 7]])
    low, high = np.array([[0.0], [0.5], [0.0]]), np.array([[0.5], [4.0], [4.0]])
    parts = region_counts(bins, low, high, counts, np.random.default_rng(0))
    assert (parts[:, 0] + parts[:, 1] == counts.sum(axis=1)).all()
    assert (parts[:, 2] == counts.sum(axis=1)).all()
    assert 160 < parts[0, 0] < 290


def test_coverage_of_simulated_worlds(scores):
    """Worlds of the prior: 95 % of expected counts, and of counts, lie in their bands."""
    rng = np.random.default_rng(11)
    held_counts, held_expected = [], []
    for _ in range(16):
        lam, counts = world(rng)
        totals = counts.reshape(6, 10).sum(axis=1).astype(float)
        curve = fit_counts(cut(), totals).curve
        f = np.asarray(np.random.default_rng(0).multivariate_normal(curve.mean, curve.covariance, 300))
        shares = draw_shares(cut(), f)
        of_cell = np.repeat(totals, 10)
        pit = scores.randomized_pit(counts.astype(float), of_cell, shares, rng)
        held_counts.append(scores.interval_coverage(pit))
        ends = np.quantile(shares, [0.025, 0.975], axis=0)
        true_share = lam / np.repeat(lam.reshape(6, 10).sum(axis=1), 10)
        held_expected.append(np.mean((ends[0] < true_share) & (true_share < ends[1])))
    assert 0.92 < np.mean(held_counts) < 0.98
    # the rough part these worlds lack makes the bands of expectations a little too wide
    assert 0.93 < np.mean(held_expected) < 0.998


def test_the_curve_beats_uniform_spreading_of_a_steep_curve():
    truth = 4000 * np.exp(-0.08 * np.arange(60))
    fit = fit_counts(cut(), truth.reshape(6, 10).sum(axis=1).round())
    flat = uniform_spread(fit.bins.C, fit.totals)
    assert np.abs(expected(fit).mean(axis=0) - truth).mean() < 0.15 * np.abs(flat - truth).mean()


def test_the_rough_part_has_no_bin_averages_and_leaves_the_mean_alone(one):
    _, _, totals, fit = one
    for bins in (fit.bins, bins_from_edges([0, 1, 5, 20, 60], cell=1), bins_from_intervals([0, 10], [20, 40], cell=1)):
        assert np.abs(bins.averages @ rough_covariance(bins)).max() < 1e-8
    K = rough_covariance(fit.bins)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    smooth = fit_counts(cut(), totals, roughness=(0.0,))
    assert (smooth.curve.mean == fit.curve.mean).all()
    assert np.diag(fit.curve.covariance).sum() > np.diag(smooth.curve.covariance).sum()


def test_bins_in_other_units_give_the_same_counts(one):
    _, _, totals, fit = one
    months = fit_counts(cut(EDGES * 12, 12), totals)
    assert np.allclose(expected(months).mean(axis=0), expected(fit).mean(axis=0), rtol=1e-6)


def test_nested_bins_give_what_their_differences_give():
    nested = fit_counts(bins_from_intervals([0, 0, 30], [60, 10, 60], cell=2), [100, 30, 40])
    apart = fit_counts(cut([0, 10, 30, 60], 2), [30, 30, 40])
    assert np.allclose(nested.curve.mean, apart.curve.mean, atol=1e-6)
    assert np.allclose(expected(nested, [0, 10, 30], [10, 30, 60]).mean(axis=0), [30, 30, 40])


def test_shares_of_trials_are_recovered():
    rate = 1 / (1 + np.exp(3 - 0.15 * np.arange(30)))
    trials = np.full(6, 2000.0)
    fit = fit_counts(
        cut(np.arange(0, 31, 5)),
        (trials * rate.reshape(6, 5).mean(axis=1)).round(),
        trials=trials,
    )
    draws = expected(fit)
    assert np.abs(draws.mean(axis=0) - rate).max() < 0.05
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    assert np.mean((low < rate) & (rate < high)) > 0.85


def test_the_mean_of_a_bin_is_known_apart_from_its_cells(monkeypatch):
    """Under one covariance: log means of bins at the mode, and the delta method."""
    bins = cut(cell=5)
    alone = candidates(bins, ["matern52"]).take([24])
    monkeypatch.setattr(curve_module, "candidates", lambda *_: alone)
    like = PoissonBins(np.array([[30.0, 20, 40, 25, 10, 8]]))
    curve = average_curve(bins, like, roughness=(0.1,))
    K = alone.stack([0])[0]
    modes = find_modes(K, bins.C, like, np.full(bins.n_cells, curve_module.flat_mean(bins, like)[0]))
    V, slope = posterior_covariance(modes, K), modes.J[0] / modes.lam[0][:, None]
    np.testing.assert_allclose(curve.bins, np.log(modes.lam[0]))
    np.testing.assert_allclose(curve.with_bins, np.hstack([slope @ V, slope @ V @ slope.T]), atol=1e-12)
    mean, joint = curve.joint
    np.testing.assert_allclose(mean, np.concatenate([curve.mean, curve.bins]))
    np.testing.assert_allclose(joint[: bins.n_cells, : bins.n_cells], V + curve.rough, atol=1e-12)
    np.testing.assert_allclose(joint, joint.T, atol=1e-12)


def test_the_total_of_an_open_bin_corrects_its_tail():
    """Exponential ages: the continuation of the curve across the edge says how fast the open bin falls."""
    edges = np.append(np.arange(0, 51, 10.0), np.inf)
    truth = 10_000 * (np.exp(-edges[:-1] / 20) - np.exp(-edges[1:] / 20))
    for stated in (16.0, 25.0):
        fit = fit_counts(cut(edges, 2, tail=stated), truth.round())
        beyond = fit.bins.lower[:, 0] >= 50
        drawn = fit.draws(200).expected[:, beyond]
        excess = (drawn @ (fit.bins.centers[beyond, 0] - 50)) / drawn.sum(axis=1)
        assert abs(excess.mean() - 20) < abs(stated - 20)
        assert np.quantile(excess, 0.025) < 20 < np.quantile(excess, 0.975)


@pytest.fixture(scope="module")
def many():
    """Twelve areas around a curve with a step no single area shows."""
    rng = np.random.default_rng(3)
    lam, _ = world(rng)
    truth = rng.poisson(lam / lam.sum() * rng.uniform(150, 1500, (12, 1)) * np.exp(0.15 * rng.standard_normal((12, 1))))
    totals = truth.reshape(12, 6, 10).sum(axis=2).astype(float)
    return truth, totals, pool_counts(cut(), totals)


def test_pooling_helps_and_keeps_totals(many, scores):
    truth, totals, fit = many
    pooled, alone = [], []
    for i in range(len(fit)):
        area = fit.area(i)
        assert (area.draws(20).counts.reshape(20, 6, 10).sum(axis=2) == totals[i]).all()
        of_cell = np.repeat(totals[i], 10)
        for out, curve in ((pooled, area.curve), (alone, fit_counts(cut(), totals[i]).curve)):
            rng = np.random.default_rng(0)
            shares = draw_shares(cut(), rng.multivariate_normal(curve.mean, curve.covariance, 200))
            out.append(scores.log_scores(truth[i].astype(float), of_cell, shares).mean())
    assert np.mean(pooled) > np.mean(alone)


def test_areas_may_lack_bins(many):
    _, totals, fit = many
    some = totals.copy()
    some[3, 2] = np.nan
    gap = pool_counts(cut(), some)
    counts = gap.area(3).draws().counts[:, 20:30].sum(axis=1)
    low, high = np.quantile(counts, [0.025, 0.975])
    assert low < totals[3, 2] < high
    assert np.allclose(gap.f[0], fit.f[0], atol=0.1)


def test_bins_left_out_are_predicted(many, scores):
    _, _, pooled = many
    together = scores.leave_one_out_pooled(pooled, n_draws=200)
    assert together.pit.shape == (12, 6)
    assert together.coverage() > 0.85
    # a bin left out does not pull its own prediction: a hundred times too many people stay a surprise
    odd = pooled.totals.copy()
    odd[0, 2] *= 100
    found = scores.leave_one_out_pooled(replace(pooled, totals=odd), n_draws=200)
    assert found.pit[0, 2] > 0.999
    assert found.log_density[0, 2] < together.log_density[0, 2] - 5


def test_expected_counts_take_their_bins_as_chance():
    """People drawn from a known curve: bands of totals kept miss expectations that those with the chance of the bins hold."""
    ages = np.arange(60)
    truth = 6000 * np.exp(-0.5 * ((ages - 25) / 18.0) ** 2)
    truth *= 6000 / truth.sum()
    edges = Intervals.from_edges(np.arange(0, 61, 5))
    held, kept = [], []
    for seed in range(6):
        counts = np.random.default_rng(seed).poisson(truth).reshape(12, 5).sum(axis=1)
        gp = BinnedCountGP("poisson").fit(edges, counts)
        for quantity, out in (("expected", held), (None, kept)):
            found = gp.estimate("single_years", quantity)
            assert len(found) == 60
            out.append(np.mean((found["conf_low"] <= truth) & (truth <= found["conf_high"])))
    assert 0.92 <= np.mean(held) <= 1.0
    assert np.mean(kept) < 0.85
    whole = gp.estimate(edges, "expected")
    np.testing.assert_allclose(whole["estimate"], counts, rtol=0.03)
    np.testing.assert_allclose(whole["std_error"], np.sqrt(counts + 0.5), rtol=0.12)
    assert "count_low" not in whole.table.column_names
