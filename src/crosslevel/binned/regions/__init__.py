"""Where was it measured? Intervals, boxes, polygons, simplices, points and weighted sums of these.

The names are loaded on first use (PEP 562), so that polygons import no geometry library before they are wanted.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Boxes": "crosslevel.binned.regions.boxes",
    "Intervals": "crosslevel.binned.regions.boxes",
    "Points": "crosslevel.binned.regions.boxes",
    "Polygons": "crosslevel.binned.regions.polygons",
    "Regions": "crosslevel.binned.regions.base",
    "Simplices": "crosslevel.binned.regions.simplices",
    "Stack": "crosslevel.binned.regions.sums",
    "WeightedSum": "crosslevel.binned.regions.sums",
    "as_regions": "crosslevel.binned.regions.boxes",
    "stack": "crosslevel.binned.regions.sums",
}

__all__ = [
    "Boxes",
    "Intervals",
    "Points",
    "Polygons",
    "Regions",
    "Simplices",
    "Stack",
    "WeightedSum",
    "as_regions",
    "stack",
]

if TYPE_CHECKING:
    from crosslevel.binned.regions.base import Regions
    from crosslevel.binned.regions.boxes import Boxes, Intervals, Points, as_regions
    from crosslevel.binned.regions.polygons import Polygons
    from crosslevel.binned.regions.simplices import Simplices
    from crosslevel.binned.regions.sums import Stack, WeightedSum, stack


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crosslevel.binned.regions' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
