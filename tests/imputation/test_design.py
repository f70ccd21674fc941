import numpy as np
import pyarrow as pa
import pytest
from tests.imputation.nouns import people_of, places_of

from crosslevel.data.columns import Category, Number
from crosslevel.errors import InputError
from crosslevel.imputation.design import learn_design
from crosslevel.imputation.persons.estimator import CrossLevelImputer


def test_scores_have_mean_zero_sd_one_and_are_orthogonal_within_a_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 5, 500), rng.integers(0, 3, 500), rng.normal(size=500)]).astype(float)
    w = rng.random(500)
    design = learn_design(X, w, [Number("a"), Category("b", pa.array(["x", "y", "z"]), False), Number("c")])
    Z = design.matrix(X)
    w = w / w.sum()
    np.testing.assert_allclose(w @ Z, 0, atol=1e-12)
    np.testing.assert_allclose(w @ Z**2, 1, rtol=1e-12)
    own = Z[:, design.owner == 0]
    np.testing.assert_allclose((own.T * w) @ own, np.eye(4), atol=1e-12)
    assert [f.kind for f in design.features] == ["ordered", "unordered", "continuous"]
    np.testing.assert_array_equal(design.first, [0, 4, 7])
    np.testing.assert_allclose(design.reach, [1, 0.3, 0.3, 0.3, *[np.sqrt(2 / 3)] * 3, 1])
    assert design.terms == ("linear", "degree 2", "degree 3", "degree 4", "x", "y", "z", "linear")


def test_linear_scores_follow_the_values_and_bends_span_every_level():
    X = np.array([[1.0], [2.0], [4.0], [8.0]])
    design = learn_design(X, np.array([4.0, 3.0, 2.0, 1.0]), [Number("a")])
    Z = design.matrix(X)
    slope = np.diff(Z[:, 0]) / np.diff(X[:, 0])
    np.testing.assert_allclose(slope, slope[0])
    assert slope[0] > 0
    assert np.linalg.matrix_rank(np.column_stack([np.ones(4), Z])) == 4


def test_without_curvature_only_the_line_is_left():
    design = learn_design(np.arange(5.0)[:, None], np.ones(5), [Number("a")], curvature=0.0)
    assert design.terms == ("linear",)


def test_new_values_are_interpolated_and_missing_ones_average():
    design = learn_design(np.array([[0.0], [2.0]]), np.ones(2), [Number("a")])
    np.testing.assert_allclose(design.matrix(np.array([[1.0], [np.nan], [5.0]]))[:, 0], [0, 0, 1])


def test_two_levels_of_text_say_as_much_as_one_binary_number():
    X = np.array([[0.0], [1.0]])
    w = np.array([3.0, 1.0])
    text = learn_design(X, w, [Category("a", pa.array(["n", "y"]), False)])
    number = learn_design(X, w, [Number("a")])
    for design in (text, number):
        Z = design.matrix(X) * design.reach
        np.testing.assert_allclose(Z @ Z.T, np.array([[1 / 3, -1], [-1, 3]]), rtol=1e-12)


@pytest.mark.parametrize("levels", [12, 13])
def test_many_values_make_a_column_continuous(levels):
    design = learn_design(np.arange(float(levels))[:, None], np.ones(levels), [Number("a")])
    assert design.features[0].kind == ("ordered" if levels <= 12 else "continuous")


def test_more_scores_than_memory_holds_are_refused_with_a_choice_that_works(monkeypatch):
    rng = np.random.default_rng(0)
    X = {"income": rng.normal(size=300), "age": rng.integers(0, 80, 300), "sex": rng.integers(0, 2, 300)}
    place, means = np.repeat(np.arange(30), 10), rng.uniform(0.2, 0.6, 30)
    monkeypatch.setattr("crosslevel.imputation.design.MOST_SCORES", 400)
    with pytest.raises(InputError):
        CrossLevelImputer().fit(people_of(X, place), places_of(means))
    CrossLevelImputer().fit(people_of({"age": X["age"], "sex": X["sex"]}, place), places_of(means))
