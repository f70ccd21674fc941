"""Every estimator goes through a file and comes back with the same numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import crosslevel as cl
from crosslevel import distribution as room
from crosslevel.distribution import full_bayes_fit, saved
from crosslevel.distribution.full_bayes_model import Draws
from crosslevel.numerics.chains import ChainDiagnostics

SMALL = {"n_landmarks": 8, "bandwidth_scale": 1.0, "random_state": 3}
SAMPLED = SMALL | {"chains": 2, "warmup": 10, "draws": 50}

REGRESSORS = {
    "RBFNetwork": SMALL,
    "FrequentistShrinkage": SMALL | {"second_level": "rbf"},
    "BayesianLinear": SMALL | {"second_level": "rbf"},
    "MeanShrinkage": SMALL,
    "FullBayes": SAMPLED,
}
CLASSIFIERS = {"BayesianLinearClassifier": SMALL, "MeanShrinkageClassifier": SMALL, "FullBayesClassifier": SAMPLED}


@pytest.fixture(autouse=True)
def _draws_from_laplace(monkeypatch):
    """Draw from the Laplace fit in place of NUTS: a file does not ask how its draws were made, and compiling takes a minute."""

    def draw(problem, fit, prior, settings):
        rng = np.random.default_rng(settings.seed)
        shape = (settings.chains, settings.draws)
        w = rng.normal(np.r_[fit.b, fit.a], 0.1, size=(*shape, len(fit.a) + 1))
        logs = rng.normal(prior.location, 0.1, size=(*shape, len(prior.location)))
        sure = ChainDiagnostics(1.0, 1000.0, 1000.0, 0, *shape)
        steps = np.ones(shape, dtype=np.int64)
        return Draws(w, logs, np.zeros(shape, dtype=bool), steps, rng.normal(size=shape), rng.uniform(size=shape), sure)

    monkeypatch.setattr(full_bayes_fit, "sample_posterior", draw)


def test_all_names_of_the_room_are_there_and_saved():
    assert set(room.__all__) == set(REGRESSORS) | set(CLASSIFIERS) | {"StoredBags"}
    assert set(dir(room)) == set(room.__all__)
    for name in {*REGRESSORS, *CLASSIFIERS}:
        assert getattr(cl.distribution, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'FullBays'.*'FullBayes'"):
        _ = room.FullBays


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_returns_from_its_file(name, world, fresh_world, tmp_path):
    (bags, y), (new, _) = world, fresh_world
    model = getattr(room, name)(**REGRESSORS[name]).fit(bags, y)
    cl.save(model, tmp_path / "model.crosslevel")
    again = cl.load(tmp_path / "model.crosslevel")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.diagnostics_ == model.diagnostics_
    mean, std = model.predict(new, return_std=True)
    assert np.std(mean) > 0
    for a, b in zip(again.predict(new, return_std=True), (mean, std), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.estimates(new, level=0.9).equals(model.estimates(new, level=0.9))


@pytest.mark.parametrize("classes", [("narrow", "wide"), (1, 2, 3)])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_returns_from_its_file(name, classes, world, fresh_world, tmp_path):
    (bags, y), (new, _) = world, fresh_world
    own = np.array(classes)[np.searchsorted(np.quantile(y, np.arange(1, len(classes)) / len(classes)), y)]
    model = getattr(room, name)(**CLASSIFIERS[name]).fit(bags, own)
    cl.save(model, tmp_path / "model.crosslevel")
    again = cl.load(tmp_path / "model.crosslevel")
    assert again.classes_.tolist() == sorted(classes)
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_numbers_that_are_not_finite_return_from_a_file(world, tmp_path):
    bags, y = world
    model = room.MeanShrinkage(penalty=0.0, **SMALL).fit(bags, y)  # no prior: rho is infinite, and there is no evidence
    assert model.rho_ == np.inf
    assert np.isnan(model.log_evidence_)
    cl.save(model, tmp_path / "model.crosslevel")
    again = cl.load(tmp_path / "model.crosslevel")
    assert again.rho_ == np.inf
    assert np.isnan(again.log_evidence_)
    assert np.isnan(again.diagnostics_["log_evidence"])
    assert {k: v for k, v in again.diagnostics_.items() if k != "log_evidence"} == {
        k: v for k, v in model.diagnostics_.items() if k != "log_evidence"
    }
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))


def test_diagnostics_within_diagnostics_and_parameters_return(world, tmp_path):
    bags, y = world
    model = room.RBFNetwork(fine_tune=True, tuning_steps=2, **SMALL).fit(bags, y)
    model._notes = {"tuning": {"gradient": np.float64(np.nan), "steps": np.int64(2), "path": (1.0, -np.inf)}}
    model._set_attributes()
    cl.save(model, tmp_path / "model.crosslevel")
    found = cl.load(tmp_path / "model.crosslevel").diagnostics_["tuning"]
    assert np.isnan(found.pop("gradient"))
    assert found == {"steps": 2, "path": [1.0, -np.inf]}


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.5, 3, "inf", None, [1.0, np.inf], {"a": {"b": [np.inf]}}, (2, 4)])
def test_plain_values_are_json_and_return(value):
    said = json.dumps(saved._plain(value), allow_nan=False)
    assert saved._value(json.loads(said)) == (list(value) if isinstance(value, tuple) else value)
