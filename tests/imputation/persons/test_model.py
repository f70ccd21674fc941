import numpy as np
import pytest
from scipy import optimize, sparse, special

from crosslevel.imputation.persons import model
from crosslevel.imputation.persons.model import (
    INTERCEPT_SD,
    Groups,
    Settings,
    fit_slopes,
    inner,
    sampling_variance,
)


def _problem(P=12, C=30, K=4, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(C, K))
    W = rng.dirichlet(np.full(C, 0.3), P)
    s = np.clip(W @ special.expit(Z @ rng.normal(0, 0.7, K) - 1) + rng.normal(0, 0.02, P), 0.01, 0.99)
    n = rng.integers(200, 2000, P).astype(float)
    reach = np.array([1.0, 0.3, 1.0, 0.3])[:K]
    return Z, reach, Groups(sparse.csr_array(W), s, sampling_variance(s, n)), n


def _objective(theta, Z, reach, groups, settings):
    """Write the note's formula down once more, literally."""
    P = len(groups.mean)
    t_b = settings.slope_sd * np.sqrt(P / settings.shrinkage_groups)
    total = theta[0] ** 2 / INTERCEPT_SD**2
    for p in range(P):
        m = sum(groups.W[p, c] * special.expit(Z[c] @ theta[1:] + theta[0]) for c in range(len(Z)))
        gap = special.logit(groups.mean[p]) - special.logit(m)
        total += gap**2 / (t_b**2 + groups.variance[p])
    return total + sum(theta[1 + j] ** 2 / (settings.slope_sd * reach[j]) ** 2 for j in range(len(reach)))


def test_the_optimum_is_that_of_the_formula():
    Z, reach, groups, n = _problem()
    dense = Groups(groups.W.toarray(), groups.mean, groups.variance)
    settings = Settings()
    fit = fit_slopes(Z, reach, groups, n, settings)
    best = optimize.minimize(
        _objective, np.zeros(5), args=(Z, reach, dense, settings), method="BFGS", options={"gtol": 1e-7}
    )
    np.testing.assert_allclose([fit.intercept, *fit.beta], best.x, atol=2e-5)
    assert 2 * fit.objective == pytest.approx(best.fun, rel=1e-9)
    assert fit.gradient < 1e-8


def test_restarts_find_the_same_slopes():
    for seed in range(4):
        fit = fit_slopes(*_problem(seed=seed), Settings(n_restarts=5, seed=seed))
        assert 0 < fit.apart < 1e-5


def test_covariance_is_the_inverse_of_the_gauss_newton_hessian():
    Z, reach, groups, n = _problem()
    fit = fit_slopes(Z, reach, groups, n, Settings())
    W = groups.W.toarray()

    def predicted(theta):
        return special.logit(W @ special.expit(Z @ theta[1:] + theta[0]))

    theta, step = np.array([fit.intercept, *fit.beta]), 1e-6
    J = np.column_stack([(predicted(theta + step * e) - predicted(theta - step * e)) / (2 * step) for e in np.eye(5)])
    prior = np.diag(1 / np.array([9.0, *(0.45 * reach) ** 2]))
    A = np.diag(1 / (fit.t_b**2 + groups.variance))
    np.testing.assert_allclose(fit.Sigma, np.linalg.inv(J.T @ A @ J + prior), rtol=1e-6)


def test_group_noise_grows_with_the_number_of_groups():
    Z, reach, groups, n = _problem()
    assert fit_slopes(Z, reach, groups, n).t_b == pytest.approx(0.45 * np.sqrt(12 / 32))
    twice = Groups(sparse.vstack([groups.W] * 2).tocsr(), np.tile(groups.mean, 2), np.zeros(24))
    once = Groups(groups.W, groups.mean, np.zeros(12))
    # every group twice is no news about confounding: the same slopes, the same errors
    a, b = fit_slopes(Z, reach, once, n), fit_slopes(Z, reach, twice, np.tile(n, 2))
    np.testing.assert_allclose(a.beta, b.beta, atol=1e-8)
    np.testing.assert_allclose(a.Sigma, b.Sigma, rtol=1e-8)


def test_one_feature_keeps_the_share_the_rule_says():
    # many small differences, where the link is linear: kept = sd_b^2 / (sd_b^2 + 1/c)
    rng = np.random.default_rng(0)
    P, true = 400, 0.3
    share = np.clip(0.5 + 0.09 * rng.normal(size=P), 0, 1)
    W = np.column_stack([1 - share, share])
    Z = np.array([[-1.0], [1.0]])
    s = W @ special.expit(true * Z[:, 0])
    sd_b = (W @ Z)[:, 0].std()
    fit = fit_slopes(Z, np.ones(1), Groups(sparse.csr_array(W), s, np.zeros(P)), np.full(P, 1e6))
    assert fit.beta[0] / true == pytest.approx(sd_b**2 / (sd_b**2 + 1 / 32), rel=0.02)


