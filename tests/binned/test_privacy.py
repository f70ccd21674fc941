"""Small groups that differences of nested totals give away: what subtraction finds, and no other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslevel.binned import Boxes, Intervals, Polygons
from crosslevel.binned.baselines import shared_volumes
from crosslevel.binned.privacy import privacy_warnings, revealed_groups
from crosslevel.errors import MissingExtraError

pytest.importorskip("shapely")


def square(a, b, c, d):
    return [[a, b], [c, b], [c, d], [a, d]]


def found(regions, y, noise=1e-6):
    return revealed_groups(regions, np.asarray(y, dtype=float), noise)


def test_nested_intervals():
    assert found(Intervals([0, 0], [64, 65]), [5000, 5002]) == [(1, [0], 2.0)]
    assert found(Intervals([0, 0], [64, 65]), [8e6, 8e6 + 3]) == [(1, [0], 3.0)]
    # a whole less its parts, in two places
    assert found(Intervals([0, 2, 50], [60, 48, 60]), [90, 60, 23]) == [(0, [1, 2], 7.0)]
    assert found(Intervals([0, 0, 85], [85, 90, np.inf], open_ended=True), [500, 504, 30]) == [(1, [0], 4.0)]
    chain = found(Intervals(np.zeros(30), np.arange(40, 70)), 5000.0 + 3 * np.arange(30))
    assert chain == [(i + 1, [i], 3.0) for i in range(29)]


def test_boxes_categories_and_polygons():
    assert found(Boxes([[0, 0], [1, 1]], [[4, 4], [2, 2]]), [500, 497]) == [(0, [1], 3.0)]
    slices = Boxes([[0, 0], [0, 0], [0, 1]], [[40, 0], [39, 0], [30, 1]], point_axes=[1])
    assert found(slices, [320, 317, 319]) == [(0, [1], 3.0)]
    areas = Polygons([square(0, 0, 4, 4), square(1, 1, 2, 2), square(3, 3, 6, 6)], names=["A", "B", "C"])
    assert found(areas, [500, 497, 30]) == [(0, [1], 3.0)]
    assert "A without B holds 3" in privacy_warnings(areas, np.array([500.0, 497, 30]))[0]
    # borders that differ by rounding are one border
    assert found(Polygons([square(0, 0, 1 + 1e-9, 1), square(0, 0, 1, 1)]), [5, 5]) == []


def test_large_differences_noise_and_published_totals_are_no_revelation():
    nested = Intervals([0, 0], [64, 65])
    assert found(nested, [5000, 5011]) == []
    assert found(nested, [5000, 5002], noise=0.5) == []
    assert len(found(nested, [5000, 5002], noise=0.1)) == 1
    assert found(Intervals([0, 0, 64], [64, 65, 65]), [5000, 5002, 2]) == []
    assert found(Intervals([0, 20], [30, 60]), [5, 5]) == []  # they overlap, and nothing follows
    assert privacy_warnings(Intervals(np.zeros(700), np.arange(1.0, 701)), np.arange(700.0)) == ()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=2, max_size=5, unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_said_follows_from_the_cells(spans, data):
    """Brute force over cells: each group is a region without others inside it that lie apart, and each small difference is found."""
    low, high = (np.array(x, dtype=float) for x in zip(*((a, a + w) for a, w in spans), strict=True))
    edges = np.arange(11)
    M = (edges[:-1] >= low[:, None]) & (edges[1:] <= high[:, None])
    cells = np.array(data.draw(st.lists(st.integers(0, 3), min_size=10, max_size=10)), dtype=float)
    y = M @ cells
    groups = found(Intervals(low, high), y)
    for i, inside, total in groups:
        rest = M[i].astype(int) - M[inside].sum(axis=0)
        assert (rest >= 0).all()
        assert total == rest @ cells
    published = {tuple(row) for row in M}
    pairs = [(i, j) for i in range(len(M)) for j in range(len(M)) if i != j and (M[j] <= M[i]).all()]
    small = {i for i, j in pairs if (M[i] & ~M[j]) @ cells <= 10 and tuple(M[i] & ~M[j]) not in published}
    assert small <= {i for i, _, _ in groups}


def test_without_shapely_polygons_are_not_looked_at(monkeypatch):
    """A saved model can be read and asked where polygons cannot be cut."""
    areas = Polygons([square(0, 0, 4, 4), square(0, 0, 4, 3), square(4, 0, 5, 1)])

    def missing():
        raise MissingExtraError("no shapely")

    for module in ("binned.baselines", "data.shapes"):
        monkeypatch.setattr(f"crosslevel.{module}.import_shapely", missing)
    assert shared_volumes(areas, areas) is None
    assert privacy_warnings(areas, np.array([5.0, 5.0, 1.0])) == ()
