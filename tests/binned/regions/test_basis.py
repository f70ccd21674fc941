from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.regions.basis import choose_basis, correlations_by_points, region_correlations
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
    R, chosen = region_correlations(SHAPES, kernel, length, form="isotropic", tolerance=tolerance)
    truth, off = correlations_by_points(SHAPES, kernel, length, 1.5)
    assert off < 1e-3 * (kernel != "eq") + 1e-8
    assert chosen.error <= tolerance
    sd = np.sqrt(np.diag(truth))
    assert np.abs((R - truth) / np.outer(sd, sd)).max() <= chosen.error + off
    assert f"{len(chosen.basis):,} features" in str(chosen)


def test_rough_kernels_are_summed_over_points():
    R, off = correlations_by_points(SHAPES, "matern12", 1.5)
    fine, left = correlations_by_points(SHAPES, "matern12", 1.5, 1.2)
    assert left < off < 0.01
    np.testing.assert_allclose(R, fine, rtol=off + left)
    features, chosen = region_correlations(SHAPES, "matern12", 1.5, form="isotropic", tolerance=3e-3)
    np.testing.assert_allclose(features, fine, atol=chosen.error + left)


def test_the_number_grows_with_what_is_asked_and_stops_where_told():
    sizes = [len(choose_basis(SHAPES, "matern32", 1.0, tolerance=t).basis) for t in (1e-1, 1e-2, 1e-3)]
    assert sizes[0] < sizes[1] < sizes[2]
    small = choose_basis(SHAPES, "matern32", 1.0, tolerance=1e-3, max_features=300)
    assert len(small.basis) <= max(300, sizes[0])
    assert small.error > 1e-3
    with pytest.raises(InputError, match="tolerance=0 is not positive"):
        choose_basis(SHAPES, "eq", 1.0, tolerance=0)


def test_units_and_one_dimension():
    metres = Polygons([[1000.0 * np.array(r) for r in part] for shape in SHAPES.shapes for part in shape])
    a, b = (region_correlations(s, "eq", length, tolerance=1e-6)[0] for s, length in ((SHAPES, 1.0), (metres, 1000.0)))
    np.testing.assert_allclose(a, b, rtol=1e-9)
    R, _ = region_correlations(Intervals([0.0, 1.0], [1.0, 3.0]), "eq", np.sqrt(0.5), tolerance=1e-8)
    assert R[0, 0] == pytest.approx(0.8615277067962964, rel=1e-7)
