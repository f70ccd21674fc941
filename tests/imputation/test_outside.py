"""People far outside the fit are named."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from crosslevel.errors import CrosslevelWarning
from crosslevel.imputation import CUDIA, CrossLevelImputer


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    state = np.repeat(np.arange(30), 40)
    X = pd.DataFrame({"age": rng.integers(18, 96, 1200) + state / 3.0, "kids": rng.integers(0, 5, 1200)})
    ill = rng.random(1200) < X["age"] / 150.0
    return X, state, ill.groupby(state).mean()


@pytest.mark.parametrize("model", [CrossLevelImputer(), CUDIA(n_clusters=2)])
def test_people_far_outside_the_fit_are_named(people, model):
    X, state, means = people
    model.fit(X, state, means)
    far = X[:5].assign(age=[1000.0, 40.0, -50.0, 40.0, 40.0])
    calls = [lambda X: model.predict_proba(X)] if hasattr(model, "predict_proba") else []
    calls += [
        lambda X: model.transform(X, state[:5], match_means=False),
        lambda X: model.sample(X, state[:5], n_draws=2, match_means=False),
        lambda X: model.estimate("kids", X, state[:5]),
    ]
    for call in calls:
        with pytest.warns(CrosslevelWarning):
            call(far)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(X[:5].assign(age=[17.0, 120.0, 40.0, 40.0, 40.0]))


@pytest.mark.parametrize("model", [CrossLevelImputer(), CUDIA(n_clusters=2)])
def test_codes_of_missing_values_are_named_at_fit(people, model):
    X, state, means = people
    coded = X.assign(age=X["age"].where(X.index % 100 > 0, 999.0))
    with pytest.warns(CrosslevelWarning) as said:
        model.fit(coded, state, means)
    assert said[0].filename == __file__
    assert any("999" in sentence for sentence in model.warnings_)
