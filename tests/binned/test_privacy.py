"""Small groups that differences of totals give away: every one that linear algebra finds, and no other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslevel.binned import BinnedGP, Boxes, Intervals, Polygons, WeightedSum, stack
from crosslevel.binned.baselines import shared_volumes
from crosslevel.binned.privacy import atoms_of, privacy_warnings, revealed_groups
from crosslevel.errors import CrosslevelWarning, MissingExtraError

pytest.importorskip("shapely")


def square(a, b, c, d):
    return [[a, b], [c, b], [c, d], [a, d]]


def said(regions, y, noise=1e-6):
    return [(r.description, r.total) for r in revealed_groups(regions, np.asarray(y, dtype=float), noise)]


def test_nested_overlapping_and_shared():
    assert said(Intervals([0, 0], [64, 65]), [5000, 5002]) == [("[64, 65)", 2.0)]
    # the difference is cut by a third region, so that no single cell of it is known
    assert said(Intervals([0, 0, 10], [64, 66, 65]), [5000, 5004, 4000]) == [("[64, 66)", 4.0)]
    # what two regions share follows from the whole
    assert said(Intervals([0, 20, 0], [30, 60, 60]), [400, 300, 695]) == [("[20, 30)", 5.0)]
    # a whole less all of its parts, in two places
    assert said(Intervals([0, 2, 50], [60, 48, 60]), [90, 60, 23]) == [("[0, 2) and [48, 50)", 7.0)]


def test_totals_of_millions_hide_nobody():
    assert said(Intervals([0, 0], [64, 65]), [8e6, 8e6 + 3]) == [("[64, 65)", 3.0)]


def test_a_long_chain_of_nested_totals():
    ends = np.arange(40, 70)
    found = said(Intervals(np.zeros(30), ends), 5000.0 + 3 * np.arange(30))
    assert sorted(words for words, _ in found) == [f"[{e}, {e + 1})" for e in ends[:-1]]
    assert {total for _, total in found} == {3.0}


def test_large_differences_noise_and_published_totals_are_no_revelation():
    assert said(Intervals([0, 0], [64, 65]), [5000, 5011]) == []
    assert said(Intervals([0, 0], [64, 65]), [5000, 5002], noise=0.5) == []
    assert said(Intervals([0, 0], [64, 65]), [5000, 5002], noise=0.1) == [("[64, 65)", 2.0)]
    assert said(Intervals([0, 0, 64], [64, 65, 65]), [5000, 5002, 2]) == []
    assert said(Intervals([0, 64], [64, 65]), [5000, 2]) == []
    assert said(Intervals([0, 20], [30, 60]), [5, 5]) == []  # they overlap, and nothing follows


def test_boxes_categories_and_open_ends():
    ring = Boxes([[0, 0], [1, 1]], [[4, 4], [2, 2]])
    assert said(ring, [500, 497]) == [("what only row 0 has", 3.0)]
    side = Boxes([[0, 0], [0, 0]], [[4, 4], [4, 3]])
    assert said(side, [500, 497]) == [("[0, 4) x [3, 4)", 3.0)]
    either = WeightedSum(Boxes([[0, 0], [0, 1]], [[40, 0], [40, 1]], point_axes=[1]), [1, 1])
    women = Boxes([[0, 1]], [[40, 1]], point_axes=[1])
    assert said(stack(either, women), [320, 317]) == [("[0, 40) x 0", 3.0)]
    ends = Intervals([0, 0, 85], [85, 90, np.inf], open_ended=True)
    assert said(ends, [500, 504, 30]) == [("[85, 90)", 4.0)]
    assert said(WeightedSum(Intervals([0, 0], [64, 65]), [0.5, 1.0], owner=[0, 1]), [500, 502]) == []
    assert atoms_of(stack(Intervals([0, 0], [64, 65]), [3.0])) is None


def test_polygons():
    areas = Polygons([square(0, 0, 4, 4), square(1, 1, 2, 2), square(3, 3, 6, 6)], names=["A", "B", "C"])
    assert said(areas, [500, 497, 30]) == [("'A' without the 1 region(s) inside it", 3.0)]
    halves = stack(Polygons([square(0, 0, 4, 4)]), Polygons([square(0, 0, 4, 2), square(0, 2, 4, 3.9)]))
    assert said(halves, [500, 300, 197]) == [("what only row 0 has", 3.0)]
    apart = Polygons([square(0, 0, 1, 1), square(1, 0, 2, 1), square(0, 1, 2, 2)])
    assert atoms_of(apart) is None
    # borders that differ by rounding are one border
    nearly = Polygons([square(0, 0, 1 + 1e-9, 1), square(1, 0, 2, 1)])
    assert atoms_of(nearly) is None
    people = WeightedSum.of_population(Polygons([square(0, 0, 1, 1), square(1, 0, 2, 1)]), [10, 20], owner=[0, 0])
    part = WeightedSum.of_population(Polygons([square(0, 0, 1, 1)]), [10])
    assert said(stack(people, part), [30, 28]) == [("what only row 0 has", 2.0)]


def test_a_fit_to_polygons_warns():
    areas = Polygons([square(0, 0, 4, 4), square(0, 0, 4, 3)], names=["town", "center"])
    model = BinnedGP(variance=1.0, lengthscale=3.0, noise=1e-3, mean=30.0)
    with pytest.warns(CrosslevelWarning):
        model.fit(areas, [500.0, 496.0], quantity="total")
    assert not any("privacy" in n for n in model.fit(areas, [31.0, 32.0], quantity="mean").warnings_)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=2, max_size=5, unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_said_follows_and_atoms_that_follow_are_said(spans, data):
    """Brute force: every way to fill the cells that gives the same totals gives what was said the same total."""
    low, high = (np.array(x, dtype=float) for x in zip(*((a, a + w) for a, w in spans), strict=True))
    edges = np.arange(11)
    M = ((edges[:-1] >= low[:, None]) & (edges[1:] <= high[:, None])).astype(float)
    cells = np.array(data.draw(st.lists(st.integers(0, 3), min_size=10, max_size=10)), dtype=float)
    y = M @ cells
    patterns = np.unique(M[:, M.any(axis=0)], axis=1).T
    rank = np.linalg.matrix_rank(M)
    published = {tuple(row) for row in M}
    follow = 0
    for pattern in patterns:
        u = (pattern == M.T).all(axis=1).astype(float)  # all cells of the atom
        if np.linalg.matrix_rank(np.vstack([M, u])) == rank and tuple(u) not in published and u @ cells <= 10:
            follow += 1
    found = revealed_groups(Intervals(low, high), y)
    said_cells = 0
    for r in found:
        spans_said = [tuple(float(v) for v in part.strip("[)").split(",")) for part in r.description.split(" and ")]
        u = np.array([any(a <= e and e + 1 <= b for a, b in spans_said) for e in edges[:-1]], dtype=float)
        assert np.linalg.matrix_rank(np.vstack([M, u])) == rank
        assert u @ cells == pytest.approx(r.total, abs=1e-5)
        said_cells += any((u == (p == M.T).all(axis=1)).all() for p in patterns)
    assert said_cells == follow


def test_large_problems_are_left_alone():
    low = np.array(list(product(range(12), repeat=4)), dtype=float)
    assert atoms_of(Boxes(low[:300], low[:300] + 1.5)) is None
    assert privacy_warnings(Intervals(np.zeros(700), np.arange(1.0, 701)), np.arange(700.0)) == ()


def test_without_shapely_polygons_are_not_looked_at(monkeypatch):
    """A saved model can be read and asked where polygons cannot be cut."""
    areas = Polygons([square(0, 0, 4, 4), square(0, 0, 4, 3), square(4, 0, 5, 1)])

    def missing():
        raise MissingExtraError("no shapely")

    for module in ("binned.privacy", "binned.baselines", "data.shapes"):
        monkeypatch.setattr(f"crosslevel.{module}.import_shapely", missing)
    assert atoms_of(areas) is None
    assert shared_volumes(areas, areas) is None
