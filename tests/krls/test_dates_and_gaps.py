"""Dates are no numbers, rows left out are not scored or given a class, rows far from the fit are named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import r2_score

from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.krls import KRLS, KernelLogistic

DAYS = np.datetime64("2020-01-01", "ns") + np.arange(40).astype("m8[D]")


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 2))


@pytest.fixture
def y(X, rng):
    return X[:, 0] + 0.3 * rng.normal(size=40)


@pytest.fixture
def holes(X):
    holes = X.copy()
    holes[3, 0] = np.nan
    return holes


@pytest.mark.parametrize(
    "dates",
    [
        DAYS,
        DAYS - DAYS[0],
        np.array(list(DAYS), dtype=object),
        np.ma.array(DAYS, mask=np.arange(40) < 2),
        pa.array(DAYS),
    ],
)
def test_dates_are_no_outcome_weight_or_covariate(X, y, dates):
    with pytest.raises(InputError):
        KRLS(missing="drop").fit(X, dates)
    with pytest.raises(InputError):
        KRLS(weights="survey").fit(X, y, sample_weight=dates)
    with pytest.raises(InputError):
        KRLS(missing="drop").fit(np.reshape(dates, (-1, 1)), y)


def test_text_among_numbers_is_named(X, y):
    model = KRLS().fit(X, y)
    with pytest.raises(InputError):
        model.predict(np.array([[1.0, 2.0], [1.0, "a"]], dtype=object))
    with pytest.raises(InputError):
        model.score(X, DAYS)


def test_rows_left_out_are_not_scored(X, y, holes):
    model, strict, weight = KRLS(missing="drop").fit(holes, y), KRLS().fit(X, y), np.arange(1.0, 41.0)
    y[7] = np.nan
    kept = np.delete(np.arange(40), [3, 7])
    want = r2_score(y[kept], model.predict(holes)[kept], sample_weight=weight[kept])
    assert model.score(holes, y, sample_weight=weight) == pytest.approx(want)
    with pytest.raises(InputError):
        strict.score(X, y)
    with pytest.raises(InputError):
        model.score(np.full((40, 2), np.nan), y)


@pytest.mark.parametrize(("classes", "gap"), [((0, 1), "nan"), (("no", "yes"), "None")])
def test_a_row_left_out_has_no_class(X, y, holes, classes, gap):
    labels = np.array(classes)[(y > 0).astype(int)]
    model = KernelLogistic(missing="drop").fit(holes, labels)
    found = model.predict(holes)
    assert str(found[3]) == gap
    kept = np.delete(np.arange(40), 3)
    assert set(found[kept]) == set(classes)
    assert model.score(holes, labels) == pytest.approx(np.mean(found[kept] == labels[kept]))


def test_labels_may_be_nullable(X, y):
    labels = pd.Series(y > 0).astype("boolean").where(np.arange(40) != 5)
    plain = KernelLogistic(missing="drop").fit(np.delete(X, 5, axis=0), np.delete(y > 0, 5))
    for given in (labels, labels.astype("Int64"), pa.array(labels.tolist(), from_pandas=True)):
        model = KernelLogistic(missing="drop").fit(X, given)
        np.testing.assert_allclose(model.average_effects_, plain.average_effects_)
        assert model.score(X, given) == plain.score(np.delete(X, 5, axis=0), np.delete(y > 0, 5))


def test_rows_far_from_the_fit_are_named(X, y):
    model = KRLS().fit(pd.DataFrame(X, columns=["age", "size"]), y)
    with pytest.warns(CrosslevelWarning):
        model.predict(pd.DataFrame(X, columns=["age", "size"]).assign(age=np.where(np.arange(40) == 2, 999, X[:, 0])))
    model.predict(pd.DataFrame(X * 1.2, columns=["age", "size"]))
