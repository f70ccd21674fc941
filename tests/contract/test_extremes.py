"""Scales of 1e-300 to 1e300, weights over twelve orders, constants, duplicates, one row: right or refused, never NaN."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.distribution import (
    BayesianLinear,
    BayesianLinearClassifier,
    FrequentistShrinkage,
    MeanShrinkage,
    MeanShrinkageClassifier,
    RBFNetwork,
)
from crosslevel.errors import CrosslevelError
from crosslevel.krls import KRLS

SCALES = (1e-300, 1e-160, 1e-12, 1e12, 1e160, 1e300)
ROWS, BAGS = 20, 14


def extremes(
    X: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Give names, people (n, 2), labels and weights of people (None for none)."""
    n, first = len(X), np.arange(len(X)) == 0
    lone = np.arange(len(y)) == 0
    for s in SCALES:
        yield f"y * {s:g}", X, y * s, None
        yield f"y + {s:g}", X, y + s, None
        yield f"x * {s:g}", X * [s, 1.0], y, None
        yield f"x + {s:g}", X + np.array([s, 0.0]), y, None
        yield f"weights {s:g}", X, y, np.full(n, s)
        yield f"one weight {s:g}", X, y, np.where(first, s, 1.0)
        yield f"one y {s:g}", X, np.where(lone, s, y), None
        yield f"one x {s:g}", np.where(first[:, None], [s, 0.0], X), y, None
    yield "weights over 12 orders", X, y, 10.0 ** rng.uniform(-6, 6, n)
    yield "weights over 300 orders", X, y, 10.0 ** rng.uniform(-150, 150, n)
    yield "y over 300 orders", X, y * 10.0 ** rng.uniform(-150, 150, len(y)), None
    yield "a constant column", np.column_stack([X, np.ones(n)]), y, None
    yield "a column of rounding", np.column_stack([X, 1 + 1e-15 * rng.normal(size=n)]), y, None
    yield "constants", np.ones_like(X), y, None
    yield "duplicates", X[np.arange(n) % 3], y, None
    yield "y constant", X, np.ones(len(y)), None


def check_table(found: cl.Estimates, what: str) -> None:
    low, estimate, high, error = (
        np.asarray(found[c], float) for c in ("conf_low", "estimate", "conf_high", "std_error")
    )
    assert np.isfinite([low, estimate, high, error]).all(), what
    assert (low <= estimate).all(), what
    assert (estimate <= high).all(), what


def krls_answers(model: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray | None, what: str) -> None:
    model.fit(X, y, sample_weight=w)
    for found in (model.effects(), model.effects(target="population"), model.effects(along=model.encoding_.names)):
        check_table(found, what)
    check_table(model.pointwise_bands(), what)
    numbers = [model.loo_, model.r2_, model.r2_ame_, model.edf_, *model.fitted_, *model.pointwise_effects_.ravel()]
    numbers += [*np.ravel(model.predict(X, return_std=True))]
    assert np.isfinite(numbers).all(), what
    assert "R²" in model.summary()


@pytest.mark.parametrize(
    "model",
    [
        KRLS(),
        KRLS(inference="hc3"),
        KRLS(rule="krls", inference="bigkrls"),
        KRLS(bandwidth="maxvar"),
    ],
    ids=["debiased", "plug-in", "R", "maxvar"],
)
def test_effects_are_right_or_refused(model):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=ROWS), rng.integers(0, 2, ROWS)])
    y = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=ROWS)
    made = [*extremes(X, y, rng), *((f"{n} row(s)", X[:n], y[:n], None) for n in (1, 2, 3, 4))]
    answered = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, rows, labels, w in made:
            try:
                krls_answers(model, rows, labels, w, what)
            except CrosslevelError:
                continue
            answered += 1
    assert answered >= 15


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinear(5, bandwidth_scale=1.0),
        BayesianLinear(5, bandwidth_scale=1.0, standardize=False),
        RBFNetwork(5, bandwidth_scale=1.0),
        FrequentistShrinkage(5, bandwidth_scale=1.0),
        MeanShrinkage(n_landmarks=3, bandwidth_scale=1.0, n_restarts=0),
        BayesianLinearClassifier(5, bandwidth_scale=1.0),
        MeanShrinkageClassifier(n_landmarks=3, bandwidth_scale=1.0, n_restarts=0),
    ],
    ids=lambda m: type(m).__name__ + ("" if m.standardize else " raw"),
)
def test_labels_of_bags_are_right_or_refused(model):
    rng = np.random.default_rng(2)
    sizes = rng.choice([1, 3, 12], BAGS)
    y = rng.uniform(-1, 1, BAGS)
    X = rng.normal(size=(sizes.sum(), 2)) + np.repeat(y, sizes)[:, None]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    answered = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, people, labels, w in extremes(X, y, rng):
            classes = hasattr(model, "predict_proba")
            target = labels > np.median(labels) if classes else labels
            try:
                bags = cl.Bags(people, offsets, weights=w)
                model.fit(bags, target)
            except CrosslevelError:
                continue
            if classes:
                assert np.isfinite(model.predict_proba(bags)).all(), what
            else:
                check_table(model.estimate(bags), what)
            assert np.isfinite(model.log_density(bags, target)).all(), what
            answered += 1
    assert answered >= 15


def test_the_scale_of_people_and_labels_does_not_matter():
    rng = np.random.default_rng(3)
    y = rng.uniform(-1, 1, BAGS)
    bags = [rng.normal(t, 1.0, size=(6, 2)) for t in y]
    plain = BayesianLinear(5, bandwidth_scale=1.0).fit(bags, y).predict(bags)
    for s in (1e-200, 1e200):
        scaled = [b * [s, 1.0] for b in bags]
        np.testing.assert_allclose(
            BayesianLinear(5, bandwidth_scale=1.0).fit(scaled, y).predict(scaled), plain, rtol=1e-6
        )
