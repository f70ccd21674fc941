"""The methods of the models of bins and areas."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.binned import AGES, NEW, PEOPLE
from tests.contract.cases.charts import drawn

from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals

FIXED = {"kernel": "eq", "variance": 400.0, "lengthscale": 20.0, "noise": 1.0, "mean": 3.0}
SIZES = np.arange(1.0, 10.0)
TWO = Intervals([0, 10, 20] * 2, [10, 20, 30] * 2)
AREAS = ["a"] * 3 + ["b"] * 3
OPEN = {"regions": Intervals([0, 10, 20], [10, 20, np.inf], open_ended=True), "y": [9.0, 5, 3], "tail": 5.0}
LAPPING = Intervals([0, 10, 15, 20], [10, 20, 25, 30])
DRAWN = {"ax": "where it is drawn"}


def smooth():
    return BinnedGP(**FIXED).fit(AGES, PEOPLE, "total")


def counts(**given):
    return BinnedCountGP(kernel="eq").fit(AGES, PEOPLE, cell=5.0, **given)


def pooled():
    return BinnedCountGP(kernel="eq").fit(TWO, [9.0, 5, 3, 4, 9, 2], cell=2.0, pool={"ward": AREAS})


def rates(found):
    return {"mean": found.predict(NEW, quantity="mean"), "table": found.estimate(NEW)}


def counted(found):
    return {"draws": found.sample(Intervals([5], [15]), 5, "count", random_state=0), "table": found.estimate()}


def parts(found):
    return dict(enumerate(found)) if isinstance(found, tuple) else found


QUANTITY = ["mean", "density", "rate", "nonsense"]
SPREAD = {
    "return_std": [True],
    "return_cov": [True, With(True, return_std=True)],
}
CASES = []
FUNCTIONS = [
    FunctionCase(
        BinnedGP(**{**FIXED, "lengthscale": None}).fit,
        {"regions": AGES, "y": PEOPLE, "quantity": "total"},
        rates,
        variants={"quantity": ["mean"]},
        neutral={
            "progress": "tells how many evaluations are done",
            **dict.fromkeys(("sizes", "std_error"), "in the case below"),
        },
        data=("regions", "y"),
    ),
    FunctionCase(
        BinnedGP(**FIXED).fit,
        {"regions": AGES, "y": PEOPLE, "quantity": "total"},
        rates,
        variants={
            "quantity": ["mean", "rate", None, "nonsense"],
            "sizes": [SIZES, SIZES[:3], -SIZES],
            "std_error": [SIZES, SIZES[:3], -SIZES],
        },
        neutral={"progress": "in the case above"},
        data=("regions", "y"),
    ),
    FunctionCase(
        method(BinnedGP, "estimate", smooth),
        {"regions": NEW},
        lambda found: found,
        variants={"regions": [None, [3.0]], "quantity": QUANTITY, "level": [0.8, 95]},
    ),
    FunctionCase(
        method(BinnedGP, "predict", smooth),
        {"regions": NEW},
        parts,
        variants={"quantity": QUANTITY, **SPREAD},
        data=("regions",),
    ),
    FunctionCase(
        method(BinnedGP, "sample", smooth),
        {"regions": NEW, "random_state": 0},
        parts,
        variants={"n_draws": [2, 0, 1.5], "quantity": QUANTITY, "random_state": [1, -1]},
        data=("regions",),
    ),
    FunctionCase(
        method(BinnedGP, "plot", smooth),
        {},
        drawn,
        variants={"level": [0.5, 95]},
        neutral={**DRAWN, "options": "those of charts.histogram"},
    ),
    FunctionCase(
        BinnedCountGP(kernel="eq").fit,
        {"regions": AGES, "y": PEOPLE, "cell": 5.0},
        counted,
        variants={
            "trials": [np.full(9, 80.0), np.full(3, 80.0)],
            "pool": [["a"] * 4 + ["b"] * 5, ["a"]],
            "cell": [2.0, -1.0, "wide"],
            "tail": [With(9.0, **OPEN), With(-1.0, **OPEN), 9.0],
            "preserve": [False, With(True, regions=LAPPING, y=[9, 5, 6, 3])],
        },
        neutral={"progress": "tells how many portions are solved"},
        data=("regions", "y"),
    ),
    FunctionCase(
        BinnedCountGP(kernel="eq", likelihood="binomial").fit,
        {"regions": AGES, "y": PEOPLE, "cell": 5.0, "trials": np.full(9, 80.0)},
        lambda found: found.estimate(),
        variants={
            "trials": [np.full(9, 90.0), None, np.full(9, 1.0)],
            "pool": [["a"] * 4 + ["b"] * 5],
            "preserve": [False, True],
        },
        neutral=dict.fromkeys(("cell", "tail", "progress"), "in the case above"),
        data=("regions", "y"),
    ),
    FunctionCase(
        method(BinnedCountGP, "estimate", counts),
        {"regions": NEW},
        lambda found: found,
        variants={"regions": [None], "quantity": [*QUANTITY, "count", "expected"], "level": [0.8, 95], "pool": ["a"]},
    ),
    FunctionCase(
        method(BinnedCountGP, "estimate", pooled),
        {"regions": Intervals([5], [15])},
        lambda found: found,
        variants={"pool": ["a", ["b", "a"], "nowhere"]},
        neutral=dict.fromkeys(("regions", "quantity", "level"), "in the case above"),
    ),
    FunctionCase(
        method(BinnedCountGP, "predict", counts),
        {"regions": NEW},
        parts,
        variants={"quantity": [*QUANTITY, "count"], **SPREAD, "pool": ["a"]},
        data=("regions",),
    ),
    FunctionCase(
        method(BinnedCountGP, "sample", counts),
        {"regions": NEW, "random_state": 0},
        parts,
        variants={
            "n_draws": [2, 0, 1.5],
            "quantity": [*QUANTITY, "count"],
            "random_state": [1, -1],
            "pool": ["a"],
        },
        data=("regions",),
    ),
    FunctionCase(
        method(BinnedCountGP, "plot", pooled),
        {"pool": "a"},
        drawn,
        variants={"pool": ["b", "nowhere"], "level": [0.5, 95]},
        neutral={**DRAWN, "options": "those of charts.histogram"},
    ),
]
