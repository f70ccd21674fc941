"""The individual link through the front door: answers, calibration on hidden columns, sensitivity, places, files."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression
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


def test_subgroups_add_up(world, model):
    found = model.estimate(by="race", n_draws=60)
    assert found.method == "ecological inference of persons"
    assert (found["bound_low"] <= found["conf_low"]).all()
    assert (found["conf_high"] <= found["bound_high"]).all()
    table = found.to_frame("pandas")
    whole = table.groupby("region")[["estimate", "population"]].apply(
        lambda g: np.average(g.estimate, weights=g.population)
    )
    places = world.places.to_pandas().set_index("region")
    np.testing.assert_allclose(whole, (places.dem / places.votes)[whole.index], atol=1e-9)


def test_rows_and_frames_change_nothing(world, model):
    expected = model.estimate(by="sex", rollup="state", n_draws=50)
    order = np.random.default_rng(0).permutation(world.people.num_rows)
    shuffled = pa.table({n: world.people[n].take(pa.array(order)) for n in world.people.column_names})
    for people in (shuffled, world.people.to_pandas()):
        found = fit(people, world.places).estimate(by="sex", rollup="state", n_draws=50)
        np.testing.assert_allclose(found["estimate"], expected["estimate"], atol=1e-9)


def test_named_subgroups_where_and_contrasts(model):
    crossed = model.estimate(by=["sex", "race"], rollup="all", n_draws=50)
    named = model.estimate(subgroups={"white women": "sex == 2 and race == 'white'"}, rollup="all", n_draws=50)
    one = crossed.select(sex=2, race="white")
    assert named["population"][0] == pytest.approx(one["population"][0])
    assert named["estimate"][0] == pytest.approx(one["estimate"][0], abs=0.01)
    inside = model.estimate(by="sex", where="race == 'white'", rollup="all", n_draws=50)
    assert inside.select(sex=2)["population"][0] == pytest.approx(one["population"][0])
    both = model.estimate(by="sex", rollup="all", n_draws=50)
    gap = both.contrast()
    assert gap["estimate"][0] == pytest.approx(both["estimate"][1] - both["estimate"][0])


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


def test_columns_that_tell_the_label_leave_with_it(model):
    from crosslevel.ecological.persons.labels import comparison, hide_all, read_labels

    bins, cuts = comparison(model, model.people_, ["race", "age_group"])
    label = read_labels({"young": "age_group in ('18-29', '30-44')"}, None, model.people_, model)
    for half in hide_all(model, model.people_, bins, cuts, label)[0]:
        assert half.hidden == ("age", "age_group")
        assert [d.name for d in half.dimensions] == ["race"]


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


def test_distribution_regression_has_its_own_intervals_only(world):
    given = {"effect_variance": 1.0, "spatial": 0.1, "length": 300.0, "nugget": 0.05}
    other = fit(world.people, world.places, DistributionRegression(n_features=16, hyperparameters=given))
    with pytest.raises(InputError, match="interval="):
        other.estimate(by="sex", interval="confounding")
    found = other.estimate(by="sex", rollup="all", n_draws=50)
    assert any("predicts the totals of places well" in text for text in found.warnings)


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
