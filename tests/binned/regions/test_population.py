from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import holders, populated
from crosslevel.errors import InputError

pytest.importorskip("shapely")

LEFT, RIGHT = [[0, 0], [2, 0], [2, 2], [0, 2]], [[2, 0], [4, 0], [4, 2], [2, 2]]
TOWNS = Polygons([LEFT, RIGHT], names=["west", "east"])
WARDS = Polygons(
    [[[2 * t + x, 0], [2 * t + x + 1, 0], [2 * t + x + 1, 2], [2 * t + x, 2]] for t in (1, 0) for x in (0, 1)]
)
K = np.random.default_rng(0).normal(size=(9, 2))


def test_holders_of_points_and_polygons():
    assert holders([[1, 1], [3, 1], [9, 9], [2, 1]], TOWNS).tolist() == [0, 1, -1, 0]
    assert holders(WARDS, TOWNS).tolist() == [1, 1, 0, 0]


def test_even_people_are_areas():
    """With people in proportion to area the weighted towns are the towns, in the order of the towns."""
    towns = populated(TOWNS, WARDS, 10 * WARDS.volumes)
    np.testing.assert_allclose(towns.volumes, 10 * TOWNS.volumes)
    np.testing.assert_allclose(towns.fourier_integrals(K), 10 * TOWNS.fourier_integrals(K), atol=1e-12)


def test_uneven_people_count_where_they_live():
    people = np.array([5.0, 0.0, 30.0, 10.0])
    towns = populated(TOWNS, WARDS, people)
    waves = WARDS.fourier_integrals(K) / WARDS.volumes[:, None] * people[:, None]
    np.testing.assert_allclose(towns.fourier_integrals(K), [waves[2] + waves[3], waves[0] + waves[1]], atol=1e-12)
    rule = towns.summed_pieces(np.ones(2))
    np.testing.assert_allclose(rule.gather(np.exp(1j * rule.lower @ K.T)), towns.fourier_integrals(K), atol=1e-6)
    np.testing.assert_allclose(rule.gather(np.ones(len(rule))), [40.0, 5.0])


def test_points_outside_are_left_out():
    points = np.array([[9.0, 9.0], [3.0, 1.0], [1.0, 1.0], [0.5, 0.5]])
    towns = populated(TOWNS, points, [100, 7, 2, 3])
    np.testing.assert_allclose(towns.volumes, [5.0, 7.0])
    waves = np.exp(1j * points @ K.T)
    np.testing.assert_allclose(towns.fourier_integrals(K)[0], 2 * waves[2] + 3 * waves[3])


@pytest.mark.parametrize(
    ("places", "people"),
    [
        ([[1.0, 1.0]], [4]),
        ([[1.0, 1.0], [3.0, 1.0]], [4, -1]),
        ([[1.0, 1.0], [3.0, 1.0]], [4]),
        ([[1.0, 1.0, 1.0]], [4]),
    ],
)
def test_bad_people_get_a_sentence(places, people):
    with pytest.raises(InputError):
        populated(TOWNS, places, people)
