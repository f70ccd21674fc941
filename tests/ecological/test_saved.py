"""A loaded model answers like the one that was saved, bit for bit, and holds no people."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation

FIXED = {"effect_variance": 2.0, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
PLACES = {"by": "region", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}


@pytest.fixture(scope="module")
def world():
    return nation(30, 60, n_states=4)


@pytest.fixture(scope="module")
def people(world):
    return cl.People(world.people, by="region", weight="weight", categorical=["sex"])


def make(**settings):
    settings = {"n_features": 64, "hyperparameters": FIXED} | settings
    if settings.get("feature_map") == "linear":
        del settings["n_features"]
    return cl.ecological.DistributionRegression(**settings)


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
def test_the_same_answers_bit_for_bit(world, people, tmp_path, name):
    settings, options = VARIANTS[name]
    kept, counted = people.kept(options.get("where")), {n: v for n, v in options.items() if n != "where"}
    model = make(**settings).fit(kept, cl.Places(world.places, **PLACES | counted))
    loaded = through_a_file(model, tmp_path)
    for asked in ({"by": "sex", "rollup": "state"}, {"subgroups": {"old": "age >= 65"}}):
        assert loaded.estimate(**asked, n_draws=60, people=world.people).equals(model.estimate(**asked, n_draws=60))
    assert loaded.predict_places().equals(model.predict_places())
    assert loaded.cross_validate(3).equals(model.cross_validate(3))
    assert json.dumps(loaded.convergence_) == json.dumps(model.convergence_)
    assert loaded.get_params() == model.get_params()


def test_every_type_of_column_of_places_survives(world, people, tmp_path):
    n = world.places.num_rows
    odd = world.places.append_column("day", pa.array([datetime.date(2024, 11, 5)] * n))
    odd = odd.append_column("half", pa.array([None, *["x"] * (n - 1)]).dictionary_encode())
    model = make().fit(people, cl.Places(odd, **PLACES))
    loaded = through_a_file(model, tmp_path)
    assert loaded.places_.table.equals(model.places_.table)
    assert set(loaded.places_.column("day", "rollup")) == {datetime.date(2024, 11, 5)}
