"""The fitted link: which draws belong to which point, what sampling adds, and how far parts lie from places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import crosslevel as cl
from crosslevel.data.places import Totals
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.covariance import Hyperparameters, Terms
from crosslevel.ecological.regression.model import RegressionModel, fit_regression
from crosslevel.ecological.regression.sampling import sampling_of

Q, P = 25, 8
H = Hyperparameters(effect_variance=1.0, spatial=0.2, length=1.0, nugget=0.02)


def unit(x: np.ndarray) -> np.ndarray:
    """Cosines and sines of frequencies: features of length one."""
    frequencies = np.random.default_rng(7).normal(size=(x.shape[1], P // 2))
    return np.hstack([np.cos(x @ frequencies), np.sin(x @ frequencies)]) / np.sqrt(P // 2)


def places(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Give features of people, (Q, n, P), and embeddings of places."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(Q, n, 2)) + 0.7 * rng.normal(size=(Q, 1, 2))
    features = unit(x.reshape(-1, 2)).reshape(Q, n, P)
    return features, features.mean(axis=1)


def model(*, fixed: bool = True, sampling: bool = True, stages: int = 1) -> RegressionModel:
    features, M = places()
    rng = np.random.default_rng(1)
    xy = rng.uniform(0, 4, (Q, 2))
    terms = Terms(Q, "matern32", xy, "plane", True, None)
    w = rng.standard_normal(P)
    f = (M - M.mean(axis=0)) @ w + 0.3 * rng.standard_normal(Q)
    n = np.full((stages, Q), 500.0)
    k = rng.binomial(500, special.expit(np.tile(f, (stages, 1)))).astype(float)
    return fit_regression(
        M,
        np.ones(Q),
        terms,
        Totals(("yes",) * stages, k, n, False),
        sampling=sampling_of(features[:, :40].reshape(-1, P), M, np.ones(Q)) if sampling else None,
        fixed=[H] * stages if fixed else None,
        n_restarts=1,
    )


def parts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features, _ = places()
    M = np.vstack([features[3, :10].mean(axis=0), features[3, 10:110].mean(axis=0), features[9, :1].mean(axis=0)])
    return M, np.array([3, 3, 9]), np.array([10.0, 100.0, 1.0])


def test_logits_have_the_closed_moments_and_the_sampling_variance() -> None:
    one = model()
    M, place, effective = parts()
    n = 40_000
    bare = replace(one, sampling=None)
    f = bare.logits(0, bare.draws(0, n, 0), M, place, effective, (0, 0))
    at = bare.moments(0, M, place)
    np.testing.assert_allclose((f.mean(axis=0) - at.mean) / np.sqrt(at.variance), 0.0, atol=5 / np.sqrt(n))
    np.testing.assert_allclose(f.var(axis=0) / at.variance, 1.0, atol=5 * np.sqrt(2 / n))
    drawn = one.draws(0, n, 0)
    noisy = one.logits(0, drawn, M, place, effective, (0, 0))
    sampling = one.sampling
    assert sampling is not None
    assert drawn.within is not None
    extra = drawn.within.mean() * sampling.spreads(M, effective) / sampling.spread / effective
    np.testing.assert_allclose((noisy.var(axis=0) - f.var(axis=0)) / extra, 1.0, atol=0.15)
    assert extra[2] > 20 * extra[1]  # one person says far less than a hundred
    # errors of different parts are their own
    assert abs(np.corrcoef((noisy - f).T)[0, 1]) < 0.03


def test_the_sampling_variance_is_that_of_repeated_samples() -> None:
    """Draw many samples of n people from one place: the spread of w . (their mean) is what the model adds for one."""
    features, M = places(3000)
    rng = np.random.default_rng(3)
    w = rng.standard_normal((200, P))
    sampling = sampling_of(features[:, :100].reshape(-1, P), M, np.ones(Q), np.full(Q, 3000.0))
    within = sampling.variance(w, M - M.mean(axis=0))
    truth = np.mean([(features[i] @ w.T).var(axis=0) for i in range(Q)], axis=0)
    assert np.mean(within / truth) == pytest.approx(1.0, abs=0.05)
    for n in (2, 5, 50):
        samples = features[4][rng.integers(0, 3000, (400, n))].mean(axis=1)
        predicted = np.mean(sampling.spreads(samples, np.full(400, float(n)))) / n
        actual = np.mean(((samples - features[4].mean(axis=0)) ** 2).sum(axis=1))
        assert predicted == pytest.approx(actual, rel=0.12), n


def test_one_person_is_not_certain() -> None:
    features, M = places()
    sampling = sampling_of(features.reshape(-1, P), M, np.ones(Q))
    assert sampling.unit
    alone = sampling.spreads(features[2, :1], np.array([1.0]))
    assert alone[0] == pytest.approx(sampling.spread)


def test_small_places_do_not_hide_the_spread_within() -> None:
    """Means of five people are themselves scattered; what that adds to the variance between places is put back."""
    features, _ = places(3000)
    truth = np.mean([1 - (features[i].mean(axis=0) ** 2).sum() for i in range(Q)])
    few = features[:, :5].mean(axis=1)
    sampling = sampling_of(features[:, :5].reshape(-1, P), few, np.ones(Q), np.full(Q, 5.0))
    assert sampling.spread == pytest.approx(truth, rel=0.1)
    assert sampling_of(features[:, :5].reshape(-1, P), few, np.ones(Q)).spread < 0.9 * truth


def test_features_of_other_lengths_have_a_spread_too() -> None:
    rng = np.random.default_rng(0)
    people = 3.0 * rng.normal(size=(Q, 50, P))
    sampling = sampling_of(people.reshape(-1, P), people.mean(axis=1), np.ones(Q), np.full(Q, 50.0))
    assert not sampling.unit
    assert sampling.spread == pytest.approx(9.0 * P, rel=0.1)
    np.testing.assert_array_equal(sampling.spreads(people[0], np.ones(50)), sampling.spread)


def test_draws_do_not_depend_on_what_else_is_asked() -> None:
    one = model()
    M, place, effective = parts()
    drawn = one.draws(0, 200, 5)
    whole = one.logits(0, drawn, M, place, effective, (5, 1))
    some = one.logits(0, drawn, M[2:], place[2:], effective[2:], (5, 1))
    np.testing.assert_allclose(whole[:, 2:], some, rtol=1e-12)
    other = one.logits(0, drawn, M, place, effective, (5, 2))
    assert abs(np.corrcoef(other[:, 2], whole[:, 2])[0, 1]) < 0.99


def test_streams_of_different_uses_differ() -> None:
    """Seeds that differ by trailing zeros give one stream in NumPy: prior draws of the second question were once the first's noise."""
    one = model(stages=2)
    M, place, effective = parts()
    M, effective = np.repeat(M[2:], Q, axis=0), np.ones(Q)
    first, second = one.draws(0, 400, 0), one.draws(1, 400, 0)
    bare = replace(one, sampling=None)
    at = np.arange(Q)
    noise = one.logits(0, first, M, at, effective, (0, 0)) - bare.logits(0, first, M, at, effective, (0, 0))
    assert place.shape == (3,)
    together = np.corrcoef(np.hstack([noise, second.u]).T)[:Q, Q:]
    assert np.abs(together).max() < 0.25  # 625 correlations of 400 draws: five standard errors
    assert np.abs(np.corrcoef(np.hstack([first.u, second.u]).T)[:Q, Q:]).max() < 0.25


