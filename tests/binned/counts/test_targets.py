"""Which cells does a region sum? Parts of cells, points, categories and sums of these, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import Boxes, Intervals, Points, Polygons, WeightedSum, stack
from crosslevel.binned.counts.targets import cut_regions, design
from crosslevel.errors import InputError

SEX = Boxes([[0, 1], [10, 1], [0, 2], [10, 2]], [[10, 1], [30, 1], [10, 2], [30, 2]], point_axes=[1])


def test_intervals_by_hand():
    bins, codes = cut_regions(Intervals([0, 10], [10, 30]), cell=5)
    assert codes == {}
    cells = np.arange(1.0, 7)
    rows = design(bins, codes, Intervals([0, 2.5, 12], [30, 10, 13]))
    np.testing.assert_allclose(rows @ cells, [21, 0.5 + 2, 0.2 * 3], rtol=1e-12)


def test_points_are_densities_and_the_last_edge_belongs_to_the_last_cell():
    bins, codes = cut_regions(Intervals([0, 10], [10, 30]), cell=5)
    cells = np.arange(1.0, 7)
    rows = design(bins, codes, Points([0.0, 5.0, 4.99, 30.0]))
    np.testing.assert_allclose(rows @ cells, [0.2, 0.4, 0.2, 1.2], rtol=1e-12)


def test_a_sliced_axis_is_an_axis_of_categories():
    bins, codes = cut_regions(SEX, cell=[5, None])
    assert codes[1].tolist() == [1.0, 2.0]
    assert bins.categorical == (False, True)
    cells = np.arange(12.0)
    one, two = (cells[np.isclose(bins.lower[:, 1], k)].sum() for k in (0, 1))
    asked = Boxes([[0, 1], [0, 2]], [[30, 1], [30, 2]], point_axes=[1])
    np.testing.assert_allclose(design(bins, codes, asked) @ cells, [one, two])
    both = WeightedSum(asked, [1.0, 1.0])
    np.testing.assert_allclose(design(bins, codes, both) @ cells, [cells.sum()])
    at = stack(Boxes([[0, 2]], [[30, 2]], point_axes=[1]), [[7.0, 2.0]])
    rows = design(bins, codes, at)
    assert rows[1].sum() == pytest.approx(0.2)
    assert (rows[1] > 0).argmax() == ((bins.lower[:, 0] == 5) & (bins.lower[:, 1] == 1)).argmax()


def test_sums_of_boxes_are_observed_whole():
    either = WeightedSum(Boxes([[0, 1], [0, 2]], [[10, 1], [10, 2]], point_axes=[1]), [1, 1])
    bins, _ = cut_regions(stack(either, Boxes([[10, 1]], [[20, 1]], point_axes=[1])), cell=[5, None])
    np.testing.assert_array_equal((bins.C > 0).sum(axis=1), [4, 2])


@pytest.mark.parametrize(
    "ask",
    [
        lambda: cut_regions(Points([1.0, 2.0])),
        lambda: cut_regions(stack(Intervals([0], [10]), [3.0])),
        lambda: cut_regions(Polygons([[[0, 0], [1, 0], [0, 1]]])),
        lambda: cut_regions(SEX, tail=3.0),
        lambda: design(*cut_regions(SEX), Boxes([[0, 3]], [[10, 3]], point_axes=[1])),
        lambda: design(*cut_regions(SEX), Boxes([[0, 1]], [[10, 2]])),
        lambda: design(*cut_regions(Intervals([0, 5], [5, 9])), Intervals([3, 4], [5, 12])),
    ],
)
def test_bad_regions(ask):
    with pytest.raises(InputError):
        ask()
