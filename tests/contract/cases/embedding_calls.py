"""The methods of MeanEmbedding, on the people of its case."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, method
from tests.contract.cases.embedding import PEOPLE, fit, make, people

from crosslevel import Bags, MeanEmbedding

TELLS = {"progress": "tells how many people have been read"}
BAGS = Bags.from_frame(PEOPLE, by="town", columns=["age", "sex"])


def answer(found):
    return {"values": found.values, "keys": np.array(found.key_table.to_pydict().__repr__()), "weight": found.weight}


def fitted():
    return fit(make())


def framed(found):
    given = found.transform(BAGS)
    return np.array([type(given).__name__])


CASES = []
FUNCTIONS = [
    FunctionCase(
        make().fit,
        {"people": people()},
        lambda found: answer(found.transform(people())),
        neutral={**TELLS, "y": "ignored, as scikit-learn's pipelines expect"},
        data=("people",),
    ),
    FunctionCase(
        method(MeanEmbedding, "transform", fitted),
        {"people": people()},
        answer,
        variants={
            "subgroups": [
                {"old": "age >= 65"},
                {"old": "age >="},
                {"old": "nobody = 1"},
                {"all": "age >= 65"},
                ["age >= 65"],
            ],
            "checkpoint": ["/nowhere/at/all/state", 7],
        },
        neutral=TELLS,
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
