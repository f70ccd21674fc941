"""Coverage, calibration, cross-validation over bags, and the hidden-label test, for any room."""

from __future__ import annotations

import importlib
from typing import Any

from crosslevel.errors import nearest

_HOMES = {
    "BagValidation": "crosslevel.diagnostics.bag_folds",
    "ConformalScale": "crosslevel.diagnostics.calibration",
    "calibration_table": "crosslevel.diagnostics.calibration",
    "compare_places": "crosslevel.diagnostics.place_scores",
    "conformal_interval": "crosslevel.diagnostics.calibration",
    "cross_validate_bags": "crosslevel.diagnostics.bag_folds",
    "fit_conformal": "crosslevel.diagnostics.calibration",
    "gaussian_nll": "crosslevel.diagnostics.calibration",
    "gaussian_pit": "crosslevel.diagnostics.calibration",
    "hidden_label": "crosslevel.diagnostics.hidden_labels",
    "pit_uniformity": "crosslevel.diagnostics.calibration",
    "size_strata": "crosslevel.diagnostics.calibration",
}
"""Public name -> the module that defines it."""

__all__ = [
    "BagValidation",
    "ConformalScale",
    "calibration_table",
    "compare_places",
    "conformal_interval",
    "cross_validate_bags",
    "fit_conformal",
    "gaussian_nll",
    "gaussian_pit",
    "hidden_label",
    "pit_uniformity",
    "size_strata",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'crosslevel.diagnostics' has no attribute {name!r}.{nearest(name, __all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
