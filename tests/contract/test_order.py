"""Answers of KRLS and of the models of bags do not depend on the order of rows, bags, people or columns.

Landmarks are the exception: which people they are is drawn, and the draw follows the order. Given the landmarks, or all people
for landmarks, nothing is left of it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crosslevel.distribution import (
    BayesianLinear,
    BayesianLinearClassifier,
    FrequentistShrinkage,
    MeanShrinkage,
    MeanShrinkageClassifier,
    RBFNetwork,
)
from crosslevel.krls import KRLS

TOLERANCE = 1e-8
N, BAGS = 60, 24


def frame() -> tuple[pd.DataFrame, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {
            "age": rng.normal(50, 15, N),
            "income": rng.normal(size=N),
            "treated": rng.integers(0, 2, N),
            "arm": rng.choice(["a", "b", "c"], N),
        }
    )
    y = 0.02 * X["age"] + X["treated"] + np.sin(X["income"]) + 0.5 * rng.normal(size=N)
    return X, y.to_numpy(), rng


def far(one: np.ndarray, other: np.ndarray) -> float:
    """Give the largest difference, relative to the largest number."""
    return float(np.abs(one - other).max() / np.abs(one).max())


def answers(model: Any) -> np.ndarray:
    found = model.effects().to_frame().sort_values("term")
    return np.concatenate([found["estimate"], found["std_error"], [model.loo_, model.r2_, model.r2_ame_]])


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (KRLS(), None),
        (KRLS(rule="krls", inference="krls"), None),
        (KRLS(bandwidth="maxvar"), None),
        (KRLS(method="partial"), None),
        (KRLS(), "cluster"),
        (KRLS(), "sample_weight"),
    ],
    ids=["debiased", "R", "maxvar", "partial", "clusters", "weights"],
)
def test_rows_and_columns_of_effects_may_come_in_any_order(model, given):
    X, y, rng = frame()
    each = {"cluster": np.arange(N) % 12, "sample_weight": rng.uniform(0.5, 2.0, N), None: None}[given]
    known = {} if given is None else {given: each}
    order = rng.permutation(N)
    moved = {name: values[order] for name, values in known.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, **known)
        expected, fitted = answers(model), model.fitted_
        model.fit(X.iloc[order], y[order], **moved)
        assert far(expected, answers(model)) < TOLERANCE
        assert far(fitted[order], model.fitted_) < TOLERANCE
        model.fit(X[["arm", "treated", "age", "income"]], y, **known)
        assert far(expected, answers(model)) < TOLERANCE
        assert far(fitted, model.fitted_) < TOLERANCE


def test_what_order_does_to_an_approximation_goes_with_its_rank():
    X, y, rng = frame()
    order = rng.permutation(N)
    left = []
    for rank in (5, N):
        model = KRLS(method="nystrom", rank=rank)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = model.fit(X, y).fitted_
            left.append(far(fitted[order], model.fit(X.iloc[order], y[order]).fitted_))
    assert left[0] > 1e-4  # other rows are landmarks
    assert left[1] < 1e-7


def world() -> tuple[list[np.ndarray], np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(6)
    y = rng.uniform(-1, 1, BAGS)
    return [rng.normal(t, 1.0, size=(s, 3)) for t, s in zip(y, rng.choice([1, 3, 9], BAGS), strict=True)], y, rng


def predicted(model: Any, bags: list[np.ndarray]) -> np.ndarray:
    return model.predict_proba(bags)[:, 1] if hasattr(model, "predict_proba") else model.predict(bags)


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinear(),
        BayesianLinear(second_level="rbf"),
        RBFNetwork(),
        FrequentistShrinkage(),
        MeanShrinkage(n_restarts=0),
        BayesianLinearClassifier(),
        MeanShrinkageClassifier(n_restarts=0),
    ],
    ids=lambda m: type(m).__name__ + ("" if getattr(m, "second_level", "linear") == "linear" else " rbf"),
)
def test_bags_people_and_columns_may_come_in_any_order(model):
    bags, y, rng = world()
    target = y > 0 if hasattr(model, "predict_proba") else y
    places = rng.normal(size=(4, 3))
    model.set_params(landmarks=places, bandwidth_scale=1.0)
    expected = predicted(model.fit(bags, target), bags)
    order, columns = rng.permutation(BAGS), [2, 0, 1]
    turned = [bags[i] for i in order]
    if getattr(model, "second_level", "linear") == "linear":  # a second kernel has bags for landmarks
        assert far(expected[order], predicted(model.fit(turned, target[order]), turned)) < TOLERANCE
    mixed = [rng.permutation(b) for b in bags]
    assert far(expected, predicted(model.fit(mixed, target), mixed)) < TOLERANCE
    other = [b[:, columns] for b in bags]
    model.set_params(landmarks=places[:, columns])
    assert far(expected, predicted(model.fit(other, target), other)) < TOLERANCE


@pytest.mark.parametrize("landmarks", ["kmeans", "random"])
def test_learned_landmarks_do_not_depend_on_the_order_of_columns_nor_on_any_when_all_people_are(landmarks):
    bags, y, rng = world()
    model = BayesianLinear(5, landmarks=landmarks, bandwidth_scale=1.0)
    expected = model.fit(bags, y).predict(bags)
    other = [b[:, [2, 0, 1]] for b in bags]
    assert far(expected, model.fit(other, y).predict(other)) < TOLERANCE
    everybody = model.set_params(n_landmarks=sum(map(len, bags)))
    expected = everybody.fit(bags, y).predict(bags)
    order = rng.permutation(BAGS)
    turned = [bags[i] for i in order]
    assert far(expected[order], everybody.fit(turned, y[order]).predict(turned)) < 1e-6
