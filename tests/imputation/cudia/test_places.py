"""What places that differ for other reasons add to intervals, and what they leave alone."""

import numpy as np
import pytest
from tests.imputation.cudia.worlds import gaussian, make_problem, plain_block
from tests.imputation.nouns import people_of, places_of

from crosslevel.data.columns import Number
from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.cudia.impute import learn_slopes, place_covariances, place_deviation
from crosslevel.imputation.cudia.mixture import make_prior, responsibilities
from crosslevel.imputation.cudia.model import Fit, Parameters


def setting(size=1000.0, groups=30, *, binary=True, unit=1.0, times=1):
    rng = np.random.default_rng(0)
    shares = np.tile(rng.dirichlet(np.ones(3), groups), (times, 1))
    eta = unit * np.array([0.1, 0.3, 0.6])
    problem = make_problem([plain_block((shares @ eta)[:, None], np.full(len(shares), size))], [binary])
    at = Parameters((np.zeros((3, 2)),), shares, eta[:, None], np.array([0.04 * unit**2]))
    return problem, Fit(at, make_prior(problem, np.ones(3)), shares, {})


def test_the_deviation_grows_with_the_number_of_groups_as_that_of_the_link():
    assert place_deviation("auto", 32) == pytest.approx(0.45)
    assert place_deviation("auto", 128) == pytest.approx(0.9)
    assert place_deviation(0.3, 128) == 0.3


def test_the_covariance_is_that_of_a_regression_with_this_noise():
    problem, fit = setting()
    s = problem.blocks[0].S[:, 0]
    noise = (0.5 * s * (1 - s)) ** 2 + s * (1 - s) / 1000  # mu (1 - mu) / N is the variance of the paper's law
    prior = 1.25 * s.mean() * (1 - s.mean())
    exact = np.linalg.inv((fit.shares / noise[:, None]).T @ fit.shares + np.eye(3) / prior**2)
    assert place_covariances(problem, fit, 0.5)[0] == pytest.approx(exact, rel=1e-9)


def test_neither_people_nor_the_same_groups_again_make_it_smaller():
    one, many, twice = (
        np.sqrt(np.diag(place_covariances(*setting(size, times=times), "auto")[0]))
        for size, times in ((1e3, 1), (1e6, 1), (1e6, 2))
    )
    assert many == pytest.approx(one, rel=0.02)
    assert twice == pytest.approx(many, rel=1e-3)


def test_a_number_is_measured_in_deviations_between_people():
    small, large = (place_covariances(*setting(binary=False, unit=unit), "auto")[0] for unit in (1.0, 10.0))
    assert large == pytest.approx(100 * small, rel=1e-9)


def people_of_two_groups(*, binary=True, size=50.0, unit=1.0):
    """Two groups of two kinds of people each, one cluster's worth of everything."""
    weight, shares = size * np.array([0.8, 0.2, 0.3, 0.7]), np.array([[0.6, 0.4], [0.4, 0.6]])
    block, family = plain_block([[0.3 * unit], [0.5 * unit]], [size, size]), gaussian(center=0.5, variance=0.25)
    problem = make_problem([block], [binary], np.array([[0.0], [1.0]]), [0, 0, 1, 1], weight, (family,))
    theta = (np.array([[0.0, 0.0], [1.0, 0.0]]),)
    at = Parameters(theta, shares, unit * np.array([[0.2], [0.7]]), np.array([0.1 * unit**2]))
    return problem, Fit(at, make_prior(problem, np.ones(2)), shares, {})


def slopes_of(problem, fit, place_sd="auto"):
    return learn_slopes(problem, fit, [Number("x")], place_sd)


def test_slopes_are_as_open_as_the_posterior_of_the_link_at_the_same_probabilities():
    problem, fit = people_of_two_groups()
    at, found = fit.parameters, slopes_of(problem, fit, 0.3)
    p = (responsibilities(problem.log_density(at.theta), at.pi, problem.cell, problem.atom) @ at.H)[:, 0]
    z, w = found.scores.matrix(problem.X)[problem.cell, 0], problem.weight
    precision = np.diag([1 / 9, 1 / 0.45**2])
    for g in range(2):
        own = problem.atom == g
        N, m = w[own].sum(), np.average(p[own], weights=w[own])
        J = np.array([(w * p * (1 - p) * v)[own].sum() for v in (np.ones(4), z)]) / (N * m * (1 - m))
        mu = fit.shares[g] @ at.H[:, 0]
        v = mu * (1 - mu) / 50 / (m * (1 - m)) ** 2
        precision += np.outer(J, J) / (0.3**2 + v)
    assert found.Sigma[0] == pytest.approx(np.linalg.inv(precision)[1:, 1:], rel=1e-9)


def test_draws_have_the_variance_of_the_slopes():
    problem, fit = people_of_two_groups()
    found = slopes_of(problem, fit)
    endless = found.draws(problem.X, np.random.default_rng(0))
    draws = np.stack([next(endless) for _ in range(4000)])[:, :, 0]
    z = found.scores.matrix(problem.X)
    assert draws.std(axis=0) == pytest.approx(np.sqrt(np.diag(z @ found.Sigma[0] @ z.T)), rel=0.05)
    assert found.Sigma[0][0, 0] < 0.45**2


def test_slopes_of_a_number_are_in_its_units_and_more_people_leave_them_open():
    a, b = (slopes_of(*people_of_two_groups(binary=False, unit=unit)).Sigma[0] for unit in (1.0, 10.0))
    assert b == pytest.approx(100 * a, rel=1e-9)
    few, many = (slopes_of(*people_of_two_groups(size=size)).Sigma[0] for size in (1e4, 1e8))
    assert many == pytest.approx(few, rel=0.05)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    mix = rng.random(24)
    place = np.repeat(np.arange(24), 60)
    z = rng.random(len(place)) < mix[place]
    x = np.where(rng.random(len(place)) < 0.85, z, ~z).astype(int)
    u = (rng.random(len(place)) < np.where(z, 0.6, 0.1)).astype(float)
    people = people_of({"x": x, "w": rng.integers(0, 3, len(place))}, place)
    return people, np.bincount(place, u) / 60, place


def test_intervals_widen_and_estimates_stay(people):
    known, s, place = people
    wide, trusting = (CUDIA(2, method="two_stage", place_sd=sd).fit(known, places_of(s)) for sd in ("auto", 0.0))
    assert wide.transform(known).equals(trusting.transform(known))
    a, b = (m.estimate("x", n_draws=60) for m in (wide, trusting))
    assert np.array_equal(a["estimate"], b["estimate"])
    assert ((a["conf_high"] - a["conf_low"]) > 1.5 * (b["conf_high"] - b["conf_low"])).all()
    assert a.diagnostics["place_sd"] == pytest.approx(0.45 * np.sqrt(24 / 32))
    assert not any("far too narrow" in w for w in a.warnings)
    assert any("far too narrow" in w for w in b.warnings)
    assert any("far too narrow" in w for w in trusting.clusters().warnings)
    assert (wide.clusters()["std_error"] > trusting.clusters()["std_error"]).all()
    for draw in wide.sample(known, n_draws=5):
        assert np.bincount(place, draw[:, 0]) / 60 == pytest.approx(s, abs=1e-10)
