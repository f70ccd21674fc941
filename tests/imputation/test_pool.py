"""Rubin's rules, fits as other libraries have them, and which columns an analysis may use."""

import types
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from tests.imputation.nouns import people_of, places_of

from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.imputation import CUDIA, CrossLevelImputer, pool
from crosslevel.imputation.rubin import rubin

SLOPES = ((0.9, 0.04), (1.1, 0.05), (1.3, 0.06))
KNOWN = ["age", "sex", "died", "ill", "state"]


def results(slope, variance, terms=("Intercept", "ill", "age"), outcome="died"):
    """What statsmodels gives back, as far as pooling reads it."""
    params = pd.Series([0.1, slope, 0.3], index=list(terms))
    model = types.SimpleNamespace(exog_names=list(terms), endog_names=outcome)
    return types.SimpleNamespace(params=params, cov_params=lambda: np.diag([0.01, variance, 0.02]), model=model)


def fits(**more):
    return [results(*one, **more) for one in SLOPES]


def test_rules_by_hand():
    Q, U = np.array([[2.0], [4.0], [3.0], [3.0]]), np.array([[1.0], [1.0], [2.0], [2.0]])
    found = rubin(Q, U)
    B = 2 / 3
    assert found.std_error[0] ** 2 == pytest.approx(1.5 + 1.25 * B)
    r = 1.25 * B / 1.5
    assert found.df[0] == pytest.approx(3 * (1 + 1 / r) ** 2)
    assert found.missing_information[0] == pytest.approx((r + 2 / (found.df[0] + 3)) / (r + 1))


def test_no_disagreement_leaves_the_complete_data_error():
    found = rubin(np.full((5, 1), 2.0), np.full((5, 1), 4.0), n_complete=10.0)
    assert found.std_error[0] == 2.0
    assert found.df[0] == pytest.approx(11 / 13 * 10)
    assert np.isinf(rubin(np.full((5, 1), 2.0), np.full((5, 1), 4.0)).df[0])


def test_intervals_cover_when_values_are_drawn_properly():
    # a normal sample with a third missing completely at random
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        seen = rng.normal(size=40)
        found = []
        for _ in range(10):
            sd = seen.std(ddof=1) * np.sqrt(39 / rng.chisquare(39))
            center = seen.mean() + sd / np.sqrt(40) * rng.normal()
            one = np.concatenate([seen, rng.normal(center, sd, 20)])
            found.append((one.mean(), one.std(ddof=1) / np.sqrt(60)))
        est = pool(found, n_complete=59)
        inside += est["conf_low"][0] <= 0 <= est["conf_high"][0]
    assert inside / 300 == pytest.approx(0.95, abs=0.035)


def test_statistics_are_matched_by_name():
    estimates = [pd.Series({"a": 1.0, "b": 5.0}), pd.Series({"b": 5.1, "a": 1.1}), pd.Series({"a": 0.9, "b": 4.9})]
    found = pool([(one, pd.Series({"b": 2.0, "a": 0.1})) for one in estimates])
    assert found["statistic"].tolist() == ["a", "b"]
    np.testing.assert_allclose(found["estimate"], [1.0, 5.0])
    assert found["std_error"][0] < 0.3 < found["std_error"][1]
    turned = fits()
    order = [2, 0, 1]
    turned[1].params = turned[1].params.iloc[order]
    turned[1].cov_params = lambda: np.diag(np.array([0.01, SLOPES[1][1], 0.02])[order])
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(pool(turned, KNOWN)[name], pool(fits(), KNOWN)[name])


def test_results_of_statsmodels_are_pooled_by_the_rules():
    found = pool(fits(), KNOWN)
    expected = rubin(np.array([[0.1, s, 0.3] for s, _ in SLOPES]), np.array([[0.01, v, 0.02] for _, v in SLOPES]))
    assert found["statistic"].tolist() == ["Intercept", "ill", "age"]
    np.testing.assert_allclose(found["std_error"], expected.std_error)
    assert not found.warnings


def test_scikit_learn_estimators_come_with_errors():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"ill": rng.random(50), "age": rng.random(50)})
    models = [LinearRegression().fit(X, rng.random(50)) for _ in range(3)]
    found = pool([(fit, np.eye(3)) for fit in models], KNOWN, outcome="died")
    assert found["statistic"].tolist() == ["Intercept", "ill", "age"]
    assert found["estimate"][1] == pytest.approx(np.mean([fit.coef_[0] for fit in models]))
    for errors in (np.eye(2), np.ones(2)):
        assert pool([(fit, errors) for fit in models], KNOWN, outcome="died")["statistic"].tolist() == ["ill", "age"]


