"""scikit-learn's own checks of the estimators that take arrays; over bags, rows of an array are bags of one.

No check is expected to fail.
"""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslevel import distribution as room
from crosslevel.krls import KRLS

FEW = {"n_landmarks": 8, "bandwidth_scale": 1.0}
MORE = {"n_landmarks": 30, "bandwidth_scale": 1.5}
ESTIMATORS = [
    KRLS(),
    KRLS(rule="krls", inference="krls"),
    KRLS(penalty=0.5, inference="hc3"),
    room.BayesianLinear(),
    room.BayesianLinear(prior="iid", fit_intercept=False, landmarks="random"),
    room.BayesianLinear(n_landmarks=10, bandwidth_scale=1.0, second_level="rbf"),
    room.RBFNetwork(),
    room.RBFNetwork(**MORE, rule="gcv", norm="rkhs"),
    room.FrequentistShrinkage(),
    room.FrequentistShrinkage(filter="simple", n_landmarks=10),
    room.BayesianLinearClassifier(n_landmarks=(10, 20), bandwidth_scale=(0.75, 1.25)),
    room.MeanShrinkage(**MORE),
    room.MeanShrinkage("integral", **MORE),
    room.MeanShrinkageClassifier(**FEW, n_restarts=0),
]
SHORT = MORE | {"n_chains": 2, "n_warmup": 20, "n_draws": 20, "allow_unconverged": True}
SAMPLED = [room.FullBayes(**SHORT), room.FullBayesClassifier(**SHORT)]


# random outcomes put a penalty at its limit, which is worth a warning and no failure
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: {})
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# chains this short never converge, which they say
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@pytest.mark.slow
@parametrize_with_checks(SAMPLED, expected_failed_checks=lambda estimator: {})
def test_scikit_learn_checks_of_sampled_models(estimator, check):
    check(estimator)
