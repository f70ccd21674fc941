"""How does y respond to each x, with no functional form assumed?

The names are loaded on first use (PEP 562), so that the modules on arrays can be imported without any dataframe library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "KRLS": "crosslevel.krls.estimator",
    "KernelLogistic": "crosslevel.krls.logistic.estimator",
    "Cost": "crosslevel.krls.costs",
    "cost": "crosslevel.krls.costs",
}

__all__ = ["KRLS", "Cost", "KernelLogistic", "cost"]

if TYPE_CHECKING:
    from crosslevel.krls.costs import Cost, cost
    from crosslevel.krls.estimator import KRLS
    from crosslevel.krls.logistic.estimator import KernelLogistic


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crosslevel.krls' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
