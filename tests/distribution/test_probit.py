"""Classification: the closed form against quadrature, derivatives, and the corrected sign of the penalty."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from tests.distribution.known_weights import label_posterior, probit_objective

from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.likelihood import Problem, WeightPosterior
from crosslevel.distribution.shrinkage.probit import (
    fit_probit,
    probit_evidence,
    probit_probability,
)
from crosslevel.numerics.evidence import Convergence


def make_problem(n=100, q=4, seed=0, dense=False):
    rng = np.random.default_rng(seed)
    s, N = rng.uniform(0.02, 0.3, q), rng.choice([1.0, 5.0, 50.0], n)
    truth = rng.normal(0, 0.3, (n, q))
    delta = truth + rng.normal(size=(n, q)) * np.sqrt(s / N[:, None])
    y = np.where(truth @ rng.normal(0, 4, q) + rng.normal(size=n) > 0.1, 1.0, -1.0)
    return Problem(delta, N, s, y, np.cov(rng.normal(size=(q, 30))) if dense else None)


@pytest.mark.parametrize("xi", [-3.0, 1.4])
@pytest.mark.parametrize("variance", [1e-6, 4.0])
def test_predictive_is_the_integral_over_the_latent_score(xi, variance):
    sd = np.sqrt(variance)
    middle = [-xi / sd] if abs(xi / sd) < 12 else None  # where Phi turns, however steeply
    by_hand = integrate.quad(
        lambda t: special.ndtr(xi + sd * t) * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi),
        -12,
        12,
        epsabs=1e-12,
        points=middle,
    )[0]
    assert probit_probability(np.array(xi), np.array(variance)) == pytest.approx(by_hand, abs=1e-8)


def test_whole_predictive_of_a_bag_is_the_integral_over_its_embedding():
    """Monte Carlo over the embedding's own posterior, coordinate by coordinate."""
    problem, a, eta = make_problem(n=3), np.array([2.0, -1.0, 3.0, 0.5]), 0.05
    xi, V = label_posterior(problem, a, 0.2, 0.0, eta)
    rng = np.random.default_rng(0)
    noise = problem.s / problem.sizes[:, None]
    sd, S = np.sqrt(1 / (1 / eta + 1 / noise)), eta / (eta + noise)
    scores = 0.2 + (S * problem.delta + sd * rng.normal(size=(200_000, 3, 4))) @ a
    np.testing.assert_allclose(probit_probability(xi, V), stats.norm.cdf(scores).mean(axis=0), atol=4e-3)


def test_latent_score_is_as_uncertain_as_weights_and_embedding_make_it():
    rng = np.random.default_rng(0)
    root = rng.normal(0, 0.5, (3, 3))
    problem = Problem(rng.normal(size=(3, 2)), np.array([1.0, 4.0, np.inf]), np.array([0.8, 2.0]), np.ones(3))
    fit = WeightPosterior(np.array([0.7, -0.4]), 0.3, 0.9, 1.0, root @ root.T, 0.0, Convergence(True, 0.0))
    w = rng.multivariate_normal(np.append(fit.b, fit.a), fit.covariance, 400_000)
    noise = problem.s / problem.sizes[:, None]
    S = fit.eta / (fit.eta + noise)
    embedding = S * problem.delta + np.sqrt(S * noise) * rng.normal(size=(len(w), 3, 2))
    score = w[:, :1] + np.einsum("dik,dk->di", embedding, w[:, 1:])
    mean, variance = fit.scores(problem)
    np.testing.assert_allclose(mean, score.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(variance, score.var(axis=0), rtol=0.015)


@pytest.mark.parametrize("dense", [False, True])
def test_gradient_is_the_finite_difference(dense):
    problem = make_problem(dense=dense)
    theta = np.random.default_rng(1).normal(0, 0.7, 6)
    _, gradient = probit_objective(theta, problem, 0.4)
    numeric = optimize.approx_fprime(theta, lambda t: probit_objective(t, problem, 0.4)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-4)


def test_the_penalty_holds_the_weights_back():
    """The paper prints the prior's term with the sign that would reward large weights."""
    problem = make_problem()
    theta = np.array([0.0, 1.0, 1.0, 1.0, 1.0, np.log(0.1)])
    assert probit_objective(theta, problem, 2.0)[0] > probit_objective(theta, problem, 1.0)[0]
    sizes = [
        np.abs(probit_evidence(np.log([0.1, rho2]), problem, np.zeros(5))[1][1:]).sum() for rho2 in (0.1, 1.0, 10.0)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_mode_is_stationary_and_independent_of_the_start():
    problem = make_problem(dense=True)
    at = np.log([0.05, 3.0])
    value, w, _ = probit_evidence(at, problem, np.zeros(5))
    gradient = probit_objective(np.append(w, at[0]), problem, 1 / 3.0)[1]
    np.testing.assert_allclose(gradient[:-1], 0.0, atol=1e-6)
    assert probit_evidence(at, problem, w + 0.3)[0] == pytest.approx(value, abs=1e-8)


def test_evidence_is_near_quadrature():
    rng = np.random.default_rng(3)
    N, n = rng.choice([1.0, 4.0, 30.0], 60), 60
    delta = rng.normal(0, 1, (n, 1)) + rng.normal(size=(n, 1)) * np.sqrt(0.5 / N)[:, None]
    problem = Problem(delta, N, np.array([0.5]), np.where(delta[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0))

    b, a = np.meshgrid(np.linspace(-2, 2, 121), np.linspace(-1, 6, 141))
    S, C = shrink_factors(problem.s, N, 0.8)
    m = (b[..., None] + a[..., None] * (S * delta)[:, 0]) / np.sqrt(1 + a[..., None] ** 2 * C[:, 0])
    logs = special.log_ndtr(problem.y * m).sum(axis=2) + stats.norm(0, 2**0.5).logpdf(a) + stats.norm(0, 2).logpdf(b)
    exact = special.logsumexp(logs) + np.log(4 / 120 * 7 / 140)
    assert -probit_evidence(np.log([0.8, 2.0]), problem, np.zeros(2))[0] == pytest.approx(exact, abs=0.1)


def test_fit_is_calibrated_on_fresh_bags_of_every_size():
    problem = make_problem(n=1600, seed=2)
    half = [Problem(problem.delta[k::2], problem.sizes[k::2], problem.s, problem.y[k::2]) for k in (0, 1)]
    found = fit_probit(half[0])
    assert found.convergence.converged
    p = probit_probability(*found.scores(half[1]))
    for size in (1.0, 5.0, 50.0):
        one = half[1].sizes == size
        assert p[one].mean() == pytest.approx((half[1].y[one] > 0).mean(), abs=0.07)
    assert np.ptp(p[half[1].sizes == 1.0]) < np.ptp(p[half[1].sizes == 50.0])
