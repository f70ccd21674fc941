"""The linear form behind the adapter has the effects and errors of the table; the adapter passes them on."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from crosslevel.errors import InputError, MissingExtraError
from crosslevel.krls import KRLS, marginal
from crosslevel.krls.marginal import linear_form

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def people(rng):
    n = 60
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 60, n) / 2.0,
            "treated": rng.integers(0, 2, n),
            "arm": pd.Categorical(rng.choice(["letter", "control", "visit"], n), ["control", "letter", "visit"]),
        }
    )
    return frame, np.sin(frame["age"] / 5) + frame["treated"] + 0.3 * rng.normal(size=n)


def switched(X, column, value):
    out = X.copy()
    out[:, column] = value
    return out


@pytest.mark.parametrize(
    ("inference", "clustered"),
    [("debiased", False), ("debiased", True), ("hc3", False), ("hc3", True), ("classical", False)],
)
def test_form_has_the_effects_and_errors_of_the_table(mixed, rng, inference, clustered):
    X, y = mixed(50)
    model = KRLS(inference=inference).fit(X, y, cluster=rng.integers(0, 12, 50) if clustered else None)
    form, table = linear_form(model._model, inference), model.effects()
    step = np.array([1e-4, 0, 0])
    slope = (form.matrix(X + step) - form.matrix(X - step)).mean(axis=0) / 2e-4
    jump = (form.matrix(switched(X, 1, 1.0)) - form.matrix(switched(X, 1, 0.0))).mean(axis=0)
    for e, L in enumerate((slope, jump)):
        assert L @ form.theta == pytest.approx(table["estimate"][e], rel=1e-6)
        assert np.sqrt(L @ form.covariance @ L) == pytest.approx(table["std_error"][e], rel=1e-6)
    if inference != "debiased":
        np.testing.assert_allclose(model._model.y_mean + form.matrix(X) @ form.theta, model.fitted_, rtol=1e-9)


def test_too_many_rows(smooth, monkeypatch):
    X, y = smooth(40)
    monkeypatch.setattr(marginal, "LARGEST", 30)
    with pytest.raises(InputError):
        linear_form(KRLS().fit(X, y)._model, "debiased")


def test_without_the_package(smooth, monkeypatch):
    X, y = smooth(40)
    monkeypatch.setitem(sys.modules, "marginaleffects.classes", None)
    with pytest.raises(MissingExtraError):
        KRLS().fit(X, y).to_marginaleffects()


def agree(found, i, table, term):
    for name in ("estimate", "std_error", "conf_low", "conf_high"):
        assert found[name][i] == pytest.approx(table.select(term=term)[name][0], rel=1e-4), (term, name)


def test_the_package_agrees_with_the_table(people, rng):
    me = pytest.importorskip("marginaleffects")
    X, y = people
    X = X.drop(columns="arm")
    model = KRLS().fit(X, y, cluster=rng.integers(0, 15, 60))
    table, wrapped = model.effects(), model.to_marginaleffects()
    agree(me.avg_slopes(wrapped, variables="age"), 0, table, "age")
    agree(me.avg_comparisons(wrapped, variables="treated"), 0, table, "treated")
    by = me.avg_slopes(wrapped, variables="age", by="treated").sort("treated")
    expected = model.effects(by="treated").select(term="age")
    np.testing.assert_allclose(by["estimate"], expected["estimate"], rtol=1e-4)
    np.testing.assert_allclose(by["std_error"], expected["std_error"], rtol=1e-4)
    grid = me.predictions(wrapped, newdata=me.datagrid(model=wrapped, age=[10, 20]))
    assert len(grid) == 2
    assert (grid["std_error"] > 0).all()
    more = me.avg_slopes(model.to_marginaleffects(X.assign(half=np.arange(60) % 2)), variables="age", by="half")
    expected = model.effects(by=np.arange(60) % 2).select(term="age")
    np.testing.assert_allclose(more.sort("half")["std_error"], expected["std_error"], rtol=1e-4)


def test_the_package_agrees_on_factors(people):
    me = pytest.importorskip("marginaleffects")
    if int(pl.__version__.split(".")[0]) >= 2:
        pytest.skip("marginaleffects 0.6 reads no factors with polars 2")
    X, y = people
    model = KRLS(reference={"arm": "letter"}).fit(X, y)
    arms = me.avg_comparisons(model.to_marginaleffects(), variables="arm")
    agree(arms, 0, model.effects(), "arm: control (reference letter)")
    agree(arms, 1, model.effects(), "arm: visit (reference letter)")
