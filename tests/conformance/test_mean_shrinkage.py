"""scikit-learn's own checks of the mean-shrinkage estimators."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslevel.distribution.sampled.estimator import FullBayes, FullBayesClassifier
from crosslevel.distribution.shrinkage.estimator import MeanShrinkage, MeanShrinkageClassifier

SMALL = {"n_landmarks": 30, "bandwidth_scale": 1.5}
FEW = {"n_landmarks": 8, "bandwidth_scale": 1.0}
SHORT = SMALL | {"n_chains": 2, "n_warmup": 20, "n_draws": 20, "allow_unconverged": True}


# no check is expected to fail, here or below
@parametrize_with_checks(
    [MeanShrinkage(**SMALL), MeanShrinkage("integral", **SMALL), MeanShrinkageClassifier(n_restarts=0, **FEW)],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# chains this short never converge, which they say
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [FullBayes(**SHORT), FullBayesClassifier(**SHORT)], expected_failed_checks=lambda estimator: {}
)
def test_scikit_learn_checks_of_sampled_models(estimator, check):
    check(estimator)
