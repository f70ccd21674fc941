"""Bad input gets a sentence that names it and its repair."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.krls import KRLS, KernelLogistic

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def frame(rng):
    return pd.DataFrame({"age": rng.normal(size=30), "arm": rng.choice(["a", "b", "c"], 30)})


@pytest.fixture
def y(frame, rng):
    return frame["age"] + rng.normal(size=30)


def refuse(match, X, y, *, weight=None, cluster=None, **params):
    with pytest.raises(InputError):
        KRLS(**params).fit(X, y, sample_weight=weight, cluster=cluster)


def test_missing_values(frame, y):
    frame.loc[4, "age"] = np.nan
    refuse(r"1 row\(s\) have a missing value \(NaN\), the first is row 4 in 'age';.*missing='drop'", frame, y)
    frame.loc[2, "arm"] = None
    refuse(r"2 row\(s\).*row 2 in 'arm'", frame, y)
    refuse(r"row 1 in 'y'", frame.fillna({"age": 0.0, "arm": "a"}), y.where(y.index != 1))


def test_missing_values_in_new_rows(frame, y):
    model = KRLS().fit(frame, y)
    with pytest.raises(InputError):
        model.predict(pd.DataFrame({"age": [np.nan], "arm": ["a"]}))


def test_infinite_values(frame, y):
    frame.loc[7, "age"] = np.inf
    refuse(r"X has 1 infinite value\(s\) \(inf\), the first in row 7 of 'age'", frame, y)
    refuse(r"Input y contains infinity.*It is inf in row 0; drop", frame, np.where(np.arange(30) == 0, np.inf, y))


def test_constant_columns_and_outcomes(frame, y):
    refuse(r"1 column\(s\) have one value in all rows used \('same'\)", frame.assign(same=3.0), y)
    refuse(r"one value or class in every row used", frame, np.full(30, 2.0))
    refuse("y is too small for its squares to be held; change its unit", frame, y * 1e-160)
    refuse("y is too large for its squares", frame, y * 1e160)
    refuse("X: the column 'age' is too small", frame.assign(age=frame["age"] * 1e-200), y)
    refuse("X: the column 'age' is too large", frame.assign(age=frame["age"] * 1e200), y)
    refuse(r"the factor 'arm' has 1 level\(s\) \('a'\)", frame.assign(arm="a"), y)


def test_a_factor_whose_second_level_is_never_used(frame, y):
    refuse(r"the factor 'arm' has 1 level", frame, y, weight=(frame["arm"] == "a").astype(int))


def test_duplicated_columns_fit_and_are_told(frame, y):
    found = KRLS().fit(frame.assign(again=frame["age"]), y).effects()
    assert np.isfinite(found["std_error"]).all()
    assert any("'age', 'again' determine one another" in w for w in found.warnings)
    assert found["estimate"][0] == pytest.approx(found["estimate"][-1], rel=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_rows(n):
    refuse(rf"X has {n} usable row\(s\) \(n_samples = {n}\); a fit needs at least 3", np.eye(3)[:n], np.arange(n) * 1.0)


def test_more_columns_than_rows(rng):
    X, y = rng.normal(size=(12, 20)), rng.normal(size=12)
    model = KRLS(penalty=0.5).fit(X, y)
    assert np.isfinite(model.fitted_).all()
    with pytest.raises(InputError):
        model.effects()
    assert np.isfinite(KRLS(penalty=0.5, inference="hc3").fit(X, y).effects()["std_error"]).all()


def test_weights(frame, y):
    w = np.ones(30)
    refuse("sample_weight is zero in every row", frame, y, weight=np.zeros(30))
    refuse(
        r"sample_weight has 1 negative value\(s\) \(first in row 3",
        frame,
        y,
        weight=np.where(np.arange(30) == 3, -1, w),
    )
    refuse(
        r"sample_weight is 0.5 in row 2; counts are whole.*weights='survey'",
        frame,
        y,
        weight=np.where(np.arange(30) == 2, 0.5, w),
    )
    refuse("sample_weight has 5 values for 30 rows", frame, y, weight=np.ones(5))
    refuse(r"X has 2 usable row\(s\)", frame, y, weight=np.where(np.arange(30) < 2, 1, 0))


def test_clusters(frame, y):
    refuse("cluster has 5 labels for 30 rows", frame, y, cluster=np.arange(5))
    refuse("cluster has one label in all rows", frame, y, cluster=["a"] * 30)
    refuse(r"cluster is missing in 15 row\(s\), the first is row 1", frame, y, cluster=["a", None] * 15)
    refuse("cluster has 2 columns; pass one label", frame, y, cluster=frame)
    holes = frame.assign(age=frame["age"].where(frame.index != 0))
    labels = np.where(np.arange(30) == 3, np.nan, np.arange(30) % 4)
    refuse("the first is row 3; drop", holes, y, cluster=labels, missing="drop")  # rows are those that were given
    with pytest.raises(InputError, match="inference="):
        KRLS(inference="krls").fit(frame, y, cluster=np.arange(30) % 5).effects()


def test_names(frame, y):
    refuse(r"categorical='agee' is not a column.*Did you mean 'age'", frame, y, categorical=["agee"])
    refuse(r"categorical='arm' is one name; pass a list", frame, y, categorical="arm")
    refuse(r"reference\['arm'\]='z' is not a level; the levels are 'a', 'b', 'c'", frame, y, reference={"arm": "z"})
    refuse(r"reference names 'age', a column of numbers", frame, y, reference={"age": 1})
    refuse(r"X: 'arm: b' would name two columns.*rename", frame.assign(**{"arm: b": frame["age"] ** 2}), y)
    days = pd.to_datetime(["2020-01-01", "2021-01-01"] * 15).date
    refuse("'day'.*date", frame.assign(day=days), y, categorical=["day"])
    model = KRLS().fit({"age": frame["age"], "arm": frame["arm"]}, y)
    with pytest.raises(InputError):
        model.predict({"age": [1.0], "army": ["a"]})
    with pytest.raises(InputError):
        model.predict({"age": [1.0], "arm": ["z"]})
    with pytest.raises(InputError, match="columns="):
        model.pointwise_bands("ages")


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"rule": "lo"}, "rule='lo' is not a choice.*Did you mean 'loo'"),
        ({"inference": "debias"}, "Did you mean 'debiased'"),
        ({"method": "sparse"}, "method='sparse' is not a choice"),
        ({"weights": "count"}, "Did you mean 'counts'"),
        ({"bandwidth": "p"}, "bandwidth='p' is not a choice"),
        ({"bandwidth": 0.0}, "bandwidth=0.0 is not a positive number"),
        ({"penalty": -1.0}, "penalty=-1.0 is not a positive number"),
        ({"missing": "skip"}, "missing='skip' is not a choice"),
        ({"bandwidth": None}, "bandwidth=None is not a positive number"),
        ({"bandwidth": True}, "bandwidth=True is not a positive number"),
        ({"penalty": "auto"}, "penalty='auto' is not a positive number"),
        ({"rank": "all"}, "rank='all' is not a whole number"),
        ({"rank": 2.5}, "rank=2.5 is not a whole number"),
        ({"rank": 5}, "rank=5 has no effect"),
        ({"rank": 5, "method": "exact"}, "rank=5 has no effect"),
        ({"backend": "jax", "method": "nystrom"}, "backend='jax' has no effect"),
        ({"rule": "gcv", "penalty": 1.0}, "rule='gcv' has no effect"),
        ({"weights": "survey"}, "weights='survey' has no effect"),
        ({"random_state": -1}, "random_state=-1 is not a seed"),
        ({"random_state": 3, "method": "exact"}, "random_state=3 has no effect"),
        ({"random_state": 3, "method": "collapse"}, "random_state=3 has no effect"),
    ],
)
def test_parameters(frame, y, params, match):
    refuse(match, frame, y, **params)


def test_arguments_of_effects(frame, y):
    model = KRLS().fit(frame, y)
    with pytest.raises(InputError, match="level="):
        model.effects(level=95)
    with pytest.raises(InputError, match="target="):
        model.effects(target="world")
    with pytest.raises(InputError):
        model.pointwise_bands("age", {"age": np.zeros(4001), "arm": ["a"] * 4001}, simultaneous=True)
    with pytest.raises(InputError, match="n_draws="):
        model.pointwise_bands("age", simultaneous=True, n_draws=0)
    with pytest.raises(InputError, match="n_draws="):
        model.pointwise_bands("age", n_draws=100)


def test_clusters_as_a_frame_of_one_column(frame, y):
    labels = np.arange(30) % 7
    one, other = (KRLS(penalty=1.0).fit(frame, y, cluster=c) for c in (labels, pd.DataFrame({"household": labels})))
    np.testing.assert_array_equal(one.effects()["std_error"], other.effects()["std_error"])


def test_y_of_another_length_or_kind(frame, y):
    with pytest.raises(ValueError):
        KRLS().fit(frame, y[:29])
    refuse("y holds something that is not a number", frame, ["a"] * 30)
    refuse("X has no columns", frame[[]], y)


def shuffled(values):
    return values.sample(frac=1.0, random_state=0)


def test_a_shuffled_frame_is_matched_with_an_outcome_that_counts_its_rows(frame, y):
    expected = KRLS().fit(frame, y)
    found = KRLS().fit(shuffled(frame), y)
    order = shuffled(frame).index
    np.testing.assert_allclose(found.fitted_, expected.fitted_[order], rtol=1e-8)
    assert found.score(shuffled(frame), y) == pytest.approx(expected.score(frame, y), rel=1e-8)
    filtered = frame.set_axis(frame.index + 7, axis=0)  # other numbers than those of the rows: positions count
    np.testing.assert_array_equal(KRLS().fit(filtered, y).fitted_, expected.fitted_)
    np.testing.assert_allclose(KRLS().fit(shuffled(frame), y[order].to_numpy()).fitted_, found.fitted_, rtol=1e-8)


def test_weights_clusters_and_groups_are_matched_with_a_shuffled_frame(frame, y):
    weight, cluster = pd.Series(np.arange(30) % 4 + 1), pd.Series(np.arange(30) // 3)
    group = pd.Series(np.where(np.arange(30) < 12, "first", "last"), name="part")
    expected = KRLS(penalty=1.0).fit(frame, y, weight, cluster).effects(by=group)
    found = KRLS(penalty=1.0).fit(shuffled(frame), y, weight, cluster).effects(by=group)
    assert found["part"].tolist() == expected["part"].tolist()
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, dict])
def test_columns_of_new_rows_are_found_by_name(frame, y, kind):
    model = KRLS().fit(frame, y)
    new = frame.head(4)
    other = kind({"arm": new["arm"].tolist(), "more": [np.nan] * 4, "age": new["age"].tolist()})
    np.testing.assert_array_equal(model.predict(other), model.predict(new))
    np.testing.assert_array_equal(model.effects_at(other), model.effects_at(new))
    lacking = kind({"arm": new["arm"].tolist(), "Age": new["age"].tolist()})
    for ask in (model.predict, model.effects_at):
        with pytest.raises(InputError):
            ask(lacking)


def test_columns_without_names_are_matched_by_their_order(frame, y):
    numbers = np.column_stack([frame["age"], np.arange(30.0)])
    model = KRLS().fit(numbers, y.to_numpy())
    for new in (pd.DataFrame({"age": [0.0], "n": [1.0]}), {"age": [0.0], "n": [1.0]}):
        with pytest.raises(InputError):
            model.predict(new)
    counted = KRLS().fit(pd.DataFrame(numbers), y)
    np.testing.assert_array_equal(counted.predict(numbers), counted.predict(pd.DataFrame(numbers)))


@pytest.mark.parametrize("named", [2, "2", 2.0])
def test_the_reference_may_be_the_text_of_a_level(frame, y, named):
    coded = frame.assign(arm=np.arange(30) % 3 + 1)
    model = KRLS(categorical=["arm"], reference={"arm": named}).fit(coded, y)
    assert model.encoding_.factors == {"arm": (2, 1, 3)}
    refuse(
        r"reference\['arm'\]='4' is not a level; the levels are 1, 2, 3",
        coded,
        y,
        categorical=["arm"],
        reference={"arm": "4"},
    )


@pytest.mark.parametrize("kind", [KRLS, KernelLogistic])
def test_codes_of_missing_values_are_named_at_fit(frame, y, kind):
    coded = frame.assign(age=frame["age"].where(frame.index % 10 > 0, 99.0))
    with pytest.warns(CrosslevelWarning):
        kind().fit(coded, y > 0 if kind is KernelLogistic else y)
    with pytest.warns(CrosslevelWarning):
        KRLS().fit(frame, y.where(frame.index % 10 > 0, 99.0))


@pytest.mark.parametrize("kind", [KRLS, KernelLogistic])
def test_one_index_in_two_orders_beside_an_array_is_refused(frame, y, kind):
    X, target = frame[["age"]].to_numpy(), y > 0 if kind is KernelLogistic else y
    weight = pd.Series(np.arange(1, 31), index=y.index)
    kind().fit(X, target, sample_weight=weight)
    with pytest.raises(InputError):
        kind().fit(X, target, sample_weight=weight[::-1])
    with pytest.raises(InputError):
        kind().fit(X, target, cluster=(weight % 5)[::-1])
    found = kind().fit(frame[["age"]], target, sample_weight=weight[::-1])  # names win
    np.testing.assert_allclose(found.coef_, kind().fit(X, target, sample_weight=weight).coef_)
