"""The methods that all estimators over bags share, of one regressor and one classifier."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, method
from tests.contract.cases.distribution import BAGS, NEW, SMALL, Y

from crosslevel.distribution import BayesianLinear, BayesianLinearClassifier, MeanShrinkage, RBFNetwork
from crosslevel.distribution.base import BagClassifier, BagRegressor

HIGH = np.array(["low", "high"])[(Y > 0).astype(int)]
WEIGHT = np.arange(1.0, 9.0)


def regression():
    return BayesianLinear(**SMALL).fit(BAGS, Y)


def classification():
    return BayesianLinearClassifier(**SMALL).fit(BAGS, HIGH)


def same(found):
    return dict(enumerate(found)) if isinstance(found, tuple) else found


def mean(model):
    return model.predict(NEW)


CASES = []
FUNCTIONS = [
    *(
        FunctionCase(model.fit, {"X": BAGS, "y": Y}, mean, neutral={"progress": "tells how far it is"}, data=("X", "y"))
        for model in (MeanShrinkage(**SMALL), RBFNetwork(**SMALL))
    ),
    FunctionCase(
        method(BagRegressor, "estimate", regression),
        {"X": NEW},
        same,
        variants={"level": [0.8, 95], "y": [Y[:8], Y[:3]]},
        data=("X",),
    ),
    FunctionCase(
        method(BagRegressor, "predict", regression),
        {"X": NEW},
        same,
        variants={"return_std": [True]},
        data=("X",),
    ),
    FunctionCase(
        method(BagRegressor, "predict_interval", regression),
        {"X": NEW},
        same,
        variants={"level": [0.8, 95]},
        data=("X",),
    ),
    FunctionCase(
        method(BagClassifier, "estimate", classification),
        {"X": NEW},
        same,
        variants={"y": [HIGH[:8], HIGH[:3], np.repeat("middle", 8)]},
        data=("X",),
    ),
    *(
        FunctionCase(
            method(cls, "score", make),
            {"X": NEW, "y": y[:8]},
            np.array,
            variants={"sample_weight": [WEIGHT, WEIGHT[:3]]},
            data=("X", "y"),
        )
        for cls, make, y in ((BagRegressor, regression, Y), (BagClassifier, classification, HIGH))
    ),
]
