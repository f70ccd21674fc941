"""Labels that are hidden: which can be, what the model may see, and where their errors cannot be learned from."""

import datetime
import hashlib
import warnings

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.data.place_cells import Bins, Encoder, Labels, count_people
from crosslevel.data.simulate import nation
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.covariance import Hyperparameters
from crosslevel.ecological.persons import hidden_labels
from crosslevel.ecological.persons.aggregate import fit_aggregate
from crosslevel.ecological.persons.labels import alike, comparison, hide_all, read_labels
from crosslevel.ecological.persons.learner import Learner, learn_confounding
from crosslevel.errors import CrosslevelWarning, InputError

PEOPLE = {"by": "region", "weight": "weight", "columns": ["sex", "race", "education"], "categorical": ["sex"]}
FIXED = {"effect_variance": 0.3, "spatial": 0.1, "length": 300.0, "nugget": 0.02}


@pytest.fixture(scope="module")
def world():
    return nation(20, 60, n_states=4, random_state=1)


@pytest.fixture(scope="module")
def people(world):
    rng = np.random.default_rng(0)
    frame = world.people.to_pandas()
    n = len(frame)
    frame["owner"] = rng.random(n) < 0.6
    frame["hours worked"] = (frame.hours > 30).astype(int)
    frame["wave"] = np.where(rng.random(n) < 0.5, datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))
    frame["answer"] = np.where(rng.random(n) < 0.5, "don't know", "yes")
    frame["disabled"] = np.where(rng.random(n) < 0.2, np.nan, (rng.random(n) < 0.3).astype(float))
    states = dict(zip(world.places["region"].to_pylist(), world.places["state"].to_pylist(), strict=True))
    return frame.assign(state=frame.region.map(states), always=1)


