"""What all bag estimators share: inputs, answers, refusals, saving, model selection."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from crosslevel.data.bags import Bags
from crosslevel.distribution.base import BagRegressor
from crosslevel.distribution.linear import estimator as module
from crosslevel.distribution.linear.estimator import (
    BayesianLinear,
    BayesianLinearClassifier,
    FrequentistShrinkage,
    RBFNetwork,
)
from crosslevel.distribution.shrinkage.estimator import MeanShrinkage, MeanShrinkageClassifier
from crosslevel.errors import ConvergenceError, InputError

REGRESSORS = [
    BayesianLinear(n_landmarks=(10, 20)),
    BayesianLinear(n_landmarks=15, second_level="rbf", bandwidth_scale=1.0),
    BayesianLinear(n_landmarks=15, prior="iid", fit_intercept=False, landmarks="paper"),
    RBFNetwork(n_landmarks=15, rule="gcv"),
    FrequentistShrinkage(n_landmarks=15, filter="simple", bandwidth_scale=(0.75, 1.25)),
    FrequentistShrinkage(n_landmarks=15, bandwidth_scale=1.0),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_spread_is_learned_and_intervals_cover(model, world, fresh_world):
    (bags, y), (new, truth) = world, fresh_world
    model = clone(model).fit(bags, y)
    mean, std = model.predict(new, return_std=True)
    assert model.convergence_["converged"]
    assert model.score(new, truth) > 0.2
    low, high = model.predict_interval(new, level=0.9).T
    assert 0.8 < np.mean((low < truth) & (truth < high)) < 0.98
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * std, rtol=1e-6)
    np.testing.assert_allclose(
        model.log_density(new, truth), -0.5 * np.log(2 * np.pi * std**2) - (truth - mean) ** 2 / (2 * std**2)
    )


def test_kinds_of_input_agree(world, tmp_path):
    bags, y = world
    plain = Bags(bags.values, bags.offsets)
    as_list = [b.values for b in plain]
    np.save(tmp_path / "people.npy", bags.values)
    stored = Bags(np.load(tmp_path / "people.npy", mmap_mode="r"), bags.offsets)
    assert stored.stored
    model = BayesianLinear(n_landmarks=10)
    one, two, three = (clone(model).fit(X, y).predict(X) for X in (plain, as_list, stored))
    np.testing.assert_allclose(one, two, rtol=1e-10)
    np.testing.assert_allclose(one, three, rtol=1e-10)


def test_rows_are_bags_of_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
    rows = BayesianLinear().fit(X, y)
    bags = BayesianLinear().fit(Bags(X, np.arange(81)), y)
    np.testing.assert_allclose(rows.predict(X), bags.predict(Bags(X, np.arange(81))), rtol=1e-10)
    assert rows.score(X, y) > 0.9
    framed = BayesianLinear().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert framed.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(framed.predict(pd.DataFrame(X, columns=["a", "b"])), rows.predict(X), rtol=1e-10)


def test_order_of_bags_and_of_people_does_not_matter(world):
    bags, y = world
    rng = np.random.default_rng(0)
    order = rng.permutation(len(bags))
    U = bags.values[:12]
    model = BayesianLinear(landmarks=U, bandwidth=2.0, standardize=False)
    base = clone(model).fit(bags, y).predict(bags)
    np.testing.assert_allclose(clone(model).fit(bags[order], y[order]).predict(bags), base, rtol=1e-7)
    rows = np.concatenate([s + rng.permutation(n) for s, n in zip(bags.offsets[:-1], bags.sizes, strict=True)])
    shuffled = Bags(bags.values[rows], bags.offsets, weights=bags.weights[rows])
    np.testing.assert_allclose(clone(model).fit(shuffled, y).predict(bags), base, rtol=1e-7)


def test_weights_of_whole_numbers_equal_repeated_people(world):
    bags, y = world
    times = np.random.default_rng(0).integers(1, 4, len(bags.values))
    counted = Bags(bags.values, bags.offsets, weights=times.astype(float))
    repeated = Bags(
        np.repeat(bags.values, times, axis=0), np.append(0, np.cumsum(np.add.reduceat(times, bags.offsets[:-1])))
    )
    options = {"landmarks": bags.values[:12], "bandwidth": 2.0, "standardize": False}
    for model in (BayesianLinear(**options), RBFNetwork(**options)):
        one, two = (clone(model).fit(X, y).predict(bags) for X in (counted, repeated))
        np.testing.assert_allclose(one, two, rtol=1e-8)


def test_the_table(world):
    bags, y = world
    named = Bags(bags.values, bags.offsets, weights=bags.weights, keys=[("a", i) for i in range(len(bags))])
    model = BayesianLinear(n_landmarks=10).fit(named, y)
    table = model.estimate(named, level=0.5, y=y)
    assert table.keys == ("bag",)
    assert table["bag"][3] == "('a', 3)"
    np.testing.assert_allclose(table["size"], bags.effective_sizes)
    np.testing.assert_allclose(table["estimate"], model.predict(bags))
    assert table.level == 0.5
    assert 0.3 < table.score()["coverage"] < 0.8
    assert table.diagnostics["converged"] is True
    assert table.provenance.call.startswith("BayesianLinear(bandwidth='median', bandwidth_scale='auto'")
    assert set(table.provenance.data) == {"X", "y"}
    assert (
        table.provenance.data != BayesianLinear(n_landmarks=10).fit(bags[::-1], y[::-1]).estimate(bags).provenance.data
    )


def test_scikit_learn_selects_models_over_bags(world):
    bags, y = world
    assert cross_val_score(BayesianLinear(n_landmarks=10), bags, y, cv=4).mean() > 0.2
    search = GridSearchCV(BayesianLinear(bandwidth_scale=1.0), {"n_landmarks": [2, 10]}, cv=3).fit(bags, y)
    assert search.best_params_ == {"n_landmarks": 10}


def three_classes(n=90, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.choice(["low", "middle", "wide"], n)
    sd = np.select([label == "low", label == "middle"], [0.5, 1.2], 3.0)
    return [rng.normal(0, s, (25, 1)) for s in sd], label


def test_classes_are_found_and_probabilities_add_up():
    (X, label), (new, truth) = three_classes(), three_classes(60, 1)
    model = BayesianLinearClassifier(n_landmarks=(8, 12), bandwidth_scale=(0.75, 1.0)).fit(X, label)
    p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.classes_.tolist() == ["low", "middle", "wide"]
    assert model.score(new, truth) > 0.85
    np.testing.assert_allclose(
        model.log_density(new, truth), np.log(p[np.arange(60), np.searchsorted(model.classes_, truth)])
    )
    table = model.estimate(new, y=truth)
    assert table.keys == ("bag", "class")
    assert table["truth"].sum() == 60
    with pytest.raises(InputError):
        model.log_density(new[:1], ["huge"])
    with pytest.raises(InputError):
        model.estimate(new[:1], y=[7])
    with pytest.raises(InputError):
        BayesianLinearClassifier().fit(new[:3], np.array(["low", None, "wide"], dtype=object))


def test_two_classes_mirror_each_other():
    X, label = three_classes()
    pairs = [(x, v) for x, v in zip(X, label, strict=True) if v != "wide"]
    X, t = [p[0] for p in pairs], np.array([p[1] == "low" for p in pairs])
    one = BayesianLinearClassifier(n_landmarks=8, bandwidth_scale=1.0).fit(X, t)
    two = BayesianLinearClassifier(n_landmarks=8, bandwidth_scale=1.0).fit(X, ~t)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X)[:, ::-1], atol=1e-6)
    assert one.log_evidence_.shape == (1,)


def test_nonlinear_labels_need_the_second_level():
    rng = np.random.default_rng(0)
    center = rng.uniform(-2, 2, 160)
    X = [rng.normal(c, 0.3, (20, 1)) for c in center]
    y = np.sin(4.0 * center)
    options = {"landmarks": np.array([[-2.0], [2.0]]), "bandwidth": 4.0, "standardize": False, "bandwidth_scale": 1.0}
    linear = BayesianLinear(**options).fit(X[:120], y[:120])
    rbf = BayesianLinear(second_level="rbf", **options).fit(X[:120], y[:120])
    assert linear.score(X[120:], y[120:]) < 0.3
    assert rbf.score(X[120:], y[120:]) > 0.6


SMALL = {"n_landmarks": 8, "bandwidth_scale": 1.0}
EVERY = [
    RBFNetwork(**SMALL),
    FrequentistShrinkage(**SMALL),
    FrequentistShrinkage(filter="simple", **SMALL),
    BayesianLinear(**SMALL),
    BayesianLinear(second_level="rbf", **SMALL),
    MeanShrinkage(**SMALL),
    MeanShrinkage("integral", **SMALL),
    BayesianLinearClassifier(**SMALL),
    MeanShrinkageClassifier(**SMALL),
]


def odd_bags(kind):
    """Bags that are hard on an estimator, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 3, 30)
    X = [rng.normal(0, s, (int(rng.integers(1, 25)), 2)) for s in y]
    weights = None
    if kind == "one person each":
        X = [b[:1] for b in X]
    elif kind == "the same label":
        y = np.full(30, 3.0)
    elif kind == "a constant column":
        X = [np.column_stack([b[:, 0], np.ones(len(b))]) for b in X]
    elif kind == "all people alike":
        X = [np.ones((len(b), 2)) for b in X]
    elif kind == "twins only":
        X = [np.repeat(b[:1], 4, axis=0) for b in X]
    elif kind == "the same bag again":
        X = [X[i % 2] for i in range(30)]
    elif kind == "two bags":
        X, y = X[:2], y[:2]
    elif kind == "large numbers":
        X, y = [1e8 * b + 1e10 for b in X], 1e9 * y
    elif kind == "small numbers":
        X, y = [1e-8 * b for b in X], 1e-9 * y
    elif kind == "large weights":
        weights = [1e200 * rng.uniform(0.1, 10, len(b)) for b in X]
    elif kind == "one weight above zero":
        weights = [np.eye(len(b))[0] for b in X]
    elif kind == "a person far away":
        X[-1] = np.vstack([X[-1], [1e6, 1e6]])
    return Bags.from_list(X, weights=weights), y


