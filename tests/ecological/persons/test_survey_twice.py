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


@pytest.mark.parametrize("again", ["rows", "columns", "types", "weights"])
def test_the_same_respondents_are_known_in_any_order(world, asked, again):
    weight = {"w": np.linspace(1.0, 2.0, len(asked))}
    one = asked.assign(**weight) if again == "weights" else asked
    other = {
        "rows": one.sample(frac=1.0, random_state=1),
        "columns": one[one.columns[::-1]],
        "types": one.assign(voted_dem=one.voted_dem.astype(float)),
        "weights": one.sample(frac=1.0, random_state=2),
    }[again]
    given = {"weight": "w"} if again == "weights" else {}
    with pytest.raises(InputError):
        fitted(world, poll(one, "a", **given), poll(other, "b", **given))


def test_rows_pasted_twice_are_said(world, asked):
    model = fitted(world, poll(pd.concat([asked, asked])))
    assert any("2 times" in text for text in model.survey_.loud)
    assert not any("times" in text for text in fitted(world, poll(asked)).survey_.loud)


def test_a_source_of_evidence_is_no_survey_too(world, asked):
    with pytest.raises(InputError):
        fitted(world, poll(asked, "exit"), cl.PublishedShares(EVIDENCE))


def test_evidence_that_says_the_same_in_other_words_is_refused(world):
    respelled = EVIDENCE.assign(subgroup=["race=='black'", "race in ('white')"])
    with pytest.raises(InputError):
        fitted(world, cl.PublishedShares(pd.concat([EVIDENCE, respelled], ignore_index=True)))
    with pytest.raises(InputError):
        fitted(world, cl.PublishedShares(pd.concat([EVIDENCE, EVIDENCE.assign(source="again")])))
    one = EVIDENCE.assign(source=["exit", " exit "])
    assert fitted(world, cl.PublishedShares(one)).survey_.surveys["survey"].to_pylist() == ["exit"]


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
