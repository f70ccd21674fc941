"""The methods of the models of people and places, on a nation in which not everybody votes."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from tests.contract.case import FunctionCase, With, method

from crosslevel import EcologicalInference, GroupCounts, People, Places, PublishedShares, Survey
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression

WORLD = nation(12, 60, n_states=3, turnout=0.6)
SOME = WORLD.people.append_column("house", [np.arange(WORLD.people.num_rows) // 3])
FEWER = SOME.filter(pc.field("region") != "R0001")
PLACES = WORLD.places.append_column("rep", pc.subtract(WORLD.places["votes"], WORLD.places["dem"]))
SHARES = PLACES.append_column("f", [np.arange(20, 44, 2) / 64]).append_column("m", [1 - np.arange(20, 44, 2) / 64])
MARGINS = {"region": PLACES["region"].to_pylist(), "sex=1": np.arange(200, 212), "sex=2": np.arange(300, 288, -1)}
TOTALS = {"by": "region", "successes": "dem", "trials": "votes"}
KNOWN = {"by": "region", "weight": "weight", "columns": ["age", "sex", "race"], "categorical": ["sex"]}
PEOPLE, COUNTED = People(SOME, **KNOWN), Places(PLACES, **TOTALS)
ASKED = WORLD.survey(200).append_column("w", [np.arange(200) % 3 + 1.0]).append_column("who", [np.arange(200) % 2])
POLL = {"subgroup": ["sex = 1", "sex = 2"], "dem": [60, 90], "votes": [150, 150]}
EVIDENCE = [POLL, {**POLL, "subgroup": ["sex = 1", "nobody = 2"]}]
NEW = {"region": ["R0001"]}
SCALES = {"effect_variance": 0.3, "nugget": 0.02}
TELLS = {"progress": "tells how many people have been read"}


def model(**parameters):
    return EcologicalInference(**{"spatial": None, "hyperparameters": SCALES, **parameters})


def regression(**parameters):
    return DistributionRegression(**{"n_features": 32, "spatial": None, "hyperparameters": SCALES, **parameters})


def near(make):
    """Places whose neighbors are alike, so that where they are matters."""
    return make(spatial="matern32", hyperparameters={**SCALES, "spatial": 0.3, "length": 400.0})


def fitted(estimator, **named):
    return estimator.fit(PEOPLE, Places(PLACES, **TOTALS, **named))


def surveyed():
    """A model fitted with a survey that has the columns which are hidden."""
    people = People(SOME, **KNOWN | {"columns": ["sex", "race"]}, cluster="house")
    return model().fit(people, COUNTED, Survey(WORLD.survey(1000), outcome="voted_dem"))


HIDDEN = {"urban": "urban = 'urban'", "old": "age_group = '65+'", "degree": "education = 'bachelor'"}


def answer(found):
    survey = getattr(found, "survey_", None)
    rows = 0 if survey is None else survey.compared.num_rows
    return {"sex": found.estimate(by="sex", n_draws=50), "compared": np.array([rows])}


def told(survey):
    """What a survey says, by what it is called."""
    found = model().fit(People(SOME, **KNOWN | {"columns": ["sex", "race"]}), COUNTED, survey)
    names = found.survey_.surveys["survey"].to_pylist()
    return answer(found) | {"names": np.array(names)}


def learned(found):
    return answer(found) | {"coverage": np.array([found.confounding_.coverage])}


COLUMNS = [["age", "sex"], None, ["sex", "nobody"]]
CONDITIONS = ["age >= 40", "nobody = 1", "age >="]
COUNTS = {
    "by": ["state", "nobody"],
    "successes": ["rep", "nobody", None],
    "trials": ["population", "nobody", None],
    "outcomes": [
        ["dem", "rep"],
        With(["rep", "dem"], successes=None, outcomes=["dem", "rep"]),
        With(["dem", "nobody"], successes=None, outcomes=["dem", "rep"]),
    ],
    "population": ["population", "nobody"],
    "coords": [("lon", "lat")],
}
UNMATCHED = [With("error", people=People(FEWER, **KNOWN), unmatched="drop"), "nonsense"]
COORDS = {"coords": [("lat", "lon"), ("lon", "nobody"), None]}
ESTIMATE = {
    "by": ["race", ["sex", "race"], "nobody", None],
    "subgroups": [{"young": "age < 40"}, ["age < 40"], {"young": "age <"}, {"young": "nobody < 40"}],
    "where": ["age >= 40", "nobody = 1", "age >="],
    "rollup": ["state", "all", "nobody"],
    "share_of": ["people", "turnout", "nonsense"],
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
    most = Places(PLACES.slice(1), **TOTALS)
    whole = method(cls, "predict_places", lambda: make().fit(PEOPLE, most, unmatched="drop"))
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
    FunctionCase(
        People,
        {"data": SOME, **KNOWN},
        lambda people: answer(model().fit(people, COUNTED)),
        variants={
            "by": ["race", "nobody", ["region", "race"], None],
            "weight": [None, "house", "nobody", "region"],
            "cluster": ["house", "nobody", "region"],
            "columns": [*COLUMNS, "age", ["age", "region"]],
            "categorical": [(), ["age", "sex"], ["nobody"], 2.5],
            "where": CONDITIONS,
        },
        data=("data",),
    ),
    FunctionCase(
        GroupCounts,
        {"groups": {"sex": ["f", "m"]}, "weight": "population"},
        lambda counts: answer(model().fit(counts, Places(SHARES, **TOTALS))),
        variants={
            "groups": [
                {"sex": ["f", "m", "third"]},
                {"sex": {"m": "f", "f": "m"}},
                {"sex": ["f", "nobody"]},
                ["f", "m"],
            ],
            "weight": ["votes", None, "nobody", 3],
        },
    ),
    FunctionCase(
        Places,
        {"data": PLACES, **TOTALS},
        lambda places: answer(model().fit(PEOPLE, places)),
        variants=COUNTS
        | {
            "covariates": [["population"], ["state"], ["nobody"], "population"],
            "margins": [MARGINS, {"region": MARGINS["region"], "sax=1": MARGINS["sex=1"]}],
        },
        neutral={"means": "for the imputers, in the case of Means"},
        data=("data",),
    ),
    FunctionCase(
        Places,
        {"data": PLACES, **TOTALS, "coords": ("lon", "lat")},
        lambda places: answer(near(model).fit(PEOPLE, places)),
        variants=COORDS,
        neutral=dict.fromkeys((*COUNTS, "covariates", "margins", "means"), "in the case above"),
        data=("data",),
    ),
    FunctionCase(
        Survey,
        {"data": ASKED, "outcome": "voted_dem"},
        told,
        variants={
            "outcome": ["sex", "nobody", None],
            "by": ["region", "state", "nobody"],
            "weight": ["w", ["w", "who"], "nobody"],
            "name": ["poll", 3],
            "compare": [True, "yes"],
            "selection": [0.0, 0.5, -1.0, "nonsense"],
        },
        data=("data",),
    ),
    FunctionCase(
        PublishedShares,
        {"data": {**POLL, "source": ["a", "b"]}},
        told,
        variants={"subgroup": ["votes", "nobody"], "source": ["nobody", 3]},
        data=("data",),
    ),
    FunctionCase(
        model().fit,
        {"people": PEOPLE, "places": COUNTED},
        answer,
        variants={
            "survey": [Survey(ASKED, "voted_dem"), PublishedShares(POLL), [Survey(ASKED, "voted_dem")] * 2, ASKED],
            "unmatched": UNMATCHED,
        },
        neutral=TELLS,
        data=("people", "places"),
    ),
    *asked(EcologicalInference, model),
    FunctionCase(
        regression().fit,
        {"people": PEOPLE, "places": COUNTED},
        answer,
        variants={"unmatched": UNMATCHED},
        neutral=TELLS,
        data=("people", "places"),
    ),
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
