import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.errors import InputError
from crosslevel.imputation.inputs import read_fit, read_grouped, read_people, read_range

X = {"age": [1, 2, 3, 4, 5, 6], "sex": ["m", "f", "m", "f", "m", "f"]}
PLACE = ["b", "b", "a", "a", "c", "c"]
MEANS = {"partition": ["c", "a", "b"], "ill": [0.3, 0.1, 0.2]}


def test_means_are_matched_by_name_and_factors_are_coded():
    given = read_fit(X, PLACE, MEANS)
    np.testing.assert_array_equal(given.published[0].mean, [0.1, 0.2, 0.3])
    assert given.schema.partitions[0].labels == ("a", "b", "c")
    np.testing.assert_array_equal(given.people.group[:, 0], [1, 1, 0, 0, 2, 2])
    np.testing.assert_array_equal(given.people.X[:, 1], [1, 0, 1, 0, 1, 0])
    assert given.schema.columns[1].labels == ("f", "m")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_kind_of_frame_does_not_matter(make):
    plain, other = read_fit(X, PLACE, MEANS), read_fit(make(X), make({"place": PLACE}), make({**MEANS}))
    np.testing.assert_array_equal(plain.people.X, other.people.X)
    np.testing.assert_array_equal(plain.published[0].mean, other.published[0].mean)
    assert other.schema.partitions[0].name == "place"


def test_a_named_series_and_a_column_of_x_name_the_partition():
    by_series = read_fit(
        pd.DataFrame(X), pd.Series(PLACE, name="place"), {"place": ["a", "b", "c"], "ill": [0.1, 0.2, 0.3]}
    )
    assert by_series.schema.partitions[0].name == "place"
    inside = read_fit({**X, "place": PLACE}, "place", {"place": ["a", "b", "c"], "ill": [0.1, 0.2, 0.3]})
    assert inside.schema.names == ("age", "sex")
    again = read_people({**X, "place": PLACE}, None, inside.schema)
    np.testing.assert_array_equal(again.group, by_series.people.group)


def test_arrays_are_in_sorted_order_of_the_labels():
    given = read_fit(X, PLACE, np.array([[0.1, 5.0], [0.2, 6.0], [0.3, 7.0]]))
    assert given.hidden == ("hidden0", "hidden1")
    np.testing.assert_array_equal(given.published[1].mean, [5.0, 6.0, 7.0])


def test_several_partitions_each_of_features_of_its_own():
    labels = {"state": PLACE, "division": [1, 1, 1, 1, 2, 2]}
    means = {
        "state": {"state": ["a", "b", "c"], "ill": [0.1, 0.2, 0.3]},
        "division": {"division": [2, 1], "old": [0.5, 0.4]},
    }
    given = read_fit(X, labels, means)
    assert [(p.name, p.partition) for p in given.published] == [("ill", 0), ("old", 1)]
    np.testing.assert_array_equal(given.published[1].mean, [0.4, 0.5])
    assert given.hidden == ("ill", "old")
    with pytest.raises(InputError):
        read_fit(X, labels, means | {"division": {"division": [2, 1], "ill": [0.3, 0.15]}})
    with pytest.raises(InputError):
        read_fit(X, labels, MEANS)


def test_standard_errors_follow_the_means():
    given = read_fit(X, PLACE, MEANS, aggregate_se={"partition": ["a", "b", "c"], "ill": [0.01, None, 0.03]})
    np.testing.assert_array_equal(given.published[0].se, [0.01, np.nan, 0.03])


def test_missing_x_is_allowed_on_demand_and_a_missing_mean_always():
    gaps = {"age": [1, None, 3, 4, 5, 6], "sex": ["m", "f", None, "f", "m", "f"]}
    with pytest.raises(InputError):
        read_fit(gaps, PLACE, MEANS)
    given = read_fit(gaps, PLACE, {"partition": ["a", "b", "c"], "ill": [0.1, None, 0.2]}, allow_missing=True)
    assert np.isnan(given.people.X).sum() == 2
    assert np.isnan(given.published[0].mean).tolist() == [False, True, False]


def test_partitions_without_people_are_left_out_and_said():
    given = read_fit(X, PLACE, {"partition": ["a", "b", "c", "z"], "ill": [0.1, 0.2, 0.3, 0.9]})
    assert len(given.published[0].mean) == 3
    assert "1 group(s) without people, 'z'" in given.warnings[0]


