"""What curve or surface lies behind bins, boxes and areas?

The names are loaded on first use (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "BinnedCountGP": "crosslevel.binned.counts.estimator",
    "BinnedGP": "crosslevel.binned.gaussian.estimator",
    "Boxes": "crosslevel.binned.regions.boxes",
    "Intervals": "crosslevel.binned.regions.boxes",
    "Points": "crosslevel.binned.regions.boxes",
    "Polygons": "crosslevel.binned.regions.polygons",
    "Simplices": "crosslevel.binned.regions.simplices",
    "WeightedSum": "crosslevel.binned.regions.sums",
    "stack": "crosslevel.binned.regions.sums",
}
_MODULES = {"areas": "crosslevel.binned.areas", "kernels": "crosslevel.binned.gaussian.kernels"}

__all__ = [
    "BinnedCountGP",
    "BinnedGP",
    "Boxes",
    "Intervals",
    "Points",
    "Polygons",
    "Simplices",
    "WeightedSum",
    "areas",
    "kernels",
    "stack",
]

if TYPE_CHECKING:
    from crosslevel.binned import areas
    from crosslevel.binned.counts.estimator import BinnedCountGP
    from crosslevel.binned.gaussian import kernels
    from crosslevel.binned.gaussian.estimator import BinnedGP
    from crosslevel.binned.regions.boxes import Boxes, Intervals, Points
    from crosslevel.binned.regions.polygons import Polygons
    from crosslevel.binned.regions.simplices import Simplices
    from crosslevel.binned.regions.sums import WeightedSum, stack


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'crosslevel.binned' has no attribute {name!r}")
    globals()[name] = value
    return value
