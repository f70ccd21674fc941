"""The figures of the method on BRFSS 2016, each hidden outcome scored with the truth it never saw."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslevel.errors import CrosslevelWarning
from crosslevel.imputation.evaluation import evaluate, logistic
from crosslevel.imputation.persons.estimator import CrossLevelImputer
from crosslevel.imputation.persons.hidden import members_of

pytestmark = pytest.mark.data

COLUMNS = ["age_group", "bmi_cat", "education", "income"]
OUTCOMES = ["diabetes", "heart_disease", "stroke", "arthritis", "kidney_disease", "diff_walk", "poor_health", "smoker"]


@pytest.fixture(scope="module")
def brfss(real_data):
    table = pq.read_table(real_data / "brfss2016" / "brfss2016_division.parquet")
    return table.set_column(0, "state", table["state"].cast(pa.string()))


def _fit(table, outcome, level, **options):
    whole = table.select([level, *COLUMNS, outcome]).drop_null()
    X, partition, y = whole.select(COLUMNS), whole.select([level]), whole[outcome].to_numpy().astype(float)
    means = whole.group_by(level).aggregate([(outcome, "mean")]).rename_columns([level, outcome])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)  # nine divisions are few, as it says
        return CrossLevelImputer(**options).fit(X, partition, means), X, partition, y


def mean_log_likelihood(p, yes, weight):
    return float((yes * np.log(p) + (weight - yes) * np.log1p(-p)).sum() / weight.sum())


def _lift(model, y):
    """In percent, from gathered people: the table of scores is asked for diabetes only."""
    cells, design, h = model._cells, model.design_, model.hidden_[0]
    members = members_of(h, design, cells)
    yes = np.bincount(cells.pair, y)
    rows = (h.mean[members.group], members.value, logistic(cells, design, y, np.ones(len(y)))[cells.pair_cell])
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
def test_default_on_eight_outcomes(brfss, level, naive, diabetes, lift, worst):
    lifts, covered = [], []
    for outcome in OUTCOMES:
        model, X, partition, y = _fit(brfss, outcome, level)
        lifts.append(_lift(model, y))
        covered.append(_covered(model, X, y))
        if outcome == "diabetes":
            assert len(y) == 275_334
            scored = evaluate(X, partition, y, {"link": model})
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
    model, X, partition, y = _fit(brfss, "diabetes", "state", n_restarts=20)
    assert 0 < model.hidden_[0].fit.apart < 1e-5
    assert model.hidden_[0].fit.gradient < 1e-8
    many = CrossLevelImputer().fit(X, partition, _means(model), sample_weight=None, aggregate_se=_errors(model, y, 0.1))
    once = CrossLevelImputer().fit(X, partition, _means(model), aggregate_se=_errors(model, y, 1.0))
    sd = [np.sqrt(np.diag(m.hidden_[0].fit.Sigma))[1:] for m in (once, many)]
    assert (sd[1] / sd[0] > 0.98).all()
    p = model.transform(X, partition)[:, 0]
    np.testing.assert_allclose(_group_mean(model, partition, p), model.hidden_[0].mean, atol=1e-10)


def _means(model):
    return {"state": list(model.schema_.partitions[0].labels), "diabetes": model.hidden_[0].mean}


def _errors(model, y, factor):
    h = model.hidden_[0]
    se = factor * np.sqrt(h.variance) * h.mean * (1 - h.mean)
    return {"state": list(model.schema_.partitions[0].labels), "diabetes": se}


def _group_mean(model, partition, p):
    labels = list(model.schema_.partitions[0].labels)
    code = np.array([labels.index(v) for v in partition["state"].to_pylist()])
    return np.bincount(code, p) / np.bincount(code)
