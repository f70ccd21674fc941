"""Settings and questions that cannot be answered are refused, each with a sentence."""

from __future__ import annotations

import pytest

from crosslevel import EcologicalInference
from crosslevel.data.places import read_places
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.covariance import Hyperparameters, read_hyperparameters
from crosslevel.ecological.subgroups import Request, read_question
from crosslevel.errors import InputError

FOUR = {
    "town": list("abcd"),
    "state": ["S", "S", "T", "T"],
    "lon": [0.0, 1.0, 2.0, 3.0],
    "lat": [0.0, 0.0, 1.0, 1.0],
    "yes": [1, 2, 3, 4],
    "all": [9, 9, 9, 9],
    "adults": [20, 20, 20, 20],
}


def places(coords=("lon", "lat"), population=None, **changed):
    return read_places(FOUR | changed, "town", "yes", "all", coords=coords, population=population)


@pytest.mark.parametrize(
    "given",
    [
        EcologicalInference(n_bins=1),
        EcologicalInference(spatial="matern"),
        EcologicalInference(inducing_points=1),
        DistributionRegression(spatial=None, degrees=True),
        DistributionRegression(nugget="yes"),
        DistributionRegression(match_totals=None),
        DistributionRegression(sampling_error=2),
        DistributionRegression(n_restarts=0),
        DistributionRegression(n_restarts=3, hyperparameters={"effect_variance": 1.0}),
        DistributionRegression(feature_map="linear", n_features=64),
        DistributionRegression(feature_map="linear", bandwidth=2.0),
    ],
)
def test_parameters_of_one_that_mean_nothing(given):
    with pytest.raises(InputError):
        given._check_parameters()


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({}, {"coords": None}),
        ({}, {"lon": [1.0] * 4, "lat": [2.0] * 4}),
        ({}, {"lat": [0.0, 95.0, 0.0, 0.0]}),
        ({}, {"lon": [0.0, 4e5, 0.0, 0.0]}),
        ({"group": "sate"}, {}),
        ({"group": "state"}, {"state": ["S", None, "T", "T"]}),
        ({"group": "state"}, {"state": ["S"] * 4}),
    ],
)
def test_places_the_prior_cannot_use(settings, changed):
    with pytest.raises(InputError):
        EcologicalInference(**settings)._terms(places(**changed), "sphere")


@pytest.mark.parametrize(
    "given",
    [
        {"effect_varianc": 1.0},
        {"effect_variance": -1.0},
        {"effect_variance": "x"},
        {"effect_variance": 1.0, "spatial": 1.0, "length": 0.0, "nugget": 0.1},
        {"effect_variance": 1.0},
        [{"effect_variance": 1.0}] * 3,
        ["effect_variance", "nugget"],
    ],
)
def test_hyperparameters_that_cannot_be_taken(given):
    terms = EcologicalInference()._terms(places(), "sphere")
    with pytest.raises(InputError):
        read_hyperparameters(given, terms, ("turnout", "yes"))


def test_hyperparameters_for_all_questions_or_for_each():
    terms = EcologicalInference(spatial=None)._terms(places(), "sphere")
    one, two = {"effect_variance": 1, "nugget": 0.1}, Hyperparameters(2.0, nugget=0.3)
    assert read_hyperparameters(None, terms, ("a",)) is None
    assert read_hyperparameters(one, terms, ("a", "b")) == [Hyperparameters(1.0, nugget=0.1)] * 2
    assert read_hyperparameters((one, two), terms, ("a", "b")) == [Hyperparameters(1.0, nugget=0.1), two]


def question(found=None, by=("sex",), **options):
    asked = {
        "rollup": None,
        "share_of": "voters",
        "level": 0.95,
        "n_draws": 100,
        "seed": 0,
    }
    return read_question(found or places(), Request(by, {}, None), **asked | options)


@pytest.mark.parametrize(
    "options",
    [
        {"share_of": "votrs"},
        {"share_of": "turnout"},
        {"n_draws": 49},
        {"n_draws": 99.5},
        {"level": 95},
        {"level": "a"},
        {"rollup": "sate"},
        {"rollup": "sex"},
        {"rollup": ["state", "town"]},
        *({"by": (name,)} for name in ("estimate", "distance", "shift")),
    ],
)
def test_questions_that_cannot_be_answered(options):
    with pytest.raises(InputError):
        question(**options)


def test_a_place_may_be_called_subgroup_where_no_subgroup_is_named():
    assert question(places(subgroup=FOUR["state"]), rollup="subgroup").rollup.name == "subgroup"


def test_roll_ups():
    assert question().rollup.labels == ("a", "b", "c", "d")
    assert question(rollup="all").rollup.name is None
    assert question(rollup=["all"]).rollup.name is None
    assert question(rollup=["state"]).rollup.labels == ("S", "T")
    by_state = question(places(state=["T", "S", "T", "S"]), rollup="state").rollup
    assert (by_state.labels, by_state.member.tolist()) == (("S", "T"), [1, 0, 1, 0])
    numbers = question(places(state=[10, 9, 10, 9]), rollup="state").rollup
    assert numbers.labels == (9, 10)
    with pytest.raises(InputError, match="rollup="):
        question(places(state=["T", None, "T", "S"]), rollup="state")
    assert question(places(population="adults"), share_of="turnout").share_of == "turnout"
