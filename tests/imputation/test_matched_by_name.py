"""Statistics and rows that carry names are matched by them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.data.checks import as_numbers
from crosslevel.data.frames import to_arrow
from crosslevel.errors import InputError
from crosslevel.imputation import AddImputed, pool, pool_statistic


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
    with pytest.raises(InputError, match="std_errors"):
        pool(estimates, [pd.Series({"a": 0.1, "c": 0.1})] * 3)


def test_added_columns_keep_the_index():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"state": np.repeat(np.arange(40), 5), "age": rng.integers(1, 7, 200)})
    means = pd.DataFrame({"state": np.arange(40), "ill": rng.uniform(0.2, 0.6, 40)})
    model, shuffled = AddImputed("state", means).fit(people), people.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(model.transform(shuffled).sort_index(), model.transform(people))


def test_columns_of_a_mapping_with_one_index_in_two_orders_are_refused():
    one = pd.Series([1.0, 2.0], index=["a", "b"])
    assert to_arrow({"x": one, "y": one}, "people").num_rows == 2
    with pytest.raises(InputError, match="'y'"):
        to_arrow({"x": one, "y": one[::-1]}, "people")


def test_dates_are_no_numbers():
    with pytest.raises(InputError, match="weights"):
        as_numbers(pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])), "weights")