@pytest.mark.parametrize(
    "kind",
    [
        "one person each",
        "the same label",
        "a constant column",
        "all people alike",
        "twins only",
        "the same bag again",
        "two bags",
        "large numbers",
        "small numbers",
        "large weights",
        "one weight above zero",
        "a person far away",
    ],
)
@pytest.mark.parametrize("model", EVERY, ids=str)
def test_odd_bags_get_finite_answers(model, kind):
    bags, y = odd_bags(kind)
    if isinstance(model, BagRegressor):
        mean, std = clone(model).fit(bags, y).predict(bags, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
        assert (std > 0).all()
        # no answer lies far outside the labels it was learned from
        assert np.abs(mean - y.mean()).max() <= 3 * max(np.ptp(y), 1e-6 * np.abs(y).max())
    elif kind != "the same label":
        p = clone(model).fit(bags, y > np.median(y)).predict_proba(bags)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert (p > 0).all()


def test_a_bag_of_a_million_is_sure_and_a_bag_of_one_is_not():
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 3, 60)
    sizes = rng.choice([1, 10, 200], 60)
    sizes[:2] = 1, 1_000_000
    values = (rng.normal(size=(sizes.sum(), 1)) * np.repeat(y, sizes)[:, None]).astype(np.float32)
    stored = Bags(values, np.append(0, np.cumsum(sizes)))
    mean, std = MeanShrinkage(n_landmarks=10, bandwidth_scale=1.0).fit(stored, y).predict(stored, return_std=True)
    assert abs(mean[1] - y[1]) < 4 * std[1]
    assert std[1] < 0.5 * std[0]
    assert std[1] <= std.min() * (1 + 1e-9)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([], []),
        ([np.zeros(3), np.zeros(4)], [1.0, 2.0]),
        ([np.zeros((4, 2)), np.zeros((2, 3))], [1.0, 2.0]),
        ([np.zeros((4, 2)), np.zeros((0, 2))], [1.0, 2.0]),
        ([np.zeros((4, 2)), np.full((1, 2), np.inf)], [1.0, 2.0]),
        ([np.zeros((4, 2)), np.ones((2, 2))], [1.0]),
        ([np.zeros((4, 2)), np.ones((2, 2))], [1.0, np.nan]),
        ([np.zeros((4, 2)), np.ones((2, 2))], None),
        ([np.zeros((4, 2))], [1.0]),
    ],
)
def test_refusals_of_bags_and_labels(X, y):
    with pytest.raises(InputError):
        BayesianLinear(n_landmarks=5).fit(X, y)


