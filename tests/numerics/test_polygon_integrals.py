"""Edge sums against cubature, against boxes in closed form, and under every change that must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslevel.numerics.polygon_integrals import polygon_areas, polygon_sines, ring_edges
from crosslevel.numerics.simplex_integrals import cubature

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
ELL = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.0, 2.0]])
INDEX = np.stack(np.meshgrid(np.arange(1, 20), np.arange(1, 17), indexing="ij"), axis=-1).reshape(-1, 2)
LOW, WIDTH = np.array([-1.5, -2.0]), np.array([9.0, 10.0])


def star(seed: int, corners: int = 9) -> np.ndarray:
    """A polygon that does not cross itself: corners at rising angles."""
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0, 2 * np.pi, corners))
    angle += np.arange(corners) * 1e-3
    return np.column_stack([np.cos(angle), np.sin(angle)]) * rng.uniform(0.4, 1.0, corners)[:, None]


def edges_of(*rings: np.ndarray):
    return ring_edges([[list(rings)]])


def of(edges, low=LOW, width=WIDTH):
    return polygon_sines(edges, low, width, INDEX)


def box_sines(low, high):
    """The integrals over a box: products of differences of cosines, written as sines about the middle."""
    w, middle, side = np.pi * INDEX / WIDTH, 0.5 * (np.asarray(low) + high) - LOW, np.asarray(high) - low
    along = side * np.sinc(side * w / (2 * np.pi)) * np.sin(middle * w)
    return 2 / np.sqrt(WIDTH.prod()) * along.prod(axis=1)


@pytest.mark.parametrize("size", [1e-8, 1e-3, 0.02, 0.1, 0.4, 1.0, 5.0])
def test_small_and_large_phases_meet(size):
    """|k| r runs across the change of formula; both sides must agree with the box, relative to its area."""
    got = of(edges_of(SQUARE * size))[0] / size**2
    np.testing.assert_allclose(got, box_sines([0, 0], [size, size]) / size**2, rtol=0, atol=2e-14)


def test_holes_and_parts_are_signed_rings():
    edges = ring_edges([[[SQUARE, 0.2 + 0.3 * SQUARE], [SQUARE + 5.0]]])
    truth = box_sines([0, 0], [1, 1]) - box_sines([0.2, 0.2], [0.5, 0.5]) + box_sines([5, 5], [6, 6])
    np.testing.assert_allclose(of(edges)[0], truth, rtol=0, atol=2e-14)
    assert polygon_areas(edges)[0] == pytest.approx(1.91, rel=1e-14)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_direction_start_and_closing_of_a_ring_do_not_matter(seed, backwards, closed):
    ring = star(seed)
    other = np.roll(ring, seed % 7, axis=0)
    other = other[::-1] if backwards else other
    other = np.vstack([other, other[:1]]) if closed else other
    np.testing.assert_allclose(of(edges_of(other)), of(edges_of(ring)), rtol=0, atol=1e-14)


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_units(seed, unit):
    ring = star(seed)
    got = of(edges_of(ring * unit), LOW * unit, WIDTH * unit) / unit
    np.testing.assert_allclose(got, of(edges_of(ring)), rtol=0, atol=1e-13)


def test_moving_polygon_and_box_together_changes_nothing():
    far = np.array([3e5, -4e5])
    # the corners themselves are only known to 1e-10 there
    np.testing.assert_allclose(of(edges_of(ELL + far), LOW + far), of(edges_of(ELL)), atol=1e-9)


def test_parts_add_up_to_the_whole():
    """Cut the L along a line that is no edge."""
    left = np.array([[0.0, 0.0], [0.7, 0.0], [0.7, 2.0], [0.0, 2.0]])
    right = np.array([[0.7, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.7, 2.0]])
    np.testing.assert_allclose(of(edges_of(left)) + of(edges_of(right)), of(edges_of(ELL)), rtol=0, atol=1e-14)


def sines(x, lower, width, index):
    w = np.pi * index / width
    return (
        2 / np.sqrt(np.prod(width)) * np.sin((x[:, :1] - lower[0]) * w[:, 0]) * np.sin((x[:, 1:] - lower[1]) * w[:, 1])
    )


@pytest.mark.parametrize("shrink", [1.0, 1e-2, 1e-5])
def test_sines_agree_with_cubature(shrink):
    """Down to polygons so small that every frequency uses the series."""
    triangles = np.array(
        [[[0, 0], [2, 0], [2, 1]], [[0, 0], [2, 1], [0, 1]], [[0, 1], [1, 1], [1, 2]], [[0, 1], [1, 2], [0, 2]]]
    )
    low, width = np.array([-1.0, -2.0]), np.array([4.5, 5.0])
    rule = cubature(triangles * shrink, np.zeros(4, dtype=int), 30)
    truth = rule.weight @ sines(rule.x, low, width, INDEX)
    got = polygon_sines(edges_of(ELL * shrink), low, width, INDEX)[0]
    np.testing.assert_allclose(got / shrink**2, truth / shrink**2, rtol=0, atol=5e-14)


def test_sines_of_the_whole_box_are_known():
    """Only odd numbers have an integral over their whole box: 2 (W1 W2)^(1/2) (2 / pi)^2 / (j k)."""
    width = np.array([3.0, 0.5])
    got = polygon_sines(edges_of(SQUARE * width), np.zeros(2), width, INDEX)[0]
    odd = (INDEX % 2 == 1).all(axis=1)
    truth = np.where(odd, 2 * np.sqrt(width.prod()) * (2 / np.pi) ** 2 / INDEX.prod(axis=1), 0.0)
    np.testing.assert_allclose(got, truth, atol=1e-15)


def test_several_polygons_stay_apart():
    both = ring_edges([[[SQUARE]], [[ELL]]])
    np.testing.assert_array_equal(of(both)[1], of(edges_of(ELL))[0])
    np.testing.assert_allclose(polygon_areas(both), [1.0, 3.0])
