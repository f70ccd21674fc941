"""The whole count model against brute force: draws of kernel, scales and curve from the prior, weighted by the likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from crosslevel.binned import BinnedCountGP, Intervals
from crosslevel.binned.counts.cells import bins_from_intervals
from crosslevel.binned.counts.curve import candidates, flat_mean
from crosslevel.binned.counts.histogram import fit_counts
from crosslevel.binned.counts.likelihoods import BinomialBins, PoissonBins

LOW, HIGH = np.array([0.0, 10, 20]), np.array([10.0, 20, 30])
COUNTS = np.array([16.0, 40, 22])
TRIALS = np.array([60.0, 70, 50])
NEW = (np.array([0.0, 5, 10]), np.array([5.0, 15, 30]))


def prior_draws(bins, like, n, rng):
    """Curves of the prior, (n, A), over kernels and scales as they are weighed beforehand."""
    tried = candidates(bins)
    which = rng.multinomial(n, np.exp(tried.log_prior))
    level = flat_mean(bins, like)[0]
    parts = []
    for i, count in enumerate(which):
        if count:
            values, vectors = np.linalg.eigh(tried.stack([i])[0])
            root = vectors * np.sqrt(np.maximum(values, 0))
            parts.append(level + rng.standard_normal((count, bins.n_cells)) @ root.T)
    return np.concatenate(parts)


def posterior(log_w, values):
    """Weighted mean and standard deviation of the columns of values; enough draws must have weight."""
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    assert 1 / (w**2).sum() > 300
    mean = w @ values
    return mean, np.sqrt(w @ (values - mean) ** 2)


def into(bins, low, high):
    middle = bins.centers[:, 0]
    return ((middle > low[:, None]) & (middle < high[:, None])).astype(float)


@pytest.mark.parametrize("overlapping", [False, True])
def test_counts(overlapping):
    """Bins apart keep their totals, so brute force is asked for shares of them; overlapping ones have expectations of their own."""
    low, high = (LOW, HIGH) if not overlapping else (LOW, np.array([15.0, 25, 30]))
    bins = bins_from_intervals(low, high, cell=2.5)
    like = PoissonBins(COUNTS[None])
    rng = np.random.default_rng(1)
    f = prior_draws(bins, like, 150_000, rng)
    e = bins.weight * np.exp(f)
    lam = np.exp(f) @ bins.C.T
    log_w = stats.poisson.logpmf(COUNTS, lam).sum(axis=1)
    fit = fit_counts(bins, COUNTS, roughness=(0.0,), preserve=False if overlapping else None)
    if not overlapping:
        e = e * ((COUNTS / lam) @ (bins.C > 0))
    mean, sd = posterior(log_w, e @ into(bins, *NEW).T)
    draws = fit.draws(4000).expected @ into(bins, *NEW).T
    estimate, std_error = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    free = sd > 1e-6
    np.testing.assert_allclose(estimate, mean, atol=0.35 * max(sd.max(), 1e-9))
    np.testing.assert_allclose(std_error[free], sd[free], rtol=0.35)
    if not overlapping:
        assert estimate[0] + 0.0 < 16
        np.testing.assert_allclose(estimate[2], 62.0, rtol=1e-9)


def test_shares():
    bins = bins_from_intervals(LOW, HIGH, cell=2.5)
    averaged = bins.with_rows(bins.averages)
    like = BinomialBins(COUNTS[None], TRIALS[None])
    f = prior_draws(averaged, like, 150_000, np.random.default_rng(1))
    p = special.expit(f)
    log_w = stats.binom.logpmf(COUNTS, TRIALS, p @ averaged.C.T).sum(axis=1)
    rows = into(bins, *NEW)
    mean, sd = posterior(log_w, p @ (rows / rows.sum(axis=1, keepdims=True)).T)
    fit = fit_counts(bins, COUNTS, trials=TRIALS, roughness=(0.0,))
    draws = fit.draws(4000).expected @ (rows / rows.sum(axis=1, keepdims=True)).T
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.2 * sd.max())
    np.testing.assert_allclose(draws.std(axis=0, ddof=1), sd, rtol=0.25)


def test_the_estimator_gives_the_same(monkeypatch):
    """`BinnedCountGP` without its rough part is the fit that brute force confirms, for each likelihood."""
    monkeypatch.setattr("crosslevel.binned.counts.curve._find_rho", lambda *_: (0.0, 0.0))
    regions, new = Intervals(LOW, HIGH), Intervals(*NEW)
    bins = bins_from_intervals(LOW, HIGH, cell=2.5)
    for name, extra in (("poisson", {}), ("binomial", {"trials": TRIALS})):
        gp = BinnedCountGP(name).fit(regions, COUNTS, cell=2.5, **extra)
        rows = into(bins, *NEW)
        if name == "binomial":  # a share is a mean over the trials, spread evenly over their bins
            rows = rows * (TRIALS @ bins.averages)
            rows = rows / rows.sum(axis=1, keepdims=True)
        draws = fit_counts(bins, COUNTS, **extra).draws().expected @ rows.T
        np.testing.assert_allclose(gp.predict(new), draws.mean(axis=0), rtol=1e-9)


def test_totals_are_kept_on_demand():
    across = Intervals([0, 20], [40, 60])
    free, kept = (
        BinnedCountGP().fit(across, [80, 90], preserve=p).predict(across, return_std=True) for p in (None, True)
    )
    np.testing.assert_allclose(kept[0], [80, 90], rtol=1e-6)
    assert kept[1].max() < 1e-6
    assert free[1].min() > 3
    np.testing.assert_allclose(free[0], [80, 90], rtol=0.04)  # without a bias from bending sums
    apart = Intervals.from_edges([0, 10, 20, 30])
    loose = BinnedCountGP().fit(apart, [50, 40, 30], preserve=False)
    assert 4 < loose.predict(apart, return_std=True)[1][0] < 9  # Poisson noise of 50
