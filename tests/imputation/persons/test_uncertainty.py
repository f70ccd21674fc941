import numpy as np
import pytest
from scipy import special, stats

from crosslevel.imputation.match_means import match
from crosslevel.imputation.persons.model import Fit
from crosslevel.imputation.persons.uncertainty import (
    Members,
    _binomial_cdf,
    mean_interval,
    mean_spread,
    share_interval,
)


def _setting(seed=0, unknown=()):
    rng = np.random.default_rng(seed)
    M, K, P = 60, 3, 5
    Z, group, w = rng.normal(size=(M, K)), np.arange(M) % P, 1.0 + rng.integers(0, 30, M)
    mean = rng.uniform(0.1, 0.6, P)
    mean[list(unknown)] = np.nan
    A = rng.normal(size=(K + 1, K + 1))
    fit = Fit(rng.normal(0, 0.3, K), -1.0, 1e-6 * (A @ A.T), 1e-3, 0.0, 0.0, 1, 0.0)
    value = match(Z @ fit.beta - 1, group, w, mean)[0]
    return Members(Z, group, w, w, value, ~np.isnan(mean)), mean, fit, rng.integers(0, 6, M), rng


@pytest.mark.parametrize("unknown", [(), (1, 3)])
def test_model_variance_against_draws_of_slopes(unknown):
    members, mean, fit, cut, rng = _setting(unknown=unknown)
    found = mean_spread(members, cut, 6, fit)
    theta = rng.multivariate_normal([fit.intercept, *fit.beta], fit.Sigma, 4000)
    effect = np.where(np.isnan(mean), fit.t_b, 0) * rng.normal(size=(4000, 5))
    f = theta[:, 1:] @ members.Z.T + theta[:, :1] + effect[:, members.group]
    p = np.array([match(row, members.group, members.weight, mean)[0] for row in f])
    for g in range(6):
        own = cut == g
        logit = special.logit(p[:, own] @ members.weight[own] / members.weight[own].sum())
        assert found.model[g] == pytest.approx(logit.var(), rel=0.12)


def test_chance_is_that_of_persons_given_the_totals():
    # two groups of independent persons; the variance of a part given the whole, by simulation with acceptance
    rng = np.random.default_rng(0)
    p, group, cut = np.array([0.2, 0.5, 0.7, 0.4]), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    n = np.array([30, 20, 25, 40])
    members = Members(np.zeros((4, 1)), group, n.astype(float), n.astype(float), p, np.ones(2, bool))
    fit = Fit(np.zeros(1), 0.0, np.zeros((2, 2)), 0.0, 0.0, 0.0, 1, 0.0)
    found = mean_spread(members, cut, 2, fit)
    y = rng.binomial(n, p, (400_000, 4))
    totals = np.rint(n * p).astype(int)
    kept = y[(y[:, 0] + y[:, 1] == totals[:2].sum()) & (y[:, 2] + y[:, 3] == totals[2:].sum())]
    share = (kept[:, 0] + kept[:, 2]) / 55
    D = found.mean[0] * (1 - found.mean[0])
    assert found.chance[0] * D**2 == pytest.approx(share.var(), rel=0.05)
    # independent persons would vary more
    assert found.chance[0] * D**2 < 0.8 * ((n * p * (1 - p))[[0, 2]].sum() / 55**2)


def test_whole_groups_are_sure():
    members, mean, fit, _, _ = _setting()
    found = mean_spread(members, members.group, 5, fit)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    np.testing.assert_allclose(found.model + found.chance, 0, atol=1e-15)


def test_binomial_approximation():
    for n in (10.0, 40.0, 200.0):
        for p in (0.003, 0.02, 0.2, 0.5, 0.97):
            k = np.arange(0, n)
            np.testing.assert_allclose(_binomial_cdf(k, n, p), stats.binom.cdf(k, n, p), atol=0.013)


def test_share_intervals_hold_95_per_cent_of_what_the_model_draws():
    rng = np.random.default_rng(0)
    G = 4000
    center, sd, n = rng.uniform(0.005, 0.3, G), 0.5, rng.integers(50, 400, G)
    p = special.expit(special.logit(center) + sd * rng.normal(size=G))
    y = rng.binomial(n, p) / n
    low, high = share_interval(center, np.full(G, sd**2), 1 / (n * center * (1 - center)), 0.95)
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.95, abs=0.012)
    assert (low[n * center < 1] == 0).all()
    # a normal logit of the share would miss shares of none
    normal = mean_interval(center, np.sqrt(sd**2 + 1 / (n * center * (1 - center))), 0.95)
    rare = n * center < 8
    assert np.mean(((normal[0] <= y) & (y <= normal[1]))[rare]) < 0.9
    assert np.mean(((low <= y) & (y <= high))[rare]) > 0.93


def test_sure_means_have_no_width():
    np.testing.assert_array_equal(mean_interval(np.array([0.0, 1.0]), np.ones(2), 0.95), [[0, 1], [0, 1]])
