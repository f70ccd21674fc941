"""Gradients by landmarks and bandwidth against differences; tuned landmarks are kept only when they help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.distribution.features import LandmarkMap
from crosslevel.distribution.linear import tuning as module
from crosslevel.distribution.linear.estimator import RBFNetwork
from crosslevel.distribution.linear.tuning import objective
from crosslevel.errors import InputError


@pytest.mark.parametrize("rows", [7, 8192])
def test_the_gradient_is_the_derivative(world, monkeypatch, rows):
    monkeypatch.setattr(module, "MOST_ROWS", rows)
    monkeypatch.setattr(module, "FEWEST_ROWS", 1)
    bags, y = world
    rng = np.random.default_rng(0)
    fmap = LandmarkMap(rng.normal(size=(4, 2)), 1.2, np.array([1.0, 2.0]))
    _, by_u, by_b = objective(bags, y, fmap, 0.05)
    h = 1e-6
    for place in [(0, 0), (2, 1), (3, 0)]:
        move = np.zeros((4, 2))
        move[place] = h
        up, down = (objective(bags, y, replace(fmap, U=fmap.U + s * move), 0.05)[0] for s in (1, -1))
        assert by_u[place] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-9)
    up, down = (objective(bags, y, replace(fmap, bandwidth=fmap.bandwidth * np.exp(s)), 0.05)[0] for s in (h, -h))
    assert by_b == pytest.approx((up - down) / (2 * h), rel=1e-5)


@pytest.mark.parametrize("norm", ["weights", "rkhs"])
def test_tuning_helps_landmarks_that_lie_badly(world, norm):
    bags, y = world
    bad = np.array([[6.0, 6.0], [8.0, 0.0], [0.0, 8.0], [-7.0, -7.0]])
    options = {"landmarks": bad, "bandwidth": 2.0, "bandwidth_scale": 1.0, "norm": norm, "standardize": False}
    plain, tuned = RBFNetwork(**options).fit(bags, y), RBFNetwork(fine_tune=True, **options).fit(bags, y)
    assert tuned.diagnostics_["tuning"]["kept"]
    assert tuned.loo_ < 0.75 * plain.loo_
    assert tuned.loo_ == tuned.diagnostics_["tuning"]["left_out_after"]
    assert not np.array_equal(tuned.map_.U, plain.map_.U)


def test_landmarks_return_when_tuning_does_not_help(world, monkeypatch):
    bags, y = world
    monkeypatch.setattr(module, "fit_ridge", lambda *a: replace(real(*a), criterion=np.inf))
    real = __import__("crosslevel.distribution.linear.penalty", fromlist=["fit_ridge"]).fit_ridge
    options = {"n_landmarks": 5, "bandwidth_scale": 1.0}
    plain = RBFNetwork(**options).fit(bags, y)
    tuned = RBFNetwork(fine_tune=True, tuning_steps=2, **options).fit(bags, y)
    assert not tuned.diagnostics_["tuning"]["kept"]
    np.testing.assert_array_equal(tuned.predict(bags), plain.predict(bags))


def test_messages(world):
    bags, y = world
    with pytest.raises(InputError, match="fine_tune="):
        RBFNetwork(n_landmarks=5, fine_tune=True, second_level="rbf").fit(bags, y)
    with pytest.raises(InputError, match="norm="):
        RBFNetwork(norm="l1").fit(bags, y)
    with pytest.raises(InputError, match="penalty="):
        RBFNetwork(penalty=-1).fit(bags, y)
