"""What curve or surface lies behind bins, boxes and areas?

The names are loaded on first use (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "BinnedGP": "crosslevel.binned.estimator",
    "Boxes": "crosslevel.binned.regions.boxes",
    "Intervals": "crosslevel.binned.regions.intervals",
    "Points": "crosslevel.binned.regions.points",
    "Polygons": "crosslevel.binned.regions.polygons",
    "Simplices": "crosslevel.binned.regions.simplices",
    "WeightedSum": "crosslevel.binned.regions.sums",
    "stack": "crosslevel.binned.regions.sums",
}
_MODULES = ("area_answers", "areas", "counts", "kernels", "regions")

__all__ = [
    "BinnedGP",
    "Boxes",
    "Intervals",
    "Points",
    "Polygons",
    "Simplices",
    "WeightedSum",
    "area_answers",
    "areas",
    "counts",
    "kernels",
    "regions",
    "stack",
]

if TYPE_CHECKING:
    from crosslevel.binned import area_answers, areas, counts, kernels, regions
    from crosslevel.binned.estimator import BinnedGP
    from crosslevel.binned.regions.boxes import Boxes
    from crosslevel.binned.regions.intervals import Intervals
    from crosslevel.binned.regions.points import Points
    from crosslevel.binned.regions.polygons import Polygons
    from crosslevel.binned.regions.simplices import Simplices
    from crosslevel.binned.regions.sums import WeightedSum, stack


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(f"crosslevel.binned.{name}")
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'crosslevel.binned' has no attribute {name!r}")
    globals()[name] = value
    return value
