"""Feature maps ``phi`` whose inner products approximate a kernel, behind one interface.

``make_map("sorf", n_inputs, n_features, bandwidth, random_state)`` draws one; ``.transform(X)`` applies it in float64,
plainly. Millions of rows go through ``crosslevel.numerics.fused`` instead, which never makes the feature matrix.
"""

from __future__ import annotations

from crosslevel.numerics.features.base import FeatureMap, FourierMap, check_piece, gaussian_kernel
from crosslevel.numerics.features.make import MAPS, make_map, median_bandwidth
from crosslevel.numerics.features.maps import DenseFourier, HadamardMap, Landmarks, Linear, Nystrom

__all__ = [
    "MAPS",
    "DenseFourier",
    "FeatureMap",
    "FourierMap",
    "HadamardMap",
    "Landmarks",
    "Linear",
    "Nystrom",
    "check_piece",
    "gaussian_kernel",
    "make_map",
    "median_bandwidth",
]
