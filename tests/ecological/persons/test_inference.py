"""The sampler through the front door; the chains themselves are replaced where only the way of their draws matters."""

import warnings

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological import EcologicalInference
from crosslevel.ecological.persons import nuts
from crosslevel.ecological.persons.model import Sampled
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.chains import ChainDiagnostics

COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}


@pytest.fixture(scope="module")
def world():
    return nation(15, 100, n_states=3, contextual=0.0, random_state=3)


def fit(world, **settings):
    model = EcologicalInference(
        **{"categorical": ["sex"], "n_jobs": 1, "likelihood": "exact", "inference": "nuts"} | settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(world.people, world.places, **COUNTS, columns=["sex", "race"])


def fake(design, terms, likelihood, found, *, seed, fixed, progress=None):
    """Stand still: every draw is the mode, but for the seed."""
    n = 40
    beta = np.tile(found.linear.beta, (n, 1)) + 1e-3 * seed
    logs = np.log([getattr(found.hyperparameters, name) for name in terms.names])
    rate = np.tile(likelihood.successes / likelihood.trials, (n, 1))
    said = ChainDiagnostics(1.002, 512.0, 450.0, 0, 2, 20)
    return Sampled(beta, np.tile(found.linear.f, (n, 1)), np.tile(logs, (n, 1)), rate, said)


def test_draws_of_the_sampler_are_the_answers_and_are_saved(world, monkeypatch, tmp_path):
    monkeypatch.setattr(nuts, "sample_posterior", fake)
    model = fit(world)
    said = model.convergence_
    assert (said["max_rhat"], said["min_ess_bulk"], said["divergences"]) == (1.002, 512.0, 0)
    found = model.estimate(by="race", rollup="all", n_draws=60, interval="model")
    cl.save(model, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    same = again.estimate(by="race", rollup="all", n_draws=60, interval="model", people=world.people)
    np.testing.assert_array_equal(same["conf_low"], found["conf_low"])
    assert again.convergence_["min_ess_tail"] == 450.0
    assert "inference='nuts'" in model.call_
    # nothing moves between draws but the sampling of people
    exact = fit(world, sampling_error=False).estimate(by="race", rollup="all", n_draws=60, interval="model")
    assert exact["std_error"].max() < 1e-9
    assert model.predict_places()["estimate"].shape == (15,)


def test_the_seed_reaches_the_sampler(world, monkeypatch):
    monkeypatch.setattr(nuts, "sample_posterior", fake)
    models = [fit(world, random_state=seed, sampling_error=False) for seed in (0, 9)]
    beta = [m.model_.fits[0].sampled.beta - m.model_.fits[0].linear.beta for m in models]
    assert np.allclose(beta[0], 0.0)
    assert np.allclose(beta[1], 9e-3)


def test_an_unknown_way_is_refused(world):
    with pytest.raises(InputError, match="inference="):
        fit(world, inference="nut")


def test_the_aggregate_form_is_not_sampled(world):
    with pytest.raises(InputError, match="inference="):
        fit(world, likelihood="aggregate")


def test_the_extra_is_named(world, monkeypatch):
    import sys

    from crosslevel.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "numpyro", None)
    monkeypatch.setitem(sys.modules, "numpyro.infer", None)
    with pytest.raises(MissingExtraError):
        fit(world)


@pytest.mark.slow
def test_both_ways_give_the_same_answers(world):
    sampled, near = (fit(world, inference=i) for i in ("nuts", "laplace"))
    a, b = (m.estimate(by="race", rollup="all", n_draws=800, interval="model") for m in (sampled, near))
    np.testing.assert_allclose((a["estimate"] - b["estimate"]) / a["std_error"], 0.0, atol=0.4)
    np.testing.assert_allclose(b["std_error"] / a["std_error"], 1.0, atol=0.25)
    assert sampled.convergence_["max_rhat"] < 1.01
