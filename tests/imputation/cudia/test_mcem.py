"""The E-step and the steps around it."""

import numpy as np
import pytest

from crosslevel.imputation.cudia.mcem import expectations, run_mcem
from crosslevel.imputation.cudia.model import Parameters
from crosslevel.imputation.cudia.posterior import MixPrior
from crosslevel.imputation.cudia.regression import eta_prior

THETA = (np.array([[-0.5, np.log(0.07)], [0.5, np.log(0.07)]]),)


@pytest.fixture
def known(two_gaussians, as_problem):
    x, _, group, s, z, _ = two_gaussians(0, groups=4, size=80)
    problem = as_problem(x, group, s)
    return problem, Parameters(THETA, np.full((4, 2), 0.5), np.array([[-0.5], [0.5]]), np.array([0.07])), z, group


def test_shares_and_their_covariance_are_those_of_drawn_clusters(known):
    problem, at, z, group = known
    prior = MixPrior.dirichlet(np.ones(2))
    found, _ = expectations(problem, at, at.pi, prior, np.random.default_rng(0), sweeps=600)
    own = np.bincount(group, z) / np.bincount(group)
    assert found.shares[:, 1] == pytest.approx(own, abs=0.12)
    assert found.shares.sum(axis=1) == pytest.approx(np.ones(4))
    # the variance of a share is that of the sum of people who could be in either cluster, and of the mix
    x = problem.X[:, 0]
    odds = np.exp(x / 0.07) * (found.pi[group, 1] / found.pi[group, 0])
    r = odds / (1 + odds)
    least = np.bincount(group, r * (1 - r)) / 80**2
    assert (found.cov[:, 1, 1] > 0.8 * least).all()
    assert (found.cov[:, 1, 1] < 6 * least).all()
    assert found.cov[:, 0, 1] == pytest.approx(-found.cov[:, 1, 1], abs=1e-12)


@pytest.mark.parametrize("likelihood", ["cudia", "count"])
def test_steps_settle_near_the_truth(known, likelihood):
    problem, at, _, _ = known
    prior = eta_prior(problem, 1.0, "mean")
    start = Parameters(at.theta, at.pi, np.array([[-0.1], [0.1]]), at.tau2)
    run = run_mcem(
        problem, start, MixPrior.dirichlet(np.ones(2)), prior, np.random.default_rng(0), likelihood=likelihood
    )
    assert run.parameters.H[:, 0] == pytest.approx([-0.5, 0.5], abs=0.15)
    assert run.drift < 4
    assert len(run.path) == 40
    assert np.array_equal(run.parameters.H, np.mean(run.path[20:], axis=0))
