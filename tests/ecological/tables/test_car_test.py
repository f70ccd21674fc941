"""The test of constant rates: its size, its power, and what it cannot see."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.ecological.tables.assumptions.car_test import ALL, car_test, curvature_test


def world(rng, n=100, R=2, own=0.0, common=0.0):
    """Counts of people and of two outcomes; rates vary by unit, with slopes in the first group's share."""
    people = np.round(np.exp(rng.normal(6, 0.5, n))) + 20
    X = np.round(people[:, None] * rng.dirichlet(np.array([1.0, 2.0, 1.0, 1.0])[:R], n))
    x = X / X.sum(axis=1, keepdims=True)
    rates = np.linspace(0.7, 0.3, R) + rng.normal(0, 0.08, (n, R)) + common * (x[:, :1] - 0.33)
    rates[:, 0] += own * (x[:, 0] - 0.33)
    yes = rng.binomial(X.astype(int), np.clip(rates, 0, 1)).sum(axis=1)
    return X, np.column_stack([yes, X.sum(axis=1) - yes])


def rejections(times, seed=0, **options):
    rng = np.random.default_rng(seed)
    hits = []
    for k in range(times):
        X, T = world(rng, **options)
        N = X.sum(axis=1)
        x = X / N[:, None]
        hits.append(curvature_test(x, T / N[:, None], N, x, 199, k).p_value[0] <= 0.05)
    return np.mean(hits)


@pytest.mark.parametrize(("n", "R"), [(60, 2), (120, 4)])
def test_it_rejects_constant_rates_about_as_often_as_it_says(n, R):
    # 300 worlds: Monte Carlo standard error 0.013
    assert 0.01 <= rejections(300, n=n, R=R) <= 0.09


def test_it_sees_one_groups_slope_and_not_a_shared_one():
    assert rejections(40, own=0.6) > 0.85
    assert rejections(100, common=0.6) < 0.14


def test_an_exactly_shared_slope_is_invisible_though_the_estimate_is_wrong():
    x = np.linspace(0.05, 0.9, 40)
    X = 1000 * np.column_stack([x, 1 - x])
    rates = np.array([0.6, 0.3]) + 0.3 * (x - x.mean())[:, None]
    yes = (X * rates).sum(axis=1)
    T = np.column_stack([yes, 1000 - yes])
    assert car_test(counted(X, T))["p_value"].tolist() == [1.0] * 3
    assert abs(ecological.goodman(counted(X, T))["estimate"][0] - (X * rates).sum(axis=0)[0] / X[:, 0].sum()) > 0.1


def test_covariates_may_explain_the_curve():
    rng = np.random.default_rng(1)
    X, _ = world(rng, n=200)
    x = X / X.sum(axis=1, keepdims=True)
    z = 4 * (x[:, 0] - 0.5) ** 2 + rng.normal(0, 0.3, 200)
    yes = np.round((X * np.clip(np.array([0.6, 0.4]) + 0.2 * (z[:, None] - 0.5), 0, 1)).sum(axis=1))
    T = np.column_stack([yes, X.sum(axis=1) - yes])
    assert car_test(counted(X, T))["p_value"][0] < 0.01
    assert car_test(counted(X, T, covariates={"z": z}))["p_value"][0] > 0.05


def test_rows_names_and_units_order():
    X, T = world(np.random.default_rng(2), R=3)
    T = np.column_stack([T[:, 0], T[:, 1] - T[:, 1] // 3, T[:, 1] // 3])
    found = car_test(counted(pd.DataFrame(X, columns=list("abc")), pd.DataFrame(T, columns=["yes", "no", "none"])))
    assert found["outcome"].tolist() == ["yes", "no", "none", ALL]
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert "cannot be seen" in found.summary()
    assert ((found["p_value"] > 0) & (found["p_value"] <= 1)).all()
    again = car_test(counted(X[::-1], T[::-1]))
    np.testing.assert_allclose(again["estimate"], found["estimate"], rtol=0.15)  # other signs, other means
    np.testing.assert_allclose(again["p_value"], found["p_value"], atol=0.06)
    same = car_test(counted(X, T))
    np.testing.assert_array_equal(same["p_value"], found["p_value"])


def test_two_outcomes_say_the_same():
    X, T = world(np.random.default_rng(3), own=0.3)
    found = car_test(counted(X, T))
    assert found["p_value"][0] == found["p_value"][1] == found["p_value"][2]
    np.testing.assert_array_equal(car_test(counted(X, T), n_draws=np.int64(999))["p_value"], found["p_value"])
    equal = car_test(counted(X, T), weights="equal")
    assert equal["estimate"][0] != found["estimate"][0]


SHORT = {"n_draws": 50, "allow_unconverged": True}


def constant_rate_answers(X, T):
    """The methods whose rates do not depend on composition."""
    none = {"contextual_slope": (0.0, 0.0)}
    return {
        "goodman": ecological.goodman(counted(X, T)),
        "king": ecological.king(counted(X, T), n_draws=100),
        "king_iterated": ecological.king_iterated(counted(X, T), n_draws=100),
        "multinomial_dirichlet": ecological.multinomial_dirichlet(counted(X, T), **SHORT, **none),
    }


def refuted(found):
    return [w for w in found.warnings if "car_test" in w and "refutes" in w]


def test_answers_of_methods_with_constant_rates_say_when_these_are_refuted():
    X, T = world(np.random.default_rng(2), own=0.6)
    assert car_test(counted(X, T)).select(outcome=ALL)["p_value"][0] <= 0.005
    for name, found in constant_rate_answers(X, T).items():
        assert len(refuted(found)) == 1, name
    # with an effect of composition, or covariates, they are other assumptions
    assert not refuted(ecological.multinomial_dirichlet(counted(X, T), **SHORT))
    assert not refuted(ecological.king(counted(X, T, z=np.log(X.sum(axis=1))), means={"group_0": ["z"]}, n_draws=100))
    assert not refuted(ecological.rxc(counted(X, T)))


def test_answers_say_nothing_where_rates_are_constant_or_units_are_few():
    X, T = world(np.random.default_rng(3))
    assert not any(refuted(found) for found in constant_rate_answers(X, T).values())
    curved = np.linspace(0.1, 0.9, 5)
    groups = 1000 * np.column_stack([curved, 1 - curved])
    yes = 1000 * (0.2 + 0.6 * curved**2)
    assert not refuted(ecological.goodman(counted(groups, np.column_stack([yes, 1000 - yes]))))


@pytest.mark.data
def test_the_table_on_which_constant_rates_fail_is_refuted(real_data):
    counties = pd.read_csv(real_data / "truth" / "eco_forgnlit30c.csv")
    X, T = (10_000 * np.column_stack([counties[c], 1 - counties[c]]) for c in ("X", "Y"))
    assert refuted(ecological.goodman(counted(X, T)))
    registered = pd.read_csv(real_data / "truth" / "eco_reg.csv")
    X, T = (
        registered["N"].to_numpy()[:, None] * np.column_stack([registered[c], 1 - registered[c]]) for c in ("X", "Y")
    )
    assert not refuted(ecological.goodman(counted(X, T)))
