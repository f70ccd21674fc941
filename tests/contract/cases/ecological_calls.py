"""The methods of the models of people and places, on a nation in which not everybody votes."""

from __future__ import annotations

import inspect

import numpy as np
import pyarrow.compute as pc
from tests.contract.case import FunctionCase, With, method

from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression, EcologicalInference

WORLD = nation(12, 60, n_states=3, turnout=0.6)
SOME = WORLD.people.append_column("house", [np.arange(WORLD.people.num_rows) // 3])
FEWER = SOME.filter(pc.field("region") != "R0001")
PLACES = WORLD.places.append_column("rep", pc.subtract(WORLD.places["votes"], WORLD.places["dem"]))
MARGINS = {"region": PLACES["region"].to_pylist(), "sex=1": np.arange(200, 212), "sex=2": np.arange(300, 288, -1)}
TOTALS = {"by": "region", "successes": "dem", "trials": "votes"}
OPTIONS = {"weight": "weight", "columns": ["age", "sex", "race"]}
ASKED = WORLD.survey(200).append_column("w", [np.arange(200) % 3 + 1.0]).append_column("who", [np.arange(200) % 2])
SURVEY = {"survey": ASKED, "survey_outcome": "voted_dem"}
POLL = {"subgroup": ["sex == 1", "sex == 2"], "dem": [60, 90], "votes": [150, 150]}
EVIDENCE = [POLL, {"subgroup": ["sex == 2"]}, {**POLL, "subgroup": ["sex == 1", "nobody == 2"]}]
OF_SURVEYS = {
    "survey_outcome": ["voted_dem"],
    "survey_by": ["state"],
    "survey_weight": ["w"],
    "survey_name": ["who"],
    "compare": [True],
    "selection": [0.2],
}
COUNTED = {"people": None, "weight": None, "columns": None, "composition": {"sex": ["dem", "rep"]}}
NEW = {"region": ["R0001"]}
SCALES = {"effect_variance": 0.3, "nugget": 0.02}
TELLS = {"progress": "tells how many people have been read"}


def model(**parameters):
    return EcologicalInference(**{"categorical": ["sex"], "spatial": None, "hyperparameters": SCALES, **parameters})


def regression(**parameters):
    given = {"n_features": 32, "categorical": ["sex"], "spatial": None, "hyperparameters": SCALES}
    return DistributionRegression(**given | parameters)


def near(make):
    """Places whose neighbors are alike, so that where they are matters."""
    return make(spatial="matern32", hyperparameters={**SCALES, "spatial": 0.3, "length": 400.0})


def fitted(estimator, **options):
    return estimator.fit(SOME, PLACES, **TOTALS, **OPTIONS, **options)


def surveyed():
    """A model fitted with a survey that has the columns which are hidden."""
    given = {"weight": "weight", "columns": ["sex", "race"], "cluster": "house"}
    return model().fit(SOME, PLACES, **TOTALS, **given, survey=WORLD.survey(1000), survey_outcome="voted_dem")


HIDDEN = {"urban": "urban == 'urban'", "old": "age_group == '65+'", "degree": "education == 'bachelor'"}


def answer(found):
    survey = getattr(found, "survey_", None)
    rows = 0 if survey is None else survey.compared.num_rows
    return {"sex": found.estimate(by="sex", n_draws=50), "compared": np.array([rows])}


def learned(found):
    return answer(found) | {"coverage": np.array([found.confounding_.coverage])}


def fit(estimator, variants, neutral=None, **given):
    """A case of ``fit``; arguments without variants are those of another case."""
    known = set(inspect.signature(type(estimator).fit).parameters) - {"self", "people", "places", *variants}
    return FunctionCase(
        estimator.fit,
        {"people": SOME, "places": PLACES, **TOTALS, **OPTIONS, **given},
        answer,
        variants=variants,
        neutral=TELLS if neutral is None else dict.fromkeys(known, neutral),
        data=("people", "places"),
    )


FIT = {
    "by": ["state", "nobody"],
    "successes": ["rep", "nobody", None],
    "trials": ["population", "nobody", None],
    "weight": [None, "house", "nobody"],
    "columns": [["age", "sex"], None, ["sex", "nobody"]],
    "outcomes": [
        ["dem", "rep"],
        With(["rep", "dem"], successes=None, outcomes=["dem", "rep"]),
        With(["dem", "nobody"], successes=None, outcomes=["dem", "rep"]),
    ],
    "population": ["population", "nobody"],
    "where": ["age >= 40", "nobody == 1", "age >="],
    "unmatched": [With("error", people=FEWER, unmatched="drop"), "nonsense"],
    "coords": [("lon", "lat")],
}
COORDS = {"coords": [("lat", "lon"), ("lon", "nobody"), None]}
ESTIMATE = {
    "by": ["race", ["sex", "race"], "nobody", None],
    "subgroups": [{"young": "age < 40"}, ["age < 40"], {"young": "age <"}, {"young": "nobody < 40"}],
    "where": ["age >= 40", "nobody == 1", "age >="],
    "rollup": ["state", "all", "nobody"],
    "denominator": ["people", "turnout", "nonsense"],
    "contrast": ["difference", "ratio", "nonsense"],
    "reference": [2, With(2, contrast="difference"), With(3, contrast="difference")],
    "level": [0.8, 95],
    "n_draws": [60, 0],
}
FOLDS = {
    "k": [4, 1, With(4, leave_out="state", k=10)],
    "leave_out": [With("state", k=10), With("nobody", k=10)],
    "level": [0.8, 95],
    "random_state": [1, -1, With(1, leave_out="state", k=10)],
}
PREDICT = {
    "places": [NEW, {"region": ["nowhere"]}, {"nobody": [1]}],
    "people": [With(SOME.slice(5), places=NEW), SOME],
    "level": [0.8, 95],
}


def asked(cls, make):
    """The cases of what both models can be asked."""
    intervals = {"interval": ["model", "nonsense"] if cls is EcologicalInference else ["confounding", "nonsense"]}
    rates = method(cls, "estimate", lambda: fitted(make(), population="population"))
    whole = method(
        cls, "predict_places", lambda: make().fit(SOME, PLACES.slice(1), **TOTALS, **OPTIONS, unmatched="drop")
    )
    folds = method(cls, "cross_validate", lambda: fitted(make()))
    return [
        FunctionCase(
            rates,
            {"by": "sex", "n_draws": 50},
            lambda found: found,
            variants=ESTIMATE | intervals,
            neutral=TELLS,
            data=("people",),
        ),
        FunctionCase(whole, {}, lambda found: found, variants=PREDICT),
        FunctionCase(folds, {"k": 3}, lambda found: found, variants=FOLDS, neutral=TELLS),
    ]


CASES = []
FUNCTIONS = [
    fit(
        model(),
        FIT
        | {
            "composition": [
                With({"sex": ["rep", "votes"]}, **COUNTED),
                With({"sex": ["dem", "nobody"]}, **COUNTED),
                With(["dem", "rep"], **COUNTED),
                {"sex": ["dem", "rep"]},
            ],
            "covariates": [["population"], ["state"], ["nobody"], "population"],
            "cluster": ["house", "nobody"],
            "margins": [MARGINS, {"region": MARGINS["region"], "sax=1": MARGINS["sex=1"]}],
            "survey": [ASKED],
            "evidence": EVIDENCE,
            **OF_SURVEYS,
        },
    ),
    fit(
        model(),
        {
            "survey": [ASKED.slice(0, 100), [ASKED, ASKED], None],
            "survey_outcome": ["sex", "nobody", None],
            "survey_by": ["region", "state", "nobody"],
            "survey_weight": ["w", ["w", "who"], "nobody"],
            "survey_name": ["who", "nobody"],
            "compare": [True, "yes"],
            "selection": [0.0, 0.5, -1.0, "nonsense"],
            "evidence": [POLL],
        },
        "in the case above",
        **SURVEY | {"columns": ["sex", "race"]},
    ),
    fit(near(model), COORDS, "in the case above", coords=("lon", "lat")),
    *asked(EcologicalInference, model),
    fit(regression(), FIT),
    fit(near(regression), COORDS, "in the case above", coords=("lon", "lat")),
    *asked(DistributionRegression, regression),
    FunctionCase(
        method(EcologicalInference, "sensitivity", lambda: fitted(model())),
        {"by": "sex", "n_draws": 50, "contextual_variance": (0.0, 0.3)},
        lambda found: found,
        variants={
            "by": ["race", "nobody"],
            "subgroups": [{"young": "age < 40"}, {"young": "age <"}],
            "contextual_variance": [(0.0, 0.1), (-1.0,), (), "much"],
            "level": [0.8, 95],
        },
        neutral={"options": "those of estimate", **TELLS},
        data=("people",),
    ),
    FunctionCase(
        method(EcologicalInference, "learn_confounding", surveyed),
        {"labels": HIDDEN},
        learned,
        variants={
            "labels": [{**HIDDEN, "young": "age < 30"}, "nonsense", []],
            "by": [["race"], ["nobody"]],
            "hidden": [{"old": ["race"]}, {"nobody": ["race"]}],
            "families": [{"old": "one", "urban": "one", "degree": "one"}, {"nobody": "one"}],
            "survey": [True, "yes"],
            "level": [0.5, 95],
        },
        neutral={"progress": "tells how many columns have been hidden"},
        data=("people",),
    ),
]
