import numpy as np
import pytest

from crosslevel.numerics.fused.butterfly import LANES
from crosslevel.numerics.fused.passes import sincos, turn_lines


@pytest.mark.parametrize("reach", [1.0, 30.0, 1e3, 1e4])
def test_sine_and_cosine_are_right_to_1e6(reach: float) -> None:
    x = np.concatenate([np.linspace(-reach, reach, 200_003), np.pi / 2 * np.arange(-600, 600)]).astype(np.float32)
    cosine, sine = np.empty_like(x), np.empty_like(x)
    sincos(x, cosine, sine)
    exact = x.astype(np.float64)
    assert np.abs(cosine - np.cos(exact)).max() < 1e-6
    assert np.abs(sine - np.sin(exact)).max() < 1e-6


def test_zero_is_exact() -> None:
    zero, cosine, sine = np.zeros(3, np.float32), np.empty(3, np.float32), np.empty(3, np.float32)
    sincos(zero, cosine, sine)
    assert (cosine == 1).all()
    assert (sine == 0).all()


def test_turned_lines_are_the_scaled_transpose() -> None:
    rng = np.random.default_rng(0)
    tile = rng.standard_normal((20, LANES)).astype(np.float32)
    scale = rng.standard_normal(7).astype(np.float32)
    rows = np.empty(7 * LANES, dtype=np.float32)
    turn_lines(tile.ravel(), 5, 7, scale, rows)
    np.testing.assert_array_equal(rows.reshape(LANES, 7), (scale[:, None] * tile[5:12]).T)
