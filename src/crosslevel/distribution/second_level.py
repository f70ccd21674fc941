"""A kernel between bags: exp(-|mu_i - mu_j|^2 / (2 t^2)) in the RKHS, so that labels may depend on means nonlinearly.

The bags' embeddings become inputs of a second kernel with bags as landmarks (Szabo et al. 2016); what follows is linear in its
values, as it was linear in the first kernel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.distribution.features import BagFeatures, LandmarkMap, kernel_values, squared_distances
from crosslevel.distribution.landmarks import choose_landmarks, median_scale
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray

__all__ = ["LEVELS", "SecondLevel", "second_levels"]


LEVELS = ("linear", "rbf")
COUNT = 100
"""Bags that serve as landmarks of the second kernel, at most."""
SCALES = (1.0, 2.0, 4.0)
"""Multiples of the median distance between bags that are tried; the wider, the closer to the linear model."""


@dataclass(frozen=True, eq=False)
class SecondLevel:
    """The second kernel's map.

    Attributes
    ----------
    A : (d, r)
        Whitening of the first kernel: ``mu @ A`` has the RKHS's distances.
    V : (q, r)
        Landmarks, whitened embeddings of bags.
    bandwidth : float
        t.
    """

    A: FloatArray
    V: FloatArray
    bandwidth: float

    def apply(self, features: BagFeatures) -> BagFeatures:
        """Give the second kernel's values in place of the first's means."""
        mu = kernel_values(squared_distances(features.mu @ self.A, self.V), self.bandwidth)
        K = kernel_values(squared_distances(self.V, self.V), self.bandwidth)
        return BagFeatures(mu, features.sizes, K, None, mu.mean(axis=0), features.map)


def second_levels(
    candidates: Sequence[BagFeatures], kind: str, seed: int | None
) -> tuple[list[BagFeatures], list[SecondLevel | None], list[LandmarkMap]]:
    """Put a second kernel on each candidate: the new candidates, how they were made, and the first maps they use."""
    if kind not in LEVELS:
        raise unknown_name("second_level", kind, LEVELS, "choice")
    out: list[BagFeatures] = []
    how: list[SecondLevel | None] = []
    maps: list[LandmarkMap] = []
    for one in candidates:
        points = one.mu @ one.whiten
        equal = np.ones(len(points))
        width = median_scale(points, equal, seed)
        V = choose_landmarks("random", points, equal, COUNT, width, seed)
        for scale in SCALES:
            second = SecondLevel(one.whiten, V, width * scale)
            out.append(second.apply(one))
            how.append(second)
            assert one.map is not None  # for the type
            maps.append(one.map)
    return out, how, maps
