import numpy as np
import pytest
from scipy.linalg import hadamard

from crosslevel.numerics.features.maps import fwht
from crosslevel.numerics.fused.butterfly import LANES, hadamard_gathered, hadamard_lines


@pytest.mark.parametrize("bits", range(14))
def test_interleaved_transform_equals_the_reference(bits: int) -> None:
    tile = np.random.default_rng(bits).standard_normal((1 << bits, LANES)).astype(np.float32)
    expected = fwht(tile.T).T
    flat = tile.ravel().copy()
    hadamard_lines(flat, bits)
    error = np.abs(flat.reshape(tile.shape) - expected).max()
    assert error <= 2e-6 * np.abs(expected).max()


def test_integers_come_out_exactly() -> None:
    tile = np.random.default_rng(0).integers(-8, 9, (512, LANES)).astype(np.float32)
    flat = tile.ravel().copy()
    hadamard_lines(flat, 9)
    np.testing.assert_array_equal(flat.reshape(tile.shape), hadamard(512) @ tile)


@pytest.mark.parametrize("bits", range(9))
def test_gathered_transform_gives_the_first_rows_of_h_scale_permutation(bits: int) -> None:
    rng = np.random.default_rng(1)
    width = 256
    tile = rng.standard_normal((width, LANES)).astype(np.float32)
    order = rng.permutation(width).astype(np.int32)
    scale = rng.standard_normal(width).astype(np.float32)
    target = np.zeros((1 << bits) * LANES, dtype=np.float32)
    hadamard_gathered(tile.ravel(), order, scale, width, target, bits)
    expected = (hadamard(width) @ (scale[:, None].astype(float) * tile[order]))[: 1 << bits]
    np.testing.assert_allclose(target.reshape(-1, LANES), expected, rtol=0, atol=2e-6 * np.abs(expected).max())
