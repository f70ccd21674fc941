"""What places that differ for other reasons add to intervals, and what they leave alone."""

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.data.columns import Number
from crosslevel.errors import InputError
from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.model import Parameters, Problem, log_density, plain_block
from crosslevel.imputation.cudia.places import learn_slopes, place_covariances, place_deviation
from crosslevel.imputation.cudia.posterior import responsibilities


def setting(size=1000.0, groups=30, kind="bernoulli", seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), groups)
    eta = np.array([0.1, 0.3, 0.6])
    none = np.zeros(0, dtype=np.int64)
    block = plain_block((shares @ eta)[:, None], np.full(groups, size))
    problem = Problem(
        np.zeros((0, 1)), (Gaussian("x", 0, 0.0, 1.0),), none, none, np.zeros(0), none, groups, (block,), (kind,)
    )
    at = Parameters((np.zeros((3, 2)),), shares, eta[:, None], np.array([0.04]))
    return problem, at, shares


def test_the_deviation_grows_with_the_number_of_groups_as_that_of_the_link():
    assert place_deviation("auto", 32) == pytest.approx(0.45)
    assert place_deviation("auto", 128) == pytest.approx(0.9)
    assert place_deviation(0.3, 128) == 0.3


def test_the_covariance_is_that_of_a_regression_with_this_noise():
    problem, at, shares = setting()
    s = problem.blocks[0].S[:, 0]
    noise = (0.5 * s * (1 - s)) ** 2 + s * (1 - s) / 1000  # mu (1 - mu) / N is the variance of the paper's law
    prior = 1.25 * s.mean() * (1 - s.mean())
    exact = np.linalg.inv((shares / noise[:, None]).T @ shares + np.eye(3) / prior**2)
    assert place_covariances(problem, at, shares, "cudia", 0.5, 1.25)[0] == pytest.approx(exact, rel=1e-9)


def test_neither_people_nor_the_same_groups_again_make_it_smaller():
    sd = {}
    for size in (1e3, 1e6):
        problem, at, shares = setting(size)
        sd[size] = np.sqrt(np.diag(place_covariances(problem, at, shares, "cudia", "auto", 1.25)[0]))
    assert sd[1e6] == pytest.approx(sd[1e3], rel=0.02)
    problem, at, shares = setting(1e6)
    block = problem.blocks[0]
    twice = replace(problem, n_atoms=60, blocks=(plain_block(np.tile(block.S, (2, 1)), np.tile(block.size, 2)),))
    again = place_covariances(
        twice, replace(at, pi=np.tile(shares, (2, 1))), np.tile(shares, (2, 1)), "cudia", "auto", 1.25
    )
    assert np.sqrt(np.diag(again[0])) == pytest.approx(sd[1e6], rel=1e-3)


def test_a_number_is_measured_in_deviations_between_people():
    small, large = setting(kind="gaussian"), setting(kind="gaussian")
    problem, at, shares = large
    block = problem.blocks[0]
    problem = replace(problem, blocks=(plain_block(10 * block.S, block.size),))
    at = replace(at, H=10 * at.H, tau2=100 * at.tau2)
    a = place_covariances(*small, "cudia", "auto", 1.25)[0]
    b = place_covariances(problem, at, shares, "cudia", "auto", 1.25)[0]
    assert b == pytest.approx(100 * a, rel=1e-9)


def people_of_two_groups(kind="bernoulli", size=50.0):
    """Two groups of two kinds of people each, one cluster's worth of everything."""
    X = np.array([[0.0], [1.0]])
    family = Gaussian("x", 0, 0.5, 0.25)
    cell, atom = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    weight = size * np.array([0.8, 0.2, 0.3, 0.7])
    block = plain_block([[0.3], [0.5]], [size, size])
    problem = Problem(X, (family,), cell, atom, weight, weight.astype(np.int64), 2, (block,), (kind,))
    theta = (np.array([[0.0, 0.0], [1.0, 0.0]]),)
    return problem, Parameters(theta, np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([[0.2], [0.7]]), np.array([0.1]))


