"""`MeanShrinkage` and its classifier as estimators: size matters, laws hold, what is saved returns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.data.bags import Bags
from crosslevel.diagnostics.calibration import calibration_table, size_strata
from crosslevel.distribution.shrinkage.estimator import MeanShrinkage, MeanShrinkageClassifier

SMALL = {"n_landmarks": 12, "bandwidth_scale": 1.0}


def spreads(n, seed, sizes=(3, 20, 200)):
    """Bags whose label is the spread of their people."""
    rng = np.random.default_rng(seed)
    y, N = rng.uniform(1.0, 3.0, n), rng.choice(sizes, n)
    values = rng.normal(size=(N.sum(), 1)) * np.repeat(y, N)[:, None]
    return Bags(values, np.concatenate([[0], np.cumsum(N)])), y


@pytest.fixture(scope="module")
def worlds():
    return spreads(250, 0), spreads(600, 1)


@pytest.mark.parametrize("kernel", ["base", "integral"])
def test_intervals_keep_their_word_for_every_size(worlds, kernel):
    (bags, y), (fresh, truth) = worlds
    model = MeanShrinkage(kernel, **SMALL).fit(bags, y)
    mean, sd = model.predict(fresh, return_std=True)
    found = calibration_table(truth, mean, sd, size_strata(fresh.sizes))
    assert found["stratum"].tolist() == ["all", "3", "20", "200"]
    assert ((found["estimate"] > 0.89) & (found["estimate"] < 0.995)).all()
    assert found["rmse"][1] > found["rmse"][2] > found["rmse"][3]
    assert found["mean_width"][1] > found["mean_width"][2] > found["mean_width"][3]
    assert model.convergence_["converged"]
    assert (model.measure_sd_ is None) == (kernel == "base")
    assert -found["nll"][0] == pytest.approx(model.log_density(fresh, truth).mean())


def test_order_of_bags_and_of_people_changes_nothing(worlds):
    (bags, y), (fresh, _) = worlds
    U = np.linspace(-4, 4, 9)[:, None]
    given = {"landmarks": U, "n_landmarks": 9, "bandwidth_scale": 1.0, "bandwidth": 1.0, "standardize": False}
    order = np.random.default_rng(0).permutation(len(y))
    turned = Bags.from_list([np.asarray(bags[int(i)])[::-1] for i in order])
    first, second = MeanShrinkage(**given).fit(bags, y), MeanShrinkage(**given).fit(turned, y[order])
    np.testing.assert_allclose(first.predict(fresh), second.predict(fresh), rtol=1e-4)


def test_labels_in_other_units_give_the_same_answer_in_those_units(worlds):
    (bags, y), (fresh, _) = worlds
    mean, sd = MeanShrinkage(**SMALL).fit(bags, y).predict(fresh, return_std=True)
    other_mean, other_sd = MeanShrinkage(**SMALL).fit(bags, 100.0 - 7.0 * y).predict(fresh, return_std=True)
    np.testing.assert_allclose(other_mean, 100.0 - 7.0 * mean, rtol=1e-6)
    np.testing.assert_allclose(other_sd, 7.0 * sd, rtol=1e-6)


def test_weights_make_a_bag_as_small_as_kish_says(worlds):
    (bags, y), _ = worlds
    model = MeanShrinkage(**SMALL).fit(bags, y)
    people = np.random.default_rng(5).normal(size=(50, 1))
    uneven = np.where(np.arange(50) < 2, 1000.0, 1.0)
    one = Bags(people, [0, 50])
    other = Bags(people, [0, 50], weights=uneven)
    assert other.effective_sizes[0] < 2.2
    assert model.predict(other, return_std=True)[1][0] > 1.5 * model.predict(one, return_std=True)[1][0]


def test_alpha_gives_the_mean_of_a_bag_known_exactly(worlds):
    (bags, y), _ = worlds
    model = MeanShrinkage(**SMALL).fit(bags, y)
    huge = Bags(np.zeros((1, 1)), [0, 1])
    features = model.features(huge)
    exact = replace(features, sizes=np.array([1e15]))
    by_hand = model.intercept_ + (features.mu[0] - model._fits[0].m0) @ model.alpha_
    assert model._fits[0].predict(exact).mean[0] == pytest.approx(by_hand, rel=1e-9)


def test_classifier_is_less_sure_of_small_bags(worlds):
    (bags, y), (fresh, truth) = worlds
    model = MeanShrinkageClassifier(**SMALL).fit(bags, y > 2.0)
    p = model.predict_proba(fresh)[:, 1]
    assert model.convergence_["converged"]
    sure = np.abs(p - 0.5)
    assert sure[fresh.sizes == 3].mean() < sure[fresh.sizes == 20].mean() < sure[fresh.sizes == 200].mean()
    assert np.mean((p > 0.5) == (truth > 2.0)) > 0.75
    assert p[truth > 2.0].mean() - p[truth <= 2.0].mean() > 0.3
    baseline = np.log(2.0)
    assert -model.log_density(fresh, truth > 2.0).mean() < 0.8 * baseline


def test_three_classes_each_against_the_rest(worlds):
    (bags, y), (fresh, truth) = worlds
    names = np.array(["low", "middle", "high"])
    model = MeanShrinkageClassifier(**SMALL).fit(bags, names[np.digitize(y, [1.6, 2.3])])
    p = model.predict_proba(fresh)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.score(fresh, names[np.digitize(truth, [1.6, 2.3])]) > 0.55
