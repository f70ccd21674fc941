"""Closed-form leave-one-out against refitting without each bag."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.linear.model import decompose, penalty_grid
from crosslevel.distribution.linear.penalty import fit_ridge, losses


def case(n=20, d=5, seed=0):
    rng = np.random.default_rng(seed)
    mu = rng.uniform(size=(n, d))
    B = rng.normal(size=(d, d))
    y = 2.0 + mu @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    return BagFeatures(mu, np.ones(n), B @ B.T + 0.2 * np.eye(d), None, mu.mean(axis=0)), y


def refit(mu, y, metric, lam):
    """Solve min |y - b - mu w|^2 + lam w' metric w by its normal equations."""
    m, offset = mu.mean(axis=0), y.mean()
    w = np.linalg.solve((mu - m).T @ (mu - m) + lam * metric, (mu - m).T @ (y - offset))
    return w, offset - m @ w


@pytest.mark.parametrize("prior", ["iid", "rkhs"])
@pytest.mark.parametrize("n", [20, 4])
def test_leaving_out_equals_refitting(prior, n):
    features, y = case(n)
    metric = features.K if prior == "rkhs" else np.eye(features.d)
    design = decompose(features, y, prior, True)
    for lam in (1e-2, 0.5, 20.0):
        errors = []
        for i in range(n):
            rest = np.arange(n) != i
            w, b = refit(features.mu[rest], y[rest], metric, lam)
            errors.append(y[i] - b - features.mu[i] @ w)
        assert losses(design, np.array([lam]), "loo")[0][0] == pytest.approx(np.mean(np.square(errors)), rel=1e-9)


@pytest.mark.parametrize("lam", [1e-12, 1e-9, 1e-6, 1e-2])
def test_leaving_out_is_exact_where_a_fit_could_pass_through_all_labels(lam):
    # as many weights as bags: e and 1 - h are both as small as the penalty
    features, y = case(n=30, d=60, seed=4)
    errors = []
    for i in range(30):
        rest = np.arange(30) != i
        Z, m = features.mu[rest] - features.mu[rest].mean(axis=0), features.mu[rest].mean(axis=0)
        dual = np.linalg.pinv(Z @ Z.T + lam * np.eye(29), rcond=1e-10) @ (y[rest] - y[rest].mean())
        errors.append(y[i] - y[rest].mean() - (features.mu[i] - m) @ (Z.T @ dual))
    found = losses(decompose(features, y, "iid", True), np.array([lam]), "loo")[0][0]
    assert found == pytest.approx(np.mean(np.square(errors)), rel=1e-5)


@pytest.mark.parametrize("prior", ["iid", "rkhs"])
def test_noise_is_not_mistaken_for_a_perfect_fit_by_more_landmarks_than_bags(prior):
    rng = np.random.default_rng(0)
    for seed in range(5):
        features, _ = case(n=30, d=60, seed=seed)
        y = rng.normal(size=30)
        design = decompose(features, y, prior, True)
        values, _ = losses(design, penalty_grid(design), "loo")
        assert (values > 0.5 * y.var()).all()
        assert fit_ridge([features], y, prior).noise > 0.2 * y.var()


def test_gcv_has_the_average_leverage():
    features, y = case()
    n, lam = len(y), 0.3
    Z = features.mu - features.mu.mean(axis=0)
    H = Z @ np.linalg.solve(Z.T @ Z + lam * np.eye(5), Z.T) + 1.0 / n
    expected = np.mean((y - H @ y) ** 2) / (1 - np.trace(H) / n) ** 2
    assert losses(decompose(features, y, "iid", True), np.array([lam]), "gcv")[0][0] == pytest.approx(
        expected, rel=1e-10
    )


@pytest.mark.parametrize("rule", ["loo", "gcv"])
def test_slopes_and_minimum(rule):
    features, y = case()
    design = decompose(features, y, "iid", True)
    for lam in (1e-3, 0.3, 9.0):
        up, down = (losses(design, np.array([lam * np.exp(s)]), rule)[0][0] for s in (1e-5, -1e-5))
        assert losses(design, np.array([lam]), rule)[1][0] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-9)
    found = fit_ridge([features], y, "iid", rule)
    assert found.criterion <= losses(design, penalty_grid(design), rule)[0].min() + 1e-12
    assert abs(found.slope) < 1e-9


@pytest.mark.parametrize("prior", ["iid", "rkhs"])
def test_a_given_penalty_gives_the_normal_equations(prior):
    features, y = case()
    metric = features.K if prior == "rkhs" else np.eye(features.d)
    found = fit_ridge([features], y, prior, penalty=0.7)
    w, b = refit(features.mu, y, metric, 0.7)
    np.testing.assert_allclose(found.coef, w, rtol=1e-8)
    np.testing.assert_allclose(found.predict(features).mean, b + features.mu @ w, rtol=1e-10)
    Z = features.mu - features.mu.mean(axis=0)
    inverse = np.linalg.inv(Z.T @ Z + 0.7 * metric)
    hat = 1 + np.trace(Z @ inverse @ Z.T)
    assert found.edf == pytest.approx(hat, rel=1e-10)
    rss = np.square(y - b - features.mu @ w).sum()
    assert found.noise == pytest.approx(rss / (len(y) - hat), rel=1e-9)
    expected = found.noise * (1 + 1 / len(y) + np.einsum("ij,jk,ik->i", Z, inverse, Z))
    np.testing.assert_allclose(found.predict(features).std ** 2, expected, rtol=1e-9)


def test_the_candidate_of_least_error_is_kept():
    good, y = case(50)
    bad = BagFeatures(np.random.default_rng(5).uniform(size=good.mu.shape), good.sizes, good.K, None, good.m0)
    found = fit_ridge([bad, good], y)
    assert found.chosen == 1
