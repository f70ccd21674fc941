"""What is refused, what is told, and how rows, columns and levels are matched."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import r2_score

from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.krls import KRLS

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
ROWS = np.arange(30)
DAYS = np.datetime64("2020-01-01", "ns") + ROWS.astype("m8[D]")


@pytest.fixture
def frame(rng):
    return pd.DataFrame({"age": rng.normal(size=30), "arm": rng.choice(["a", "b", "c"], 30)})


@pytest.fixture
def y(frame, rng):
    return frame["age"] + rng.normal(size=30)


REFUSED = {
    "a missing value": lambda X, y: {"X": X.assign(age=X["age"].where(ROWS != 4))},
    "a missing level": lambda X, y: {"X": X.assign(arm=X["arm"].where(ROWS != 2))},
    "a missing outcome": lambda X, y: {"y": y.where(ROWS != 1)},
    "an infinite value": lambda X, y: {"X": X.assign(age=X["age"].where(ROWS != 7, np.inf))},
    "an infinite outcome": lambda X, y: {"y": np.where(ROWS == 0, np.inf, y)},
    "a constant column": lambda X, y: {"X": X.assign(same=3.0)},
    "a constant outcome": lambda X, y: {"y": np.full(30, 2.0)},
    "an outcome too small": lambda X, y: {"y": y * 1e-160},
    "an outcome too large": lambda X, y: {"y": y * 1e160},
    "a column too small": lambda X, y: {"X": X.assign(age=X["age"] * 1e-200)},
    "a factor of one level": lambda X, y: {"X": X.assign(arm="a")},
    "a level without weight": lambda X, y: {"sample_weight": X["arm"] == "a"},
    "two rows": lambda X, y: {"X": X[:2], "y": y[:2]},
    "two rows of weight": lambda X, y: {"sample_weight": ROWS < 2},
    "no weight": lambda X, y: {"sample_weight": np.zeros(30)},
    "a negative weight": lambda X, y: {"sample_weight": np.where(ROWS == 3, -1, 1)},
    "five weights": lambda X, y: {"sample_weight": np.ones(5)},
    "dates as weights": lambda X, y: {"sample_weight": DAYS},
    "dates as outcome": lambda X, y: {"y": DAYS},
    "spans as outcome": lambda X, y: {"y": DAYS - DAYS[0]},
    "masked dates": lambda X, y: {"y": np.ma.array(DAYS, mask=ROWS < 2), "missing": "drop"},
    "dates as covariate": lambda X, y: {"X": DAYS[:, None]},
    "days as a factor": lambda X, y: {"X": X.assign(day=pd.to_datetime(DAYS).date), "categorical": ["day"]},
    "text as outcome": lambda X, y: {"y": ["a"] * 30},
    "another length": lambda X, y: {"y": y[:29]},
    "no columns": lambda X, y: {"X": X[[]]},
    "five clusters": lambda X, y: {"cluster": np.arange(5)},
    "one cluster": lambda X, y: {"cluster": ["a"] * 30},
    "a missing cluster": lambda X, y: {"cluster": ["a", None] * 15},
    "two columns of clusters": lambda X, y: {"cluster": X},
    "another name": lambda X, y: {"categorical": ["agee"]},
    "a name for a list": lambda X, y: {"categorical": "arm"},
    "another level": lambda X, y: {"reference": {"arm": "z"}},
    "a level of a number": lambda X, y: {"reference": {"age": 1}},
    "a name twice": lambda X, y: {"X": X.assign(**{"arm: b": X["age"] ** 2})},
    **{
        f"{name}={value!r}": lambda X, y, name=name, value=value: {name: value}
        for name, values in {
            "rule": ("gcv",),
            "inference": ("debias",),
            "method": ("collapse",),
            "missing": ("skip",),
            "bandwidth": ("p", 0.0, None, True, 1e13),
            "penalty": (-1.0, "auto", 1e-30),
            "rank": ("all", 2.5, 5),
            "random_state": (-1,),
        }.items()
        for value in values
    },
    "an idle rank": lambda X, y: {"rank": 5, "method": "exact"},
    "an idle backend": lambda X, y: {"backend": "jax", "method": "nystrom"},
    "an idle rule": lambda X, y: {"rule": "krls", "penalty": 1.0},
    "an idle seed": lambda X, y: {"random_state": 3, "method": "exact"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(frame, y, what):
    given = {"X": frame, "y": y} | REFUSED[what](frame, y)
    told = {name: given.pop(name) for name in ("X", "y", "sample_weight", "cluster") if name in given}
    with pytest.raises(ValueError):  # InputError, or scikit-learn's own where lengths differ
        KRLS(**given).fit(**told)


def test_questions_that_are_refused(frame, y):
    model = KRLS().fit(frame, y)
    for ask in (
        lambda: model.predict({"age": [np.nan], "arm": ["a"]}),
        lambda: model.predict({"age": [1.0], "army": ["a"]}),
        lambda: model.predict({"age": [1.0], "arm": ["z"]}),
        lambda: model.pointwise_bands("ages"),
        lambda: model.effects(level=95),
        lambda: model.effects(target="world"),
        lambda: model.score(frame, DAYS),
        lambda: KRLS(inference="krls").fit(frame, y, cluster=ROWS % 5).effects(),
    ):
        with pytest.raises(InputError):
            ask()


def test_duplicated_columns_fit_and_are_told(frame, y):
    found = KRLS().fit(frame.assign(again=frame["age"]), y).effects()
    assert np.isfinite(found["std_error"]).all()
    assert any("'age', 'again' determine one another" in w for w in found.warnings)
    assert found["estimate"][0] == pytest.approx(found["estimate"][-1], rel=1e-6)


def test_more_columns_than_rows(rng):
    X, y = rng.normal(size=(12, 20)), rng.normal(size=12)
    model = KRLS(penalty=0.5).fit(X, y)
    assert np.isfinite(model.fitted_).all()
    with pytest.raises(InputError):
        model.effects()
    assert np.isfinite(KRLS(penalty=0.5, inference="hc3").fit(X, y).effects()["std_error"]).all()


def shuffled(values):
    return values.sample(frac=1.0, random_state=0)


def test_what_has_the_index_of_a_shuffled_frame_is_matched_with_it(frame, y):
    expected = KRLS().fit(frame, y)
    found = KRLS().fit(shuffled(frame), y)
    order = shuffled(frame).index
    np.testing.assert_allclose(found.fitted_, expected.fitted_[order], rtol=1e-8)
    assert found.score(shuffled(frame), y) == pytest.approx(expected.score(frame, y), rel=1e-8)
    filtered = frame.set_axis(frame.index + 7, axis=0)  # other numbers than those of the rows: positions count
    np.testing.assert_array_equal(KRLS().fit(filtered, y).fitted_, expected.fitted_)
    weight, cluster = pd.Series(ROWS % 4 + 1), pd.Series(ROWS // 3)
    group = pd.Series(np.where(ROWS < 12, "first", "last"), name="part")
    one, two = (KRLS(penalty=1.0).fit(X, y, weight, cluster).effects(by=group) for X in (frame, shuffled(frame)))
    assert one["part"].tolist() == two["part"].tolist()
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-6)


def test_one_index_in_two_orders_beside_an_array_is_refused(frame, y):
    X, weight = frame[["age"]].to_numpy(), pd.Series(np.arange(1, 31), index=y.index)
    for given in ({"sample_weight": weight[::-1]}, {"cluster": (weight % 5)[::-1]}):
        with pytest.raises(InputError):
            KRLS().fit(X, y, **given)
    found = KRLS().fit(frame[["age"]], y, sample_weight=weight[::-1])  # names win
    np.testing.assert_allclose(found.coef_, KRLS().fit(X, y, sample_weight=weight).coef_)


@pytest.mark.parametrize("kind", [pl.DataFrame, dict])
def test_columns_of_new_rows_are_found_by_name(frame, y, kind):
    model = KRLS().fit(frame, y)
    new = frame.head(4)
    other = kind({"arm": new["arm"].tolist(), "more": [np.nan] * 4, "age": new["age"].tolist()})
    np.testing.assert_array_equal(model.predict(other), model.predict(new))
    np.testing.assert_array_equal(model.effects_at(other), model.effects_at(new))
    for ask in (model.predict, model.effects_at):
        with pytest.raises(InputError):
            ask(kind({"arm": new["arm"].tolist(), "Age": new["age"].tolist()}))


def test_columns_without_names_are_matched_by_their_order(frame, y):
    numbers = np.column_stack([frame["age"], np.arange(30.0)])
    with pytest.raises(InputError):
        KRLS().fit(numbers, y.to_numpy()).predict(pd.DataFrame({"age": [0.0], "n": [1.0]}))
    counted = KRLS().fit(pd.DataFrame(numbers), y)
    np.testing.assert_array_equal(counted.predict(numbers), counted.predict(pd.DataFrame(numbers)))


@pytest.mark.parametrize("named", [2, "2"])
def test_the_reference_may_be_the_text_of_a_level(frame, y, named):
    model = KRLS(categorical=["arm"], reference={"arm": named}).fit(frame.assign(arm=ROWS % 3 + 1), y)
    assert model.encoding_.factors == {"arm": (2, 1, 3)}


def test_codes_of_missing_values_and_rows_far_from_the_fit_are_told(frame, y):
    with pytest.warns(CrosslevelWarning):
        KRLS().fit(frame.assign(age=frame["age"].where(ROWS % 10 > 0, 99.0)), y)
    with pytest.warns(CrosslevelWarning):
        KRLS().fit(frame, y).predict(frame.assign(age=np.where(ROWS == 2, 999, frame["age"])))


def test_rows_left_out_are_not_scored(rng):
    X = rng.normal(size=(40, 2))
    y, weight = X[:, 0] + 0.3 * rng.normal(size=40), np.arange(1.0, 41.0)
    strict = KRLS().fit(X, y)
    X[3, 0] = y[7] = np.nan
    model, kept = KRLS(missing="drop").fit(X, y), np.delete(np.arange(40), [3, 7])
    want = r2_score(y[kept], model.predict(X)[kept], sample_weight=weight[kept])
    assert model.score(X, y, sample_weight=weight) == pytest.approx(want)
    for ask in (lambda: strict.score(X, y), lambda: model.score(np.full((40, 2), np.nan), y)):
        with pytest.raises(InputError):
            ask()
    assert KRLS().fit(pa.table({"a": X[kept, 0]}), pa.array(y[kept])).r2_ > 0.5
