"""Statistics and rows that carry names are matched by them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.data.checks import as_numbers
from crosslevel.data.frames import to_arrow
from crosslevel.errors import InputError
from crosslevel.imputation import (
    CrossLevelImputer,
    evaluate,
    pool,
    pool_statistic,
)


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    index, state = [f"p{i}" for i in range(1200)], np.repeat([f"s{i:02d}" for i in range(30)], 40)
    age, ill = rng.integers(1, 7, 1200), rng.random(1200)
    frame = pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], 1200), "state": state}, index=index)
    return frame.assign(ill=(ill < 0.1 * age).astype(int), weight=rng.integers(1, 9, 1200).astype(float))


def test_pooled_statistics_are_matched_by_name():
    estimates = [pd.Series({"a": 1.0, "b": 5.0}), pd.Series({"b": 5.1, "a": 1.1}), pd.Series({"a": 0.9, "b": 4.9})]
    errors = [pd.Series({"b": 2.0, "a": 0.1})] * 3
    found = pool(estimates, errors)
    assert found["statistic"].tolist() == ["a", "b"]
    np.testing.assert_allclose(found["estimate"], [1.0, 5.0])
    assert found["std_error"][0] < 0.3 < found["std_error"][1]
    frames = pool(pd.DataFrame(estimates), pd.DataFrame(errors)[["b", "a"]])
    np.testing.assert_allclose(frames["std_error"], found["std_error"])
    steps = iter(zip(estimates, errors, strict=True))
    np.testing.assert_allclose(pool_statistic(np.zeros((3, 2, 1)), lambda _: next(steps))["estimate"], [1.0, 5.0])
    with pytest.raises(InputError):
        pool(estimates, [pd.Series({"a": 0.1, "c": 0.1})] * 3)


def test_columns_of_a_mapping_with_one_index_in_two_orders_are_refused():
    one = pd.Series([1.0, 2.0], index=["a", "b"])
    assert to_arrow({"x": one, "y": one}, "people").num_rows == 2
    with pytest.raises(InputError):
        to_arrow({"x": one, "y": one[::-1]}, "people")


def test_dates_are_no_numbers():
    with pytest.raises(InputError):
        as_numbers(pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])), "weights")


def test_imputed_values_to_score_are_matched(people):
    X, state, ill = people[["age", "sex"]], people["state"], people["ill"]
    imputed = pd.Series(0.1 + 0.1 * people["age"], index=people.index)
    other = imputed.sample(frac=1.0, random_state=0)
    want, found = (evaluate(X, state, ill, {"m": v})["estimate"] for v in (imputed.to_numpy(), other))
    np.testing.assert_array_equal(found, want)


def test_imputers_to_score_match_weighted_means(people):
    X, state, weight = people[["age", "sex"]], people["state"], people["weight"]
    means = (people["ill"] * weight).groupby(state).sum() / weight.groupby(state).sum()
    model = CrossLevelImputer().fit(X, state, means, weight)
    by_hand = model.transform(X, state, sample_weight=weight)
    table = evaluate(X, state, people["ill"], {"model": model, "values": by_hand}, sample_weight=weight)
    assert table["estimate"][-2] == table["estimate"][-1]
