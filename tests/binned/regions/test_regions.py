"""Regions: every kind integrates waves as the sum of its boxes does; limits are checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslevel.binned import Boxes, Intervals, Points, WeightedSum, stack
from crosslevel.binned.regions.base import Pieces, SineBasis
from crosslevel.binned.regions.boxes import as_regions
from crosslevel.errors import InputError
from crosslevel.results.display import describe_interval


def kinds():
    bins = Intervals([0.0, 0.5, 2.0], [0.7, 3.0, 2.2])
    boxes = Boxes([[0.0, 0.0], [0.5, -1.0]], [[1.0, 0.5], [2.0, 1.0]])
    slices = Boxes([[1.0, 0.0], [2.0, 0.5]], [[1.0, 0.4], [2.0, 2.0]], point_axes=[0])
    return {
        "intervals": bins,
        "boxes": boxes,
        "slices": slices,
        "points": Points([[0.3, 1.0], [2.0, 0.1]]),
        "weighted": WeightedSum(bins, [2.0, -1.0, 3.0], owner=[0, 1, 0]),
        "stack": stack(boxes, [[0.2, 0.3]], slices),
    }


KINDS = kinds()


def by_points(pieces):
    """Sum boxes over 24 Gauss-Legendre points an axis; an axis without width has the one."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    x, w, owner = [], [], []
    for low, high, weight, row in zip(pieces.lower, pieces.upper, pieces.weight, pieces.owner, strict=True):
        axes = [
            ([a], [1.0]) if a == b else ((a + b + (b - a) * nodes) / 2, (b - a) / 2 * weights)
            for a, b in zip(low, high, strict=True)
        ]
        at = np.stack(np.meshgrid(*(x for x, _ in axes), indexing="ij"), axis=-1).reshape(-1, len(low))
        x.append(at)
        w.append(
            weight * np.prod(np.stack(np.meshgrid(*(w for _, w in axes), indexing="ij"), axis=-1), axis=-1).ravel()
        )
        owner.append(np.full(len(at), row))
    return Pieces.points(np.concatenate(x), np.concatenate(w), np.concatenate(owner), pieces.n)


def sines(basis, x):
    """Evaluate the functions of a basis at the rows of x."""
    at = (x - basis.center + basis.half_width)[:, None] * basis.frequencies
    return (np.sin(at) / np.sqrt(basis.half_width)).prod(axis=2)


@pytest.mark.parametrize("name", KINDS)
def test_waves_are_summed_over_pieces(name):
    regions = KINDS[name]
    d = regions.dimension
    points = by_points(regions.pieces())
    basis = SineBasis(np.full(d, 0.7), np.full(d, 4.0), np.array([[1] * d, [3, 2][:d], [5, 1][:d]]))
    np.testing.assert_allclose(regions.sine_integrals(basis), points.gather(sines(basis, points.lower)), atol=1e-7)


@pytest.mark.parametrize("name", KINDS)
def test_pieces_volumes_bounds_and_rows(name):
    regions = KINDS[name]
    pieces = regions.pieces()
    width = pieces.upper - pieces.lower
    extent = np.prod(np.where(width > 0, width, 1.0), axis=1)
    np.testing.assert_allclose(pieces.gather(extent), regions.volumes, rtol=1e-14)
    lower, upper = regions.bounds()
    assert (pieces.lower >= lower[pieces.owner] - 1e-12).all()
    assert (pieces.upper <= upper[pieces.owner] + 1e-12).all()
    for rows in ([1], slice(0, 2), [1, 0, 1], np.arange(len(regions)) > 0):
        some = regions[rows]
        np.testing.assert_array_equal(some.volumes, regions.volumes[rows])
        np.testing.assert_array_equal(some.bounds()[0], lower[rows])
    assert len(regions[0]) == 1
    assert len(next(iter(regions.labels().values()))) == len(regions)


@pytest.mark.parametrize("name", KINDS)
def test_saved_form(name, saved):
    regions = KINDS[name]
    back = saved(regions)
    assert type(back) is type(regions)
    np.testing.assert_array_equal(back.volumes, regions.volumes)
    np.testing.assert_array_equal(back.pieces().lower, regions.pieces().lower)


