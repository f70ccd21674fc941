"""Distribution regression of many places: against the matrix of all places, draws against moments, and what is said and refused."""

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.covariance import Terms
from crosslevel.ecological.regression import weights
from crosslevel.ecological.regression.model import fit_regression
from crosslevel.ecological.regression.weights import ManyPlaces, fit_weights
from crosslevel.errors import InputError

COUNTED = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}


def make(q=120, p=20, seed=0):
    """Places in a plane in groups, with embeddings of falling variance; one of them was not asked."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(q, p)) / np.arange(1, p + 1)
    terms = Terms(q, "matern32", rng.uniform(0, 5, (q, 2)), "plane", True, np.arange(q) % 5)
    n = rng.integers(20, 400, q).astype(float)
    f = 0.3 + M @ rng.normal(0, 0.5, p) + 0.2 * rng.normal(size=q) + 0.3 * np.sin(terms.coords[:, 0])
    k = rng.binomial(n.astype(int), 1 / (1 + np.exp(-f))).astype(float)
    n[7] = k[7] = 0.0
    return M, np.ones(q), terms, k[None], n[None]


@pytest.fixture(scope="module")
def both():
    data = make()
    return fit_regression(*data), fit_weights(*data, rank=20)


def test_all_directions_are_the_exact_process(both):
    exact, many = both
    assert many.fits[0].mode.log_evidence == pytest.approx(exact.fits[0].mode.log_evidence, abs=0.02)
    data, h = make(), exact.fits[0].hyperparameters
    one, two = fit_regression(*data, fixed=[h]), fit_weights(*data, rank=20, fixed=[h])
    assert two.fits[0].mode.log_evidence == pytest.approx(one.fits[0].mode.log_evidence, abs=1e-5)
    a, b = (m.moments(0, data[0], np.arange(120)) for m in (one, two))
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-6)
    np.testing.assert_allclose(b.variance, a.variance, rtol=1e-6)
    assert two.feature_error[0].mean < 1e-6


def test_scales_are_those_of_the_evidence(both):
    exact, many = (m.fits[0].hyperparameters for m in both)
    for name in ("effect_variance", "nugget"):
        assert getattr(many, name) == pytest.approx(getattr(exact, name), rel=0.1), name


@pytest.mark.parametrize("points", [None, 12])
def test_draws_have_the_moments(points, monkeypatch):
    M, weight, terms, k, n = make(60, 6)
    if points is not None:
        monkeypatch.setattr("crosslevel.ecological.collapsed.EXACT", 20)
        monkeypatch.setattr("crosslevel.ecological.collapsed.POINTS", points)
    model = fit_weights(M, weight, terms, k, n, rank=6)
    assert (model.field_error[0] is None) == (points is None)
    drawn = model.draws(0, 20_000, 1)
    f = drawn.w @ (M - model.center).T + drawn.u
    at = model.moments(0, M, np.arange(60))
    np.testing.assert_allclose(f.mean(axis=0), at.mean, atol=5 * np.sqrt(at.variance.max() / 20_000))
    np.testing.assert_allclose(f.var(axis=0), at.variance, rtol=0.06)


def test_fewer_directions_are_further_off():
    data = make()
    off = [fit_weights(*data, rank=k).feature_error[0] for k in (2, 8, 20)]
    assert off[0].mean > off[1].mean > off[2].mean
    assert [one.points for one in off] == [2, 8, 20]


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_the_switch_is_said_and_the_model_is_saved(monkeypatch, tmp_path):
    world = nation(50, 40, n_states=4)
    exact = DistributionRegression(32, categorical=["sex"]).fit(world.people, world.places, **COUNTED)
    monkeypatch.setattr("crosslevel.ecological.regression.estimator.EXACT_PLACES", 30)
    monkeypatch.setattr(weights, "DIRECTIONS", 16)
    model = DistributionRegression(32, categorical=["sex"]).fit(world.people, world.places, **COUNTED)
    assert any(
        "Weights of 32 features stand on 16 directions (dem): on 50 of 50 places" in text for text in model.warnings_
    )
    assert isinstance(model.model_, ManyPlaces)
    one, two = (m.predict_places() for m in (exact, model))
    assert np.abs(one["estimate"] - two["estimate"]).max() < 0.01
    cl.save(model, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    a, b = (m.estimate(by="sex", rollup="all", n_draws=50, people=world.people) for m in (model, again))
    assert a["estimate"].tolist() == b["estimate"].tolist()
    assert 0.8 <= model.cross_validate(k=5).diagnostics["coverage"] <= 1.0
    kept = world.places.slice(0, 45)
    fewer = DistributionRegression(32, categorical=["sex"], rank=16)
    fewer.fit(world.people, kept, **COUNTED, unmatched="drop")
    new = fewer.predict_places(world.places, people=world.people).to_frame("pandas").tail(5)
    assert (new["conf_low"] < new["conf_high"]).all()


def test_what_is_refused(monkeypatch):
    world = nation(20, 20, n_states=2)
    poll = {"subgroup": ["sex == 2"], "dem": [300], "votes": [500]}
    with pytest.raises(InputError):
        DistributionRegression(32, rank=8).fit(world.people, world.places, **COUNTED, evidence=poll)
    with pytest.raises(InputError, match="rank="):
        DistributionRegression(32, rank=8, kernel="product").fit(world.people, world.places, **COUNTED)
    monkeypatch.setattr("crosslevel.ecological.estimate.MOST_DISTANCES", 10)
    with pytest.raises(InputError):
        DistributionRegression(32, kernel="product").fit(world.people, world.places, **COUNTED)
    monkeypatch.setattr("crosslevel.ecological.regression.estimator.MOST_DISTANCES", 10)
    with pytest.raises(InputError):
        DistributionRegression(32).fit(world.people, world.places, **COUNTED, evidence=poll)
