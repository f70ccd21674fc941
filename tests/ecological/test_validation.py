"""Held-out places: the same as a fit that never saw them, with the density and the interval of the observed share."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import special, stats
from sklearn.model_selection import KFold

from crosslevel import EcologicalInference, People, Places
from crosslevel.data.places import Totals, read_places
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.ecological.regression.model import fit_regression
from crosslevel.ecological.regression.question import Design, Point, Question
from crosslevel.ecological.validation import cross_validate
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.quadrature import logistic_mean, share_quantiles

Q, P = 50, 5


def world(
    seed: int = 0,
    *,
    nugget: bool = True,
    kind: str | None = "matern32",
    trials: float = 3000.0,
    counts: dict[int, float] | None = None,
) -> SimpleNamespace:
    """Give what cross_validate reads of a fitted model, from arrays; the truth has a nugget whether it is fitted or not."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (Q, 2))
    M = rng.normal(size=(Q, P)) / np.sqrt(P)
    truth = Terms(Q, "matern32", xy, "plane", True, None)
    K = place_covariance(truth, Hyperparameters(1.0, 0.2, 1.0, 0.1)) - 10.0 + 1e-9 * np.eye(Q)
    f = M @ rng.standard_normal(P) + np.linalg.cholesky(K) @ rng.standard_normal(Q)
    k = rng.binomial(int(trials), special.expit(f)).astype(float)
    for i, value in (counts or {}).items():
        k[i] = value
    table = {"town": np.arange(Q), "yes": k, "all": np.full(Q, trials), "state": [f"s{i % 5}" for i in range(Q)]}
    places = read_places(table, "town", "yes", "all")
    terms = Terms(Q, kind, xy, "plane", nugget, None)
    model = fit_regression(M, np.ones(Q), terms, places.totals, n_restarts=1)
    return fitted_regression(model, places)


def fitted_regression(model: Any, places: Any) -> DistributionRegression:
    """Give an estimator with what a fit leaves for cross-validation."""
    found = DistributionRegression()
    found.model_, found.places_, found.seed_ = model, places, 0
    return found


def run(fitted: Any, k: int = 5, leave_out: str | None = None, level: float = 0.95) -> Any:
    return cross_validate(fitted, k, leave_out, level, 0)


