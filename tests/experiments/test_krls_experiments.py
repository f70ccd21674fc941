"""Do the studies of KRLS read their data rightly?"""

from __future__ import annotations

import numpy as np
import pytest


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
