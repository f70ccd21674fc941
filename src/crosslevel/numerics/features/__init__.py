"""Feature maps ``phi`` whose inner products approximate a kernel, behind one interface.

``make_map("sorf", n_inputs, n_features, bandwidth, random_state)`` draws one; ``.transform(X)`` applies it in float64,
plainly. Millions of rows go through ``crosslevel.numerics.fused`` instead, which never makes the feature matrix.
"""

from __future__ import annotations

from crosslevel.numerics.features.bandwidth import median_bandwidth
from crosslevel.numerics.features.base import FeatureMap, FourierMap, gaussian_kernel
from crosslevel.numerics.features.dense import DenseFourier
from crosslevel.numerics.features.landmark import Landmarks, Linear, Nystrom
from crosslevel.numerics.features.make import MAPS, from_arrays, make_map
from crosslevel.numerics.features.structured import FastFood, StructuredOrthogonal

__all__ = [
    "MAPS",
    "DenseFourier",
    "FastFood",
    "FeatureMap",
    "FourierMap",
    "Landmarks",
    "Linear",
    "Nystrom",
    "StructuredOrthogonal",
    "from_arrays",
    "gaussian_kernel",
    "make_map",
    "median_bandwidth",
]
