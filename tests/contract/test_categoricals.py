"""A Categorical of numbers holds codes, wherever it is read."""

from __future__ import annotations

import numpy as np
import pandas as pd

import crosslevel as cl
from crosslevel.data.simulate import nation

RNG = np.random.default_rng(0)
CODE = RNG.integers(1, 4, 600)
TOWN = np.repeat(np.arange(30), 20)
FACTOR = pd.DataFrame({"code": pd.Categorical(CODE)})
NUMBER = pd.DataFrame({"code": CODE})


def test_in_ecological_inference():
    world = nation(n_regions=12, people_per_region=40, random_state=0)
    people = world.people.to_pandas()
    codes = people["race"].astype("category").cat.codes.astype(int)
    places = cl.Places(world.places, by="region", successes="dem", trials="votes")
    factor, named = (
        cl.EcologicalInference(spatial=None).fit(
            cl.People(people.assign(code=c), by="region", columns=["code"], **more), places
        )
        for c, more in ((pd.Categorical(codes), {}), (codes, {"categorical": ["code"]}))
    )
    np.testing.assert_array_equal(factor.estimate(by="code")["estimate"], named.estimate(by="code")["estimate"])


def test_in_bags():
    factor = cl.Bags.from_frame(FACTOR.assign(town=TOWN), by="town")
    named = cl.Bags.from_frame(NUMBER.assign(town=TOWN), by="town", categorical=["code"])
    assert factor.columns == named.columns == ("code: 1", "code: 2", "code: 3")
    np.testing.assert_array_equal(factor.values, named.values)


def test_in_imputation():
    means = cl.Places({"town": np.arange(30), "ill": np.linspace(0.1, 0.4, 30)}, by="town", means="ill")
    factor = cl.People(FACTOR.assign(town=TOWN), by="town")
    named = cl.People(NUMBER.assign(town=TOWN), by="town", categorical=["code"])
    one, other = (cl.CrossLevelImputer().fit(people, means).transform(people)["ill"] for people in (factor, named))
    np.testing.assert_allclose(one, other)


def test_in_kernel_regression():
    y = np.where(CODE == 2, 1.0, 0.0) + RNG.normal(0, 0.1, 600)
    factor = cl.KRLS().fit(FACTOR[:150], y[:150]).effects()
    assert (
        factor["term"].tolist() == cl.KRLS(categorical=["code"]).fit(NUMBER[:150], y[:150]).effects()["term"].tolist()
    )


def test_a_weight_of_a_categorical_type_is_still_a_number():
    weight = pd.Categorical(np.where(CODE == 1, 2, 1))
    frame = FACTOR.assign(town=TOWN, weight=weight)
    plain = cl.Bags.from_frame(frame.assign(weight=np.asarray(weight)), by="town", weight="weight")
    np.testing.assert_array_equal(cl.Bags.from_frame(frame, by="town", weight="weight").weights, plain.weights)
