from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.regions.planes import to_plane

pyproj = pytest.importorskip("pyproj")


def test_areas_are_those_of_the_ellipsoid():
    ring = np.array([[-2.4, 53.3], [-2.2, 53.3], [-2.2, 53.5], [-2.4, 53.5]])
    fine = np.concatenate(
        [np.linspace(a, b, 200, endpoint=False) for a, b in zip(ring, np.roll(ring, -1, 0), strict=True)]
    )
    x, y = to_plane(fine, (0.5, 52.0)).T
    area = 0.5 * abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))
    # sides along parallels are no geodesics, so many corners are given to both
    truth = abs(pyproj.Geod(ellps="WGS84").polygon_area_perimeter(fine[:, 0], fine[:, 1])[0]) / 1e6
    assert area == pytest.approx(truth, rel=1e-6)
