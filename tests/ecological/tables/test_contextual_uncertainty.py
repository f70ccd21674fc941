"""Do draws move with the doubt about context, and stay between their bounds and margins?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.ecological.tables.contextual_effect import balanced_normal, moved_along

LOW, HIGH = np.full((2, 2), 1.0), np.full((2, 2), 8.0)
TURN = np.array([[1.0, -1.0], [-1.0, 1.0]])


def within(found, draws, low, high):
    np.testing.assert_allclose(found.sum(axis=1), draws.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=2), draws.sum(axis=2), rtol=1e-9)
    return bool((found >= low).all() and (found <= high).all())


def test_small_moves_are_by_the_slope():
    draws = np.array([[[400.0, 600.0], [500.0, 500.0]]])
    for z in (0.01, -0.01):
        moved = moved_along(draws, 50 * TURN, np.array([z]), np.zeros((2, 2)), np.full((2, 2), 1000.0))
        np.testing.assert_allclose(moved - draws, 50 * z * TURN[None], rtol=2e-3)
    np.testing.assert_array_equal(moved_along(draws, 0 * TURN, np.ones(1), 0 * LOW, 1000 * HIGH), draws)


@pytest.mark.parametrize("z", [0.5, -0.5, 3.0, -3.0, 40.0, -40.0])
def test_large_moves_end_inside_the_bounds_and_keep_the_sums(z):
    draws = np.array([[[4.0, 6.0], [5.0, 5.0]], [[1.0, 8.0], [8.0, 2.0]], [[8.0, 2.0], [1.0, 8.0]]])
    moved = moved_along(draws, 2 * TURN, np.full(3, z), LOW, HIGH)
    assert within(moved, draws, LOW, HIGH)
    change = moved[0, 0, 0] - draws[0, 0, 0]
    assert np.sign(change) == np.sign(z)
    assert abs(change) > 0.4


def test_cells_that_are_known_for_sure_hold_nobody_back():
    """A group that lives alone is certain, and its slope is rounding noise: the others must still move."""
    noise = 1 + 1e-15 * np.random.default_rng(0).normal(size=(50, 3, 2))
    draws = np.array([[[400.0, 600.0], [500.0, 500.0], [30.0, 70.0]]]) * noise
    low, high = (
        np.array([[0.0, 0.0], [0.0, 0.0], [30.0, 70.0]]),
        np.array([[900.0, 900.0], [900.0, 900.0], [30.0, 70.0]]),
    )
    slope = np.array([[50.0, -50.0], [-50.0, 50.0], [1e-14, -1e-14]])
    moved = moved_along(draws, slope, np.ones(50), low, high)
    np.testing.assert_allclose(moved[:, 0, 0], 450.0, rtol=0.01)
    np.testing.assert_array_equal(moved[:, 2], np.tile(low[2], (50, 1)))


@pytest.mark.parametrize("n", [4000, 7, 1])
def test_doubts_cancel_and_are_normal(n):
    z = balanced_normal(n, 0)
    assert len(z) == n
    assert abs(z.sum()) < 1e-9
    if n > 100:
        assert z.std() == pytest.approx(1.0, abs=0.05)
        assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.05