def fit(people, world, cluster=None, covariates=None, **settings):
    places = cl.Places(world.places, "region", "dem", "votes", coords=("lon", "lat"), covariates=covariates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(**{"hyperparameters": FIXED, **settings}).fit(
            cl.People(people, **PEOPLE, cluster=cluster), places
        )


@pytest.fixture(scope="module")
def model(people, world):
    return fit(people, world)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Take the scales of hidden columns as known: a mode in place of dozens."""

    def given(design, terms, likelihood, people):
        return fit_aggregate(design, terms, likelihood, people, fixed=Hyperparameters(**FIXED))

    monkeypatch.setattr(hidden_labels, "fit_aggregate", given)


def only_labels(model, people, labels, by=None, hide=hide_all, **options):
    known = model.people_.with_data(people)
    bins, cuts = comparison(model, known, by)
    return hide(model, known, bins, cuts, read_labels(labels, None, known, model), **options)


@pytest.mark.parametrize("label", ["owner", "hours worked", "disabled"])
def test_a_column_of_two_values_is_a_label(model, people, label):
    """Whatever its type and name; people of whom it is not known are left out."""
    ((one, two),) = only_labels(model, people, [label], ["race"])
    known = people[people[label].notna()]
    assert (
        one.share == two.share == pytest.approx(np.average(known[label].astype(float), weights=known.weight), rel=1e-9)
    )


def test_labels_that_are_found_can_be_asked(model):
    found = {label.name: label.query.text for label in read_labels("auto", None, model.people_, model)}
    assert found["owner"] == '"owner" = true'
    assert found["hours worked"] == '"hours worked" = 1'
    assert found["wave"].startswith('"wave" = \'202')
    assert found["answer"] in ("\"answer\" = 'don''t know'", "\"answer\" = 'yes'")
    assert not {"always", "region", "weight"} & set(found)


def test_a_property_of_places_is_no_label(model, people, monkeypatch):
    """Everybody in a place has it, or nobody: each group is its place, no error can be seen, and tau would be too small."""
    state = people.state.value_counts().index[0]
    with pytest.raises(InputError):
        only_labels(model, people, {"here": f"state == '{state}'"}, ["race"])
    told: list[str] = []
    found = only_labels(
        model, people, {"here": f"state == '{state}'", "owner": "owner == true"}, ["race"], refused=told
    )
    assert [one.label for one, _ in found] == ["owner"]
    assert "nearly the same" in told[0]
    with pytest.raises(InputError):
        only_labels(model, people, {"here": f"state == '{state}'"}, ["race"], refused=[])


def test_composition_totals_and_truth_are_of_different_people(people, world, monkeypatch):
    """One half says who lives where, the other what the totals are, and everybody what is true; then the other way round."""
    frame = people.assign(house=np.arange(len(people)) // 2)
    model = fit(frame, world, cluster="house")
    seen = []

    def look(design, terms, likelihood, *rest, **options):
        seen.append((design, likelihood))
        return fit_aggregate(design, terms, likelihood, *rest, fixed=Hyperparameters(**FIXED), **options)

    monkeypatch.setattr(hidden_labels, "fit_aggregate", look)
    monkeypatch.setattr(hidden_labels, "_smoothed", lambda model, bins, levels, pairs, size: pairs.weight)
    ((one, two),) = only_labels(model, frame, ["owner"], ["race"])
    first = np.array([hashlib.md5(f"{model.seed_}:{h}".encode()).hexdigest() < "8" for h in frame.house])
    assert 0.4 < first.mean() < 0.6
    for hidden, (design, totals), mine in ((one, seen[0], first), (two, seen[1], ~first)):
        own, other = frame[mine], frame[~mine]
        rate = other.groupby("region")[["owner", "weight"]].apply(lambda g: np.average(g.owner, weights=g.weight))
        np.testing.assert_allclose(totals.successes / totals.trials, rate, rtol=1e-9)
        kish = other.groupby("region").weight.agg(lambda w: w.sum() ** 2 / (w**2).sum())
        np.testing.assert_allclose(totals.trials, kish, rtol=1e-9)
        everybody = frame.groupby("region")[["owner", "weight"]].apply(lambda g: np.average(g.owner, weights=g.weight))
        np.testing.assert_allclose(hidden.total, everybody, rtol=1e-9)
        np.testing.assert_allclose(hidden.people, frame.groupby("region").weight.sum(), rtol=1e-9)
        (d,) = hidden.dimensions
        share = np.zeros((len(hidden.total), len(d.names)))
        np.add.at(share, (design.pairs.place, d.group), design.pairs.weight)
        expected = own.pivot_table(index="region", columns="race", values="weight", aggfunc="sum", fill_value=0.0)
        expected = expected.div(expected.sum(axis=1), axis=0)[list(d.names)]
        np.testing.assert_allclose(share, expected, atol=1e-9)
        yes = frame.assign(yes=frame.owner * frame.weight).pivot_table(
            index="region", columns="race", values=["yes", "weight"], aggfunc="sum", fill_value=0.0
        )
        np.testing.assert_allclose(d.yes, yes["yes"][list(d.names)], rtol=1e-9)
        np.testing.assert_allclose(d.weight, yes["weight"][list(d.names)], rtol=1e-9)


def test_halves_do_not_depend_on_the_order_of_rows():
    frame = pd.DataFrame({"town": "a", "h": [f"h{k}" for k in range(500)], "w": 2.0 ** np.repeat(np.arange(50), 10)})

    def first(rows, seed=3, **given):
        known = cl.People(rows, by="town", **given)
        found = count_people(known, Bins(Encoder(()), {}), ["a"], Labels(half=seed))
        (own,) = [k for k, (_, matched) in enumerate(found.labels) if matched]
        return found.count[0, own], found.total[0] * found.pairs.weight[found.label == own].sum()

    n, weight = first(frame, cluster="h", weight="w")
    assert 200 < n < 300
    assert (n, weight) == first(frame.sample(frac=1.0, random_state=0), cluster="h", weight="w")
    assert weight != first(frame, 4, cluster="h", weight="w")[1]
    for given in ({"cluster": "h"}, {}):  # people without a household are drawn one by one
        alone = first(frame.assign(h=None), **given)
        assert 200 < alone[0] < 300
        assert alone == first(frame.assign(h=None), **given)


def test_labels_that_go_together_are_a_family(model, people):
    frame = people.assign(tenant=~people.owner, coin=np.random.default_rng(1).random(len(people)) < 0.5)
    known = model.people_.with_data(frame)
    wanted = read_labels(["owner", "tenant", "coin", "disabled"], None, known, model)
    assert alike(known, wanted) == {"owner": "owner", "tenant": "owner", "coin": "coin", "disabled": "disabled"}


def test_scores_without_places_of_enough_people_are_saved(model, people, world, tmp_path):
    """Sixty people a place: no group has a hundred, so there is no coverage within places to save."""
    own = fit(people, world)
    found = only_labels(model, people, ["owner", "hours worked"], ["sex", "race"])
    families = {"owner": "home", "hours worked": "work"}
    own.confounding_ = learn_confounding(Learner(found, families, SHIPPED, {"race": 0.45}))
    assert np.isnan(own.confounding_.place_coverage)
    cl.save(own, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    assert np.isnan(again.confounding_.place_coverage)
    assert again.confounding_.describe() == own.confounding_.describe()
    old, new = own.confounding_.table.to_pandas(), again.confounding_.table.to_pandas()
    pd.testing.assert_frame_equal(old, new)
    asked = {"by": "race", "rollup": "all", "n_draws": 50}
    assert again.estimate(**asked, people=people).equals(own.estimate(**asked))
