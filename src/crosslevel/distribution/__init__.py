"""What label belongs to a group, given a sample of its members, and how much does a small sample cost?

Names are imported when they are first used, so that a linear model needs no sampler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from crosslevel.errors import nearest

if TYPE_CHECKING:
    from crosslevel.distribution.linear.estimator import (
        BayesianLinear,
        BayesianLinearClassifier,
        FrequentistShrinkage,
        RBFNetwork,
    )
    from crosslevel.distribution.sampled.estimator import FullBayes, FullBayesClassifier
    from crosslevel.distribution.shrinkage.estimator import MeanShrinkage, MeanShrinkageClassifier

__all__ = [
    "BayesianLinear",
    "BayesianLinearClassifier",
    "FrequentistShrinkage",
    "FullBayes",
    "FullBayesClassifier",
    "MeanShrinkage",
    "MeanShrinkageClassifier",
    "RBFNetwork",
]

_HOMES = {
    "BayesianLinear": "linear",
    "BayesianLinearClassifier": "linear",
    "FrequentistShrinkage": "linear",
    "FullBayes": "sampled",
    "FullBayesClassifier": "sampled",
    "MeanShrinkage": "shrinkage",
    "MeanShrinkageClassifier": "shrinkage",
    "RBFNetwork": "linear",
}
"""Public name -> the folder of its model."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'crosslevel.distribution' has no attribute {name!r}.{nearest(name, __all__)}")
    value = getattr(importlib.import_module(f"crosslevel.distribution.{_HOMES[name]}.estimator"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
