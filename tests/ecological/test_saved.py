"""A loaded model answers like the one that was saved, bit for bit, and holds no people."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation

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
