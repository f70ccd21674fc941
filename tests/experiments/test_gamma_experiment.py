"""Are the bags of the gamma experiments the published ones, is the optimum one, and do the tables say what was measured?"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from crosslevel.distribution import MeanShrinkage

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def experiment(monkeypatch):
    """Import a script of the experiments, which are no package."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


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


def test_noise_is_added_after_the_division_and_drawn_even_at_scale_zero(data):
    without, with_noise = (data.draw_set(7, 40, (0.5, 0.25, 0.25), v) for v in (0.0, 4.0))
    np.testing.assert_array_equal(without.y, with_noise.y)
    added = with_noise.bags.values - without.bags.values
    assert added.std() == pytest.approx(2.0, rel=0.05)
    assert stats.kstest(added.ravel() / 2.0, "norm").pvalue > 0.001


def test_shares_of_sizes(data):
    sizes = data.draw_set(1, 100, (0.1, 0.25, 0.25), 0.0).bags.sizes
    assert [int((sizes == s).sum()) for s in (5, 20, 100, 1000)] == [10, 25, 25, 40]


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


def test_whole_ends_cost_a_step_of_density(data):
    bags = data.draw_set(3, 400, (1.0, 0.0, 0.0), 0.0)
    exact, finer, whole = (
        -data.optimum(bags, 0.0, n, ends)[1].mean() for n, ends in ((401, False), (1601, False), (401, True))
    )
    assert exact == pytest.approx(finer, abs=1e-4)
    assert whole - exact == pytest.approx(0.0025, abs=3e-4)


def test_sets_put_together_are_one_set(gamma, data):
    from crosslevel.data.bags import Bags
    from crosslevel.distribution.features import pool
    from crosslevel.distribution.landmarks import FeatureSettings, candidate_maps

    one, two = data.draw_set(1, 20, (0.5, 0.5, 0.0), 1.0).bags, data.draw_set(2, 30, (0.5, 0.5, 0.0), 1.0).bags
    both = Bags(np.vstack([one.values, two.values]), np.append(one.offsets, two.offsets[1:] + one.offsets[-1]))
    maps = candidate_maps(one, FeatureSettings(n_landmarks=5, bandwidth_scale=1.0, landmarks="paper"))
    whole = pool(both, maps, within=True)[0]
    joined = gamma.join([pool(b, maps, within=True)[0] for b in (one, two)])
    np.testing.assert_allclose(joined.within, whole.within, atol=1e-13)
    np.testing.assert_allclose(joined.mu, whole.mu, atol=1e-13)
    np.testing.assert_allclose(joined.m0, whole.m0, atol=1e-13)


def test_scores_and_paired_differences(gamma, page, data):
    from crosslevel.distribution.predictive import Predictive

    bags = data.draw_set(1, 40, (0.5, 0.5, 0.0), 0.0)
    found = gamma.score(Predictive.normal(bags.y + 1.0, np.full(40, 0.25)), bags)
    assert found.mse == pytest.approx(1.0)
    assert found.nll == pytest.approx(0.5 * np.log(2 * np.pi * 0.25) + 2.0)
    assert found.cover == 0.0
    assert found.by_size[5][2] == 20
    assert page.paired([0.3, 0.5], [0.1, 0.1], [23, 24]) == "+0.3000 ± 0.1000"
    assert page.paired([0.3, 0.5], None, [23, 24]) == ""


def test_every_model_beats_the_mean_label(gamma, page):
    runs = gamma.fixed_size(23, shrink=20)
    models = set(runs) - {*page.TIMES, "mean label"}
    assert len(models) == 11
    assert all(runs[m].mse < runs["mean label"].mse for m in models)
    table = page.fixed_section({23: runs, 24: runs})
    assert "| BayesianLinear, as published |" in table
    assert f"{runs['BayesianLinear'].mse:.4f} (0.0000)" in table


def test_varying_sizes_are_scored_by_size(gamma):
    runs = {(23, share): gamma.varying_size((23, share), shrink=20) for share in (0, 50)}
    assert runs[23, 0]["MeanShrinkage"].by_size.keys() == {20, 100, 1000}
    assert runs[23, 50]["MeanShrinkage"].by_size.keys() == {5, 20, 100, 1000}
    assert runs[23, 50]["MeanShrinkage"].mean.shape == (50,)
    assert runs[23, 0]["optimum"].nll < runs[23, 0]["MeanShrinkage"].nll
    # the model chose by this, and the two kinds of landmarks are compared by it
    assert np.isfinite(runs[23, 50]["MeanShrinkage"].evidence)
    assert np.isnan(runs[23, 50]["RBFNetwork"].evidence)


def test_landmarks_are_compared_pair_by_pair(page, experiment):
    made = experiment("gamma_scores").Score
    runs = {
        (23, p): {
            "MeanShrinkage": made(0.5 - p, 1.0, evidence=7.0),
            "MeanShrinkage, k-means": made(0.5, 1.25, evidence=5.0 - p),
        }
        for p in (0, 2)
    }
    said = page.landmarks_text(runs)
    assert (
        "2 draws: log evidence of the training bags +3.0 ± 1.0, test MSE -1.0000 ± 1.0000, NLL -0.2500 ± 0.0000."
        in said
    )


def test_a_part_made_again_takes_the_place_of_its_last_version(page):
    first = page.page(["## Bags of 1,000\n\nold", "## Everything sampled\n\nsampled ## once"])
    again = page.page(["## Bags of 1,000\n\nnew", "## Bags of 5, 20, 100 and 1,000\n\nsizes"], first)
    assert [p.split("\n\n")[1].split("\n")[0] for p in page.parts_of(again)[:3]] == ["new", "sizes", "sampled ## once"]
    assert again.count("## How the models differ") == 1
    assert again.count("old") == 0
    assert again.endswith("Made by `python experiments/gamma.py`.\n")
    assert page.page([], again) == again


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


def test_the_mean_of_logs_is_that(sampled):
    from crosslevel.distribution.predictive import Predictive

    found = Predictive(np.array([[0.0], [1.0]]), np.array([[1.0], [4.0]]))
    expected = -np.mean([stats.norm.logpdf(0.5, 0, 1), stats.norm.logpdf(0.5, 1, 2)])
    assert sampled.mean_of_logs(found, np.array([0.5])) == pytest.approx(expected)


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


def test_intervals_hold_in_every_size_of_bag():
    page = (GUIDE / "gamma.md").read_text(encoding="utf-8")
    held = [float(c) for c in rows_of(page, "Coverage of 95 % intervals")["MeanShrinkage"][::2]]
    assert len(held) == 4
    assert all(0.92 <= share <= 0.98 for share in held)


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


def test_the_guide_is_told_the_new_coverage(page):
    rows = [
        "| `BayesianLinear` | .867 | .904 |",
        "| `MeanShrinkage` | .970 | .958 |",
        "",
        "| `MeanShrinkage` | .216 | .654 |",
        "",
    ]
    guide = "\n".join(rows)
    told = page.quote_coverage(guide, {"BayesianLinear": ["0.871", "1.000"], "MeanShrinkage": ["0.961", "0.955"]})
    assert "| `BayesianLinear` | .871 | 1.000 |\n| `MeanShrinkage` | .961 | .955 |\n" in told
    assert "| `MeanShrinkage` | .216 | .654 |" in told