def test_refusals_of_calls(world):
    bags, y = world
    model = BayesianLinear(n_landmarks=5)
    with pytest.raises(NotFittedError):
        model.predict(bags)
    model.fit(bags, y)
    with pytest.raises(InputError):
        model.predict([np.zeros((3, 1))])
    with pytest.raises(InputError):
        model.log_density(bags, ["x"] * len(bags))
    with pytest.raises(InputError):
        BayesianLinearClassifier(n_landmarks=5).fit(bags, np.zeros(len(bags), dtype=int))


@pytest.mark.parametrize("model", [BayesianLinear(n_landmarks=8), BayesianLinearClassifier(n_landmarks=8)], ids=str)
def test_labels_with_names_are_matched_with_the_bags(world, model):
    bags, y = world
    y = y if isinstance(model, BagRegressor) else np.where(y > np.median(y), "high", "low")
    names = [f"town {i:02d}" for i in range(len(bags))]
    named = Bags(bags.values, bags.offsets, weights=bags.weights, keys=names)
    plain = clone(model).fit(named, y)
    order = np.random.default_rng(0).permutation(len(y))
    series = pd.Series(y, index=names).iloc[order]
    matched = clone(model).fit(named, series)
    np.testing.assert_array_equal(matched.predict(named), plain.predict(named))
    np.testing.assert_array_equal(matched.log_density(named, series), plain.log_density(named, y))
    assert matched.score(named, series) == plain.score(named, y)
    with pytest.raises(InputError):
        clone(model).fit(named[:-1], series)


