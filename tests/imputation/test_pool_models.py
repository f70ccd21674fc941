"""Pooling fitted models: what the analysis uses is compared with what the imputer saw."""

import types
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.imputation import CUDIA, CrossLevelImputer, pool, pool_statistic
from crosslevel.imputation.rubin import rubin

SLOPES = ((0.9, 0.04), (1.1, 0.05), (1.3, 0.06))
KNOWN = ["age", "sex", "died", "ill", "state"]


def results(slope, variance, terms=("Intercept", "ill", "age"), outcome="died"):
    """What statsmodels gives back, as far as pooling reads it."""
    params = pd.Series([0.1, slope, 0.3], index=list(terms))
    model = types.SimpleNamespace(exog_names=list(terms), endog_names=outcome)
    return types.SimpleNamespace(params=params, cov_params=lambda: np.diag([0.01, variance, 0.02]), model=model)


def test_results_of_statsmodels_are_pooled_by_name():
    found = pool([results(*one) for one in SLOPES], imputer=KNOWN)
    Q, U = np.array([[0.1, s, 0.3] for s, _ in SLOPES]), np.array([[0.01, v, 0.02] for _, v in SLOPES])
    expected = rubin(Q, U)
    assert found["statistic"].tolist() == ["Intercept", "ill", "age"]
    np.testing.assert_allclose(found["std_error"], expected.std_error)
    assert not found.warnings


def test_scikit_learn_estimators_come_with_a_covariance():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"ill": rng.random(50), "age": rng.random(50)})
    fits = [LinearRegression().fit(X, rng.random(50)) for _ in range(3)]
    found = pool([(fit, np.eye(3)) for fit in fits], imputer=KNOWN, outcome="died")
    assert found["statistic"].tolist() == ["Intercept", "ill", "age"]
    assert found["estimate"][1] == pytest.approx(np.mean([fit.coef_[0] for fit in fits]))
    slopes = pool([(fit, np.eye(2)) for fit in fits], imputer=KNOWN, outcome="died")
    assert slopes["statistic"].tolist() == ["ill", "age"]
    with pytest.raises(InputError):
        pool(fits, imputer=KNOWN)


@pytest.mark.parametrize("term", ["bmi", "np.log(bmi)", "C(bmi)[T.2]", "ill:bmi", "bmi_2", "Q('bmi')", "I(age * bmi)"])
def test_a_column_the_imputer_never_saw_is_refused(term):
    with pytest.raises(InputError):
        pool([results(*one, terms=("Intercept", "ill", term)) for one in SLOPES], imputer=KNOWN)


@pytest.mark.parametrize(
    "term", ["sex_2", "np.log(age)", "C(sex)[T.bmi]", "ill:age", "state[T.x]", "I(age ** 2)", "const"]
)
def test_terms_of_columns_it_saw_are_not(term):
    assert len(pool([results(*one, terms=("Intercept", "ill", term)) for one in SLOPES], imputer=KNOWN)) == 3


def test_models_of_plain_arrays_take_their_names_from_the_call():
    fits = [results(*one, terms=("const", "x1", "x2"), outcome="y") for one in SLOPES]
    with pytest.raises(InputError):
        pool(fits, imputer=KNOWN, outcome="died")
    found = pool(fits, imputer=KNOWN, outcome="died", names=["Intercept", "ill", "age"])
    assert found["statistic"].tolist() == ["Intercept", "ill", "age"]


def test_an_outcome_the_imputer_never_saw_is_refused():
    with pytest.raises(InputError):
        pool([results(*one, outcome="heart") for one in SLOPES], imputer=KNOWN)
    with pytest.warns(CrosslevelWarning):
        found = pool([results(*one, outcome="heart") for one in SLOPES], imputer=KNOWN, allow_unseen=True)
    assert "'heart'" in found.warnings[0]


def test_what_was_not_compared_is_said():
    pairs = [(np.array([0.1, s]), np.diag([0.01, v])) for s, v in SLOPES]
    with pytest.warns(CrosslevelWarning):
        pool(pairs)
    with pytest.warns(CrosslevelWarning):
        pool(pairs, names=["Intercept", "ill"], imputer=KNOWN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool([s for s, _ in SLOPES], [0.2] * 3)


@pytest.mark.parametrize("cls", [CrossLevelImputer, lambda: CUDIA(2, method="two_stage", n_restarts=1)])
@pytest.mark.filterwarnings("ignore:'ill'")
def test_a_fitted_imputer_knows_its_columns(cls):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"age": rng.integers(0, 3, 200), "sex": rng.choice(["f", "m"], 200)})
    state = pd.Series(np.repeat(list("abcdefghij"), 20), name="state")
    imputer = cls().fit(X, state, {"state": list("abcdefghij"), "ill": rng.uniform(0.2, 0.6, 10)})
    fits = [results(*one, outcome="sex") for one in SLOPES]
    assert len(pool(fits, imputer=imputer)) == 3
    with pytest.raises(InputError):
        pool([results(*one) for one in SLOPES], imputer=imputer)


def test_a_statistic_may_be_a_model():
    draws = np.random.default_rng(0).normal(1.0, 1.0, (4, 50, 1))
    found = pool_statistic(draws, lambda u: results(u.mean(), 0.02), imputer=KNOWN)
    assert found["estimate"][1] == pytest.approx(draws.mean(axis=(1, 2)).mean())
    pairs = pool_statistic(draws, lambda u: ([u.mean()], [[0.02]]), names=["ill"], imputer=KNOWN, outcome="died")
    assert pairs["std_error"][0] == pytest.approx(found["std_error"][1])


@pytest.mark.parametrize(
    "models",
    [
        [1.0, 2.0],
        [([1.0, 2.0], np.eye(3))] * 2,
        [([1.0], [[-1.0]])] * 2,
        [results(1.0, 0.1), results(1.0, 0.1, terms=("Intercept", "ill", "sex"))],
    ],
)
def test_bad_models(models):
    with pytest.raises(InputError):
        pool(models, imputer=KNOWN)


def test_an_imputer_is_fitted_or_names():
    with pytest.raises(InputError, match="imputer="):
        pool([1.0, 2.0], [1.0, 1.0], imputer="age")
