"""Is Laplace's approximation of sums under a link right: mode, evidence, its gradient, the posterior covariance?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from crosslevel.binned.counts.likelihoods import BinomialBins, PoissonBins
from crosslevel.binned.counts.modes import find_modes, posterior_covariance

AGES = np.arange(12) + 0.5
APART = np.abs(AGES[:, None] - AGES[None, :])
OVERLAPPING = np.array([[1.0] * 4 + [0] * 8, [0] * 3 + [0.5] * 5 + [0] * 4, [0] * 6 + [2.0] * 6])
COUNTS = np.array([[30.0, 21.0, 160.0]])
FAMILIES = {
    "poisson": (OVERLAPPING, PoissonBins(COUNTS), np.log(8.0)),
    "one bin missing": (OVERLAPPING, PoissonBins(np.array([[30.0, np.nan, 160.0]])), np.log(8.0)),
    "binomial": (
        OVERLAPPING / OVERLAPPING.sum(axis=1, keepdims=True),
        BinomialBins(np.array([[30.0, 21.0, 5.0]]), np.array([[40.0, 60.0, 90.0]])),
        -0.4,
    ),
}


def eq(scale, length):
    return scale**2 * np.exp(-0.5 * (APART / length) ** 2) + 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mode_is_where_the_gradient_vanishes(family):
    C, like, level = FAMILIES[family]
    K = eq(0.7, 3.0) + 1e-6 * np.eye(12)
    found = find_modes(K, C, like, np.full(12, level))
    prior = np.linalg.inv(K)

    def height(f):
        off = f - level
        return like.slopes(like.link(f[None])[0] @ C.T).value[0] - 0.5 * off @ prior @ off

    at = height(found.f[0])
    for step in np.eye(12) * 1e-4:
        assert abs(height(found.f[0] + step) - height(found.f[0] - step)) / 2e-4 < 1e-3
        assert max(height(found.f[0] + step), height(found.f[0] - step)) <= at + 1e-10
    assert np.allclose(found.f[0] - level, K @ found.beta[0], atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_evidence_by_importance_sampling(family):
    """Laplace's evidence lies near the true one, which draws from a widened posterior estimate without bias."""
    C, like, level = FAMILIES[family]
    K = eq(0.3, 4.0) + 1e-4 * np.eye(12)
    found = find_modes(K, C, like, np.full(12, level))
    V = posterior_covariance(found, K) + 1e-9 * np.eye(12)
    rng = np.random.default_rng(0)
    proposal = stats.multivariate_t(found.f[0], V, df=8, seed=rng)
    f = proposal.rvs(40_000)
    value = like.slopes(like.link(f)[0] @ C.T).value
    log_w = value + stats.multivariate_normal(np.full(12, level), K).logpdf(f) - proposal.logpdf(f)
    truth = np.log(np.mean(np.exp(log_w - log_w.max()))) + log_w.max()
    assert found.log_evidence[0] == pytest.approx(truth, abs=0.06)


def test_evidence_of_one_bin_by_quadrature():
    """One cell, one bin: y ~ Poisson(exp f), f ~ N(mu, s^2)."""
    y, mu, s = 40.0, 3.0, 0.6

    def density(f):
        return stats.poisson.pmf(y, np.exp(f)) * stats.norm.pdf(f, mu, s)

    truth = np.log(integrate.quad(density, mu - 6, mu + 6, points=[np.log(y)])[0])
    found = find_modes(np.array([[s**2]]), np.ones((1, 1)), PoissonBins(np.array([[y]])), np.array([mu]))
    assert found.log_evidence[0] == pytest.approx(truth, abs=3e-3)


def test_covariance_is_the_inverse_of_prior_and_fisher_curvature():
    K = eq(0.7, 3.0) + 0.1 * np.eye(12)
    found = find_modes(K, OVERLAPPING, PoissonBins(COUNTS), np.full(12, 2.0))
    J = OVERLAPPING * np.exp(found.f[0])
    W = (J.T / found.lam[0]) @ J
    assert np.allclose(posterior_covariance(found, K), np.linalg.inv(np.linalg.inv(K) + W), atol=1e-10)


def test_many_problems_at_once_are_the_same_problems():
    K = np.array([eq(s, ell) for s in (0.1, 0.5, 2.0) for ell in (0.5, 2.0, 9.0)])
    together = find_modes(K, OVERLAPPING, PoissonBins(COUNTS), np.full(12, 2.0))
    for i, one in enumerate(K):
        alone = find_modes(one, OVERLAPPING, PoissonBins(COUNTS), np.full(12, 2.0))
        assert together.log_evidence[i] == pytest.approx(alone.log_evidence[0], abs=1e-7)
    counts = PoissonBins(np.random.default_rng(0).poisson(20, (5, 3)).astype(float))
    together = find_modes(K[4], OVERLAPPING, counts, np.full(12, 2.0))
    for i in range(5):
        alone = find_modes(K[4], OVERLAPPING, counts.take(np.array([i])), np.full(12, 2.0))
        assert np.allclose(together.f[i], alone.f[0], atol=1e-6)


def test_a_missing_bin_is_a_dropped_row():
    K, some = eq(0.7, 3.0), np.array([[30.0, np.nan, 160.0]])
    with_gap = find_modes(K, OVERLAPPING, PoissonBins(some), np.full(12, 2.0))
    dropped = find_modes(K, OVERLAPPING[[0, 2]], PoissonBins(some[:, [0, 2]]), np.full(12, 2.0))
    assert np.allclose(with_gap.f, dropped.f, atol=1e-8)
    assert with_gap.log_evidence[0] == pytest.approx(dropped.log_evidence[0], abs=1e-9)
    assert np.allclose(posterior_covariance(with_gap, K), posterior_covariance(dropped, K), atol=1e-9)


@pytest.mark.parametrize("make", [PoissonBins, lambda y: BinomialBins(y, y + 3.0)])
def test_means_of_bins_on_the_scale_of_the_link(make):
    like, lam, step = make(np.array([[2.0, 5.0, 1.0]])), np.array([[0.1, 0.5, 0.8]]), 1e-6
    (up, _), (down, _) = like.on_link(lam + step), like.on_link(lam - step)
    value, slope = like.on_link(lam)
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-8)
    np.testing.assert_allclose(like.link(value)[0], lam)
