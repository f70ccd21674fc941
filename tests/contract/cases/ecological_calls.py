"""The arguments of ``fit`` and ``estimate`` of EcologicalInference, on a nation in which not everybody votes."""

from __future__ import annotations

import functools
import inspect
import warnings

import numpy as np
import pyarrow.compute as pc
from tests.contract.case import FunctionCase, With

from crosslevel.data.simulate import nation
from crosslevel.ecological import EcologicalInference
from crosslevel.errors import CrosslevelWarning

WORLD = nation(12, 60, n_states=3, turnout=0.6)
SOME = WORLD.people.append_column("house", [np.arange(WORLD.people.num_rows) // 3])
FEWER = SOME.filter(pc.field("region") != "R0001")
PLACES = WORLD.places.append_column("rep", pc.subtract(WORLD.places["votes"], WORLD.places["dem"]))
MARGINS = {"region": PLACES["region"].to_pylist(), "sex=1": np.arange(200, 212), "sex=2": np.arange(300, 288, -1)}
TOTALS = {"by": "region", "successes": "dem", "trials": "votes"}
OPTIONS = {"weight": "weight", "columns": ["age", "sex", "race"]}
SCALES = {"effect_variance": 0.3, "nugget": 0.02}
ARGUMENTS = set(inspect.signature(EcologicalInference().fit).parameters) - {"people", "places"}
ASKED = WORLD.survey(200).append_column("w", [np.arange(200) % 3 + 1.0]).append_column("who", [np.arange(200) % 2])
SURVEY = {"survey": ASKED, "survey_outcome": "voted_dem"}
POLL = {"subgroup": ["sex == 1", "sex == 2"], "dem": [60, 90], "votes": [150, 150]}
OF_SURVEYS = {
    "survey_outcome": ["voted_dem"],
    "survey_by": ["state"],
    "survey_weight": ["w"],
    "survey_name": ["who"],
    "selection": [0.2],
}
TELLS = {"progress": "tells how many people have been read"}


def model(**parameters):
    return EcologicalInference(**{"categorical": ["sex"], "spatial": None, "hyperparameters": SCALES, **parameters})


def near():
    """Places whose neighbors are alike, so that where they are matters."""
    return model(spatial="matern32", hyperparameters={**SCALES, "spatial": 0.3, "length": 400.0})


@functools.cache
def fitted():
    """The model that is asked, fitted when it is first asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model().fit(SOME, PLACES, **TOTALS, **OPTIONS, population="population")


def ask(*arguments, **options):
    return fitted().estimate(*arguments, **options)


ask.__wrapped__ = EcologicalInference().estimate
ask.__qualname__ = "EcologicalInference.estimate"


@functools.cache
def surveyed():
    """A model fitted with a survey that has the columns which are hidden."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        given = {"weight": "weight", "columns": ["sex", "race"], "cluster": "house"}
        return model().fit(SOME, PLACES, **TOTALS, **given, survey=WORLD.survey(1000), survey_outcome="voted_dem")


def learn(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        again = model()
        vars(again).update(vars(surveyed()))  # copy.copy would leave out people and survey
        return again.learn_confounding(*arguments, **options)


learn.__wrapped__ = EcologicalInference().learn_confounding
learn.__qualname__ = "EcologicalInference.learn_confounding"
HIDDEN = {"urban": "urban == 'urban'", "old": "age_group == '65+'", "degree": "education == 'bachelor'"}


def answer(found):
    return found.estimate(by="sex", n_draws=50)


def learned(found):
    return {"sex": answer(found), "coverage": np.array([found.confounding_.coverage])}


CASES = []
FUNCTIONS = [
    FunctionCase(
        model().fit,
        {"people": SOME, "places": PLACES, **TOTALS, **OPTIONS},
        answer,
        variants={
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
            "cluster": ["house", "nobody"],
            "margins": [MARGINS, {"region": MARGINS["region"], "sax=1": MARGINS["sex=1"]}],
            "survey": [ASKED],
            "evidence": [POLL, {**POLL, "subgroup": ["sex == 1", "nobody == 2"]}],
            **OF_SURVEYS,
            "where": ["age >= 40"],
            "unmatched": [With("error", people=FEWER, unmatched="drop"), "nonsense"],
        },
        neutral={**TELLS, "coords": "acts with spatial, in the next case"},
        data=("people", "places"),
    ),
    FunctionCase(
        near().fit,
        {"people": SOME, "places": PLACES, **TOTALS, **OPTIONS, "coords": ("lon", "lat")},
        answer,
        variants={"coords": [("lat", "lon"), ("lon", "nobody"), None]},
        neutral=dict.fromkeys(
            (
                *("by", "successes", "trials", "weight", "columns", "outcomes", "population"),
                *("cluster", "margins", "where", "unmatched", "progress", "survey", "evidence", *OF_SURVEYS),
            ),
            "in the case above",
        ),
        data=("people", "places"),
    ),
    FunctionCase(
        model().fit,
        {"people": SOME, "places": PLACES, **TOTALS, "weight": "weight", "columns": ["sex", "race"], **SURVEY},
        answer,
        variants={
            "survey": [ASKED.slice(0, 100), [ASKED, ASKED], None],
            "survey_outcome": ["sex", "nobody", None],
            "survey_by": ["region", "state", "nobody"],
            "survey_weight": ["w", ["w", "who"], "nobody"],
            "survey_name": ["who", "nobody"],
            "selection": [0.0, 0.5, -1.0, "nonsense"],
            "evidence": [POLL],
        },
        neutral=dict.fromkeys(
            (
                *("by", "successes", "trials", "weight", "coords", "columns", "outcomes", "population"),
                *("cluster", "margins", "where", "unmatched", "progress"),
            ),
            "in the first case",
        ),
        data=("people", "places"),
    ),
    FunctionCase(
        model(likelihood="exact").fit,
        {"people": SOME, "places": PLACES, **TOTALS, **OPTIONS},
        answer,
        variants={"cluster": ["house"], "margins": [MARGINS], "survey": [ASKED], "evidence": [POLL], **OF_SURVEYS},
        neutral=dict.fromkeys(
            (
                *("by", "successes", "trials", "weight", "coords", "columns", "outcomes", "population"),
                *("where", "unmatched", "progress"),
            ),
            "in the first case",
        ),
        data=("people", "places"),
    ),
    FunctionCase(
        learn,
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
    FunctionCase(
        ask,
        {"by": "sex", "n_draws": 50},
        lambda found: found,
        variants={
            "by": ["race", ["sex", "race"], "nobody", None],
            "subgroups": [{"young": "age < 40"}, ["age < 40"]],
            "where": ["age >= 40"],
            "rollup": ["state", "all", "nobody"],
            "denominator": ["people", "turnout", "nonsense"],
            "contrast": ["difference", "ratio", "nonsense"],
            "reference": [2, With(2, contrast="difference"), With(3, contrast="difference")],
            "interval": ["model", "nonsense"],
            "level": [0.8, 95],
            "n_draws": [60, 0],
        },
        neutral=TELLS,
        data=("people",),
    ),
]