def refit(fitted: Any, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit the other places from their arrays alone, and predict: the other places' terms extended by the test places."""
    model = fitted.model_
    kept = np.setdiff1d(np.arange(Q), test)
    t = model.terms
    few = t.take(kept)
    one = fit_regression(
        model.embeddings[kept], np.ones(len(kept)), few, fitted.places_.totals.take(kept), n_restarts=1
    )
    at = one.moments(0, model.embeddings[test], len(kept) + np.arange(len(test)), t.take(np.append(kept, test)))
    return at.mean, at.variance


def test_predictions_are_those_of_a_fit_without_the_place() -> None:
    fitted = world()
    found = run(fitted)
    assert sorted(set(found["fold"].tolist())) == [0, 1, 2, 3, 4]
    for number, (_, test) in enumerate(KFold(5, shuffle=True, random_state=0).split(np.zeros(Q))):
        assert np.flatnonzero(found["fold"] == number).tolist() == test.tolist()
        mean, variance = refit(fitted, test)
        # distances to the places left out set the limits of the search, not where it ends
        np.testing.assert_allclose(found["estimate"][test], logistic_mean(mean, variance), rtol=2e-3)
        limits = share_quantiles(np.full(len(test), 3000.0), mean, variance, [0.025, 0.975])
        np.testing.assert_allclose(found["conf_low"][test], limits[:, 0], atol=3e-3)
        np.testing.assert_allclose(found["conf_high"][test], limits[:, 1], atol=3e-3)


def test_a_place_does_not_predict_itself() -> None:
    before, after = run(world()), run(world(counts={7: 2999.0}))
    fold = before["fold"] == before["fold"][7]
    for column in ("estimate", "std_error", "conf_low", "conf_high"):
        np.testing.assert_array_equal(after[column][fold], before[column][fold])
    assert after["truth"][7] == pytest.approx(2999 / 3000)
    assert after["log_density"][7] != before["log_density"][7]
    assert np.abs(after["estimate"][~fold] - before["estimate"][~fold]).max() > 1e-4


def test_a_state_left_out_at_a_time() -> None:
    fitted = world()
    found = run(fitted, leave_out="state")
    states = np.array([f"s{i % 5}" for i in range(Q)])
    for state in np.unique(states):
        assert len(set(found["fold"][states == state].tolist())) == 1
    mean, variance = refit(fitted, np.flatnonzero(states == "s2"))
    np.testing.assert_allclose(found["estimate"][states == "s2"], logistic_mean(mean, variance), rtol=2e-3)
    assert "one state left out at a time" in found.method


def test_log_density_and_errors_by_brute_force() -> None:
    """Sum over a fine grid of the latent value; the density of the share is its probability times the number of trials."""
    fitted = world(trials=60.0)
    found = run(fitted)
    z = np.linspace(-9, 9, 4001)
    w = stats.norm.pdf(z) * (z[1] - z[0])
    k = fitted.places_.totals.successes[0]
    for number in range(5):
        test = np.flatnonzero(found["fold"] == number)
        at = fitted.model_.held_out(0, [test], None)
        for i, m, v in zip(test, at.mean[test], at.variance[test], strict=True):
            rates = special.expit(m + np.sqrt(v) * z)
            density = np.log(w @ stats.binom.pmf(k[i], 60, rates)) + np.log(60)
            assert found["log_density"][i] == pytest.approx(density, abs=1e-8)
            share = np.arange(61) / 60
            pmf = np.array([w @ stats.binom.pmf(j, 60, rates) for j in range(61)])
            spread = np.sqrt(pmf @ share**2 - (pmf @ share) ** 2)
            assert found["std_error"][i] == pytest.approx(spread, rel=1e-7)
            assert found["conf_low"][i] == share[np.searchsorted(pmf.cumsum(), 0.025)]
    scores = found.diagnostics
    assert scores["mean_log_density"] == pytest.approx(found["log_density"].mean())
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((found["estimate"] - k / 60) ** 2)))
    assert scores["rmse_national_mean"] == pytest.approx(np.sqrt(np.mean((k / 60 - k.sum() / 60 / Q) ** 2)))
    assert found.score()["coverage"] == scores["coverage"]


def test_without_a_nugget_intervals_do_not_hold() -> None:
    """Places differ by 0.3 logits for reasons of their own; a model without a nugget takes three thousand trials for the rate itself."""
    kept, without = [], []
    for seed in range(3):
        kept.append(run(world(seed, kind=None)).diagnostics["coverage"])
        without.append(run(world(seed, kind=None, nugget=False)).diagnostics["coverage"])
    assert 0.88 <= np.mean(kept) <= 0.99
    assert np.mean(without) < 0.5


def test_intervals_of_held_out_places_hold() -> None:
    """Three hundred places of six nations: 0.95 within three standard errors of 0.0126."""
    found = np.mean([run(world(seed)).diagnostics["coverage"] for seed in range(6)])
    assert 0.912 <= found <= 0.988


def test_places_without_trials_at_the_last_question_are_predicted_but_not_scored() -> None:
    fitted = world()
    k, n = fitted.places_.totals.successes.copy(), fitted.places_.totals.trials.copy()
    n[0, 4] = 0
    k[0, 4] = 0
    fitted.places_ = fitted.places_.__class__(**{**vars(fitted.places_), "totals": Totals(("yes",), k, n, False)})
    m = fitted.model_
    fitted.model_ = fit_regression(m.embeddings, np.ones(Q), m.terms, fitted.places_.totals, n_restarts=1)
    found = run(fitted)
    assert np.isnan(found["truth"][4])
    assert np.isnan(found["log_density"][4])
    assert np.isfinite(found["estimate"]).all()
    assert np.isfinite(found.diagnostics["mean_log_density"])


