import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from crosslevel.errors import InputError
from crosslevel.imputation.evaluation import calibration, evaluate, logistic_regression
from crosslevel.imputation.persons.estimator import CrossLevelImputer


def _row(table, name):
    return table.to_frame("pyarrow").to_pylist()[table["method"].tolist().index(name)]


def _sklearn(columns, y):
    p = LogisticRegression(C=1e9, max_iter=5000, tol=1e-10).fit(columns, y).predict_proba(columns)
    return -log_loss(y, p)


def _dummies(values):
    return (np.asarray(values)[:, None] == np.unique(values)).astype(float)[:, 1:]


@pytest.fixture(scope="module")
def table(world):
    model = CrossLevelImputer().fit(world.X, world.group, world.means)
    return evaluate(world.X, world.group, world.y, {"link": model, "half": np.full(len(world.y), 0.5)})


def test_the_rows_that_cannot_be_left_out(table):
    always = ["naive group mean", "ecological logistic", "saturated x", "x + group", "full information"]
    assert table["method"].tolist() == [*always, "link", "half"]
    assert table["uses_truth"].tolist() == [False, False, True, True, True, False, False]
    assert _row(table, "naive group mean")["lift"] == 0.0
    assert _row(table, "full information")["lift"] == 1.0
    assert _row(table, "half")["lift"] < 0 < _row(table, "link")["lift"] < 1


def test_rows_against_scikit_learn(world, table):
    age, school = np.asarray(world.X["age"]), np.asarray(world.X["school"])
    main = np.hstack([_dummies(age), _dummies(school)])
    full, grouped = _sklearn(main, world.y), _sklearn(np.hstack([main, _dummies(world.group)]), world.y)
    assert _row(table, "full information")["estimate"] == pytest.approx(full, abs=1e-6)
    assert _row(table, "x + group")["estimate"] == pytest.approx(grouped, abs=1e-6)
    cells = _dummies(10 * age + school)
    assert _row(table, "saturated x")["estimate"] >= _sklearn(cells, world.y) - 1e-6
    naive = world.means[world.group]
    assert _row(table, "naive group mean")["estimate"] == pytest.approx(-log_loss(world.y, naive), abs=1e-9)
    assert _row(table, "naive group mean")["auc"] == pytest.approx(roc_auc_score(world.y, naive), abs=1e-12)
    assert _row(table, "half")["brier"] == pytest.approx(0.25)


def test_truth_orders_the_rows(table):
    score = dict(zip(table["method"], table["estimate"], strict=True))
    assert score["naive group mean"] < score["ecological logistic"] < score["x + group"]
    assert score["full information"] <= min(score["saturated x"], score["x + group"]) + 1e-12


def test_gain_has_a_paired_error(world, table):
    row = _row(table, "half")
    each = np.log(0.5) - np.log(np.where(world.y == 1, world.means[world.group], 1 - world.means[world.group]))
    assert row["gain"] == pytest.approx(each.mean(), abs=1e-9)
    assert row["gain_error"] == pytest.approx(each.std() / np.sqrt(len(each)), rel=1e-9)


def test_weights_count_people(world):
    w = np.random.default_rng(0).integers(1, 3, len(world.y))
    rows = np.repeat(np.arange(len(w)), w)
    a = evaluate(world.X, world.group, world.y, sample_weight=w)
    b = evaluate(world.X.take(rows), world.group[rows], world.y[rows])
    np.testing.assert_allclose(a["estimate"], b["estimate"], atol=2e-4)
    np.testing.assert_allclose(a["auc"], b["auc"], atol=1e-3)


def test_calibration_of_a_stretched_logit():
    rng = np.random.default_rng(0)
    f = rng.normal(size=20_000).round(2)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-f))).astype(float)
    intercept, slope = calibration(1 / (1 + np.exp(-2 * f - 1)), y)
    assert slope == pytest.approx(0.5, abs=0.03)
    assert intercept == pytest.approx(-0.5, abs=0.06)
    assert np.isnan(calibration(np.full(5, 0.3), np.ones(5))).all()