def test_more_people_hardly_change_what_is_known():
    Z, reach, groups, n = _problem()
    many = Groups(groups.W, groups.mean, sampling_variance(groups.mean, 100 * n))
    a, b = (np.sqrt(np.diag(fit_slopes(Z, reach, g, n).Sigma)) for g in (groups, many))
    assert (b <= a + 1e-12).all()
    assert (b / a > 0.9).all()


def test_groups_without_a_mean_are_as_if_they_were_not_there():
    Z, reach, groups, n = _problem()
    mean = groups.mean.copy()
    mean[[2, 5]] = np.nan
    some = np.setdiff1d(np.arange(12), [2, 5])
    a = fit_slopes(Z, reach, Groups(groups.W, mean, groups.variance), n)
    b = fit_slopes(Z, reach, Groups(groups.W[some], mean[some], groups.variance[some]), n[some])
    np.testing.assert_allclose(a.beta, b.beta, atol=1e-9)
    assert a.t_b == b.t_b


def test_numbers_are_ridge_regression_and_do_not_depend_on_the_unit():
    Z, reach, groups, n = _problem()
    rng = np.random.default_rng(1)
    y = rng.normal(5, 2, 12)
    W = groups.W.toarray()
    for unit in (1.0, 7.0):  # the covariance grows with the unit, as t_b does
        fit = fit_slopes(Z, reach, Groups(groups.W, y, np.zeros(12), binary=False, unit=unit), n)
        A, ridge = W @ Z, np.diag(1 / reach**2) * 12 / 32
        A0 = A - A.mean(axis=0)
        np.testing.assert_allclose(fit.beta, np.linalg.solve(A0.T @ A0 + ridge, A0.T @ (y - y.mean())), atol=1e-8)
        assert fit.Sigma[1, 1] == pytest.approx(np.linalg.inv(A0.T @ A0 + ridge)[0, 0] * fit.t_b**2, rel=1e-6)


def test_sampling_variance_and_edges():
    s, n = np.array([0.0, 0.2, 1.0]), np.array([10.0, 100.0, 10.0])
    np.testing.assert_allclose(inner(s, n), [0.5 / 11, 0.2, 1 - 0.5 / 11])
    v = sampling_variance(s, n, np.array([np.nan, 0.02, 0.1]))
    assert v[1] == pytest.approx((0.02 / 0.16) ** 2)
    assert v[0] == pytest.approx(1 / (10 * (0.5 / 11) * (1 - 0.5 / 11)))


def test_sparse_and_dense_shares_give_the_same_slopes(monkeypatch):
    problem = _problem()
    dense = fit_slopes(*problem)
    monkeypatch.setattr(model, "DENSE", 1)
    found = fit_slopes(*problem)
    np.testing.assert_allclose(found.beta, dense.beta, atol=1e-9)
    np.testing.assert_allclose(found.Sigma, dense.Sigma, rtol=1e-8)


def test_numbers_have_a_flat_intercept_and_an_objective_of_their_own():
    """Half of the squared gaps over t_b^2 and of the squared slopes over their prior variance; nothing for the intercept."""
    Z, reach, groups, n = _problem()
    y = np.random.default_rng(1).normal(5, 2, 12)
    fit = fit_slopes(Z, reach, Groups(groups.W, y, np.full(12, 0.3), binary=False, unit=2.0), n)
    t_b = 0.45 * 2.0 * np.sqrt(12 / 32)
    assert fit.t_b == pytest.approx(t_b)
    gap = y - groups.W @ (Z @ fit.beta + fit.intercept)
    expected = 0.5 * (gap @ gap / (t_b**2 + 0.3) + np.square(fit.beta / (0.45 * 2.0 * reach)).sum())
    assert fit.objective == pytest.approx(expected, rel=1e-9)
    assert abs(gap.sum()) < 1e-8
    assert fit.steps > 3  # of the fit and three restarts
    assert fit_slopes(Z, reach, groups, n, Settings(n_restarts=0)).apart == 0.0


def test_derivatives_are_those_of_finite_differences():
    Z, _, groups, _ = _problem()
    rng = np.random.default_rng(2)
    A, theta, step = np.column_stack([np.ones(30), Z]), 0.3 * rng.normal(size=5), 1e-5
    y, weight, offset = rng.normal(size=12), rng.uniform(1, 9, 12), rng.normal(size=30)
    problem = model._Problem((model._Rows(groups.W.toarray(), A, offset, y, weight),), np.full(5, 0.7), True)
    gradient, hessian, more = problem.derivatives(theta)
    ends = [[theta + s * step * e for s in (1, -1)] for e in np.eye(5)]
    slope = [(problem.objective(a) - problem.objective(b)) / (2 * step) for a, b in ends]
    bend = [(problem.derivatives(a)[0] - problem.derivatives(b)[0]) / (2 * step) for a, b in ends]
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)
    np.testing.assert_allclose(hessian + more, bend, rtol=1e-5, atol=1e-6)
