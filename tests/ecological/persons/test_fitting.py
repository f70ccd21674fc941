"""What a fit says of the totals, and whose people it answers about."""

from __future__ import annotations

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.errors import CrosslevelWarning, InputError

PEOPLE = {"by": "region", "weight": "weight", "columns": ["race", "sex"], "categorical": ["sex"]}


@pytest.fixture(scope="module")
def world():
    return nation(n_regions=40, people_per_region=60, n_states=4, random_state=0)


@pytest.fixture(scope="module")
def people(world):
    return world.people.to_pandas().astype({"region": str, "race": str})


@pytest.fixture(scope="module")
def places(world):
    return world.places.to_pandas().astype({"region": str})


def fit(people, places, **given):
    totals = cl.Places(places, by="region", successes="dem", trials="votes")
    return cl.EcologicalInference(spatial=None).fit(cl.People(people, **PEOPLE | given), totals)


@pytest.fixture(scope="module")
def model(people, places):
    return fit(people, places)


def unequal(places):
    """Make five places a hundred times as large."""
    out = places.copy()
    out.loc[:4, ["dem", "votes", "population"]] *= 100
    return out


class TestRollUps:
    def test_people_sampled_alike_everywhere_without_weights_are_said(self, people, places):
        some, large = people.groupby("region").head(20), unequal(places)
        with pytest.warns(CrosslevelWarning) as said:
            found = fit(some, large, weight=None)
        (text,) = [str(w.message) for w in said]
        assert text in found.warnings_
        assert "0.511, 0.598" in text  # by people and by totals
        answer = found.estimate(where="sex >= 1", rollup="all", n_draws=50)
        assert answer["estimate"][0] == pytest.approx(0.511, abs=1e-3)
        assert text in answer.warnings

    def test_the_repair_that_is_named_gives_the_rate_of_the_totals(self, people, places):
        some, large = people.groupby("region").head(20), unequal(places)
        some = some.assign(weight=some.region.map(large.set_index("region").population) / 20)
        answer = fit(some, large).estimate(where="sex >= 1", rollup="all", n_draws=50)  # and warns of nothing
        assert answer["estimate"][0] == pytest.approx(large.dem.sum() / large.votes.sum(), abs=1e-9)


class TestFewTrials:
    def test_totals_that_look_like_samples_are_said(self, people, places):
        rng = np.random.default_rng(0)
        polled = places.assign(dem=rng.binomial(5, places.dem / places.votes), votes=5)
        with pytest.warns(CrosslevelWarning) as said:
            found = fit(people, polled)
        assert len(said) == 1
        assert str(said[0].message) in found.warnings_


def test_what_is_said_of_a_column_follows_from_its_numbers():
    """A sentence names the figures past their limits, and claims nothing of answers that they do not show."""
    some = nation(40, 100, n_states=4)
    columns = ["age", "sex", "race", "education", "income"]
    found = fit(some.people, some.places, columns=columns)
    model = found.model_
    for name, reliability, left in zip(model.bins.names, model.measured.reliability, model.prior_left, strict=True):
        said = [text for text in found.warnings_ if text.startswith(f"{name}: ")]
        assert len(said) == (reliability < 0.1 or left > 0.9)
        for text in said:
            assert (f"{reliability:.2f}" in text) == (reliability < 0.1)
            assert (f"{left:.0%}" in text) == (left > 0.9)
    answer = found.estimate(by="sex", rollup="all", n_draws=100)
    said = [text for text in answer.warnings if text.startswith("sex: ")]
    assert len(said) == 1
    assert (
        np.abs(answer["estimate"] - answer["neighborhood"]).max() > 0.01
    )  # so that no sentence may say that they are the same
    assert not any("answered with their neighborhood" in text for text in said)


class TestOtherPeople:
    def test_people_coded_otherwise_are_refused(self, model, people, tmp_path):
        """Labels of two groups that were swapped kept every weight, and were answered."""
        swapped = people.assign(race=people.race.replace({"white": "black", "black": "white"}))
        cl.save(model, tmp_path / "m.crosslevel")
        for asked in (model, cl.load(tmp_path / "m.crosslevel")):
            with pytest.raises(InputError):
                asked.estimate(by="race", rollup="all", people=swapped)

    def test_shares_of_levels_add_up_in_every_column_and_hold_no_row(self, model, people):
        shares = model.model_.people_shares
        assert len(shares) == sum(model.model_.bins.sizes)
        assert shares.sum() == pytest.approx(2.0)
        named = [f"{c}={v}" for c, levels in model.model_.bins.describe().items() for v in levels]
        white = people.weight[people.race == "white"].sum() / people.weight.sum()
        assert dict(zip(named, shares, strict=True))["race=white"] == pytest.approx(white)
