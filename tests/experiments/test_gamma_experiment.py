"""Are the bags of the gamma experiments the published ones, is the optimum one, and do the tables say what was measured?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from crosslevel.distribution import MeanShrinkage


@pytest.fixture
def data(experiment):
    return experiment("gamma_data")


@pytest.fixture
def gamma(experiment):
    return experiment("gamma")


@pytest.fixture
def page(experiment):
    return experiment("gamma_page")


def test_the_seeds_of_the_sets_are_the_published_ones(data):
    assert list(data.set_seeds(32).values()) == [3688901335, 256222763, 1600782213, 1808344374]
    assert list(data.set_seeds(23).values()) == [2221777491, 2873750246, 4067173416, 794519497]
    assert list(data.set_seeds(23)) == ["train", "early", "validation", "test"]


def test_the_first_labels_of_seed_23(data):
    # the order of draws, not the people, decides labels: sizes are shuffled first, also when they are all equal
    test = data.draw_set(794519497, 1000, (0.5, 0.25, 0.25), 0.0)
    np.testing.assert_allclose(test.y[:4], LABELS_VARYING, atol=5e-9)
    rs = np.random.RandomState(794519497)
    sizes = np.repeat([5, 20, 100], [500, 250, 250])
    rs.shuffle(sizes)
    assert test.bags.sizes.tolist() == sizes.tolist()
    np.testing.assert_array_equal(test.y, rs.uniform(4, 8, 1000))
    first = rs.chisquare(test.y[0], (sizes[0], 5)) / test.y[0]
    np.testing.assert_array_equal(test.bags[0].values, first)


LABELS_VARYING = [6.46668326, 7.28871316, 6.2159419, 6.47136126]
"""Of NumPy's frozen legacy stream; those of the fixed-size experiment too, since shuffles take as many numbers."""


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_optimum_is_bayes_theorem(data, noise):
    bags = data.draw_set(3, 8, (1.0, 0.0, 0.0), noise)

    c = np.linspace(1e-9, 20.0, 20_001)

    def density(x, k):
        if noise == 0:
            return stats.gamma.pdf(x, k / 2, scale=2 / k)
        return np.trapezoid(stats.gamma.pdf(c, k / 2, scale=2 / k) * stats.norm.pdf(x[:, None] - c), c, axis=1)

    grid = np.linspace(4, 8, 101)
    mean, log_density = data.optimum(bags, noise, n_grid=401)
    for i in (0, 5):
        log_p = np.array([np.log(density(bags.bags[i].values.ravel(), k)).sum() for k in grid])
        p = np.exp(log_p - log_p.max())
        p /= np.trapezoid(p, grid)
        assert mean[i] == pytest.approx(np.trapezoid(p * grid, grid), abs=1e-3)
        assert log_density[i] == pytest.approx(np.log(np.interp(bags.y[i], grid, p)), abs=2e-3)


def test_every_model_beats_the_mean_label(gamma, page):
    runs = gamma.fixed_size(23, shrink=20)
    models = set(runs) - {*page.TIMES, "mean label"}
    assert len(models) == 11
    assert all(runs[m].mse < runs["mean label"].mse for m in models)
    table = page.fixed_section({23: runs, 24: runs})
    assert "| BayesianLinear, as published |" in table
    assert f"{runs['BayesianLinear'].mse:.4f} (0.0000)" in table


@pytest.fixture
def sampled(experiment, monkeypatch):
    """The comparison with a sampler that draws from Laplace's fit: what is scored does not ask how it was drawn."""
    module = experiment("gamma_sampled")
    from crosslevel.distribution.sampled import model as full_bayes_fit
    from crosslevel.distribution.sampled.sampler import Draws
    from crosslevel.numerics.chains import ChainDiagnostics

    def draw(problem, fit, prior, settings):
        rng, shape = np.random.default_rng(0), (2, 40)
        w = np.r_[fit.b, fit.a] + rng.multivariate_normal(np.zeros(len(fit.a) + 1), fit.covariance, shape)
        logs = np.broadcast_to(prior.location, (*shape, 3)).copy()
        steps, none = np.full(shape, 7), np.zeros(shape, dtype=bool)
        found = ChainDiagnostics(1.002, 800.0, 700.0, 0, *shape)
        return Draws(w, logs, none, steps, rng.normal(size=shape), rng.uniform(size=shape), found)

    monkeypatch.setattr(full_bayes_fit, "sample_posterior", draw)
    return module


