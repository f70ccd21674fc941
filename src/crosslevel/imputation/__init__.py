"""What was each person's hidden value, when only group means were published?

The names are loaded on first use (PEP 562): pooling the answers of completed data sets needs no model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "CUDIA": "crosslevel.imputation.estimator",
    "AddImputed": "crosslevel.imputation.add_imputed",
    "IndividualLink": "crosslevel.imputation.individual_link.estimator",
    "evaluate": "crosslevel.imputation.evaluation",
    "evaluate_downstream": "crosslevel.imputation.evaluation",
    "pool": "crosslevel.imputation.pooling",
    "pool_statistic": "crosslevel.imputation.pooling",
}
"""Public name -> the module that defines it."""

__all__ = ["CUDIA", "AddImputed", "IndividualLink", "evaluate", "evaluate_downstream", "pool", "pool_statistic"]

if TYPE_CHECKING:
    from crosslevel.imputation.add_imputed import AddImputed
    from crosslevel.imputation.estimator import CUDIA
    from crosslevel.imputation.evaluation import evaluate, evaluate_downstream
    from crosslevel.imputation.individual_link.estimator import IndividualLink
    from crosslevel.imputation.pooling import pool, pool_statistic


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crosslevel.imputation' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
