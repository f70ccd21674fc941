"""A saved model answers as the one that was saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.errors import InputError
from crosslevel.krls import KRLS
from crosslevel.krls import model as models
from crosslevel.results import load, save

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def data(rng):
    n = 150
    X = pd.DataFrame(
        {"age": rng.integers(18, 80, n), "arm": rng.choice(["a", "b", "c"], n), "sex": rng.integers(0, 2, n)}
    )
    return X, 0.03 * X["age"] + (X["arm"] == "b") + rng.normal(size=n)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("params", [{"inference": "hc3", "contrast": "dummy"}, {"reference": {"arm": "c"}}])
def test_round_trip(tmp_path, data, rng, params, clustered):
    X, y = data
    cluster = np.arange(150) % 30 if clustered else None
    model = KRLS(**params).fit(X, y, sample_weight=rng.integers(1, 3, 150), cluster=cluster)
    save(model, tmp_path / "model.crosslevel", allow_rows=True)
    again = load(tmp_path / "model.crosslevel")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1], rtol=1e-6)
    assert again.effects(0.9).equals(model.effects(0.9))
    for name in ("penalty_", "loo_", "r2_", "r2_ame_", "edf_", "effective_n_", "path_", "effect_names_"):
        assert getattr(again, name) == getattr(model, name)
    for name in ("fitted_", "coef_", "pointwise_effects_", "loo_curve_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    one, two = (m.pointwise_bands("age") for m in (model, again))
    np.testing.assert_allclose(one["std_error"], two["std_error"], rtol=1e-5)
    save(again, tmp_path / "again.crosslevel", allow_rows=True)
    assert load(tmp_path / "again.crosslevel").effects().equals(model.effects())


def test_a_model_too_large_for_its_eigenvectors_still_predicts(tmp_path, data, monkeypatch):
    X, y = data
    model = KRLS().fit(X, y)
    monkeypatch.setattr(models, "LARGEST", 1000)
    save(model, tmp_path / "model.crosslevel", allow_rows=True)
    again = load(tmp_path / "model.crosslevel")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.effects().equals(model.effects())
    with pytest.raises(InputError):
        again.predict(X, return_std=True)
    assert (tmp_path / "model.crosslevel").stat().st_size < 60_000


def test_a_model_whose_intervals_were_refused_can_be_saved(tmp_path, rng):
    X, y = rng.normal(size=(12, 20)), rng.normal(size=12)
    model = KRLS(penalty=0.5).fit(X, y)
    save(model, tmp_path / "model.crosslevel", allow_rows=True)
    again = load(tmp_path / "model.crosslevel")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(InputError):
        again.effects()


def test_small_penalties_keep_the_eigenvectors_that_count(tmp_path, data):
    """What is left out of a file is small beside the penalty, not beside its inverse."""
    X, y = data
    model = KRLS(penalty=1e-4).fit(X, y)
    save(model, tmp_path / "model.crosslevel", allow_rows=True)
    errors = [m.predict(X, return_std=True)[1] for m in (model, load(tmp_path / "model.crosslevel"))]
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-4)
