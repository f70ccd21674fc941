"""Sums of the features of a tile by bag, as Python runs them, against loops over rows; compiled they are part of the embedding's tests."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.numerics.fused import accumulate
from crosslevel.numerics.fused.butterfly import LANES


@pytest.fixture
def plain(monkeypatch):
    """The module with its kernels uncompiled: nothing to wait for."""
    names = ("find_cells", "find_bags", "_add_weighted", "add_lines", "open_tile", "add_features", "mark_bags", "tally")
    for name in names:
        kernel = getattr(accumulate, name)
        monkeypatch.setattr(accumulate, name, getattr(kernel, "py_func", kernel))
    return accumulate


def people(n=30, seed=0):
    """People of up to three of seven bags, neighbors often alike; -1 is no bag."""
    rng = np.random.default_rng(seed)
    kinds = np.array([[0, 2, -1], [0, -1, 5], [4, 2, 1], [-1, -1, -1], [6, -1, -1]])
    return kinds[np.sort(rng.integers(0, 5, n))], rng.uniform(0.5, 2.0, n)


def tile_of(n_bags=7, width=5):
    return (
        np.full(LANES * width, np.nan),
        np.full(LANES, np.nan),
        np.zeros(LANES + 1, dtype=np.int64),
        np.full(n_bags, -1),
        np.zeros(n_bags + 1, dtype=np.int64),
        np.zeros(n_bags + 1, dtype=np.int64),
        np.zeros(LANES * 3, dtype=np.uint64),
    )


def test_cells_are_runs_of_equal_membership(plain):
    bags = np.array([[0, 1], [0, 1], [0, 2], [0, 2], [0, 2], [3, 2], [0, 1]])
    start = np.zeros(9, dtype=np.int64)
    assert plain.find_cells(bags, np.arange(7), start) == 4
    assert start[:5].tolist() == [0, 2, 5, 6, 7]
    assert plain.find_cells(bags, np.array([0, 6, 1, 5]), start) == 2  # rows may come in any order
    assert start[:3].tolist() == [0, 3, 4]
    assert plain.find_cells(bags, np.array([2]), start) == 1


def test_bags_of_a_tile_have_the_cells_their_rows_are_in(plain):
    bags, weights = people()
    rows = np.arange(3, 28)
    tile = tile_of()
    cells, found = plain.open_tile(bags, weights, rows, tile)
    _, lane_weights, cell_start, slot, bag_list, bag_start, bag_cells = tile
    np.testing.assert_array_equal(lane_weights[:25], weights[rows])
    np.testing.assert_array_equal(lane_weights[25:], 0.0)
    assert sorted(bag_list[:found]) == sorted(set(bags[rows].ravel()) - {-1})
    assert (slot == -1).all()
    for i in range(found):
        members = bag_cells[bag_start[i] : bag_start[i + 1]].tolist()
        expected = [c for c in range(cells) if bag_list[i] in bags[rows[cell_start[c]]]]
        assert members == expected
    assert bag_start[0] == 0


@pytest.mark.parametrize("n", range(1, 12))
def test_weighted_sums_of_any_number_of_rows(plain, n):
    rng = np.random.default_rng(n)
    phi, weights = rng.normal(size=(14, 3)), rng.normal(size=14)
    total = np.full(3, np.nan)
    plain._add_weighted(total, phi.ravel(), 3, 2, 2 + n, weights)
    np.testing.assert_allclose(total, weights[2 : 2 + n] @ phi[2 : 2 + n], atol=1e-14)


@pytest.mark.parametrize("used", [5, 3])
def test_features_reach_every_bag_of_their_row(plain, used):
    bags, weights = people(seed=1)
    rows, width = np.arange(30), 5
    tile = tile_of(width=width)
    cells, found = plain.open_tile(bags, weights, rows, tile)
    phi = np.random.default_rng(2).normal(size=(LANES, width))
    sums = np.ones((7, 9))
    plain.add_features(phi.ravel(), width, used, tile, cells, found, sums, 2)
    expected = np.ones((7, 9))
    for row in rows:
        for bag in bags[row]:
            if bag >= 0:
                expected[bag, 2 : 2 + used] += weights[row] * phi[row, :used]
    np.testing.assert_allclose(sums, expected, rtol=1e-12)
