"""A loaded model answers like the one that was saved, bit for bit, and holds no people."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.errors import InputError

FIXED = {"effect_variance": 2.0, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}


@pytest.fixture(scope="module")
def world():
    return nation(30, 60, n_states=4)


def through_a_file(model, folder):
    cl.save(model, folder / "model.crosslevel")
    return cl.load(folder / "model.crosslevel")


VARIANTS = {
    "plain": ({}, {}),
    "learned": ({"hyperparameters": None}, {}),
    "turnout": ({}, {"population": "population"}),
    "state effects": ({"group": "state", "hyperparameters": FIXED | {"group": 0.05}}, {}),
    "linear, no map": (
        {"feature_map": "linear", "spatial": None, "hyperparameters": {"effect_variance": 0.1, "nugget": 0.1}},
        {"coords": None},
    ),
    "no sampling error": ({"sampling_error": False, "match_totals": False}, {"where": "age >= 30"}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_answers_bit_for_bit(world, tmp_path, name):
    settings, options = VARIANTS[name]
    settings = {"n_features": 64, "categorical": ["sex"], "hyperparameters": FIXED} | settings
    if settings.get("feature_map") == "linear":
        del settings["n_features"]
    model = cl.ecological.DistributionRegression(**settings).fit(world.people, world.places, **COUNTS | options)
    loaded = through_a_file(model, tmp_path)
    for asked in ({"by": "sex", "rollup": "state"}, {"subgroups": {"old": "age >= 65"}}):
        assert loaded.estimate(**asked, n_draws=60, people=world.people).equals(model.estimate(**asked, n_draws=60))
    assert loaded.predict_places().equals(model.predict_places())
    assert loaded.cross_validate(3).equals(model.cross_validate(3))
    assert json.dumps(loaded.convergence_) == json.dumps(model.convergence_)
    assert loaded.get_params() == model.get_params()


def test_new_places_are_predicted_alike(world, tmp_path):
    old, new = world.places.slice(0, 25), world.places.slice(25)
    model = cl.ecological.DistributionRegression(n_features=64, hyperparameters=FIXED)
    with pytest.warns(cl.errors.CrosslevelWarning):
        model.fit(world.people, old, unmatched="drop", **COUNTS)
    loaded = through_a_file(model, tmp_path)
    assert loaded.predict_places(new, people=world.people).equals(model.predict_places(new))


def test_people_are_not_in_the_file(world, tmp_path):
    model = cl.ecological.DistributionRegression(n_features=64, hyperparameters=FIXED).fit(
        world.people, world.places, **COUNTS
    )
    loaded = through_a_file(model, tmp_path)
    assert not hasattr(loaded, "people_")
    with pytest.raises(InputError):
        loaded.estimate(by="sex")
    with pytest.raises(InputError):
        loaded.estimate(by="sex", people=world.people.slice(10))


def test_people_are_never_saved_even_as_landmarks(world, tmp_path):
    model = cl.ecological.DistributionRegression(n_features=16, feature_map="nystrom", hyperparameters=FIXED)
    model.fit(world.people, world.places, **COUNTS)
    with pytest.raises(InputError):
        cl.save(model, tmp_path / "m", allow_rows=True)
    assert not (tmp_path / "m").exists()


def test_the_spread_of_people_comes_back_bit_for_bit(world, tmp_path):
    model = cl.ecological.DistributionRegression(n_features=64, hyperparameters=FIXED).fit(
        world.people, world.places, **COUNTS
    )
    loaded = through_a_file(model, tmp_path)
    one, two = model.model_.sampling.people, loaded.model_.sampling.people
    assert np.array_equal(one.root, two.root)
    assert one.rest == two.rest


def test_what_is_made_again_is_made_alike(world, tmp_path):
    model = cl.ecological.DistributionRegression(n_features=64, hyperparameters=FIXED)
    model.fit(world.people, world.places, **COUNTS)
    loaded = through_a_file(model, tmp_path)
    assert np.array_equal(model.model_.design.gram, loaded.model_.design.gram)
    for one, two in zip(model.model_.fits, loaded.model_.fits, strict=True):
        assert np.array_equal(one.mode.f, two.mode.f)
        assert np.array_equal(one.mode.alpha, two.mode.alpha)


def test_every_type_of_column_of_places_survives(world, tmp_path):
    n = world.places.num_rows
    odd = world.places.append_column("day", pa.array([datetime.date(2024, 11, 5)] * n))
    odd = odd.append_column("half", pa.array([None, *["x"] * (n - 1)]).dictionary_encode())
    model = cl.ecological.DistributionRegression(n_features=64, hyperparameters=FIXED).fit(world.people, odd, **COUNTS)
    loaded = through_a_file(model, tmp_path)
    assert loaded.places_.table.equals(model.places_.table)
    assert set(loaded.places_.column("day", "rollup")) == {datetime.date(2024, 11, 5)}


def test_a_file_of_the_largest_use_is_tens_of_megabytes():
    """998 places x 4,096 features: counted, not written."""
    vectors, sample = 998 * 4096 * 8, 1000 * 200 * 8
    assert (vectors + sample) / 2**20 < 40


def test_saving_twice_gives_the_same_bytes(world, tmp_path):
    model = cl.ecological.DistributionRegression(n_features=64, hyperparameters=FIXED).fit(
        world.people, world.places, **COUNTS
    )
    cl.save(model, tmp_path / "a")
    cl.save(cl.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
