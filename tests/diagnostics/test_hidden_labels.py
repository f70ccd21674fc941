"""The hidden-label test on small microdata: every method, whatever the model it starts from."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.simulate import nation
from crosslevel.diagnostics import hidden_label
from crosslevel.ecological import DistributionRegression, EcologicalInference
from crosslevel.ecological.persons import exact
from crosslevel.ecological.persons.hidden_labels import Half
from crosslevel.ecological.persons.laplace import laplace
from crosslevel.errors import CrosslevelWarning, InputError

COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
FIXED = {"effect_variance": 0.3, "spatial": 0.1, "length": 300.0, "nugget": 0.02}


@pytest.fixture(scope="module")
def world():
    return nation(15, 250, n_states=3, random_state=1)


@pytest.fixture(scope="module")
def people(world):
    return world.people.to_pandas().assign(**{"at work": lambda f: f.hours > 0})


def hide(*asked, **options):
    """Ask without households, of which a warning says what that costs."""
    with pytest.warns(CrosslevelWarning):
        return hidden_label(*asked, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """One point of the scales, the best: what is tested here does not depend on how sure they are."""

    def best(design, terms, likelihood, found, h, prior, n_jobs):
        at = laplace(design, terms, h, likelihood, found, n_jobs)
        return at, (at.point,)

    monkeypatch.setattr(exact, "points_of", best)


def fit(people, world, **settings):
    make = settings.pop("make", EcologicalInference)
    settings = {"categorical": ["sex"], "n_jobs": 1, "hyperparameters": FIXED} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return make(**settings).fit(people, world.places, **COUNTS, columns=["sex", "race", "education"])


@pytest.fixture(scope="module")
def model(people, world):
    return fit(people, world, likelihood="exact")  # people as they are, so that the neighborhood is theirs


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({"interactions": [("sex", "race"), ("sex", "education")]}, "persons"),
        ({"make": DistributionRegression, "n_features": 16, "nugget": False, "hyperparameters": None}, "persons"),
        ({"make": DistributionRegression, "n_features": 16}, "regression"),
        ({}, "regression"),
    ],
)  # fmt: skip
def test_every_method_runs_from_every_model(people, world, settings, method):
    """Settings that the other model has not are left out, and interactions with the hidden column."""
    model = fit(people, world, **dict(settings))
    found = hide(model, people, "sex == 2", by=["race"], methods=[method], n_draws=50)
    assert 0 <= found.select(method=method, by="race")["estimate"][0] < 0.5


def test_scores_are_those_of_the_answers(people, model):
    """A label of two values by its name, whatever its type; the people of the fit when none are given."""
    named = hide(model, None, "at work", by=["race"], methods=["persons", "neighborhood"], n_draws=50)
    asked = hide(model, people, "`at work` == true", by=["race"], methods=["persons", "neighborhood"], n_draws=50)  # fmt: skip
    assert named["estimate"].tolist() == asked["estimate"].tolist()
    frame = people.assign(y=people["at work"].astype(float))
    assert named.diagnostics["share"] == pytest.approx(np.average(frame.y, weights=frame.weight))
    rate = frame.groupby("region", observed=True)[["y", "weight"]].apply(lambda g: np.average(g.y, weights=g.weight))
    cells = frame.groupby(["region", "race"], observed=True)[["y", "weight"]].apply(
        lambda g: (np.average(g.y, weights=g.weight), len(g), g.weight.sum())
    )
    # the weights are those of the half that says who lives where
    first = Half(None, model.seed_).mask(pa.RecordBatch.from_pandas(frame[["sex"]]))
    half = {
        side: frame[first == side].groupby(["region", "race"], observed=True).weight.sum() for side in (True, False)
    }
    kept = [k for k, v in cells.items() if v[1] >= 100]
    square = np.array([(rate[k[0]] - cells[k][0]) ** 2 for k in kept] * 2)
    weight = np.array([half[side][k] for side in (True, False) for k in kept])
    expected = np.sqrt(np.average(square, weights=weight))
    assert named.select(method="neighborhood", by="race")["place_rmse"][0] == pytest.approx(expected, rel=1e-6)


def test_people_who_can_be_read_once_are_refused(model, world):
    with pytest.raises(InputError):
        hidden_label(model, world.people.to_reader(), "sex == 2", by=["race"])


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("at work", {"hidden": ["educaton"]}),
        ("at work", {"hidden": "education"}),
        ("at work", {"methods": []}),
        ("hours", {}),
        ("age > 0", {}),
    ],
)
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_what_would_be_scored_wrongly_is_refused(people, model, column, options):
    people = people.assign(hours=people.hours * 100)
    with pytest.raises(InputError):
        hidden_label(model, people, column, by=["race"], **options)
