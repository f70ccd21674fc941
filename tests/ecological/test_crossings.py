"""Intervals of crossings that allow for confounding: by several columns, under a condition, or by name; and what is shrunk."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from scipy import special

from crosslevel.data.simulate import nation
from crosslevel.ecological import EcologicalInference
from crosslevel.ecological.answers import _codes
from crosslevel.ecological.confounding import CROSSED, NOBODY, Confounding, LearnedConfounding, columns_apart
from crosslevel.ecological.subgroups import REST, Partition, Request
from crosslevel.errors import CrosslevelWarning

COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
FIXED = {"effect_variance": 0.01, "spatial": 0.1, "length": 300.0, "nugget": 0.02}
TAU = 0.3


def calibration(tau=TAU, omega=0.0, **shrinkage):
    return LearnedConfounding(
        Confounding(tau, omega, 9), shrinkage, ("a",) * 9, 0.95, 0.95, pa.table({"label": ["a"] * 9}), 0.95
    )


@pytest.fixture(scope="module")
def model():
    world = nation(25, 150, n_states=4, random_state=1)
    found = EcologicalInference(
        likelihood="exact", categorical=["sex"], hyperparameters=FIXED, sampling_error=False, n_jobs=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        found.fit(world.people, world.places, **COUNTS, columns=["sex", "race"])
    return found


@pytest.fixture
def moved(model):
    """Give the variance that confounding adds to the logit over all places, by subgroup."""
    model.confounding_ = calibration()

    def ask(**asked):
        asked = {"rollup": "all", "n_draws": 3000} | asked
        wide, plain = (model.estimate(interval=i, **asked) for i in ("confounding", "model"))
        return wide, special.logit(wide.draws).var(axis=0) - special.logit(plain.draws).var(axis=0)

    yield ask
    model.confounding_ = None


def closed_form(model, names, effects):
    """J Sigma J' from the places' own answers, Sigma the covariance of the effects of the levels."""
    local = model.estimate(by=list(names), n_draws=200, interval="model").to_frame("pandas")
    keys = list(dict.fromkeys(zip(*(local[n] for n in names), strict=True)))
    keys.sort()
    place = {k: i for i, k in enumerate(dict.fromkeys(local.region))}
    A, S, P = (np.zeros((len(place), len(keys))) for _ in range(3))
    for row in local.to_dict("records"):
        at = place[row["region"]], keys.index(tuple(row[n] for n in names))
        A[at], P[at] = row["population"], row["estimate"]
    S = A / A.sum(axis=1, keepdims=True)
    v = P * (1 - P)
    W = S * v / (S * v).sum(axis=1, keepdims=True)
    A = A / A.sum(axis=0)
    whole = (A * P).sum(axis=0)
    a = A * v / (whole * (1 - whole))
    J = np.diag(a.sum(axis=0)) - a.T @ W
    sigma = sum(np.equal.outer([k[j] for k in keys], [k[j] for k in keys]).astype(float) for j in range(len(names)))
    if len(names) > 1:
        sigma = sigma + CROSSED * np.eye(len(keys))
    return keys, effects**2 * np.diag(J @ sigma @ J.T)


@pytest.mark.parametrize("names", [("race",), ("race", "sex")])
def test_draws_of_crossings_agree_with_the_closed_form(model, moved, names):
    wide, found = moved(by=list(names))
    keys, expected = closed_form(model, names, TAU)
    asked = list(zip(*(wide[n].tolist() for n in names), strict=True))
    np.testing.assert_allclose(np.sqrt(found), np.sqrt([expected[keys.index(k)] for k in asked]), rtol=0.08)


@pytest.mark.parametrize("race", ["white", "black"])
def test_the_same_people_asked_for_in_three_ways_are_about_as_sure(moved, race):
    by_both, both = moved(by=["race", "sex"])
    by_one, one = moved(by="race", where="sex == 2")
    _, named = moved(subgroups={"them": f"race == '{race}' and sex == 2"})
    _, mixed = moved(by="race", subgroups={"women": "sex == 2"})
    at = [i for i, key in enumerate(zip(by_both["race"], by_both["sex"], strict=True)) if key == (race, 2)]
    here = by_one["race"].tolist().index(race)
    expected = np.sqrt(both[at[0]])
    np.testing.assert_allclose(np.sqrt([one[here], named[0], mixed[here]]), expected, rtol=0.2)
    # one effect alone would be far too sure
    _, alone = moved(by="race")
    assert np.sqrt(one[here]) > 1.2 * np.sqrt(alone[here])


def test_the_columns_that_set_people_apart_are_counted():
    assert columns_apart(Request(("race",), {}, "race is not null")) == (0,)
    assert columns_apart(Request(("race",), {}, "sex == 2 and age > 3")) == (2,)
    assert columns_apart(Request((), {}, "sex == 2")) == (0,)
    assert columns_apart(Request((), {"a": "sex == 2", "b": "sex == 2 and age > 3"}, "age > 3")) == (1, 1)
    assert columns_apart(Request(("race",), {"a": "race == 'white'", "b": "sex == 2"}, None)) == (0, 1)


def part(levels, place, level):
    m = len(place)
    return Partition(pa.table(levels), np.array(place), np.array(level), np.ones(m), np.ones(m), np.ones(m))


def test_the_rest_has_an_effect_of_its_own_and_none_of_the_crossing():
    asked = {"race": ["a", "b"], "sex": [2, 2]}
    first, second = _codes(part(asked, [0, 0, 0], [0, 1, REST]))
    assert first.tolist() == [0, 1, 2]
    assert second.tolist() == [0, 0, NOBODY]
    # where everybody is asked for, a column of one value sets nobody apart
    (alone,) = _codes(part(asked, [0, 0], [0, 1]), 1)
    assert alone.tolist() == [0, 1]
    # one crossing alone: the rest is all the others
    assert [c.tolist() for c in _codes(part({"subgroup": ["x"]}, [0, 0], [0, REST]), 1)] == [[0, NOBODY], [0, NOBODY]]
    assert [c.tolist() for c in _codes(part({"subgroup": ["x"]}, [0, 0], [0, REST]))] == [[0, 1]]
    one, two = _codes(part({"race": ["a"], "sex": [2], "subgroup": ["x"]}, [0, 0], [0, REST]))
    assert (one.tolist(), two.tolist()) == ([0, 1], [0, NOBODY])


def test_groups_of_one_column_are_pulled_and_crossings_are_not(model):
    model.confounding_ = calibration(race=0.5, sex=0.0)
    try:
        asked = {"rollup": "all", "n_draws": 200}
        for pulled, questions in (
            (True, [{"by": "race"}, {"by": "race", "where": "race is not null"}, {"where": "race == 'black'"}]),
            (False, [{"by": "race", "where": "sex == 2"}, {"by": ["race", "sex"]}, {"by": "sex"}]),
        ):
            for question in questions:
                wide, plain = (model.estimate(interval=i, **asked, **question) for i in ("confounding", "model"))
                far = [np.abs(e["estimate"] - e["neighborhood"]).sum() for e in (wide, plain)]
                assert far[0] == pytest.approx((0.5 if pulled else 1.0) * far[1], rel=0.1)
                width = wide["model_high"] - wide["model_low"]
                # half the distance, half the spread of it
                assert width.sum() == pytest.approx(
                    (0.5 if pulled else 1.0) * (plain["conf_high"] - plain["conf_low"]).sum(), rel=0.15
                )
                assert "race 0.5" in wide.diagnostics["shrunk_toward_places"] or not pulled or "where" in question
    finally:
        model.confounding_ = None


@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_contrasts_show_both_widths_and_confounding_moves_no_estimate(model, kind):
    asked = {"by": "race", "rollup": "all", "contrast": kind, "n_draws": 400}
    wide, plain = (model.estimate(interval=i, **asked) for i in ("confounding", "model"))
    np.testing.assert_array_equal(wide["model_low"], plain["conf_low"])
    np.testing.assert_array_equal(wide["model_high"], plain["conf_high"])
    np.testing.assert_allclose(wide["estimate"], plain["estimate"], rtol=1e-12)
    assert (wide["std_error"] > plain["std_error"]).all()
