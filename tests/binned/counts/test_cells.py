"""Are bins cut into the right cells, and bad bins refused with a sentence?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.counts.cells import bins_from_boxes, bins_from_edges, bins_from_intervals, difference_nested
from crosslevel.errors import InputError


def test_uneven_bins_are_cut_at_their_edges_and_measured_in_bins():
    bins = bins_from_edges([0, 1, 5, 15], cell=1)
    assert bins.n_cells == 15
    assert (bins.C.sum(axis=1) == [1, 4, 10]).all()
    assert bins.disjoint
    assert bins.warped[[0, 1, 14], 0] == pytest.approx([0.5, 1.125, 2.95])


def test_default_cells_are_finer_than_the_bins():
    for edges in ([0, 20, 40, 60, 80, 90], np.arange(0, 91, 5), np.linspace(0, 1, 4), [0, 1, 100]):
        bins = bins_from_edges(edges)
        assert 90 <= bins.n_cells <= 310
        assert bins.C.sum() == pytest.approx(edges[-1] - edges[0])


def test_an_open_end_has_a_tail():
    tail = bins_from_edges([0, 50, 90, np.inf], cell=1, tail=4.0)
    beyond = tail.lower[:, 0] >= 90
    assert tail.weight[beyond].sum() == pytest.approx(4.0 * (1 - np.exp(-7.0)))
    mean_excess = (tail.weight[beyond] @ (tail.centers[beyond, 0] - 90)) / tail.weight[beyond].sum()
    assert mean_excess == pytest.approx(4.0, rel=0.03)
    assert tail.span[0] == pytest.approx(90.0)
    assert (tail.places[beyond, 0] == 90).all()
    assert tail.warped[beyond, 0].min() > 2
    assert tail.warped[:, 0].max() < 3
    assert (np.diff(tail.warped[:, 0]) > 0).all()
    low = bins_from_edges([-np.inf, 50, 90], cell=1, tail=4.0)
    assert (np.diff(low.warped[:, 0]) > 0).all()
    assert low.warped[0, 0] > 0
    assert low.weight[low.upper[:, 0] <= 50].sum() == pytest.approx(4.0 * (1 - np.exp(-7.0)))


def test_boxes_of_ages_and_gender():
    lower = [[0, 0], [10, 0], [0, 1], [10, 1]]
    bins = bins_from_boxes(lower, np.add(lower, [[10, 1]] * 4), (1, None), categorical=[1])
    assert bins.n_cells == 40
    assert bins.disjoint
    assert (bins.C.sum(axis=1) == 10).all()
    both = bins_from_boxes([[0, 0], [10, 0]], [[10, 2], [20, 2]], (1, None), categorical=[1])
    assert (both.C.sum(axis=1) == 20).all()


def test_nested_bins_are_differenced():
    bins = bins_from_intervals([0, 0, 10, 0], [90, 10, 30, 30], cell=2)
    disjoint, totals = difference_nested(bins, np.array([100.0, 20.0, 25.0, 45.0]))
    assert disjoint.disjoint
    assert sorted(totals.tolist()) == [20.0, 25.0, 55.0]
    assert disjoint.C.sum(axis=1)[np.argsort(totals)].tolist() == [10.0, 20.0, 60.0]
    assert disjoint.warped[:, 0].max() == pytest.approx(3.0, abs=0.1)
    assert difference_nested(bins_from_intervals([0, 5], [10, 15]), np.array([1.0, 1.0])) is None
    with pytest.raises(InputError):
        difference_nested(bins_from_intervals([0, 0], [90, 10], cell=2), np.array([100.0, 120.0]))
    with pytest.raises(InputError):
        difference_nested(bins_from_intervals([0, 0, 5], [10, 5, 10], cell=1), np.array([9.0, 3.0, 3.0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda: bins_from_edges([0, 5, np.inf]),
        lambda: bins_from_edges([-np.inf, 5, 8]),
        lambda: bins_from_edges([0, 5], tail=3.0),
        lambda: bins_from_edges([0, 5, np.inf], tail=-1),
        lambda: bins_from_edges([0, 5], cell=0),
        lambda: bins_from_edges([0, 5], cell=1e-5),
        lambda: bins_from_boxes([[0, 0]], [[1, 1]], (1,)),
    ],
)
def test_bad_bins_are_explained(call):
    with pytest.raises(InputError):
        call()
