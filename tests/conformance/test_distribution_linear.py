"""scikit-learn's own checks of the closed-form estimators over bags; rows of an array are bags of one."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslevel.distribution.linear.estimator import (
    BayesianLinear,
    BayesianLinearClassifier,
    FrequentistShrinkage,
    RBFNetwork,
)

ESTIMATORS = [
    BayesianLinear(),
    BayesianLinear(prior="iid", fit_intercept=False, landmarks="random"),
    BayesianLinear(n_landmarks=10, bandwidth_scale=1.0, second_level="rbf"),
    RBFNetwork(),
    RBFNetwork(n_landmarks=8, bandwidth_scale=1.0, fine_tune=True, tuning_steps=3),
    FrequentistShrinkage(),
    FrequentistShrinkage(filter="simple", target="mean", landmarks="leverage", n_landmarks=10),
    FrequentistShrinkage(n_landmarks=8, bandwidth_scale=1.0, second_level="rbf"),
    BayesianLinearClassifier(n_landmarks=(10, 20), bandwidth_scale=(0.75, 1.25)),
]


# no check is expected to fail
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: {})
def test_scikit_learn_checks(estimator, check):
    check(estimator)