def test_the_sampled_model_is_compared_on_the_same_features(sampled):
    pairs = {seed: sampled.varying_pair(seed, shrink=5) for seed in (101, 102)}
    for pair in pairs.values():
        assert pair.sampled.nll == pytest.approx(pair.quick.nll, abs=0.1)
        assert pair.mean_log > pair.sampled.nll  # Jensen
        assert pair.sampled.mse < 1.0
        assert pair.fit.draws.w.shape == (2, 40, sampled.LANDMARKS + 1)
    text = sampled.sampled_section(23, pairs[101], pairs)
    gap = np.array([p.sampled.nll - p.quick.nll for p in pairs.values()])
    assert f"{gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(2):.4f} | {(gap < 0).sum()} of 2 |" in text
    assert "r-hat 1.0020 at most, effective size 700 at least, 0 divergences, 7 steps an iteration" in text
    assert "2 of 2 runs meet r-hat below 1.01" in text


GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def rows_of(text, heading):
    """Read the first table of Markdown after some words: first cell -> other cells."""
    lines = text[text.index(heading) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    table = [
        line for i, line in enumerate(lines[start:]) if all(x.startswith("|") for x in lines[start : start + i + 1])
    ]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in table[2:]]
    return {row[0].replace("`", ""): row[1:] for row in cells}


def test_the_guide_quotes_the_page():
    page, guide = ((GUIDE / name).read_text(encoding="utf-8") for name in ("gamma.md", "distribution.md"))
    measured, quoted = rows_of(page, "Coverage of 95 % intervals"), rows_of(guide, "95% intervals contained the label")
    for name in ("BayesianLinear", "MeanShrinkage"):
        assert [float(c) for c in quoted[name]] == [float(c) for c in measured[name][::2]]
    measured, quoted = rows_of(page, "## Bags of 1,000"), rows_of(guide, "The published experiment with bags of 1,000")
    names = {"lower limit": "optimum", "the mean label": "mean label"}
    names |= {'BayesianLinear(prior="iid", fit_intercept=False), as published': "BayesianLinear, as published"}
    for name, cells in quoted.items():
        for cell, whole in zip(cells, measured[names.get(name, name)][:2], strict=True):
            digits = len(cell.split(".")[1])
            assert float(cell) == pytest.approx(float(whole.split()[0]), abs=0.51 * 10.0**-digits)
    assert len(quoted) == 6


@pytest.mark.slow
@pytest.mark.parametrize("share", [0, 25, 50])
def test_mean_shrinkage_is_at_or_below_the_committed_runs(gamma, data, experiment, share):
    # seed 23, and the features that the training bags' evidence chooses; no validation bags
    seeds = data.set_seeds(23)
    train, test = (data.draw_set(seeds[n], 1000, (share / 100, 0.25, 0.25), 0.0) for n in ("train", "test"))
    settings = gamma.FeatureSettings(landmarks=MeanShrinkage().landmarks, standardize=False)
    maps = gamma.candidate_maps(train.bags, settings)
    fit = gamma.fit_shrinkage_model(gamma.pool(train.bags, maps, within=True), train.y)
    ours = gamma.score(fit.predict(gamma.pool(test.bags, [maps[fit.chosen]])[0]), test)
    for theirs in ("shrinkage", "BDR"):
        mse, nll = experiment("gamma_published").VARYING[share][theirs]
        assert ours.mse <= mse
        assert ours.nll <= nll
