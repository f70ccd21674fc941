"""The methods of KRLS, on the rows of its case."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.charts import drawn
from tests.contract.cases.krls import COUNTS, X, Y

from crosslevel.krls import KRLS

CLUSTER = np.arange(len(Y)) // 5
SETTINGS = {"missing": "drop", "penalty": 0.5}
WHERE = {"ax": "where it is drawn"}


def regression():
    return KRLS(**SETTINGS).fit(X, Y)


def answer(found):
    return found.effects()


def parts(found):
    return dict(enumerate(found)) if isinstance(found, tuple) else found


BY = ["arm", ["arm", "treated"], {"old": "age >= 50", "young": "age < 50"}, {"old": "age >="}, {"old": "nobody > 1"}, 7]
FIT = {
    "sample_weight": [COUNTS, -COUNTS, COUNTS[:5], "much"],
    "cluster": [CLUSTER, CLUSTER[:5], np.zeros(len(Y))],
}


TELLS = {"progress": "tells how many steps are done"}
CASES = []
FUNCTIONS = [
    FunctionCase(KRLS(**SETTINGS).fit, {"X": X, "y": Y}, answer, variants=FIT, neutral=TELLS, data=("X", "y")),
    FunctionCase(
        method(KRLS, "effects", regression),
        {},
        lambda found: found,
        variants={
            "level": [0.8, 95],
            "target": ["population", "nonsense"],
            "by": BY,
            "along": ["age", ["age", "treated"], "nobody", With("age", by="arm"), With("age", target="population")],
            "differences": [With(True, by="arm"), True],
        },
    ),
    FunctionCase(
        method(KRLS, "effects_covariance", regression),
        {},
        lambda found: found,
        variants={"target": ["population", "nonsense"], "by": BY},
    ),
    FunctionCase(
        method(KRLS, "summary", regression), {}, np.array, variants={"level": [0.8, 95], "by": ["arm", "nobody"]}
    ),
    FunctionCase(method(KRLS, "plot_effects", regression), {}, drawn, neutral=WHERE),
    FunctionCase(
        method(KRLS, "score", regression),
        {"X": X.drop(index=7), "y": np.delete(Y, 7)},
        np.array,
        variants={"sample_weight": [np.delete(COUNTS, 7), COUNTS[:5]]},
        data=("X", "y"),
    ),
    FunctionCase(
        method(KRLS, "predict", regression),
        {"X": X.iloc[:5]},
        parts,
        variants={"return_std": [True]},
        data=("X",),
    ),
    FunctionCase(
        method(KRLS, "pointwise_bands", regression),
        {"X": X.iloc[:5]},
        lambda found: found,
        variants={
            "columns": ["age", ["age", "treated"], "nobody"],
            "X": [None, X.iloc[:3]],
            "level": [0.8, 95],
        },
    ),
    FunctionCase(
        method(KRLS, "plot_effect", regression),
        {"column": "age"},
        drawn,
        variants={
            "column": ["treated", "nobody"],
            "along": ["treated", "nobody"],
            "level": [0.8, 95],
            "max_rows": [20, 0],
        },
        neutral=WHERE,
    ),
]
