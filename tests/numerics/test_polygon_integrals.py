"""Edge sums against cubature, against boxes in closed form, and under every change that must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslevel.numerics.polygon_integrals import polygon_areas, polygon_fourier, polygon_sines, ring_edges
from crosslevel.numerics.simplex_integrals import cubature, simplex_fourier

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
ELL = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.0, 2.0]])
WAVES = np.array(
    [[0.0, 0.0], [1e-9, 2e-9], [1e-4, 0.0], [0.3, -0.2], [0.6, 0.0], [3.0, 4.0], [0.0, -7.0], [40.0, 31.0]]
)


def star(seed: int, corners: int = 9) -> np.ndarray:
    """A polygon that does not cross itself: corners at rising angles."""
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0, 2 * np.pi, corners))
    angle += np.arange(corners) * 1e-3
    return np.column_stack([np.cos(angle), np.sin(angle)]) * rng.uniform(0.4, 1.0, corners)[:, None]


def edges_of(*rings: np.ndarray):
    return ring_edges([[list(rings)]])


def box_wave(low, high, k):
    """The integral over a box: a product of one-dimensional ones, sinc about the middle."""
    low, high = np.asarray(low), np.asarray(high)
    return np.prod((high - low) * np.sinc(k * (high - low) / (2 * np.pi)), axis=1) * np.exp(
        1j * k @ (0.5 * (low + high))
    )


def test_a_box_has_its_closed_form():
    np.testing.assert_allclose(
        polygon_fourier(edges_of(SQUARE), WAVES)[0], box_wave([0, 0], [1, 1], WAVES), rtol=0, atol=3e-15
    )


@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 1e4])
def test_small_and_large_phases_meet(size):
    """|k| r runs across the change of formula; both sides must agree with the box, relative to its area."""
    k = np.column_stack([np.geomspace(1e-6, 1e2, 200), np.geomspace(1e2, 1e-6, 200)]) / size
    k = np.vstack([k, k * [1, -1], np.geomspace(1e-3, 3, 50)[:, None] * [0.6, 0.8] / size])
    got = polygon_fourier(edges_of(SQUARE * size), k)[0] / size**2
    np.testing.assert_allclose(got, box_wave([0, 0], [size, size], k) / size**2, rtol=0, atol=2e-14)


def test_holes_and_parts_are_signed_rings():
    hole = 0.2 + 0.3 * SQUARE
    far = SQUARE + 5.0
    edges = ring_edges([[[SQUARE, hole], [far]]])
    truth = box_wave([0, 0], [1, 1], WAVES) - box_wave([0.2, 0.2], [0.5, 0.5], WAVES) + box_wave([5, 5], [6, 6], WAVES)
    np.testing.assert_allclose(polygon_fourier(edges, WAVES)[0], truth, rtol=0, atol=2e-14)
    assert polygon_areas(edges)[0] == pytest.approx(1.91, rel=1e-14)


@given(st.integers(0, 10_000))
def test_triangles_agree_with_divided_differences(seed):
    """Two formulas with nothing in common: edges, and the exponential of a bidiagonal matrix."""
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(1, 3, 2))
    k = rng.normal(size=(30, 2)) * np.exp(rng.uniform(-10, 4, 30))[:, None]
    edges = edges_of(corners[0])
    gap = np.abs(polygon_fourier(edges, k) - simplex_fourier(corners, [0], 1, k)).max()
    perimeter = np.linalg.norm(edges.stop - edges.start, axis=1).sum()
    assert gap < 1e-12 * max(polygon_areas(edges)[0], 1e-3 * perimeter**2)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_direction_start_and_closing_of_a_ring_do_not_matter(seed, backwards, closed):
    ring = star(seed)
    other = np.roll(ring, seed % 7, axis=0)
    other = other[::-1] if backwards else other
    other = np.vstack([other, other[:1]]) if closed else other
    np.testing.assert_allclose(
        polygon_fourier(edges_of(other), WAVES), polygon_fourier(edges_of(ring), WAVES), rtol=0, atol=1e-14
    )


@given(st.integers(0, 10_000), st.floats(0.0, 6.3))
def test_turning_polygon_and_wave_together_changes_nothing(seed, angle):
    ring = star(seed)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    np.testing.assert_allclose(
        polygon_fourier(edges_of(ring @ turn.T), WAVES @ turn.T),
        polygon_fourier(edges_of(ring), WAVES),
        rtol=0,
        atol=1e-13,
    )


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_units(seed, unit):
    ring = star(seed)
    got = polygon_fourier(edges_of(ring * unit), WAVES / unit) / unit**2
    np.testing.assert_allclose(got, polygon_fourier(edges_of(ring), WAVES), rtol=0, atol=1e-13)


def test_moving_a_polygon_turns_the_phase_only():
    far = np.array([3e5, -4e5])
    moved = polygon_fourier(edges_of(ELL + far), WAVES[:5])[0]
    still = polygon_fourier(edges_of(ELL), WAVES[:5])[0]
    # the corners themselves are only known to 1e-10 there
    np.testing.assert_allclose(np.abs(moved), np.abs(still), atol=1e-9)


def test_parts_add_up_to_the_whole():
    """Cut the L along a line that is no edge."""
    left = np.array([[0.0, 0.0], [0.7, 0.0], [0.7, 2.0], [0.0, 2.0]])
    right = np.array([[0.7, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.7, 2.0]])
    whole = polygon_fourier(edges_of(ELL), WAVES)
    parts = polygon_fourier(edges_of(left), WAVES) + polygon_fourier(edges_of(right), WAVES)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-14)


INDEX = np.stack(np.meshgrid(np.arange(1, 20), np.arange(1, 17), indexing="ij"), axis=-1).reshape(-1, 2)


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
    np.testing.assert_array_equal(polygon_fourier(both, WAVES)[1], polygon_fourier(edges_of(ELL), WAVES)[0])
    np.testing.assert_allclose(polygon_areas(both), [1.0, 3.0])
