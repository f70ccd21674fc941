from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.regions.base import SineBasis
from crosslevel.binned.regions.simplices import Simplices
from crosslevel.errors import InputError

# Made by adaptive quadrature over pairs of triangles; kernel exp(-|x - y|^2), the paper's lengthscale 1
BODIES = {
    "unit_square": [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]],
    "triangle": [[[0, 0], [2, 0], [0.5, 1.5]]],
    "L_shape": [[[0, 0], [2, 0], [2, 1]], [[0, 0], [2, 1], [0, 1]], [[0, 1], [1, 1], [1, 2]], [[0, 1], [1, 2], [0, 2]]],
}
GOLDEN = {
    ("unit_square", "unit_square"): 0.742229989577684,
    ("triangle", "triangle"): 1.3895123773975004,
    ("triangle", "unit_square"): 0.9449676912751929,
}
USUAL = np.full(2, np.sqrt(0.5))


def covariances(pieces):
    x = pieces.lower
    k = np.exp(-((x[:, None] - x) ** 2).sum(axis=2))
    return pieces.gather(pieces.gather(k), axis=1)


@pytest.fixture
def bodies():
    return Simplices(list(BODIES.values()))


def check(K, rtol):
    rows = list(BODIES)
    for (a, b), value in GOLDEN.items():
        assert K[rows.index(a), rows.index(b)] == pytest.approx(value, rel=rtol)


def test_cubature_gives_the_golden_values(bodies):
    check(covariances(bodies.summed_pieces(USUAL)), 1e-8)
    check(covariances(bodies.summed_pieces(0.5 * USUAL)), 1e-11)


@pytest.mark.parametrize(("axis", "rtol"), [(12, 1e-6), (16, 1e-8)])
def test_sines_give_the_golden_values(bodies, axis, rtol):
    """144 features suffice for 1e-6, 256 for 1e-8."""
    index = np.stack(np.meshgrid(np.arange(1, axis + 1), np.arange(1, axis + 1)), axis=-1).reshape(-1, 2)
    basis = SineBasis(np.ones(2), np.full(2, 3.0), index)
    F = bodies.sine_integrals(basis)
    density = np.pi * np.exp(-0.25 * (basis.frequencies**2).sum(axis=1))
    check((F * density) @ F.T, rtol)


def test_three_dimensions_by_three_ways():
    rng = np.random.default_rng(0)
    bodies = Simplices(list(rng.normal(size=(2, 1, 4, 3))))
    k = rng.normal(size=(6, 3))
    exact = bodies.fourier_integrals(k)
    rule = bodies.summed_pieces(np.full(3, 0.7))
    np.testing.assert_allclose(rule.gather(np.exp(1j * rule.lower @ k.T)), exact, atol=1e-8)
    np.testing.assert_allclose(bodies.fourier_integrals(np.zeros((1, 3)))[:, 0], bodies.volumes)


def test_regions_are_a_sequence_and_can_be_saved(bodies, saved):
    some = bodies[[2, 0]]
    np.testing.assert_allclose(some.volumes, bodies.volumes[[2, 0]])
    k = np.array([[1.0, -2.0]])
    np.testing.assert_array_equal(some.fourier_integrals(k), bodies.fourier_integrals(k)[[2, 0]])
    low, high = some.bounds()
    np.testing.assert_array_equal(low, [[0, 0], [0, 0]])
    np.testing.assert_array_equal(high, [[2, 2], [1, 1]])
    back = saved(bodies)
    np.testing.assert_array_equal(back.summed_pieces(USUAL).lower, bodies.summed_pieces(USUAL).lower)
    assert back.labels() == {"region": [0, 1, 2]}


@pytest.mark.parametrize(
    "arguments",
    [
        ([],),
        ([[[[0, 0], [1, 0], [0, 1]]], [[[0, 0, 0]] * 4]],),
        ([[[[0, 0], [1, 1], [2, 2]]]],),
        ([[[[0, 0], [1, np.nan], [2, 2]]]],),
    ],
)
def test_bad_bodies_get_a_sentence(arguments):
    with pytest.raises(InputError):
        Simplices(*arguments)
