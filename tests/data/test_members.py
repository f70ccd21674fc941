"""Columns of text, codes and missing values of the people in bags, and their way into predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import crosslevel as cl
from crosslevel.errors import InputError


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    town = np.repeat(np.arange(n // 10), 10)
    center = rng.normal(size=n // 10)
    age = rng.normal(center[town], 1.0)
    sex = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-center[town])), "f", "m")
    frame = pd.DataFrame({"town": town, "age": age, "sex": sex, "code": rng.integers(1, 4, n)})
    return frame, center + 0.1 * rng.normal(size=n // 10)


def test_text_is_a_column_for_each_level():
    frame, _ = people(30)
    bags = cl.Bags.from_frame(frame, by="town")
    assert bags.columns == ("age", "sex: f", "sex: m", "code")
    np.testing.assert_array_equal(bags.values[:, 1], (frame["sex"] == "f").astype(float))
    assert (bags.values[:, 1] + bags.values[:, 2] == 1).all()
    codes = cl.Bags.from_frame(frame, by="town", categorical=["code"])
    assert codes.columns[-3:] == ("code: 1", "code: 2", "code: 3")
    same = cl.Bags.from_frame(pl.from_pandas(frame), by="town")
    assert same == bags
    category = frame.assign(sex=frame["sex"].astype("category"), yes=frame["age"] > 0)
    assert cl.Bags.from_frame(category, by="town").columns[-2:] == ("yes: False", "yes: True")


def test_missing_values_are_refused_dropped_or_indicated():
    frame = pd.DataFrame({"town": [1, 1, 2, 2], "age": [30.0, None, 50.0, 70.0], "sex": ["f", "m", None, "m"]})
    with pytest.raises(InputError):
        cl.Bags.from_frame(frame, by="town")
    with pytest.raises(InputError):
        cl.Bags.from_frame(frame, by="town", columns=["sex"])
    dropped = cl.Bags.from_frame(frame, by="town", missing="drop")
    assert dropped.sizes.tolist() == [1, 1]
    marked = cl.Bags.from_frame(frame, by="town", missing="indicate")
    assert marked.columns == ("age", "age: missing", "sex: f", "sex: m", "sex: missing")
    assert marked.values.tolist() == [
        [30, 0, 1, 0, 0],
        [50, 1, 0, 1, 0],
        [50, 0, 0, 0, 1],
        [70, 0, 0, 1, 0],
    ]
    with pytest.raises(InputError, match="missing="):
        cl.Bags.from_frame(frame.assign(age=[30.0, 20.0, None, None]), by="town", missing="drop")


def test_bags_to_predict_have_the_columns_of_fit():
    frame, y = people()
    train, new = frame[frame["town"] < 50], frame[frame["town"] >= 50].copy()
    train = train.assign(age=train["age"].where(np.arange(len(train)) % 7 != 0))
    bags = cl.Bags.from_frame(train, by="town", missing="indicate")
    model = cl.MeanShrinkage(n_landmarks=20).fit(bags, y[:50])
    new["age"] = new["age"].where(np.arange(len(new)) % 5 != 0)
    again = cl.Bags.from_frame(new.assign(extra=1.0)[["extra", "code", "sex", "age", "town"]], by="town", like=bags)
    assert again.columns == bags.columns
    # the mean of fit, not that of the new people
    filled = again.values[again.values[:, 1] == 1, 0]
    assert np.unique(filled).round(9).tolist() == [round(float(train["age"].mean()), 9)]
    assert np.corrcoef(model.predict(again), y[50:])[0, 1] > 0.6
    assert bags[:10].encoding == bags.encoding
    with pytest.raises(InputError):
        cl.Bags.from_frame(new.assign(sex="x"), by="town", like=bags)
    with pytest.raises(InputError):
        cl.Bags.from_frame(new.assign(age="old"), by="town", like=bags)
    with pytest.raises(InputError, match="missing="):
        cl.Bags.from_frame(new, by="town", like=bags, missing="drop")
    with pytest.raises(InputError):
        cl.Bags.from_frame(new, by="town", like=cl.Bags([[1.0]], [0, 1]))
    whole = cl.Bags.from_frame(frame, by="town", missing="indicate")
    with pytest.raises(InputError):
        cl.Bags.from_frame(new, by="town", like=whole)


def test_predictions_match_columns_by_name():
    frame, y = people()
    bags = cl.Bags.from_frame(frame, by="town", columns=["age", "code"])
    model = cl.MeanShrinkage(n_landmarks=15).fit(bags, y)
    turned = cl.Bags.from_frame(frame, by="town", columns=["code", "age"])
    np.testing.assert_allclose(model.predict(turned), model.predict(bags))
    other = cl.Bags.from_frame(frame.rename(columns={"code": "kode"}), by="town", columns=["age", "kode"])
    with pytest.raises(InputError):
        model.predict(other)


def test_bags_of_people_are_those_of_their_table():
    frame, _ = people(60)
    frame = frame.assign(w=np.arange(60) % 4, code=np.arange(60) % 3, old=frame["age"] > 0)
    kept = frame[frame["old"] & (frame["w"] > 0)]
    whole = cl.People(frame, by="town", weight="w", columns=["age", "sex", "code"], categorical=["code"], where="old")
    expected = cl.Bags.from_frame(kept, by="town", columns=["age", "code", "sex"], weight="w", categorical=["code"])
    assert whole.bags() == expected
    assert whole.bags(["age"]).columns == ("age",)
    assert whole.bags(like=expected) == expected
    for refused in ({"columns": ["nobody"]}, {"columns": ["town"]}, {"like": expected, "columns": ["age"]}):
        with pytest.raises(InputError):
            whole.bags(**refused)
    with pytest.raises(InputError):
        cl.People(frame).bags()
