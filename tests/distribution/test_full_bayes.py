"""Sampling: the posterior is right (quadrature, simulation-based calibration), predictions are mixtures, chains are judged."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from crosslevel.data.bags import Bags
from crosslevel.distribution.predictive import Predictive
from crosslevel.distribution.sampled.estimator import FullBayes, FullBayesClassifier
from crosslevel.distribution.sampled.sampler import HyperPrior, Settings, sample_posterior
from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.estimator import MeanShrinkage
from crosslevel.distribution.shrinkage.laplace import fit_evidence
from crosslevel.distribution.shrinkage.likelihood import INTERCEPT_SD, Problem
from crosslevel.distribution.shrinkage.probit import fit_probit
from crosslevel.errors import ConvergenceError, CrosslevelWarning

pytest.importorskip("numpyro")

SHORT = {"n_landmarks": 6, "bandwidth_scale": 1.5, "n_chains": 2, "n_warmup": 300, "n_draws": 500}


def spreads(n, seed, sizes=(3, 20, 200)):
    """Bags whose label is the spread of their people, equally many of each size."""
    rng = np.random.default_rng(seed)
    y, N = rng.uniform(1.0, 3.0, n), rng.permutation(np.resize(sizes, n))
    values = rng.normal(size=(N.sum(), 1)) * np.repeat(y, N)[:, None]
    return Bags(values, np.concatenate([[0], np.cumsum(N)])), y


def simulate(prior, seed, n=60, q=3, probit=False):
    """Draw hyperparameters, weights and labels from the model."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(prior.location, prior.scale)
    b, a = INTERCEPT_SD * rng.normal(), np.exp(logs[-1] / 2) * rng.normal(size=q)
    s, N = np.array([0.3, 1.0, 2.0][:q]), np.resize([1.0, 5.0, 50.0], n)
    delta = rng.normal(size=(n, q))
    S, C = shrink_factors(s, N, float(np.exp(logs[-2])))
    xi, V = b + (S * delta) @ a, C @ (a * a)
    if probit:
        y = np.where(rng.uniform(size=n) < special.ndtr(xi / np.sqrt(1 + V)), 1.0, -1.0)
    else:
        y = xi + np.sqrt(np.exp(logs[0]) + V) * rng.normal(size=n)
    return Problem(delta, N, s, y), np.concatenate([[b], a, logs])


def test_posterior_of_one_weight_is_that_of_quadrature():
    prior = HyperPrior((-1.0, 0.0, 0.0), (0.01, 0.01, 0.01))  # hyperparameters all but known
    problem, _ = simulate(prior, 3, n=30, q=1)
    fit = fit_evidence(problem)
    draws = sample_posterior(problem, fit, prior, Settings(2, 300, 1000, 0))
    S, C = shrink_factors(problem.s, problem.sizes, 1.0)
    b, a = np.meshgrid(np.linspace(-8, 8, 801), np.linspace(-5, 5, 501))
    xi = b[..., None] + a[..., None] * (S * problem.delta)[:, 0]
    sd = np.sqrt(np.exp(-1.0) + a[..., None] ** 2 * C[:, 0])
    logs = (
        stats.norm(xi, sd).logpdf(problem.y).sum(axis=2) + stats.norm(0, INTERCEPT_SD).logpdf(b) + stats.norm.logpdf(a)
    )
    p = np.exp(logs - special.logsumexp(logs))
    for k, grid in enumerate((b, a)):
        mean = (p * grid).sum()
        sd_exact = np.sqrt((p * (grid - mean) ** 2).sum())
        assert draws.w[..., k].mean() == pytest.approx(mean, abs=0.12 * sd_exact)
        assert draws.w[..., k].std() == pytest.approx(sd_exact, rel=0.1)
    assert draws.diagnostics.divergences == 0


def test_mixture_is_a_mixture():
    rng = np.random.default_rng(0)
    mixture = Predictive(rng.normal(size=(40, 3)), rng.uniform(0.2, 2, (40, 3)))
    y = np.array([0.0, 1.0, -2.0])
    density = stats.norm(mixture.means, np.sqrt(mixture.variances)).pdf(y).mean(axis=0)
    np.testing.assert_allclose(mixture.log_density(y), np.log(density))
    # the mean of logs, a common mistake, is smaller for every label
    assert (stats.norm(mixture.means, np.sqrt(mixture.variances)).logpdf(y).mean(axis=0) < mixture.log_density(y)).all()
    np.testing.assert_allclose(
        mixture.cdf(y), stats.norm(mixture.means, np.sqrt(mixture.variances)).cdf(y).mean(axis=0), rtol=1e-12
    )
    low, high = mixture.interval(0.9)
    inside = stats.norm(mixture.means, np.sqrt(mixture.variances))
    np.testing.assert_allclose((inside.cdf(high) - inside.cdf(low)).mean(axis=0), 0.9, atol=1e-9)


@pytest.fixture(scope="module")
def fitted():
    bags, y = spreads(90, 0)
    return FullBayes(**SHORT).fit(bags, y)


