"""The methods of KRLS and of kernel logistic regression, on the rows of their cases."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.charts import drawn
from tests.contract.cases.krls import COUNTS, X, Y

from crosslevel.krls import KRLS, KernelLogistic

CLUSTER = np.arange(len(Y)) // 5
BINARY = np.median(Y) < Y
SETTINGS = {"missing": "drop", "penalty": 0.5}
WHERE = {"ax": "where it is drawn"}


def regression():
    return KRLS(**SETTINGS).fit(X, Y)


def logistic():
    return KernelLogistic(**SETTINGS).fit(X, BINARY)


def answer(found):
    return found.effects()


def parts(found):
    return dict(enumerate(found)) if isinstance(found, tuple) else found


BY = ["arm", ["arm", "treated"], {"old": "age >= 50", "young": "age < 50"}, {"old": "age >="}, {"old": "nobody > 1"}, 7]
FIT = {
    "sample_weight": [COUNTS, -COUNTS, COUNTS[:5], "much"],
    "cluster": [CLUSTER, CLUSTER[:5], np.zeros(len(Y))],
}


def reports(cls, make):
    """The cases of what both models report."""
    return [
        FunctionCase(
            method(cls, "effects", make),
            {},
            lambda found: found,
            variants={
                "level": [0.8, 95],
                "target": ["population", "overlap", "nonsense"],
                "by": BY,
                "cluster": [CLUSTER, CLUSTER[:5], np.zeros(len(Y))],
                "differences": [With(True, by="arm"), True],
            },
        ),
        FunctionCase(
            method(cls, "effects_covariance", make),
            {},
            lambda found: found,
            variants={
                "target": ["population", "overlap", "nonsense"],
                "by": BY,
                "cluster": [CLUSTER, CLUSTER[:5]],
            },
        ),
        FunctionCase(
            method(cls, "sorted_effects", make),
            {"term": "treated", "n_groups": 2, "n_splits": 1},
            lambda found: found,
            variants={
                "term": ["age", "nobody", None],
                "n_groups": [3, 1, 40],
                "n_splits": [2, 0],
                "level": [0.8, 95],
                "random_state": [3],
            },
            neutral={"progress": "tells how many halves are fitted"},
        ),
        FunctionCase(
            method(cls, "interactions", make),
            {},
            lambda found: found,
            variants={
                "terms": ["age", ["age", "treated"], "nobody"],
                "along": ["age", ["age", "treated"], "nobody"],
                "adjust": [True],
                "level": [0.8, 95],
            },
        ),
        FunctionCase(
            method(cls, "summary", make), {}, np.array, variants={"level": [0.8, 95], "by": ["arm", "nobody"]}
        ),
        FunctionCase(
            method(cls, "plot_effects", make), {}, drawn, variants={"kind": ["ranking", "nonsense"]}, neutral=WHERE
        ),
    ]


TELLS = {"progress": "tells how many steps are done"}
CASES = []
FUNCTIONS = [
    FunctionCase(KRLS(**SETTINGS).fit, {"X": X, "y": Y}, answer, variants=FIT, neutral=TELLS, data=("X", "y")),
    FunctionCase(
        KernelLogistic(**SETTINGS).fit, {"X": X, "y": BINARY}, answer, variants=FIT, neutral=TELLS, data=("X", "y")
    ),
    *reports(KRLS, regression),
    *reports(KernelLogistic, logistic),
    *(
        FunctionCase(
            method(cls, "score", make),
            {"X": X.drop(index=7), "y": np.delete(y, 7)},
            np.array,
            variants={"sample_weight": [np.delete(COUNTS, 7), COUNTS[:5]]},
            data=("X", "y"),
        )
        for cls, make, y in ((KRLS, regression, Y), (KernelLogistic, logistic, BINARY))
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
            "simultaneous": [True],
            "n_draws": [With(60, simultaneous=True), With(0, simultaneous=True), 60],
            "random_state": [With(1, simultaneous=True), With(-1, simultaneous=True), 1],
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
            "simultaneous": [True],
            "max_rows": [20, 0],
            "random_state": [With(1, max_rows=20), -1],
        },
        neutral=WHERE,
    ),
]
