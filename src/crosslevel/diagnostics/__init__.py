"""Is the answer to be trusted? Coverage, calibration and the hidden-label test, for any room."""

from __future__ import annotations

import importlib
from typing import Any

from crosslevel.errors import nearest

_HOMES = {
    "hidden_label": "crosslevel.diagnostics.hiding",
}
"""Public name -> the module that defines it."""

__all__ = ["hidden_label"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'crosslevel.diagnostics' has no attribute {name!r}.{nearest(name, __all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
