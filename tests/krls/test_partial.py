"""The partial way: the exact numbers from fewer eigenvectors, or an announced truncation; and which way is taken."""

from __future__ import annotations

import numpy as np
import pytest

import crosslevel.krls.paths as paths
from crosslevel.errors import CrosslevelWarning
from crosslevel.krls import KRLS
from crosslevel.krls.nystrom import choose_landmarks, partial
from crosslevel.krls.spectrum import GaussianKernel


@pytest.fixture
def curve(rng):
    x = rng.uniform(-2, 2, (300, 1))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=300)


def test_landmarks_leave_what_they_say(rng):
    kernel = GaussianKernel(rng.normal(size=(200, 2)), 2.0)
    found = choose_landmarks(kernel, 25, 0.0)
    left = kernel.matrix() - found.L @ found.L.T
    np.testing.assert_allclose(np.diag(left), found.left, atol=1e-12)
    assert np.linalg.eigvalsh(left)[0] > -1e-12
    np.testing.assert_array_equal(np.triu(found.L[found.index], 1), 0.0)
    assert len(set(found.index.tolist())) == 25


def test_it_gives_the_exact_numbers(curve):
    X, y = curve
    exact, fewer = KRLS().fit(X, y), KRLS(method="partial").fit(X, y)
    assert len(fewer._model.spectrum.w) < 60
    assert "exact to rounding" in fewer.path_
    assert not fewer.effects().diagnostics["approximate"]
    assert fewer.penalty_ == pytest.approx(exact.penalty_, rel=1e-8)
    assert fewer.loo_ == pytest.approx(exact.loo_, rel=1e-8)
    for name in ("fitted_", "coef_", "pointwise_effects_"):
        np.testing.assert_allclose(getattr(fewer, name), getattr(exact, name), rtol=1e-6, atol=1e-8)
    for name in ("estimate", "std_error", "plug_in"):
        np.testing.assert_allclose(fewer.effects()[name], exact.effects()[name], rtol=1e-8)


def test_truncation_is_announced_and_predictions_are_its_own(curve):
    X, y = curve
    with pytest.warns(CrosslevelWarning):
        model = KRLS(method="partial", rank=4).fit(X, y)
    np.testing.assert_allclose(model.predict(X), model.fitted_, atol=1e-10)
    np.testing.assert_allclose(model.effects()["plug_in"], model.average_effects_, rtol=1e-8)
    assert model._model.lost > 1e-4


def test_it_gives_up_when_there_are_too_many(rng):
    kernel = GaussianKernel(rng.normal(size=(100, 6)), 1.0)
    assert partial(kernel, np.ones(100), 20, 1e-11) is None


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_auto_goes_down_the_ways(curve, rng, monkeypatch):
    X, y = curve
    assert KRLS().fit(X, y).path_ == "exact, 300 rows"
    monkeypatch.setattr(paths, "EXACT_ROWS", 50)
    assert KRLS().fit(X, y).path_.startswith("partial eigendecomposition")
    rough = rng.normal(size=(200, 6))
    outcome = rough[:, 0] + rng.normal(size=200)
    assert KRLS().fit(rough, outcome).path_ == "exact, 200 rows"
    monkeypatch.setattr(paths, "MOST_EXACT", 50)
    assert KRLS().fit(rough, outcome).path_.startswith("Nystrom approximation")