def test_a_population_counts_people():
    wards = Intervals.from_edges([0.0, 1.0, 5.0, 6.0])
    towns = WeightedSum.of_population(wards, [10, 200, 30], owner=[1, 0, 0])
    np.testing.assert_allclose(towns.volumes, [230, 10])
    assert towns.bounds()[0].ravel().tolist() == [1.0, 0.0]
    # the weighted mean of x is the mean of the wards' centers by people
    points = by_points(towns.pieces())
    np.testing.assert_allclose(points.gather(points.lower[:, 0]) / towns.volumes, [(200 * 3 + 30 * 5.5) / 230, 0.5])


def test_gaps_and_overlaps():
    bins = Intervals([10, 0, 30, 12], [20, 10, 40, 15])
    assert bins.gaps() == [(20.0, 30.0)]
    assert bins.overlaps() == [(0, 3)]
    assert repr(bins) == "<Intervals: 4 regions in 1 dimension>"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Intervals([0, 5], [1, 2]),
        lambda: Intervals([0, 5], [1, 5]),
        lambda: Intervals([0, np.nan], [1, 5]),
        lambda: Intervals([0, 85], [85, np.inf]),
        lambda: Intervals([0], [1, 2]),
        lambda: Intervals([], []),
        lambda: Intervals(["a"], [1]),
        lambda: Intervals.from_edges([0, 2, 2]),
        lambda: Intervals.from_edges([0]),
        lambda: Boxes([[0, 1]], [[1, 1]]),
        lambda: Boxes([[0, 1]], [[1, 1]], point_axes=[0]),
        lambda: Boxes([[0, 1]], [[1, 1]], point_axes=[2]),
        lambda: Boxes([[2, 1]], [[1, 4]]),
        lambda: Boxes([0], [1]),
        lambda: Points([]),
        lambda: Points([np.inf]),
        lambda: Points(3.0),
        lambda: WeightedSum([1.0, 2.0], [1.0]),
        lambda: WeightedSum([1.0, 2.0], [1.0, 1.0], owner=[0, 2]),
        lambda: WeightedSum([1.0, 2.0], [1.0, 1.0], owner=[0, 0.5]),
        lambda: WeightedSum.of_population([1.0, 2.0], [1.0, -1.0]),
        lambda: WeightedSum.of_population([1.0, 2.0], [1.0]),
        lambda: stack(Intervals([0], [1]), [[1.0, 2.0]]),
        lambda: stack(),
        lambda: as_regions(([0], [1])),
        lambda: as_regions("ages"),
        lambda: as_regions(["0-4", "5-9"]),
        lambda: Intervals([0, 5, 85], [None, 85, None], open_ended=True),
        lambda: Intervals([None, 5], [5, 85]),
        lambda: as_regions([1.0], dimension=2),
    ],
)
def test_bad_input(make):
    with pytest.raises(InputError):
        make()


def test_a_missing_outer_limit_is_an_open_end():
    found = Intervals([65, None, 85, 85], [85, 65, None, None], open_ended=True)
    assert found.lower.tolist() == [65, -np.inf, 85, 85]
    assert found.upper.tolist() == [85, 65, np.inf, np.inf]
    assert found.open_ended


@pytest.mark.parametrize(
    ("group", "lower", "upper"),
    [
        ("18-25", 18, 26),
        ("18 to 25 years", 18, 26),
        ("18 and 19 years", 18, 20),
        ("18 to under 25", 18, 25),
        ("Ages 5–9", 5, 10),
        ("Under 5 years", 0, 5),
        ("<1", 0, 1),
        ("85 years and over", 85, np.inf),
        ("90+", 90, np.inf),
        (30, 30, 31),
        (30.0, 30, 31),
    ],
)
def test_ages_have_both_ends_included(group, lower, upper):
    found = Intervals.ages(group)
    assert (found.lower.tolist(), found.upper.tolist()) == ([lower], [upper])
    assert found.open_ended == np.isinf(upper)


@given(st.integers(0, 120), st.integers(1, 40), st.sampled_from(["closed", "open", "under"]))
def test_printed_bins_are_read_back(first, years, kind):
    low, high = (None if kind == "under" else first), (None if kind == "open" else first + years)
    found = Intervals.ages(describe_interval(low, high))
    assert (found.lower[0], found.upper[0]) == (0 if low is None else low, np.inf if high is None else high)
