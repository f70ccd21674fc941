import numpy as np
import pytest
from scipy import linalg, optimize, special

from crosslevel.ecological.covariance import Hyperparameters, place_covariance
from crosslevel.ecological.persons import laplace as posterior_mode
from crosslevel.ecological.persons.exact import fit_question
from crosslevel.ecological.persons.laplace import find_map
from crosslevel.ecological.persons.model import Design, effects_of
from crosslevel.ecological.persons.prediction import linear_mode
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial

H = Hyperparameters(effect_variance=0.4, spatial=0.2, length=1.5, nugget=0.05)


def design_of(world):
    effects = effects_of(world.bins)
    return Design(effects.codes(world.cells.codes), effects.B, world.cells.pairs)


def log_posterior(x, design, K, likelihood):
    """Written out densely, without sweeps."""
    p = design.B.shape[1]
    beta, f = x[:p], x[p:]
    eta = (design.B @ beta)[design.codes].sum(axis=1)
    place = np.repeat(np.arange(len(f)), np.diff(design.pairs.start))
    rate = np.bincount(place, weights=design.pairs.weight * special.expit(eta[design.pairs.cell] + f[place]))
    k, n = likelihood.successes, likelihood.trials
    prior = -0.5 * beta @ beta / H.effect_variance - 0.5 * f @ linalg.solve(K, f, assume_a="pos")
    return float((special.xlogy(k, rate) + special.xlog1py(n - k, -rate)).sum() + prior)


@pytest.mark.parametrize("votes", [5, 200, 20_000])
def test_the_mode_is_where_the_dense_posterior_is_flat(votes, make_world):
    world = make_world(q=12, people=60, votes=votes, seed=3)
    design, likelihood = design_of(world), Binomial(world.successes, world.trials)
    found = find_map(design, world.terms, H, likelihood)
    K = place_covariance(world.terms, H)
    x = np.concatenate([found.beta, found.f])
    top = log_posterior(x, design, K, likelihood)
    slope = optimize.approx_fprime(x, log_posterior, 1e-6, design, K, likelihood)
    assert np.abs(slope).max() < 2e-3 * (1 + votes / 200)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            assert log_posterior(x + size * rng.normal(size=len(x)), design, K, likelihood) <= top + 1e-7


def test_none_and_all_are_fine(make_world):
    world = make_world(q=12, people=60, votes=50, seed=3)
    k = world.successes.copy()
    k[0], k[1] = 0.0, 50.0
    found = find_map(design_of(world), world.terms, H, Binomial(k, world.trials))
    assert np.isfinite(found.beta).all()
    assert np.isfinite(found.f).all()
    assert found.gradient < 1e-6


def test_a_search_cut_short_is_an_error(world, monkeypatch):
    monkeypatch.setattr(posterior_mode, "STEPS", 1)
    with pytest.raises(ConvergenceError):
        find_map(design_of(world), world.terms, H, Binomial(world.successes, world.trials))


def test_starts_agree_and_threads_change_nothing(world):
    design, likelihood = design_of(world), Binomial(world.successes, world.trials)
    first = find_map(design, world.terms, H, likelihood)
    other = find_map(design, world.terms, Hyperparameters(2.0, 0.5, 3.0, 0.3), likelihood)
    again = find_map(design, world.terms, H, likelihood, start=other, n_jobs=2)
    np.testing.assert_allclose(again.beta, first.beta, atol=1e-5)
    np.testing.assert_allclose(again.f, first.f, atol=1e-5)


def test_the_look_alike_has_the_mode_itself(world):
    design = design_of(world)
    found = find_map(design, world.terms, H, Binomial(world.successes, world.trials))
    rows = design.rows(found.J)
    mode = linear_mode(rows, found, world.terms, H)
    np.testing.assert_allclose(H.effect_variance * rows.M.T @ mode.alpha, found.beta, atol=1e-5)
    np.testing.assert_allclose(mode.f, found.J @ found.beta + found.f, atol=1e-5)


def test_effects_and_scales_are_recovered(make_world):
    world = make_world(q=200, people=150, field=0.15, seed=11)
    found = fit_question(design_of(world), world.terms, Binomial(world.successes, world.trials))
    known = effects_of(world.bins)
    effects, first = known.B @ found.linear.beta, known.first
    race = effects[first[0] : first[0] + 3]
    np.testing.assert_allclose(race - race[0], [0.0, 1.2, -0.8], atol=0.25)
    age = effects[first[1] : first[1] + 8]
    assert age[-1] - age[0] == pytest.approx(0.6 * (70 - 22) / 15, abs=0.7)
    assert found.change < 0.03
    assert 0.005 < found.hyperparameters.nugget + found.hyperparameters.spatial < 0.15


def test_the_scale_of_effects_cannot_run_away(make_world):
    """Labels that composition explains wholly: without the prior the look-alike asks for ever larger effects."""
    world = make_world(q=30, people=150, effect=(-4.0, 4.0, 0.0), slope=0.0, field=0.0, votes=1_000_000, seed=5)
    found = fit_question(design_of(world), world.terms, Binomial(world.successes, world.trials))
    assert found.hyperparameters.effect_variance < 25.0
    assert np.isfinite(found.linear.beta).all()