def test_fixed_hyperparameters_stay_fixed() -> None:
    fitted = world()
    h = Hyperparameters(1.0, 0.2, 1.0, 0.1)
    m = fitted.model_
    totals = fitted.places_.totals
    fitted.model_ = fit_regression(m.embeddings, np.ones(Q), m.terms, totals, fixed=[h])
    fitted.hyperparameters = {"effect_variance": 1.0}
    found = run(fitted, k=Q)
    one = Question(m.design, np.arange(1, Q), totals.successes[0], totals.trials[0])
    at = one.predict((Point(h, one.mode(h), 1.0),), m.design.X[:1], np.array([0]))
    assert found["estimate"][0] == pytest.approx(logistic_mean(at.mean, at.variance)[0], rel=1e-10)


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_new_places_are_predicted_as_if_they_had_been_left_out() -> None:
    """Fit without two places, predict them from their people: by hand from moments with the extended terms."""
    made = nation(24, 50, n_states=3)
    keys = made.places["region"].to_pylist()
    held = keys[5:7]
    given = made.places.filter(pa.array([key not in held for key in keys]))
    everyone = People(made.people, by="region", weight="weight")
    people = everyone.with_data(made.people.filter(pc.invert(pc.is_in(made.people["region"], pa.array(held)))))
    h = {"effect_variance": 1.0, "spatial": 0.3, "length": 400.0, "nugget": 0.05, "group": 0.1}
    model = DistributionRegression(n_features=16, hyperparameters=h, group="state")
    model.fit(people, Places(given, "region", "dem", "votes", coords=("lon", "lat")))
    found = model.predict_places(made.places, people=made.people)
    assert found["region"].tolist() == keys
    old = model.predict_places()
    np.testing.assert_allclose(
        found["estimate"][[i for i, k in enumerate(keys) if k not in held]], old["estimate"], rtol=1e-10
    )
    everybody = model.embedder_.transform(everyone)
    M = everybody.values[[everybody.key_table["region"].to_pylist().index(k) for k in keys]] - model.model_.center
    xy = np.column_stack([np.asarray(made.places["lon"]), np.asarray(made.places["lat"])])
    states = np.unique(np.asarray(made.places["state"]), return_inverse=True)[1]
    terms = Terms(24, "matern32", xy, "sphere", True, states)
    seen = np.array([i for i, k in enumerate(keys) if k not in held])
    order = [keys.index(k) for k in model.places_.keys]
    totals, counts = model.places_.totals, np.zeros((2, 24))
    counts[:, order] = totals.successes[0], totals.trials[0]
    one, scales = Question(Design(M, terms), np.array(order), *counts), Hyperparameters(**h)
    at = one.predict((Point(scales, one.mode(scales), 1.0),), M, np.arange(24))
    np.testing.assert_allclose(found["estimate"], logistic_mean(at.mean, at.variance), rtol=1e-8)
    deviate = stats.norm.ppf(0.975) * np.sqrt(at.variance)
    np.testing.assert_allclose(found["conf_low"], special.expit(at.mean - deviate), rtol=1e-8)
    off = made.places.set_column(made.places.column_names.index("lat"), "lat", pa.array([500.0] * 24))
    with pytest.raises(InputError):
        model.predict_places(off, people=made.people)
    at, states = made.places.column_names.index("state"), made.places["state"].to_pylist()
    for values in ([None] * 24, range(24)):
        assert states[5] not in values
        with pytest.raises(InputError):
            model.predict_places(made.places.set_column(at, "state", pa.array(values)), people=made.people)
    # a place that was seen is known far better than one that was not
    width = found["conf_high"] - found["conf_low"]
    new = [keys.index(k) for k in held]
    assert width[new].min() > 3 * np.median(width[seen])


@pytest.mark.parametrize("kind", [DistributionRegression, EcologicalInference])
def test_new_people_in_another_unit_are_said(kind: Any) -> None:
    made = nation(24, 50, n_states=3)
    old, new = made.places.slice(0, 22), made.places.slice(22)
    names = ["region", "weight", "age", "race"]
    people = made.people.select(names).filter(pc.is_in(made.people["region"], old["region"]))
    model = kind(spatial=None, hyperparameters={"effect_variance": 1.0, "nugget": 0.05})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.fit(People(people, by="region", weight="weight"), Places(old, "region", "dem", "votes"))
    others = made.people.select(names).filter(pc.is_in(made.people["region"], new["region"]))
    assert len(model.predict_places(new, people=others)["estimate"]) == 2
    months = others.set_column(2, "age", pc.multiply(others["age"], 12))
    with pytest.warns(CrosslevelWarning) as said:
        model.predict_places(new, people=months)
    assert said[0].filename == __file__
