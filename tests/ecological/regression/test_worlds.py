"""Simulated nations whose truth follows the model: estimates without bias, intervals that hold what they promise.

Weights, field, group effects and nuggets are drawn from the prior, counts from the binomial; the hyperparameters are learned, not
given. The truth of a subgroup is its latent value, shifted to the place's total as the model has it (match_totals=True) or as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from scipy import special

from crosslevel import People, Places
from crosslevel.data.places import Totals
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.answers import Setting, answer
from crosslevel.ecological.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.ecological.persons.estimator import EcologicalInference
from crosslevel.ecological.regression.model import RegressionModel, fit_regression
from crosslevel.ecological.regression.parts import RegressionSource, cut
from crosslevel.ecological.regression.question import Point
from crosslevel.ecological.subgroups import Question, Request, Rollup
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.results import Estimates, Provenance

FloatArray = npt.NDArray[np.float64]

TRUTH = Hyperparameters(effect_variance=1.0, spatial=0.2, length=1.0, nugget=0.02, group=0.05)
Q, G, P, STATES = 60, 3, 6, 6


@dataclass(frozen=True)
class World:
    """Arrays of one nation; parts are numbered place by place, subgroup by subgroup."""

    terms: Terms
    whole: Embeddings
    found: Embeddings
    totals: Totals
    share: FloatArray
    place: npt.NDArray[np.intp]
    rates: FloatArray
    shifted: FloatArray


def make(seed: int, *, nugget: float = TRUTH.nugget, trials: int = 4000) -> World:
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (Q, 2))
    terms = Terms(Q, "matern32", xy, "plane", True, np.arange(Q) % STATES)
    share = rng.dirichlet([4.0, 3.0, 2.0], Q)
    centers = rng.normal(size=(G, P)) / np.sqrt(P)
    vectors = (
        centers[None] + 0.35 * rng.normal(size=(Q, 1, P)) / np.sqrt(P) + 0.2 * rng.normal(size=(Q, G, P)) / np.sqrt(P)
    )
    M = (share[:, :, None] * vectors).sum(axis=1)
    weight = rng.uniform(50, 200, Q)
    center = weight @ M / weight.sum()
    h = Hyperparameters(TRUTH.effect_variance, TRUTH.spatial, TRUTH.length, nugget, TRUTH.group)
    w = rng.standard_normal(P) * np.sqrt(h.effect_variance)
    K = place_covariance(terms, h) - 10.0 + 1e-9 * np.eye(Q)  # the level is set by hand
    u = rng.normal(0, 0.5) + np.linalg.cholesky(K) @ rng.standard_normal(Q)
    f = ((vectors - center) @ w + u[:, None]).ravel()
    k = rng.binomial(trials, special.expit((M - center) @ w + u)).astype(float)
    place = np.repeat(np.arange(Q), G)
    totals = Totals(("yes",), k[None], np.full((1, Q), float(trials)), False)
    big = np.full(Q * G, 1e9)  # no sampling error
    found = Embeddings(
        vectors.reshape(-1, P),
        pa.table({"place": place, "group": np.tile(np.arange(G), Q)}),
        (share * weight[:, None]).ravel(),
        big.astype(np.int64),
        big,
    )
    whole = Embeddings(M, pa.table({"place": np.arange(Q)}), weight, big[:Q].astype(np.int64), big[:Q])
    shifted = shift_to_total(f[None], share.ravel(), place, k / trials).rate[0]
    return World(terms, whole, found, totals, share.ravel(), place, special.expit(f), shifted)


def fitted(world: World) -> RegressionModel:
    return fit_regression(world.whole.values, world.whole.weight, world.terms, world.totals, n_restarts=1)


def ask(
    world: World, model: RegressionModel, *, match_totals: bool, national: bool = False, draws: int = 400
) -> Estimates:
    keys = list(range(Q))
    parts = cut(world.found, Request(("group",), {}, None), world.whole, keys)
    rollup = Rollup(None, (None,), np.zeros(Q, np.intp)) if national else Rollup("place", tuple(keys), np.arange(Q))
    question = Question(rollup, "voters", 0.95, draws, 0)
    setting = Setting(world.totals, match_totals, False, "group", Provenance.of(call="test"), "pyarrow", (), {})
    return answer(RegressionSource(model, parts, draws, 0), question, setting)


def study(seeds: range) -> dict[str, dict[str, float]]:
    """Score both kinds of estimates, by place and for the nation, over many nations."""
    scores: dict[str, list[list[float]]] = {"matched": [], "plain": []}
    for seed in seeds:
        world = make(seed)
        model = fitted(world)
        for name, truth in (("matched", world.shifted), ("plain", world.rates)):
            found = ask(world, model, match_totals=name == "matched")
            everywhere = ask(world, model, match_totals=name == "matched", national=True)
            weight = world.found.weight.reshape(Q, G)
            all_truth = (truth.reshape(Q, G) * weight).sum(axis=0) / weight.sum(axis=0)
            scores[name].append(
                [
                    np.mean((found["conf_low"] <= truth) & (truth <= found["conf_high"])),
                    np.mean(found["estimate"] - truth),
                    np.mean((found["estimate"] - truth) ** 2) / np.mean(found["std_error"] ** 2),
                    np.mean((everywhere["conf_low"] <= all_truth) & (all_truth <= everywhere["conf_high"])),
                ]
            )
    out = {}
    for name, rows in scores.items():
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))
        out[name] = dict(zip(("coverage", "bias", "scaled", "national"), mean.tolist(), strict=True))
        out[name]["bias_error"] = float(error[1])
    return out


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 350), marks=pytest.mark.slow)])
def test_estimates_are_unbiased_and_intervals_hold(seeds: range) -> None:
    """Coverage of a nation's parts is all or nothing when its few weights are off: 0.12 between nations, 0.017 over fifty."""
    for name, score in study(seeds).items():
        assert 0.92 <= score["coverage"] <= 0.98, (name, score)
        assert 0.88 <= score["national"] <= 1.0, (name, score)
        assert abs(score["bias"]) < 3.5 * score["bias_error"], (name, score)
        # squared errors are those the standard errors announce
        assert 0.75 <= score["scaled"] <= 1.25, (name, score)


