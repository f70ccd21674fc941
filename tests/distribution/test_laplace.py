"""The evidence of the mean-shrinkage model: exact where it can be, close to quadrature where not, with a true gradient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats
from tests.distribution.known_weights import regression_objective

from crosslevel.distribution.shrinkage import likelihood
from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.laplace import evidence, fit_evidence
from crosslevel.distribution.shrinkage.likelihood import Problem, WeightPosterior, ridge_start
from crosslevel.numerics.evidence import Convergence


def make_problem(n=60, q=5, seed=0, sizes=(1.0, 5.0, 20.0), dense=False):
    rng = np.random.default_rng(seed)
    Q = np.cov(rng.normal(size=(q, 40))) if dense else None
    N = rng.choice(np.array(sizes), n)
    return Problem(rng.normal(size=(n, q)) * 0.1, N, rng.uniform(0.01, 0.1, q), rng.normal(size=n), Q)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_gradient_is_the_finite_difference(dense, seed):
    problem = make_problem(seed=seed, dense=dense)
    at, start = np.log([0.5, 0.01, 2.0]) + 0.5 * np.random.default_rng(seed).normal(size=3), np.zeros(6)
    found = evidence(at, problem, start)
    step = 1e-5 * np.eye(3)
    numeric = [(evidence(at + h, problem, start).value - evidence(at - h, problem, start).value) / 2e-5 for h in step]
    np.testing.assert_allclose(found.gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dense", [False, True])
def test_exact_when_every_bag_is_known_exactly(dense):
    problem = make_problem(sizes=(np.inf,), dense=dense)
    sigma2, rho2, wide = 0.7, 3.0, 1e3
    Q = np.eye(5) if problem.Q is None else problem.Q
    C = sigma2 * np.eye(60) + rho2 * problem.delta @ np.linalg.inv(Q) @ problem.delta.T
    # a flat prior of density one is a normal one of sd w, divided by its density at zero, as w grows
    normal = stats.multivariate_normal(np.zeros(60), C + wide**2 * np.ones((60, 60))).logpdf(problem.y)
    exact = normal + 0.5 * np.log(2 * np.pi * wide**2)
    assert -evidence(np.log([sigma2, 0.1, rho2]), problem, np.zeros(6)).value == pytest.approx(exact, abs=1e-4)


def test_near_quadrature_when_bags_are_small():
    rng = np.random.default_rng(3)
    N, n = rng.choice([1.0, 4.0, 30.0], 40), 40
    delta = rng.normal(0, 1, (n, 1)) + rng.normal(size=(n, 1)) * np.sqrt(0.5 / N)[:, None]
    problem = Problem(delta, N, np.array([0.5]), 0.8 * delta[:, 0] + 0.5 * rng.normal(size=n))
    sigma2, eta, rho2 = 0.3, 0.8, 2.0

    b, a = np.meshgrid(np.linspace(-1.2, 1.2, 121), np.linspace(-0.5, 2.5, 151))
    S, C = shrink_factors(problem.s, N, eta)
    xi = b[..., None] + a[..., None] * (S * delta)[:, 0]
    nu = sigma2 + a[..., None] ** 2 * C[:, 0]
    logs = stats.norm(xi, np.sqrt(nu)).logpdf(problem.y).sum(axis=2) + stats.norm(0, rho2**0.5).logpdf(a)
    exact = special.logsumexp(logs) + np.log(0.02 * 0.02)
    approximate = -evidence(np.log([sigma2, eta, rho2]), problem, np.zeros(2)).value
    assert approximate == pytest.approx(exact, abs=0.05)


def test_mode_is_the_minimum_of_the_objective():
    problem = make_problem()
    found = evidence(np.log([0.5, 0.01, 2.0]), problem, np.zeros(6))
    slope = optimize.approx_fprime(found.w, lambda w: regression_objective(w, problem, 0.5, 0.01, 0.5), 1e-6)
    np.testing.assert_allclose(slope, 0.0, atol=1e-4)


def test_ridge_start_solves_the_normal_equations():
    problem = make_problem(dense=True)
    a, b = ridge_start(problem, 1e9, 0.3)  # no shrinkage
    residual = problem.y - b - problem.delta @ a
    np.testing.assert_allclose(problem.delta.T @ residual, 0.3 * problem.Q @ a, atol=1e-6)
    assert residual.sum() == pytest.approx(0.0, abs=1e-9)


def test_fit_finds_the_truth_and_its_predictions_cover():
    rng = np.random.default_rng(0)
    n, q, eta, sigma2 = 1200, 3, 0.5, 0.05
    s, a, N = np.array([0.4, 1.0, 2.0]), np.array([0.8, -0.5, 0.4]), rng.choice([1.0, 5.0, 50.0], n)
    truth = rng.normal(0, np.sqrt(eta), (n, q))
    delta = truth + rng.normal(size=(n, q)) * np.sqrt(s / N[:, None])
    y = truth @ a + np.sqrt(sigma2) * rng.normal(size=n)
    fitted, fresh = Problem(delta[:600], N[:600], s, y[:600]), Problem(delta[600:], N[600:], s, y[600:])
    found = fit_evidence(fitted)
    assert found.convergence.converged
    np.testing.assert_allclose(found.a, a, atol=0.12)
    assert found.eta == pytest.approx(eta, rel=0.25)
    assert found.sigma2 == pytest.approx(sigma2, rel=0.4)
    mean, variance = found.scores(fresh)
    inside = np.abs(fresh.y - mean) < 1.96 * np.sqrt(variance)
    for size in (1.0, 5.0, 50.0):
        assert 0.90 < inside[fresh.sizes == size].mean() < 0.99


def test_predictive_is_the_mean_and_variance_over_weights_and_embeddings():
    """Draw the weights, then each bag's embedding given its people, then labels: as uncertain as they come."""
    rng = np.random.default_rng(0)
    root = rng.normal(0, 0.5, (3, 3))
    problem = Problem(rng.normal(size=(3, 2)), np.array([1.0, 4.0, np.inf]), np.array([0.8, 2.0]), np.zeros(3))
    ends = Convergence(True, 0.0)
    fit = WeightPosterior(np.array([0.7, -0.4]), 0.3, 0.9, 1.0, root @ root.T, 0.0, ends, sigma2=0.2)
    w = rng.multivariate_normal(np.append(fit.b, fit.a), fit.covariance, 400_000)
    noise = problem.s / problem.sizes[:, None]
    S = fit.eta / (fit.eta + noise)
    embedding = S * problem.delta + np.sqrt(S * noise) * rng.normal(size=(len(w), 3, 2))
    labels = (
        w[:, :1] + np.einsum("dik,dk->di", embedding, w[:, 1:]) + np.sqrt(fit.sigma2) * rng.normal(size=(len(w), 3))
    )
    mean, variance = fit.scores(problem)
    np.testing.assert_allclose(mean, labels.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(variance, labels.var(axis=0), rtol=0.015)


@pytest.mark.parametrize("wrong", ["size", "square"])
def test_a_wrong_variance_breaks_the_quadrature_and_the_gradient(monkeypatch, wrong):
    """Mutants: N left out of what remains unknown, or the weights not squared in the Fisher information."""
    true = likelihood.shrink_factors

    def mutant(s, sizes, eta):
        S, C = true(s, sizes, eta)
        return S, C * sizes[:, None] if wrong == "size" else np.sqrt(C)

    monkeypatch.setattr(likelihood, "shrink_factors", mutant)
    with pytest.raises(AssertionError):
        test_near_quadrature_when_bags_are_small()
