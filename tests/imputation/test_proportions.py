"""Labels of persons from proportions of bags: laws, truth, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special

from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.imputation import LabelProportions

RNG = np.random.default_rng(3)
N, SIZE = 4096, 16
AGE, SEX = RNG.integers(20, 80, N).astype(float), RNG.choice(["f", "m"], N)
LOGIT = 0.06 * (AGE - 50) + np.where(SEX == "m", 0.7, -0.7)
ILL = (RNG.random(N) < special.expit(LOGIT)).astype(float)
X = pd.DataFrame({"age": AGE, "sex": SEX})
BAG = np.arange(N) // SIZE
SHARE = np.bincount(BAG, ILL) / SIZE


@pytest.fixture(scope="module")
def model():
    return LabelProportions(n_features=16).fit(X, BAG, SHARE)


def test_random_bags_teach_the_truth(model):
    """256 bags of 16 are worth 256 labels; the probabilities of persons follow from them and are calibrated."""
    p = model.predict_proba(X)
    assert model.assignment_ == "random"
    assert p.shape == (N, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.corrcoef(p[:, 1], special.expit(LOGIT))[0, 1] > 0.96
    assert np.abs(p[:, 1] - special.expit(LOGIT)).mean() < 0.06
    assert model.predict(pd.DataFrame({"age": [79.0, 21.0], "sex": ["m", "f"]})).tolist() == [1, 0]


def test_bags_of_one_are_logistic_regression():
    """With one person a bag the mode is that of a ridge regression on the same scores, found here by another optimizer."""
    few = X[:200]
    made = LabelProportions(n_features=0).fit(few, np.arange(200), ILL[:200])
    A = made.basis_.matrix(np.column_stack([AGE[:200], (SEX[:200] == "m").astype(float)]))
    fit = made.fits_[0]
    prior = np.r_[1e-4, 1 / fit.variance[made.basis_.block]]

    def loss(theta):
        eta = A @ theta
        return np.logaddexp(0, eta).sum() - ILL[:200] @ eta + 0.5 * prior @ theta**2

    found = optimize.minimize(loss, np.zeros(A.shape[1]), method="BFGS", tol=1e-9).x
    np.testing.assert_allclose(fit.theta, found, atol=0.02)  # variances were renewed once more after the last fit
    assert fit.bag_sd == 0.0


def test_classes_by_name_agree_with_one_column(model):
    frame = pd.DataFrame({"bag": np.arange(N // SIZE)[::-1], "ill": SHARE[::-1], "well": 1 - SHARE[::-1]})
    named = LabelProportions(n_features=16).fit(X.assign(bag=BAG), "bag", frame)
    assert named.classes_.tolist() == ["ill", "well"]
    np.testing.assert_allclose(named.predict_proba(X)[:, 0], model.predict_proba(X)[:, 1], atol=1e-9)
    three = frame.assign(dead=0.1, ill=0.9 * frame["ill"], well=0.9 * frame["well"])
    p = LabelProportions(n_features=0).fit(X.assign(bag=BAG), "bag", three).predict_proba(X[:50])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_places_are_told_from_random_bags_and_hold_slopes():
    order = np.argsort(AGE + RNG.normal(0, 10, N), kind="stable")
    place = np.empty(N, dtype=int)
    place[order] = BAG
    means = np.bincount(place, ILL) / SIZE
    held = LabelProportions(n_features=0).fit(X, place, means)
    free = LabelProportions(n_features=0, assignment="random").fit(X, place, means)
    assert held.assignment_ == "places"
    assert 0.5 < held.place_share_ < 1.0
    spread = [np.ptp(m.predict_proba(X)[:, 1]) for m in (held, free)]
    assert spread[0] < spread[1]


def test_weights_count_in_shares_and_in_effective_people(model):
    equal = LabelProportions(n_features=16).fit(X, BAG, SHARE, sample_weight=np.full(N, 2.0))
    np.testing.assert_allclose(equal.predict_proba(X), model.predict_proba(X), atol=1e-8)
    uneven = LabelProportions(n_features=16).fit(X, BAG, SHARE, sample_weight=np.where(np.arange(N) % 2, 3.0, 1.0))
    assert np.ptp(uneven.predict_proba(X)[:, 1]) < np.ptp(
        model.predict_proba(X)[:, 1]
    )  # fewer effective people, more shrinkage


def test_estimate_gives_means_of_groups_with_intervals(model):
    found = model.estimate(X, "sex")
    frame = found.to_frame() if isinstance(found.to_frame(), pd.DataFrame) else pd.DataFrame(found.table.to_pydict())
    men = frame[(frame["class"] == 1) & (frame["sex"] == "m")].iloc[0]
    assert men["estimate"] == pytest.approx(model.predict_proba(X)[SEX == "m", 1].mean())
    assert men["conf_low"] < ILL[SEX == "m"].mean() < men["conf_high"]
    assert men["std_error"] < 0.08
    assert men["people"] == (SEX == "m").sum()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"proportions": None}, "proportions is None"),
        ({"bags": None}, "bags is None"),
        ({"bags": BAG[:9]}, "bags has 9 labels for 4,096 rows"),
        ({"proportions": SHARE[:9]}, "proportions has shape"),
        ({"proportions": SHARE + 0.9}, "proportions"),
        ({"proportions": np.column_stack([SHARE, SHARE])}, "sum to"),
        ({"proportions": {"bag": np.arange(256), "ill": np.r_[np.nan, SHARE[1:]]}}, "missing for bag 0"),
        ({"sample_weight": -np.ones(N)}, "sample_weight"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_by_name(given, match):
    with pytest.raises(InputError, match=match):
        LabelProportions(n_features=0).fit(**{"X": X, "bags": BAG, "proportions": SHARE} | given)


def test_few_bags_are_said_and_unknown_levels_refused(model):
    with pytest.warns(CrosslevelWarning, match="8 bags"):
        LabelProportions(n_features=0).fit(X, BAG % 8, np.bincount(BAG % 8, ILL) / 512)
    with pytest.raises(InputError, match="sex"):
        model.predict_proba(pd.DataFrame({"age": [30.0], "sex": ["x"]}))
    with pytest.raises(InputError, match="age"):
        model.predict_proba(pd.DataFrame({"age": [np.nan], "sex": ["f"]}))


def test_a_class_that_no_bag_has_is_refused():
    """Its intercept is without limit, and the probability averaged over it was 0.3 for a share of zero."""
    with pytest.raises(InputError, match="proportions of class 1 are 0 in every bag"):
        LabelProportions(0).fit(X, BAG, np.zeros_like(SHARE))
    three = pd.DataFrame({"bag": np.arange(len(SHARE)), "ill": SHARE, "well": 1 - SHARE, "dead": 0.0})
    with pytest.raises(InputError, match="proportions of class 'dead' are 0"):
        LabelProportions(0).fit(X.assign(bag=BAG), "bag", three)


def test_the_fit_is_named_after_the_class_that_was_fitted(model):
    assert list(model.convergence_["steps"]) == ["1"]


def test_one_person_without_a_value_is_average_in_it():
    one = pd.DataFrame({"age": [np.nan], "sex": ["m"]})
    gaps = X.assign(age=X["age"].where(np.arange(N) % 7 > 0))
    found = LabelProportions(0, missing="mean").fit(gaps, BAG, SHARE)
    beside = pd.concat([one, X[:3]])
    np.testing.assert_allclose(found.predict_proba(one)[0], found.predict_proba(beside)[0])


def test_a_group_without_weight_is_refused_by_name(model):
    with pytest.raises(InputError, match="sample_weight is zero for everybody of {'sex': 'm'}"):
        model.estimate(X, by="sex", sample_weight=(SEX == "f").astype(float))