def test_columns_that_tell_yes_from_no_have_finite_slopes():
    model = logistic_regression(np.array([[-1.0], [1.0]]), np.array([0.0, 10.0]), np.full(2, 10.0))
    assert 5 < model.coef_[0, 0] < np.inf


@pytest.mark.parametrize(
    "change",
    [
        {"truth": np.full(9000, 0.5)},
        {"truth": np.arange(5) % 2},
        {"methods": {"naive group mean": np.zeros(9000)}},
        {"methods": {"mine": np.zeros(5)}},
        {"methods": {"mine": np.full(9000, 1.5)}},
    ],
)
def test_bad_input(world, change):
    given = {"truth": world.y, "methods": None} | change
    with pytest.raises(InputError):
        evaluate(world.X, world.group, given.pop("truth"), given.pop("methods"), **given)


RNG = np.random.default_rng(4)
GROUP = np.repeat(np.arange(40), 12)
KNOWN = {"coin": RNG.integers(0, 2, 480), "age": RNG.integers(0, 4, 480)}
COIN = (RNG.random(480) < 0.3).astype(float)


class TestWhoseMeans:
    """The means that are imputed from are those of other people than the sample, or of a population it is part of."""

    def lift(self, source, **options):
        table = evaluate(KNOWN, GROUP, COIN, {"it": CrossLevelImputer()}, aggregates_from=source, **options)
        return table.select(method="it")["gain"][0], table

    def test_a_feature_without_any_effect_is_told_by_the_sample_alone(self):
        fitted = CrossLevelImputer().fit(KNOWN, GROUP, np.bincount(GROUP, COIN) / 12)
        shared = evaluate(KNOWN, GROUP, COIN, {"it": fitted})
        assert "very people" in shared.warnings[0]
        assert shared.diagnostics["aggregates_from"] == "sample"
        for source in ("disjoint", "population"):
            gain, table = self.lift(source)
            assert table.diagnostics["aggregates_from"] == source
            assert not table.warnings
            # the naive group mean of other people is worse than that of these, which has seen the truth
            assert table["estimate"][0] <= shared["estimate"][0]
            assert gain < shared.select(method="it")["gain"][0] + 0.01

    def test_every_half_is_imputed_from_the_means_of_the_other(self):
        group = np.repeat([0, 1, 2], 2)
        truth = np.array([0.0, 1, 0, 1, 1, 0])
        table = evaluate({"age": np.arange(6) % 3}, group, truth, aggregates_from="disjoint")
        # of two people who differ, each is told the other's answer
        assert table["brier"][0] == pytest.approx(1.0)
        both = evaluate({"age": np.arange(6) % 3}, group, truth, aggregates_from="population")
        assert both["brier"][0] == pytest.approx(0.25)

    def test_the_halves_have_a_seed(self):
        assert self.lift("disjoint")[0] == self.lift("disjoint")[0]
        assert self.lift("disjoint")[0] != self.lift("disjoint", random_state=1)[0]

    @pytest.mark.parametrize(
        "options",
        [
            {"aggregates_from": "others"},
            {"random_state": 3},
            {"aggregates_from": "disjoint", "methods": {"it": np.full(480, 0.3)}},
            {"aggregates_from": "disjoint", "methods": {"x + group": CrossLevelImputer()}},
        ],
    )
    def test_bad_input(self, options):
        with pytest.raises(InputError):
            evaluate(KNOWN, GROUP, COIN, **options)

    def test_a_person_alone_cannot_be_halved(self):
        with pytest.raises(InputError):
            evaluate({"age": [0, 1, 2, 1, 0]}, [0, 0, 1, 1, 2], [0, 1, 0, 1, 1], aggregates_from="disjoint")
