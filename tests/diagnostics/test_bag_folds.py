"""Cross-validation over bags: each is predicted without its label, scores are those of the predictions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.data.bags import Bags
from crosslevel.diagnostics import bag_folds, cross_validate_bags, size_strata
from crosslevel.diagnostics.bag_folds import deal
from crosslevel.distribution import BayesianLinear, BayesianLinearClassifier
from crosslevel.distribution.predictive import Predictive
from crosslevel.errors import ConvergenceError, InputError

ONE = {"n_landmarks": 6, "bandwidth_scale": 1.0}


def make(n=40, seed=0):
    rng = np.random.default_rng(seed)
    y, sizes = rng.uniform(1.0, 3.0, n), rng.choice([4, 60], n)
    values = rng.normal(size=(sizes.sum(), 1)) * np.repeat(y, sizes)[:, None]
    return Bags(values, np.concatenate([[0], np.cumsum(sizes)]), keys=[f"g{i}" for i in range(n)]), y


@pytest.fixture(scope="module")
def world():
    return make()


@pytest.fixture(scope="module")
def found(world):
    return cross_validate_bags(BayesianLinear(**ONE), *world, folds=4, level=0.9, random_state=1)


def test_each_bag_is_predicted_by_a_fit_on_the_other_folds(world, found):
    bags, y = world
    fold = found.predictions["fold"]
    assert sorted(np.bincount(fold)[1:]) == [10, 10, 10, 10]
    for k in (1, 4):
        model = BayesianLinear(**ONE).fit(bags[fold != k], y[fold != k])
        mean, std = model.predict(bags[fold == k], return_std=True)
        np.testing.assert_allclose(found.predictions["estimate"][fold == k], mean)
        np.testing.assert_allclose(found.predictions["std_error"][fold == k], std)
    assert found.predictions["bag"].tolist() == [f"g{i}" for i in range(40)]
    np.testing.assert_array_equal(found.predictions["truth"], y)
    assert found.predictions.level == 0.9


def test_scores_by_stratum_beside_the_mean_of_the_others(world, found):
    bags, y = world
    scores, p, fold = found.scores, found.predictions, found.predictions["fold"]
    assert scores["stratum"].tolist() == ["all", "4", "60"]
    assert scores["n"].tolist() == [40, int((bags.sizes == 4).sum()), int((bags.sizes == 60).sum())]
    plain = np.array([y[fold != k].mean() for k in fold])
    sd = np.array([y[fold != k].std(ddof=1) * np.sqrt(1 + 1 / (fold != k).sum()) for k in fold])
    for row, keep in enumerate((bags.sizes > 0, bags.sizes == 4, bags.sizes == 60)):
        assert scores["mse"][row] == pytest.approx(np.mean((p["estimate"] - y)[keep] ** 2))
        assert scores["baseline_mse"][row] == pytest.approx(np.mean((plain - y)[keep] ** 2))
        held = (p["conf_low"] <= y) & (y <= p["conf_high"])
        assert scores["estimate"][row] == pytest.approx(held[keep].mean())
        nll = 0.5 * np.log(2 * np.pi * sd**2) + 0.5 * ((y - plain) / sd) ** 2
        assert scores["baseline_nll"][row] == pytest.approx(nll[keep].mean())
    assert scores["mse"][2] < scores["mse"][1] < scores["baseline_mse"][1]
    assert "BayesianLinear in 4 folds" in scores.method


def test_labels_of_a_fold_do_not_reach_its_predictions(world, found):
    bags, y = world
    fold = found.predictions["fold"]
    moved = np.where(fold == 2, y + 100.0, y)
    again = cross_validate_bags(BayesianLinear(**ONE), bags, moved, folds=4, level=0.9, random_state=1)
    np.testing.assert_array_equal(again.predictions["estimate"][fold == 2], found.predictions["estimate"][fold == 2])
    assert (again.predictions["estimate"][fold != 2] != found.predictions["estimate"][fold != 2]).all()


def test_lists_and_memory_maps_give_the_same(world, found, tmp_path):
    bags, y = world
    np.save(tmp_path / "people.npy", bags.values)
    on_disk = Bags(np.load(tmp_path / "people.npy", mmap_mode="r"), bags.offsets)
    asked = {"folds": 4, "level": 0.9, "random_state": 1}
    as_list = cross_validate_bags(BayesianLinear(**ONE), [b.values for b in bags], y, **asked)
    stored = cross_validate_bags(BayesianLinear(**ONE), on_disk, y, **asked)
    for other in (as_list, stored):
        np.testing.assert_allclose(other.predictions["estimate"], found.predictions["estimate"])


def test_classes(world):
    bags, y = world
    own = np.where(y > 2.2, "wide", "narrow")
    told = []
    found = cross_validate_bags(
        BayesianLinearClassifier(**ONE), bags, own, folds=3, progress=lambda done, of: told.append((done, of))
    )
    scores, p = found.scores, found.predictions
    assert told == [(1, 3), (2, 3), (3, 3)]
    wide = p.select(**{"class": "wide"})
    np.testing.assert_array_equal(wide["truth"], own == "wide")
    right = (wide["estimate"] > 0.5) == (own == "wide")
    chance = np.where(own == "wide", wide["estimate"], 1 - wide["estimate"])
    fold = wide["fold"]
    share = np.array([(own[fold != k] == "wide").mean() for k in fold])
    for row, keep in enumerate((bags.sizes > 0, bags.sizes == 4, bags.sizes == 60)):
        assert scores["estimate"][row] == pytest.approx(right[keep].mean())
        assert scores["log_loss"][row] == pytest.approx(-np.log(chance[keep]).mean())
        base = np.where(own == "wide", share, 1 - share)
        assert scores["baseline_log_loss"][row] == pytest.approx(-np.log(base[keep]).mean())
        assert scores["baseline_accuracy"][row] == pytest.approx((base[keep] > 0.5).mean())
    alone = BayesianLinearClassifier(**ONE).fit(bags[fold != 2], own[fold != 2]).predict_proba(bags[fold == 2])
    np.testing.assert_allclose(wide["estimate"][fold == 2], alone[:, 1])
    assert scores["stratum"].tolist() == ["all", "4", "60"]
    assert scores["estimate"][2] > scores["baseline_accuracy"][2]


def test_every_kind_is_dealt_evenly():
    kinds = np.repeat(["a", "b", "c"], [10, 3, 2])
    fold = deal(kinds, 5, 0)
    counts = np.array([[((fold == k) & (kinds == c)).sum() for k in range(5)] for c in "abc"])
    assert (counts[0] == 2).all()
    assert counts.max(axis=1).tolist() == [2, 1, 1]
    assert np.ptp(counts.sum(axis=0)) == 0
    assert (deal(kinds, 5, 1) != fold).any()


def test_weighted_bags_have_strata_with_whole_names(world):
    bags, y = world
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(bags.values))
    weighted = Bags(bags.values, bags.offsets, weights=weights)
    names = cross_validate_bags(BayesianLinear(**ONE), weighted, y, folds=2, edges=2).scores["stratum"].tolist()
    assert names[0] == "all"
    assert names[1:] == sorted(set(size_strata(np.round(weighted.effective_sizes), 2).tolist()), reverse=True)
    assert not any("." in n for n in names)


def test_bad_input_gets_a_sentence(world, monkeypatch):
    bags, y = world
    with pytest.raises(InputError, match="folds="):
        cross_validate_bags(BayesianLinear(**ONE), bags, y, folds=1)
    with pytest.raises(InputError):
        cross_validate_bags(BayesianLinear(**ONE), bags, np.full(40, 2.0))
    with pytest.raises(InputError):
        cross_validate_bags(BayesianLinearClassifier(**ONE), bags, np.full(40, "a"))
    with pytest.raises(InputError):
        cross_validate_bags(BayesianLinearClassifier(**ONE), bags, np.array(["a"] * 39 + ["odd"]))

    def refuse(self, X, y):
        raise ConvergenceError("no end in sight")

    monkeypatch.setattr(bag_folds.BagRegressor, "fit", refuse)
    with pytest.raises(ConvergenceError):
        cross_validate_bags(BayesianLinear(**ONE), bags, y)


class TwoHumps(BayesianLinear):
    """Its forecasts are no normal ones: one label in four lies three above the others."""

    def predictive(self, X):
        mean, n = super().predictive(X).mean, len(X)
        return Predictive(mean + np.repeat([0.0, 0.0, 0.0, 3.0], n).reshape(4, n), np.full((4, n), 0.25))


def test_transforms_are_those_of_the_forecast_not_of_a_normal_one(world):
    found = cross_validate_bags(TwoHumps(**ONE), *world, folds=4)
    away = world[1] - (found.predictions["estimate"] - 0.75)
    by_hand = 0.75 * stats.norm.cdf(away / 0.5) + 0.25 * stats.norm.cdf((away - 3.0) / 0.5)
    assert found.scores["mean_pit"][0] == pytest.approx(by_hand.mean(), rel=1e-9)
    assert found.scores["pit_p_value"][0] == pytest.approx(stats.kstest(by_hand, "uniform").pvalue, rel=1e-6)
