from __future__ import annotations

import numpy as np
import pytest

from crosslevel.charts import effect_curve, effect_distributions, effect_ranking
from crosslevel.krls import KRLS
from crosslevel.results import Estimates, Provenance

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def model():
    rng = np.random.default_rng(3)
    X = {"age": rng.normal(50, 10, 60), "treated": rng.integers(0, 2, 60), "z": rng.normal(size=60)}
    return KRLS().fit(X, X["treated"] * X["z"] + 0.05 * X["age"] + 0.3 * rng.normal(size=60))


def make(columns):
    return Estimates.build(
        columns, keys=["term"], method="m", level=0.9, interval="wald", provenance=Provenance.of(call="c")
    )


def test_every_row_is_a_dot_with_its_interval():
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=30), rng.normal(size=30)
    ax = effect_curve(x, d, d - 1, d + 2, color=d**2, x_label="$ income", level=0.9)
    bars, dots = ax.collections
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack([x, d]))
    np.testing.assert_allclose(dots.get_array(), d**2)
    np.testing.assert_allclose(bars.get_segments(), [[[a, b - 1], [a, b + 2]] for a, b in zip(x, d, strict=True)])
    assert ax.get_title(loc="left") == "90 % on average over the curve"
    assert ax.get_xlabel() == r"\$ income"


def test_few_values_stand_in_columns():
    x, d = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    ax = effect_curve(x, d, d, d)
    at = ax.lines[-1].get_xydata()
    assert ax.get_xticks().tolist() == [0, 1]
    np.testing.assert_array_equal(np.round(at[:, 0]), x)
    assert at[2, 0] < at[0, 0] < 0.4  # small effects to the left
    assert 0.6 < at[1, 0] < at[4, 0] < at[3, 0]
    np.testing.assert_array_equal(at[:, 1], d)


def means(ax):
    x = next(line for line in ax.lines if line.get_marker() == "o").get_xdata()
    return x[np.isfinite(x)]


def test_distributions_hold_all_rows_and_the_mean():
    D = np.column_stack([np.repeat([0.1, 0.3], [3, 1]), [-5.0, 5, 5, 5]])
    ax = effect_distributions(D, ["a", "b"], scaled=False)
    np.testing.assert_allclose(means(ax), [0.15, 2.5])
    weighted = effect_distributions(np.array([[1.0], [2.0]]), ["a"], weights=[3, 1], scaled=False)
    assert means(weighted) == pytest.approx([1.25])
    texts = [t.get_text() for t in effect_distributions(D, ["a", "b"]).texts]
    assert texts == ["0.1 to 0.3", "-5 to 5"]
    assert effect_distributions(np.ones((3, 1)), ["a"]).get_title(loc="left") == "Distribution of effects"


def test_ranking_is_by_standard_errors():
    est = make(
        {
            "term": ["a", "b", "c"],
            "estimate": [1.0, -9.0, 0.4],
            "std_error": [1.0, 3.0, 0.1],
            "conf_low": [-1.0, -15.0, 0.2],
            "conf_high": [3.0, -3.0, 0.6],
            "plug_in": [0.5, -6.0, 0.3],
        }
    )
    ax = effect_ranking(est)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["c", "b", "a"]
    dots = next(x for x in ax.lines if x.get_label() == "estimate")
    np.testing.assert_allclose(dots.get_xdata(), [4, -3, 1])
    assert ax.get_xlabel() == "effect and 90 % interval, in standard errors"


def test_the_estimator_draws_its_numbers(model):
    ax = model.plot_effect("treated", along="z")
    band = model.pointwise_bands("treated")
    dots = np.asarray(ax.collections[1].get_offsets())
    np.testing.assert_allclose(dots[:, 1], band["estimate"])
    np.testing.assert_allclose(dots[:, 0], model._model.cells.X[:, 2])
    np.testing.assert_allclose(ax.collections[1].get_array(), model.fitted_)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("z", "effect of treated")
    some = model.plot_effect("age", max_rows=20)
    assert len(some.collections[1].get_offsets()) == 20
    assert some.texts[-1].get_text() == "40 further rows are not drawn"
    assert len(model.plot_effects().get_yticklabels()) == 3