def test_slopes_are_as_open_as_the_posterior_of_the_link_at_the_same_probabilities():
    problem, at = people_of_two_groups()
    shares = np.array([[0.6, 0.4], [0.4, 0.6]])
    found = learn_slopes(problem, [Number("x")], at, shares, "cudia", 0.3)
    r = responsibilities(log_density(problem, at.theta), at.pi, problem.cell, problem.atom)
    p = (r @ at.H)[:, 0]
    z = found.design.matrix(problem.X)[problem.cell, 0]
    w = problem.weight
    precision = np.diag([1 / 9, 1 / 0.45**2])
    for g in range(2):
        own = problem.atom == g
        N, m = w[own].sum(), np.average(p[own], weights=w[own])
        J = np.array([(w * p * (1 - p) * v)[own].sum() for v in (np.ones(4), z)]) / (N * m * (1 - m))
        mu = shares[g] @ at.H[:, 0]
        v = mu * (1 - mu) / 50 / (m * (1 - m)) ** 2
        precision += np.outer(J, J) / (0.3**2 + v)
    assert found.Sigma[0] == pytest.approx(np.linalg.inv(precision)[1:, 1:], rel=1e-9)


def test_draws_have_the_variance_of_the_slopes():
    problem, at = people_of_two_groups()
    found = learn_slopes(problem, [Number("x")], at, at.pi, "cudia", "auto")
    draws = np.stack(list(found.draws(problem.X, 4000, np.random.default_rng(0))))[:, :, 0]
    z = found.design.matrix(problem.X)
    assert draws.std(axis=0) == pytest.approx(np.sqrt(np.diag(z @ found.Sigma[0] @ z.T)), rel=0.05)
    assert found.Sigma[0][0, 0] < 0.45**2


def test_slopes_of_a_number_are_in_its_units():
    problem, at = people_of_two_groups("gaussian")
    a = learn_slopes(problem, [Number("x")], at, at.pi, "cudia", "auto").Sigma[0]
    tenfold = replace(problem, blocks=(plain_block([[3.0], [5.0]], [50.0, 50.0]),))
    b = learn_slopes(
        tenfold, [Number("x")], replace(at, H=10 * at.H, tau2=100 * at.tau2), at.pi, "cudia", "auto"
    ).Sigma[0]
    assert b == pytest.approx(100 * a, rel=1e-9)


def test_more_people_leave_slopes_as_open_as_they_are():
    few, many = (
        learn_slopes(p, [Number("x")], at, at.pi, "cudia", "auto").Sigma[0]
        for p, at in (people_of_two_groups(size=s) for s in (1e4, 1e8))
    )
    assert many == pytest.approx(few, rel=0.05)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    mix = rng.random(24)
    place = np.repeat(np.arange(24), 60)
    z = rng.random(len(place)) < mix[place]
    x = np.where(rng.random(len(place)) < 0.85, z, ~z).astype(int)
    u = (rng.random(len(place)) < np.where(z, 0.6, 0.1)).astype(float)
    return {"x": x, "w": rng.integers(0, 3, len(place))}, place, np.bincount(place, u) / 60


def test_intervals_widen_and_estimates_stay(people):
    X, place, s = people
    wide = CUDIA(2, method="two_stage", n_draws=60).fit(X, place, s)
    trusting = CUDIA(2, method="two_stage", n_draws=60, place_sd=0.0).fit(X, place, s)
    assert np.array_equal(wide.transform(X, place), trusting.transform(X, place))
    a, b = (m.estimate("x", X, place, n_draws=60) for m in (wide, trusting))
    assert np.array_equal(a["estimate"], b["estimate"])
    assert ((a["conf_high"] - a["conf_low"]) > 1.5 * (b["conf_high"] - b["conf_low"])).all()
    assert a.diagnostics["place_sd"] == pytest.approx(0.45 * np.sqrt(24 / 32))
    assert not any("far too narrow" in w for w in a.warnings)
    assert any("far too narrow" in w for w in b.warnings)
    assert any("far too narrow" in w for w in trusting.clusters().warnings)
    assert (wide.clusters()["std_error"] > trusting.clusters()["std_error"]).all()
    for draw in wide.sample(X, place, n_draws=5):
        assert np.bincount(place, draw[:, 0]) / 60 == pytest.approx(s, abs=1e-10)


def test_the_posterior_itself_is_there_when_the_model_is_trusted(people):
    X, place, s = people
    model = CUDIA(2, method="gibbs", n_draws=80, place_sd=0.0).fit(X, place, s)
    table = model.clusters()
    assert table["std_error"] == pytest.approx(model._draws.H[:, :, 0].std(axis=0))
    assert (model.set_params(place_sd="auto").clusters()["std_error"] > table["std_error"]).all()


@pytest.mark.parametrize(
    "value",
    ["atuo", -0.1, True, np.inf],
)
def test_bad_deviations_get_a_sentence(people, value):
    with pytest.raises(InputError):
        CUDIA(2, place_sd=value).fit(*people)
