"""The estimator: laws, frames of any kind, factors, missing rows, weights, targets, words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.errors import CrosslevelWarning
from crosslevel.krls import KRLS

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def people(rng):
    n = 90
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "arm": pd.Categorical(rng.choice(["control", "letter", "visit"], n), ["control", "letter", "visit"]),
            "owner": rng.choice([True, False], n),
        }
    )
    y = 0.02 * frame["age"] + 0.5 * (frame["arm"] == "visit") + 0.3 * frame["owner"] + 0.3 * rng.normal(size=n)
    return frame, y


def same(one, two, rtol=1e-9):
    for name in ("estimate", "std_error", "plug_in"):
        np.testing.assert_allclose(one[name], two[name], rtol=rtol)


def test_order_of_rows_does_not_matter(smooth, rng):
    X, y = smooth(50)
    order = rng.permutation(50)
    one, two = KRLS().fit(X, y), KRLS().fit(X[order], y[order])
    assert one.penalty_ == pytest.approx(two.penalty_, rel=1e-9)
    same(one.effects(), two.effects(), 1e-7)
    np.testing.assert_allclose(one.fitted_[order], two.fitted_, rtol=1e-7)


def test_units_of_y_and_x(smooth):
    X, y = smooth(50)
    one, two = KRLS().fit(X, y), KRLS().fit(X * [1000.0, 1, 1], 5 + 10 * y)
    np.testing.assert_allclose(two.pointwise_effects_, one.pointwise_effects_ * [0.01, 10, 10], rtol=1e-6)
    np.testing.assert_allclose(two.effects()["std_error"], one.effects()["std_error"] * [0.01, 10, 10], rtol=1e-6)
    assert two.loo_ == pytest.approx(100 * one.loo_, rel=1e-8)
    assert two.r2_ == pytest.approx(one.r2_, rel=1e-8)


def test_every_kind_of_frame_gives_the_same(people):
    frame, y = people
    arms = frame.assign(arm=frame["arm"].astype(str))
    expected = KRLS(reference={"arm": "control"}).fit(arms, y).effects()
    kinds = {
        "pandas": frame,
        "polars": pl.from_pandas(arms),
        "pyarrow": pa.Table.from_pandas(arms),
        "mapping": {c: arms[c].to_numpy() for c in arms},
    }
    for kind, X in kinds.items():
        model = KRLS(reference={"arm": "control"}).fit(X, y.to_numpy())
        same(model.effects(), expected)
        np.testing.assert_allclose(model.predict(X), model.fitted_, rtol=1e-8, err_msg=kind)
        assert model.feature_names_in_.tolist() == ["age", "arm", "owner"]
        assert model.effects().frame == ("pyarrow" if kind == "mapping" else kind)


def test_factor_contrasts(people):
    frame, y = people
    model = KRLS(penalty=0.5, reference={"arm": "control"}).fit(frame, y)
    found = model.effects()
    arms = ["arm: letter (reference control)", "arm: visit (reference control)"]
    assert found["term"].tolist() == ["age", *arms, "owner"]
    assert found["contrast"].tolist() == ["dy/dx", "letter - control", "visit - control", "1 - 0"]
    everyone = {
        arm: model.predict(frame.assign(arm=pd.Categorical([arm] * 90, frame["arm"].cat.categories)))
        for arm in frame["arm"].cat.categories
    }
    np.testing.assert_allclose(found["plug_in"][1], (everyone["letter"] - everyone["control"]).mean(), rtol=1e-9)
    np.testing.assert_allclose(model.pointwise_effects_[:, 2], everyone["visit"] - everyone["control"], rtol=1e-8)
    dummies = KRLS(penalty=0.5, contrast="dummy", reference={"arm": "control"}).fit(frame, y)
    np.testing.assert_allclose(dummies.fitted_, model.fitted_, rtol=1e-10)
    assert abs(dummies.effects()["plug_in"][2]) < abs(
        found["plug_in"][2]
    )  # impossible people are further from everybody
    other = KRLS(penalty=0.5, reference={"arm": "visit"}).fit(frame, y).effects()
    assert other["contrast"].tolist()[1:3] == ["control - visit", "letter - visit"]


def test_the_table_names_the_reference_which_is_the_most_frequent_level(people):
    frame, y = people
    arms = np.where(np.arange(90) % 3 > 0, "control", np.where(np.arange(90) % 2 > 0, "a letter", "visit"))
    frame = frame.assign(arm=arms)
    model = KRLS(penalty=0.5).fit(frame, y)
    found = model.effects()
    assert found["contrast"].tolist()[1:3] == ["a letter - control", "visit - control"]
    printed = model.summary()
    assert "arm: a letter (reference control)" in printed
    assert "arm: control" not in printed
    short = model.pointwise_bands("arm: visit", X=frame.iloc[:2])
    assert short["term"].tolist() == ["arm: visit (reference control)"] * 2
    counts = np.where(arms == "visit", 9.0, 1.0)
    heavy = KRLS(penalty=0.5).fit(frame, y, sample_weight=counts).effects()
    assert heavy["contrast"].tolist()[1:3] == ["a letter - visit", "control - visit"]
    backwards = KRLS(penalty=0.5).fit(frame[::-1], y[::-1]).effects()
    assert backwards["term"].tolist() == found["term"].tolist()


def test_codes_are_a_factor_when_listed(people):
    frame, y = people
    coded = frame.assign(arm=frame["arm"].cat.codes.astype(int) + 1)
    one = KRLS(penalty=0.5, reference={"arm": "control"}).fit(frame, y).effects()
    two = KRLS(penalty=0.5, categorical=["arm"], reference={"arm": 1}).fit(coded, y).effects()
    same(one, two)
    assert two["contrast"].tolist()[1:3] == ["2 - 1", "3 - 1"]
    assert KRLS(penalty=0.5).fit(coded, y).effects()["term"].tolist() == ["age", "arm", "owner"]


def test_missing_rows_keep_their_place(people):
    frame, y = people
    broken, target = frame.astype({"age": float}), y.copy()
    broken.loc[3, "age"] = np.nan
    broken.loc[10, "arm"] = None
    target[20] = np.nan
    gone = [3, 10, 20]
    model = KRLS(missing="drop").fit(broken, target)
    whole = KRLS().fit(frame.drop(index=gone), y.drop(index=gone))
    same(model.effects(), whole.effects(), 1e-8)
    assert np.flatnonzero(np.isnan(model.fitted_)).tolist() == gone
    assert np.isnan(model.pointwise_effects_[gone]).all()
    assert np.flatnonzero(np.isnan(model.predict(broken))).tolist() == [3, 10]
    mean, error = model.predict(broken, return_std=True)
    assert np.isnan(error[3])
    assert mean.shape == error.shape == (90,)


def test_table_is_consistent(smooth):
    X, y = smooth(60)
    model = KRLS().fit(X, y, cluster=np.arange(60) % 20)
    found = model.effects(level=0.9)
    np.testing.assert_allclose(found["correction"], (found["estimate"] - found["plug_in"]) / found["std_error"])
    np.testing.assert_array_equal(found["flagged"], np.abs(found["correction"]) > 1)
    np.testing.assert_allclose(found["plug_in"], model.average_effects_, rtol=1e-9)
    np.testing.assert_allclose(
        (found["conf_high"] - found["estimate"]) / found["std_error"], 1.7291328, rtol=1e-6
    )  # t(19)
    assert "CR3, 20 clusters" in found.interval
    assert found.diagnostics["path"] == "exact, 60 rows"
    assert found.diagnostics["penalty"] == model.penalty_
    assert "penalty" in model.summary()


def test_notes_for_the_reader(rng):
    X = {"income": np.exp(1.5 * rng.normal(size=80)), "age": rng.normal(size=80)}
    X["years"] = 2 * X["age"] + 1
    y = X["age"] + rng.normal(size=80)
    said = " ".join(KRLS().fit(X, y).effects().warnings)
    assert "1 column(s) are strongly skewed ('income')" in said
    assert "the columns 'age', 'years' determine one another" in said


def test_a_penalty_at_its_limit_is_told(rng):
    X = rng.normal(size=(60, 2))
    with pytest.warns(CrosslevelWarning):
        model = KRLS().fit(X, np.sin(X[:, 0]))
    assert "lower limit" in model.effects().warnings[0]
