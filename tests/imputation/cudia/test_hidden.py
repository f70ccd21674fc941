"""The regression of published means on shares of clusters, against formulas written out."""

import itertools

import numpy as np
import pytest

from crosslevel.imputation.cudia.regression import EtaPrior, identifiability, solve_eta


def prior(precision=3.0, center=0.2, kind="ridge"):
    return EtaPrior(kind, np.array([precision]), np.array([center]), np.ones(1))


def design(groups=6, K=3, seed=0):
    rng = np.random.default_rng(seed)
    D = rng.dirichlet(np.ones(K), groups)
    spread = np.array([np.cov(rng.dirichlet(10 * d + 0.1, 200).T) for d in D])
    return D, D[:, :, None] * D[:, None, :] + spread, rng.uniform(0.1, 0.6, groups), rng.uniform(20, 80, groups)


def test_the_ridge_with_expected_products_is_the_formula():
    D, DD, s, w = design()
    c, lam = 0.2, 3.0
    A = sum(wp * dd for wp, dd in zip(w, DD, strict=True))
    exact = c + np.linalg.solve(A + lam * np.eye(3), sum(wp * d * (sp - c) for wp, d, sp in zip(w, D, s, strict=True)))
    assert solve_eta(D, DD, s, w, prior(), 0, "gaussian") == pytest.approx(exact, rel=1e-10)
    plain = c + np.linalg.solve((D * w[:, None]).T @ D + lam * np.eye(3), (D * w[:, None]).T @ (s - c))
    assert solve_eta(D, None, s, w, prior(), 0, "gaussian") == pytest.approx(plain, rel=1e-10)
    assert np.abs(exact - plain).max() > 1e-3  # what the plug-in of the paper drops


def test_a_missing_mean_is_a_row_less():
    D, DD, s, w = design()
    gap = s.copy()
    gap[2] = np.nan
    keep = np.arange(6) != 2
    a = solve_eta(D, DD, gap, w, prior(), 0, "gaussian")
    assert a == pytest.approx(solve_eta(D[keep], DD[keep], s[keep], w[keep], prior(), 0, "gaussian"), rel=1e-10)


def test_shares_stay_between_none_and_all_at_the_best_such_point():
    D = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    s, w = np.array([0.02, 0.4, 0.75]), np.full(3, 400.0)
    p = prior(1e-3, 0.3)
    free = solve_eta(D, None, s, w, p, 0, "gaussian")
    assert free.min() < 0
    found = solve_eta(D, None, s, w, p, 0, "bernoulli")

    def loss(h):
        return (w * (s - D @ h) ** 2).sum() + 1e-3 * ((h - 0.3) ** 2).sum()

    grid = min(loss(np.array(h)) for h in itertools.product(np.linspace(0, 1, 201), repeat=2))
    assert 0 <= found.min() <= found.max() <= 1
    assert loss(found) <= grid + 1e-3


def test_a_prior_on_the_logit_pulls_to_the_mean_and_stays_inside():
    D, _, s, w = design()
    tight = solve_eta(D, None, s, w, prior(1e6, 0.3, "logit"), 0, "bernoulli")
    assert tight == pytest.approx(np.full(3, 0.3), abs=1e-3)
    loose = solve_eta(D, None, s, w, prior(1e-8, 0.3, "logit"), 0, "bernoulli")
    bounded = solve_eta(D, None, s, w, prior(1e-8, 0.3), 0, "bernoulli")
    assert (w * (s - D @ loose) ** 2).sum() == pytest.approx((w * (s - D @ bounded) ** 2).sum(), abs=1e-3)


def test_contrasts_that_no_mean_shows_come_from_the_prior():
    D = np.array([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]])  # clusters two and three always together
    found = identifiability(D, np.full(2, 1e6), 1.0)
    assert found.effective_df == pytest.approx(2.0, abs=1e-3)
    assert found.share == pytest.approx([1, 1, 0], abs=1e-4)
    assert np.abs(found.contrasts[:, 2]) == pytest.approx([0, np.sqrt(0.5), np.sqrt(0.5)], abs=1e-6)
    exact = np.linalg.inv(1e6 * D.T @ D + np.eye(3))
    assert found.variance == pytest.approx(exact, rel=1e-6)
