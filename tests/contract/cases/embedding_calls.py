"""The methods of MeanEmbedding, on the people of its case."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.embedding import PEOPLE, fit, make

from crosslevel import Bags, MeanEmbedding

TELLS = {"progress": "tells how many people have been read"}
BAGS = Bags.from_frame(PEOPLE, by="town", columns=["age", "sex"])
FILE = Path(tempfile.mkdtemp(prefix="crosslevel-contract-")) / "state"


def answer(found):
    return {"values": found.values, "keys": np.array(found.key_table.to_pydict().__repr__()), "weight": found.weight}


def fitted():
    return fit(make(categorical=["sex"]))


def framed(found):
    given = found.transform(BAGS)
    return np.array([type(given).__name__])


PASS = {
    "by": ["party", ["town", "sex"], "nobody"],
    "weight": [None, "age", "nobody"],
    "where": ["age >= 40", "age >=", "nobody == 1"],
    "subgroups": [{"old": "age >= 65"}, {"old": "age >="}, {"old": "nobody == 1"}, {"all": "age >= 65"}, ["age >= 65"]],
}

CASES = []
FUNCTIONS = [
    FunctionCase(
        make().fit,
        {"people": PEOPLE, "by": "town"},
        lambda found: answer(found.transform(PEOPLE)),
        variants={
            "by": ["party", ["town", "sex"], "nobody"],
            "columns": [["age"], ["age", "nobody"]],
            "weight": ["w", "nobody"],
            "where": ["age >= 40", "age >=", "nobody == 1"],
        },
        neutral={**TELLS, "y": "ignored, as scikit-learn's pipelines expect"},
        data=("people",),
    ),
    FunctionCase(
        method(MeanEmbedding, "transform", fitted),
        {"people": PEOPLE},
        answer,
        variants={
            **PASS,
            "checkpoint": ["/nowhere/at/all/state", 7],
            "checkpoint_every": [9.0, With(-1.0, checkpoint=FILE), With("often", checkpoint=FILE)],
        },
        neutral=TELLS,
        data=("people",),
    ),
    FunctionCase(
        method(MeanEmbedding, "accumulate", fitted),
        {"people": PEOPLE},
        lambda found: answer(fitted().finish(found)),
        variants=PASS,
        data=("people",),
    ),
    FunctionCase(
        lambda transform=None: MeanEmbedding(16).set_output(transform=transform).fit(BAGS),
        {},
        framed,
        variants={"transform": ["pandas", "nonsense"]},
    ),
]
FUNCTIONS[-1].function.__qualname__ = "MeanEmbedding.set_output"
