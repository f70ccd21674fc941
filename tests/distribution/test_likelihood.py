"""The objective at a fixed penalty: derivatives, optimum, convergence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats
from tests.distribution.known_weights import label_posterior

from crosslevel.distribution.shrinkage.likelihood import (
    Problem,
    fit_map,
    map_objective,
    ridge_start,
)


def make_problem(n=80, q=4, seed=0, dense=False):
    rng = np.random.default_rng(seed)
    s, sizes = rng.uniform(0.02, 0.3, q), rng.choice([1.0, 5.0, 50.0], n)
    truth = rng.normal(0, 0.3, (n, q))
    delta = truth + rng.normal(size=(n, q)) * np.sqrt(s / sizes[:, None])
    y = truth @ rng.normal(0, 2, q) + 0.2 * rng.normal(size=n)
    Q = np.cov(rng.normal(size=(q, 30))) if dense else None
    return Problem(delta, sizes, s, y / y.std(), Q)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_the_finite_difference(dense, seed):
    problem = make_problem(seed=seed, dense=dense)
    theta = np.random.default_rng(seed).normal(0, 0.7, 7)
    _, gradient = map_objective(theta, problem, 0.4)
    numeric = optimize.approx_fprime(theta, lambda t: map_objective(t, problem, 0.4)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-4)


def test_objective_is_minus_the_log_density_and_the_penalty():
    problem = make_problem()
    a, theta = np.array([0.3, -1.0, 0.2, 0.5]), np.array([0.3, -1.0, 0.2, 0.5, 0.1, np.log(0.4), np.log(0.05)])
    xi, nu = label_posterior(problem, a, 0.1, 0.4, 0.05)
    expected = (
        -stats.norm(xi, np.sqrt(nu)).logpdf(problem.y).sum() - 0.5 * len(xi) * np.log(2 * np.pi) + 0.5 * 3 * a @ a
    )
    assert map_objective(theta, problem, 3.0)[0] == pytest.approx(expected, rel=1e-12)


def test_fit_beats_every_nearby_point_and_says_so():
    problem = make_problem(n=150)
    found = fit_map(problem, 0.1, n_searches=3)
    theta = np.concatenate([found.a, [found.b, np.log(found.sigma2), np.log(found.eta)]])
    best = map_objective(theta, problem, 0.1)[0]
    assert found.convergence.converged
    assert -max(found.convergence.values) == pytest.approx(best, rel=1e-9)
    rng = np.random.default_rng(1)
    assert all(map_objective(theta + 0.02 * rng.normal(size=7), problem, 0.1)[0] > best for _ in range(50))


def test_small_bags_are_shrunk_and_uncertain():
    problem = make_problem(n=300)
    found = fit_map(problem, 0.1)
    twice = Problem(np.ones((2, 4)), np.array([1.0, 1000.0]), problem.s, np.zeros(2))
    xi, nu = label_posterior(twice, np.abs(found.a), 0.0, found.sigma2, found.eta)
    assert xi[0] < xi[1]
    assert nu[0] > nu[1]


def test_ridge_start_solves_the_normal_equations():
    problem = make_problem(dense=True)
    a, b = ridge_start(problem, 1e9, 0.3)  # no shrinkage
    residual = problem.y - b - problem.delta @ a
    np.testing.assert_allclose(problem.delta.T @ residual, 0.3 * problem.Q @ a, atol=1e-6)
    assert residual.sum() == pytest.approx(0.0, abs=1e-9)