def test_points_stand_for_the_posterior_of_the_scales() -> None:
    """Against a dense grid over the nugget and the embedding's scale, the others fixed by having no term."""
    features, M = places()
    rng = np.random.default_rng(4)
    terms = Terms(Q, None, None, "plane", True, None)
    f = (M - M.mean(axis=0)) @ rng.standard_normal(P) + 0.3 * rng.standard_normal(Q)
    n = np.full((1, Q), 500.0)
    k = rng.binomial(500, special.expit(f))[None].astype(float)
    one = fit_regression(M, np.ones(Q), terms, Totals(("yes",), k, n, False))
    (question,), (found,) = one.questions, one.points
    weight = np.array([p.weight for p in found])
    assert weight.sum() == pytest.approx(1.0)
    x = np.linspace(-8, 5, 45)
    height = np.array(
        [
            [question.mode(Hyperparameters(np.exp(a), nugget=np.exp(b))).log_evidence + 0.5 * (a + b) for b in x]
            for a in x
        ]
    )
    grid = np.exp(height - height.max())
    grid /= grid.sum()
    for axis, name in ((1, "effect_variance"), (0, "nugget")):
        exact = grid.sum(axis=axis)
        mean = exact @ x
        sd = np.sqrt(exact @ (x - mean) ** 2)
        logs = np.log([getattr(p.hyperparameters, name) for p in found])
        assert weight @ logs == pytest.approx(mean, abs=0.35 * sd), name
        assert np.sqrt(weight @ (logs - weight @ logs) ** 2) == pytest.approx(sd, rel=0.3), name
    assert features.shape[0] == Q


