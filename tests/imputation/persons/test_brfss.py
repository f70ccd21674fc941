"""The figures of the method on BRFSS 2016, each hidden outcome scored with the truth it never saw."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.imputation.nouns import mean, places_of, values

from crosslevel import People, Places
from crosslevel.errors import CrosslevelWarning
from crosslevel.imputation.inputs import read_rows
from crosslevel.imputation.persons.estimator import CrossLevelImputer
from crosslevel.imputation.persons.hidden import members_of

pytestmark = pytest.mark.data

COLUMNS = ["age_group", "bmi_cat", "education", "income"]
OUTCOMES = ["diabetes", "heart_disease", "stroke", "arthritis", "kidney_disease", "diff_walk", "poor_health", "smoker"]


@pytest.fixture
def scores(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "experiments"))
    return importlib.import_module("imputation_scores")


@pytest.fixture(scope="module")
def brfss(real_data):
    table = pq.read_table(real_data / "brfss2016" / "brfss2016_division.parquet")
    return table.set_column(0, "state", table["state"].cast(pa.string()))


def _fit(table, outcome, level, **options):
    whole = table.select([level, *COLUMNS, outcome]).drop_null()
    y = whole[outcome].to_numpy().astype(float)
    means = whole.group_by(level).aggregate([(outcome, "mean")]).rename_columns([level, outcome])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)  # nine divisions are few, as it says
        people = People(whole, by=level, columns=COLUMNS)
        return CrossLevelImputer(**options).fit(people, Places(means, by=level, means=[outcome])), whole, y


def mean_log_likelihood(p, yes, weight):
    return float((yes * np.log(p) + (weight - yes) * np.log1p(-p)).sum() / weight.sum())


def _lift(scores, model, rows, y):
    """In percent, from gathered people: the table of scores is asked for diabetes only."""
    cells, design, h = rows.cells, model.design_, model.hidden_[0]
    members = members_of(h, design, cells)
    yes = np.bincount(cells.pair, y)
    rows = (h.mean[members.group], members.value, scores.logistic(cells, design, y)[cells.pair_cell])
    naive, found, full = (mean_log_likelihood(p, yes, cells.weight) for p in rows)
    return 100 * (found - naive) / (full - naive)


def _covered(model, X, y):
    found = model.estimate(by=COLUMNS)
    cell = np.unique(np.column_stack([X[c].to_numpy() for c in COLUMNS]), axis=0, return_inverse=True)[1].reshape(-1)
    n = np.bincount(cell)
    truth = np.bincount(cell, y) / n
    return np.mean(((found["conf_low"] <= truth) & (truth <= found["conf_high"]))[n >= 100])


@pytest.mark.parametrize(
    ("level", "naive", "diabetes", "lift", "worst"),
    [("state", -0.38637, -0.3559, 72, 46), ("division", -0.38758, -0.3676, 46, 34)],
)
def test_default_on_eight_outcomes(brfss, scores, level, naive, diabetes, lift, worst):
    lifts, covered = [], []
    for outcome in OUTCOMES:
        model, whole, y = _fit(brfss, outcome, level)
        rows = read_rows(People(whole, by=level), model.schema_)
        lifts.append(_lift(scores, model, rows, y))
        covered.append(_covered(model, whole, y))
        if outcome == "diabetes":
            assert len(y) == 275_334
            scored = scores.evaluate(
                whole.select([*COLUMNS, level]),
                level,
                y,
                {"link": np.clip(model.transform(People(whole, by=level))[outcome].to_numpy(), 0, 1)},
            )
            by = {r["method"]: r for r in scored.to_frame("pyarrow").to_pylist()}
            assert 100 * by["link"]["lift"] == pytest.approx(lifts[0], abs=1e-6)
            assert by["naive group mean"]["estimate"] == pytest.approx(naive, abs=1e-5)
            assert by["full information"]["estimate"] == pytest.approx(-0.33284, abs=1e-5)
            assert by["link"]["estimate"] == pytest.approx(diabetes, abs=2e-4)
            assert by["saturated x"]["estimate"] == pytest.approx(-0.33122, abs=1e-5)
        if outcome == "diabetes" and level == "division":
            assert by["x + group"]["estimate"] == pytest.approx(-0.33225, abs=1e-5)
    assert np.mean(lifts) == pytest.approx(lift, abs=0.5)
    assert min(lifts) == pytest.approx(worst, abs=0.5)
    assert 0.92 <= np.mean(covered) <= 0.98


def test_restarts_agree_and_more_people_teach_nothing(brfss):
    model, whole, _ = _fit(brfss, "diabetes", "state", n_restarts=20)
    people = People(whole, by="state", columns=COLUMNS)
    assert 0 < model.hidden_[0].fit.apart < 1e-5
    assert model.hidden_[0].fit.gradient < 1e-8
    once, many = (CrossLevelImputer().fit(people, _places(model, factor)) for factor in (1.0, 0.1))
    sd = [np.sqrt(np.diag(m.hidden_[0].fit.Sigma))[1:] for m in (once, many)]
    assert (sd[1] / sd[0] > 0.98).all()
    p, group = values(model, people), np.unique(whole["state"], return_inverse=True)[1]
    np.testing.assert_allclose(mean(p, group), model.hidden_[0].mean, atol=1e-10)


def _places(model, factor):
    h = model.hidden_[0]
    se = factor * np.sqrt(h.variance) * h.mean * (1 - h.mean)
    labels = model.schema_.partitions[0].labels
    return places_of(h.mean, labels=list(labels), by="state", name="diabetes", se=se, of="population")