def people_in(blob: bytes, model, people):
    """Count the people whose values are among the bytes, as they were given or divided by the columns' scale."""
    return max(
        sum(all(v.tobytes() in blob for v in row) for row in form) for form in (people, people / model.map_.scale)
    )


@pytest.mark.parametrize("landmarks", ["kmeans", "random"])
def test_a_pickle_holds_no_people_but_landmarks(landmarks):
    rng = np.random.default_rng(7)
    bags = [rng.normal(size=(12, 2)) for _ in range(20)]
    model = MeanShrinkage(n_landmarks=6, landmarks=landmarks, bandwidth_scale=1.0).fit(bags, rng.normal(size=20))
    assert people_in(pickle.dumps(model), model, np.concatenate(bags)) == (6 if landmarks == "random" else 0)


def test_a_shuffled_frame_of_bags_of_one_is_matched_with_labels_that_count(world):
    bags, y = world
    people, labels = pd.DataFrame(bags.mean()), pd.Series(y)
    order = people.sample(frac=1.0, random_state=0).index
    model = BayesianLinear(n_landmarks=10, random_state=0)
    by_name, by_position = (model.fit(people.loc[order], v).predict(people) for v in (labels, labels[order].to_numpy()))
    np.testing.assert_array_equal(by_name, by_position)


def test_people_of_a_list_of_frames_are_matched_by_their_columns():
    rng = np.random.default_rng(0)
    people = [pd.DataFrame({"age": rng.normal(i, 1, 20), "income": rng.normal(0, 9, 20)}) for i in range(12)]
    model = BayesianLinear(random_state=0).fit(people, np.arange(12.0))
    expected = model.predict(people)
    np.testing.assert_allclose(model.predict([p[["income", "age"]] for p in people]), expected)
    np.testing.assert_allclose(model.predict([p.to_numpy() for p in people]), expected)


def test_a_fit_that_did_not_converge_is_refused(world, monkeypatch):
    bags, y = world
    real = module.fit_evidence
    monkeypatch.setattr(module, "fit_evidence", lambda *a: replace(real(*a), converged=False))
    with pytest.raises(ConvergenceError):
        BayesianLinear(n_landmarks=5).fit(bags, y)