@pytest.mark.parametrize(
    "change",
    [
        {"aggregates": {"partition": ["a", "b"], "ill": [0.1, 0.2]}},
        {"aggregates": {"partition": [1, 2, 3], "ill": [0.1, 0.2, 0.3]}},
        {"aggregates": {"partition": ["a", "a", "b", "c"], "ill": [0.1] * 4}},
        {"aggregates": {"partition": ["a", "b", "c"]}},
        {"aggregates": [0.1, 0.2]},
        {"aggregates": None},
        {"aggregates": {"partition": ["a", "b", "c"], "ill": [0.1, None, None]}},
        {"aggregates": {"partition": ["a", "b", "c"], "ill": [0.1, np.inf, 0.2]}},
        {"aggregates": {"partition": ["a", "b", "c"], "age": [0.1, 0.2, 0.3]}},
        {"aggregates": pd.Series([0.1, 0.2], index=["a", "b"])},
        {"partition": ["a"] * 6},
        {"partition": None},
        {"partition": ["a", "b"]},
        {"partition": ["a", None, "b", "b", "c", "c"]},
        {"partition": "plaec", "X": {**X, "place": PLACE}},
        {"X": {**X, "age": [1] * 6}},
        {"X": {**X, "age": [1, 2, 3, 4, 5, np.inf]}},
        {"X": {"age": []}},
        {"X": {**X, "age": [None] * 6}, "allow_missing": True},
        {"X": np.zeros(6)},
        {"sample_weight": [1, 1, 1]},
        {"sample_weight": [1, 1, 1, 1, 0, 0]},
        {"sample_weight": [1, 1, 1, 1, -1, 0]},
        {"aggregate_se": {"partition": ["a", "b", "c"], "sick": [0.1] * 3}},
        {"aggregate_se": [-0.1, 0.1, 0.1]},
        {"aggregate_se": {"partition": ["a", "b", "c"], "ill": [-0.1, 0.1, 0.1]}},
        {"categorical": ["sexx"]},
    ],
)
def test_bad_input_gets_a_sentence(change):
    given = {"X": X, "partition": PLACE, "aggregates": MEANS} | change
    with pytest.raises(InputError):
        read_fit(given.pop("X"), given.pop("partition"), given.pop("aggregates"), **given)


def test_a_frame_indexed_by_group_is_told_to_reset_its_index():
    means = pd.DataFrame({"ill": [0.1, 0.2, 0.3]}, index=pd.Index(["a", "b", "c"], name="place"))
    with pytest.raises(InputError):
        read_fit(X, pd.Series(PLACE, name="place"), means)


@pytest.mark.parametrize(
    "change",
    [
        {"partition": ["z"]},
        {"X": {"age": [1], "sex": ["x"]}},
        {"X": {"age": [1]}},
        {"X": np.ones((1, 3))},
        {"partition": {"a": ["a"], "b": ["b"]}},
    ],
)
def test_people_unlike_those_of_the_fit(change):
    schema = read_fit(X, PLACE, MEANS).schema
    given = {"X": {"age": [1], "sex": ["m"]}, "partition": ["a"]} | change
    with pytest.raises(InputError):
        read_people(given["X"], given["partition"], schema)


def test_means_that_cannot_be():
    given = read_fit(X, PLACE, {"partition": ["a", "b", "c"], "ill": [10.0, 20.0, 30.0]})
    with pytest.raises(InputError):
        read_range(given, given.published[0])


def test_grouped_people_need_no_means():
    assert read_grouped(X, PLACE).published == ()


@pytest.mark.parametrize("weight", [1e-300, 1e-160, 1e160, 1e300])
def test_weights_whose_squares_are_no_numbers_are_refused(weight):
    """Weights of 1e-160 for everybody gave other imputations than weights of one."""
    with pytest.raises(InputError):
        read_fit(X, PLACE, MEANS, [weight] * 6)
    assert read_fit(X, PLACE, MEANS, [1e-90, 1e90, 1, 1, 0, 1]).people.weight is not None


@pytest.mark.parametrize("weight", ["w", pd.DataFrame({"w": np.ones(6)})])
def test_weights_that_are_a_name_or_a_frame_are_named(weight):
    with pytest.raises(InputError):
        read_fit(X, PLACE, MEANS, weight)


def test_one_index_in_two_orders_beside_an_array_is_refused():
    ages, place, weight = np.array([X["age"]]).T, pd.Series(PLACE), pd.Series(np.arange(1.0, 7.0))
    np.testing.assert_array_equal(read_fit(ages, place, MEANS, weight).people.weight, weight)
    with pytest.raises(InputError):
        read_fit(ages, place, MEANS, weight[::-1])