def test_taking_the_hyperparameters_as_known_would_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty places and twenty weights: intervals at the best hyperparameters alone are too short by a tenth and more."""
    monkeypatch.setitem(globals(), "P", 20)
    ratios = []
    for seed in range(6):
        world = make(seed)
        model = fitted(world)
        wide = ask(world, model, match_totals=True)["std_error"]
        best = Point(model.fits[0].hyperparameters, model.fits[0].mode, 1.0)
        model = replace(model, points=((best,),))
        ratios.append(np.mean(wide) / np.mean(ask(world, model, match_totals=True)["std_error"]))
    assert np.mean(ratios) > 1.08


def test_errors_of_subgroups_are_smaller_than_those_of_the_neighborhood() -> None:
    found, near = [], []
    for seed in range(8):
        world = make(seed)
        answer_ = ask(world, fitted(world), match_totals=True)
        found.append(np.mean((answer_["estimate"] - world.shifted) ** 2))
        near.append(np.mean((answer_["neighborhood"] - world.shifted) ** 2))
    assert np.mean(found) < 0.4 * np.mean(near)


def test_the_variance_of_a_roll_up_is_that_of_joint_draws() -> None:
    """Places share their weights, so errors of one subgroup add up: far more than independent errors would leave."""
    world = make(3)
    model = fitted(world)
    places, nation = ask(world, model, match_totals=False), ask(world, model, match_totals=False, national=True)
    weight = world.found.weight.reshape(Q, G)
    share = weight / weight.sum(axis=0)
    joint = np.einsum("sqg,qg->sg", np.asarray(places.draws).reshape(-1, Q, G), share)
    np.testing.assert_allclose(nation["std_error"], joint.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(nation.draws), joint, rtol=1e-10)
    independent = np.sqrt((share**2 * (places["std_error"] ** 2).reshape(Q, G)).sum(axis=0))
    assert np.all(nation["std_error"] > 2.5 * independent)


PLACES, PEOPLE, SAMPLE = 50, 3000, 400


def people_world(seed: int) -> tuple[pa.Table, pa.Table, FloatArray]:
    """Give a sample of people, places with totals, and true rates by place and group; the truth is of the whole population."""
    rng = np.random.default_rng(seed)
    n = PLACES * PEOPLE
    town = np.repeat(np.arange(PLACES), PEOPLE)
    kind = (rng.uniform(size=n) < rng.beta(3, 3, PLACES)[town]).astype(int)
    age = 45 + 12 * rng.standard_normal(n) + (4 * rng.standard_normal(PLACES))[town] + 8 * kind
    population = pa.table({"town": town, "kind": pa.array(kind.astype(str)), "age": age})
    features = MeanEmbedding(16, random_state=0, bandwidth=2.0).fit(People(population, by="town"))
    whole = features.transform(People(population, by="town")).values
    parts = features.transform(People(population, by=["town", "kind"])).values
    xy = np.column_stack([rng.uniform(-100, -80, PLACES), rng.uniform(30, 45, PLACES)])
    terms = Terms(PLACES, "matern32", xy, "sphere", True, None)
    h = Hyperparameters(2.0, 0.1, 500.0, 0.02)
    w = np.sqrt(h.effect_variance) * rng.standard_normal(whole.shape[1])
    K = place_covariance(terms, h) - 10.0 + 1e-9 * np.eye(PLACES)
    u = np.linalg.cholesky(K) @ rng.standard_normal(PLACES)
    center = whole.mean(axis=0)
    yes = rng.binomial(5000, special.expit((whole - center) @ w + u)).astype(float)
    place = np.repeat(np.arange(PLACES), 2)
    share = np.column_stack([1 - np.bincount(town, kind) / PEOPLE, np.bincount(town, kind) / PEOPLE]).ravel()
    f = (parts - center) @ w + u[place]
    truth = shift_to_total(f[None], share, place, yes / 5000).rate[0]
    rows = np.concatenate([i * PEOPLE + rng.choice(PEOPLE, SAMPLE, replace=False) for i in range(PLACES)])
    places = pa.table(
        {"town": np.arange(PLACES), "yes": yes, "all": np.full(PLACES, 5000.0), "lon": xy[:, 0], "lat": xy[:, 1]}
    )
    return population.take(pa.array(rows)), places, truth


@pytest.mark.filterwarnings("ignore:The hyperparameter")  # one at its limit is no fault of these worlds
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(60), marks=pytest.mark.slow)])
def test_intervals_hold_when_people_are_a_sample(seeds: range) -> None:
    """Through the front door: embeddings of four hundred people a place, with their sampling error.

    Over sixty nations the intervals held 94 %, and 92 % when subgroups' embeddings were taken as exact. Those of the places are always
    taken so, which flattens the regression: with sixty people a place it was 88 %.
    """
    inside, without, errors = [], [], []
    for seed in seeds:
        people, places, truth = people_world(seed)
        model = DistributionRegression(n_features=16, bandwidth=2.0, n_restarts=1)
        model.fit(People(people, by="town"), Places(places, "town", "yes", "all", coords=("lon", "lat")))
        for found, kept in (
            (model.estimate(by="kind", interval="model", n_draws=400), inside),
            (_certain(model), without),
        ):
            there = truth[2 * found["town"] + (found["kind"] == "1")]  # a place may have nobody of a kind in the sample
            kept.append(np.mean((found["conf_low"] <= there) & (there <= found["conf_high"])))
        errors.append(np.mean(found["estimate"] - there))
    assert 0.90 <= np.mean(inside) <= 0.99, inside
    assert np.mean(without) < np.mean(inside)
    assert abs(np.mean(errors)) < 0.01


def _certain(model: EcologicalInference) -> Estimates:
    """Ask the same model as if the embeddings were of everybody."""
    model.model_ = replace(model.model_, sampling=None)
    return model.estimate(by="kind", interval="model", n_draws=400)
