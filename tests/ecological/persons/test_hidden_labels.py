"""Labels that are hidden: which can be, what the model may see, and where their errors cannot be learned from."""

import datetime
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological import EcologicalInference
from crosslevel.ecological.confounding import FALLBACK, Confounding
from crosslevel.ecological.covariance import Hyperparameters
from crosslevel.ecological.estimate import open_people
from crosslevel.ecological.hidden_errors import Dimension, Task, confounding_of, errors_of, learn_confounding, scores_of
from crosslevel.ecological.persons import hidden_labels, labels
from crosslevel.ecological.persons.fitting import fit_question
from crosslevel.ecological.persons.labels import comparison, hide_all, read_labels
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.logit_shift import shift_to_total

COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
FIXED = {"effect_variance": 0.3, "spatial": 0.1, "length": 300.0, "nugget": 0.02}


@pytest.fixture(scope="module")
def world():
    return nation(20, 60, n_states=4, random_state=1)


@pytest.fixture(scope="module")
def people(world):
    rng = np.random.default_rng(0)
    frame = world.people.to_pandas()
    n = len(frame)
    frame["owner"] = rng.random(n) < 0.6
    frame["hours worked"] = (frame.hours > 30).astype(int)
    frame["wave"] = np.where(rng.random(n) < 0.5, datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))
    frame["answer"] = np.where(rng.random(n) < 0.5, "don't know", "yes")
    frame["disabled"] = np.where(rng.random(n) < 0.2, np.nan, (rng.random(n) < 0.3).astype(float))
    states = dict(zip(world.places["region"].to_pylist(), world.places["state"].to_pylist(), strict=True))
    return frame.assign(state=frame.region.map(states), always=1)


def fit(people, world, **settings):
    settings = {"categorical": ["sex"], "n_jobs": 1, "hyperparameters": FIXED} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return EcologicalInference(**settings).fit(people, world.places, **COUNTS, columns=["sex", "race", "education"])


@pytest.fixture(scope="module")
def model(people, world):
    return fit(people, world)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Take the scales of hidden columns as known: a mode in place of dozens."""

    def given(design, terms, likelihood, *, start=None, n_jobs=1):
        return fit_question(design, terms, likelihood, fixed=Hyperparameters(**FIXED), n_jobs=n_jobs)

    monkeypatch.setattr(hidden_labels, "fit_question", given)


def only_labels(model, people, labels, by=None, hide=hide_all, **options):
    stream = open_people(people, None)
    bins, cuts = comparison(model, stream, by)
    return hide(model, stream, bins, cuts, read_labels(labels, None, stream, model), 20, **options)


@pytest.mark.parametrize("label", ["owner", "hours worked", "disabled"])
def test_a_column_of_two_values_is_a_label(model, people, label):
    """Whatever its type and name; people of whom it is not known are left out."""
    (task,) = only_labels(model, people, [label], ["race"])
    known = people[people[label].notna()]
    assert task.share == pytest.approx(np.average(known[label].astype(float), weights=known.weight), rel=1e-9)


def test_labels_that_are_found_can_be_asked(people, model):
    stream = open_people(people, None)
    found = {label.name: label.query.text for label in read_labels("auto", None, stream, model)}
    assert found["owner"] == "`owner` == true"
    assert found["hours worked"] == "`hours worked` == 1"
    assert found["wave"].startswith("`wave` == '202")
    assert found["answer"] in (r"`answer` == 'don\'t know'", "`answer` == 'yes'")
    assert not {"always", "region", "weight"} & set(found)


def test_a_property_of_places_is_no_label(model, people, monkeypatch):
    """Everybody in a place has it, or nobody: each group is its place, no error can be seen, and tau would be too small."""
    state = people.state.value_counts().index[0]
    with pytest.raises(InputError, match="'here' is nearly the same for all people of a place"):
        only_labels(model, people, {"here": f"state == '{state}'"}, ["race"])
    told: list[str] = []
    tasks = only_labels(
        model, people, {"here": f"state == '{state}'", "owner": "owner == true"}, ["race"], refused=told
    )
    assert [task.label for task in tasks] == ["owner"]
    assert "nearly the same" in told[0]
    with pytest.raises(InputError, match="nearly the same"):
        only_labels(model, people, {"here": f"state == '{state}'"}, ["race"], refused=[])


def test_labels_found_by_themselves_are_left_out_with_a_warning(model, people, monkeypatch):
    kept = people[["region", "weight", "sex", "race", "education", "owner", "disabled", "hours worked", "state"]]
    monkeypatch.setattr(labels, "learn_confounding", lambda tasks, level: _Told([task.label for task in tasks]))
    with pytest.warns(CrosslevelWarning, match="'state' is nearly the same for all people of a place"):
        fit(kept, _World(model)).learn_confounding(n_draws=20)


class _World:
    def __init__(self, model):
        self.places = model.places_.table


class _Told:
    def __init__(self, labels):
        assert {"owner", "disabled", "sex", "race"} <= set(labels)
        assert "state" not in labels
        self.confounding = Confounding(0.2, 0.1, len(labels))


def test_a_label_must_leave_something_to_compare(model, people):
    with pytest.raises(InputError, match="'women' leaves no column to compare groups by"):
        only_labels(model, people, {"women": "sex == 2"}, ["sex"])
    with pytest.raises(InputError, match="'women' leaves no column to compare groups by"):
        only_labels(model, people, {"women": "sex == 2"}, ["sex", "always"])


def test_numbers_are_compared_in_bands_whether_features_or_not(model, people):
    stream = open_people(people.assign(code=np.arange(len(people)) % 5), None)
    _, cuts = comparison(model, stream, ["age", "code", "race"])
    sizes = {cut.name: len(cut.names) for cut in cuts}
    assert (sizes["age"], sizes["code"]) == (4, 5)
    assert sizes["race"] >= 4


def test_hidden_columns_are_learned_with_the_settings_of_the_model(people, world, monkeypatch):
    """Interactions but those with the label, and the contextual variance: their errors belong to the model that was fitted."""
    seen = {}

    class StopError(Exception):
        pass

    def stop(design, *rest, **options):
        seen.update(codes=design.codes.shape[1], context=design.context)
        raise StopError

    monkeypatch.setattr(hidden_labels, "fit_question", stop)
    monkeypatch.setattr(hidden_labels, "fit_aggregate", stop)
    pairs = [("sex", "race"), ("race", "education")]
    for settings, terms, rho in (
        ({}, 2, 0.0),
        ({"interactions": pairs}, 3, 0.0),
        ({"contextual_variance": 0.3}, 2, 0.3),
    ):
        with pytest.raises(StopError):
            only_labels(fit(people, world, **settings), people, {"women": "sex == 2"}, ["race"])
        assert seen["codes"] == terms
        assert (seen["context"] is not None) == bool(rho)
    total = people.groupby("region").weight.sum().to_numpy()
    np.testing.assert_allclose(total @ seen["context"], 0.0, atol=1e-9)


def homogeneous(label: str, rng: np.random.Generator, alone: int) -> Task:
    """A third of places have one group only; the truth elsewhere is the model's, moved by .3."""
    q = 60
    share = rng.dirichlet([5, 3], q)
    share[:alone] = [1.0, 0.0]
    total = special.expit(rng.normal(-1, 0.4, q))
    keep = share.ravel() > 0
    place, level = np.repeat(np.arange(q), 2)[keep], np.tile([0, 1], q)[keep]
    f = np.array([0.4, -0.4])[level]
    moved = f + 0.3 * rng.standard_normal(2)[level]
    s = share.ravel()[keep]
    draws = f + 0.05 * rng.standard_normal((30, 2))[:, level]
    truth, rate = shift_to_total(moved[None], s, place, total).rate[0], shift_to_total(draws, s, place, total).rate
    n = np.full(len(s), 400.0)
    d = Dimension("race", ("a", "b"), place, level, s, s * 1000, n, n, rate, truth)
    return Task(label, total, (d,), Hyperparameters(1.0), 0.3, ())


