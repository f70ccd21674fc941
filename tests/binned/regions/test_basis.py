from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.regions.basis import correlations_by_points, region_correlations
from crosslevel.binned.regions.boxes import Intervals
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.errors import InputError

pytest.importorskip("shapely")

SHAPES = Polygons(
    [[[0, 0], [2, 0], [0.5, 1.5]], [[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]], [[3, 3], [4, 3], [3, 3.5]]]
)


@pytest.mark.parametrize("kernel", ["eq", "matern52", "matern32"])
def test_the_reported_error_holds(kernel):
    """Against cubature, which shares no step with the features."""
    length, tolerance = 1.5, 1e-3
    R, error = region_correlations(SHAPES, kernel, length, tolerance)
    truth, off = correlations_by_points(SHAPES, kernel, length, 1.5)
    assert off < 1e-3 * (kernel != "eq") + 1e-8
    assert error <= tolerance
    sd = np.sqrt(np.diag(truth))
    assert np.abs((R - truth) / np.outer(sd, sd)).max() <= error + off


def test_rough_kernels_are_summed_over_points():
    R, off = correlations_by_points(SHAPES, "matern12", 1.5)
    fine, left = correlations_by_points(SHAPES, "matern12", 1.5, 1.2)
    assert left < off < 0.01
    np.testing.assert_allclose(R, fine, rtol=off + left)
    features, error = region_correlations(SHAPES, "matern12", 1.5, tolerance=3e-3)
    np.testing.assert_allclose(features, fine, atol=error + left)


def test_the_number_of_features_stops_growing_where_told(monkeypatch):
    monkeypatch.setattr("crosslevel.binned.regions.basis.MOST", 300)
    assert region_correlations(SHAPES, "matern32", 1.0, tolerance=1e-3)[1] > 1e-3
    with pytest.raises(InputError, match="tolerance="):
        region_correlations(SHAPES, "eq", 1.0, tolerance=0)


def test_units_and_one_dimension():
    meters = Polygons([[1000.0 * np.array(r) for r in part] for shape in SHAPES.shapes for part in shape])
    a, b = (region_correlations(s, "eq", length, tolerance=1e-6)[0] for s, length in ((SHAPES, 1.0), (meters, 1000.0)))
    np.testing.assert_allclose(a, b, rtol=1e-9)
    R, _ = region_correlations(Intervals([0.0, 1.0], [1.0, 3.0]), "eq", np.sqrt(0.5), tolerance=1e-8)
    assert R[0, 0] == pytest.approx(0.8615277067962964, rel=1e-7)
