"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslevel.krls import KRLS


# random outcomes put the penalty at its limit, which is worth a warning and no failure
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@parametrize_with_checks([KRLS(), KRLS(rule="krls", inference="krls"), KRLS(penalty=0.5, method="exact")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
