"""The methods of the imputers, on the people of their cases."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.imputation import MEANS, ONE, PLACE, WEIGHT, WHERE, WHOLE

from crosslevel.imputation import CUDIA, CrossLevelImputer

ERRORS = {"place": MEANS["place"], "ill": np.linspace(0.05, 0.3, 24)}
HALF = WHOLE.iloc[::2], WHERE.iloc[::2]
SOME = {"X": HALF[0], "partition": HALF[1]}
HALF_WEIGHT = np.delete(WEIGHT, 3)[::2]
WRONG = [WEIGHT[:5], -WEIGHT]


def persons():
    return CrossLevelImputer().fit(WHOLE, WHERE, ONE)


def clusters():
    return CUDIA(2, method="two_stage", n_restarts=1).fit(WHOLE, WHERE, ONE)


def imputed(found):
    return {"values": found.transform(WHOLE, WHERE), "means": found.estimate("sex", WHOLE, WHERE)}


FIT = {
    "sample_weight": [np.delete(WEIGHT, 3), *WRONG],
    "aggregate_se": [ERRORS, {**ERRORS, "ill": -np.ones(24)}, {"place": ["p00"], "ill": [0.1]}],
}
PEOPLE = ("X", "partition", "aggregates")
OWN = {"X": WHOLE, "partition": WHERE, "aggregates": ONE}
GIVEN = {"sample_weight": [HALF_WEIGHT, *WRONG]}


def shared(cls, make, tells=None, **more):
    """The cases of what both imputers can be asked."""
    tells = tells or {}
    made = make()
    return [
        FunctionCase(
            type(made)(**made.get_params()).fit, OWN, imputed, variants=FIT | more, neutral=tells, data=PEOPLE
        ),
        FunctionCase(
            method(cls, "fit_transform", lambda: type(made)(**made.get_params())),
            OWN,
            lambda found: found,
            variants=FIT,
            data=PEOPLE,
        ),
        FunctionCase(
            method(cls, "transform", make),
            SOME,
            lambda found: found,
            variants={
                "match_means": [False],
                "sample_weight": [*GIVEN["sample_weight"], With(HALF_WEIGHT, match_means=False)],
                "partition": [None, PLACE[:5]],
            },
            data=("X",),
        ),
    ]


KNOWN = [{"sex": ["f", "m"], "ill": [0.2, 0.6]}, {"sx": ["f"], "ill": [0.2]}, {"sex": ["f"], "ill": [2.0]}]
STREAM = WHOLE.assign(place=np.asarray(WHERE), w=np.delete(WEIGHT, 3))
CASES = []
FUNCTIONS = [
    *shared(CrossLevelImputer, persons, known_rates=KNOWN),
    *shared(CUDIA, clusters, {"progress": "tells how many steps are done"}),
    FunctionCase(
        method(CrossLevelImputer, "sample", persons),
        {**SOME, "n_draws": 2, "random_state": 0},
        lambda found: found,
        variants={
            "n_draws": [3, 0, 1.5],
            **GIVEN,
            "values": [False],
            "random_state": [1, -1],
            "match_means": [False, "no"],
        },
        data=("X", "partition"),
    ),
    FunctionCase(
        method(CUDIA, "sample", clusters),
        {**SOME, "n_draws": 2, "random_state": 0},
        lambda found: found,
        variants={"n_draws": [3, 0, 1.5], **GIVEN, "random_state": [1, -1], "match_means": [False, "no"]},
        neutral={"progress": "tells how many draws are done"},
        data=("X", "partition"),
    ),
    FunctionCase(
        method(CrossLevelImputer, "estimate", persons),
        {"by": "sex"},
        lambda found: found,
        variants={
            "by": ["code", ["sex", "place"], "nobody"],
            "partition": [HALF[1], With(HALF[1][::-1].to_numpy(), **SOME)],
            "sample_weight": [With(HALF_WEIGHT, **SOME), With(WEIGHT[:5], **SOME), np.delete(WEIGHT, 3)],
            "level": [0.8, 95],
            "sampling": [False],
            "match_means": [False, With(True, **SOME), "no"],
        },
        data=("X",),
    ),
    FunctionCase(
        method(CUDIA, "estimate", clusters),
        {"by": "sex", **SOME, "n_draws": 10},
        lambda found: found,
        variants={
            "by": ["code", ["sex", "place"], "nobody"],
            **GIVEN,
            "level": [0.8, 95],
            "n_draws": [12, 0],
            "random_state": [1, -1],
            "match_means": [True, "no"],
        },
        data=("X", "partition"),
    ),
    FunctionCase(method(CUDIA, "clusters", clusters), {}, lambda found: found, variants={"level": [0.8, 95]}),
    *(
        FunctionCase(method(CrossLevelImputer, name, persons), {}, lambda found: found, variants={"level": [0.8, 95]})
        for name in ("slopes", "check_totals")
    ),
    FunctionCase(
        method(CrossLevelImputer, "fit_stream", CrossLevelImputer),
        {"people": STREAM, "partition": "place", "aggregates": ONE, "columns": ["age", "code", "sex"]},
        imputed,
        variants={
            "partition": ["nobody"],
            "weight": ["w", "nobody"],
            "columns": [None, ["nobody"], ["place", "sex"]],
            "aggregate_se": FIT["aggregate_se"],
            "known_rates": KNOWN,
            "engine": ["nobody", None],
        },
        neutral={"progress": "tells how many people are counted"},
        data=("people", "aggregates"),
    ),
]