@pytest.mark.parametrize("term", ["bmi", "np.log(bmi)", "C(bmi)[T.2]", "ill:bmi", "bmi_2", "Q('bmi')", "I(age * bmi)"])
def test_a_column_the_imputer_never_saw_is_refused(term):
    with pytest.raises(InputError):
        pool(fits(terms=("Intercept", "ill", term)), KNOWN)


@pytest.mark.parametrize(
    "term", ["sex_2", "np.log(age)", "C(sex)[T.bmi]", "state[T.x]", "I(age ** 2)", "const", "C(age)"]
)
def test_terms_of_columns_it_saw_are_not(term):
    assert not pool(fits(terms=("Intercept", "ill", term)), KNOWN).warnings


@pytest.mark.parametrize("term", ["ill:age", "I(age * ill)", "C(sex)[T.2]:ill"])
def test_interactions_are_warned_of_unless_they_are_columns(term):
    with pytest.warns(CrosslevelWarning):
        pool(fits(terms=("Intercept", "ill", term)), KNOWN)
    assert not pool(fits(terms=("Intercept", "ill", term)), [*KNOWN, term]).warnings


def test_an_outcome_the_imputer_never_saw_is_refused():
    with pytest.raises(InputError):
        pool(fits(outcome="heart"), KNOWN)
    with pytest.warns(CrosslevelWarning):
        found = pool(fits(outcome="heart"), KNOWN, allow_unseen=True)
    assert "'heart'" in found.warnings[0]


def test_names_of_the_call_stand_for_those_of_plain_arrays():
    plain = fits(terms=("const", "x1", "x2"), outcome="y")
    with pytest.raises(InputError):
        pool(plain, KNOWN, outcome="died")
    found = pool(plain, KNOWN, outcome="died", names=["Intercept", "ill", "age"])
    assert found["statistic"].tolist() == ["Intercept", "ill", "age"]


def test_what_was_not_compared_is_said():
    pairs = [(np.array([0.1, s]), np.diag([0.01, v])) for s, v in SLOPES]
    for more in ({}, {"names": ["Intercept", "ill"], "imputer": KNOWN}):
        with pytest.warns(CrosslevelWarning):
            pool(pairs, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool([(s, 0.2) for s, _ in SLOPES])


@pytest.mark.parametrize("cls", [CrossLevelImputer, lambda: CUDIA(2, method="two_stage", n_restarts=1)])
@pytest.mark.filterwarnings("ignore:'ill'")
def test_a_fitted_imputer_knows_its_columns(cls):
    rng = np.random.default_rng(1)
    people = people_of({"age": rng.integers(0, 3, 200), "sex": rng.choice(["f", "m"], 200)}, np.arange(200) // 20)
    imputer = cls().fit(people, places_of(rng.uniform(0.2, 0.6, 10)))
    assert len(pool(fits(outcome="sex"), imputer)) == 3
    with pytest.raises(InputError):
        pool(fits(), imputer)


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ([1.0, 2.0], {}),
        ([(1.0, 1.0)], {}),
        ([], {}),
        ([([1.0, 2.0], np.eye(3))] * 2, {}),
        ([([1.0], [[-1.0]])] * 2, {}),
        ([(1.0, 1.0), (2.0, -1.0)], {}),
        ([(1.0, 1.0), (np.nan, 1.0)], {}),
        ([(1.0, 1.0), ([1.0, 2.0], [1.0, 1.0])], {}),
        ([(1.0, 1.0), (2.0, 1.0)], {"names": ["a", "b"]}),
        ([(1.0, 1.0), (2.0, 1.0)], {"outcome": "a"}),
        ([(1.0, 1.0), (2.0, 1.0)], {"imputer": "age"}),
        ([(pd.Series({"a": 1.0}), pd.Series({"c": 1.0}))] * 2, {}),
        ([results(1.0, 0.1), results(1.0, 0.1, terms=("Intercept", "ill", "sex"))], {"imputer": KNOWN}),
        ([LinearRegression()] * 2, {"imputer": KNOWN}),
    ],
)
def test_what_cannot_be_pooled(given, more):
    with pytest.raises(InputError):
        pool(given, **more)
