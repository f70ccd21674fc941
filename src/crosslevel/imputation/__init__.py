"""What was each person's hidden value, when only group means were published?

The names are loaded on first use (PEP 562): pooling the answers of completed data sets needs no model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "CUDIA": "crosslevel.imputation.cudia.estimator",
    "AddImputed": "crosslevel.imputation.add_imputed",
    "CrossLevelImputer": "crosslevel.imputation.persons.estimator",
    "evaluate": "crosslevel.imputation.evaluation",
    "evaluate_downstream": "crosslevel.imputation.evaluation",
    "pool": "crosslevel.imputation.rubin",
    "pool_statistic": "crosslevel.imputation.rubin",
}
"""Public name -> the module that defines it."""

__all__ = ["CUDIA", "AddImputed", "CrossLevelImputer", "evaluate", "evaluate_downstream", "pool", "pool_statistic"]

if TYPE_CHECKING:
    from crosslevel.imputation.add_imputed import AddImputed
    from crosslevel.imputation.cudia.estimator import CUDIA
    from crosslevel.imputation.evaluation import evaluate, evaluate_downstream
    from crosslevel.imputation.persons.estimator import CrossLevelImputer
    from crosslevel.imputation.rubin import pool, pool_statistic


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crosslevel.imputation' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
