"""Respondents and published shares that would count twice, and what replicate weights say where they say nothing."""

import warnings

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.errors import CrosslevelWarning, InputError

PEOPLE = {"by": "region", "weight": "weight", "columns": ["age_group", "race", "sex"], "categorical": ["sex"]}
ASKED = {"outcome": "voted_dem", "by": "region"}
EVIDENCE = pd.DataFrame(
    {"subgroup": ["race == 'black'", "race == 'white'"], "source": "exit", "dem": [80, 40], "votes": [100, 100]}
)


@pytest.fixture(scope="module")
def world():
    return nation(12, 150, n_states=3, random_state=3)


@pytest.fixture(scope="module")
def asked(world):
    return world.survey(300, shift=0.3, random_state=2).to_pandas()


def fitted(world, *surveys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(spatial=None, hyperparameters={"effect_variance": 0.2, "nugget": 0.05}).fit(
            cl.People(world.people, **PEOPLE), cl.Places(world.places, "region", "dem", "votes"), list(surveys)
        )


def poll(data, name="survey", **given):
    return cl.Survey(data, **ASKED, name=name, **given)


def test_a_source_of_evidence_is_no_survey_too(world, asked):
    with pytest.raises(InputError):
        fitted(world, poll(asked, "exit"), cl.PublishedShares(EVIDENCE))


def test_replicate_weights_that_tell_nothing_leave_the_number_of_kish(world, asked):
    weight = np.random.default_rng(0).gamma(2.0, 1.0, len(asked))
    kish = weight.sum() ** 2 / (weight**2).sum()
    for survey in (asked.assign(w=weight, r=weight), asked.assign(w=weight, r=weight[::-1], voted_dem=1)):
        found = fitted(world, poll(survey, weight=["w", "r"])).survey_.surveys
        assert found["effective"].to_pylist() == pytest.approx([kish])
    with pytest.raises(InputError):
        fitted(world, poll(asked.assign(w=weight, r=0.0), weight=["w", "r"]))
    with pytest.raises(InputError):
        fitted(world, poll(asked.assign(w=-weight), weight="w"))
