"""The evidence and its predictions against dense Gaussian algebra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear.model import decompose, penalty_grid
from crosslevel.distribution.linear.penalty import fit_evidence, log_evidence


def case(n=25, d=6, seed=0):
    rng = np.random.default_rng(seed)
    mu = rng.uniform(size=(n, d))
    B = rng.normal(size=(d, d))
    K = B @ B.T + 0.1 * np.eye(d)
    y = 5.0 + mu @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    return BagFeatures(mu, np.ones(n), K, None, mu.mean(axis=0)), y


def prior_of(features, prior):
    return np.linalg.inv(features.K) if prior == "rkhs" else np.eye(features.d)


@pytest.mark.parametrize("prior", ["rkhs", "iid"])
@pytest.mark.parametrize("n", [25, 4])
def test_evidence_without_intercept_is_a_normal_density(prior, n):
    features, y = case(n)
    design = decompose(features, y, prior, False)
    for lam in (1e-3, 0.4, 7.0):
        value, _, noise = log_evidence(design, np.array([lam]))
        C = noise[0] * (np.eye(n) + features.mu @ prior_of(features, prior) @ features.mu.T / lam)
        assert value[0] == pytest.approx(stats.multivariate_normal(np.zeros(n), C).logpdf(y), rel=1e-10)
        for factor in (0.9, 1.1):
            assert stats.multivariate_normal(np.zeros(n), factor * C).logpdf(y) < value[0]


@pytest.mark.parametrize("prior", ["rkhs", "iid"])
def test_evidence_with_intercept_is_the_limit_of_a_wide_prior(prior):
    features, y = case()
    n = len(y)
    design = decompose(features, y, prior, True)
    lam, wide = 0.4, 1e7
    value, _, noise = log_evidence(design, np.array([lam]))
    # means are measured from the average bag, so that the intercept is the label there
    Z = features.mu - features.mu.mean(axis=0)
    C = noise[0] * (np.eye(n) + Z @ prior_of(features, prior) @ Z.T / lam) + wide * np.ones((n, n))
    flat = stats.multivariate_normal(np.zeros(n), C).logpdf(y) + 0.5 * np.log(2 * np.pi * wide)
    assert value[0] == pytest.approx(flat, abs=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_slope_is_the_derivative(intercept):
    features, y = case()
    design = decompose(features, y, "rkhs", intercept)
    for lam in (1e-4, 0.1, 30.0):
        h = 1e-5
        up, down = (log_evidence(design, np.array([lam * np.exp(s)]))[0][0] for s in (h, -h))
        assert log_evidence(design, np.array([lam]))[1][0] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-7)


def test_the_maximum_is_one():
    features, y = case()
    design = decompose(features, y, "rkhs", True)
    found = fit_evidence([features], y, "rkhs")
    assert abs(found.slope) < 1e-9
    assert found.bound == ""
    assert found.criterion >= log_evidence(design, penalty_grid(design))[0].max() - 1e-9


@pytest.mark.parametrize("prior", ["rkhs", "iid"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [25, 4])
def test_predictions_are_those_of_the_dense_posterior(prior, intercept, n):
    features, y = case(n)
    found = fit_evidence([features], y, prior, intercept)
    new = np.random.default_rng(9).uniform(size=(7, features.d))
    got = found.predict(BagFeatures(new, np.ones(7), features.K, None, features.m0))
    C = prior_of(features, prior) * found.noise / found.penalty
    center = features.mu.mean(axis=0) if intercept else np.zeros(features.d)
    Z, z = features.mu - center, new - center
    G = Z @ C @ Z.T + found.noise * np.eye(n)
    offset = y.mean() if intercept else 0.0
    mean = offset + z @ C @ Z.T @ np.linalg.solve(G, y - offset)
    cov = z @ C @ z.T - z @ C @ Z.T @ np.linalg.solve(G, Z @ C @ z.T)
    variance = np.diag(cov) + found.noise * (1.0 + intercept / n)
    np.testing.assert_allclose(got.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(got.std**2, variance, rtol=1e-8)


def test_the_more_probable_candidate_is_kept():
    good, y = case(60)
    bad = BagFeatures(np.random.default_rng(5).uniform(size=good.mu.shape), good.sizes, good.K, None, good.m0)
    found = fit_evidence([bad, good, bad], y)
    assert found.chosen == 1


def test_labels_without_a_pattern_and_constant_labels():
    features, _ = case(40)
    noise = np.random.default_rng(2).normal(size=40)
    found = fit_evidence([features], noise)
    assert found.predict(features).mean.std() < 0.3 * noise.std()
    constant = fit_evidence([features], np.full(40, 3.0)).predict(features)
    np.testing.assert_allclose(constant.mean, 3.0)
    assert (constant.std**2 > 0).all()
    assert (constant.std**2 < 1e-10).all()


def test_moving_and_scaling_labels_moves_and_scales_predictions():
    features, y = case()
    one, two = fit_evidence([features], y), fit_evidence([features], 100.0 - 4.0 * y)
    a, b = one.predict(features), two.predict(features)
    np.testing.assert_allclose(b.mean, 100.0 - 4.0 * a.mean, rtol=1e-8)
    np.testing.assert_allclose(b.std, 4.0 * a.std, rtol=1e-8)


def test_directions_in_which_bags_do_not_differ_are_none():
    features, y = case()
    mu = features.mu.copy()
    mu[:, 1] = 2.0 * mu[:, 0] + 1.0
    design = decompose(BagFeatures(mu, features.sizes, features.K, None, features.m0), y, "iid", True)
    assert (design.s > 0).sum() == 5
    assert design.rest == pytest.approx(((y - y.mean()) ** 2).sum() - (design.t**2).sum())
    few = decompose(case(4)[0], case(4)[1], "iid", True)
    assert (few.s > 0).sum() == 3  # four bags about their mean
