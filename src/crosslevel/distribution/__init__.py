"""What label belongs to a group, given a sample of its members, and how much does a small sample cost?

Names are imported when they are first used, so that a linear model needs no sampler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from crosslevel.errors import nearest

if TYPE_CHECKING:
    from crosslevel.distribution.bayesian_linear import BayesianLinear
    from crosslevel.distribution.frequentist import FrequentistShrinkage
    from crosslevel.distribution.full_bayes import FullBayes, FullBayesClassifier
    from crosslevel.distribution.linear_classifier import BayesianLinearClassifier
    from crosslevel.distribution.mean_shrinkage import MeanShrinkage, MeanShrinkageClassifier
    from crosslevel.distribution.rbf_network import RBFNetwork
    from crosslevel.distribution.stored import StoredBags

__all__ = [
    "BayesianLinear",
    "BayesianLinearClassifier",
    "FrequentistShrinkage",
    "FullBayes",
    "FullBayesClassifier",
    "MeanShrinkage",
    "MeanShrinkageClassifier",
    "RBFNetwork",
    "StoredBags",
]

_HOMES = {
    "BayesianLinear": "bayesian_linear",
    "BayesianLinearClassifier": "linear_classifier",
    "FrequentistShrinkage": "frequentist",
    "FullBayes": "full_bayes",
    "FullBayesClassifier": "full_bayes",
    "MeanShrinkage": "mean_shrinkage",
    "MeanShrinkageClassifier": "mean_shrinkage",
    "RBFNetwork": "rbf_network",
    "StoredBags": "stored",
}
"""Public name -> the module of this room that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'crosslevel.distribution' has no attribute {name!r}.{nearest(name, __all__)}")
    value = getattr(importlib.import_module(f"crosslevel.distribution.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