def test_hyperparameters_that_were_given_are_one_point() -> None:
    one = model(fixed=True)
    (point,) = one.points[0]
    assert point.hyperparameters is H
    assert point.mode is one.fits[0].mode


def test_draws_of_points_are_a_mixture() -> None:
    one = model(fixed=False, sampling=False)
    M, place, effective = parts()
    n = 20_000
    f = one.logits(0, one.draws(0, n, 0), M, place, effective, (0, 0))
    mean, square = np.zeros(3), np.zeros(3)
    for point in one.points[0]:
        at = one.questions[0].predict((replace(point, weight=1.0),), one.along(M), place)
        mean += point.weight * at.mean
        square += point.weight * (at.variance + at.mean**2)
    sd = np.sqrt(square - mean**2)
    closed = one.moments(0, M, place)
    np.testing.assert_allclose(closed.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(closed.variance, sd**2, rtol=1e-8)
    np.testing.assert_allclose((f.mean(axis=0) - mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(f.std(axis=0) / sd, 1.0, atol=0.05)


def test_distance_takes_the_sampling_off() -> None:
    """Half of a place's people drawn again: no further from the place than sampling puts them."""
    one = model()
    features, M = places()
    rng = np.random.default_rng(5)
    samples = features[6][rng.integers(0, 300, (200, 20))].mean(axis=1)
    assert np.median(one.distance(samples, np.full(200, 20.0))) < 0.6
    assert np.median(replace(one, sampling=None).distance(samples, np.full(200, 20.0))) > 1.0
    far = M[:1] + 5.0 * np.eye(P)[0]
    brute = np.sqrt(((far - M) ** 2).sum(axis=1).min())
    near = np.median([np.sort(np.sqrt(((M[i] - M) ** 2).sum(axis=1)))[1] for i in range(Q)])
    assert replace(one, sampling=None).distance(far, np.ones(1))[0] == pytest.approx(brute / near)


def test_later_questions_are_asked_where_somebody_is_left() -> None:
    _, M = places()
    terms = Terms(Q, None, None, "plane", True, None)
    rng = np.random.default_rng(0)
    n = np.vstack([np.full(Q, 100.0), np.where(np.arange(Q) < 3, 0.0, 40.0)])
    totals = Totals(("a", "b"), np.floor(n * rng.uniform(0.3, 0.7, Q)), n, False)
    one = fit_regression(M, np.ones(Q), terms, totals, fixed=[H, H])
    assert len(one.questions[0].places) == Q
    np.testing.assert_array_equal(one.questions[1].places, np.arange(3, Q))
    alone = fit_regression(M, np.ones(Q), terms, Totals(("a",), totals.successes[:1], n[:1], False), fixed=[H])
    np.testing.assert_allclose(alone.fits[0].mode.f, one.fits[0].mode.f)


def many(q=120, p=20):
    """Places in a plane in groups, with embeddings of falling variance; one of them was not asked."""
    rng = np.random.default_rng(0)
    M = rng.normal(size=(q, p)) / np.arange(1, p + 1)
    terms = Terms(q, "matern32", rng.uniform(0, 5, (q, 2)), "plane", True, np.arange(q) % 5)
    n = rng.integers(20, 400, q).astype(float)
    f = 0.3 + M @ rng.normal(0, 0.5, p) + 0.2 * rng.normal(size=q) + 0.3 * np.sin(terms.coords[:, 0])
    k = rng.binomial(n.astype(int), special.expit(f)).astype(float)
    n[7] = k[7] = 0.0
    return M, np.ones(q), terms, Totals(("yes",), k[None], n[None], False)


def test_all_directions_are_all_features() -> None:
    data, h = many(), Hyperparameters(0.3, 0.2, 1.0, 0.05, 0.05)
    one, two = fit_regression(*data, fixed=[h]), fit_regression(*data, rank=20, fixed=[h])
    assert two.directions is None
    few = fit_regression(*data, rank=19, fixed=[h])
    assert few.directions.shape == (20, 19)
    a, b, c = (m.moments(0, data[0], np.arange(120)) for m in (one, two, few))
    np.testing.assert_array_equal(a.mean, b.mean)
    assert 0 < np.abs(c.mean - a.mean).max() < 0.05


def test_fewer_directions_are_further_off() -> None:
    off = [fit_regression(*many(), rank=k, n_restarts=1).feature_error[0] for k in (2, 8, 19)]
    assert off[0].mean > off[1].mean > off[2].mean
    assert [one.points for one in off] == [2, 8, 19]


@pytest.mark.parametrize("points", [None, 12])
def test_draws_along_directions_have_the_moments(points, monkeypatch) -> None:
    M, *rest = many(60, 8)
    if points is not None:
        monkeypatch.setattr("crosslevel.ecological.collapsed.EXACT", 20)
        monkeypatch.setattr("crosslevel.ecological.collapsed.POINTS", points)
    one = fit_regression(M, *rest, rank=5, fixed=[Hyperparameters(0.3, 0.2, 1.0, 0.05, 0.05)])
    assert (one.field_error[0] is None) == (points is None)
    drawn = one.draws(0, 20_000, 1)
    f = drawn.w @ one.directions @ one.along(M).T + drawn.u
    at = one.moments(0, M, np.arange(60))
    np.testing.assert_allclose(f.mean(axis=0), at.mean, atol=5 * np.sqrt(at.variance.max() / 20_000))
    np.testing.assert_allclose(f.var(axis=0), at.variance, rtol=0.06)
    left = drawn.w - drawn.w @ one.directions @ one.directions.T
    assert (left**2).sum(axis=1).mean() == pytest.approx(3 * 0.3, rel=0.05)


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_the_switch_is_said_and_the_model_is_saved(monkeypatch, tmp_path) -> None:
    world = nation(50, 40, n_states=4)
    people = cl.People(world.people, by="region", weight="weight", categorical=["sex"])
    places = cl.Places(world.places, "region", "dem", "votes", coords=("lon", "lat"))
    exact = DistributionRegression(32).fit(people, places)
    monkeypatch.setattr("crosslevel.ecological.regression.model.EXACT_PLACES", 30)
    monkeypatch.setattr("crosslevel.ecological.regression.model.DIRECTIONS", 16)
    model = DistributionRegression(32).fit(people, places)
    assert model.model_.feature_error[0].points == 16
    assert len(set(model.warnings_) - set(exact.warnings_)) == 1
    assert len(model.model_.points[0]) == 1
    one, two = (m.predict_places() for m in (exact, model))
    assert np.abs(one["estimate"] - two["estimate"]).max() < 0.01
    cl.save(model, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    a, b = (m.estimate(by="sex", rollup="all", n_draws=50, people=world.people) for m in (model, again))
    assert a["estimate"].tolist() == b["estimate"].tolist()
    assert 0.8 <= model.cross_validate(k=5).diagnostics["coverage"] <= 1.0
    fewer = DistributionRegression(32, rank=16)
    fewer.fit(people, replace(places, data=world.places.slice(0, 45)), unmatched="drop")
    new = fewer.predict_places(world.places, people=world.people).to_frame("pandas").tail(5)
    assert (new["conf_low"] < new["conf_high"]).all()
