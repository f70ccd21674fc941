from __future__ import annotations

import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.numerics.integrals.correlations import reach, spectrum
from crosslevel.numerics.kernels import matern

KERNELS = ["eq", "matern12", "matern32", "matern52"]


def correlation(kernel, r):
    return np.exp(-0.5 * r**2) if kernel == "eq" else matern(r, 1.0, kernel)[0]


@pytest.mark.parametrize("kernel", ["eq", "matern32", "matern52"])
def test_the_density_is_the_transform_of_the_kernel(kernel):
    """Sum the density back over a fine lattice of frequencies: the kernel at a few places."""
    length, step = 1.3, 0.08
    grid = np.arange(-600, 601) * step
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2) / length
    S = spectrum(kernel, w, length)
    for at in np.array([[0.0, 0.0], [0.8, 0.0], [0.5, 1.1]]):
        got = np.sum(S * np.cos(w @ at)) * (step / length) ** 2 / (2 * np.pi) ** 2
        assert got == pytest.approx(float(correlation(kernel, np.hypot(*at) / length)), abs=2e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_isotropic_density_does_not_know_directions(kernel):
    angle = np.linspace(0, 2 * np.pi, 9)
    S = spectrum(kernel, 1.3 * np.column_stack([np.cos(angle), np.sin(angle)]), 0.7)
    np.testing.assert_allclose(S, S[0], rtol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_units_of_the_density(kernel, d):
    w = np.random.default_rng(d).normal(size=(5, d))
    np.testing.assert_allclose(spectrum(kernel, w / 10, 20.0), 10.0**d * spectrum(kernel, w, 2.0))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tolerance", [0.5, 1e-3, 1e-8, 1e-60])
def test_reach_is_where_the_correlation_ends(kernel, tolerance):
    assert float(correlation(kernel, np.array(reach(kernel, tolerance)))) == pytest.approx(tolerance, rel=1e-6)


def test_unknown_names_get_a_sentence():
    with pytest.raises(InputError, match="kernel="):
        spectrum("matern", np.zeros((1, 2)), 1.0)
    with pytest.raises(InputError, match="kernel="):
        reach("x", 0.1)
