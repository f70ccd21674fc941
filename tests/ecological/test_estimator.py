"""The models as their user meets them: laws, bad input, convergence, provenance."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from crosslevel import EcologicalInference, People, Places
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.regression import estimator
from crosslevel.errors import CrosslevelWarning, InputError

FIXED = {"effect_variance": 2.0, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
PEOPLE = {"by": "region", "weight": "weight", "categorical": ["sex"]}
PLACES = {"by": "region", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
KEPT = ["region", "weight", "sex", "age", "race", "education", "urban"]


@pytest.fixture(scope="module")
def world():
    return nation(24, 60, n_states=4)


@pytest.fixture(scope="module")
def people(world):
    return world.people.select(KEPT)


@pytest.fixture(scope="module")
def model(world, people):
    return fit(people, world.places)


def make(**settings):
    return DistributionRegression(**{"n_features": 64, "hyperparameters": FIXED} | settings)


def nouns(people, places, **changed):
    roles = PEOPLE | {name: value for name, value in changed.items() if name in PEOPLE | {"columns": 0, "where": 0}}
    counts = PLACES | {name: value for name, value in changed.items() if name not in roles}
    return People(people, **roles), Places(places, **counts)


def fit(people, places, unmatched="error", **settings):
    return make(**settings).fit(*nouns(people, places), unmatched=unmatched)


def women(model, **options):
    return model.estimate(by="sex", n_draws=100, **options)


def changed(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


# laws ---------------------------------------------------------------------------------------------------------------


def test_the_order_of_places_changes_no_bit(world, people, model):
    order = np.random.default_rng(0).permutation(world.places.num_rows)
    again = fit(people, world.places.take(pa.array(order)))
    assert women(again).table.equals(women(model).table)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_kind_of_frame_changes_no_bit(world, people, model, kind):
    one, two = ((t.to_pandas() if kind is pd.DataFrame else pl.from_arrow(t)) for t in (people, world.places))
    found = women(fit(one, two))
    assert isinstance(found.to_frame(), kind)
    assert found.table.equals(women(model).table)
    assert found.provenance.data == women(model).provenance.data


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hyperparameters": None},
        {"feature_map": "nystrom", "n_features": 32},
    ],
)
def test_the_order_of_people_changes_rounding_only(world, people, settings):
    """Bandwidth, landmarks and the sample behind the sampling error keep their bits; sums by place differ in the last digits."""
    one = fit(people, world.places, **settings)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(people.num_rows)
        two = fit(people.take(pa.array(order)), world.places, **settings)
        np.testing.assert_array_equal(two.model_.sampling.people.root, one.model_.sampling.people.root)
        maps = one.embedder_.feature_map_.to_arrays(), two.embedder_.feature_map_.to_arrays()
        for name, values in maps[0].items():
            np.testing.assert_array_equal(values, maps[1][name])
        for column in ("estimate", "std_error", "conf_low", "conf_high"):
            np.testing.assert_allclose(women(two)[column], women(one)[column], rtol=0, atol=1e-10)


def test_the_order_of_people_changes_rounding_only_among_persons(world, people):
    model = EcologicalInference(hyperparameters=FIXED | {"effect_variance": 0.3})
    order = np.random.default_rng(0).permutation(people.num_rows)
    rows = people, people.take(pa.array(order))
    one, two = (clone(model).fit(*nouns(some, world.places)) for some in rows)
    for column in ("estimate", "std_error", "conf_low", "conf_high"):
        np.testing.assert_allclose(women(two)[column], women(one)[column], rtol=0, atol=1e-10)


def test_a_person_of_weight_two_is_two_people(world, people):
    settings = {"bandwidth": 3.0, "sampling_error": False}
    light = changed(people, "weight", np.ones(people.num_rows))
    twice = changed(people, "weight", np.where(np.arange(people.num_rows) % 3 == 0, 2.0, 1.0))
    both = pa.concat_tables([light, light.take(pa.array(np.arange(0, people.num_rows, 3)))])
    one, two = (fit(p, world.places, **settings) for p in (twice, both))
    # the scales of numeric columns are float32, so agreement is to single precision
    assert np.allclose(women(one)["estimate"], women(two)["estimate"], atol=1e-4)


def test_learned_hyperparameters_can_be_given_again(world, people):
    # these few places say next to nothing about the people: with other seeds their variance ends at its lower limit
    first = fit(people, world.places, hyperparameters=None, random_state=2)
    again = fit(people, world.places, hyperparameters=first.hyperparameters_, random_state=2)
    assert again.hyperparameters_ == first.hyperparameters_
    assert again.log_evidence_ == pytest.approx(first.log_evidence_, abs=1e-9)
    # what is given is taken as known, so the interval may only lose the part that came from learning it
    known, learned = women(again), women(first)
    assert np.allclose(known["estimate"], learned["estimate"], atol=0.25 * learned["std_error"].max())


def test_filtering_in_fit_is_filtering_before(world, people):
    one = make(bandwidth=3.0).fit(*nouns(people, world.places, where="age >= 40"))
    two = fit(people.filter(pc.field("age") >= 40), world.places, bandwidth=3.0)
    assert women(one).table.equals(women(two).table)


# scikit-learn -------------------------------------------------------------------------------------------------------


def stop(*_, **__):
    raise KeyboardInterrupt


def test_a_stopped_fit_leaves_nothing(world, people, monkeypatch):
    begun = make()
    with pytest.raises(KeyboardInterrupt):
        begun.fit(*nouns(people, world.places), progress=stop)
    assert [name for name in vars(begun) if name.endswith("_")] == []
    done = fit(people, world.places)
    monkeypatch.setattr(estimator, "fit_regression", stop)
    with pytest.raises(KeyboardInterrupt):
        done.fit(*nouns(people, world.places))
    with pytest.raises(NotFittedError):
        women(done)


# convergence and provenance -----------------------------------------------------------------------------------------


def test_convergence_is_flat_and_plain(model, world, people):
    said = model.convergence_
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    assert {type(v) for v in said.values()} <= {bool, int, float, str, list}
    assert said["converged"] is True
    assert (said["places"], said["people"]) == (24, people.num_rows)
    assert said["nugget"] == 0.02
    both = make().fit(*nouns(people, world.places, population="population")).convergence_
    assert both["turnout: nugget"] == both["dem: nugget"] == 0.02
    assert both["dem: gradient_at_mode"] < 1e-8


def test_provenance_tells_call_seed_and_data(model, world, people):
    found = model.estimate(subgroups={"old": "age >= 65"}, rollup="state", share_of="voters", n_draws=60, level=0.9)
    assert found.provenance.call == (
        "DistributionRegression(hyperparameters={'effect_variance': 2.0, 'spatial': 0.1, 'length': 400.0, 'nugget': 0.02}, "
        "n_features=64).fit(People(by='region', weight='weight', categorical=['sex']), "
        "Places(by='region', successes='dem', trials='votes', coords=['lon', 'lat']))"
        ".estimate(subgroups={'old': 'age >= 65'}, rollup='state', interval='model', level=0.9, n_draws=60)"
    )
    assert found.provenance.seed == 0
    assert set(found.provenance.data) == {"people", "places"}
    other = fit(changed(people, "weight", np.ones(people.num_rows)), world.places)
    assert women(other).provenance.data["people"] != found.provenance.data["people"]
    assert women(other).provenance.data["places"] == found.provenance.data["places"]
    for answer in (model.predict_places(), model.cross_validate(3)):
        assert answer.provenance.data == found.provenance.data
        assert answer.provenance.call.startswith(model.call_)


def test_a_term_that_the_places_cannot_tell_is_said(people, world, monkeypatch):
    fitted = estimator.fit_regression

    def at_a_limit(*given, **options):
        model = fitted(*given, **options)
        return replace(model, fits=tuple(replace(fit, at_limit=("length",)) for fit in model.fits))

    monkeypatch.setattr(estimator, "fit_regression", at_a_limit)
    with pytest.warns(CrosslevelWarning):
        model = fit(people, world.places)
    assert model.convergence_["at_limit"] == "length"
    assert any("ended at the limit" in w for w in women(model).warnings)


# what was left out is in every result ---------------------------------------------------------------------------------


def test_what_was_dropped_is_in_every_result(world, people):
    odd = changed(people, "region", ["nowhere", *people["region"].to_pylist()[1:]])
    with pytest.raises(InputError):
        fit(odd, world.places)
    with pytest.warns(CrosslevelWarning):
        model = fit(odd, world.places, unmatched="drop")
    for answer in (women(model), model.predict_places(), model.cross_validate(3)):
        assert any(w.startswith("Left out: 1 people") for w in answer.warnings)


def test_a_place_whose_weights_are_zero(world, people):
    first = people["region"][0].as_py()
    weight = np.where(np.array(people["region"].to_pylist()) == first, 0.0, np.array(people["weight"]))
    light = changed(people, "weight", weight)
    with pytest.raises(InputError):
        fit(light, world.places)
    with pytest.warns(CrosslevelWarning) as said:
        model = fit(light, world.places, unmatched="drop")
    assert any("total weight of zero" in str(w.message) for w in said)
    assert len(model.places_) == 23


def test_a_place_without_trials_is_left_out_though_people_live_there(world, people):
    votes, dem = (np.array(world.places[c]).copy() for c in ("votes", "dem"))
    votes[3] = dem[3] = 0
    table = changed(changed(world.places, "votes", votes), "dem", dem)
    with pytest.warns(CrosslevelWarning):
        model = fit(people, table)
    found = women(model)
    assert len(found) == 2 * 23
    assert any("without any trials" in w for w in found.warnings)


def test_subgroups_without_people_are_absent_and_said(model):
    found = model.estimate(subgroups={"old": "age >= 80", "nobody": "age > 200"}, n_draws=60)
    assert set(found["subgroup"]) == {"old"}
    assert any("Nobody is in the subgroup 'nobody'" in w for w in found.warnings)
    rare = model.estimate(subgroups={"rare": "age >= 88"}, n_draws=60)
    assert 0 < len(rare) < 24
    assert any(f"{24 - len(rare)} subgroup(s) of places have no people in the sample" in w for w in rare.warnings)
    with pytest.raises(InputError):
        model.estimate(subgroups={"nobody": "age > 200"}, n_draws=60)


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"by": "regio"},
        {"margins": {"region": ["r"], "sex=1": [1.0], "sex=2": [1.0]}},
        {"covariates": ["population"]},
        {"weight": "wieght"},
        {"columns": ["age", "sexx"]},
        {"columns": "age"},
        {"successes": "demm"},
        {"outcomes": ["dem"]},
        {"coords": None},
        {"where": "agee > 3"},
        {"where": "age > 300"},
    ],
)
def test_a_fit_that_cannot_be(world, people, options):
    with pytest.raises(InputError):
        make().fit(*nouns(people, world.places, **options))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("weight", lambda w: np.where(np.arange(len(w)) == 5, -1.0, w)),
        ("weight", lambda w: 0.0 * np.array(w)),
        ("region", lambda r: [None, *r.to_pylist()[1:]]),
        ("region", lambda r: list(range(len(r)))),
    ],
)
def test_people_that_cannot_be(world, people, name, values):
    with pytest.raises(InputError):
        fit(changed(people, name, values(people[name])), world.places)


def test_a_fit_takes_nouns_of_enough_places_and_knows_two_ways_to_match(world, people):
    with pytest.raises(InputError):
        make().fit(people, world.places)
    for some, few, unmatched in ((None, 100, "keep"), (0, 100, "drop"), (None, 2, "drop")):
        with pytest.raises(InputError):
            fit(people.slice(0, some), world.places.slice(0, few), unmatched=unmatched)


@pytest.mark.parametrize("options", [{}, {"where": "age > 30"}, {"subgroups": {"old": "age > 60"}}])
def test_people_coded_otherwise_than_in_fit_are_refused(model, people, options):
    """Places weigh the same, so that only what is in the columns tells."""
    for name, values in (("sex", pc.subtract(3, people["sex"])), ("age", pc.multiply(12, people["age"]))):
        with pytest.raises(InputError):
            women(model, people=changed(people, name, values.combine_chunks()), **options)
    women(model, people=changed(people, "weight", np.array(people["weight"]).astype(np.float32)), **options)
    backwards = people.take(np.arange(people.num_rows)[::-1])
    found, again = (women(model, people=one, **options)["estimate"] for one in (people, backwards))
    np.testing.assert_allclose(again, found, rtol=1e-9)


def test_no_warning_without_a_reason(world, people):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(people, world.places).warnings_ == ()
    bare = {name: value for name, value in FIXED.items() if name != "nugget"}
    with pytest.warns(CrosslevelWarning, match="nugget="):
        fit(people, world.places, nugget=False, hyperparameters=bare)
