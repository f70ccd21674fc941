"""Are the worlds of the KRLS studies what their descriptions say, and do the studies measure what the estimator does?"""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
NAMES = [*(f"D{i}" for i in range(1, 16)), *(f"E{i}" for i in range(1, 11))]


@pytest.fixture
def experiment(monkeypatch):
    """Import a script of the experiments, which are no package."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


@pytest.fixture
def coverage(experiment):
    return experiment("krls_coverage")


@pytest.fixture
def design(experiment):
    return {d.name: d for d in experiment("krls_designs").DESIGNS}.__getitem__


def logistic(t):
    return 1 / (1 + np.exp(-t))


TRUTH = {
    "D1": lambda x1, x2, b: [np.mean(1.5 * np.cos(1.5 * x1) + 0.4 * b), np.mean(x2), 0.8 + 0.4 * np.mean(x1)],
    "D2": lambda x1, x2, x3: [np.mean(np.cos(x1) + 0.6 * x3), np.mean(x2), 0.6 * np.mean(x1)],
    "D8": lambda *x: [1.0, 0.5, -0.3, 0.0],
    "D10": lambda *x: [0.0] * 4,
    "D12": lambda t, x1, x2: [0.5 + 0.3 * x1.mean(), np.mean(0.3 * t + 1 - np.tanh(x1) ** 2), 0.2],
    "E3": lambda t, x1, x2: [1 + 0.5 * x1.mean(), 1 + 0.5 * t.mean(), x2.mean()],
    "E4": lambda x1, x2, x3: [np.sign(x1).mean(), (x2 > 0).mean(), -0.5 * (x3 > 1).mean()],
    "E9": lambda x1, x2, b: [0.6, -0.5 * np.sin(x2).mean(), 0.4],
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_is_the_average_effect_of_the_written_function(coverage, design, name):
    world = design(name).draw(np.random.default_rng(3))
    truth = TRUTH[name](*world.columns.values())
    np.testing.assert_allclose(coverage.prepare(world).truth, truth, atol=1e-7)


def test_the_truth_of_a_factor_is_its_contrasts_with_the_first_level(coverage, design):
    world = design("E1").draw(np.random.default_rng(3))
    found = coverage.prepare(world)
    moved = np.array([0.5, -0.4, 0.9, 0.0]) * (1 + 0.5 * world.columns["x1"].mean())
    np.testing.assert_allclose(found.truth[2:], moved, atol=1e-10)
    assert [e.contrast for e in found.effects[2:]] == ["b - a", "c - a", "d - a", "e - a"]


def test_the_truth_counts_equal_rows_as_often_as_they_occur(coverage, design):
    world = design("D15").draw(np.random.default_rng(3))
    decade, school, woman, party = world.columns.values()
    found = coverage.prepare(world)
    assert len(found.at_rows) < len(decade)
    p = logistic(-0.6 + 0.9 * np.sin(decade / 2) + 0.3 * (school - 3) + 0.5 * woman * (party - 2))
    assert found.truth[1] == pytest.approx(np.mean(0.3 * p * (1 - p)), abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_a_design_is_what_its_words_say(design, name):
    one = design(name)
    rng = np.random.default_rng(8)
    world = one.draw(rng)
    columns = list(world.columns.values())
    n = len(columns[0])
    if said := re.search(r"N (\d+)", one.covariates):
        assert n == int(said[1])
    if said := re.search(r"(\d+) clusters of (\d+)$", one.covariates):
        assert np.bincount(world.cluster).tolist() == [int(said[2])] * int(said[1])
    text = columns[-1].dtype.kind == "U"
    X = np.column_stack(
        [*columns[:-1], *([(columns[-1] == v) * 1.0 for v in "bcde"] if text else columns[-1:])]
    ).astype(float)
    mean = world.f(X)
    gaps = np.array([np.mean(world.noisy(rng, mean) - mean) for _ in range(300)])
    assert abs(gaps.mean()) < 5 * gaps.std() / 300**0.5


def test_noise_of_clusters_has_the_correlation_it_should(design):
    world = design("D7").draw(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    zero = np.zeros(300)
    first = np.array([world.noisy(rng, zero)[[0, 1, 10]] for _ in range(4000)])
    correlation = np.corrcoef(first.T)
    assert correlation[0, 1] == pytest.approx(0.3, abs=0.06)  # four standard errors
    assert correlation[0, 2] == pytest.approx(0.0, abs=0.06)


@pytest.mark.parametrize("name", ["D7", "D8", "D15", "E1"])
def test_the_study_gives_the_numbers_of_the_estimator(coverage, design, name):
    found = coverage.study(design(name), replicates=4, seed=0, draws=2, bands=1)  # it checks the estimator itself
    assert found.error.shape == found.half.shape == found.r_half.shape == (4, len(found.slope))
    assert found.clustered == (name == "D7")
    assert len(found.band) == 2
    assert (found.band > 0.8).all()
    assert np.abs(found.error).max() < 6 * found.std_error.max()


def test_the_study_stops_when_the_estimator_gives_other_numbers(coverage, design):
    setting = coverage.prepare(design("D8").draw(np.random.default_rng(0)))
    y = setting.world.noisy(np.random.default_rng(1), setting.mean)
    default, r = coverage.infer_all(setting, coverage.refit(setting, y, "loo"), coverage.refit(setting, y, "krls"))
    coverage.check_estimator(setting, y, default, r)
    with pytest.raises(AssertionError):
        coverage.check_estimator(setting, y, replace(default, estimate=default.estimate * 1.0001), r)
    with pytest.raises(AssertionError):
        coverage.check_estimator(setting, y, default, replace(r, covariance=r.covariance * 1.0001))


def test_the_page_says_what_was_counted(coverage, design):
    found = coverage.study(design("D8"), replicates=4, seed=0, draws=2, bands=1)
    error = 1e-9 * np.random.default_rng(0).normal(size=found.error.shape)
    error[0, 3] = 1e9
    made = replace(found, error=error, r_error=error + 1e9)
    assert made.covered.tolist() == [1.0, 1.0, 1.0, 0.75]
    words = coverage.page([made], [replace(found, name="F9")], 4)
    assert "| D8 | 200, 4 | .938 / .75 | .000 / .00 |" in words
    assert "1 designs without clusters: **.938** on average, R's .000" in words  # the harder one does not count here
    assert words.count("| F9 |") == 1
    assert r"normal, .3 + .9\|x₁\| |" in words  # a bare bar would be the end of the cell


def test_bias_is_measured_given_the_covariates(coverage):
    rng = np.random.default_rng(0)
    draw = np.repeat([0, 1], 4000)
    x = np.where(draw == 0, 0.5, -0.5)[:, None] + rng.normal(
        size=(8000, 1)
    )  # opposite in two draws, so none on average
    assert coverage._bias(x, draw)[0] == pytest.approx(0.5, abs=0.06)
    assert coverage._bias(rng.normal(size=(8000, 1)), draw)[0] < 0.05


def test_households_are_runs_of_rows(experiment):
    number = experiment("social_pressure").number_households
    block, arm = np.array([1, 1, 1, 1, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1, 1])
    size = np.array([2, 2, 2, 2, 1, 1, 1])
    assert number(block, arm, size).tolist() == [0, 0, 1, 1, 2, 3, 4]
    with pytest.raises(ValueError):
        number(block[1:], arm[1:], size[1:])


@pytest.mark.filterwarnings("ignore:the groups of 'state")  # three counties of Tiny have few like them
def test_many_dummies_are_split_and_named_as_krls_does(experiment):
    counties = experiment("counties")
    rng = np.random.default_rng(0)
    n = 120
    columns = {"a": rng.normal(size=n), "state": np.repeat(["Iowa", "Ohio", "Utah", "Tiny"], [50, 40, 27, 3])}
    columns["place"] = np.resize(["6", "1"], n)
    data = counties.Counties(columns, rng.random(n))
    for seed in range(10):
        train, test = counties.split(data, seed)
        assert len(test.share) == 24
        assert "Tiny" not in test.columns["state"]
        np.testing.assert_array_equal(np.sort([*train.share, *test.share]), np.sort(data.share))
    X, names = counties.design_matrix(data)
    assert names == ["1", "a", "state: Iowa", "state: Tiny", "state: Utah", "place: 1"]
    assert X[:, 2].sum() == 50
    found = counties.three_ways(data, X @ [0.1, 0.3, 0.2, 0.0, -0.2, 0.0] + 0.01 * rng.normal(size=n))
    assert found.terms == names[1:]
    np.testing.assert_allclose(found.linear, [0.3, 0.2, 0.0, -0.2, 0.0], atol=0.02)
    np.testing.assert_allclose(found.estimate, found.linear, atol=0.02)


@pytest.mark.data
def test_the_experiment_is_read_whole(experiment, real_data):
    pressure = experiment("social_pressure")
    voters = pressure.read_voters(real_data / "social_pressure" / "shaming.csv.gz")
    assert len(voters.voted) == 344_084
    assert voters.household.max() + 1 == 180_002  # as published
    assert voters.block.max() + 1 == 10_000
    arm = voters.column("treatment")
    for name, published in zip(pressure.ARMS, pressure.PUBLISHED, strict=True):
        part = voters.take(np.flatnonzero(np.isin(arm, [pressure.NOBODY, name])))
        found = pressure.difference(part, (part.column("treatment") == name).astype(float))
        assert float(found[0]) == pytest.approx(published, abs=1.1e-4)


@pytest.mark.data
def test_the_neighbors_letter_has_the_effect_of_the_experiment(experiment, real_data):
    pressure = experiment("social_pressure")
    words = pressure.first_application(pressure.read_voters(real_data / "social_pressure" / "shaming.csv.gz"))
    rows = [row.split(" | ") for row in words.splitlines()]
    effect = {(r[0], r[1]): float(r[3]) for r in rows if len(r) == 8 and r[3][:2] == "0."}
    assert effect["| KRLS, households", "all 229,444"] == pytest.approx(0.0813, abs=0.001)
    assert effect["| R's numbers", "all 229,444"] == pytest.approx(0.0752, abs=0.0005)  # the R package's own figure


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_a_dummy_alone_understates_a_state(experiment, real_data):
    counties = experiment("counties")
    folder = real_data / "county_votes"
    data = counties.read_counties(folder / "medsl_context_2012_2016_demographics.csv")
    assert len(data.share) == 3111
    assert counties.design_matrix(data)[0].shape == (3111, 69)
    few = counties.thin(data)
    y, truth = counties.simulated(few)
    found = counties.three_ways(few, y)
    states = [i for i, t in enumerate(found.terms) if t in truth]
    true = np.array([truth[found.terms[i]] for i in states])
    slope = [true @ c[states] / (true @ true) for c in found.columns]
    assert slope[0] == pytest.approx(1.0, abs=0.15)  # the debiased contrast
    assert slope[3] < 0.75 * slope[1] < 0.75  # the plug-ins: dummy alone, whole factor
