"""MeanEmbedding on a few people, among them, when they are embedded, some of a level that fit has not seen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.contract.case import Case, With

from crosslevel import MeanEmbedding, People
from crosslevel.errors import InputError

RNG = np.random.default_rng(0)
N = 200
PEOPLE = pa.table(
    {
        "town": RNG.choice(["a", "b", "c"], N),
        "sex": RNG.integers(1, 3, N),
        "party": RNG.choice(["red", "blue"], N),
        "age": RNG.integers(18, 90, N).astype(float),
        "w": RNG.uniform(0.5, 2.0, N),
    }
)
STRANGERS = PEOPLE.slice(0, 20).set_column(2, "party", pa.array(["green"] * 20))


def people(data=PEOPLE):
    return People(data, by="town", weight="w", categorical=["sex"])


def make(**given):
    return MeanEmbedding(**{"n_features": 16, **given})


def fit(model):
    return model.fit(people())


def answer(model):
    try:
        strangers = model.transform(people(STRANGERS)).values
    except InputError as error:
        assert "'green'" in str(error)  # noqa: PT017 - the answer of unknown="error"
        strangers = np.zeros(0)
    return {"people": model.transform(people()).values, "strangers": strangers}


CASES = [
    Case(
        name="MeanEmbedding",
        make=make,
        fit=fit,
        answer=answer,
        variants={
            "n_features": [32, 7, 0, With(16, feature_map="linear", n_features=4096)],
            "feature_map": ["rff", "fastfood", "nystrom", "landmarks", "nonsense"],
            "bandwidth": [2.0, "mean", -1.0],
            "unknown": ["ignore", "nonsense"],
            "random_state": [1, np.random.default_rng(0), np.random.RandomState(0), -1, 0.5],
            "engine": ["nonsense", 3],
        },
        people={n: PEOPLE[n].to_numpy(zero_copy_only=False) for n in PEOPLE.column_names},
        transformer=True,
    )
]
FUNCTIONS = []
