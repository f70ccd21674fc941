"""Laplace's approximation in weights against the same in functions, and against integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear.logistic import INTERCEPT_VARIANCE, find_weights, fit_logistic


def case(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    mu = rng.uniform(size=(n, d))
    B = rng.normal(size=(d, d))
    logit = 4.0 * (mu - 0.5) @ rng.normal(size=d) + 0.5
    t = (rng.uniform(size=n) < special.expit(logit)).astype(float)
    return BagFeatures(mu, np.ones(n), B @ B.T + 0.2 * np.eye(d), None, mu.mean(axis=0)), t


@pytest.mark.parametrize("variance", [0.01, 1.0, 100.0])
def test_evidence_and_mode_equal_the_gaussian_process_form(variance):
    features, t = case()
    Z = features.mu - features.mu.mean(axis=0)
    found = find_weights(Z, t, variance)
    K = variance * Z @ Z.T + INTERCEPT_VARIANCE
    f = np.zeros(len(t))
    for _ in range(50):
        p = special.expit(f)
        W = p * (1 - p)
        f = K @ np.linalg.solve(np.eye(len(t)) + W[:, None] * K, W * f + t - p)
    value = stats.bernoulli.logpmf(t, special.expit(f)).sum() - 0.5 * f @ (t - special.expit(f))
    value -= 0.5 * np.linalg.slogdet(np.eye(len(t)) + W[:, None] * K)[1]
    assert found.log_evidence == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.theta[0] + Z @ found.theta[1:], f, atol=1e-6)


def test_evidence_is_near_the_integral():
    Z, t = np.array([[-1.0], [0.3], [1.2], [0.1], [-0.4]]), np.array([0.0, 1.0, 1.0, 0.0, 0.0])

    def density(w, b):
        p = special.expit(b + Z[:, 0] * w)
        return np.prod(np.where(t == 1, p, 1 - p)) * stats.norm.pdf(w) * stats.norm.pdf(b, scale=5.0)

    area = integrate.dblquad(density, -20, 20, -6, 6)[0]
    assert find_weights(Z, t, 1.0).log_evidence == pytest.approx(np.log(area), abs=0.15)


def test_the_slope_is_the_derivative():
    features, t = case()
    Z = features.mu - features.mu.mean(axis=0)
    for variance in (0.05, 2.0, 50.0):
        up, down = (find_weights(Z, t, variance * np.exp(s)).log_evidence for s in (1e-4, -1e-4))
        assert find_weights(Z, t, variance).slope == pytest.approx((up - down) / 2e-4, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("prior", ["rkhs", "iid"])
def test_predictions_average_over_the_weights(prior):
    features, t = case()
    found = fit_logistic([features], t, prior)
    assert found.converged
    assert abs(found.slope) < 1e-6
    mean, variance = found.logit(features)
    C = (np.linalg.inv(features.K) if prior == "rkhs" else np.eye(features.d)) * found.prior_variance
    Z = features.mu - features.mu.mean(axis=0)
    X = np.column_stack([np.ones(len(t)), Z])
    P = np.zeros((features.d + 1,) * 2)
    P[0, 0], P[1:, 1:] = 1 / INTERCEPT_VARIANCE, np.linalg.inv(C)
    p = special.expit(mean)
    np.testing.assert_allclose(X.T @ (t - p), P @ np.append(found.offset, found.coef), atol=1e-6)
    H = (X * (p * (1 - p))[:, None]).T @ X + P
    np.testing.assert_allclose(variance, np.einsum("ij,jk,ik->i", X, np.linalg.inv(H), X), rtol=1e-7)
    for i in (0, 5):
        expected = integrate.quad(
            lambda f, i=i: special.expit(f) * stats.norm.pdf(f, mean[i], np.sqrt(variance[i])), -30, 30, limit=200
        )[0]
        assert found.probability(features)[i] == pytest.approx(expected, abs=1e-8)


def test_classes_that_part_completely_stay_finite():
    mu = np.linspace(0, 1, 30)[:, None]
    features = BagFeatures(mu, np.ones(30), np.eye(1), None, mu.mean(axis=0))
    found = fit_logistic([features], (mu[:, 0] > 0.5).astype(float))
    p = found.probability(features)
    assert found.converged
    assert np.isfinite(p).all()
    assert p[0] < 0.02
    assert p[-1] > 0.98
    assert abs(found.slope) < 1e-6


def test_the_more_probable_candidate_is_kept():
    good, t = case(200)
    bad = BagFeatures(np.random.default_rng(5).uniform(size=good.mu.shape), good.sizes, good.K, None, good.m0)
    assert fit_logistic([bad, good], t).chosen == 1
