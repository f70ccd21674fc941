"""The Laplace approximation and the sampler, each judged by the other and by plain arithmetic."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import linalg, optimize, special, stats

from crosslevel.ecological.covariance import Hyperparameters, place_covariance
from crosslevel.ecological.persons.exact import fit_question, points_of, priors
from crosslevel.ecological.persons.laplace import find_map, laplace, start_mode
from crosslevel.ecological.persons.model import Design, composition, effects_of
from crosslevel.ecological.persons.nuts import log_posterior, sample_posterior
from crosslevel.ecological.persons.subgroup_draws import draw_effects
from crosslevel.ecological.persons.sweeps import level_rates, place_effects, probabilities, shifts
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial
from crosslevel.numerics.nuts import double_precision

H = Hyperparameters(effect_variance=0.4, spatial=0.2, length=1.5, nugget=0.05)
PROBLEMS = [
    {"q": 25, "people": 80, "votes": 300, "seed": 1},
    {"q": 40, "people": 60, "votes": 20_000, "seed": 2},
    {"q": 20, "people": 60, "votes": 2_000, "seed": 3, "effect": (0.0, 0.3, -0.3), "slope": 0.2},
]


def design_of(world, contextual_variance=0.0):
    effects = effects_of(world.bins)
    codes = effects.codes(world.cells.codes)
    context = (
        np.sqrt(contextual_variance) * composition(world.cells.pairs, world.cells.total, codes, effects.B)
        if contextual_variance
        else None
    )
    return Design(codes, effects.B, world.cells.pairs, context)


def race_rates(world, design, beta, u):
    """Give the national rate of each race in every draw, after the shift to the totals."""
    eta = design.eta(beta)
    p = probabilities(design.pairs, eta, shifts(design.pairs, eta, world.successes / world.trials, u))
    race, weight = world.cells.codes[:, 0][design.pairs.cell], design.pairs.weight
    return np.stack([p[:, race == g] @ weight[race == g] / weight[race == g].sum() for g in range(3)], axis=1)


def compared(make_world, problem, n=4000, **options):
    """Give differences of means in posterior standard deviations, and ratios of standard deviations: Laplace against NUTS."""
    world = make_world(**problem)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    fit = fit_question(design, world.terms, counted)
    sampled = sample_posterior(design, world.terms, counted, fit, **options)
    drawn = draw_effects(fit, world.terms, n, np.random.default_rng(0))
    ours, theirs = (race_rates(world, design, *d) for d in ((drawn.beta, drawn.u), (sampled.beta, sampled.f)))
    return (
        (ours.mean(axis=0) - theirs.mean(axis=0)) / theirs.std(axis=0),
        ours.std(axis=0) / theirs.std(axis=0),
        sampled,
    )


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_laplace_agrees_with_the_sampler(problem, make_world):
    off, ratio, sampled = compared(make_world, problem)
    assert sampled.diagnostics.converged
    assert np.abs(off).max() < 0.3
    assert 0.8 < ratio.min() <= ratio.max() < 1.2


def test_laplace_agrees_with_a_short_run_of_the_sampler(make_world):
    """Where the highest point of effects and place effects is off by more than one standard deviation."""
    off, ratio, sampled = compared(
        make_world, PROBLEMS[1], n_chains=2, n_warmup=200, n_draws=250, max_rounds=1, allow_unconverged=True
    )
    assert sampled.diagnostics.divergences == 0
    assert np.abs(off).max() < 0.5
    assert 0.7 < ratio.min() <= ratio.max() < 1.35


def test_progress_counts_the_draws_and_moves_none(make_world):
    world = make_world(q=12, people=40, votes=200, seed=3)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    fit = fit_question(design, world.terms, counted, fixed=H)
    short = {"n_chains": 2, "n_warmup": 20, "n_draws": 15, "max_rounds": 2, "allow_unconverged": True}
    heard = []
    quiet = sample_posterior(design, world.terms, counted, fit, **short)
    told = sample_posterior(design, world.terms, counted, fit, **short, progress=lambda *at: heard.append(at))
    for name in ("beta", "f", "logs", "rate"):
        np.testing.assert_array_equal(getattr(told, name), getattr(quiet, name))
    assert heard[0] == (0, None)
    assert heard[-1][0] == heard[-1][1] >= 35
    assert all(later in (before + 1, 0) for (before, _), (later, _) in pairwise(heard))


@pytest.mark.slow
def test_a_sampler_cut_short_is_an_error(make_world):
    world = make_world(q=12, people=40, votes=200, seed=3)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    fit = fit_question(design, world.terms, counted, fixed=H)
    with pytest.raises(ConvergenceError):
        sample_posterior(design, world.terms, counted, fit, n_chains=2, n_warmup=20, n_draws=20, max_rounds=1)


def dense(x, design, terms, counted, logs):
    """Write the log posterior of (beta, f) and log scales out, without sweeps and without jax."""
    p, h = design.B.shape[1], dict(zip(terms.names, np.exp(logs), strict=True))
    beta, f = x[:p], x[p:]
    place = np.repeat(np.arange(len(f)), np.diff(design.pairs.start))
    eta = (design.B @ beta)[design.codes].sum(axis=1)
    rate = np.bincount(place, weights=design.pairs.weight * special.expit(eta[design.pairs.cell] + f[place]))
    K = place_covariance(terms, Hyperparameters(**h)) + 1e-9 * np.eye(len(f))
    if design.context is not None:
        K += h["effect_variance"] * design.context @ design.context.T
    seen = special.xlogy(counted.successes, rate) + special.xlog1py(counted.trials - counted.successes, -rate)
    known = priors(terms)
    value = seen.sum() + stats.multivariate_normal(np.zeros(len(f)), K).logpdf(f)
    value += stats.norm.logpdf(beta, scale=np.sqrt(h["effect_variance"])).sum()
    return value + sum(stats.norm.logpdf(x, *known[n]) for n, x in zip(terms.names, logs, strict=True))


@pytest.mark.parametrize("contextual_variance", [0.0, 0.5])
def test_the_sampled_density_and_its_slopes_are_those_of_plain_arithmetic(contextual_variance, make_world):
    jax = pytest.importorskip("jax")
    world = make_world(q=8, people=40, votes=500, seed=4)
    design, counted, terms = design_of(world, contextual_variance), Binomial(world.successes, world.trials), world.terms
    rng = np.random.default_rng(0)
    p, logs = design.B.shape[1], np.log([0.4, 0.2, 1.5, 0.05])
    points = [0.3 * rng.normal(size=p + 8) for _ in range(2)]
    with double_precision():
        density = log_posterior(design, terms, counted, jax)
        values = [float(density(x[:p], x[p:], logs)) for x in points]
        slopes = jax.grad(lambda x, s: density(x[:p], x[p:], s), argnums=(0, 1))(points[0], logs)
        slopes = np.concatenate([np.asarray(v) for v in slopes])
    expected = [dense(x, design, terms, counted, logs) for x in points]
    assert values[1] - values[0] == pytest.approx(expected[1] - expected[0], rel=1e-9)
    both = np.concatenate([points[0], logs])
    numeric = optimize.approx_fprime(both, lambda v: dense(v[: p + 8], design, terms, counted, v[p + 8 :]), 1e-6)
    np.testing.assert_allclose(slopes, numeric, atol=2e-3 * np.abs(numeric).max())


@pytest.mark.parametrize("votes", [20, 2_000])
def test_the_tilted_mode_is_flat_and_its_curvature_exact(votes, make_world):
    world = make_world(q=12, people=60, votes=votes, seed=3)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    tilt, K = np.random.default_rng(0).uniform(size=12), place_covariance(world.terms, H)
    found = find_map(design, world.terms, H, counted, tilt=tilt)
    p = len(found.beta)

    def height(x):
        eta, level = design.eta(x[:p]), x[p:]
        f = place_effects(design.pairs, eta, special.expit(level), found.f)
        at = level_rates(design.pairs, eta, f, design.codes, len(design.B))
        prior = -0.5 * x[:p] @ x[:p] / H.effect_variance - 0.5 * f @ linalg.solve(K, f, assume_a="pos")
        return counted.slopes(level).value + prior - tilt @ np.log(at.slope / (at.rate * (1 - at.rate)))

    x = np.concatenate([found.beta, found.level])
    slope = optimize.approx_fprime(x, height, 1e-6)
    assert np.abs(slope).max() < 1e-3
    assert found.height == pytest.approx(height(x) + tilt @ np.log(found.slope))
    step = 1e-3 * np.eye(len(x))
    expected = found.inner + found.J.T @ linalg.solve(K, found.J, assume_a="pos")
    for i, j in ((0, 0), (1, 4), (5, 7), (p - 1, p - 1)):
        second = height(x + step[i] + step[j]) - height(x + step[i] - step[j])
        second += height(x - step[i] - step[j]) - height(x - step[i] + step[j])
        assert -second / 4e-6 == pytest.approx(expected[i, j], abs=1e-3)


def test_the_mean_and_the_evidence_are_those_of_weighted_draws(make_world):
    """At fixed scales: draws of the approximation, weighted by the true density over their own."""
    world = make_world(q=25, people=80, votes=300, seed=1)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    at = laplace(design, world.terms, H, counted, start_mode(design, world.terms, H, counted), n_pairs=64)
    point, p, q, n = at.point, len(at.point.beta), 25, 1500
    K = place_covariance(world.terms, H)
    spread = linalg.inv(linalg.inv(K) + np.diag(point.W))
    rng = np.random.default_rng(0)
    d_beta, noise = rng.normal(size=(n, p)), rng.normal(size=(n, q))
    away = d_beta @ point.root.T
    d_f = -(away @ point.J.T * point.W) @ spread + noise @ linalg.cholesky(spread, lower=True).T
    levels = point.level + point.slope * (away @ point.J.T + d_f)
    own = -0.5 * (d_beta**2).sum(axis=1) - 0.5 * (noise**2).sum(axis=1)
    own -= np.linalg.slogdet(point.root)[1] + 0.5 * np.linalg.slogdet(spread)[1] + np.log(point.slope).sum()
    true, effects = np.empty(n), np.empty((n, q))
    inverse, size = linalg.inv(K), np.linalg.slogdet(K)[1] + p * np.log(H.effect_variance)
    for k in range(n):
        beta = point.beta + away[k]
        f = place_effects(design.pairs, design.eta(beta), special.expit(levels[k]), K @ point.alpha)
        found = level_rates(design.pairs, design.eta(beta), f, design.codes, len(design.B))
        prior = -0.5 * beta @ beta / H.effect_variance - 0.5 * f @ inverse @ f - 0.5 * size
        effects[k] = f
        thickness = np.log(found.slope / (found.rate * (1 - found.rate))).sum()
        true[k] = counted.slopes(levels[k]).value + prior - thickness
    weight = special.softmax(true - own)
    assert 1.0 / (weight @ weight) > 0.2 * n
    sd = np.sqrt((point.root**2).sum(axis=1))
    assert np.sqrt(np.mean(((weight @ away) / sd) ** 2)) < 0.12
    assert np.sqrt(np.mean(((weight @ effects - K @ point.alpha) / effects.std(axis=0)) ** 2)) < 0.12
    assert at.log_evidence == pytest.approx(special.logsumexp(true - own) - np.log(n), abs=0.7)


def test_points_have_the_posterior_of_the_scales(make_world):
    """Along a single scale the weights of points are what a fine grid of the evidence gives."""
    world = make_world(q=12, people=60, votes=500, seed=3)
    design, counted, known = design_of(world), Binomial(world.successes, world.trials), priors(world.terms)
    narrow = {name: (np.log(getattr(H, name)), 1e-3) for name in world.terms.names} | {
        "effect_variance": known["effect_variance"]
    }
    found = start_mode(design, world.terms, H, counted)
    _, points = points_of(design, world.terms, counted, found, H, narrow)
    grid = np.linspace(-5.0, 3.0, 41)
    heights = [
        laplace(
            design, world.terms, Hyperparameters(np.exp(x), H.spatial, H.length, H.nugget), counted, found
        ).log_evidence
        + stats.norm.logpdf(x, *known["effect_variance"])
        for x in grid
    ]
    weight = special.softmax(heights)
    mean = weight @ grid
    logs, own = np.log([pt.hyperparameters.effect_variance for pt in points]), np.array([pt.weight for pt in points])
    assert own.sum() == pytest.approx(1.0)
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    assert own @ logs == pytest.approx(mean, abs=0.25 * sd)
    assert np.sqrt(own @ (logs - own @ logs) ** 2) == pytest.approx(sd, rel=0.25)


def test_many_places_walk_along_the_scale_of_effects_only(world, monkeypatch):
    from crosslevel.ecological.persons import exact as module

    monkeypatch.setattr(module, "FEW_PLACES", 10)
    fit = fit_question(design_of(world), world.terms, Binomial(world.successes, world.trials))
    assert 3 <= len(fit.points) <= module.MOST
    assert len({pt.hyperparameters.nugget for pt in fit.points}) == 1
    logs = np.sort(np.log([pt.hyperparameters.effect_variance for pt in fit.points]))
    np.testing.assert_allclose(np.diff(logs), module.STEP)


def test_given_scales_are_one_point(world):
    fit = fit_question(design_of(world), world.terms, Binomial(world.successes, world.trials), fixed=H)
    assert [point.weight for point in fit.points] == [1.0]
    assert fit.hyperparameters == H


def test_starts_of_the_scales_agree(world):
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    fits = [
        fit_question(design, world.terms, counted, start=start)
        for start in (None, Hyperparameters(2.0, 0.5, 4.0, 0.3), Hyperparameters(0.02, 0.01, 0.5, 0.005))
    ]
    rates = [
        race_rates(world, design, drawn.beta, drawn.u)
        for drawn in (draw_effects(f, world.terms, 1000, np.random.default_rng(0)) for f in fits)
    ]
    for other in rates[1:]:
        assert np.abs((other.mean(axis=0) - rates[0].mean(axis=0)) / rates[0].std(axis=0)).max() < 0.2
    assert all(f.linear.decrement < 1e-4 and f.linear.gradient < 1e-4 for f in fits)


def test_sampled_draws_are_taken_as_they_are_and_reach_unseen_places(make_world, monkeypatch):
    """Effects, place effects and rates of one draw stay together; a place not seen gets the mean its neighbors imply."""
    from dataclasses import replace

    from crosslevel.ecological.persons.model import Sampled
    from crosslevel.numerics.chains import ChainDiagnostics

    world = make_world(q=12, people=60, votes=500, seed=3)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    fit = fit_question(design, world.terms, counted, fixed=H)
    rng = np.random.default_rng(0)
    beta, f = rng.normal(size=(50, design.B.shape[1])), np.tile(rng.normal(size=12), (50, 1))
    logs = np.tile(np.log([H.effect_variance, H.spatial, H.length, H.nugget]), (50, 1))
    said = ChainDiagnostics(1.0, 500.0, 500.0, 0, 2, 25)
    fit = replace(fit, sampled=Sampled(beta, f, logs, special.expit(f + beta[:, :1]), said))
    drawn = draw_effects(fit, world.terms, 30, rng)
    np.testing.assert_allclose(drawn.rate, special.expit(drawn.u + drawn.beta[:, :1]))
    assert len(np.unique(drawn.beta[:, 0])) == 30
    seen = np.arange(11)
    short = replace(fit, sampled=Sampled(beta, f[:, :11], logs, f[:, :11], said), context=fit.context[seen])
    away = draw_effects(short, world.terms, 2000, rng, seen)
    np.testing.assert_allclose(away.u[:, :11], np.broadcast_to(f[0, :11], (2000, 11)), atol=1e-4)
    K = place_covariance(world.terms, H)
    expected = K[11, :11] @ linalg.solve(K[:11, :11], f[0, :11])
    left = K[11, 11] - K[11, :11] @ linalg.solve(K[:11, :11], K[:11, 11])
    assert away.u[:, 11].mean() == pytest.approx(expected, abs=4 * np.sqrt(left / 2000))
    assert away.u[:, 11].var() == pytest.approx(left, rel=0.15)


def test_unseen_places_follow_the_approximation_too(make_world):
    """Draws at places not seen have the mean and variance that the prior gives them from those seen."""
    world = make_world(q=12, people=60, votes=500, seed=3)
    design, counted = design_of(world), Binomial(world.successes, world.trials)
    fit = fit_question(design, world.terms, counted, fixed=H)
    point, K = fit.points[0], place_covariance(world.terms, H)
    drawn = draw_effects(fit, world.terms, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.u.mean(axis=0), K @ point.alpha, atol=0.05)
    J, Wi = point.J, np.diag(1.0 / point.W)
    cov = point.root @ point.root.T
    A = linalg.inv(K + Wi)
    expected = K - K @ A @ K + K @ A @ J @ cov @ J.T @ A @ K
    np.testing.assert_allclose(np.diag(np.cov(drawn.u.T)), np.diag(expected), rtol=0.12)
    np.testing.assert_allclose(np.cov(drawn.beta.T), cov, atol=0.08 * cov.max())