def test_places_of_one_group_do_not_blow_up_the_spread():
    """There the group has the place's total, up to the rounding of (T n + .5) / (n + 1), and no variance to divide it by."""
    rng = np.random.default_rng(0)
    tasks = [homogeneous(str(k), rng, 20) for k in range(12)]
    found = learn_confounding(tasks)
    assert found.confounding.omega < 0.3
    assert 0.15 < found.confounding.tau < 0.5
    kept = errors_of(tasks[0], tasks[0].dimensions[0], 0.0)
    assert len(kept.place_error) == 80


def test_groups_that_live_apart_teach_nothing():
    rng = np.random.default_rng(0)
    task = homogeneous("0", rng, 60)
    found = errors_of(task, task.dimensions[0], 0.0)
    assert len(found.error) == len(found.place_error) == 0
    assert confounding_of([found] * 9, 9) == FALLBACK
    assert np.isnan(scores_of([found], FALLBACK)["coverage"])
    learnt = learn_confounding([task] * 9)
    assert learnt.confounding == FALLBACK
    assert learnt.shrinkage == {"race": 0.0}


def test_scores_without_places_of_enough_people_are_saved(model, people, world, tmp_path):
    """Sixty people a place: no group has a hundred, so there is no coverage within places to save."""
    own = fit(people, world)
    own.confounding_ = learn_confounding(only_labels(model, people, ["owner", "hours worked"], ["sex", "race"]))
    assert np.isnan(own.confounding_.place_coverage)
    cl.save(own, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    assert np.isnan(again.confounding_.place_coverage)
    assert again.confounding_.describe() == own.confounding_.describe()
    old, new = own.confounding_.table.to_pandas(), again.confounding_.table.to_pandas()
    pd.testing.assert_frame_equal(old, new)
    asked = {"by": "race", "rollup": "all", "n_draws": 50}
    assert again.estimate(**asked, people=people).equals(own.estimate(**asked))


def test_who_stops_a_calibration_does_not_wait_for_labels_not_begun(model, people, monkeypatch):
    begun = []

    def slow(*args, **options):
        begun.append(args[4].name)
        time.sleep(0.01)

    def stop(done, of):
        raise KeyboardInterrupt

    monkeypatch.setattr(labels, "hide", slow)
    with pytest.raises(KeyboardInterrupt):
        only_labels(model, people, {str(k): "owner == true" for k in range(50)}, ["race"], progress=stop)
    assert len(begun) < 25