def test_estimator_holds_draws_diagnostics_and_a_tree(fitted):
    assert fitted.convergence_["converged"]
    assert fitted.diagnostics_["max_rhat"] < 1.01
    assert fitted.diagnostics_["divergences"] == 0
    tree = fitted.posterior_
    assert tree["posterior/alpha"].dims == ("chain", "draw", "landmark")
    assert tree["posterior/alpha"].shape == (2, 500, fitted.n_landmarks_)
    assert float(tree["posterior/sigma"].min()) > 0
    assert not tree["sample_stats/diverging"].values.any()


def test_agrees_with_laplace_and_widens_for_small_bags(fitted):
    bags, y = spreads(90, 0)
    fresh, _ = spreads(300, 6)
    quick = MeanShrinkage(**{k: SHORT[k] for k in ("n_landmarks", "bandwidth_scale")}).fit(bags, y)
    mean, sd = fitted.predict(fresh, return_std=True)
    assert np.corrcoef(mean, quick.predict(fresh))[0, 1] > 0.99
    assert sd[fresh.sizes == 3].mean() > 1.5 * sd[fresh.sizes == 200].mean()


def test_unconverged_chains_are_refused_unless_allowed():
    bags, y = spreads(90, 0)
    tiny = SHORT | {"n_warmup": 4, "n_draws": 10}
    with pytest.raises(ConvergenceError):
        FullBayes(**tiny).fit(bags, y)
    with pytest.warns(CrosslevelWarning):
        model = FullBayes(**tiny, allow_unconverged=True).fit(bags, y)
    assert not model.convergence_["converged"]
    assert model.diagnostics_["converged"] is False


def test_classifier_is_less_sure_of_small_bags():
    bags, y = spreads(90, 0)
    fresh, truth = spreads(300, 6)
    model = FullBayesClassifier(**SHORT | {"n_draws": 1000}).fit(bags, y > 2.0)
    p = model.predict_proba(fresh)[:, 1]
    assert np.abs(p - 0.5)[fresh.sizes == 3].mean() < np.abs(p - 0.5)[fresh.sizes == 200].mean()
    assert np.mean((p > 0.5) == (truth > 2.0)) > 0.7
    assert set(model.posteriors_[0]["posterior"].data_vars) == {"alpha", "intercept", "eta", "rho"}


def ranks_of_truth(probit, replicates, keep=63):
    prior = HyperPrior((0.0, 0.0), (0.7, 0.7)) if probit else HyperPrior((-1.0, 0.0, 0.0), (0.7, 0.7, 0.7))
    ranks = []
    for seed in range(replicates):
        problem, truth = simulate(prior, 1000 + seed, probit=probit)
        fit = fit_probit(problem) if probit else fit_evidence(problem)
        draws = sample_posterior(problem, fit, prior, Settings(2, 300, 400, seed))
        every = np.concatenate([draws.w, draws.log_hyper], axis=2).reshape(800, -1)
        thin = every[np.linspace(0, 799, keep).round().astype(int)]
        ranks.append((thin < truth).sum(axis=0))
    return np.array(ranks)


@pytest.mark.slow
@pytest.mark.parametrize("probit", [False, True])
def test_simulation_based_calibration_ranks_are_uniform(probit):
    ranks = ranks_of_truth(probit, 120)
    for column in ranks.T:
        counts = np.bincount(column // 8, minlength=8)
        assert stats.chisquare(counts).pvalue > 0.01 / ranks.shape[1]
    pooled = np.bincount(ranks.ravel() // 8, minlength=8)
    assert stats.chisquare(pooled).pvalue > 0.01


def nll_differences(seeds):
    """NLL of FullBayes less that of MeanShrinkage, on fresh bags of each simulated draw."""
    out = []
    for seed in seeds:
        (bags, y), (fresh, truth) = spreads(90, 100 + seed), spreads(600, 500 + seed)
        both = SHORT | {"random_state": seed, "allow_unconverged": True}
        sampled = FullBayes(**both).fit(bags, y)
        quick = MeanShrinkage(n_landmarks=6, bandwidth_scale=1.5, random_state=seed).fit(bags, y)
        out.append(quick.log_density(fresh, truth).mean() - sampled.log_density(fresh, truth).mean())
    return np.array(out)


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_log_score_is_not_worse_than_laplace():
    assert nll_differences(range(2)).mean() < 0.02


def test_progress_counts_the_draws_and_moves_none():
    X, y = spreads(20, 0)
    short = {"n_landmarks": 4, "n_chains": 2, "n_warmup": 30, "n_draws": 20, "allow_unconverged": True}
    heard: list[tuple[int, int | None]] = []
    with pytest.warns(CrosslevelWarning):
        quiet = FullBayes(**short).fit(X, y)
    with pytest.warns(CrosslevelWarning):
        told = FullBayes(**short).fit(X, y, progress=lambda *at: heard.append(at))
    np.testing.assert_array_equal(told._fits[0].draws.w, quiet._fits[0].draws.w)
    np.testing.assert_array_equal(told._fits[0].draws.log_hyper, quiet._fits[0].draws.log_hyper)
    assert heard[0] == (len(X.values), len(X.values))  # people, then fits of features, then draws
    assert heard[-51:] == [(0, None), *((i, 50) for i in range(1, 51))]
    assert (5, 6) in heard
