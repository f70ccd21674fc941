"""The methods of the imputers, on the people of their cases."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.imputation import KNOWN, MEANS, PLACES, X

from crosslevel import Means, People, Places
from crosslevel.imputation import CUDIA, CrossLevelImputer

WHOLE = X.drop(index=3)
PEOPLE, HALF = (People(some, **KNOWN) for some in (WHOLE, WHOLE[::2]))
WEIGHED, WRONG = People(WHOLE[::2], **KNOWN, weight="w"), WHOLE
TABLE = MEANS | {"se": np.linspace(0.05, 0.3, 24), "half": np.array(MEANS["ill"]) / 2}
ONE = Places(TABLE, by="place", means="ill")
RATES = [{"sex": ["f", "m"], "ill": [0.2, 0.6]}, {"sx": ["f"], "ill": [0.2]}, {"sex": ["f"], "ill": [2.0]}]


def persons():
    return CrossLevelImputer().fit(PEOPLE, ONE)


def clusters():
    return CUDIA(2, method="two_stage", n_restarts=1).fit(PEOPLE, ONE)


def imputed(found):
    return {"values": found.transform(PEOPLE).to_numpy(), "means": found.estimate("sex")}


DRAWS = {"n_draws": [3, 0, 1.5], "random_state": [1, -1], "match_means": [False, "no"]}
CASES = []
FUNCTIONS = [
    *(
        FunctionCase(
            method(type(make()), "fit", lambda make=make: type(make())(**make().get_params())),
            {"people": PEOPLE, "places": ONE},
            imputed,
            variants={
                "people": [HALF, People(WHOLE, **KNOWN, weight="w"), WRONG],
                "places": [PLACES, [ONE, ONE], MEANS],
            },
            neutral={} if make is persons else {"progress": "tells how many steps are done"},
        )
        for make in (persons, clusters)
    ),
    *(
        FunctionCase(
            method(type(make()), "transform", make),
            {"people": HALF},
            lambda found: found.to_numpy(),
            variants={"people": [WEIGHED, WRONG], "match_means": [False, "no"]},
        )
        for make in (persons, clusters)
    ),
    FunctionCase(
        method(CrossLevelImputer, "sample", persons),
        {"people": HALF, "n_draws": 2, "random_state": 0},
        lambda found: found,
        variants={"people": [WEIGHED, WRONG], "values": [False], **DRAWS},
    ),
    FunctionCase(
        method(CUDIA, "sample", clusters),
        {"people": HALF, "n_draws": 2, "random_state": 0},
        lambda found: found,
        variants={"people": [WEIGHED, WRONG], **DRAWS},
        neutral={"progress": "tells how many draws are done"},
    ),
    FunctionCase(
        method(CrossLevelImputer, "estimate", persons),
        {"by": "sex", "people": HALF},
        lambda found: found,
        variants={
            "by": ["code", ["sex", "place"], "nobody"],
            "people": [None, WEIGHED, WRONG],
            "level": [0.8, 95],
            "sampling": [False],
            "match_means": [True, "no"],
        },
    ),
    FunctionCase(
        method(CUDIA, "estimate", clusters),
        {"by": "sex", "people": HALF, "n_draws": 10},
        lambda found: found,
        variants={
            "by": ["code", ["sex", "place"], "nobody"],
            "people": [None, WEIGHED, WRONG],
            "level": [0.8, 95],
            "n_draws": [12, 0],
            "random_state": [1, -1],
            "match_means": [True, "no"],
        },
    ),
    FunctionCase(method(CUDIA, "clusters", clusters), {}, lambda found: found, variants={"level": [0.8, 95]}),
    *(
        FunctionCase(method(CrossLevelImputer, name, persons), {}, lambda found: found, variants={"level": [0.8, 95]})
        for name in ("slopes", "check_totals")
    ),
    FunctionCase(
        method(CrossLevelImputer, "predict_proba", persons),
        {"people": PEOPLE},
        lambda found: found,
        variants={"people": [HALF, WRONG]},
    ),
    FunctionCase(
        Means,
        {"columns": "ill"},
        lambda means: imputed(CrossLevelImputer().fit(PEOPLE, Places(TABLE, by="place", means=means))),
        variants={
            "columns": ["half", ["ill", "half"], "nobody"],
            "se": [With({"ill": "se"}, of="population"), {"ill": "se"}, {"half": "se"}, "se"],
            "known_rates": RATES,
            "of": [With("population", se={"ill": "se"}), "others"],
        },
    ),
]
