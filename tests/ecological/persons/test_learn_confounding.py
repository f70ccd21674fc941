"""The individual link through the front door: answers, calibration on hidden columns, sensitivity, places, files."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.errors import CrosslevelWarning, InputError

COLUMNS = ["sex", "race", "education", "age"]
PEOPLE = {"by": "region", "weight": "weight", "columns": COLUMNS, "categorical": ["sex"]}
PLACES = {"by": "region", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
LABELS = {"women": "sex == 2", "white": "race == 'white'", "graduates": "education == 'graduate'"}


@pytest.fixture(scope="module")
def world():
    return nation(60, 200, n_states=6, contextual=0.0, spatial=0.1, random_state=3)


def fit(people, places, model=None, **named):
    model = cl.EcologicalInference() if model is None else model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(cl.People(people, **PEOPLE), cl.Places(places, **PLACES | named))


@pytest.fixture(scope="module")
def model(world):
    return fit(world.people, world.places)


@pytest.fixture(scope="module")
def calibrated(world):
    model = fit(world.people, world.places)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)  # no households are named
        return model.learn_confounding(labels=LABELS)


def test_confounding_intervals_are_wider_and_say_what_they_rest_on(model):
    wide, plain = (model.estimate(by="race", rollup="all", interval=i, n_draws=400) for i in ("confounding", "model"))
    told = wide["race"] != "other"  # of them the totals say next to nothing, whatever is allowed for
    assert (wide["std_error"] > plain["std_error"])[told].all()
    np.testing.assert_allclose(wide["std_error"][~told], plain["std_error"][~told], rtol=0.05)
    assert wide.diagnostics["tau"] == SHIPPED.tail.tau
    assert "different households" in wide.diagnostics["constants_learned_on"]
    law = f"(tau = {SHIPPED.tail.tau}, tails of {SHIPPED.tail.degrees:g} degrees of freedom)"
    assert any(f"shipped constants {law}" in text for text in wide.warnings)
    assert any("interval='model'" in text for text in plain.warnings)


def test_turnout_and_several_outcomes(world):
    votes, dem = np.asarray(world.places["votes"]), np.asarray(world.places["dem"])
    places = world.places.append_column("rep", pa.array(votes - dem))
    model = fit(world.people, places, successes=None, trials=None, outcomes=["dem", "rep"], population="population")
    found = model.estimate(by="sex", rollup="all", n_draws=50)
    for sex in (1, 2):
        assert found.select(sex=sex)["estimate"].sum() == pytest.approx(1.0, abs=1e-9)
    went = model.estimate(by="sex", share_of="turnout", rollup="all", n_draws=50)
    people = world.places.to_pandas()
    whole = np.average(went["estimate"], weights=went["population"])
    assert whole == pytest.approx(people.votes.sum() / people.population.sum(), abs=0.02)


def test_calibration_learns_a_scale_and_says_so(calibrated):
    found = calibrated.confounding_
    assert found.confounding.n_labels == 3
    assert found.confounding.degrees == 4.0
    assert set(found.shrinkage) == set(COLUMNS)
    assert found.table["label"].to_pylist() == list(LABELS)
    assert found.describe().startswith(
        f"tau {found.confounding.of_effects.tau:.2f} from 3 columns, leave-one-out coverage"
    )
    said = calibrated.estimate(by="race", rollup="all", n_draws=50)
    assert said.diagnostics["hidden_columns"] == 3
    assert any("leave-one-out coverage" in text for text in said.warnings)
    assert said.diagnostics["tau"] == found.confounding.of_effects.tau


def test_few_labels_keep_the_shipped_scale(world):
    model = fit(world.people, world.places)
    with pytest.warns(CrosslevelWarning) as told:
        model.learn_confounding(labels=["sex == 2", "race == 'white'"])
    assert any("too few to learn tau" in str(w.message) for w in told)
    assert model.confounding_.confounding.tau == SHIPPED.tau
    assert model.confounding_.confounding.n_labels == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"labels": "sex"},
        {"labels": []},
        {"labels": ["sx == 1"]},
        {"labels": {"here": "region == 'r001'"}},
        {"labels": ["age >= 89"]},
        {"labels": LABELS, "hidden": {"men": ["age"]}},
        {"labels": LABELS, "hidden": {"women": ["agee"]}},
        {"labels": LABELS, "by": "race"},
        {"labels": LABELS, "by": ["rac"]},
        {"labels": LABELS, "families": {"men": "a"}},
    ],
)
def test_calibration_of_nothing_gets_a_sentence(model, asked):
    with pytest.raises(InputError):
        model.learn_confounding(**asked)


def test_sensitivity_refits_for_every_rho(model):
    found = model.sensitivity(by="race", rollup="all", contextual_variance=(0.0, 0.3), n_draws=50)
    assert found.keys == ("contextual_variance", "race")
    plain = model.estimate(by="race", rollup="all", n_draws=50)
    np.testing.assert_allclose(found.select(contextual_variance=0.0)["estimate"], plain["estimate"], rtol=1e-9)
    away = [np.abs(found.select(contextual_variance=r)["estimate"] - plain["neighborhood"]).sum() for r in (0.0, 0.3)]
    assert away[1] < away[0]
    assert found.diagnostics["subgroups_that_change_sign"] == int(
        found.select(contextual_variance=0.0)["changes_sign"].sum()
    )
    with pytest.raises(InputError):
        model.sensitivity(by="race", contextual_variance=(0.1,))


def test_a_saved_model_answers_alike(world, calibrated, tmp_path):
    cl.save(calibrated, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    expected = calibrated.estimate(by="race", rollup="state", n_draws=50)
    found = again.estimate(by="race", rollup="state", n_draws=50, people=world.people)
    np.testing.assert_array_equal(found["conf_low"], expected["conf_low"])
    assert again.confounding_.describe() == calibrated.confounding_.describe()
    assert again.convergence_["rounds"] == calibrated.convergence_["rounds"]
    with pytest.raises(InputError):
        again.estimate(by="race")


def test_held_out_places_are_covered(model):
    found = model.cross_validate(k=5)
    assert 0.85 <= found.diagnostics["coverage"] <= 1.0
    assert found.diagnostics["rmse"] < found.diagnostics["rmse_national_mean"]


def test_new_places_are_predicted_from_their_people(world):
    places = world.places.to_pandas()
    people = world.people.to_pandas()
    held = np.arange(60) % 6 == 0
    old, new = places.region[~held], places.region[held]
    model = fit(people[people.region.isin(old)], places[places.region.isin(old)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        found = model.predict_places(places[places.region.isin(new)], people=people)
    share = (places.dem / places.votes)[held]
    assert np.abs(found["estimate"] - share).mean() < 0.08
    assert ((found["conf_low"] <= share) & (share <= found["conf_high"])).mean() >= 0.7
