"""Do the scores of imputed values stand beside the answers that need none, and are no means shared that should not be?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from tests.imputation.conftest import make_world
from tests.imputation.nouns import people_of, places_of

import crosslevel as cl
from crosslevel.errors import InputError

WORLD = make_world()
RNG = np.random.default_rng(4)
GROUP = np.repeat(np.arange(40), 12)
KNOWN = pa.table({"coin": RNG.integers(0, 2, 480), "age": RNG.integers(0, 4, 480), "group": GROUP})
COIN = (RNG.random(480) < 0.3).astype(float)


@pytest.fixture
def scores(experiment):
    return experiment("imputation_scores")


@pytest.fixture
def table(scores):
    model = cl.CrossLevelImputer().fit(people_of(WORLD.X, WORLD.group), places_of(WORLD.means, name="hidden"))
    known = WORLD.X.append_column("place", pa.array(WORLD.group))
    return scores.evaluate(known, "place", WORLD.y, {"link": model, "half": np.full(len(WORLD.y), 0.5)})


def _row(table, name):
    return table.to_frame("pyarrow").to_pylist()[table["method"].tolist().index(name)]


def _sklearn(columns, y):
    p = LogisticRegression(C=1e9, max_iter=5000, tol=1e-10).fit(columns, y).predict_proba(columns)
    return -log_loss(y, p)


def _dummies(values):
    return (np.asarray(values)[:, None] == np.unique(values)).astype(float)[:, 1:]


def test_rows_against_scikit_learn(table):
    always = ["naive group mean", "ecological logistic", "saturated x", "x + group", "full information"]
    assert table["method"].tolist() == [*always, "link", "half"]
    assert _row(table, "naive group mean")["lift"] == 0.0
    assert _row(table, "full information")["lift"] == 1.0
    assert _row(table, "half")["lift"] < 0 < _row(table, "link")["lift"] < 1
    age, school = np.asarray(WORLD.X["age"]), np.asarray(WORLD.X["school"])
    main = np.hstack([_dummies(age), _dummies(school)])
    full, grouped = _sklearn(main, WORLD.y), _sklearn(np.hstack([main, _dummies(WORLD.group)]), WORLD.y)
    assert _row(table, "full information")["estimate"] == pytest.approx(full, abs=1e-6)
    assert _row(table, "x + group")["estimate"] == pytest.approx(grouped, abs=1e-6)
    assert _row(table, "saturated x")["estimate"] >= _sklearn(_dummies(10 * age + school), WORLD.y) - 1e-6
    naive = WORLD.means[WORLD.group]
    assert _row(table, "naive group mean")["estimate"] == pytest.approx(-log_loss(WORLD.y, naive), abs=1e-9)
    assert _row(table, "naive group mean")["auc"] == pytest.approx(roc_auc_score(WORLD.y, naive), abs=1e-12)
    assert _row(table, "half")["brier"] == pytest.approx(0.25)
    each = np.log(0.5) - np.log(np.where(WORLD.y == 1, naive, 1 - naive))
    assert _row(table, "half")["gain"] == pytest.approx(each.mean(), abs=1e-9)
    assert _row(table, "half")["gain_error"] == pytest.approx(each.std() / np.sqrt(len(each)), rel=1e-9)


def test_calibration_of_a_stretched_logit(scores):
    rng = np.random.default_rng(0)
    f = rng.normal(size=20_000).round(2)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-f))).astype(float)
    intercept, slope = scores.calibration(1 / (1 + np.exp(-2 * f - 1)), y)
    assert slope == pytest.approx(0.5, abs=0.03)
    assert intercept == pytest.approx(-0.5, abs=0.06)
    assert np.isnan(scores.calibration(np.full(5, 0.3), np.ones(5))).all()
    model = scores.logistic_regression(np.array([[-1.0], [1.0]]), np.array([0.0, 10.0]), np.full(2, 10.0))
    assert 5 < model.coef_[0, 0] < np.inf


def test_a_feature_without_any_effect_is_told_by_the_sample_alone(scores):
    def found(source, **more):
        return scores.evaluate(KNOWN, "group", COIN, {"it": cl.CrossLevelImputer()}, means_of=source, **more)

    people, places = scores.nouns(KNOWN, "group", y=COIN)
    shared = scores.evaluate(KNOWN, "group", COIN, {"it": cl.CrossLevelImputer().fit(people, places)})
    assert len(shared.warnings) == 1
    for source in ("disjoint", "population"):
        table = found(source)
        assert not table.warnings
        # the naive group mean of other people is worse than that of these, which has seen the truth
        assert table["estimate"][0] <= shared["estimate"][0]
        assert _row(table, "it")["gain"] < _row(shared, "it")["gain"] + 0.01
    assert _row(found("disjoint"), "it") == _row(found("disjoint"), "it")
    assert _row(found("disjoint"), "it") != _row(found("disjoint", seed=1), "it")


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_every_half_is_imputed_from_the_means_of_the_other(scores):
    people = pa.table({"age": np.arange(6) % 3, "group": np.repeat([0, 1, 2], 2)})
    truth = np.array([0.0, 1, 0, 1, 1, 0])
    # of two people who differ, each is told the other's answer
    for source, brier in (("disjoint", 1.0), ("population", 0.25)):
        found = scores.evaluate(people, "group", truth, means_of=source)
        assert found["brier"][0] == pytest.approx(brier)
    with pytest.raises(InputError):
        scores.halves(np.array([0, 0, 1]), np.random.default_rng(0))
