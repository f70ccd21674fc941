"""The aggregate form: slopes against differences, the mode against a general optimizer, and predictions of places."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special

from crosslevel.ecological.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.ecological.persons.aggregate import (
    EFFECT_VARIANCE,
    _Problem,
    explained_variance,
    fit_aggregate,
    new_logits,
    predict_logits,
    prior_left,
)
from crosslevel.ecological.persons.model import Design, effects_of, level_shares
from crosslevel.numerics.laplace import Binomial

SCALES = Hyperparameters(0.2, 0.1, 1.0, 0.05)


@pytest.fixture(scope="module")
def design(world):
    effects = effects_of(world.bins)
    return Design(effects.codes(world.cells.codes), effects.B, world.cells.pairs)


@pytest.fixture(scope="module")
def problem(world, design):
    rate = world.successes / world.trials
    noise = 1 / (world.trials * rate * (1 - rate))
    return _Problem(design, world.terms, special.logit(rate), noise, 0.3)


@pytest.fixture(scope="module")
def fit(world, design):
    return fit_aggregate(design, world.terms, Binomial(world.successes, world.trials), world.cells.total)


def test_slopes_and_curvature_are_those_of_differences(problem, design):
    rng = np.random.default_rng(0)
    beta = 0.5 * rng.normal(size=design.B.shape[1])
    logit, G = problem.logits(beta)
    force = rng.normal(size=len(logit))
    bend = problem._bend(beta, logit, G, force)
    for j in range(0, len(beta), 3):
        step = 1e-5 * np.eye(len(beta))[j]
        up, down = problem.logits(beta + step), problem.logits(beta - step)
        np.testing.assert_allclose(G[:, j], (up[0] - down[0]) / 2e-5, atol=1e-8)
        np.testing.assert_allclose(bend[j], force @ (up[1] - down[1]) / 2e-5, atol=1e-7)


def test_the_mode_is_that_of_a_general_optimizer(problem, design):
    C = place_covariance(problem.terms, SCALES) + np.diag(problem.noise)

    def loss(beta):
        r = problem.z - problem.logits(beta)[0]
        return 0.5 * r @ np.linalg.solve(C, r) + 0.5 * beta @ beta / SCALES.effect_variance

    p = design.B.shape[1]
    found = problem.mode(SCALES, np.zeros(p))
    other = optimize.minimize(loss, np.zeros(p), method="BFGS", options={"gtol": 1e-6})
    assert loss(found.beta) <= other.fun + 1e-8
    np.testing.assert_allclose(found.beta, other.x, atol=1e-4)
    assert found.decrement < 1e-6


def test_covariance_is_the_dense_formula(world, design):
    counted = Binomial(world.successes, world.trials)
    fit = fit_aggregate(design, world.terms, counted, world.cells.total, fixed=SCALES)
    C = place_covariance(world.terms, SCALES) + np.diag(fit.noise)
    wanted = np.linalg.inv(fit.slopes.T @ np.linalg.solve(C, fit.slopes) + np.eye(len(fit.beta)) / 0.2)
    np.testing.assert_allclose(fit.covariance, wanted, rtol=1e-7, atol=1e-10)
    assert (fit.search.rounds, fit.hyperparameters) == (0, SCALES)


def test_scales_stand_where_the_evidence_is_highest(world, design, fit):
    problem = _Problem(design, world.terms, fit.z, fit.noise, fit.level)
    best = problem.mode(fit.hyperparameters, fit.beta).log_evidence
    assert best == pytest.approx(fit.log_evidence, abs=1e-6)
    assert fit.hyperparameters.effect_variance == EFFECT_VARIANCE
    for name in ("spatial", "nugget", "length"):
        for factor in (1.3, 1 / 1.3):
            moved = replace(fit.hyperparameters, **{name: factor * getattr(fit.hyperparameters, name)})
            assert problem.mode(moved, fit.beta).log_evidence < best + 0.02


def test_the_evidence_of_scales_has_the_slopes_of_differences(world, design, fit, monkeypatch):
    from crosslevel.ecological.persons import aggregate

    seen = {}
    monkeypatch.setattr(
        aggregate, "maximize", lambda f, starts, *rest, **more: seen.update(f=f, x=starts[0]) or (1 / 0)
    )
    problem = _Problem(design, world.terms, fit.z, fit.noise, fit.level)
    with pytest.raises(ZeroDivisionError):
        problem.better_scales(problem.mode(fit.hyperparameters, fit.beta), fit.hyperparameters)
    _, slope = seen["f"](seen["x"])
    for j in range(len(slope)):
        step = 1e-5 * np.eye(len(slope))[j]
        change = (seen["f"](seen["x"] + step)[0] - seen["f"](seen["x"] - step)[0]) / 2e-5
        assert slope[j] == pytest.approx(change, abs=1e-5)


def test_effects_are_found(world, design, fit):
    effects = design.B @ fit.beta
    levels = world.bins.describe()["race"]  # after the bins of age
    race = np.array([effects[8 + levels.index(name)] for name in "abc"])
    assert race - race[0] == pytest.approx([0.0, 1.2, -0.8], abs=0.45)
    left = prior_left(fit, design.B, np.ones(len(design.B)), [(8, 11), (11, 13)])
    assert left[0] < 0.2 < left[1] <= 1.0


def test_a_place_that_was_not_asked_tells_nothing(world, design, fit):
    k, n = world.successes.copy(), world.trials.copy()
    k[3] = n[3] = 0.0
    without = fit_aggregate(design, world.terms, Binomial(k, n), world.cells.total, fixed=fit.hyperparameters)
    k[3] = 0.0
    assert np.isfinite(without.beta).all()
    kept = np.delete(np.arange(world.terms.n_places), 3)
    counted, people = Binomial(k[kept], n[kept]), world.cells.total[kept]
    rest = fit_aggregate(design.take(kept), world.terms.take(kept), counted, people, fit.hyperparameters)
    np.testing.assert_allclose(without.beta, rest.beta, atol=1e-5)


def test_places_are_predicted_by_the_normal_formula(world, design, fit):
    q = world.terms.n_places
    at = predict_logits(fit, world.terms, np.arange(q), fit.logit, fit.slopes, np.zeros((q, 0)), np.arange(q))
    C = 0.2 * fit.slopes @ fit.slopes.T + place_covariance(world.terms, fit.hyperparameters)
    A = np.linalg.inv(C + np.diag(fit.noise))
    offset = fit.logit - fit.slopes @ fit.beta
    np.testing.assert_allclose(at.mean, offset + C @ A @ (fit.z - offset), atol=1e-8)
    np.testing.assert_allclose(at.variance, np.diag(C - C @ A @ C), atol=1e-8)
    logit, G = new_logits(fit, design)
    np.testing.assert_allclose(logit, fit.logit, atol=1e-12)
    np.testing.assert_allclose(G, fit.slopes, atol=1e-12)


def test_a_contextual_variance_of_any_size_converges(world, design):
    shares = level_shares(design.pairs, design.codes, len(design.B))
    counted = Binomial(world.successes, world.trials)
    for value in (0.03, 0.3, 3.0):
        context = np.sqrt(value) * (shares - shares.mean(axis=0)) @ design.B
        fit = fit_aggregate(replace(design, context=context), world.terms, counted, world.cells.total)
        assert fit.search.decrement < 1e-5
        assert fit.search.change <= 0.01


def test_explained_variance_falls_with_noise():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([2.0, 2.0, 2.0], 300)
    z = shares @ [1.0, 0.0, -1.0]
    found = [explained_variance(z + noise * z.std() * rng.normal(size=300), shares) for noise in (0.0, 0.5, 1.0, 3.0)]
    assert found == sorted(found, reverse=True)
    assert found[2] == pytest.approx(0.5, abs=0.12)


def test_a_plane_without_field_needs_no_coordinates(world, design):
    terms = Terms(world.terms.n_places, None, None, "plane", True, None)
    fit = fit_aggregate(design, terms, Binomial(world.successes, world.trials), world.cells.total)
    assert fit.hyperparameters.spatial == 0.0 < fit.hyperparameters.nugget
